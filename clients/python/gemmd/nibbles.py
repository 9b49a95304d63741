"""Elements of four bits, two to a byte, the first of a line in the lower
half."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

S4 = np.dtype(ml_dtypes.int4)
U4 = np.dtype(ml_dtypes.uint4)


def are(dtype: Any) -> bool:
    """Whether elements of this type, one a byte in numpy, are such."""
    return np.dtype(dtype) in (S4, U4)


def width(length: int) -> int:
    """Bytes of a line of so many."""
    return (length + 1) // 2


def pack(lines: Array) -> Bytes:
    """Lines of integers of four bits of any type; half a byte that is left
    over is zero."""
    codes: Bytes = lines.astype(np.uint8) & np.uint8(15)
    if codes.shape[-1] % 2:
        codes = np.concatenate(
            (codes, np.zeros((*codes.shape[:-1], 1), np.uint8)), axis=-1)
    packed: Bytes = codes[..., 0::2] | codes[..., 1::2] << np.uint8(4)
    return packed


def unpack(packed: Bytes, length: int, dtype: Any) -> Array:
    """Lines of so many elements of `dtype`, which is int4 or uint4."""
    codes = np.stack((packed & np.uint8(15), packed >> np.uint8(4)), axis=-1)
    *lines, size = packed.shape
    flat: Array = codes.reshape(*lines, 2 * size)[..., :length]
    if np.dtype(dtype) == S4:
        # Bit 3 has weight -8.
        flat = (flat ^ np.uint8(8)).astype(np.int8) - np.int8(8)
    elements: Array = flat.astype(dtype)
    return elements
