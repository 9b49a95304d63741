"""What the matrices of one form hold. Pure functions of shape and form; A and
B come as arrays of the form's types.

exact      Small integers: every sum and result is exact.
normal     Standard normal.
positive   Its magnitudes: truncation in the tensor core does not cancel.
wide       Normal times powers of two, 24 binades wide where the type has them.
zeros      Normal, a third of it zero.
one_hot    Row i of A picks row (i + offset) mod k of B.
low, high  D[i, j] names i and j: their low and their high digits.
"""

import numpy as np

from . import forms

# Integers up to this hold exactly in the type.
_MOST = {"bf16": 100, "f16": 100, "f32": 100, "e4m3": 15, "e5m2": 7, "s8": 100,
         "u8": 100, "b1": 1, "s4": 7, "u4": 15}
_UNSIGNED = ("u8", "u4", "b1")
# What fills of integers are multiplied by, so that many of them occur.
_SPREAD = {"s4": 3, "u4": 5, "s8": 40}
RANDOM = ("normal", "positive", "wide", "zeros")


def _generator(shape, tag):
    return np.random.default_rng([*shape, tag])


def _integers(generator, name, least, most, size):
    if name == "b1":
        return generator.integers(0, 2, size).astype(np.bool_)
    if name in _UNSIGNED:
        least = 0
    return generator.integers(least, most + 1, size).astype(forms.TYPES[name])


def _kept(form, shape, a, b):
    """With the zeros that a sparse form has."""
    return form.keep(a, b, _generator(shape, 5))


def exact(form, shape):
    generator = _generator(shape, 1)
    m, n, k = shape
    return _kept(form, shape, _integers(generator, form.a, -4, 4, (m, k)),
                 _integers(generator, form.b, -2, 2, (k, n)))


def exact_c(form, shape):
    """Integers in [-4, 4], in float64."""
    m, n, _ = shape
    return _generator(shape, 2).integers(-4, 5, (m, n)).astype(np.float64)


def random(form, shape, kind):
    generator = _generator(shape, 10 + RANDOM.index(kind))
    m, n, k = shape
    made = []
    for name, size in ((form.a, (m, k)), (form.b, (k, n))):
        values = generator.standard_normal(size)
        if kind == "positive":
            values = np.abs(values)
        elif kind == "wide":
            spread = 4 if name in (*forms.FP8, "f16") else 12
            values *= np.exp2(generator.integers(-spread, spread + 1, size))
        elif kind == "zeros":
            values *= generator.random(size) > 1 / 3
        if name == "f32" and form.precision:
            values = forms.round_to_tf32(values)
        made.append(forms.round_to(values * _SPREAD.get(name, 1), name))
    return _kept(form, shape, *made)


def one_hot(form, shape, offset):
    m, n, k = shape
    a = np.zeros((m, k))
    a[np.arange(m), (np.arange(m) + offset) % k] = 1
    generator = _generator(shape, 4)
    most = _MOST[form.b]
    b = generator.integers(1, most + 1, (k, n))
    if form.b in _UNSIGNED:
        b -= form.b == "b1" and generator.integers(0, 2, (k, n))
    else:
        b = b * generator.choice((-1, 1), (k, n))
    a, b = a.astype(forms.TYPES[form.a]), b.astype(forms.TYPES[form.b])
    # One element of a line obeys every pattern.
    return (a, b) if form.sparse == "a" else _kept(form, shape, a, b)


def _steps(form, shape):
    """Four steps of k, of a sparse form few enough of each chunk."""
    order = _generator(shape, 3).permutation(shape.k)
    if form.sparse:
        most = form.chunk // 2
        of_chunk = order // form.chunk
        order = [step for i, step in enumerate(order)
                 if (of_chunk[:i] == of_chunk[i]).sum() < most]
    return order[:4]


def coordinates(form, shape, high):
    """D[i, j] = i' + 32 j' with i' = i mod 32 and j' = j mod 64, or of i / 32
    and j / 64. Digits of three bits and weights of powers of two hold in every
    type, and sums of f16 hold the result. Needs k >= 4."""
    m, n, k = shape
    i, j = np.arange(m), np.arange(n)
    if high:
        i, j = i // 32, j // 64
    i, j = i % 32, j % 64
    steps = _steps(form, shape)
    a, b = np.zeros((m, k)), np.zeros((k, n))
    for step, of_a, of_b in zip(steps, (i % 8, i // 8, 32, 32),
                                (1, 8, j % 8, j // 8 * 8)):
        a[:, step], b[step, :] = of_a, of_b
    return a.astype(forms.TYPES[form.a]), b.astype(forms.TYPES[form.b])


def coordinate_values(shape, high):
    i, j = np.indices(shape[:2])
    if high:
        i, j = i // 32, j // 64
    return (i % 32 + 32 * (j % 64)).astype(np.float64)
