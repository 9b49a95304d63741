"""Quantized weights: what quantize makes, what lines hold, what a request says,
and what is refused."""

import itertools
import unittest

import gemmd
import numpy as np
from gemmd import Quantization, api, product, quantize

from quantized_reference import BF16, E4M3, ENDS, INT8, S4, TYPES, U4, Parts, wide


class LinesTest(unittest.TestCase):
    def test_the_first_of_two_is_the_lower_half(self):
        for dtype, elements, codes in (
                ("s4", [[-8, 7, -1, 0, 1]], [0x78, 0x0F, 0x01]),
                ("u4", [[15, 7, 1, 0, 9]], [0x7F, 0x01, 0x09])):
            made = gemmd.quantized(elements, [[0.5]], [[-3]], dtype=dtype)
            scale = np.array([0.5], np.float32).tobytes()
            self.assertEqual(made.lines.tobytes(),
                             bytes(codes) + scale + b"\xfd")
            self.assertEqual(made.elements.astype(int).tolist(), elements)
            self.assertEqual(made.zero_points.tolist(), [[-3]])
            self.assertEqual(made.nbytes, 8)

    def test_scales_then_zero_points_stand_behind_the_elements(self):
        elements = np.arange(70)[None] % 5
        scales = [[1.0, 2.0, 4.0]]
        made = gemmd.quantized(elements, scales, [[1, -2, 3]], dtype="u4")
        self.assertEqual(made.lines.shape, (1, 35 + 3 * 4 + 3))
        self.assertEqual(made.lines[0, 35:47].view("<f4").tolist(), scales[0])
        self.assertEqual(made.lines[0, 47:].view(np.int8).tolist(), [1, -2, 3])
        self.assertEqual(made.group, 32)
        due = (elements[0] - np.repeat([1, -2, 3], 32)[:70]) * np.repeat(
            scales[0], 32)[:70]
        self.assertEqual(made.dequantize().tolist(), [due.tolist()])

    def test_parts_come_back_as_they_went(self):
        for seed, (dtype, group, shape, axis) in enumerate(itertools.product(
                TYPES, (32, 64, 128, None),
                ((3, 300), (2, 3, 65, 4), (1, 1), (0, 40), (5, 0)),
                (-1, -2))):
            for zero_points in (False, True)[:1 + (dtype in ENDS
                                                   and dtype != INT8)]:
                p = Parts(seed, shape, dtype, group, zero_points, axis)
                made = p.matrix
                self.assertEqual((made.shape, made.dtype, made.ndim),
                                 (shape, dtype, len(shape)))
                np.testing.assert_array_equal(wide(made.elements),
                                              wide(p.elements))
                np.testing.assert_array_equal(made.scales, p.scales)
                self.assertEqual(made.zero_points is None, p.zeros is None)
                if zero_points:
                    np.testing.assert_array_equal(made.zero_points, p.zeros)
                np.testing.assert_array_equal(made.dequantize(np.float64),
                                              p.due)
                np.testing.assert_array_equal(made.T.dequantize(np.float64),
                                              p.due.swapaxes(-1, -2))
                self.assertEqual(made.T.axis, -3 - made.axis)
                self.assertEqual(made.nbytes, made.lines.size)

    def test_dequantize_rounds_once(self):
        # float32 rounds the product to the middle of two neighbours.
        for element, scale, dtype, due in (
                (127, 0.015717274, BF16, 1.9921875),
                (-127, 0.015717274, BF16, -1.9921875),
                (9, 0.11805556, E4M3, 1.125), (5, 0.2375, E4M3, 1.125),
                (127, 1e38, BF16, np.inf), (1, np.nan, BF16, np.nan)):
            made = gemmd.quantized([[element]], [[scale]], dtype=INT8)
            np.testing.assert_array_equal(
                wide(made.dequantize(dtype)), [[due]])

    def test_matrices_of_numpy_are_arrays(self):
        elements = np.arange(-8, 8).reshape(2, 8)
        made = gemmd.quantized(np.matrix(elements), np.matrix([[1], [2]]),
                               dtype="s4")
        self.assertIs(type(made.elements), np.ndarray)
        np.testing.assert_array_equal(made.elements.astype(int), elements)
        np.testing.assert_array_equal(made.T.dequantize(),
                                      (elements * [[1], [2]]).T)

    def test_every_nibble_in_every_place(self):
        for dtype in (S4, U4):
            least, most = ENDS[dtype]
            values = np.arange(least, most + 1)
            lines = np.stack([np.roll(np.tile(values, 9), shift)[:137]
                              for shift in range(32)])
            made = gemmd.quantized(lines, np.ones((32, 2)), dtype=dtype)
            np.testing.assert_array_equal(made.elements.astype(int), lines)
            np.testing.assert_array_equal(made.dequantize(), lines)

    def test_is_immutable_and_says_what_it_is(self):
        made = quantize(np.ones((200, 3)), "u4", group=64, axis=0,
                        zero_points=True)
        with self.assertRaises(ValueError):
            made.lines[0, 0] = 1
        self.assertEqual(repr(made), "<gemmd.QuantizedMatrix 200x3 uint4, "
                         "groups of 64 with zero points along columns, 360 "
                         "bytes>")
        self.assertEqual(made.quantization, Quantization(64, True))


