"""numpy arrays as matrices, or batches of them, on the wire: element types,
orders, bytes."""

import contextlib
import struct
import sys
from typing import Any, Literal, NamedTuple, Optional

import ml_dtypes
import numpy as np
import numpy.typing as npt

from . import api, bits, nibbles, support
from .arguments import check_integer
from .bits import Bits
from .composite import Composite
from .errors import InvalidArgument

Array = npt.NDArray[Any]
Order = Literal["C", "F"]

_TYPE_NAMES: dict["np.dtype[Any]", str] = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(ml_dtypes.float8_e4m3fn): "E4M3",
    np.dtype(ml_dtypes.float8_e5m2): "E5M2",
    np.dtype(np.int8): "S8",
    np.dtype(np.uint8): "U8",
    np.dtype(np.bool_): "B1",
    np.dtype(np.int32): "S32",
    nibbles.S4: "S4",
    nibbles.U4: "U4",
}

_NUMBERS = api.enum("DataType")
_TO_WIRE: dict[Any, int] = {
    dtype: _NUMBERS[f"DATA_TYPE_{name}"] for dtype, name in _TYPE_NAMES.items()
}
_FROM_WIRE: dict[int, "np.dtype[Any]"] = {
    number: dtype for dtype, number in _TO_WIRE.items()}

# A view whose padding is at most this fraction of its width is sent with its
# padding; a wider one is copied, since sending the padding costs more.
_MAX_PADDING = 0.25

_CPU = 1  # kDLCPU
# What libraries raise that export no such array.
_NO_DLPACK = (AttributeError, TypeError, ValueError, RuntimeError,
              BufferError)


def check_dtype(dtype: Any, name: str = "dtype") -> "np.dtype[Any]":
    """`dtype` as numpy has it, or an error."""
    try:
        found: "np.dtype[Any]" = np.dtype(dtype)
    except support.NO_TYPE:
        raise InvalidArgument(
            f"{name}: {dtype!r} is no type that numpy knows; allowed: a type "
            "or its name, such as "
            f"{', '.join(known.name for known in _TYPE_NAMES)}") from None
    return found


def wire_type(dtype: Any, name: str = "dtype", given: Any = None,
              array: Any = None) -> int:
    """Number in gemmd.v1.DataType of a numpy dtype; `given` and `array` as in
    support.check_input."""
    dtype = check_dtype(dtype, name)
    number = _TO_WIRE.get(dtype)
    if number is None:
        support.check_input(dtype, name, given, array)
        raise InvalidArgument(f"{name}: {dtype} is no type of a matrix")
    return number


def numpy_type(number: int) -> "np.dtype[Any]":
    """numpy dtype of a number in gemmd.v1.DataType."""
    dtype = _FROM_WIRE.get(number)
    if dtype is None:
        raise InvalidArgument(f"data type {number} has no numpy dtype")
    return dtype


def wire_order(order: Any, name: str = "order") -> int:
    """Number in gemmd.v1.Order of "C" (row-major) or "F" (column-major)."""
    if not isinstance(order, str) or order not in ("C", "F"):
        raise InvalidArgument(f"{name}: {order!r} is not 'C' or 'F'")
    return api.ROW_MAJOR if order == "C" else api.COLUMN_MAJOR


def wire_sparsity(sparse: bool) -> int:
    """Number in gemmd.v1.Sparsity."""
    return api.SPARSE if sparse else api.DENSE


def check_number(value: Any, name: str) -> float:
    """`value` as a float, or an error."""
    try:
        # numpy's complex numbers become floats without their imaginary part.
        if getattr(getattr(value, "dtype", None), "kind", "f") in "cmM":
            raise TypeError
        if isinstance(value, np.ndarray):
            value = as_array(value, name).item()
        return float(value)
    except OverflowError:
        raise InvalidArgument(
            f"{name}: is beyond what a float holds") from None
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"{name}: {value!r} is not a real number") from None


def check_single(value: Any, name: str) -> float:
    """`value` as a number that float32 holds, rounded, or an error."""
    number = check_number(value, name)
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise InvalidArgument(f"{name}: {number:g} is beyond what float32 "
                              "holds") from None
    return number


