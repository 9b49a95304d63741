"""A daemon that falls silent while a call waits for it, without a timeout, or
stops reading what a call with one sends."""

import contextlib
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import gemmd
import numpy as np
from both_clients import both_clients
from fake_daemon import FakeDaemon
from gemmd import api, arrays

# A greeting: SETTINGS without any, and that the client's are taken.
_SETTINGS = b"\0\0\0\4\0\0\0\0\0" b"\0\0\0\4\1\0\0\0\0"


class SilentServer:
    """Greets clients over HTTP/2, reads what they send, and says no more."""

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self._socket.close()

    def _serve(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            client.sendall(_SETTINGS)
            threading.Thread(target=self._read, args=(client,),
                             daemon=True).start()

    @staticmethod
    def _read(client):
        with client:
            while client.recv(65536):
                pass


# The same, and that any number of bytes may come: of a stream, and of all.
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


class StallingDaemon(FakeDaemon):
    """Takes no upload and deletes nothing until `goes_on`; a tensor is made in
    0.1 s."""

    def __init__(self):
        super().__init__()
        self.goes_on = threading.Event()

    def _create(self, request):
        time.sleep(0.1)
        return super()._create(request)

    def _upload(self, requests, context):
        self.goes_on.wait(60)
        return super()._upload(requests, context)

    def _delete(self, request):
        self.goes_on.wait(60)
        return super()._delete(request)


class SilenceTest(unittest.TestCase):
    def test_who_waits_for_an_answer_learns_that_none_comes(self):
        short = tuple((name, 300 if value == gemmd.connections.SILENCE_MS
                       else value)
                      for name, value in gemmd.connections.CHANNEL_OPTIONS)
        with SilentServer() as server, \
                mock.patch("gemmd.blocking_caller.CHANNEL_OPTIONS", short), \
                mock.patch("gemmd.aio_caller.CHANNEL_OPTIONS", short):
            for client in both_clients(server.target):
                ended = threading.Event()

                def call(client=client, ended=ended):
                    try:
                        client.info()
                    except gemmd.Unavailable:
                        ended.set()

                threading.Thread(target=call, daemon=True).start()
                with self.subTest(client):
                    self.assertTrue(ended.wait(20), "it waits for ever")

    def test_a_timeout_ends_calls_that_nobody_reads(self):
        large = np.ones((1024, 1024), np.float32)
        info = api.TensorInfo(
            handle="h", dtype=arrays.wire_type(large.dtype), rows=1024,
            columns=1024, order=api.ROW_MAJOR)

        def upload(client):
            gemmd.Tensor(client, info).upload(large, timeout=0.2)

        def multiply(client):
            client.matmul(large, large, timeout=0.2)

        for act in upload, multiply:
            # Whose end waits for that of the connection.
            with self.subTest(act.__name__), contextlib.ExitStack() as clients:
                ended = threading.Event()
                with deaf_server() as target:
                    client = clients.enter_context(gemmd.Client(target))

                    def call(act=act, client=client, ended=ended):
                        try:
                            act(client)
                        except gemmd.DeadlineExceeded:
                            ended.set()

                    threading.Thread(target=call, daemon=True).start()
                    self.assertTrue(ended.wait(20), "it waits for ever")

    def test_the_timeout_of_a_tensor_is_that_of_both_its_calls(self):
        with StallingDaemon() as daemon, \
                mock.patch("gemmd.Tensor.upload") as upload, \
                mock.patch("gemmd.AsyncTensor.upload") as upload_by_aio:
            for client in both_clients(daemon.target):
                client.tensor(np.ones((2, 2), np.float32), timeout=60)
        for each in upload, upload_by_aio:
            self.assertLess(each.call_args.kwargs["timeout"], 59.95)

    def test_what_is_left_of_a_tensor_is_not_waited_for(self):
        with StallingDaemon() as daemon, \
                mock.patch("gemmd.client.CLEANING_S", 0.1), \
                mock.patch("gemmd.aio_caller._CLEANING_S", 0.1):
            for client in both_clients(daemon.target):
                daemon.goes_on.clear()
                gives_up = threading.Timer(20, daemon.goes_on.set)
                gives_up.start()
                with self.subTest(client):
                    with self.assertRaises(gemmd.DeadlineExceeded):
                        client.tensor(np.ones((2, 2), np.float32), timeout=0.5)
                    self.assertFalse(daemon.goes_on.is_set())
                gives_up.cancel()
                daemon.goes_on.set()

    def test_a_daemon_is_not_asked_too_often(self):
        options = dict(gemmd.connections.CHANNEL_OPTIONS)
        self.assertGreaterEqual(options["grpc.keepalive_time_ms"], 10_000)


if __name__ == "__main__":
    unittest.main()
