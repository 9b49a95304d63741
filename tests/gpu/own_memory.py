"""Memory of a GPU that this process allocates by the driver, and matrices in it
that offer themselves as DLPack has it.
"""

import ctypes

import ml_dtypes
import numpy as np
from gemmd import libcuda

BF16 = np.dtype(ml_dtypes.bfloat16)
DEVICE = 0  # As this process counts.


class Cuda:
    """What of the driver the client does without."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.driver = libcuda.driver()

    def call(self, name, *arguments):
        with self.driver.bound(DEVICE):
            code = getattr(self.library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} failed with {code}")


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp."""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int),
                ("location", Location), ("metadata", ctypes.c_void_p),
                ("flags", ctypes.c_ubyte * 8)]


class AccessDesc(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


U64 = ctypes.c_ulonglong


class Buffer:
    """Device memory: of cuMemAlloc, or of virtual memory management."""

    def __init__(self, cuda, size, vmm=False):
        self.cuda, self.vmm, self.size = cuda, vmm, size
        address = U64()
        if not vmm:
            cuda.call("cuMemAlloc_v2", ctypes.byref(address),
                      ctypes.c_size_t(size))
            self.address = address.value
            return
        prop = AllocationProp(type=1, handle_types=1,
                              location=Location(1, DEVICE))
        unit, handle = ctypes.c_size_t(), U64()
        cuda.call("cuMemGetAllocationGranularity", ctypes.byref(unit),
                  ctypes.byref(prop), 0)
        self.size = size = -(-size // unit.value) * unit.value
        cuda.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size),
                  ctypes.byref(prop), U64(0))
        cuda.call("cuMemAddressReserve", ctypes.byref(address),
                  ctypes.c_size_t(size), ctypes.c_size_t(0), U64(0), U64(0))
        cuda.call("cuMemMap", address, ctypes.c_size_t(size),
                  ctypes.c_size_t(0), handle, U64(0))
        access = AccessDesc(Location(1, DEVICE), 3)
        cuda.call("cuMemSetAccess", address, ctypes.c_size_t(size),
                  ctypes.byref(access), ctypes.c_size_t(1))
        cuda.call("cuMemRelease", handle)
        self.address = address.value

    def free(self):
        if not self.vmm:
            self.cuda.call("cuMemFree_v2", U64(self.address))
            return
        self.cuda.call("cuMemUnmap", U64(self.address),
                       ctypes.c_size_t(self.size))
        self.cuda.call("cuMemAddressFree", U64(self.address),
                       ctypes.c_size_t(self.size))

    def put(self, offset, data):
        data = np.frombuffer(data, np.uint8)
        self.cuda.call("cuMemcpyHtoD_v2", U64(self.address + offset),
                       ctypes.c_void_p(data.ctypes.data),
                       ctypes.c_size_t(len(data)))

    def take(self, offset, size):
        data = np.empty(size, np.uint8)
        self.cuda.call("cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data),
                       U64(self.address + offset), ctypes.c_size_t(size))
        return data


CODES = {BF16: (4, 16), np.dtype(np.float16): (2, 16),
         np.dtype(np.float32): (2, 32), np.dtype(np.int8): (0, 8),
         np.dtype(ml_dtypes.float8_e4m3fn): (10, 8),
         np.dtype(np.int32): (0, 32)}


class Array:
    """A matrix, or a batch of them, in a buffer, as DLPack has it."""

    def __init__(self, buffer, offset, shape, dtype, order="C", padding=0):
        self.buffer, self.offset = buffer, offset
        self.shape, self.dtype, self.order = shape, np.dtype(dtype), order
        *batch, rows, columns = shape
        width, lines = (columns, rows) if order == "C" else (rows, columns)
        self.pitch = width + padding
        steps = [self.pitch, 1] if order == "C" else [1, self.pitch]
        for side in reversed(batch):
            steps.insert(0, lines * self.pitch if len(steps) == 2
                         else steps[0] * side)
        self.steps = tuple(steps)
        self.lines = lines * int(np.prod(batch or [1]))
        self.width = width
        self.nbytes = ((self.lines - 1) * self.pitch
                       + width) * self.dtype.itemsize

    def __dlpack_device__(self):
        return (2, DEVICE)

    def __dlpack__(self, *, stream=None):
        class Tensor(ctypes.Structure):
            _fields_ = [
                ("data", ctypes.c_void_p), ("kind", ctypes.c_int32),
                ("device", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

        count = len(self.shape)
        self._sides = (ctypes.c_int64 * count)(*self.shape)
        self._steps = (ctypes.c_int64 * count)(*self.steps)
        code, bits = CODES[self.dtype]
        self._tensor = Tensor(
            self.buffer.address, 2, DEVICE, count, code, bits, 1,
            ctypes.addressof(self._sides), ctypes.addressof(self._steps),
            self.offset, None, None)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)

    def _seen(self, raw):
        plain = raw.view(f"u{self.dtype.itemsize}")
        return np.lib.stride_tricks.as_strided(
            plain, self.shape,
            [step * self.dtype.itemsize for step in self.steps])

    def put(self, values):
        raw = self.buffer.take(self.offset, self.nbytes)
        self._seen(raw)[...] = np.ascontiguousarray(values).view(
            f"u{self.dtype.itemsize}")
        self.buffer.put(self.offset, raw)
        return self

    def take(self):
        raw = self.buffer.take(self.offset, self.nbytes)
        return np.ascontiguousarray(self._seen(raw)).view(self.dtype)
