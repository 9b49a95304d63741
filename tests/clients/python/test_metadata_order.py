"""Metadata in CUTLASS's order: put there word by word, in the steps in which
its documentation of the order moves a word, and read back."""

import unittest

import gemmd
import ml_dtypes
import numpy as np

_TYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.int8, np.uint8,
          ml_dtypes.float8_e4m3fn)


def word_of(dtype):
    return np.dtype(np.uint32 if np.dtype(dtype).itemsize == 1
                    else np.uint16)


def stored_at(line, place, lines, word):
    """Where in memory the word of a line and a place in it is."""
    of_16_bits = word.itemsize == 2
    group, weave = (32, 4) if of_16_bits else (16, 2)
    # Lines of a group are woven, those eight apart side by side.
    row = line // group * group + line % 8 * weave + line % group // 8
    # Of each two by two words, those beside the diagonal change places.
    if row % 2 != place % 2:
        row, place = ((row + 1, place - 1) if row % 2 == 0
                      else (row - 1, place + 1))
    # Pairs of columns lie one behind the other, rows within them.
    return place // 2 * lines * 2 + row * 2 + place % 2


def to_cutlass(matrix):
    """The metadata of a SparseMatrix, reordered."""
    word = word_of(matrix.dtype)
    words = np.ascontiguousarray(matrix.metadata).view(word)
    *batch, lines, places = words.shape
    stored = np.zeros((int(np.prod(batch)), lines * places), word)
    for source, target in zip(words.reshape(-1, lines, places), stored):
        for line in range(lines):
            for place in range(places):
                target[stored_at(line, place, lines, word)] = (
                    source[line, place])
    return stored.reshape(words.shape).view(
        np.int32 if word.itemsize == 4 else np.int16)


class CutlassTest(unittest.TestCase):
    def matrix(self, dtype, *shape, axis=-1):
        dense = np.random.default_rng(1).integers(1, 5, shape).astype(dtype)
        return gemmd.sparse24(dense, axis, prune=True)

    def shuffled(self, dtype, *shape, axis=-1):
        """With other places than the first ones."""
        g = np.random.default_rng(2)
        dense = (g.integers(1, 5, shape) * (g.random(shape) < 0.6))
        return gemmd.sparse24(dense.astype(dtype), axis, prune=True)

    def test_every_word_of_every_type_is_found(self):
        for dtype in _TYPES:
            for shape in ((32, 128), (96, 128), (64, 512), (2, 3, 32, 256)):
                with self.subTest(dtype=np.dtype(dtype), shape=shape):
                    due = self.shuffled(dtype, *shape)
                    found = gemmd.SparseMatrix.from_cutlass(
                        due.values, to_cutlass(due))
                    np.testing.assert_array_equal(found.metadata,
                                                  due.metadata)
                    np.testing.assert_array_equal(
                        found.toarray().view("u1"), due.toarray().view("u1"))

    def test_words_are_where_the_order_is_written_down(self):
        """The first words of 64 x 512 float16: lines eight apart are side by
        side, of two places each."""
        word = np.dtype(np.uint16)
        first = {stored_at(line, place, 64, word): (line, place)
                 for line in range(64) for place in range(8)}
        self.assertEqual(len(first), 64 * 8)
        self.assertEqual(
            [first[i] for i in range(10)],
            [(0, 0), (8, 0), (0, 1), (8, 1), (16, 0), (24, 0), (16, 1),
             (24, 1), (1, 0), (9, 0)])
        self.assertEqual(first[2 * 64], (0, 2))

    def test_columns_of_a_b(self):
        due = self.shuffled(np.float16, 128, 32, axis=-2)
        found = gemmd.SparseMatrix.from_cutlass(due.values, to_cutlass(due),
                                                axis=-2)
        self.assertEqual(found.shape, (128, 32))
        np.testing.assert_array_equal(found.toarray(), due.toarray())

    def test_what_does_not_fit_is_refused(self):
        due = self.matrix(np.float16, 32, 128)
        words = to_cutlass(due)
        for values, metadata, says in (
                (due.values[:16], words[:16], "lines in multiples of 32, of "
                 "multiples of 16 values"),
                (due.values[:, :40], words[:, :5], "multiples of 16 values"),
                (due.values, words.view(np.int32), r"int32 of shape \(32, 4\) "
                 r"is not that of the values; allowed: int16 of shape "
                 r"\(32, 8\)"),
                (due.values, words.astype(np.float16), "metadata: float16"),
                (due.values, words[:, :4], "allowed: int16 of shape"),
                (due.values[0], words, r"1 dimension\(s\)"),
                (due.values, words * 0, "metadata: 0x0 for k 0 to 3 of row 0")
        ):
            with self.assertRaisesRegex(gemmd.InvalidArgument, says):
                gemmd.SparseMatrix.from_cutlass(values, metadata)
        bytes_ = self.matrix(np.int8, 16, 128)
        with self.assertRaisesRegex(ValueError, "int32 of shape"):
            gemmd.SparseMatrix.from_cutlass(bytes_.values, words[:16, :4])
        self.assertEqual(gemmd.SparseMatrix.from_cutlass(
            bytes_.values, to_cutlass(bytes_)).shape, (16, 128))


if __name__ == "__main__":
    unittest.main()
