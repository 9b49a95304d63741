"""Elements of random operands. Pure functions of a generator.

normal      Standard normal.
positive    Its magnitudes: truncation in the tensor core does not cancel.
wide        Normal times powers of two, 24 binades wide where the type has them.
zeros       Normal, a third of it zero, of both signs.
special     Normal, with infinities and NaN here and there.
subnormal   Around the least normal number; the other operand is `wide`.
overflow    Such that sums leave the range of their type.
ties        f32 half-way between two tf32.
uniform     Integers of the whole type.
extremes    Its ends, and few others.
"""

import ml_dtypes
import numpy as np

from . import forms, quantized

_FLOATS = ("normal", "normal", "positive", "wide", "zeros", "special",
           "subnormal")
# Exponents such that products and their sums lie around the end of the type of
# the sum, f16 or f32.
_LARGE = {"f16": (6, 9), "f32": (61, 64)}


def kinds(form):
    """Of which one is drawn."""
    if form.sums == "s32":
        return ("uniform", "extremes")
    made = _FLOATS
    if form.sums == "f16" or form.multiplied in ("bf16", "f32"):
        made += ("overflow",)
    if form.name == "tf32":
        made += ("ties",)
    return made


def partner(kind):
    """What B holds when A holds `kind`."""
    return "wide" if kind == "subnormal" else kind


def _integers(generator, name, kind, size):
    if name == "b1":
        share = 0.5 if kind == "uniform" else 0.97
        return generator.random(size) < share
    limits = ml_dtypes.iinfo(forms.TYPES[name])
    least, most = int(limits.min), int(limits.max)
    if kind != "extremes":
        return generator.integers(least, most + 1, size).astype(
            forms.TYPES[name])
    # Mostly one end, so that long sums leave s32.
    return generator.choice(
        (least, most, 0), size,
        p=(0.08, 0.9, 0.02) if least == 0 else (0.9, 0.08, 0.02)).astype(
            forms.TYPES[name])


def _subnormal(generator, name, size):
    """Bits with the least exponents."""
    dtype = forms.TYPES[name]
    info = ml_dtypes.finfo(dtype)
    bits = 8 * dtype.itemsize
    magnitudes = generator.integers(0, 3 << info.nmant, size, dtype=np.uint32)
    signs = generator.integers(0, 2, size, dtype=np.uint32) << bits - 1
    return (magnitudes | signs).astype(f"u{dtype.itemsize}").view(dtype)


def _floats(generator, kind, name, size):
    values = generator.standard_normal(size)
    if kind == "positive":
        return np.abs(values)
    if kind == "wide":
        spread = 4 if name in (*forms.FP8, "f16") else 12
        return values * np.exp2(generator.integers(-spread, spread + 1, size))
    if kind == "zeros":
        return values * (generator.random(size) > 1 / 3)
    if kind == "overflow":
        least, most = _LARGE["f32" if name in ("bf16", "f32") else "f16"]
        return np.copysign(np.exp2(generator.uniform(least, most, size)),
                           values)
    return values


def _put_special(generator, values):
    """In place, so that most sums stay finite."""
    flat = values.reshape(-1)
    if flat.size:
        places = generator.integers(0, flat.size, 1 + flat.size // 4000)
        with np.errstate(all="ignore"):
            flat[places] = generator.choice(
                (np.inf, -np.inf, np.nan), places.size).astype(values.dtype)
    return values


def _place_ties(generator, made):
    bits = made.view(np.uint32)
    tie = generator.random(made.shape) < 0.3
    return np.where(tie, bits & ~np.uint32(0x1fff) | np.uint32(0x1000),
                    bits).view(np.float32)


def values(generator, name, kind, size):
    """An array of type `name`; of integers, what is nearest to `kind`."""
    if name in (*forms.INTEGERS, *quantized.FOUR_BITS, "b1"):
        return _integers(generator, name, kind, size)
    if name == "s32":
        limits = np.iinfo(np.int32)
        whole = generator.integers(limits.min, limits.max + 1, size, np.int32)
        return whole >> np.int32(generator.choice((0, 20)))
    if kind == "subnormal":
        return _subnormal(generator, name, size)
    made = forms.round_to(_floats(generator, kind, name, size), name)
    if kind == "ties":
        made = _place_ties(generator, made)
    return _put_special(generator, made) if kind == "special" else made
