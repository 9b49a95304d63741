"""Lines of quantized weights byte by byte, and their sums step by step."""

import fractions
import unittest
from unittest import mock

import numpy as np
from conformance import forms, quantized, tensor_core

_S4, _U4 = forms.TYPES["s4"], forms.TYPES["u4"]


def _nearest(value):
    """A fraction in float32, to nearest even."""
    near = np.float32(float(value))
    return min((np.nextafter(near, np.float32(end)) if end else near
                for end in (0, -np.inf, np.inf)),
               key=lambda x: (abs(fractions.Fraction(float(x)) - value),
                              int(x.view(np.uint32)) & 1))


def _sum(form, elements, other):
    """One element of D of integers, by hand: exact sums of each group, of each
    64 of k at most where it has 64, each added by one multiplication and
    addition."""
    centered, scales, _ = form.quantized(elements[None])
    k = len(elements)
    size = part = quantized.size(form.group, k)
    total = fractions.Fraction(0)
    for first in range(0, k, part):
        step = slice(first, first + part)
        exact = int(centered[0, step] @ other[step])
        scale = fractions.Fraction(float(scales[0, first // size]))
        total = fractions.Fraction(float(_nearest(scale * exact + total)))
    return float(total)


class LinesTest(unittest.TestCase):
    def test_elements_then_scales_then_zero_points(self):
        lines = np.array([[-8, 7, -1]], np.int8).astype(_S4)
        made = quantized.pack(lines, [[0.5]], [[-2]])
        self.assertEqual(made.tobytes(), b"\x78\xff\0\0\0\x3f\xfe")
        lines = np.array([[15, 1, 2, 3]], np.int8).astype(_U4)
        self.assertEqual(quantized.pack(lines, [[1]]).tobytes(),
                         b"\x1f\x32\0\0\x80\x3f")

    def test_the_last_group_may_be_short(self):
        self.assertEqual([quantized.count("32", k) for k in (0, 1, 32, 33)],
                         [0, 1, 1, 2])
        self.assertEqual([quantized.count("k", k) for k in (0, 1, 500)],
                         [0, 1, 1])
        self.assertEqual(quantized.spread(np.arange(2), "32", 33).tolist(),
                         [0] * 32 + [1])

    def test_scales_follow_from_elements_wherever_they_are(self):
        generator = np.random.default_rng(1)
        lines = generator.integers(-128, 128, (40, 300)).astype(np.int8)
        for free in (False, True):
            all_ = quantized.scales(lines, "64", free)
            self.assertGreater(len(np.unique(all_)), 4)
            np.testing.assert_array_equal(
                quantized.scales(lines[7:9], "64", free), all_[7:9])
        zeros = quantized.zero_points(lines, "32", True)
        self.assertGreater(len(np.unique(zeros)), 150)


class SumsTest(unittest.TestCase):
    # Without those that make infinities, of which fractions know nothing.
    @mock.patch.dict(quantized._ODD, {1: 1 / 3})
    def test_each_part_is_scaled_and_added_at_once(self):
        generator = np.random.default_rng(2)
        for name in ("bf16-s4/32z", "bf16-u4/128z", "f16-s8/64", "f16-s4/k",
                     "u4-bf16/kz", "s8-f16/32"):
            form = forms.FORMS[name]._replace(free=True)
            side = form.weights
            dtype = forms.TYPES[getattr(form, side)]
            for k in (1, 33, 64, 96, 200, 333):
                elements = generator.integers(0, 8, (5, k)).astype(
                    np.int8).astype(dtype)
                other = generator.integers(-4, 5, (k, 3)).astype(
                    forms.TYPES[form.multiplied])
                a, b = ((elements, other) if side == "a" else
                        (other.T, elements.T))
                found = tensor_core.sums(form, a, b)
                due = np.array([[_sum(form, line, column.astype(float))
                                 for column in other.T] for line in elements])
                np.testing.assert_array_equal(
                    found, due if side == "a" else due.T, name)


if __name__ == "__main__":
    unittest.main()
