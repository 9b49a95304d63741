"""Sparse matrices: what sparse24 stores, what it refuses, and what is sent."""

import unittest

import gemmd
import ml_dtypes
import numpy as np
from gemmd import SparseMatrix, api, product, sparse24

from epilogue_reference import wide
from host_daemon import HostCase

BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
TYPES = (np.float32, np.float16, BF16, E4M3, ml_dtypes.float8_e5m2, np.int8,
         np.uint8)
# Two of four: places of what is not zero -> metadata.
PATTERNS = {(): 0x4, (0,): 0x4, (1,): 0x4, (2,): 0x8, (3,): 0xC, (0, 1): 0x4,
            (0, 2): 0x8, (1, 2): 0x9, (0, 3): 0xC, (1, 3): 0xD, (2, 3): 0xE}


def chunks_of(dtype):
    return 2 if dtype == np.float32 else 4


class Sparse24Test(unittest.TestCase):
    def test_every_pattern_has_its_metadata(self):
        for places, metadata in PATTERNS.items():
            dense = np.zeros((1, 4), np.int8)
            dense[0, list(places)] = 1 + np.arange(len(places))
            made = sparse24(dense)
            self.assertEqual(made.metadata.tolist(), [[metadata]], places)
            np.testing.assert_array_equal(made.toarray(), dense)

    def test_f32_stores_one_of_two(self):
        made = sparse24(np.array([[0, 0, 5, 0, 0, 6]], np.float32))
        self.assertEqual(made.values.tolist(), [[0, 5, 6]])
        self.assertEqual(made.metadata.tolist(), [[0x44, 0x0E]])

    def test_lower_k_is_the_lower_half_of_a_byte(self):
        made = sparse24(np.array([[0, 5, 0, 7, 1, 0, 0, 0]], BF16))
        self.assertEqual(made.metadata.tolist(), [[0x4D]])
        self.assertEqual(wide(made.values).tolist(), [[5, 7, 1, 0]])
        self.assertEqual(made.lines.shape, (1, 9))
        self.assertEqual(made.nbytes, 9)

    def test_comes_back_as_it_was(self):
        generator = np.random.default_rng(1)
        for dtype in TYPES:
            size = chunks_of(dtype)
            for shape in ((3, 8), (2, 3, 5, 12), (1, 4), (0, 8), (5, 0),
                          (7, 300)):
                dense = np.zeros(shape, dtype)
                flat = dense.reshape(-1, size)
                for _ in range(size // 2):
                    places = generator.integers(0, size, len(flat))
                    flat[np.arange(len(flat)), places] = generator.integers(
                        1, 5, len(flat)).astype(dtype)
                made = sparse24(dense)
                self.assertEqual(made.shape, shape)
                self.assertEqual(made.dtype, dtype)
                np.testing.assert_array_equal(wide(made.toarray()),
                                              wide(dense))
                columns = sparse24(dense.swapaxes(-1, -2), axis=-2)
                self.assertEqual(columns.shape, dense.swapaxes(-1, -2).shape)
                np.testing.assert_array_equal(columns.lines, made.lines)
                np.testing.assert_array_equal(
                    wide(columns.toarray()), wide(dense.swapaxes(-1, -2)))
                np.testing.assert_array_equal(
                    wide(made.T.toarray()), wide(dense.swapaxes(-1, -2)))
                again = SparseMatrix.from_parts(made.values, made.metadata)
                np.testing.assert_array_equal(again.lines, made.lines)

    def test_negative_zero_is_zero_and_nan_is_not(self):
        for dtype in (np.float16, BF16, E4M3, ml_dtypes.float8_e5m2):
            dense = np.full((1, 4), -0.0, dtype)
            dense[0, 2:] = np.nan, 1
            made = sparse24(dense)
            self.assertEqual(made.metadata.tolist(), [[0xE]])
            self.assertTrue(np.isnan(wide(made.toarray())[0, 2]))

    def test_what_does_not_obey_the_pattern_is_named(self):
        dense = np.zeros((2, 3, 12), BF16)
        dense[1, 2, 4:7] = 1
        with self.assertRaisesRegex(
                ValueError, "array: has 3 elements that are not zero at k 4 to "
                "7 of row 2 of matrix 1; allowed: 2 of every 4. prune=True"):
            sparse24(dense)
        with self.assertRaisesRegex(ValueError, "2 elements .* at k 2 to 3 of "
                                    "column 1; allowed: 1 of every 2"):
            sparse24(np.array([[0, 0], [1, 0], [0, 1], [0, 1]], np.float32),
                     axis=0)

    def test_pruning_keeps_the_greatest_and_of_equal_ones_the_first(self):
        for row, kept in (([1, -3, 2, 2], [0, -3, 2, 0]),
                          ([1, 1, 1, 1], [1, 1, 0, 0]),
                          ([0, 1, 2, -3], [0, 0, 2, -3]),
                          ([-1, 0, 0, 5], [-1, 0, 0, 5])):
            for dtype in (np.int8, np.float16, BF16):
                made = sparse24(np.array([row], dtype), prune=True)
                self.assertEqual(wide(made.toarray()).tolist(), [kept])
        most = sparse24(np.array([[127, -128, -127, 1]], np.int8), prune=True)
        self.assertEqual(most.toarray().tolist(), [[127, -128, 0, 0]])
        one = sparse24(np.array([[1, -2, 3, 3]], np.float32), prune=True)
        self.assertEqual(one.toarray().tolist(), [[0, -2, 3, 0]])

    def test_pruning_finds_what_is_beyond_the_first_chunks(self):
        dense = np.zeros((300, 1024), np.int8)
        dense[299, -4:] = 1, 2, 3, 4
        with self.assertRaisesRegex(ValueError, "k 1020 to 1023 of row 299"):
            sparse24(dense)
        made = sparse24(dense, prune=True).toarray()
        self.assertEqual(made[299, -4:].tolist(), [0, 0, 3, 4])
        self.assertEqual(made.sum(), 7)

    def test_shapes_and_types_that_have_none_are_told(self):
        for array, axis, text in (
                (np.zeros((3, 6), BF16), -1, "6 elements along axis -1; .*"
                 "multiples of 4"),
                (np.zeros((6, 4), BF16), 0, "6 elements along axis -2"),
                (np.zeros((3, 3), np.float32), -1, "multiples of 2"),
                (np.zeros(8, BF16), -1, "a matrix has 2"),
                (np.zeros((3, 8), bool), -1, "bool are not sparse"),
                (np.zeros((3, 8)), -1, "float64 are not multiplied"),
                (np.zeros((2, 4, 8), BF16), 0, "axis: 0 is none")):
            with self.assertRaisesRegex(gemmd.InvalidArgument, text):
                sparse24(array, axis)
        for wrong in "no", None, np.ones(4):
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        "prune: .*; allowed: False, True"):
                sparse24(np.zeros((4, 8), BF16), prune=wrong)

    def test_a_large_matrix_takes_about_a_second(self):
        dense = np.ones((2048, 4096), BF16)
        made = sparse24(dense, prune=True)
        self.assertEqual(made.nbytes, 2048 * (4096 + 512))
        self.assertEqual(repr(made), "<gemmd.SparseMatrix 2048x4096 bfloat16, "
                         "2 of 4 along rows, 9437184 bytes>")


