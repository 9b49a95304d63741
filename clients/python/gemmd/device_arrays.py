"""Arrays in the memory of a GPU, of torch, cupy, JAX and others, as matrices:
where their elements lie, which nobody here reads.

They come by DLPack or by __cuda_array_interface__, which also say what has to
be waited for: what a call reads must be complete before it is sent.
"""

import ctypes
import math
import sys
from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np

from . import arrays, libcuda
from .errors import InvalidArgument

_CUDA = 2  # kDLCUDA
_COPY = "copy it to the host first, such as by .cpu() or .get()"

# DLPack's (code, bits).
_TYPES: dict[tuple[int, int], Any] = {
    (0, 8): np.int8, (0, 32): np.int32, (1, 8): np.uint8,
    (2, 16): np.float16, (2, 32): np.float32, (4, 16): ml_dtypes.bfloat16,
    (10, 8): ml_dtypes.float8_e4m3fn, (12, 8): ml_dtypes.float8_e5m2}


class _Tensor(ctypes.Structure):
    """DLTensor, with which a DLManagedTensor begins."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


# Not ctypes.pythonapi's own, of which others may set the types.
_pointer_of = ctypes.PYFUNCTYPE(
    ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi))


class DeviceArray(NamedTuple):
    """Immutable; holds its owner's memory."""
    address: int             # Of the first element.
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # Bytes.
    dtype: "np.dtype[Any]"
    device: int              # As this process counts them.
    stream: Optional[int]    # Whose work is waited for; None: all.
    owner: Any
    name: str                # How errors call it.

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def seen(self, shape: tuple[int, ...],
             strides: tuple[int, ...]) -> "DeviceArray":
        return self._replace(shape=shape, strides=strides)

    @property
    def T(self) -> "DeviceArray":
        return self.seen(self.shape[::-1], self.strides[::-1])

    def expand(self, axis: int) -> "DeviceArray":
        """As numpy.expand_dims of a vector."""
        other = (1,), (self.strides[0] * self.shape[0],)
        own = self.shape, self.strides
        first, last = (other, own) if axis == 0 else (own, other)
        return self.seen(first[0] + last[0], first[1] + last[1])

    def reshape(self, shape: tuple[int, ...]) -> "DeviceArray":
        """Never copies: InvalidArgument where numpy would."""
        # Elements of one byte that nobody reads.
        plain = np.lib.stride_tricks.as_strided(
            np.empty((), np.int8), self.shape, self.strides, writeable=False)
        try:
            plain.shape = shape
        except (AttributeError, ValueError):
            raise InvalidArgument(
                f"{self.name}: a batch in device memory whose matrices are not "
                "evenly spaced; make it contiguous first") from None
        return self.seen(plain.shape, plain.strides)

    def flat(self, batch: tuple[int, ...]) -> "DeviceArray":
        """With one leading dimension, or none where one matrix serves all."""
        matrix = self.shape[-2:]
        if all(side == 1 for side in self.shape[:-2]):
            return self.seen(matrix, self.strides[-2:])
        if self.shape[:-2] != batch:
            raise InvalidArgument(
                f"{self.name}: leading dimensions {self.shape[:-2]} are "
                f"broadcast to {batch}; allowed in device memory: those of "
                "the product, or 1")
        return self.reshape((math.prod(batch), *matrix))

    def operand(self, order: Optional[arrays.Order] = None) -> arrays.Operand:
        """How it lies; there are no bytes to send."""
        if self.size == 0:
            return arrays.Operand(order or "C", 0, memoryview(b""))
        lies = arrays.lying(self, order, math.inf)
        if lies is None:
            wanted = "" if order is None else f" in order {order!r}"
            raise InvalidArgument(
                f"{self.name}: strides {self.strides} of shape {self.shape} "
                f"are not those of a matrix{wanted}; make it contiguous first")
        kind, leading, stride = lies
        lines = self.shape[-2] if kind == "C" else self.shape[-1]
        tight = self.ndim == 2 or self.shape[0] <= 1 or (
            stride == lines * leading)
        return arrays.Operand(kind, leading, memoryview(b""),
                              None if tight else stride, self)

    def span(self) -> int:
        """Bytes from the first element to the end of the last."""
        return self.itemsize + sum(
            (side - 1) * stride
            for side, stride in zip(self.shape, self.strides))


def is_on_device(value: Any) -> bool:
    """Whether it is an array in the memory of a GPU."""
    if isinstance(value, (np.ndarray, DeviceArray)):
        return isinstance(value, DeviceArray)
    place = getattr(value, "__dlpack_device__", None)
    if place is not None:
        try:
            return bool(int(place()[0]) == _CUDA)
        except (TypeError, ValueError, RuntimeError, BufferError):
            return False
    return getattr(value, "__cuda_array_interface__", None) is not None


def as_device_array(value: Any, name: str) -> DeviceArray:
    """An array of which is_on_device."""
    if isinstance(value, DeviceArray):
        return value._replace(name=name)
    try:
        if hasattr(value, "__dlpack__"):
            array = _from_dlpack(value, name)
        else:
            array = _from_interface(value, name)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InvalidArgument(
            f"{name}: {type(value).__name__} does not say where it lies "
            f"({error}); {_COPY}") from None
    if array.dtype == np.bool_:
        raise InvalidArgument(f"{name}: bool in device memory; {_COPY}")
    arrays.wire_type(array.dtype, name)
    return array


def _from_dlpack(value: Any, name: str) -> DeviceArray:
    dtype = arrays.eight_bits(value)
    if dtype is not None:
        value = value.view(sys.modules["torch"].uint8)
    # The producer has this stream wait for its own.
    capsule = value.__dlpack__(stream=libcuda.LEGACY_STREAM)
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    kind = _TYPES.get((tensor.code, tensor.bits))
    if dtype is None and (kind is None or tensor.lanes != 1):
        raise InvalidArgument(
            f"{name}: {getattr(value, 'dtype', 'its type')} is no type of a "
            f"matrix in device memory")
    dtype = np.dtype(dtype or kind)
    if tensor.strides:
        steps = [tensor.strides[i] for i in range(tensor.ndim)]
    else:
        steps = [math.prod(shape[i + 1:]) for i in range(tensor.ndim)]
    return DeviceArray((tensor.data or 0) + tensor.byte_offset, shape,
                       tuple(step * dtype.itemsize for step in steps), dtype,
                       tensor.device, libcuda.LEGACY_STREAM, capsule, name)


def _from_interface(value: Any, name: str) -> DeviceArray:
    """By __cuda_array_interface__, which says no device: the address does."""
    interface = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise ValueError("it has a mask")
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or tuple(
        dtype.itemsize * math.prod(shape[i + 1:]) for i in range(len(shape)))
    stream = interface.get("stream") if interface.get("version", 0) > 2 else None
    return DeviceArray(interface["data"][0], shape, tuple(strides), dtype, -1,
                       stream, value, name)