class QuantizeTest(unittest.TestCase):
    def test_symmetric_scales_are_those_of_the_greatest_magnitude(self):
        for dtype, most in (("s4", 7), ("u4", 15), (np.int8, 127),
                            (E4M3, 448)):
            line = np.zeros((2, 100))
            line[0, 10], line[0, 40], line[1, 99] = 3.5, 1.25, 7
            made = quantize(line, dtype, group=32)
            np.testing.assert_array_equal(
                made.scales, np.array([[3.5, 1.25, 0, 0], [0, 0, 0, 7]],
                                      np.float32) / np.float32(most)
                + (np.array([[0, 0, 1, 1], [1, 1, 1, 0]], np.float32)))
            self.assertEqual(wide(made.elements)[0, 10], most)
            self.assertEqual(wide(made.elements)[1, 99], most)
            np.testing.assert_allclose(made.dequantize(), line, rtol=1e-6)

    def test_errors_are_at_most_half_a_step(self):
        generator = np.random.default_rng(1)
        for dtype, group, zero_points, axis in itertools.product(
                (S4, U4, INT8), (32, 64, 128, None), (False, True), (-1, -2)):
            if zero_points and dtype == INT8:
                continue
            array = generator.standard_normal((3, 150, 130)) * 5
            if zero_points:
                array += 3
            elif dtype == U4:
                array = np.abs(array)
            made = quantize(array, dtype, group=group, axis=axis,
                            zero_points=zero_points)
            of_k = np.arange(array.shape[axis]) // (group or 1 << 30)
            step = np.take(made.scales, of_k, axis)
            error = np.abs(made.dequantize(np.float64) - array)
            # With zero points one end may be cut where zero is rounded.
            part = 1.01 if zero_points else 0.501
            self.assertTrue((error <= part * step).all(), (dtype, group, axis))
            self.assertLess((error / step).mean(), 0.26)

    def test_e4m3_is_rounded_to_the_nearest(self):
        array = np.array([[448, 17, 18, 1.0625, -0.3]])
        made = quantize(array, E4M3)
        self.assertEqual(made.scales.tolist(), [[1]])
        self.assertEqual(wide(made.elements).tolist(),
                         [wide(array.astype(E4M3))[0].tolist()])

    def test_what_it_cannot_do_is_told(self):
        array = np.ones((4, 64))
        for call, text in (
                (lambda: quantize(array, group=48), "group: 48; allowed: 32, "
                 "64, 128, None"),
                (lambda: quantize(array, np.float16), "dtype: .* no type of "
                 "quantized weights; allowed: s4, u4, s8, e4m3"),
                (lambda: quantize(array, "i5"), "dtype: 'i5'"),
                (lambda: quantize(array, np.int8, zero_points=True),
                 "zero_points: do not go with int8"),
                (lambda: quantize(-array, "u4"), "negative elements"),
                (lambda: quantize(array * np.nan), "array: has infinities"),
                (lambda: quantize(array * 1e300), "array: has infinities"),
                (lambda: quantize(array[0]), "a matrix has 2"),
                (lambda: quantize(np.zeros((4, 64), "V4")), "array: .V4 has no "
                 "real numbers"),
                (lambda: quantize(np.zeros((4, 64), "f4,i4")), "array: .* has "
                 "no real numbers"),
                (lambda: quantize(array, axis=3), "axis: 3 is none"),
                (lambda: quantize(array, axis=[1]), "axis: .* no integer"),
                (lambda: quantize(array, group=array[0, :2]),
                 "group: .* no integer"),
                (lambda: quantize(array, zero_points=array[:, :1]),
                 "(?s)zero_points: .*; allowed: False, True"),
                (lambda: gemmd.quantize(array).dequantize("s4"), "dtype: "),
                (lambda: gemmd.quantized(array * 8, [[1]] * 4, dtype="s4"),
                 r"elements: 8 at \(0, 0\); allowed: integers from -8 to 7"),
                (lambda: gemmd.quantized(array / 2, [[1]] * 4, dtype="s4"),
                 "elements: 0.5 at"),
                (lambda: gemmd.quantized(array, [[1]] * 4, dtype=E4M3),
                 "elements: float64; allowed: float8_e4m3fn"),
                (lambda: gemmd.quantized(array, [[1, 1, 1]] * 4, dtype="s4"),
                 "scales: 3 groups along 64 k; allowed: 2 of 32, 1 of 64"),
                (lambda: gemmd.quantized(array, [[1], [1e39], [1], [1]],
                                         dtype="s4"),
                 r"scales: 1e\+39 is beyond what float32 holds"),
                (lambda: gemmd.quantized(array, [[1, 1]], dtype="s4"),
                 r"scales: shape \(1, 2\) does not go with"),
                (lambda: gemmd.quantized(array, [[1, 1]] * 4, [[1]] * 4,
                                         dtype="s4"),
                 r"zero_points: shape \(4, 1\)"),
                (lambda: gemmd.quantized(array, [[1]] * 4, [[128]] * 4,
                                         dtype="s4"),
                 "zero_points: 128 at"),
                (lambda: gemmd.quantized(array, [[1]] * 4, [[1]] * 4,
                                         dtype=np.int8),
                 "zero_points: do not go with int8")):
            with self.subTest(text), self.assertRaisesRegex(
                    gemmd.InvalidArgument, text):
                call()