class FromPartsTest(unittest.TestCase):
    def test_metadata_that_are_not_legal_are_named(self):
        values = np.ones((3, 6), np.int8)
        good = np.array([[0x44, 0xF4]] * 3, np.uint8)  # The last half is free.
        self.assertEqual(SparseMatrix.from_parts(values, good).shape, (3, 12))
        for code in set(range(16)) - set(PATTERNS.values()):
            bad = good.copy()
            bad[1, 0] = 0x4 | code << 4
            with self.assertRaisesRegex(
                    ValueError, f"metadata: {code:#x} for k 4 to 7 of row 1; "
                    "allowed: 0x4, 0x8"):
                SparseMatrix.from_parts(values, bad)
        with self.assertRaisesRegex(ValueError, "0x9 for k 2 to 3 of column 0"):
            SparseMatrix.from_parts(np.ones((1, 2), np.float32),
                                    np.array([[0x94]], np.uint8), axis=-2)

    def test_shapes_have_to_fit(self):
        values = np.ones((3, 6), np.int8)
        for metadata in (np.full((3, 3), 0x44, np.uint8),
                         np.full((3, 2), 0x44, np.int8)):
            with self.assertRaisesRegex(ValueError, r"uint8 of shape \(3, 2\)"):
                SparseMatrix.from_parts(values, metadata)
        with self.assertRaisesRegex(ValueError, "5 a line"):
            SparseMatrix.from_parts(values[:, :5], metadata)

    def test_masks_are_not_ignored(self):
        values = np.ones((2, 4), np.float16)
        metadata = np.full((2, 1), 0x44, np.uint8)
        for name, parts in (
                ("values", (np.ma.masked_array(values, True), metadata)),
                ("metadata", (values, np.ma.masked_array(metadata, True)))):
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        f"{name}: masked arrays"):
                SparseMatrix.from_parts(*parts)
        values = np.ones((32, 64), np.float16)
        words = np.full((32, 8), 0x4444, np.int16)
        for name, parts in (
                ("values", (np.ma.masked_array(values, True), words)),
                ("metadata", (values, np.ma.masked_array(words, True)))):
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        f"{name}: masked arrays"):
                SparseMatrix.from_cutlass(*parts)

    def test_bytes_in_another_order_are_told(self):
        values = np.arange(1, 9, dtype=np.float16).reshape(2, 4)
        for name, make in (
                ("array", lambda swapped: gemmd.sparse24(swapped, prune=True)),
                ("values", lambda swapped: SparseMatrix.from_parts(
                    swapped, np.full((2, 1), 0x44, np.uint8)))):
            with self.assertRaisesRegex(gemmd.InvalidArgument, (
                    rf"{name}: dtype >f2 has .*\.astype\('<f2'\)")):
                make(values.astype(">f2"))


