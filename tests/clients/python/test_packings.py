"""Weights as other programs packed them."""

import unittest

import gemmd
import numpy as np
from gemmd import QuantizedMatrix

from quantized_reference import INT8, U4


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

    def test_gptq_whose_last_group_is_shorter(self):
        words = np.zeros((20, 8), np.int32)  # 160 k.
        parts = words, np.ones((3, 8)), np.zeros((3, 1), np.int32)
        made = gemmd.from_gptq(*parts, g_idx=np.arange(160) // 64)
        self.assertEqual((made.group, made.shape), (64, (160, 8)))
        with self.assertRaisesRegex(
                gemmd.InvalidArgument, "g_idx: k 54 is of group 1, not 0; "
                "allowed: groups of 64 consecutive k"):
            gemmd.from_gptq(*parts, g_idx=np.arange(160) // 54)
        with self.assertRaisesRegex(
                gemmd.InvalidArgument, "scales: 4 groups along 160 k"):
            gemmd.from_gptq(words, np.ones((4, 8)),
                            np.zeros((4, 1), np.int32),
                            g_idx=np.arange(160) // 40)

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

    def test_any_order_of_bytes(self):
        def swapped(array):
            return array.astype(array.dtype.newbyteorder())

        self.check(gemmd.from_gptq(*map(swapped, self.gptq())))
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        self.check(gemmd.from_awq(*map(swapped, (
            pack_words(self.elements.reshape(self.k, -1, 8)[..., order]),
            self.scales,
            pack_words(self.zeros.reshape(2, -1, 8)[..., order])))))

    def test_none_of_k(self):
        words, scales = np.zeros((0, 8), np.int32), np.ones((0, 8))
        for made in (gemmd.from_gptq(words, scales, words[:, :1]),
                     gemmd.from_awq(words[:, :1], scales, words[:, :1])):
            self.assertEqual((made.shape, made.dtype), ((0, 8), U4))

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
                 r"g_idx: int64 of shape \(5,\); allowed: integers of "
                 r"\(256,\)"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros,
                                         g_idx=["a"] * self.k),
                 r"g_idx: <U1 of shape \(256,\); allowed: integers"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros,
                                         g_idx=np.full(self.k, np.nan)),
                 "g_idx: float64"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros, bits=4.0),
                 "bits: 4.0 is no integer"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros,
                                         zeros_plus_one=2),
                 "zeros_plus_one: 2; allowed: False, True"),
                (lambda: gemmd.from_gptq(qweight, scales, qzeros,
                                         zeros_plus_one="no"),
                 "zeros_plus_one: 'no'"),
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


if __name__ == "__main__":
    unittest.main()
