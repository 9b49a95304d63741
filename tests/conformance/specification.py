"""What elements of D must be, step by step as matmul.proto says: sums by
tensor_core, then every step of the epilogue in float32, rounded once each.

Activations by exponential and error functions differ between a GPU and a host
in their last bits. How far, follows from what CUDA's functions promise (expf 2,
erfcf 4 units in the last place) and from the roundings around them:

  silu       2^-21 |y| + 2^-121: of e^-x two units, one rounding each of
             1 + e^-x and the quotient; where e^-x leaves f32, y is -0.
  gelu_tanh  2^-21 |y| + 2^-22: the exponent is off by six roundings.
  gelu_erf   2^-20 |y| + 2^-22: of erfc four units; its argument by two
             roundings.
"""

import math
from typing import NamedTuple, Optional

import numpy as np

from . import forms, tensor_core

_F32 = np.float32
_ERFC = np.vectorize(math.erfc, otypes=[float])
# |y| times the first and the second.
_BOUNDS = {"silu": (2.0 ** -21, 2.0 ** -121),
           "gelu_tanh": (2.0 ** -21, 2.0 ** -22),
           "gelu_erf": (2.0 ** -20, 2.0 ** -22)}


class Elements(NamedTuple):
    """Some rows and columns of one matrix of D."""
    d: np.ndarray  # Of D's type.
    auxiliary: Optional[np.ndarray]


def exact(product):
    """Whether D's bits are promised, given those of the sums."""
    return product.epilogue.activation not in _BOUNDS


def close(product, mine, other):
    """Where two D, or activated values, are as near as an activation that is
    not exact promises."""
    relative, least = _BOUNDS[product.epilogue.activation]
    name = product.output
    mine, other = (_finite(x, name) for x in (mine, other))
    scale = product.epilogue.d_scale
    scale = 1.0 if scale is None else abs(float(scale))
    error = relative * np.maximum(abs(mine), abs(other)) + least * scale
    # Each is rounded.
    spacing = (forms.result_bound(mine, 0.0, name)
               + forms.result_bound(other, 0.0, name))
    with np.errstate(invalid="ignore"):
        near = np.abs(mine - other) <= 1.01 * (error + spacing)
    return near | (np.isnan(mine) & np.isnan(other))


def _finite(values, name):
    """float64, what is beyond a type's range at its end."""
    values = values.astype(np.float64)
    if name in forms.INTEGERS or name in forms.FP8:
        return values
    most = float(np.finfo(np.float32).max) if name in ("f32", "bf16") else (
        float(np.finfo(np.float16).max))
    return np.clip(values, -most, most)  # NaN stays.


def _clamped(a, b, step):
    """Sums of integers that stop at the ends of s32, `step` products at a
    time."""
    limits = np.iinfo(np.int32)
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for k in range(0, a.shape[1], step):
        total = np.clip(total + a[:, k:k + step] @ b[k:k + step], limits.min,
                        limits.max)
    return total


def _wrap(values):
    return values.astype(np.int64).astype(np.int32)


def _integers(form, a, b):
    """The sum in s32, as int64."""
    a, b = a.astype(np.int64), b.astype(np.int64)
    if form.xor:
        return (a.sum(1)[:, None] + b.sum(0)[None] - 2 * (a @ b))
    if form.saturate:
        return _clamped(a, b, 64 if form.sparse else 32)
    return _wrap(a @ b).astype(np.int64)


def _factors(product, rows, columns):
    """By the first k of a stage, where scales are by block."""
    epilogue = product.epilogue
    if np.ndim(epilogue.a_scale) != 2:
        return None
    return lambda k: (epilogue.a_scale[rows, k // 128][:, None]
                      * epilogue.b_scale[k // 128, columns // 128][None])


def _scale(values, indices):
    """Of a tensor, a side, or none."""
    if values is None or np.ndim(values) == 2:
        return np.ones(len(indices), _F32)
    if np.ndim(values) == 0:
        return np.full(len(indices), values, _F32)
    return values[indices]


def _activate(name, x):
    y = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "relu":
            return np.where(x < 0, _F32(0), x)
        if name == "silu":
            made = y / (1 + np.exp(-y))
        elif name == "gelu_erf":
            made = y / 2 * _ERFC(-y / math.sqrt(2))
        elif name == "gelu_tanh":
            inner = math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)
            made = y / (1 + np.exp(-2 * inner))
        else:
            return x
    return np.where(y == -np.inf, -0.0, made).astype(_F32)


def _round(values, name):
    """As forms.round_to, NaN as a GPU writes it."""
    made = np.array(forms.round_to(values.astype(np.float64), name))
    nan = np.isnan(values)
    if nan.any() and made.dtype.kind not in "iu":
        bits = made.view(f"u{made.itemsize}")
        bits[nan] = (1 << 8 * made.itemsize - 1) - 1
    return made


def _matrix(array, number):
    return array if array is None or array.ndim == 2 else array[number]


def elements(product, number, rows, columns, splits) -> Elements:
    """Of matrix `number`, by a plan with so many parts of k."""
    form, epilogue = product.form, product.epilogue
    a = _matrix(product.a, number)[rows]
    b = _matrix(product.b, number)[:, columns]
    reads = product.alpha != 0 and a.shape[1] > 0
    c = None
    if product.beta:
        c = _matrix(product.c, number)[np.ix_(rows, columns)]
    if form.sums == "s32":
        sums = _integers(form, a, b) if reads else np.zeros(
            (len(rows), len(columns)), np.int64)
        if product.output == "s32":
            total = sums if c is None else sums + c.astype(np.int64)
            limits = np.iinfo(np.int32)
            if form.saturate:
                total = np.clip(total, limits.min, limits.max)
            return Elements(_wrap(total), None)
    elif reads:
        sums = tensor_core.sums(form, a, b, splits,
                                _factors(product, rows, columns))
    else:
        sums = np.zeros((len(rows), len(columns)))
    with np.errstate(all="ignore"):
        x = sums.astype(_F32)
        if reads:
            x = x * (_scale(epilogue.a_scale, rows)[:, None]
                     * _scale(epilogue.b_scale, columns)[None])
            x = x * _F32(product.alpha)
        if c is not None:
            x = x + _F32(product.beta) * c.astype(_F32)
        if epilogue.bias is not None:
            bias = epilogue.bias
            x = x + (bias[rows] if bias.ndim == 2 else bias[columns][None])
        y = _activate(epilogue.activation, x)
        scaled = y if epilogue.d_scale is None else y * _F32(epilogue.d_scale)
        auxiliary = (_round(x, product.output) if epilogue.auxiliary else
                     None)
        return Elements(_round(scaled, product.output), auxiliary)
