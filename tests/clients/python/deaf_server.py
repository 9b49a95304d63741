"""A daemon that has stopped: it reads nothing of what clients send."""

import contextlib
import socket
import tempfile
import threading

# Over HTTP/2: SETTINGS by which any number of bytes may come, of a stream and,
# after them, of all; and that the client's are taken.
_ROOM = (b"\0\0\6\4\0\0\0\0\0" b"\0\4\x7f\xff\xff\xff"
         b"\0\0\4\x08\0\0\0\0\0" b"\x7f\xff\0\0"
         b"\0\0\0\4\1\0\0\0\0")


@contextlib.contextmanager
def deaf_server():
    """Lets a client send all it has, over a Unix socket that nobody reads."""
    with tempfile.TemporaryDirectory() as folder, \
            socket.socket(socket.AF_UNIX) as listener, \
            contextlib.ExitStack() as accepted:
        listener.bind(f"{folder}/socket")
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    accepted.enter_context(client)
                    client.sendall(_ROOM)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"unix:{folder}/socket"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
