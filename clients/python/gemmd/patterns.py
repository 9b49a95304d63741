"""Which elements of its chunk a sparse line stores, and the four bits that say
so: two of four, of float32 one of two. See Sparsity in gemmd/v1/types.proto."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

ILLEGAL = 0xFF


class Pattern(NamedTuple):
    """Tables of one kind of chunk."""
    chunk: int      # Elements.
    kept: int       # Of them that are stored.
    metadata: Bytes  # By the set of elements that are not zero, a bit for each.
    places: Bytes   # By metadata: where each stored element stands.
    legal: npt.NDArray[np.bool_]  # By metadata.
    rule: str


def _two_of_four() -> Pattern:
    places = np.zeros((16, 2), np.uint8)
    legal = np.zeros(16, np.bool_)
    metadata = np.full(16, ILLEGAL, np.uint8)
    for first in range(4):
        for second in range(first + 1, 4):
            code = first | second << 2
            places[code], legal[code] = (first, second), True
    # A chunk with fewer values takes the least metadata that has them.
    for code in np.flatnonzero(legal)[::-1]:
        both = sum(1 << int(place) for place in places[code])
        for values in range(16):
            if values & both == values:
                metadata[values] = code
    return Pattern(4, 2, metadata, places, legal,
                   "0x4, 0x8, 0x9, 0xc, 0xd or 0xe: the places of two of four "
                   "elements in ascending order")


def _one_of_two() -> Pattern:
    places = np.zeros((16, 1), np.uint8)
    places[0xE] = 1
    legal = np.zeros(16, np.bool_)
    legal[[0x4, 0xE]] = True
    return Pattern(2, 1, np.array([0x4, 0x4, 0xE, ILLEGAL], np.uint8), places,
                   legal, "0x4 or 0xe: the place of one of two elements")


TWO_OF_FOUR = _two_of_four()
ONE_OF_TWO = _one_of_two()


def of(dtype: Any) -> Pattern:
    return ONE_OF_TWO if np.dtype(dtype) == np.float32 else TWO_OF_FOUR


def magnitudes(elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Unsigned integers in the order of the elements' magnitudes; 0 of zeros,
    also of negative ones. NaN is the greatest."""
    if elements.dtype == np.uint8:
        return elements
    if elements.dtype == np.int8:
        return np.abs(elements.astype(np.int16)).astype(np.uint8)
    bits = elements.view(f"u{elements.itemsize}")
    magnitude: npt.NDArray[Any] = bits & np.array(
        np.iinfo(bits.dtype).max >> 1, bits.dtype)
    return magnitude


def not_zero(chunks: npt.NDArray[Any]) -> Bytes:
    """The elements of each chunk that are not zero, a bit for each. `chunks`
    are magnitudes, one a row."""
    flags = chunks != 0
    if chunks.shape[-1] == 2:
        pair = flags.view("<u2")
        low: Bytes = (pair | pair >> 7).astype(np.uint8) & np.uint8(3)
        return low
    # Byte i of the word goes to bit 24 + i.
    word = flags.view("<u4") * np.uint32(1 << 24 | 1 << 17 | 1 << 10 | 1 << 3)
    high: Bytes = (word >> 24).astype(np.uint8) & np.uint8(15)
    return high


def greatest(chunks: npt.NDArray[Any], kept: int) -> Bytes:
    """The `kept` elements of each chunk of the greatest magnitude, of equal
    ones those that come first."""
    size = chunks.shape[-1]
    beaten = [np.zeros(chunks.shape[0], np.uint8) for _ in range(size)]
    for late in range(size):
        for early in range(late):
            wins = chunks[:, early] >= chunks[:, late]
            beaten[late] += wins
            beaten[early] += ~wins
    result = np.zeros(chunks.shape[0], np.uint8)
    for place in range(size):
        result |= (beaten[place] < kept).astype(np.uint8) << np.uint8(place)
    return result
