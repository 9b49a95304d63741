"""Metadata of sparse matrices in the order of CUTLASS -> that of gemmd.

CUTLASS keeps metadata of its kernels for mma.sp (2.x) in words, of 32 bits for
elements of 8 bits and of 16 for others, which hold as many chunks as there are
four bits in them, the chunk of lowest k lowest. reorder_meta in its
cutlass/util/host_reorder.h and the layout ColumnMajorInterleaved<2> say where
the word of a line and of a place in it lies. Of a line's number the lowest
three bits, j, and the one or two above them, h, and of the place the lowest
bit c, change places with each other and with the rest:

    line   [rest g] [h, its upper bit] [h, its lowest bit] [j]
    place  [rest p] [c]
    stored [p] [g] [j] [h, its upper bit] [c] [h, its lowest bit]

Words of 32 bits have one h, and lines in groups of 16 instead of 32.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from . import patterns, support
from .errors import InvalidArgument

Bytes = npt.NDArray[np.uint8]


def from_cutlass(stored: Any, values: npt.NDArray[Any]) -> Bytes:
    """(..., lines, bytes), of the lines of `values`."""
    from . import arrays

    array = arrays.as_array(stored, "metadata")
    support.check_sparse_type(values, "values", values)
    if values.ndim < 2:
        raise InvalidArgument(f"values: has {values.ndim} dimension(s); "
                              "a matrix has 2")
    word = 4 if values.itemsize == 1 else 2
    pairs = 16 // word // 4  # Of groups of eight lines: one or two.
    *batch, lines, kept = values.shape
    chunk = patterns.of(values.dtype)
    least = 2 * 2 * word * chunk.kept  # Values of two words.
    if lines % (16 * pairs) or kept % least:
        raise InvalidArgument(
            f"values: shape {values.shape}; allowed in CUTLASS's order of "
            f"{values.dtype}: lines in multiples of {16 * pairs}, of multiples"
            f" of {least} values")
    shape = (*batch, lines, kept // (least // 2))
    if (array.dtype.kind not in "iu" or array.itemsize != word
            or array.shape != shape):
        raise InvalidArgument(
            f"metadata: {array.dtype} of shape {array.shape} is not that of "
            f"the values; allowed: int{8 * word} of shape {shape}")
    places = shape[-1]
    split = np.ascontiguousarray(array, f"<u{word}").reshape(
        -1, places // 2, lines // (16 * pairs), 8, pairs, 2, 2)
    # (batch, p, g, j, upper h, c, lowest h) -> lines, then places.
    words = split.transpose(0, 2, 4, 6, 3, 1, 5).reshape(shape)
    return np.ascontiguousarray(words).view(np.uint8)
