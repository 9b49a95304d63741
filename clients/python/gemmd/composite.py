"""Matrices whose lines along k hold more than elements."""

import math
from typing import Any, Literal, Optional, TypeVar

import numpy as np
import numpy.typing as npt

from .arguments import check_integer
from .errors import InvalidArgument

Self = TypeVar("Self", bound="Composite")


def check_axis(axis: Any, ndim: int) -> Literal[-1, -2]:
    """The axis that k is: that of columns, -1, or of rows, -2."""
    number = check_integer(axis, "axis")
    if number in (-1, ndim - 1):
        return -1
    if number in (-2, ndim - 2):
        return -2
    raise InvalidArgument(f"axis: {axis!r} is none of a matrix's; allowed: -1, "
                          "as of a, and -2, as of b")


def place(line: int, lines: int, batch: tuple[int, ...], axis: int) -> str:
    """Names a line, counted from that of the first matrix on."""
    kind = "row" if axis == -1 else "column"
    where = f"{kind} {line % lines}"
    if not batch:
        return where
    matrix = tuple(map(int, np.unravel_index(line // lines, batch)))
    return f"{where} of matrix {matrix if len(matrix) > 1 else matrix[0]}"


class Composite:
    """A matrix, or a batch of them, as bytes line by line. Immutable."""

    # numpy leaves `array @ matrix` alone.
    __array_ufunc__ = None

    def __init__(self, lines: Any, dtype: Any, length: int,
                 axis: int = -1) -> None:
        """`lines` are bytes as they go on the wire, (..., lines, bytes)."""
        self._lines: npt.NDArray[np.uint8] = lines
        self._length = length  # Of a line: k.
        self.axis = check_axis(axis, 2)
        self.dtype: "np.dtype[Any]" = np.dtype(dtype)

    def _with(self: Self, lines: Any, axis: int) -> Self:
        """One of the same kind."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._lines, made.axis = lines, check_axis(axis, 2)
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the matrix that it stands for: (..., rows, columns)."""
        *batch, lines, _ = self._lines.shape
        sides = (lines, self._length)
        return (*batch, *(sides if self.axis == -1 else sides[::-1]))

    @property
    def ndim(self) -> int:
        return self._lines.ndim

    @property
    def size(self) -> int:
        """Number of elements of the matrix that it stands for."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all lines."""
        return self._lines.nbytes

    @property
    def order(self) -> Literal["C", "F"]:
        """How it lies in memory: "C" where lines are rows, else "F"."""
        return "C" if self.axis == -1 else "F"

    @property
    def lines(self) -> npt.NDArray[np.uint8]:
        """Bytes, line by line as they go on the wire."""
        view = self._lines.view()
        view.flags.writeable = False
        return view

    @property
    def T(self: Self) -> Self:
        """The transpose, of a batch that of each matrix: another view of the
        same bytes."""
        return self._with(self._lines, -2 if self.axis == -1 else -1)

    def broadcast(self: Self, batch: tuple[int, ...]) -> Self:
        """Its matrices, repeated as numpy does, with one leading dimension;
        with none where one serves all."""
        *own, lines, size = self._lines.shape
        if all(side == 1 for side in own):
            array: npt.NDArray[np.uint8] = self._lines.reshape(lines, size)
        else:
            array = np.broadcast_to(
                self._lines, (*batch, lines, size)).reshape(
                    math.prod(batch), lines, size)
        return self._with(array, self.axis)

    def _oriented(self, lines: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Lines as rows, or as columns."""
        return lines if self.axis == -1 else lines.swapaxes(-1, -2)

    def toarray(self) -> npt.NDArray[Any]:
        """The matrix that it stands for, in its order."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        # Else numpy makes an array of one object of it.
        raise TypeError(f"a {type(self).__name__} does not become an array by "
                        "itself; allowed: its toarray()")

    def __len__(self) -> int:
        return self.shape[0]

    def _text(self, what: str) -> str:
        return (f"<gemmd.{type(self).__name__} "
                f"{'x'.join(map(str, self.shape))} {self.dtype}, {what} along "
                f"{'rows' if self.axis == -1 else 'columns'}, {self.nbytes} "
                "bytes>")
