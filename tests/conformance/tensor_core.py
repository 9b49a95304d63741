"""The arithmetic of Hopper's tensor core, bit for bit.

One instruction adds its exact products and the old sum at once. All are
aligned to the greatest exponent among them, each is cut off toward zero some
bits below it, the rest is added exactly, and the result is brought to the
accumulator. The exponent of a product is the sum of those of its factors: it
is not normalised, and a subnormal factor has the least exponent of its type;
so has a subnormal sum in f16.
Found by experiment on an H200 and confirmed there, also on the vendor's
kernels, for all forms below.

What kernels make of it: fp8 sums of one stage, 128 k, are promoted to float32,
by a fused multiply-add where they have scales by block;
float32 is six products of bfloat16 parts, five of which go through k stage by
stage, before the sixth does; a split product
adds its parts, each of every so-manieth stage, in float32. Weights are widened
to the type of the other operand, less their zero points; where they have
scales, sums of 64 k (32 where groups are so short) are promoted by a fused
multiply-add.
"""

from typing import NamedTuple, Optional

import numpy as np

from . import forms, quantized
from .fills import BF16


class _Unit(NamedTuple):
    step: int  # Products of one instruction.
    kept: int  # Bits of fraction of what is added.
    result: Optional[int]  # Bits of fraction of the sum; None: all of them.
    to_f16: bool = False  # Rounded to nearest even, after that.
    promotes: bool = False  # Sums of stages are added in f32.
    instructions: int = 4  # Of a stage.
    promotions: int = 1  # Of a stage, where it promotes.

    @property
    def depth(self):
        """Of a stage."""
        return self.step * self.instructions

    def sparse(self):
        """What is not stored is not multiplied: an instruction goes through
        twice the k."""
        return self._replace(step=2 * self.step, instructions=2)


_UNITS = {
    "bf16": _Unit(16, 25, 23),
    "f16": _Unit(16, 25, 23),
    "f16-f16": _Unit(16, 25, None, to_f16=True),
    "f32": _Unit(16, 25, 23),
    "tf32": _Unit(8, 25, 23),
    "tf32-fast": _Unit(8, 25, 23),
    **{f"{pair}{suffix}": unit
       for pair in ("e4m3", "e4m3-e5m2", "e5m2-e4m3", "e5m2")
       for suffix, unit in (
           ("", _Unit(32, 13, 13, promotes=True)),
           ("-fast", _Unit(32, 13, 13)),
           ("-f16", _Unit(32, 13, None, to_f16=True)))},
}
# Exponent of the smallest normal number.
_LEAST = {"bf16": -126, "f16": -14, "f32": -126, "e4m3": -6, "e5m2": -14}
# Sums are not aligned below this, which is near the last bit of f32.
_FLOOR = -133
_NOTHING = -(1 << 20)  # Exponent of zero.
# Which parts of A and of B the products of float32 multiply: 0 is the high one.
_TERMS = ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0))


def knows(form):
    return form.weights != "" or form.dense in _UNITS


