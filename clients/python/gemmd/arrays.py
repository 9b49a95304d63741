"""numpy arrays as matrices on the wire: element types, orders, bytes."""

from typing import NamedTuple

import ml_dtypes
import numpy as np

from . import api
from .errors import InvalidArgument

_TYPE_NAMES = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(ml_dtypes.float8_e4m3fn): "E4M3",
    np.dtype(ml_dtypes.float8_e5m2): "E5M2",
    np.dtype(np.int8): "S8",
    np.dtype(np.uint8): "U8",
    np.dtype(np.int32): "S32",
}
_NUMBERS = api.enum("DataType")
_TO_WIRE = {
    dtype: _NUMBERS[f"DATA_TYPE_{name}"] for dtype, name in _TYPE_NAMES.items()
}
_FROM_WIRE = {number: dtype for dtype, number in _TO_WIRE.items()}

# A view whose padding is at most this fraction of its width is sent with its
# padding; a wider one is copied, since sending the padding costs more.
_MAX_PADDING = 0.25


def wire_type(dtype, name: str = "dtype") -> int:
    """Number in gemmd.v1.DataType of a numpy dtype."""
    number = _TO_WIRE.get(np.dtype(dtype))
    if number is None:
        known = ", ".join(str(known) for known in _TO_WIRE)
        raise InvalidArgument(
            f"{name}: {np.dtype(dtype)} is not a gemmd type; convert the array "
            f"with astype() to one of {known}")
    return number


def numpy_type(number: int) -> np.dtype:
    """numpy dtype of a number in gemmd.v1.DataType."""
    dtype = _FROM_WIRE.get(number)
    if dtype is None:
        raise InvalidArgument(f"data type {number} has no numpy dtype")
    return dtype


def wire_order(order: str, name: str = "order") -> int:
    """Number in gemmd.v1.Order of "C" (row-major) or "F" (column-major)."""
    if order not in ("C", "F"):
        raise InvalidArgument(f"{name}: {order!r} is not 'C' or 'F'")
    return api.ROW_MAJOR if order == "C" else api.COLUMN_MAJOR


class Operand(NamedTuple):
    """A matrix as it goes on the wire."""
    order: str              # "C" or "F".
    leading_dimension: int  # Elements.
    data: memoryview        # Bytes, padding of the last line absent.

    def layout(self):
        return api.Layout(order=wire_order(self.order),
                          leading_dimension=self.leading_dimension)


def check_matrix(array, name: str) -> np.ndarray:
    """`array` as a two-dimensional array of a known type, or an error."""
    array = np.asanyarray(array)
    if array.ndim != 2:
        raise InvalidArgument(
            f"{name}: has {array.ndim} dimension(s), shape {array.shape}; a "
            "matrix has 2. Use x[None, :] or x[:, None] for a vector")
    wire_type(array.dtype, name)
    return array


def _leading_dimension(width, lines, width_stride, line_stride, item):
    """Of lines that are contiguous and not too far apart, else None."""
    if width > 1 and width_stride != item:
        return None
    if lines <= 1:
        return max(width, 1)
    if line_stride % item or line_stride < width * item:
        return None
    leading = line_stride // item
    return leading if leading <= width * (1 + _MAX_PADDING) + 16 else None


def _view(array, order, leading):
    lines, width = array.shape if order == "C" else array.shape[::-1]
    elements = (lines - 1) * leading + width
    flat = np.lib.stride_tricks.as_strided(
        array, shape=(elements,), strides=(array.itemsize,), writeable=False)
    return Operand(order, leading, memoryview(flat.view(np.uint8)))


def operand(array: np.ndarray, order=None) -> Operand:
    """The bytes of a matrix, without a copy where its strides allow.

    `order` forces "C" or "F"; None takes what the array has. A transposed
    view of a C-ordered array is an F-ordered matrix and needs no copy.
    """
    rows, columns = array.shape
    if array.size == 0:
        return Operand(order or "C", 0, memoryview(b""))
    row_stride, column_stride = array.strides
    item = array.itemsize
    if order != "F":
        leading = _leading_dimension(columns, rows, column_stride, row_stride,
                                     item)
        if leading is not None:
            return _view(array, "C", leading)
    if order != "C":
        leading = _leading_dimension(rows, columns, row_stride, column_stride,
                                     item)
        if leading is not None:
            return _view(array, "F", leading)
    order = order or "C"
    copy = np.array(array, order=order, copy=True, subok=False)
    return _view(copy, order, columns if order == "C" else rows)


def matrix(data, rows: int, columns: int, dtype, order: str) -> np.ndarray:
    """A read-only matrix over tight bytes, without a copy."""
    flat = np.frombuffer(data, dtype=np.uint8).view(dtype)
    if order == "C":
        return flat.reshape(rows, columns)
    return flat.reshape(columns, rows).T
