"""Which results of calls that run together must not be written while others
run: those whose memory others use."""

import numpy as np

from . import arrays
from .product import Call


def overlapping(calls: list[Call], *, reads: bool) -> list[set[str]]:
    """Of each, the results for arrays that may overlap those of another one
    or, where calls also read while others write, what another one reads."""
    outs = [(i, name, out) for i, call in enumerate(calls)
            for name, out in call.outs()
            if isinstance(out, np.ndarray) and out.size]
    found: list[set[str]] = [set() for _ in calls]
    if not outs:
        return found
    used = [(i, out) for i, _, out in outs]
    if reads:
        used += [(i, np.frombuffer(data, np.uint8))
                 for i, call in enumerate(calls)
                 for data in call.buffers.values() if data]
    owner = np.array([i for i, _ in used])
    start, end = np.array([_bounds(array) for _, array in used]).T
    # All at once: every one with every other one.
    out = np.s_[:len(outs), np.newaxis]
    overlap = (start[out] < end) & (start < end[out]) & (owner[out] != owner)
    for overlaps, (i, name, _) in zip(overlap.any(axis=1), outs):
        if overlaps:
            found[i].add(name)
    return found


def _bounds(array: arrays.Array) -> tuple[int, int]:
    """Addresses of its first byte and of the one behind its last."""
    reach = [(side - 1) * stride
             for side, stride in zip(array.shape, array.strides)]
    start = array.ctypes.data
    return (start + sum(each for each in reach if each < 0),
            start + sum(each for each in reach if each > 0) + array.itemsize)
