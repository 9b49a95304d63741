"""The arithmetic of Hopper's tensor core, bit for bit.

One instruction adds its exact products and the old sum at once. All are
aligned to the greatest exponent among them, each is cut off toward zero some
bits below it, the rest is added exactly, and the result is brought to the
accumulator. The exponent of a product is the sum of those of its factors: it
is not normalised, and a subnormal factor has the least exponent of its type.
Found by experiment on an H200 and confirmed there, also on the vendor's
kernels, for all forms below.
"""

from typing import NamedTuple

import numpy as np

from . import forms


class _Unit(NamedTuple):
    step: int  # Products of one instruction.
    kept: int  # Bits of fraction of what is added.
    result: int  # Bits of fraction of the sum; None: rounded to f16.
    promote: int = 0  # k of one partial sum, where these are added in f32.


_UNITS = {
    "bf16": _Unit(16, 25, 23),
    "f16": _Unit(16, 25, 23),
    "f16-f16": _Unit(16, 25, None),
    "tf32": _Unit(8, 25, 23),
    "tf32-fast": _Unit(8, 25, 23),
    **{f"{pair}{suffix}": _Unit(32, 13, 13, promote)
       for pair in ("e4m3", "e4m3-e5m2", "e5m2-e4m3", "e5m2")
       for suffix, promote in (("", 128), ("-fast", 0))},
}
# Exponent of the smallest normal number.
_LEAST = {"bf16": -126, "f16": -14, "f32": -126, "e4m3": -6, "e5m2": -14}
# Sums are not aligned below this, which is near the last bit of f32.
_FLOOR = -133
_NOTHING = -(1 << 20)  # Exponent of zero.


def knows(form):
    return form.name in _UNITS


def _exponents(values, least):
    _, exponent = np.frexp(values)
    return np.where(values == 0, _NOTHING,
                    np.maximum(exponent - 1, least)).astype(np.int64)


def _truncate(values, bits):
    _, exponent = np.frexp(values)
    unit = np.maximum(exponent - 1 - bits, -149)
    return np.ldexp(np.trunc(np.ldexp(values, -unit)), unit)


def sums(form, a, b):
    """What the accumulators of a kernel that does not split k hold, as
    float64; a and b are finite."""
    unit = _UNITS[form.name]
    a, b = forms.read(form, a), forms.read(form, b)
    padding = -a.shape[1] % unit.step
    a = np.pad(a, ((0, 0), (0, padding)))
    b = np.pad(b, ((0, padding), (0, 0)))
    a_exponents = _exponents(a, _LEAST[form.a])
    b_exponents = _exponents(b, _LEAST[form.b])
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    old = total.astype(np.float64)
    for first in range(0, a.shape[1], unit.step):
        step = slice(first, first + unit.step)
        exponents = (a_exponents[:, step, None] + b_exponents[None, step])
        top = np.maximum(exponents.max(axis=1), _exponents(old, -126))
        shift = unit.kept - np.maximum(top, _FLOOR)
        products = a[:, step, None] * b[None, step]
        added = np.trunc(np.ldexp(products, shift[:, None])).sum(axis=1)
        added += np.trunc(np.ldexp(old, shift))
        new = np.ldexp(added, -shift)
        if unit.result is None:
            old = new.astype(np.float16).astype(np.float64)
        else:
            old = _truncate(new, unit.result)
        if unit.promote and (first + unit.step) % unit.promote == 0:
            total, old = total + old.astype(np.float32), np.zeros_like(old)
    if unit.promote:
        return (total + old.astype(np.float32)).astype(np.float64)
    return old
