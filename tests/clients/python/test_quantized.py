"""Quantized weights: what quantize makes, what lines hold, what other programs
packed, what is refused, and products against numpy's in float64."""

import asyncio
import itertools
import unittest

import gemmd
import ml_dtypes
import numpy as np
from gemmd import Quantization, QuantizedMatrix, api, product, quantize

from host_daemon import HostDaemon

BF16 = ml_dtypes.bfloat16
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
S4, U4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
INT8 = np.dtype(np.int8)
ENDS = {S4: (-8, 7), U4: (0, 15), INT8: (-128, 127)}
TYPES = (S4, U4, INT8, E4M3)


def wide(array):
    return np.asarray(array).astype(np.float64)


def reference(elements, scales, zero_points, group, axis):
    """scale * (element - zero point) in float64, element by element."""
    k = elements.shape[axis]
    of_k = np.arange(k) // (group or max(k, 1))
    zeros = 0 if zero_points is None else np.take(wide(zero_points), of_k, axis)
    return np.take(wide(scales), of_k, axis) * (wide(elements) - zeros)


class Parts:
    """Random ones of weights."""

    def __init__(self, seed, shape, dtype, group, zero_points, axis):
        generator = np.random.default_rng(seed)
        if dtype == E4M3:
            self.elements = generator.integers(-15, 16, shape).astype(E4M3)
        else:
            least, most = ENDS[dtype]
            self.elements = generator.integers(least, most + 1, shape).astype(
                np.int8).astype(dtype)
        groups = list(shape)
        groups[axis] = -(-shape[axis] // (group or max(shape[axis], 1)))
        # Powers of two, so that products and sums are exact.
        self.scales = np.exp2(generator.integers(-2, 3, groups)).astype(
            np.float32)
        self.zeros = (generator.integers(-128, 128, groups)
                      if zero_points else None)
        self.due = reference(self.elements, self.scales, self.zeros, group,
                             axis)
        self.matrix = gemmd.quantized(self.elements, self.scales, self.zeros,
                                      axis=axis)


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
                (lambda: quantize(array, axis=3), "axis: 3 is none"),
                (lambda: gemmd.quantized(array * 8, [[1]] * 4, dtype="s4"),
                 r"elements: 8 at \(0, 0\); allowed: integers from -8 to 7"),
                (lambda: gemmd.quantized(array / 2, [[1]] * 4, dtype="s4"),
                 "elements: 0.5 at"),
                (lambda: gemmd.quantized(array, [[1]] * 4, dtype=E4M3),
                 "elements: float64; allowed: float8_e4m3fn"),
                (lambda: gemmd.quantized(array, [[1, 1, 1]] * 4, dtype="s4"),
                 "scales: 3 groups along 64 k; allowed: 2 of 32, 1 of 64"),
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


def pack_words(nibbles):
    """int32 of eight nibbles along the last axis, the first in the lowest
    bits."""
    words = np.zeros(nibbles.shape[:-1], np.uint32)
    for i in range(8):
        words |= nibbles[..., i].astype(np.uint32) << np.uint32(4 * i)
    return words.view(np.int32)


class PackingsTest(unittest.TestCase):
    def setUp(self):
        generator = np.random.default_rng(7)
        self.k, self.n, groups = 256, 24, 2
        self.elements = generator.integers(0, 16, (self.k, self.n))
        self.zeros = generator.integers(1, 16, (groups, self.n))
        self.scales = generator.uniform(0.5, 2, (groups, self.n)).astype(
            np.float16)
        of_k = np.arange(self.k) // 128
        self.due = self.scales.astype(float)[of_k] * (
            self.elements - self.zeros[of_k])

    def check(self, made):
        self.assertIsInstance(made, QuantizedMatrix)
        self.assertEqual((made.dtype, made.group, made.axis, made.shape),
                         (U4, 128, -2, (self.k, self.n)))
        np.testing.assert_array_equal(made.elements.astype(int),
                                      self.elements)
        np.testing.assert_array_equal(made.zero_points, self.zeros)
        np.testing.assert_array_equal(made.dequantize(np.float64), self.due)

    def gptq(self, less=1):
        qweight = pack_words(np.moveaxis(self.elements.reshape(
            self.k // 8, 8, self.n), 1, 2))
        qzeros = pack_words((self.zeros - less).reshape(2, self.n // 8, 8))
        return qweight, self.scales, qzeros

    def test_gptq(self):
        self.check(gemmd.from_gptq(*self.gptq()))
        self.check(gemmd.from_gptq(*self.gptq(0), zeros_plus_one=False))
        self.check(gemmd.from_gptq(*self.gptq(),
                                   g_idx=np.arange(self.k) // 128))

    def test_gptq_by_hand(self):
        """Column 0 counts up from the lowest bits; a stored zero of 15 is
        16."""
        qweight = np.array([[0x76543210] + [0] * 7], np.uint32).view(np.int32)
        qzeros = np.array([[0xF000000F]], np.uint32).view(np.int32)
        made = gemmd.from_gptq(qweight, np.ones((1, 8)), qzeros)
        self.assertEqual(made.elements[:, 0].astype(int).tolist(),
                         list(range(8)))
        self.assertEqual(made.zero_points.tolist(),
                         [[16, 1, 1, 1, 1, 1, 1, 16]])
        self.assertEqual(made.dequantize()[:, 0].tolist(),
                         list(range(-16, -8)))

    def test_gptq_of_eight_bits(self):
        qweight = np.array([[0x80FF0001]] * 8, np.uint32).T.reshape(1, 8)
        qzeros = np.full((1, 2), 0x7F7F7F7F, np.uint32)
        made = gemmd.from_gptq(qweight, np.ones((1, 8)), qzeros, bits=8)
        self.assertEqual(made.dtype, INT8)
        self.assertIsNone(made.zero_points)
        self.assertEqual(made.dequantize()[:, 3].tolist(),
                         [-127, -128, 127, 0])
        with self.assertRaisesRegex(gemmd.InvalidArgument, "a zero point of "
                                    "127; allowed with 8 bits: 128"):
            gemmd.from_gptq(qweight, np.ones((1, 8)), qzeros, bits=8,
                            zeros_plus_one=False)

    def test_awq(self):
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        made = gemmd.from_awq(
            pack_words(self.elements.reshape(self.k, -1, 8)[..., order]),
            self.scales,
            pack_words(self.zeros.reshape(2, -1, 8)[..., order]))
        self.check(made)

    def test_awq_by_hand(self):
        word = np.array([[0x75316420]], np.uint32).view(np.int32)
        made = gemmd.from_awq(word, np.ones((1, 8)), word)
        self.assertEqual(made.elements.astype(int).tolist(), [list(range(8))])
        self.assertEqual(made.zero_points.tolist(), [list(range(8))])

    def test_what_is_not_served_is_told(self):
        qweight, scales, qzeros = self.gptq()
        shuffled = np.arange(self.k)[::-1] // 128
        for call, text in (
                (lambda: gemmd.from_gptq(qweight, scales, qzeros,
                                         g_idx=shuffled),
                 "g_idx: k 0 is of group 1, not 0; allowed: groups of 128 "
                 r"consecutive k. .*\(act-order\) are not served"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros,
                                         g_idx=shuffled[:5]),
                 r"g_idx: shape \(5,\); allowed: \(256,\)"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros, bits=3),
                 "bits: 3; allowed: 4, 8"),
                (lambda: gemmd.from_gptq(qweight.astype(np.int64), scales,
                                         qzeros), "qweight: int64"),
                (lambda: gemmd.from_gptq(qweight, scales[:, :5], qzeros),
                 "scales: shape"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros[:1]),
                 "qzeros: has 1 groups"),
                (lambda: gemmd.from_awq(qweight, scales, qzeros),
                 "scales: shape")):
            with self.assertRaisesRegex(gemmd.InvalidArgument, text):
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
                 r"bfloat16, float16. The nearest is a.astype\(ml_dtypes"),
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


class ProductsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        daemon = HostDaemon().__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.client = gemmd.Client(daemon.target, timeout=60)
        cls.addClassCleanup(cls.client.close)

    def integers(self, *shape, dtype=BF16):
        return np.random.default_rng(shape).integers(-3, 4, shape).astype(
            np.float32).astype(dtype)

    def check(self, x, weights, due, label):
        """Weights as b, `due` what they stand for; and transposed as a."""
        for a, b, expected in ((x, weights, wide(x) @ due),
                               (weights.T, x.T, due.T @ wide(x).T)):
            d = self.client.matmul(a, b, out_dtype=np.float32)
            np.testing.assert_array_equal(d, expected, label)
            self.assertEqual(self.client.matmul(a, b).dtype, x.dtype)

    def test_every_type_group_and_place(self):
        for seed, (dtype, other, group, zero_points, k) in enumerate(
                itertools.product(TYPES, (BF16, np.float16),
                                  (32, 64, 128, None), (False, True),
                                  (1, 31, 64, 65, 200))):
            if zero_points and dtype not in (S4, U4):
                continue
            p = Parts(seed, (k, 7), dtype, group, zero_points, -2)
            label = f"{dtype} {other} {group} {zero_points} {k}"
            x = self.integers(5, k, dtype=other)
            self.check(x, p.matrix, p.due, label)
            with self.client.tensor(p.matrix) as tensor:
                self.check(x, tensor, p.due, f"{label} resident")
                np.testing.assert_array_equal(tensor.quantized().lines,
                                              p.matrix.lines)

    def test_plain_weights_of_any_order(self):
        for dtype, k, order in itertools.product(TYPES, (1, 7, 33, 64), "CF"):
            p = Parts(k, (k, 7), dtype, None, False, -2)
            weights = np.array(p.elements, order=order)
            self.check(self.integers(5, k), weights, wide(weights),
                       f"{dtype} {k}")
            with self.client.tensor(weights) as tensor:
                self.check(self.integers(5, k), tensor, wide(weights),
                           f"{dtype} {k} resident")
                np.testing.assert_array_equal(wide(tensor.numpy()),
                                              wide(weights))
                self.assertEqual(tensor.dtype, dtype)
                self.assertIsNone(tensor.quantization)

    def test_batches_vectors_and_streams(self):
        x = self.integers(3, 5, 70)
        shared = Parts(1, (70, 7), S4, 32, True, -2)
        own = Parts(2, (3, 70, 7), U4, 64, True, -2)
        plain = own.elements
        with gemmd.Client(self.client.target, stream_bytes=0) as streaming:
            for client in (self.client, streaming):
                for weights, due in ((shared.matrix, shared.due),
                                     (own.matrix, own.due),
                                     (plain, wide(plain))):
                    np.testing.assert_array_equal(
                        client.matmul(x, weights, out_dtype=np.float32),
                        wide(x) @ due)
                np.testing.assert_array_equal(
                    client.matmul(x[0], own.matrix, out_dtype=np.float32),
                    wide(x[0]) @ own.due)
                np.testing.assert_array_equal(
                    client.matmul(x[0, 0], shared.matrix,
                                  out_dtype=np.float32),
                    wide(x[0, 0]) @ shared.due)

    def test_grouped(self):
        parts = [Parts(m, (40, 6), S4, 32, True, -2) for m in (1, 0, 5)]
        x = [self.integers(m, 40) for m in (1, 0, 5)]
        for left, p, d in zip(x, parts, self.client.matmul_grouped(
                x, [p.matrix for p in parts], out_dtype=np.float32)):
            np.testing.assert_array_equal(wide(d), wide(left) @ p.due)

    def test_sequences(self):
        first = Parts(1, (40, 40), S4, 32, False, -2)
        x = self.integers(5, 40)
        # The same bytes as plain elements are another operand.
        plain = first.elements
        with self.client.sequence() as sequence:
            y = sequence.matmul(x, first.matrix, out_dtype=np.float32)
            z = sequence.matmul(x, plain, out_dtype=np.float32)
            w = sequence.matmul(first.matrix.T, x.T, out_dtype=np.float32)
            narrow = sequence.matmul(x, first.matrix)
            last = sequence.matmul(narrow, first.matrix, out_dtype=np.float32)
            sequence.returns(y, z, w, narrow, last)
        np.testing.assert_array_equal(y.numpy(), wide(x) @ first.due)
        np.testing.assert_array_equal(z.numpy(), wide(x) @ wide(plain))
        np.testing.assert_array_equal(w.numpy(), first.due.T @ wide(x).T)
        np.testing.assert_allclose(last.numpy(),
                                   wide(narrow.numpy()) @ first.due,
                                   rtol=1e-6, atol=1e-3)

    def test_one_buffer_read_in_two_ways_is_two_operands(self):
        whole = Parts(1, (8, 2), INT8, None, False, -2)
        by_32 = QuantizedMatrix(whole.matrix.lines, INT8, 8, Quantization(32),
                                -2)
        x = self.integers(3, 8)
        with self.client.sequence() as sequence:
            y = sequence.matmul(x, whole.matrix, out_dtype=np.float32)
            z = sequence.matmul(x, by_32, out_dtype=np.float32)
        for result in (y, z):
            np.testing.assert_array_equal(result.numpy(), wide(x) @ whole.due)

    def test_tensors(self):
        p = Parts(3, (70, 7), U4, 32, True, -2)
        x = self.integers(5, 70)
        with self.client.tensor(p.matrix, label="w") as tensor:
            self.assertEqual(tensor.quantization, Quantization(32, True))
            self.assertEqual((tensor.shape, tensor.order, tensor.nbytes,
                              tensor.dtype),
                             ((70, 7), "F", p.matrix.nbytes, U4))
            self.assertIn("quantized (by groups of 32 with zero points)",
                          repr(tensor))
            np.testing.assert_array_equal(tensor.numpy(), p.due)
            np.testing.assert_array_equal(tensor.T.quantized().lines,
                                          p.matrix.lines)
            np.testing.assert_array_equal(wide(x @ tensor), wide(
                self.client.matmul(x, p.matrix)))
            attached = self.client.attach(tensor.handle)
            self.assertEqual(attached.quantization, Quantization(32, True))
            other = Parts(4, (70, 7), U4, 32, False, -2)
            with self.assertRaisesRegex(ValueError, "array: is not quantized "
                                        "as the tensor is, by groups of 32"):
                tensor.upload(other.matrix)
            with self.assertRaisesRegex(ValueError, "is not quantized as"):
                tensor.upload(p.elements)
            with self.assertRaisesRegex(ValueError, "out: a quantized tensor"):
                self.client.matmul(x[:, :4], np.zeros((4, 7), BF16),
                                   out=tensor.T.T)
            again = Parts(5, (70, 7), U4, 32, True, -2)
            tensor.upload(again.matrix)
            np.testing.assert_array_equal(tensor.numpy(), again.due)
        with self.client.zeros((70, 7), U4, order="F") as plain:
            with self.assertRaisesRegex(ValueError, "array: is quantized, and "
                                        "the tensor is not"):
                plain.upload(p.matrix)
            with self.assertRaisesRegex(ValueError, "quantized: the tensor"):
                plain.quantized()
        with self.client.zeros((70, 7), S4, order="F",
                               quantization=Quantization(None)) as zeros:
            self.assertEqual(zeros.quantization, Quantization(None))
            np.testing.assert_array_equal(x @ zeros, np.zeros((5, 7)))

    def test_async(self):
        p = Parts(6, (70, 7), S4, 64, True, -2)
        x = self.integers(5, 70)

        async def run():
            async with gemmd.AsyncClient(self.client.target) as client:
                inline = await client.matmul(x, p.matrix,
                                             out_dtype=np.float32)
                async with await client.tensor(p.matrix) as tensor:
                    back = await tensor.quantized()
                    d = await client.matmul(x, tensor, out_dtype=np.float32)
                return inline, back, d

        inline, back, d = asyncio.run(run())
        np.testing.assert_array_equal(inline, wide(x) @ p.due)
        np.testing.assert_array_equal(d, wide(x) @ p.due)
        np.testing.assert_array_equal(back.lines, p.matrix.lines)

    def test_the_steps_of_the_epilogue_go_with_it(self):
        p = Parts(7, (64, 6), S4, 32, False, -2)
        x = self.integers(5, 64)
        bias = np.arange(6, dtype=np.float32)
        d = self.client.matmul(x, p.matrix, bias=bias, a_scale=0.5,
                               b_scale=np.full(6, 2.0), activation="relu",
                               out_dtype=np.float32)
        np.testing.assert_array_equal(
            d, np.maximum(wide(x) @ p.due + bias, 0))

    def test_what_the_daemon_refuses(self):
        with self.assertRaisesRegex(gemmd.InvalidArgument, "quantiz"):
            self.client.zeros((8, 8), BF16, quantization=Quantization(32))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "group is 48"):
            self.client.zeros((8, 8), S4, quantization=Quantization(48))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "zero_points"):
            self.client.zeros((8, 8), np.int8,
                              quantization=Quantization(32, True))


if __name__ == "__main__":
    unittest.main()