def singles(array: Array, name: str) -> Array:
    """`array` as float32, rounded, or an error where a number is beyond that."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(array, np.float32)
    # Only wider floats have such numbers; their infinities are none.
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        beyond = np.isinf(rounded) & np.isfinite(array)
        if beyond.any():
            raise InvalidArgument(f"{name}: {array[beyond].flat[0]:g} is beyond "
                                  "what float32 holds")
    return rounded


def check_shape(shape: Any) -> tuple[int, int]:
    """`shape` as (rows, columns), or an error."""
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"shape: {shape!r} is not (rows, columns)") from None
    return check_integer(rows, "shape"), check_integer(columns, "shape")


class Operand(NamedTuple):
    """A matrix, or a batch of them, as it goes on the wire."""
    order: Order
    leading_dimension: int  # Elements.
    data: memoryview        # Bytes, padding of the last line absent.
    batch_stride: Optional[int] = None  # Elements; None is tight.
    # What has no bytes here: an array in device memory.
    source: Any = None

    @property
    def is_on_device(self) -> bool:
        return self.source is not None

    def layout(self) -> Any:
        return api.Layout(order=wire_order(self.order),
                          leading_dimension=self.leading_dimension,
                          batch_stride=self.batch_stride)


def eight_bits(value: Any) -> Any:
    """The type of a torch.Tensor of eight bits that DLPack may not know."""
    torch = sys.modules.get("torch")
    for name, dtype in (("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
                        ("float8_e5m2", ml_dtypes.float8_e5m2)):
        if getattr(value, "dtype", None) is getattr(torch, name, value):
            return dtype
    return None


def _is_on_host(value: Any) -> bool:
    try:
        return int(value.__dlpack_device__()[0]) == _CPU
    except _NO_DLPACK:
        return False


def _from_dlpack(value: Any, name: str) -> Array:
    torch = sys.modules.get("torch")
    try:
        # DLPack of numpy knows neither these nor bfloat16: their bits travel
        # as integers.
        dtype = eight_bits(value)
        if torch is not None and dtype is not None:
            return np.from_dlpack(value.view(torch.uint8)).view(dtype)
        if torch is not None and getattr(value, "dtype", None) is getattr(
                torch, "bfloat16", value):
            return np.from_dlpack(value.view(torch.int16)).view(
                ml_dtypes.bfloat16)
        return np.from_dlpack(value)
    except _NO_DLPACK as error:
        # JAX knows how numpy has its bfloat16 and float8.
        if hasattr(value, "__array__") and _is_on_host(value):
            with contextlib.suppress(*_NO_DLPACK):
                return np.asarray(value)
        raise InvalidArgument(
            f"{name}: {type(value).__name__} is no array in host memory "
            f"({error}); copy it to one first") from None


def as_array(value: Any, name: str) -> Array:
    """Any array of host memory, without a copy where that is possible.

    numpy's own, those of torch and others through DLPack or __array__, and
    nested sequences.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidArgument(
            f"{name}: masked arrays are not multiplied, since the mask would "
            f"be ignored; use {name}.filled(0) or another value")
    if isinstance(value, np.ndarray):
        return np.asarray(value)  # numpy.matrix never has but two dimensions.
    if isinstance(value, (Bits, Composite)):
        instead = "" if isinstance(value, Bits) else ", as its toarray()"
        raise InvalidArgument(f"{name}: is {type(value).__name__}; allowed: "
                              f"an array{instead}")
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, name)
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name}: {error}") from None


def check_matrix(value: Any, name: str) -> Any:
    """`value` as a two-dimensional array of a known type, or an error; Bits
    and a sparse or quantized matrix as they are."""
    array: Any = (value if isinstance(value, (Bits, Composite))
                  else as_array(value, name))
    if array.ndim != 2:
        raise InvalidArgument(
            f"{name}: has {array.ndim} dimension(s), shape {array.shape}; a "
            "matrix has 2")
    wire_type(array.dtype, name, value, array)
    return array


def _leading_dimension(width: int, lines: int, width_stride: int,
                       line_stride: int, item: int,
                       padding: float) -> Optional[int]:
    """Of lines that are contiguous and not too far apart, else None."""
    if width > 1 and width_stride != item:
        return None
    if lines <= 1:
        return max(width, 1)
    if line_stride % item or line_stride < width * item:
        return None
    leading = line_stride // item
    return leading if leading <= width * (1 + padding) + 16 else None


