"""Quantized weights by hand: random parts, and what they stand for."""

import gemmd
import ml_dtypes
import numpy as np

from epilogue_reference import wide

BF16 = ml_dtypes.bfloat16
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
S4, U4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
INT8 = np.dtype(np.int8)
ENDS = {S4: (-8, 7), U4: (0, 15), INT8: (-128, 127)}
TYPES = (S4, U4, INT8, E4M3)


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
