"""Weights of other programs -> QuantizedMatrix. Both packings keep eight
elements of four bits in an int32."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import check_flag, check_integer
from .errors import InvalidArgument
from .quantized import QuantizedMatrix, group_of, quantized

Array = npt.NDArray[Any]

_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def _words(value: Any, name: str) -> Array:
    from . import arrays

    words = arrays.as_array(value, name)
    if words.ndim != 2 or words.dtype.kind not in "iu" or words.itemsize != 4:
        raise InvalidArgument(f"{name}: {words.dtype} of shape {words.shape}; "
                              "allowed: a matrix of int32")
    # Of any order of bytes.
    native = words.astype(words.dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(native).view(np.uint32)


def _fields(words: Array, bits: int) -> Array:
    """(rows, columns, fields), lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (words[..., None] >> shifts & np.uint32((1 << bits) - 1)).astype(
        np.int16)


def _flat(fields: Array) -> Array:
    """One row a row, also where there are none."""
    rows, columns, each = fields.shape
    return fields.reshape(rows, columns * each)


def _along_columns(words: Array, bits: int) -> Array:
    """One row a row of words, each of which is so many columns."""
    return _flat(_fields(words, bits))


def _check_scales(scales: Any, zeros: Array, columns: int) -> Array:
    from . import arrays

    array = arrays.as_array(scales, "scales")
    if array.ndim != 2 or array.shape[1] != columns:
        raise InvalidArgument(f"scales: shape {array.shape}; allowed: (groups, "
                              f"{columns}), as qweight has columns")
    if zeros.shape[0] != array.shape[0] or zeros.shape[1] < columns:
        raise InvalidArgument(
            f"qzeros: has {zeros.shape[0]} groups of {zeros.shape[1]} columns; "
            f"allowed: {array.shape[0]} of {columns}, as scales has")
    return array


def _check_ascending(g_idx: Any, k: int, groups: int) -> None:
    """Refuses groups that are not of consecutive k."""
    from . import arrays

    found = arrays.as_array(g_idx, "g_idx")
    if found.shape != (k,) or found.dtype.kind not in "iu":
        raise InvalidArgument(f"g_idx: {found.dtype} of shape {found.shape}; "
                              f"allowed: integers of ({k},)")
    size = group_of(k, groups) or max(k, 1)
    wrong = np.flatnonzero(found != np.arange(k) // size)
    if wrong.size:
        at = int(wrong[0])
        raise InvalidArgument(
            f"g_idx: k {at} is of group {int(found[at])}, not {at // size}; "
            f"allowed: groups of {size} consecutive k. Weights in the order of "
            "activations (act-order) are not served: order the rows of the "
            "weights and the columns of the activations by g_idx first")


def from_gptq(qweight: Any, scales: Any, qzeros: Any, *, bits: int = 4,
              zeros_plus_one: bool = True,
              g_idx: Any = None) -> QuantizedMatrix:
    """Weights of GPTQ, k x n, as b of matmul; `.T` is a.

    qweight  int32 (k/8, n). qweight[i, j] has elements 8 i to 8 i + 7 of
             column j: bits 0 to 3 are element 8 i, bits 28 to 31 the last.
    scales   (k/group, n) of floats.
    qzeros   int32 (k/group, n/8). qzeros[g, j] has the zero points of group g
             of columns 8 j to 8 j + 7, likewise from bits 0 to 3 on.
    zeros_plus_one
             A zero point is one more than what is stored, as the original
             format ("gptq") has it; False: it is stored itself ("gptq_v2").
    bits     4, or 8: four elements to an int32, where all zero points are 128;
             then the weights become int8.
    g_idx    The group of each k; only ascending ones are served.
    """
    zeros_plus_one = check_flag(zeros_plus_one, "zeros_plus_one")
    if check_integer(bits, "bits") not in (4, 8):
        raise InvalidArgument(f"bits: {bits!r}; allowed: 4, 8")
    words = _words(qweight, "qweight")
    fields = _fields(words, bits)
    k, columns = fields.shape[0] * fields.shape[2], words.shape[1]
    elements = fields.swapaxes(1, 2).reshape(k, columns)
    zeros = _along_columns(_words(qzeros, "qzeros"), bits) + zeros_plus_one
    scales = _check_scales(scales, zeros, columns)
    zeros = zeros[:, :columns]
    if g_idx is not None:
        _check_ascending(g_idx, k, scales.shape[0])
    if bits == 4:
        return quantized(elements, scales, zeros, dtype="u4", axis=-2)
    if (zeros != 128).any():
        raise InvalidArgument(
            f"qzeros: has a zero point of {int(zeros[zeros != 128][0])}; "
            "allowed with 8 bits: 128 alone, that of symmetric weights")
    return quantized(elements - 128, scales, dtype=np.int8, axis=-2)


def from_awq(qweight: Any, scales: Any, qzeros: Any) -> QuantizedMatrix:
    """Weights of AWQ, k x n, as b of matmul; `.T` is a.

    qweight  int32 (k, n/8). qweight[i, j] has row i of columns 8 j to 8 j + 7:
             bits 0 to 3 are column 8 j, and on in the order 0, 2, 4, 6, 1, 3,
             5, 7; so bits 4 to 7 are column 8 j + 2.
    scales   (k/group, n) of floats.
    qzeros   int32 (k/group, n/8), in the order of qweight: the zero points
             themselves.
    """
    places = np.argsort(_AWQ_ORDER)

    def columns(value: Any, name: str) -> Array:
        return _flat(_fields(_words(value, name), 4)[..., places])

    elements, zeros = columns(qweight, "qweight"), columns(qzeros, "qzeros")
    scales = _check_scales(scales, zeros, elements.shape[1])
    return quantized(elements, scales, zeros, dtype="u4", axis=-2)
