"""The little of the CUDA driver that sharing device memory takes, by ctypes.

Calls bind the primary context of the GPU that they are about, which is that of
torch, cupy, JAX and the CUDA runtime, and put back what was bound before.
"""

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from .errors import FailedPrecondition

# Of cuda.h.
_FILE_DESCRIPTOR = 1       # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_BUFFER_ID = 7             # CU_POINTER_ATTRIBUTE_BUFFER_ID
_DEVICE_ORDINAL = 9        # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_MAPPING_SIZE = 18         # CU_POINTER_ATTRIBUTE_MAPPING_SIZE
_MAPPING_BASE = 19         # CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR
_IPC_BYTES = 64
# The stream that waits for all others that are not told otherwise.
LEGACY_STREAM = 1

_Address = ctypes.c_ulonglong


class Failed(Exception):
    """A call of the driver's."""

    def __init__(self, call: str, name: str) -> None:
        super().__init__(f"{call} failed with {name}")


class Allocation(NamedTuple):
    """A block of device memory of this process."""
    device: int
    base: int
    size: int
    # No other one has it, of mapped memory for as long as this is kept.
    number: int
    is_mapped: bool  # By virtual memory management: it has a descriptor.


class Driver:
    """libcuda, or what stands for it in tests. Thread-safe."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._lock = threading.Lock()
        self._call("cuInit", 0)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code == 0:
            return
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        raise Failed(name, (text.value or b"an unknown error").decode())

    @contextlib.contextmanager
    def bound(self, device: int) -> Iterator[None]:
        """Around calls about a GPU."""
        with self._lock:
            context = self._contexts.get(device)
            if context is None:
                context = ctypes.c_void_p()
                # Never given back: it is the process's own.
                self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context),
                           device)
                self._contexts[device] = context
        self._call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2",
                       ctypes.byref(ctypes.c_void_p()))

    def uuid(self, device: int) -> str:
        """As nvidia-smi prints it."""
        raw = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid_v2", ctypes.byref(raw), device)
        digits = bytes(raw).hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20],
                 digits[20:])
        return "GPU-" + "-".join(parts)

    def synchronize(self, stream: Optional[int]) -> None:
        """Waits for the work of a stream; of the context's without one."""
        if stream is None:
            self._call("cuCtxSynchronize")
        else:
            self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def _attribute(self, attribute: int, address: int) -> int:
        value = _Address()
        self._call("cuPointerGetAttribute", ctypes.byref(value), attribute,
                   _Address(address))
        return value.value

    def device_of(self, address: int) -> int:
        ordinal = ctypes.c_int(-1)
        with self.bound(0):
            self._call("cuPointerGetAttribute", ctypes.byref(ordinal),
                       _DEVICE_ORDINAL, _Address(address))
        return ordinal.value

    def _retain(self, address: int) -> Optional[int]:
        """The handle of memory that is mapped there, to be released; None of
        other memory."""
        handle = _Address()
        try:
            self._call("cuMemRetainAllocationHandle", ctypes.byref(handle),
                       ctypes.c_void_p(address))
        except Failed:
            return None
        return handle.value

    def allocation(self, device: int, address: int) -> Allocation:
        """The one that `address` is in."""
        handle = self._retain(address)
        if handle is not None:
            self._call("cuMemRelease", _Address(handle))
            return Allocation(device, self._attribute(_MAPPING_BASE, address),
                              self._attribute(_MAPPING_SIZE, address), handle,
                              True)
        base, size = _Address(), ctypes.c_size_t()
        self._call("cuMemGetAddressRange_v2", ctypes.byref(base),
                   ctypes.byref(size), _Address(address))
        number = self._attribute(_BUFFER_ID, address)
        if number == 0:
            raise Failed("cuPointerGetAttribute", "no number of its buffer")
        return Allocation(device, base.value, size.value, number, False)

    def is_there(self, allocation: Allocation, address: int) -> bool:
        """Whether it is still what has `address`, which lay in it."""
        if allocation.is_mapped:
            handle = self._retain(address)
            if handle is not None:
                self._call("cuMemRelease", _Address(handle))
            return handle == allocation.number
        try:
            return self._attribute(_BUFFER_ID, address) == allocation.number
        except Failed:
            return False

    def keep(self, allocation: Allocation) -> None:
        """Until let_go nobody else gets its number."""
        if allocation.is_mapped:
            self._retain(allocation.base)

    def let_go(self, allocation: Allocation) -> None:
        if allocation.is_mapped:
            self._call("cuMemRelease", _Address(allocation.number))

    def export(self, allocation: Allocation) -> int:
        """The descriptor of a mapped one."""
        descriptor = ctypes.c_int(-1)
        self._call("cuMemExportToShareableHandle", ctypes.byref(descriptor),
                   _Address(allocation.number), _FILE_DESCRIPTOR,
                   ctypes.c_ulonglong(0))
        return descriptor.value

    def ipc_handle(self, base: int) -> bytes:
        """Of an allocation of cuMemAlloc or cudaMalloc."""
        handle = (ctypes.c_ubyte * _IPC_BYTES)()
        self._call("cuIpcGetMemHandle", ctypes.byref(handle), _Address(base))
        return bytes(handle)


_loaded: Optional[Driver] = None
_loading = threading.Lock()


def driver() -> Driver:
    """That of this process. FailedPrecondition where there is none."""
    global _loaded
    with _loading:
        if _loaded is None:
            try:
                _loaded = Driver(ctypes.CDLL("libcuda.so.1"))
            except (OSError, Failed) as error:
                raise FailedPrecondition(
                    f"device memory needs the CUDA driver ({error})") from None
        return _loaded
