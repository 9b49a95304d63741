"""Device memory of this process that a daemon may read and write.

proto/gemmd/v1/regions.proto says how. An allocation, of which an array is a
part, becomes a region once; one that was freed is not taken for another that
has its address now.
"""

import collections
import contextlib
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from . import libcuda, rpcs
from .device_arrays import DeviceArray
from .errors import FailedPrecondition, InvalidArgument, ResourceExhausted
from .libcuda import Allocation
from .offer import is_open, offer, socket_path
from .wire import Place

_COPY = "copy the array to the host, such as by .cpu() or .get()"
# Of the 64 that the daemon grants a client, some are left for host memory.
_MOST = 48


class _Shared(NamedTuple):
    connection: socket.socket  # The region lives as long as this.
    handle: str
    device: str                # The daemon's name of it.


class DeviceRegions:
    """Those of one client of the daemon at `target`. Thread-safe. `create`
    runs CreateRegion."""

    def __init__(self, target: str,
                 create: Callable[[rpcs.Rpc[Any]], Any]) -> None:
        self._target = target
        self._create = create
        self._lock = threading.Lock()
        # The one used last is at the end.
        self._shared: "collections.OrderedDict[Allocation, _Shared]" = (
            collections.OrderedDict())

    def close(self) -> None:
        with self._lock:
            while self._shared:
                self._drop(next(iter(self._shared)))

    def _drop(self, allocation: Allocation) -> None:
        self._shared.pop(allocation).connection.close()
        with contextlib.suppress(libcuda.Failed):
            libcuda.driver().let_go(allocation)

    def place(self, array: DeviceArray) -> tuple[Place, str]:
        """Where the daemon finds `array`, of which all is complete that was
        to be waited for, and on which of its devices."""
        return self.places([array])[0]

    def places(self, arrays: Sequence[DeviceArray]) -> list[tuple[Place, str]]:
        """The same of several, which are waited for together."""
        found: list[tuple[Place, str]] = []
        waited: set[tuple[int, Optional[int]]] = set()
        for array in arrays:
            self._check_target(array)
            driver = libcuda.driver()
            try:
                device = (array.device if array.device >= 0
                          else driver.device_of(array.address))
                with driver.bound(device), self._lock:
                    if (device, array.stream) not in waited:
                        driver.synchronize(array.stream)
                        waited.add((device, array.stream))
                    found.append(self._find(driver, device, array))
            except libcuda.Failed as error:
                raise FailedPrecondition(
                    f"{array.name}: its memory cannot be shared ({error}); "
                    f"{_COPY}") from None
        return found

    def _check_target(self, array: DeviceArray) -> None:
        if not self._target.startswith("unix:"):
            raise FailedPrecondition(
                f"{array.name}: is in device memory, and {self._target} is no "
                "Unix socket; allowed: unix:/path of a daemon on this machine, "
                f"because memory is shared by one alone; else {_COPY}")

    def _known(self, driver: libcuda.Driver, device: int,
               address: int) -> Optional[Allocation]:
        """The shared one that `address` is in, if it is still that."""
        for allocation in reversed(self._shared):
            if (allocation.device == device and
                    0 <= address - allocation.base < allocation.size):
                return (allocation if driver.is_there(allocation, address)
                        else None)
        return None

    def _find(self, driver: libcuda.Driver, device: int,
              array: DeviceArray) -> tuple[Place, str]:
        allocation = (self._known(driver, device, array.address)
                      or driver.allocation(device, array.address))
        offset = array.address - allocation.base
        if offset + array.span() > allocation.size:
            raise InvalidArgument(
                f"{array.name}: spans several allocations, as torch's "
                f"expandable segments do; {_COPY}, or allocate it at once")
        shared = self._shared.get(allocation)
        if shared is None or not is_open(shared.connection):
            self._sweep(driver, allocation)
            shared = self._share(driver, allocation)
            self._shared[allocation] = shared
        self._shared.move_to_end(allocation)
        return Place(shared.handle, offset), shared.device

    def _sweep(self, driver: libcuda.Driver, wanted: Allocation) -> None:
        """Lets go of what was freed, whose memory a region keeps in use, and
        of what was not used for long."""
        def is_there(allocation: Allocation) -> bool:
            with driver.bound(allocation.device):
                return driver.is_there(allocation, allocation.base)

        gone = [allocation for allocation, shared in self._shared.items()
                if allocation == wanted or not is_open(shared.connection)
                or not is_there(allocation)]
        for allocation in gone:
            self._drop(allocation)
        while len(self._shared) >= _MOST:
            self._drop(next(iter(self._shared)))

    def _share(self, driver: libcuda.Driver,
               allocation: Allocation) -> _Shared:
        try:
            return self._open(driver, allocation)
        except ResourceExhausted:
            if not self._shared:
                raise
        while self._shared:
            self._drop(next(iter(self._shared)))
        return self._open(driver, allocation)

    def _open(self, driver: libcuda.Driver,
              allocation: Allocation) -> _Shared:
        path = socket_path(self._target)
        uuid = driver.uuid(allocation.device)
        if allocation.is_mapped:
            descriptor = driver.export(allocation)
            try:
                connection, handle = offer(path, descriptor)
            finally:
                os.close(descriptor)
            rpc = rpcs.create_device_region(handle, uuid, allocation.size, b"")
        else:
            ipc = driver.ipc_handle(allocation.base)
            connection, handle = offer(path, None)
            rpc = rpcs.create_device_region(handle, uuid, 0, ipc)
        try:
            info = self._create(rpc)
        except BaseException:
            connection.close()
            raise
        driver.keep(allocation)
        return _Shared(connection, handle, info.device)