def _unit(form, k, parts):
    if not form.weights:
        unit = _UNITS[form.dense]
        return unit.sparse() if form.sparse else unit
    # A group is scaled when it ends, if its stages follow each other.
    stages = 1
    if parts == 1 and form.group in ("128", "k"):
        stages = -(-quantized.size(form.group, k) // 64)
    return _UNITS[form.multiplied]._replace(
        instructions=4 * stages, promotes=form.group != "",
        promotions=2 if form.group == "32" else 1)


def _exponents(values, least):
    _, exponent = np.frexp(values)
    return np.where(values == 0, _NOTHING,
                    np.maximum(exponent - 1, least)).astype(np.int64)


def _truncate(values, bits):
    _, exponent = np.frexp(values)
    unit = np.maximum(exponent - 1 - bits, -149)
    return np.ldexp(np.trunc(np.ldexp(values, -unit)), unit)


def _bf16_parts(values):
    """float32 as the sum of three bfloat16: high, middle and low."""
    values = values.astype(np.float32)
    high = values.astype(BF16).astype(np.float32)
    # What rounding alone made infinite is cut off instead.
    cut = (values.view(np.uint32) & np.uint32(0xffff0000)).view(np.float32)
    high = np.where(np.isinf(high) & np.isfinite(values), cut, high)
    left = np.where(np.isfinite(values), values - high, 0)
    middle = left.astype(BF16).astype(np.float32)
    low = (left - middle).astype(BF16)
    return [part.astype(np.float64) for part in (high, middle, low)]


def _factors(form, a, b, depth):
    """A and B as the tensor core reads them: whole stages, in order."""
    if form.name == "f32":
        a_parts, b_parts = _bf16_parts(a), _bf16_parts(b)
        passes = [(a_parts[i], b_parts[j]) for i, j in _TERMS]
    else:
        elements = form._replace(group="")  # Scales come later.
        passes = [(elements.read("a", a), elements.read("b", b))]
    padding = -a.shape[1] % depth
    xs = [np.pad(x, ((0, 0), (0, padding))) for x, _ in passes]
    ys = [np.pad(y, ((0, padding), (0, 0))) for _, y in passes]
    stages = [slice(k, k + depth) for k in range(0, xs[0].shape[1], depth)]
    order = [(i, k) for k in stages for i in range(len(passes) - 1)]
    order += [(len(passes) - 1, k) for k in stages]
    return (np.hstack([xs[0][:, :0]] + [xs[i][:, k] for i, k in order]),
            np.vstack([ys[0][:0]] + [ys[i][k] for i, k in order]))


def _add(unit, old, a, b, least_a, least_b, stored):
    """The sums after one instruction on its columns of A and rows of B, of
    whose products some are `stored`."""
    products = np.where(stored, a[:, :, None] * b[None], 0.0)
    plain = old + products.sum(axis=1)
    exponents = (_exponents(a, least_a)[:, :, None]
                 + _exponents(b, least_b)[None])
    least = _LEAST["f16"] if unit.to_f16 else _LEAST["f32"]
    top = np.maximum(exponents.max(axis=1), _exponents(old, least))
    shift = unit.kept - np.maximum(top, _FLOOR)
    added = np.trunc(np.ldexp(products, shift[:, None])).sum(axis=1)
    added += np.trunc(np.ldexp(old, shift))
    new = np.ldexp(added, -shift)
    if unit.result is not None:
        new = _truncate(new, unit.result)
        new = np.where(np.abs(new) >= 2.0 ** 128, np.copysign(np.inf, new), new)
    if unit.to_f16:
        new = new.astype(np.float16).astype(np.float64)
    # What is not finite goes by the rules of IEEE 754.
    return np.where(np.isfinite(plain), new, plain)


def multiply_add(a, b, c):
    """a * b + c in float32, rounded once."""
    product = a.astype(np.float64) * b.astype(np.float64)  # Exact.
    c = np.broadcast_to(c.astype(np.float64), product.shape)
    total = product + c
    # What the addition lost, exactly; where there is any, the last bit of the
    # total is made odd, so that the second rounding is as good as the first.
    back = total - product
    lost = (product - (total - back)) + (c - back)
    even = total.view(np.uint64) & np.uint64(1) == 0
    inexact = np.isfinite(total) & (lost != 0) & even
    away = np.where((lost > 0) == (total > 0), 1, -1)
    bits = np.where(inexact, total.view(np.int64) + away, total.view(np.int64))
    return bits.view(np.float64).astype(np.float32)


def _stored(form, a, b, depth):
    """Which products are made, for any row of A and column of B."""
    of_a, of_b = form.stored(a, b)
    padding = -a.shape[1] % depth
    if of_a is not None:
        return np.pad(of_a, ((0, 0), (0, padding)))[:, :, None]
    if of_b is not None:
        return np.pad(of_b, ((0, padding), (0, 0)))[None]
    return np.ones((1, 1, 1), np.bool_)


def _part(form, unit, a, b, stages, factors, stored):
    """The sum over some stages of k, in float32."""
    sums = np.zeros((a.shape[0], b.shape[1]))
    promoted = sums.astype(np.float32)
    least = ((_LEAST[form.multiplied],) * 2 if form.weights else
             (_LEAST[form.a], _LEAST[form.b]))
    span = unit.depth // unit.promotions
    for first in (unit.depth * stage + span * i for stage in stages
                  for i in range(unit.promotions)):
        for k in range(first, first + span, unit.step):
            step = slice(k, k + unit.step)
            if k > first and not a[:, step].any() and not b[step].any():
                continue  # Behind the end of k, where nothing changes.
            sums = _add(unit, sums, a[:, step], b[step], *least,
                        stored[:, step] if form.sparse else stored)
        if unit.promotes:
            held = sums.astype(np.float32)
            promoted = (promoted + held if factors is None else
                        multiply_add(factors(first), held, promoted))
            sums = np.zeros_like(sums)
    return promoted if unit.promotes else sums.astype(np.float32)


def _without_zero_points(form, a, b):
    """A and B of which the quantized one has its zero points taken off, and
    scales, by k: what sums of the part that begins there are multiplied by."""
    turned = form.weights == "b"
    lines = b.T if turned else a
    centered, scales, _ = form.quantized(lines)
    size = quantized.size(form.group, lines.shape[-1])

    def factors(k):
        # Behind the end of k nothing is added.
        of_k = (scales[:, k // size] if k // size < scales.shape[1] else
                np.zeros(len(scales), np.float32))
        return of_k[None] if turned else of_k[:, None]
    return (a, centered.T, factors) if turned else (centered, b, factors)


def sums(form, a, b, parts=1, factors=None):
    """What a kernel that splits k into `parts` takes to D, as float64: values
    of float32. `factors`, where sums are promoted: of the first k of what is,
    what it is multiplied by, an array of float32 of the result's shape."""
    unit = _unit(form, a.shape[1], parts)
    with np.errstate(all="ignore"):
        if form.group:
            a, b, factors = _without_zero_points(form, a, b)
        stored = _stored(form, a, b, unit.depth)
        a, b = _factors(form, a, b, unit.depth)
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for part in range(parts):
            total += _part(form, unit, a, b,
                           range(part, a.shape[1] // unit.depth, parts),
                           factors, stored)
    return total.astype(np.float64)
