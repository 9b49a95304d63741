"""The epilogue in float64, written apart from clients and daemon."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[float])


def _silu(x):
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(
        math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
    "silu": _silu,
}


def wide(array):
    return np.asarray(array).astype(np.float64)


def _by_block(values, axis, size):
    """One value a block of 128 -> one an element."""
    return np.repeat(wide(values), 128, axis=axis).take(range(size), axis)


def sums(a, b, a_scale=None, b_scale=None, xor=False):
    """Scales in the shapes that matmul takes."""
    a, b = wide(a), wide(b)
    if xor:
        return a @ (1 - b) + (1 - a) @ b
    if np.ndim(a_scale) == 2 and np.ndim(b_scale) == 2:
        k, n = b.shape[-2:]
        a = a * _by_block(a_scale, 1, k)
        b = b * _by_block(_by_block(b_scale, 0, k), 1, n)
        return a @ b
    x = a @ b
    if a_scale is not None:
        x = x * (wide(a_scale) if np.ndim(a_scale) == 0
                 else wide(a_scale)[:, None])
    return x if b_scale is None else x * wide(b_scale)


def epilogue(x, *, alpha=1.0, beta=0.0, c=None, bias=None, activation=None,
             out_scale=None):
    """(what the activation is applied to, the greatest magnitude of what
    comes of it, D) before rounding; `x` is what `sums` gives."""
    x = alpha * x
    if beta:
        x = x + beta * wide(c)
    if bias is not None:
        x = x + wide(bias)
    y = ACTIVATIONS[activation](x)
    d = y if out_scale is None else y * out_scale
    return x, np.abs(y).max(initial=0), d
