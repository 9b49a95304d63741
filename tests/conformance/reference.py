"""What D must be, and how far from it D may be.

The bound is the numerics contract of proto/gemmd/v1/matmul.proto:
  |D - Dref| <= 2 k u |alpha| (|A| |B|) + u_out |Dref|,  u = 2^-24,
plus the rounding of beta * C and of its sum in F32.
"""

import numpy as np

from .fills import BF16, F16, F32

U = 2.0 ** -24
# Half the spacing at one, and half the smallest subnormal.
U_OUT = {BF16: 2.0 ** -8, F16: 2.0 ** -11, F32: 2.0 ** -24}
TINY = {BF16: 2.0 ** -134, F16: 2.0 ** -25, F32: 2.0 ** -150}


def round_to(values, dtype):
    """float64 values, each exact in float32, rounded once to `dtype`."""
    with np.errstate(over="ignore"):
        return values.astype(F32).astype(dtype)


class Products:
    """A B and |A| |B| in float64, computed once for a pair of operands."""

    def __init__(self, a, b):
        a, b = a.astype(np.float64), b.astype(np.float64)
        self.k = a.shape[1]
        self.product = a @ b
        self._operands = (a, b)
        self._magnitude = None

    @property
    def magnitude(self):
        if self._magnitude is None:
            a, b = self._operands
            self._magnitude = np.abs(a) @ np.abs(b)
        return self._magnitude

    def result(self, alpha, beta, c):
        """alpha A B + beta C in float64. C is not read when beta is 0."""
        d = alpha * self.product
        return d + beta * c if beta else d

    def bound(self, alpha, beta, c, expected, dtype):
        """Largest |D - expected| that the contract allows, per element."""
        sums = 2 * self.k * U * abs(alpha) * self.magnitude
        if beta:
            sums = sums + U * (np.abs(beta * c) + np.abs(expected))
        # D is rounded from a value that is itself off by `sums`.
        u_out = U_OUT[dtype]
        return sums * (1 + u_out) + u_out * np.abs(expected) + TINY[dtype]
