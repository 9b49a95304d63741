"""How many bytes are shared out: by lines of their matrices."""

import os
import time
from typing import Any, NamedTuple, Optional

from . import api, errors
from .retry import told


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


class Filling:
    """Memory that chunks are to fill, one after the other."""

    def __init__(self, target: memoryview) -> None:
        self._target = target
        self._position = 0

    def take(self, chunk: memoryview) -> None:
        """Puts it where it belongs."""
        if not chunk:  # Of such messages there could be any number.
            raise errors.Internal("the daemon sent a message without bytes")
        end = self._position + len(chunk)
        if end > len(self._target):
            raise errors.Internal(
                f"the daemon sent more than the {len(self._target)} bytes of "
                "the tensor")
        self._target[self._position:end] = chunk
        self._position = end

    def check(self) -> None:
        """Internal where they did not."""
        if self._position != len(self._target):
            raise errors.Internal(
                f"the daemon sent {self._position} bytes of a tensor of "
                f"{len(self._target)}")


def transfer() -> bytes:
    """The name of an upload in parts, which nobody else has."""
    return os.urandom(16)


class Deadline:
    """Seconds that are left of `timeout`; None: any number, which is infinity
    then. Less than none stay that: gRPC may serve a call that has until now."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._end = time.monotonic() + told(timeout)

    def left(self) -> float:
        return self._end - time.monotonic()