def _matrix_stride(array: Any, lines: int, leading: int,
                   padding: float) -> Optional[int]:
    """Elements between the matrices of a batch, or None when they are not
    evenly spaced or too far apart."""
    if array.ndim == 2 or array.shape[0] <= 1:
        return lines * leading
    stride, odd = divmod(array.strides[0], array.itemsize)
    if odd or not 0 < stride <= lines * leading * (1 + padding) + 16:
        return None
    return int(stride)


def lying(array: Any, order: Optional[Order], padding: float
          ) -> Optional[tuple[Order, int, int]]:
    """How a matrix, or a batch, lies: its order, or `order` where given, its
    leading dimension and the stride of the batch, whose paddings are at most
    that fraction. None where it lies otherwise. Reads no element."""
    rows, columns = array.shape[-2:]
    row_stride, column_stride = array.strides[-2:]
    item = array.itemsize
    orders: tuple[Order, ...] = ("C", "F") if order is None else (order,)
    for kind in orders:
        leading = (_leading_dimension(columns, rows, column_stride, row_stride,
                                      item, padding) if kind == "C" else
                   _leading_dimension(rows, columns, row_stride, column_stride,
                                      item, padding))
        if leading is None:
            continue
        stride = _matrix_stride(array, rows if kind == "C" else columns,
                                leading, padding)
        if stride is not None:
            return kind, leading, stride
    return None


def _view(array: Array, order: Order, leading: int, stride: int) -> Operand:
    rows, columns = array.shape[-2:]
    lines, width = (rows, columns) if order == "C" else (columns, rows)
    count = array.shape[0] if array.ndim == 3 else 1
    elements = (count - 1) * stride + (lines - 1) * leading + width
    # numpy cannot stride over all types of ml_dtypes.
    plain = array.view(f"u{array.itemsize}")
    flat = np.lib.stride_tricks.as_strided(
        plain, shape=(elements,), strides=(array.itemsize,), writeable=False)
    tight = count == 1 or stride == lines * leading
    return Operand(order, leading, flat.view(np.uint8).data,
                   None if tight else stride)


def _pack(array: Array, order: Order) -> Operand:
    """Elements of less than a byte as lines of bytes."""
    lines = array if order == "C" else array.swapaxes(-1, -2)
    packed = (nibbles.pack(lines) if nibbles.are(array.dtype) else
              bits.pack(lines))
    return Operand(order, 0, np.ascontiguousarray(packed).reshape(-1).data)


def operand(array: Any, order: Optional[Order] = None) -> Operand:
    """The bytes of a matrix or of a batch of them (three dimensions), without
    a copy where its strides allow.

    `order` forces "C" or "F"; None takes what the array has. A transposed
    view of a C-ordered array is an F-ordered matrix and needs no copy.
    """
    if isinstance(array, Bits):
        kind: Order = "C" if array.order == "C" else "F"
        return Operand(kind, 0, array.packed.reshape(-1).data)
    if isinstance(array, Composite):
        return Operand(array.order, 0,
                       np.ascontiguousarray(array.lines).reshape(-1).data)
    if array.size == 0:
        return Operand(order or "C", 0, memoryview(b""))
    if array.dtype == np.bool_ or nibbles.are(array.dtype):
        return _pack(array, order or "C")
    lies = lying(array, order, _MAX_PADDING)
    if lies is not None:
        return _view(array, *lies)
    rows, columns = array.shape[-2:]
    order = order or "C"
    lines = array if order == "C" else array.swapaxes(-1, -2)
    copy: Array = np.array(lines, order="C", copy=True, subok=False)
    return _view(copy if order == "C" else copy.swapaxes(-1, -2), order,
                 columns if order == "C" else rows, rows * columns)


def matrix(data: Any, shape: tuple[int, ...], dtype: "np.dtype[Any]",
           order: Order) -> Array:
    """A matrix, or batch of them, over tight bytes, without a copy; read-only
    where they are."""
    flat: Array = np.frombuffer(data, dtype=np.uint8).view(dtype)
    *batch, rows, columns = shape
    if order == "C":
        return flat.reshape(shape)
    return flat.reshape(*batch, columns, rows).swapaxes(-1, -2)
