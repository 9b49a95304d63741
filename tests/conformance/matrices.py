"""Matrices as bytes in any layout, with poisoned padding."""

from typing import NamedTuple

import numpy as np

from gemmd import api, arrays

ORDERS = {"r": api.ROW_MAJOR, "c": api.COLUMN_MAJOR}


class Inline(NamedTuple):
    """An operand to send: its layout and its bytes."""
    order: str  # "r" or "c".
    leading_dimension: int
    data: memoryview


def _lines(matrix, order):
    return matrix if order == "r" else matrix.T


def encode(matrix, order, padding=0) -> Inline:
    """`padding` elements of NaN follow each line but the last."""
    lines = np.ascontiguousarray(_lines(matrix, order))
    if lines.size == 0:
        return Inline(order, 0, memoryview(b""))
    if not padding:
        return Inline(order, lines.shape[1],
                      memoryview(lines.reshape(-1).view(np.uint8)))
    leading = lines.shape[1] + padding
    padded = np.full((lines.shape[0], leading), np.nan, matrix.dtype)
    padded[:, :lines.shape[1]] = lines
    flat = padded.reshape(-1)[:padded.size - padding]
    return Inline(order, leading, memoryview(flat.view(np.uint8)))


def decode(data, rows, columns, dtype, order, padding=0):
    """(matrix, padding elements) of the bytes of a result.

    ValueError when their number is not that of the layout.
    """
    width, lines = (columns, rows) if order == "r" else (rows, columns)
    dtype = np.dtype(dtype)
    size = len(data) if data is not None else 0
    expected = ((lines - 1) * (width + padding) + width) * dtype.itemsize
    if rows == 0 or columns == 0:
        expected = 0
    if size != expected:
        raise ValueError(f"{size} bytes of D; {expected} expected")
    if expected == 0:
        return np.zeros((rows, columns), dtype), np.zeros(0, dtype)
    flat = np.frombuffer(data, np.uint8).view(dtype)
    if padding:
        flat = np.concatenate([flat, np.zeros(padding, dtype)])
    block = flat.reshape(lines, width + padding)
    return _lines(block[:, :width], order), block[:, width:]


def set_source(header, name, operand):
    """Names an Inline or a gemmd.Tensor as operand "a", "b" or "c".

    Returns the bytes to send, None for a tensor.
    """
    source = getattr(header, name)
    if isinstance(operand, Inline):
        source.inline.order = ORDERS[operand.order]
        source.inline.leading_dimension = operand.leading_dimension
        return operand.data
    source.tensor = operand.handle
    return None


def type_number(dtype):
    return arrays.wire_type(dtype)