class CallTest(unittest.TestCase):
    def test_the_side_that_is_sparse_is_said(self):
        a, b = np.zeros((3, 8), BF16), np.zeros((8, 5), BF16)
        for made, sparsity, b_sparsity in (
                (product.Call(sparse24(a), b), api.SPARSE, api.DENSE),
                (product.Call(a, sparse24(b, axis=0)), api.DENSE, api.SPARSE),
                (product.Call(a, sparse24(b.T).T), api.DENSE, api.SPARSE)):
            problem = made.header.problem
            self.assertEqual((problem.sparsity, problem.b_sparsity),
                             (sparsity, b_sparsity))
            self.assertEqual((problem.m, problem.n, problem.k), (3, 5, 8))
            self.assertEqual(problem.a_order, api.ROW_MAJOR)
            if b_sparsity:
                self.assertEqual(problem.b_order, api.COLUMN_MAJOR)

    def test_what_does_not_go_with_it_is_told(self):
        a, b = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
        fp8 = np.zeros((256, 256), E4M3)
        for call, error, text in (
                (lambda: product.Call(sparse24(a), sparse24(b)),
                 gemmd.InvalidArgument, "b: is sparse, and so is a"),
                (lambda: product.Call(sparse24(a).T, b, precision="tf32"),
                 gemmd.InvalidArgument, "a: is sparse along its columns; "
                 r"allowed: along k, as sparse24\(a, axis=-1\)"),
                (lambda: product.Call(a, sparse24(b), precision="tf32"),
                 gemmd.InvalidArgument, r"sparse24\(b, axis=-2\)"),
                (lambda: product.Call(sparse24(a), b), gemmd.Unimplemented,
                 "precision: None .* served: 'tf32', 'fast'"),
                (lambda: product.Call(a, b, c=sparse24(a), beta=1),
                 gemmd.InvalidArgument, "c: is sparse"),
                (lambda: product.Call(
                    sparse24(fp8), fp8, a_scale=np.ones((256, 2)),
                    b_scale=np.ones((2, 2))), gemmd.Unimplemented,
                 "a_scale: by blocks does not go with a sparse operand")):
            with self.assertRaisesRegex(error, text):
                call()


