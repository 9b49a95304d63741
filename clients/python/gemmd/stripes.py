"""Many bytes by several connections at a time, by lines of their matrices."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Optional

from . import api, errors
from .rpcs import Rpc

MOST_CONNECTIONS = 8
# What has fewer bytes goes by one.
LEAST_BYTES = 32 << 20
# Others may share a connection with a channel to the same target.
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


def check_connections(stripes: Any) -> int:
    """How many are meant by the argument of that name."""
    if type(stripes) is int and 1 <= stripes <= MOST_CONNECTIONS:
        return stripes
    raise errors.InvalidArgument(
        f"stripes: {stripes!r} is no number of connections; allowed: 1 to "
        f"{MOST_CONNECTIONS}")


class Stripe(NamedTuple):
    """Consecutive lines, and where their bytes are among those of all."""
    first: int
    behind: int  # The line that follows.
    start: int
    end: int     # Without what is between the last line and the next one.

    def lines(self) -> Any:
        return api.LineRange(first=self.first, count=self.behind - self.first)


def split(info: Any, layout: Any, size: int,
          connections: int) -> list[Stripe]:
    """For each connection one, of the `size` bytes that lie as `layout` says;
    none where they go by one. `info` is the TensorInfo."""
    composite = info.sparsity != api.DENSE or info.HasField("quantization")
    bits = 8 if composite else api.BITS[info.dtype]
    columns = info.order == api.COLUMN_MAJOR
    lines, width = ((info.columns, info.rows) if columns
                    else (info.rows, info.columns))
    lines *= max(info.count, 1)
    # What composite lines hold is the daemon's to know.
    tight = size // lines if composite else (width * bits + 7) // 8
    pitch = layout.leading_dimension * bits // 8 or tight
    before_last = (lines - 1) * pitch
    least = before_last + (1 if composite else tight)
    # A daemon that says no version takes no parts.
    parts = min(connections, lines) if info.HasField("version") else 1
    if layout.HasField("batch_stride"):
        parts = 1
    if parts < 2 or not least <= size <= before_last + pitch:
        return []
    padding = before_last + pitch - size
    firsts = [lines * part // parts for part in range(parts + 1)]
    return [Stripe(first, behind, first * pitch, behind * pitch - padding)
            for first, behind in zip(firsts, firsts[1:])]


def filled(target: memoryview, position: int, chunk: memoryview) -> int:
    """Puts a chunk where it belongs; the position behind it."""
    end = position + len(chunk)
    if end > len(target):
        raise errors.InvalidArgument(
            f"the daemon sent more than the {len(target)} bytes of the tensor")
    target[position:end] = chunk
    return end


def check_filled(target: memoryview, position: int) -> None:
    if position != len(target):
        raise errors.InvalidArgument(
            f"the daemon sent {position} bytes of a tensor of {len(target)}")


class Connections:
    """A client's own connections for what moves many bytes, made when they are
    first of use. Thread-safe."""

    def __init__(self, connect: Callable[[tuple[tuple[str, Any], ...]], Any],
                 count: int) -> None:
        self.least_bytes = LEAST_BYTES
        self._count = count
        self._connect = connect
        self._channels: list[Any] = []
        self._lock = threading.Lock()

    def count_for(self, size: int) -> int:
        """How many such `size` bytes go by."""
        return self._count if size >= self.least_bytes else 1

    def close(self) -> None:
        with self._lock:
            channels, self._channels = self._channels, []
        for channel in channels:
            channel.close()

    def _some(self, count: int) -> list[Any]:
        with self._lock:
            while len(self._channels) < count:
                self._channels.append(self._connect(_OWN_CONNECTION))
            return self._channels[:count]

    def run(self, calls: Sequence[Rpc[Any]], timeout: Optional[float],
            metadata: tuple[tuple[str, str], ...],
            take: Callable[[int, Any], None]) -> None:
        """Makes all calls at the same time; take(i, message) gets what comes of
        the i-th. The first failure ends the others, and is raised."""
        started: list[Any] = []
        failures: list[BaseException] = []
        for channel, rpc in zip(self._some(len(calls)), calls):
            started.append(_start(channel, rpc, timeout,
                                  rpc.metadata() + metadata))

        def follow(i: int) -> None:
            try:
                for message in _messages(started[i], calls[i].kind):
                    take(i, message)
            except BaseException as error:  # Raised below, by the caller.
                failures.append(error)
                for call in started:
                    call.cancel()

        threads = [threading.Thread(target=follow, args=(i,), daemon=True)
                   for i in range(1, len(started))]
        for thread in threads:
            thread.start()
        follow(0)
        for thread in threads:
            thread.join()
        if failures:
            raise _cause(failures)


def _start(channel: Any, rpc: Rpc[Any], timeout: Optional[float],
           metadata: tuple[tuple[str, str], ...]) -> Any:
    stub = getattr(channel, rpc.kind)(rpc.method, None, rpc.parse)
    begin = stub.future if rpc.kind == "stream_unary" else stub
    return begin(rpc.request, timeout=timeout, metadata=metadata)


def _messages(call: Any, kind: str) -> Iterable[Any]:
    if kind == "stream_unary":
        yield call.result()
    else:
        yield from call


def _cause(failures: list[BaseException]) -> BaseException:
    """The daemon ends one part for another's failure, and so do we: of several
    failures the first one that is not such a consequence says most."""
    def is_consequence(error: BaseException) -> bool:
        code = getattr(error, "code", lambda: None)()
        return getattr(code, "name", "") in ("ABORTED", "CANCELLED")
    return next((error for error in failures if not is_consequence(error)),
                failures[0])


def transfer() -> bytes:
    """The name of an upload in parts, which nobody else has."""
    return os.urandom(16)


class Deadline:
    """Seconds that are left of `timeout`; None: any number."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> Optional[float]:
        return (None if self._end is None
                else max(self._end - time.monotonic(), 0.0))
