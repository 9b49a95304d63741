"""Probes of what alpha, beta, NaN, infinity and rounding mean."""

import ml_dtypes
import numpy as np

from . import fills, matrices
from .probes import probe
from .shapes import Shape

# Not a multiple of any tile, so that cut tiles take part.
SHAPE = Shape(130, 71, 40)
_OUTPUTS = ("bf16", "f16", "f32")


def _nan(matrix):
    """A matrix of the same kind, half NaN and half infinity."""
    other = np.full_like(matrix, np.nan)
    other[::2] = np.inf
    return other


def _exact_product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


@probe
def beta_zero_never_reads_c(p):
    a, b, c = p.exact(SHAPE)
    expected = _exact_product(a, b)
    poison = _nan(c)
    inline = matrices.encode(poison, p.kind.order)
    yield p.equal("inline", p.multiply_naming_c(a, b, inline), expected)
    with p.tensor(poison) as tensor:
        yield p.equal("tensor", p.multiply_naming_c(a, b, tensor), expected)
    for output in _OUTPUTS:
        # In place: D is written although C, the same tensor, is NaN.
        with p.tensor(poison.astype(fills.TYPES[output])) as tensor:
            p.multiply(a, b, c=tensor, beta=0, out=tensor)
            yield p.equal(f"in place {output}", tensor.numpy(), expected)


@probe
def alpha_zero_reads_neither_a_nor_b(p):
    a, b, c = p.exact(SHAPE)
    with p.tensor(_nan(a)) as nan_a, p.tensor(_nan(b)) as nan_b:
        for beta in (1.5, 1, -1):
            yield p.equal(f"tensors beta={beta}",
                          p.multiply(nan_a, nan_b, c=c, alpha=0, beta=beta),
                          beta * c)
        yield p.equal("inline", p.multiply(_nan(a), _nan(b), c=c, alpha=0,
                                           beta=2), 2 * c)
        zeros = p.multiply(nan_a, nan_b, c=_nan(c), alpha=0, beta=0)
        yield p.same_bits("alpha and beta zero give +0", zeros,
                          np.zeros_like(zeros))


@probe
def k_zero_gives_beta_c(p):
    c = p.exact(SHAPE)[2]
    a, b = p.a(np.zeros((SHAPE.m, 0))), p.b(np.zeros((0, SHAPE.n)))
    yield p.equal("beta=1.5", p.multiply(a, b, c=c, beta=1.5), 1.5 * c)
    with p.tensor(_nan(c)) as poison:
        p.multiply(a, b, c=poison, beta=0, out=poison)
        yield p.equal("beta=0", poison.numpy(), np.zeros_like(c))


@probe
def empty_results_succeed(p):
    for m, n in ((0, 5), (5, 0), (0, 0)):
        d = p.multiply(p.a(np.ones((m, 8))), p.b(np.ones((8, n))))
        yield p.equal(f"{m}x{n}", d, np.zeros((m, n)))


@probe
def zero_times_nan_is_nan(p):
    a, b, _ = p.exact(SHAPE)
    b[17, :] = 0
    for value in (np.nan, np.inf):
        a[5, 17] = value
        expected = _exact_product(np.nan_to_num(a.astype(float), posinf=0), b)
        expected[5, :] = np.nan
        yield p.equal(f"{value}", p.multiply(a, b, out_dtype="f4"), expected)
    a, b, c = p.exact(SHAPE)
    c[129, 70] = np.nan
    expected = _exact_product(a, b) + c
    yield p.equal("beta=1, NaN in C", p.multiply(a, b, c=c, beta=1), expected)


@probe
def nan_stays_in_its_row_and_column(p):
    clean_a, clean_b, _ = p.exact(SHAPE)
    clean = p.multiply(clean_a, clean_b)
    for i, k in ((0, 0), (63, 39), (64, 8), (129, 17)):
        a = clean_a.copy(order="K")
        a[i, k] = np.nan
        expected = clean.copy()
        expected[i, :] = np.nan
        yield p.equal(f"A[{i}, {k}]", p.multiply(a, clean_b), expected)
    for k, j in ((39, 0), (0, 63), (31, 70)):
        b = clean_b.copy(order="K")
        b[k, j] = np.nan
        expected = clean.copy()
        expected[:, j] = np.nan
        yield p.equal(f"B[{k}, {j}]", p.multiply(clean_a, b), expected)


