"""Arrays in memory that a client shares with a daemon of its machine.

proto/gemmd/v1/regions.proto says how. A region is memory that is shared, of
which blocks are given out; arrays hold their block, and their memory for as
long as they live, whatever becomes of the daemon.
"""

import contextlib
import functools
import math
import mmap
import operator
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from . import arrays, rpcs, time_left
from .device_regions import DeviceRegions
from .errors import (DeadlineExceeded, Error, FailedPrecondition,
                     InvalidArgument, ResourceExhausted, Unavailable)
from .offer import is_open, offer, patience, silence, socket_path
from .wire import Place

# Of a block's first byte: as device memory is aligned, so that lines are.
_ALIGNMENT = 256
# Small blocks share a region.
_REGION_BYTES = 64 << 20


class _Region:
    """Memory of its own, not yet shared."""

    def __init__(self, size: int) -> None:
        try:
            self._memfd, self.memory = _allocated(size)
        except OSError as error:
            raise ResourceExhausted(
                f"this machine has no {size} bytes to share ({error})"
            ) from None
        self.bytes = np.frombuffer(self.memory, np.uint8)
        self.address: int = self.bytes.ctypes.data
        self.handle = ""
        self._connection: Optional[socket.socket] = None
        # (offset, size) of what is free, in ascending order.
        self._free = [(0, size)]
        # Offsets in blocks that somebody has, of what the daemon may still
        # write.
        self._doubtful: set[int] = set()
        self._lost = 0  # Bytes of such blocks that nobody has any more.

    def share(self, path: str,
              create: Callable[[str], Any]) -> None:
        """Gives it to the daemon; `create` makes a region of a handle."""
        try:
            connection, handle = offer(path, self._memfd)
        finally:
            os.close(self._memfd)
        try:
            create(handle)
        except BaseException:
            connection.close()
            raise
        self.handle = handle
        self._connection = connection

    def is_alive(self) -> bool:
        """Whether the daemon still has it."""
        return self._connection is not None and is_open(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def take(self, size: int) -> Optional[int]:
        """The offset of a block; None when there is no room for one."""
        for i, (offset, free) in enumerate(self._free):
            if free >= size:
                self._free[i:i + 1] = [(offset + size, free - size)
                                       ] if free > size else []
                return offset
        return None

    def give_back(self, offset: int, size: int) -> None:
        doubtful = {each for each in self._doubtful
                    if offset <= each < offset + size}
        if doubtful:
            self._doubtful -= doubtful
            self._lost += size
            return
        blocks = sorted([*self._free, (offset, size)])
        self._free = blocks[:1]
        for start, length in blocks[1:]:
            last, end = self._free[-1][0], sum(self._free[-1])
            if start == end:
                self._free[-1] = (last, length + end - last)
            else:
                self._free.append((start, length))

    def lose(self, offset: int) -> None:
        """Nobody else gets the block that has this byte."""
        self._doubtful.add(offset)

    @property
    def is_empty(self) -> bool:
        """Whether all of it can be given out."""
        return sum(length for _, length in self._free) == len(self.bytes)

    @property
    def is_spent(self) -> bool:
        """Whether nobody uses it, and some of it can never be given out."""
        return self._lost > 0 and self._lost + sum(
            length for _, length in self._free) == len(self.bytes)


def _allocated(size: int) -> tuple[int, mmap.mmap]:
    """A memfd, and its memory."""
    memfd = os.memfd_create("gemmd", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memfd, size)
        os.posix_fallocate(memfd, 0, size)
        return memfd, mmap.mmap(memfd, size)
    except BaseException:
        os.close(memfd)
        raise


class Block:
    """Bytes of a region, given back when nobody refers to them any more."""

    def __init__(self, regions: "Regions", region: _Region, offset: int,
                 size: int) -> None:
        self.__array_interface__ = {
            "data": (region.address + offset, False), "shape": (size,),
            "typestr": "|u1", "version": 3}
        self._memory = region.memory
        self.place = Place(region.handle, offset)
        self.written = Written(regions, self.place)
        self._giving_back = weakref.finalize(
            self, regions._later,
            functools.partial(regions._give_back, region, offset, size))
        self._giving_back.atexit = False

    @property
    def bytes(self) -> Any:
        """An array that refers to the block."""
        return np.asarray(self)


class Written(NamedTuple):
    """Where the daemon writes: in a block, the client's or the caller's."""
    regions: "Regions"
    place: Place


@contextlib.contextmanager
def _lent(written: list[Written]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, Error) and error.is_answer):
            for regions, place in written:
                regions.lose(place)
        raise