class CallTest(unittest.TestCase):
    def test_the_request_says_how(self):
        x = np.ones((3, 70), BF16)
        weights = np.ones((70, 5))
        for matrix, group, zero_points in (
                (quantize(weights, axis=0), 128, False),
                (quantize(weights, axis=0, group=None), 0, False),
                (quantize(weights.T, "u4", group=32, zero_points=True).T, 32,
                 True)):
            for call, side, order in (
                    (product.Call(x, matrix), "b", api.COLUMN_MAJOR),
                    (product.Call(matrix.T, x.T), "a", api.ROW_MAJOR)):
                p = call.header.problem
                self.assertTrue(p.HasField("quantization"))
                self.assertEqual((p.quantization.group,
                                  p.quantization.zero_points),
                                 (group, zero_points))
                self.assertEqual(getattr(p, f"{side}_order"), order)
                self.assertEqual(call.dtype, BF16)
                self.assertEqual(call.buffers[side].nbytes, matrix.nbytes)
        plain = product.Call(x, np.ones((70, 5), np.int8))
        self.assertFalse(plain.header.problem.HasField("quantization"))
        self.assertEqual(plain.dtype, BF16)

    def test_what_does_not_go_with_it_is_told(self):
        x, f32 = np.ones((8, 8), BF16), np.ones((8, 8), np.float32)
        half = x.astype(np.float16)
        int4 = np.ones((8, 8), S4)
        q, s8 = quantize(f32), quantize(f32, np.int8)
        for call, error, text in (
                (lambda: product.Call(q, q), gemmd.InvalidArgument,
                 "a: is quantized int4, and the other operand is int4; "
                 "allowed: bfloat16, float16"),
                (lambda: product.Call(s8, s8.T), gemmd.InvalidArgument,
                 "a: is quantized int8"),
                (lambda: product.Call(f32, q.T), gemmd.InvalidArgument,
                 "b: is quantized int4, and the other operand is float32"),
                (lambda: product.Call(x, q), gemmd.InvalidArgument,
                 "b: is quantized along its rows; allowed: along k, as "
                 r"quantize\(b, axis=-2\)"),
                (lambda: product.Call(q.T, x), gemmd.InvalidArgument,
                 "a: is quantized along its columns"),
                (lambda: product.Call(x, x, c=q, beta=1),
                 gemmd.InvalidArgument, "c: is quantized; allowed: a or b"),
                (lambda: product.Call(half, int4, accumulate=np.float16),
                 gemmd.Unimplemented, "accumulate: .* is no sum of float16 "
                 "and widened weights; served: float32"),
                (lambda: product.Call(int4, int4), gemmd.Unimplemented,
                 "b: int4 does not go with a of int4; served with it: "
                 r"bfloat16, float16. The nearest is a.astype\(np.float32\) "
                 r"with b.astype\(np.float32\)$"),
                (lambda: product.Call(gemmd.sparse24(x, prune=True), int4),
                 gemmd.Unimplemented, "a: is sparse, and of other elements"),
                (lambda: gemmd.sparse24(int4), gemmd.InvalidArgument,
                 "int4 are not sparse"),
                (lambda: product.Call(x, int4, out_dtype=np.int8),
                 gemmd.Unimplemented, "out_dtype: int8 is no result of "
                 "bfloat16"),
                (lambda: product.Call(x, int4, out_dtype=S4),
                 gemmd.Unimplemented, "out_dtype: int4"),
                (lambda: product.Call(s8, half, saturate=True),
                 gemmd.InvalidArgument, "saturate: sums of float16")):
            with self.assertRaisesRegex(error, text):
                call()


if __name__ == "__main__":
    unittest.main()
