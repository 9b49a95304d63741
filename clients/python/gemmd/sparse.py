"""Matrices of which every chunk of four elements stores two."""

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from . import nibbles, patterns, support
from .arguments import check_flag
from .composite import Composite, check_axis, place
from .errors import InvalidArgument

Array = npt.NDArray[Any]

# Chunks that are worked on at once: few enough for a processor's cache.
_CHUNKS_AT_ONCE = 1 << 16


def _halves(metadata: npt.NDArray[np.uint8],
            chunks: int) -> npt.NDArray[np.uint8]:
    """Four bits each, of so many chunks a line."""
    both: npt.NDArray[np.uint8] = np.stack(
        (metadata & 15, metadata >> 4), axis=-1)
    *lines, size = metadata.shape
    return both.reshape(*lines, 2 * size)[..., :chunks]


class SparseMatrix(Composite):
    """A matrix that stores two of every four elements along k, of float32 one
    of every two, or a batch of them: what sparse24 makes.

    It may be a or b of matmul, and what Client.tensor brings to the device. As
    a, k is its axis -1; as b, its axis -2; `.T` changes between them. Immutable.
    """

    sparse = True

    @classmethod
    def from_parts(cls, values: Any, metadata: Any,
                   axis: int = -1) -> "SparseMatrix":
        """From `values` (..., lines, k/2), in ascending order of k, of float32
        too, and `metadata` (..., lines, bytes) of uint8, four bits for every
        chunk as gemmd/v1/types.proto describes them.

        Lines are rows where `axis` is -1, columns where it is -2. ValueError
        names the first place whose metadata are not legal.
        """
        from . import arrays

        given, values = values, arrays.as_array(values, "values")
        metadata = arrays.as_array(metadata, "metadata")
        support.check_sparse_type(values, "values", given)
        if values.ndim < 2:
            raise InvalidArgument(f"values: has {values.ndim} dimension(s); "
                                  "a matrix has 2")
        pattern = patterns.of(values.dtype)
        chunks, rest = divmod(values.shape[-1], pattern.kept)
        if rest:
            raise InvalidArgument(
                f"values: has {values.shape[-1]} a line; allowed: multiples of"
                f" {pattern.kept}, {pattern.kept} for every {pattern.chunk} k")
        shape = (*values.shape[:-1], (chunks + 1) // 2)
        if metadata.dtype != np.uint8 or metadata.shape != shape:
            raise InvalidArgument(
                f"metadata: {metadata.dtype} of shape {metadata.shape} is not "
                f"that of the values; allowed: uint8 of shape {shape}")
        halves = _halves(metadata, chunks)
        axis = check_axis(axis, values.ndim)
        legal = pattern.legal[halves]
        if not legal.all():
            flat = int(np.argmin(legal))
            line, chunk = divmod(flat, chunks)
            first = chunk * pattern.chunk
            raise InvalidArgument(
                f"metadata: 0x{int(halves.reshape(-1)[flat]):x} for k {first} "
                f"to {first + pattern.chunk - 1} of "
                f"{place(line, shape[-2], shape[:-2], axis)}; allowed: "
                f"{pattern.rule}")
        plain = np.ascontiguousarray(values).view(np.uint8)
        return cls(np.concatenate((plain, metadata), axis=-1), values.dtype,
                   chunks * pattern.chunk, axis)

    @classmethod
    def from_cutlass(cls, values: Any, metadata: Any,
                     axis: int = -1) -> "SparseMatrix":
        """As from_parts, from metadata in the order of CUTLASS 2's kernels,
        which PyTorch's CUTLASS backend of semi-structured sparsity had at
        first (its later order, in blocks of 64 lines, is another).

        values    (..., lines, k/2), in ascending order of k. Lines are a
                  multiple of 32, of elements of 8 bits of 16; k is one of 32,
                  of elements of 8 bits of 64, of float32 of 16.
        metadata  int16, of elements of 8 bits int32: (..., lines, words), as
                  reorder_meta of CUTLASS leaves them.
        """
        from . import arrays, metadata_order

        values = arrays.as_array(values, "values")
        return cls.from_parts(
            values, metadata_order.from_cutlass(metadata, values), axis)

    @staticmethod
    def line_bytes(length: int, dtype: Any) -> int:
        """Of a line of so many elements, zeros included."""
        chunks = length // patterns.of(dtype).chunk
        return int(length // 2 * np.dtype(dtype).itemsize + (chunks + 1) // 2)

    def _values_bytes(self) -> int:
        return self._length // 2 * self.dtype.itemsize

    @property
    def values(self) -> Array:
        """A copy of what is stored, (..., lines, k/2)."""
        values = self._lines[..., :self._values_bytes()]
        return np.ascontiguousarray(values).view(self.dtype)

    @property
    def metadata(self) -> npt.NDArray[np.uint8]:
        """A copy of the four bits for every chunk, (..., lines, bytes)."""
        return self._lines[..., self._values_bytes():].copy()

    def toarray(self) -> Array:
        """The matrix with its zeros, in its order."""
        pattern = patterns.of(self.dtype)
        plain = f"u{self.dtype.itemsize}"
        values = self.values.view(plain).reshape(-1, pattern.kept)
        chunks = self._length // pattern.chunk
        halves = _halves(self.metadata, chunks).reshape(-1)
        dense = np.zeros(len(halves) * pattern.chunk, plain)
        for first in range(0, len(halves), _CHUNKS_AT_ONCE):
            some = slice(first, first + _CHUNKS_AT_ONCE)
            start = np.arange(first, first + len(halves[some])) * pattern.chunk
            for i in range(pattern.kept):
                places = pattern.places[:, i].take(halves[some])
                dense[start + places] = values[some, i]
        lines = dense.view(self.dtype).reshape(*self._lines.shape[:-1],
                                               self._length)
        return self._oriented(lines)

    def __repr__(self) -> str:
        pattern = patterns.of(self.dtype)
        return self._text(f"{pattern.kept} of {pattern.chunk}")


def _refuse(values: int, flat: int, pattern: patterns.Pattern,
            shape: tuple[int, ...], axis: int) -> NoReturn:
    line, chunk = divmod(flat, shape[-1] // pattern.chunk)
    first = chunk * pattern.chunk
    last = first + pattern.chunk - 1
    raise InvalidArgument(
        f"array: has {int(values).bit_count()} elements that are not zero at k"
        f" {first} to {last} of {place(line, shape[-2], shape[:-2], axis)}; "
        f"allowed: {pattern.kept} of every {pattern.chunk}. prune=True keeps "
        "those of the greatest magnitude")


def _compress(lines: Array, prune: bool, axis: int) -> npt.NDArray[np.uint8]:
    """Lines of a C-ordered array as they go on the wire."""
    pattern = patterns.of(lines.dtype)
    plain = f"u{lines.dtype.itemsize}"
    chunks = lines.reshape(-1, pattern.chunk)
    flat = chunks.view(plain).reshape(-1)
    values = np.empty((len(chunks), pattern.kept), plain)
    halves: npt.NDArray[np.uint8] = np.empty(len(chunks), np.uint8)
    for first in range(0, len(chunks), _CHUNKS_AT_ONCE):
        some = slice(first, first + _CHUNKS_AT_ONCE)
        magnitudes = patterns.magnitudes(chunks[some])
        kept: Array = patterns.not_zero(magnitudes).reshape(-1)
        metadata = pattern.metadata.take(kept)
        if prune and metadata.max() == patterns.ILLEGAL:
            greatest = patterns.greatest(magnitudes, pattern.kept)
            kept = np.where(metadata == patterns.ILLEGAL, greatest, kept)
            metadata = pattern.metadata.take(kept)
        if metadata.max() == patterns.ILLEGAL:
            at = int(np.argmax(metadata == patterns.ILLEGAL))
            _refuse(kept[at], first + at, pattern, lines.shape, axis)
        halves[some] = metadata
        start = np.arange(first, first + len(metadata)) * pattern.chunk
        for i in range(pattern.kept):
            places = pattern.places[:, i].take(metadata)
            values[some, i] = flat.take(start + places)
    *sides, length = lines.shape
    halves = halves.reshape(*sides, length // pattern.chunk)
    stored = values.reshape(*sides, length // 2).view(np.uint8)
    return np.concatenate((stored, nibbles.pack(halves)), axis=-1)


def sparse24(array: Any, axis: int = -1, *,
             prune: bool = False) -> SparseMatrix:
    """A matrix, or batch of them, that stores two of every four elements along
    `axis`, of float32 one of every two.

    array  (..., rows, columns) of a type that is multiplied, but not bool.
    axis   That which k is: -1, the default, for a; -2 for b. Its length is a
           multiple of 4, of float32 of 2.
    prune  What is more than the pattern allows is dropped: the greatest
           magnitudes stay, of equal ones those of lower k. By default it is a
           ValueError that names the first place. -0.0 counts as zero.
    """
    from . import arrays

    given, array = array, arrays.as_array(array, "array")
    support.check_sparse_type(array, "array", given)
    if array.ndim < 2:
        raise InvalidArgument(f"array: has {array.ndim} dimension(s), shape "
                              f"{array.shape}; a matrix has 2")
    axis = check_axis(axis, array.ndim)
    prune = check_flag(prune, "prune")
    pattern = patterns.of(array.dtype)
    length = array.shape[axis]
    if length % pattern.chunk:
        raise InvalidArgument(
            f"array: has {length} elements along axis {axis}; allowed in a "
            f"sparse matrix of {array.dtype}: multiples of {pattern.chunk}")
    lines = np.ascontiguousarray(
        array if axis == -1 else array.swapaxes(-1, -2))
    return SparseMatrix(_compress(lines, prune, axis), array.dtype, length,
                        axis)


def is_sparse(value: Any) -> bool:
    """Whether an operand is sparse, here or on a device."""
    return getattr(value, "sparse", False) is True
