"""Weights as types.proto describes them, written for these checks alone: what
the scales and zero points of a line are and its bytes. Pure functions; lines
run along the last axis.

Scales and zero points follow from the elements of their group and its place in
the line, so that what is cut out of an operand keeps them.
"""

import ml_dtypes
import numpy as np

FOUR_BITS = ("s4", "u4")
TYPES = (*FOUR_BITS, "s8", "e4m3")
GROUPS = ("32", "64", "128", "k")
# Shares of scales that are none of the usual numbers, of 64 each.
_ODD = {0: 0.0, 1: 2.0 ** 120, 2: 2.0 ** -140, 3: -0.75}


def size(group, k):
    """Elements of a group."""
    return max(k, 1) if group == "k" else int(group)


def count(group, k):
    """Groups of a line."""
    return -(-k // size(group, k))


def codes(lines):
    """The bits of each element, in a byte."""
    if lines.dtype.itemsize == 1 and lines.dtype.kind in "iu":
        return lines.view(np.uint8)
    if lines.dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)):
        return lines.astype(np.int8).view(np.uint8) & np.uint8(15)
    return lines.view(np.uint8)


def _hashes(lines, group):
    """Of each group, what nothing but its elements and its number make."""
    *sides, k = lines.shape
    groups, length = count(group, k), size(group, k)
    padded = np.zeros((*sides, groups * length), np.uint32)
    padded[..., :k] = codes(np.ascontiguousarray(lines))
    steps = np.arange(length, dtype=np.uint32) * np.uint32(2654435762) + (
        np.uint32(1))
    made = (padded.reshape(*sides, groups, length) * steps).sum(
        axis=-1, dtype=np.uint32)
    made += np.arange(groups, dtype=np.uint32) * np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        made = (made ^ made >> np.uint32(shift)) * np.uint32(factor)
    return made


def scales(lines, group, free):
    """float32: powers of two around one, or, if `free`, any number."""
    hashes = _hashes(lines, group)
    if not free:
        return np.exp2((hashes % 5).astype(np.float32) - 2)
    made = (1 + (hashes >> np.uint32(9)).astype(np.float64) / 2 ** 23) * (
        np.exp2((hashes & np.uint32(15)).astype(np.float64) - 8))
    odd = hashes >> np.uint32(5) & np.uint32(63)
    for number, value in _ODD.items():
        made = np.where(odd == number, value, made)
    return made.astype(np.float32)


def zero_points(lines, group, free):
    """Signed bytes, all of them if `free`, else small ones."""
    hashes = _hashes(lines, group) >> np.uint32(12)
    if free:
        return (hashes & np.uint32(255)).astype(np.uint8).view(np.int8)
    return (hashes % 17).astype(np.int8) - np.int8(8)


def spread(values, group, k):
    """What groups have, for each element."""
    return np.repeat(values, size(group, k), axis=-1)[..., :k]


def centered(lines, group, zeros):
    """Elements less their zero points, exactly, in float64."""
    wide = lines.astype(np.float64)
    return wide if zeros is None else wide - spread(zeros, group,
                                                    lines.shape[-1])


def elements_bytes(lines):
    """Lines of elements as bytes; half a byte that is left over is not
    zero."""
    made = codes(np.ascontiguousarray(lines))
    if lines.dtype not in (np.dtype(ml_dtypes.int4),
                           np.dtype(ml_dtypes.uint4)):
        return made
    if made.shape[-1] % 2:
        made = np.concatenate(
            (made, np.full((*made.shape[:-1], 1), 0xF, np.uint8)), axis=-1)
    return made[..., 0::2] | made[..., 1::2] << np.uint8(4)


def pack(lines, scales_, zeros=None):
    """Lines as bytes: elements, scales, and zero points if there are any."""
    parts = [elements_bytes(lines), np.ascontiguousarray(
        scales_, np.float32).view(np.uint8)]
    if zeros is not None:
        parts.append(np.ascontiguousarray(zeros, np.int8).view(np.uint8))
    return np.concatenate(parts, axis=-1)