@probe
def subnormal_inputs_count(p):
    # Row i of A is i steps of the smallest subnormal in one place of k.
    smallest = float(np.array(1, np.uint16).view(p.dtype))
    m, n, k = SHAPE
    a = np.zeros((m, k))
    a[np.arange(m), np.arange(m) % k] = (np.arange(m) % 100) * smallest
    a, ones = p.a(a), p.b(np.ones((k, n)))
    if p.dtype == fills.F16:
        expected = np.repeat(a.astype(float).sum(1)[:, None], n, 1)
        for output in (fills.F16, fills.F32):
            yield p.equal(f"{output}", p.multiply(a, ones, out_dtype=output),
                          expected)
    scale = p.b(np.full((k, n), 2.0 ** (14 if p.dtype == fills.F16 else 60)))
    expected = _exact_product(a, scale)
    yield p.equal("scaled up", p.multiply(a, scale, out_dtype="f4"), expected)


@probe
def overflow_goes_to_infinity(p):
    if p.dtype == fills.F16:
        # 65504 is the largest; 65520 is half-way to the next and rounds up.
        a = p.a(np.tile([65504.0, 1.0], (70, 1)))
        small = np.array([0, 15, 16, 17, 40])
        b = p.b(np.stack([np.ones(5), small]))
        sums = 65504.0 + small
        expected = np.tile(np.where(sums < 65520, 65504, np.inf), (70, 1))
        yield p.equal("f16", p.multiply(a, b, out_dtype="f2"), expected)
        yield p.equal("-f16", p.multiply(a, b, alpha=-1, out_dtype="f2"),
                      -expected)
    else:
        a = p.a(np.full((70, 2), 2.0 ** 100))
        b = p.b(np.full((2, 9), 2.0 ** 100))
        for output in _OUTPUTS:
            yield p.equal(output, p.multiply(
                a, b, out_dtype=fills.TYPES[output]), np.full((70, 9), np.inf))
        a = p.a(np.full((70, 2), 2.0 ** 64))
        b = p.b(np.full((2, 9), 2.0 ** 62))
        yield p.equal("below the limit", p.multiply(a, b),
                      np.full((70, 9), 2.0 ** 127))


@probe
def sums_are_kept_in_f32(p):
    m, n, k = 66, 40, 4096
    ones = p.multiply(p.a(np.ones((m, k))), p.b(np.ones((k, n))),
                      out_dtype="f4")
    yield p.equal("4096 ones", ones, np.full((m, n), 4096))
    # hipBLASLt's probe: partial sums leave f16 at once, the sum is small.
    large = 65280.0 if p.dtype == fills.F16 else 2.0 ** 14
    a = np.full((m, k), large)
    b = np.tile([[2.0], [-2.0]], (k // 2, n))
    a[:, -1], b[-1, :] = 3, 1
    a[:, -2], b[-2, :] = 5, 1
    yield p.equal("cancelling sums", p.multiply(p.a(a), p.b(b)),
                  np.full((m, n), 8))


@probe
def results_round_once_to_nearest_even(p):
    step = {"bf16": 256, "f16": 2048}  # Above it, integers are 2 apart.
    for output, base in step.items():
        offsets = np.arange(0, 64)
        a = p.a(np.tile([float(base), 1.0], (3, 1)))
        b = p.b(np.stack([np.ones(64), offsets]))
        dtype = fills.TYPES[output]
        expected = np.tile((base + offsets).astype("f4").astype(dtype), (3, 1))
        yield p.equal(output, p.multiply(a, b, out_dtype=dtype), expected)
    # The sum with beta C is rounded once too: 257 + 2^-8 is above the tie.
    a, b = p.a([[256.0, 1.0]]), p.b([[1.0], [1.0]])
    c = p.c([[2.0 ** -8]], ml_dtypes.bfloat16)
    yield p.equal("with C", p.multiply(a, b, c=c, beta=1), [[258.0]])