class ProductsTest(HostCase):
    def _integers(self, *shape, dtype=BF16):
        return np.random.default_rng(shape).integers(-3, 4, shape).astype(
            np.float32).astype(dtype)

    def test_either_side_alone_and_in_batches(self):
        for a_shape, b_shape in (((5, 16), (16, 7)), ((3, 5, 16), (16, 7)),
                                 ((5, 16), (3, 16, 7)), ((2, 1, 5, 16),
                                                         (3, 16, 7))):
            a, b = self._integers(*a_shape), self._integers(*b_shape)
            left, right = (sparse24(a, prune=True),
                           sparse24(b, axis=-2, prune=True))
            np.testing.assert_array_equal(
                self.client.matmul(left, b, out_dtype=np.float32),
                wide(left.toarray()) @ wide(b))
            np.testing.assert_array_equal(
                self.client.matmul(a, right, out_dtype=np.float32),
                wide(a) @ wide(right.toarray()))

    def test_vectors_and_streams(self):
        a, b = self._integers(5, 400), self._integers(400)
        left = sparse24(a, prune=True)
        due = wide(left.toarray()) @ wide(b)
        np.testing.assert_array_equal(
            self.client.matmul(left, b, out_dtype=np.float32), due)
        with gemmd.Client(self.client.target, stream_bytes=0) as client:
            np.testing.assert_array_equal(
                client.matmul(left, b, out_dtype=np.float32), due)
            lines = left.lines.copy()
            lines[3, 420] = 0x45
            bad = SparseMatrix(lines, BF16, 400)
            with self.assertRaisesRegex(
                    gemmd.InvalidArgument, ": a has metadata 0x5 for k 160 to "
                    "163 of row 3; allowed"):
                client.matmul(bad, b)
            np.testing.assert_array_equal(
                client.matmul(left, b, out_dtype=np.float32), due)

    def test_illegal_metadata_are_refused_in_one_message_too(self):
        a, b = self._integers(5, 16), self._integers(16, 3)
        lines = sparse24(a, prune=True).lines.copy()
        lines[3, 17] = 0x45
        bad = SparseMatrix(lines, BF16, 16)
        for ask in (lambda: self.client.matmul(bad, b),
                    lambda: self.client.matmul_grouped([bad], [b])):
            with self.assertRaisesRegex(
                    gemmd.InvalidArgument, ": a has metadata 0x5 for k 8 to 11 "
                    "of row 3; allowed"):
                ask()

    def test_long_lines_travel_in_parts(self):
        k = 1_600_004  # A message ends within a line, and within metadata.
        a = np.zeros((3, k), np.int8)
        a[:, 1::4], a[:, 3::4] = 1, 2
        left = sparse24(a)
        b = np.ones((k, 1), np.int8)
        with gemmd.Client(self.client.target, stream_bytes=0) as client:
            np.testing.assert_array_equal(client.matmul(left, b),
                                          np.full((3, 1), 3 * k // 4))
            lines = left.lines.copy()
            self.assertEqual(lines.shape[1], k // 2 + 200_001)
            lines[2, k // 2 + 200_000] = 0xDF  # k - 4; behind it is slack.
            bad = SparseMatrix(lines, np.int8, k)
            with self.assertRaisesRegex(
                    gemmd.InvalidArgument, f": a has metadata 0xf for k {k - 4}"
                    f" to {k - 1} of row 2; allowed"):
                client.matmul(bad, b)
            lines[2, k // 2 + 200_000] = 0x0D
            np.testing.assert_array_equal(
                client.matmul(SparseMatrix(lines, np.int8, k), b),
                np.full((3, 1), 3 * k // 4))

    def test_grouped(self):
        a = [sparse24(self._integers(m, 8), prune=True) for m in (1, 0, 5)]
        b = [self._integers(8, 6)] * 3
        for left, right, d in zip(a, b, self.client.matmul_grouped(a, b)):
            np.testing.assert_array_equal(
                wide(d), wide(left.toarray()) @ wide(right))

    def test_tensors(self):
        weights = sparse24(self._integers(16, 7, dtype=np.int8), axis=-2,
                           prune=True)
        x = self._integers(5, 16, dtype=np.int8)
        due = wide(x) @ wide(weights.toarray())
        with self.client.tensor(weights, label="w") as tensor:
            self.assertTrue(tensor.sparse)
            self.assertEqual((tensor.shape, tensor.order, tensor.nbytes),
                             ((16, 7), "F", weights.nbytes))
            self.assertIn("16x7 sparse int8 order F", repr(tensor))
            np.testing.assert_array_equal(x @ tensor, due)
            np.testing.assert_array_equal(tensor.T @ x.T, due.T)
            np.testing.assert_array_equal(np.asarray(tensor),
                                          weights.toarray())
            np.testing.assert_array_equal(tensor.T.compressed().lines,
                                          weights.lines)
            attached = self.client.attach(tensor.handle)
            self.assertTrue(attached.sparse)
            with self.assertRaisesRegex(ValueError, "is not sparse, as the "
                                        "tensor is; use gemmd.sparse24"):
                tensor.upload(weights.toarray())
            with self.assertRaisesRegex(ValueError, "tensor's order"):
                square = sparse24(np.zeros((8, 8), np.int8))
                with self.client.zeros((8, 8), np.int8, order="F",
                                       sparse=True) as other:
                    other.upload(square)
            with self.assertRaisesRegex(ValueError, "out: a sparse tensor"):
                self.client.matmul(np.zeros((16, 4), np.int8),
                                   np.zeros((4, 7), np.int8), out=tensor)
        with self.client.zeros((3, 8), BF16) as dense:
            with self.assertRaisesRegex(ValueError, "use array.toarray"):
                dense.upload(sparse24(np.zeros((3, 8), BF16)))
            with self.assertRaisesRegex(ValueError, "not sparse; use numpy"):
                dense.compressed()

    def test_tensors_of_types_and_shapes_that_have_none(self):
        for shape, dtype, text in (
                ((3, 6), BF16, "columns is 6; allowed in a sparse tensor of "
                 "bf16, whose rows run along k: multiples of 4"),
                ((3, 8), np.int32, "dtype is s32; allowed in a sparse matrix: "
                 "bf16, f16, f32, e4m3, e5m2, s8, u8")):
            with self.assertRaisesRegex(gemmd.InvalidArgument, text):
                self.client.zeros(shape, dtype, sparse=True)


if __name__ == "__main__":
    unittest.main()
