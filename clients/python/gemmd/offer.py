"""The Unix socket by which a daemon is given memory: see
proto/gemmd/v1/regions.proto."""

import contextlib
import os
import socket
import struct
from typing import Optional

from . import time_left
from .errors import (DeadlineExceeded, Error, FailedPrecondition,
                     Unavailable)

_HANDLE_BYTES = 32
_TURNED_AWAY = ("the daemon does not take the memory: it has too many regions, "
                "or ends")
# A daemon that is well answers at once.
ANSWER_S = 10.0


def socket_path(target: str) -> str:
    """Of the socket by which a daemon at `target` is given memory."""
    if not target.startswith("unix:"):
        raise FailedPrecondition(
            f"target: {target} is no Unix socket; allowed: unix:/path of a "
            "daemon on this machine, because memory is shared by one alone")
    path = target[len("unix:"):]
    return (path[2:] if path.startswith("//") else path) + ".memory"


class _Connection(socket.socket):
    """One that ends where the process that made it closes it, though children
    that were forked meanwhile have it open; they close what is theirs alone."""

    def __init__(self) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._process = os.getpid()

    def close(self) -> None:
        if os.getpid() == self._process:
            with contextlib.suppress(OSError):  # Not connected, or closed.
                self.shutdown(socket.SHUT_RDWR)
        super().close()


def offer(path: str, descriptor: Optional[int]) -> tuple[socket.socket, str]:
    """Offers the memory of a descriptor, or memory that has none. The
    connection that it lives by, and its handle. Takes no more than what is left
    of the time, and ANSWER_S at most."""
    seconds = patience()
    connection = _Connection()
    try:
        # A Unix socket whose queue is full is waited for only where it
        # blocks.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                              _timeval(seconds))
        connection.connect(path)
        connection.settimeout(seconds)
        if descriptor is None:
            connection.sendall(b"d")
        else:
            socket.send_fds(connection, [b"m"], [descriptor])
        handle = b""
        while len(handle) < _HANDLE_BYTES:
            part = connection.recv(_HANDLE_BYTES - len(handle))
            if not part:
                raise Unavailable(_TURNED_AWAY)
            handle += part
        connection.setblocking(False)
    except (TimeoutError, socket.timeout, BlockingIOError):
        connection.close()
        raise silence(seconds) from None
    except (BrokenPipeError, ConnectionResetError):
        connection.close()
        raise Unavailable(_TURNED_AWAY) from None
    except OSError as error:
        connection.close()
        raise FailedPrecondition(
            f"memory cannot be shared by {path} ({error}); the daemon's "
            "--region-bytes may be 0") from None
    except BaseException:
        connection.close()
        raise
    return connection, handle.decode()


def patience() -> float:
    """Seconds that an answer is waited for: ANSWER_S, or all that is left."""
    limit = time_left.left()
    if limit is not None and limit <= 0:
        raise DeadlineExceeded("no time is left to share memory")
    return ANSWER_S if limit is None else min(limit, ANSWER_S)


def silence(seconds: float) -> Error:
    """Of a daemon that has not answered for that long, as patience had it: a
    clock that wakes who waits a moment early changes nothing."""
    text = f"the daemon has not taken memory to share within {seconds:.3g} s"
    return (DeadlineExceeded if seconds < ANSWER_S else Unavailable)(text)


def _timeval(seconds: float) -> bytes:
    # Of zero it would be any time.
    microseconds = max(1, int(seconds * 1e6))
    return struct.pack("ll", *divmod(microseconds, 1_000_000))


def is_open(connection: socket.socket) -> bool:
    """Whether the daemon still has what came by it."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