def lent(written: list[Written]) -> contextlib.AbstractContextManager[None]:
    """Around a call that has the daemon write there. Where no answer of the
    daemon's ends it, it may still do so: nobody else gets those blocks."""
    return _lent(written) if written else contextlib.nullcontext()


class Regions:
    """Those of one client of the daemon at `target`. Thread-safe. `create`
    runs CreateRegion, or what else is asked for one."""

    def __init__(self, target: str,
                 create: Callable[[rpcs.Rpc[Any]], Any]) -> None:
        self._target = target
        self._create = create
        self._process = os.getpid()
        # Taken by _locked() alone. What is collected meanwhile may close the
        # client, on the thread that has it.
        self._lock = threading.RLock()
        self._is_busy = False  # Whether a thread is inside.
        # What is to be done with regions when nobody is.
        self._due: deque[Callable[[], None]] = deque()
        self._is_closed = False
        self._regions: list[_Region] = []
        # Of GPUs' memory, which the client has allocated elsewhere.
        self.device = DeviceRegions(target, create)

    def __bool__(self) -> bool:
        return bool(self._regions)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            was_busy, self._is_busy = self._is_busy, True
            try:
                yield
            finally:
                self._is_busy = was_busy
        self._do_due()

    def _later(self, act: Callable[[], None]) -> None:
        """act(), once no thread is in the middle of something. Arrays are
        collected anywhere: on a thread that looks for a free block, too."""
        self._due.append(act)
        self._do_due()

    def _do_due(self) -> None:
        # Whoever is busy does it at his end.
        while self._due and self._lock.acquire(blocking=False):
            try:
                if self._is_busy:
                    return
                self._is_busy = True
                try:
                    while self._due:
                        self._due.popleft()()
                finally:
                    self._is_busy = False
            finally:
                self._lock.release()

    def close(self) -> None:
        """Arrays become ordinary ones."""
        with self._locked():
            self._is_closed = True
            for region in self._regions:
                region.close()
            self._regions.clear()
        self.device.close()

    def empty(self, shape: Any, dtype: Any,
              order: arrays.Order) -> arrays.Array:
        """As Client.empty."""
        arrays.wire_order(order)
        dtype = arrays.check_dtype(dtype)
        if dtype.hasobject:
            raise InvalidArgument(
                f"dtype: {dtype} is of Python's objects, which nobody shares")
        sides = _sides(shape)
        size = math.prod(sides) * dtype.itemsize
        try:
            if size == 0:
                return np.empty(sides, dtype, order)
            flat: arrays.Array = self.block(size).bytes.view(dtype)
            return flat.reshape(sides, order=order)
        except ValueError as error:
            if isinstance(error, Error):
                raise
            raise InvalidArgument(f"shape: {shape!r}: {error}") from None

    def block(self, size: int, *, is_result: bool = False) -> Block:
        """`size` bytes, at least one, of any content."""
        # What is free here may be in use there, and the other way round.
        if os.getpid() != self._process:
            raise FailedPrecondition(
                "the client is of the process that made it; allowed: another "
                "one, made in the child")
        rounded = -(-size // _ALIGNMENT) * _ALIGNMENT
        with self._locked():
            for region in list(self._regions):
                if not region.is_alive():  # Of a daemon that has ended.
                    self._drop(region)
                    continue
                offset = region.take(rounded)
                if offset is not None:
                    return self._block(region, offset, rounded, size)
            for region in list(self._regions):
                if region.is_spent:
                    self._drop(region)
        region = self._made(rounded, is_result)
        with self._locked():
            if self._is_closed:  # Meanwhile.
                region.close()
                raise FailedPrecondition("the client is closed")
            self._regions.append(region)
            offset = region.take(rounded)
            assert offset is not None
            return self._block(region, offset, rounded, size)

    def _made(self, least: int, is_result: bool) -> _Region:
        """A region with room for a block of that many bytes."""
        path = socket_path(self._target)
        most = self._most()
        if least > most:
            raise ResourceExhausted(
                f"a region of {least} bytes does not fit: the limit of one is "
                f"{most}")
        usual = max(least, min(_REGION_BYTES, most))
        try:
            return self._shared(path, usual)
        except ResourceExhausted:
            # One for each result would cost more than to send it.
            if usual == least or is_result:
                raise
        return self._shared(path, least)

    def _most(self) -> int:
        """Bytes that one client may share: asked before they are allocated."""
        seconds = patience()
        try:
            with time_left.within(seconds):
                info = self._create(rpcs.server_info())
        except DeadlineExceeded:
            raise silence(seconds) from None
        bytes_of_all = int(info.limits.max_region_bytes)
        if not bytes_of_all:
            raise FailedPrecondition(
                "memory cannot be shared: the daemon's --region-bytes is 0")
        return bytes_of_all - bytes_of_all // 4  # Of one: three quarters.

    def _shared(self, path: str, size: int) -> _Region:
        region = _Region(size)
        region.share(path,
                     lambda handle: self._create(rpcs.create_region(handle)))
        return region

    def _block(self, region: _Region, offset: int, rounded: int,
               size: int) -> Block:
        block = Block(self, region, offset, rounded)
        block.__array_interface__["shape"] = (size,)
        return block

    def block_or_none(self, size: int) -> Optional[Block]:
        """For `size` bytes that come from the daemon. None where they are sent
        instead: there are no regions, or no more of them."""
        if not self._regions or size == 0:
            return None
        try:
            return self.block(size, is_result=True)
        except (FailedPrecondition, ResourceExhausted, Unavailable):
            return None

    def place(self, data: memoryview) -> Optional[Place]:
        """Where `data` lies, when that is in a region that the daemon has."""
        flat = np.frombuffer(data, np.uint8)
        start = flat.ctypes.data
        with self._locked():
            for region in self._regions:
                offset = start - region.address
                if not 0 <= offset <= len(region.bytes) - len(flat):
                    continue
                if region.is_alive():
                    return Place(region.handle, offset)
                self._drop(region)
                break
        return None

    def lose(self, place: Place) -> None:
        """Nobody else gets the block of that place."""
        self._later(functools.partial(self._lose, place))

    def _lose(self, place: Place) -> None:
        for region in self._regions:
            if region.handle == place.region:
                region.lose(place.offset)

    def _drop(self, region: _Region) -> None:
        region.close()
        self._regions.remove(region)

    def _give_back(self, region: _Region, offset: int, size: int) -> None:
        region.give_back(offset, size)
        if region.is_empty and region in self._regions and any(
                other.is_empty for other in self._regions
                if other is not region):
            self._drop(region)  # One is kept for the next blocks.


def _sides(shape: Any) -> tuple[int, ...]:
    """`shape` as numpy.empty takes it, or an error."""
    try:
        sides = ((operator.index(shape),) if np.ndim(shape) == 0
                 else tuple(map(operator.index, shape)))
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"shape: {shape!r} is no whole number, nor several") from None
    if min(sides, default=1) < 0:
        raise InvalidArgument(
            f"shape: {shape!r} has a negative side; allowed: from 0")
    return sides
