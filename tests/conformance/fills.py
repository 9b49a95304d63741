"""What the matrices hold. Every fill is a pure function of shape and type.

exact       Small integers: sums and results hold exactly in float32, so every
            layout, tile and schedule must give the same, exact result.
normal      Standard normal, rounded to the type.
coordinates D[i, j] = i * SPAN + j: a misplaced element names where it came
            from.
one_hot     Row i of A picks row (i + offset) mod k of B: a lost or doubled
            step of k shows.
"""

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
F32 = np.dtype(np.float32)

TYPES = {"bf16": BF16, "f16": F16, "f32": F32}

# A power of two above every n of the suite but small enough for f16.
SPAN = 4096


def _generator(shape, tag):
    return np.random.default_rng([shape.m, shape.n, shape.k, tag])


def exact(shape, dtype):
    """(A, B, C): integers in [-4, 4], [-2, 2] and [-4, 4]."""
    generator = _generator(shape, 1)
    a = generator.integers(-4, 5, (shape.m, shape.k)).astype(dtype)
    b = generator.integers(-2, 3, (shape.k, shape.n)).astype(dtype)
    c = generator.integers(-4, 5, (shape.m, shape.n))
    return a, b, c.astype(np.float64)


def normal(shape, dtype):
    """(A, B, C): standard normal; C is to be rounded to D's type."""
    generator = _generator(shape, 2)
    a = generator.standard_normal((shape.m, shape.k), np.float32).astype(dtype)
    b = generator.standard_normal((shape.k, shape.n), np.float32).astype(dtype)
    c = generator.standard_normal((shape.m, shape.n))
    return a, b, 4 * c


def coordinates(shape, dtype):
    """(A, B, None); needs k >= 4 and n <= SPAN.

    i = 128 hi + lo on A's side and j likewise on B's take four steps of k at
    random places; every factor holds exactly in eight bits of significand.
    """
    m, n, k = shape
    high_a, low_a, high_b, low_b = _generator(shape, 3).permutation(k)[:4]
    a = np.zeros((m, k))
    b = np.zeros((k, n))
    i, j = np.arange(m), np.arange(n)
    # Factors of SPAN * 128 are split so that each fits f16.
    a[:, high_a], b[high_a, :] = (i // 128) * 16, SPAN * 8
    a[:, low_a], b[low_a, :] = i % 128, SPAN
    a[:, high_b], b[high_b, :] = 128, j // 128
    a[:, low_b], b[low_b, :] = 1, j % 128
    return a.astype(dtype), b.astype(dtype), None


def one_hot(shape, dtype, offset=0):
    """(A, B, None): B holds integers in [-100, 100] without zeros."""
    m, n, k = shape
    a = np.zeros((m, k))
    a[np.arange(m), (np.arange(m) + offset) % k] = 1
    generator = _generator(shape, 4)
    b = generator.integers(1, 101, (k, n)) * generator.choice((-1, 1), (k, n))
    return a.astype(dtype), b.astype(dtype), None
