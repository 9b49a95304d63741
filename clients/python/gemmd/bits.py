"""Matrices of bits, eight to a byte."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import check_integer
from .errors import InvalidArgument


def size_of(width: int) -> int:
    """Bytes of a line of so many."""
    return (width + 7) // 8


def pack(lines: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Lines of bool."""
    return np.packbits(lines, axis=-1, bitorder="little")


def unpack(packed: npt.NDArray[np.uint8], width: int) -> npt.NDArray[Any]:
    """Lines of so many bool."""
    return np.unpackbits(packed, axis=-1, count=width,
                         bitorder="little").view(np.bool_)


class Bits:
    """A matrix of bits that is packed already: what bool arrays become.

    `packed` holds its lines, one a row of uint8, lowest bit first: rows of the
    matrix in order "C", columns in order "F". `width` is their length in bits;
    what lies behind it in a line's last byte does not count. Products are
    fastest where k runs along the lines: rows of a, columns of b.

        gemmd.Bits(np.packbits(mask, axis=1, bitorder="little"), mask.shape[1])
    """

    dtype = np.dtype(np.bool_)
    ndim = 2

    def __init__(self, packed: Any, width: int, order: str = "C") -> None:
        from . import arrays

        lines = arrays.as_array(packed, "packed")
        width = check_integer(width, "width")
        if width < 0:
            raise InvalidArgument(f"width: {width}; allowed: from 0")
        size = size_of(width)
        if lines.dtype != np.uint8 or lines.ndim != 2 or (
                lines.shape[1] != size):
            raise InvalidArgument(
                f"packed: {lines.dtype} of shape {lines.shape} does not hold "
                f"lines of {width} bits; allowed: uint8 of shape (lines, "
                f"{size})")
        arrays.wire_order(order)
        self.packed: npt.NDArray[Any] = np.ascontiguousarray(lines)
        self.width = width
        self.order = order

    @property
    def shape(self) -> tuple[int, int]:
        lines = self.packed.shape[0]
        return ((lines, self.width) if self.order == "C"
                else (self.width, lines))

    @property
    def T(self) -> "Bits":
        """The transpose: another view of the same bits."""
        return Bits(self.packed, self.width, "F" if self.order == "C" else "C")
