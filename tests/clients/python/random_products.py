"""Random products of integers and powers of two, and what they have to be: the
rules are those of conformance/forms.py and of epilogue_reference.py."""

import numpy as np
from conformance import forms

from epilogue_reference import wide

SEED = 20261121
F32 = np.float32
NAMES = {dtype: name for name, dtype in forms.TYPES.items()}


class Generator:
    """What is usual comes often, so that many requests are served."""

    def __init__(self, seed):
        self._random = np.random.default_rng([SEED, seed])

    def chance(self, share):
        return self._random.random() < share

    def one(self, values):
        return values[int(self._random.integers(len(values)))]

    def size(self, most, zero=0.03):
        return 0 if self.chance(zero) else int(self._random.integers(1, most))

    def powers(self, *shape):
        return np.exp2(self._random.integers(-2, 3, shape)).astype(F32)

    def integers(self, high, *shape):
        return self._random.integers(-high, high + 1, shape)

    def matrix(self, dtype, high, *shape):
        """Integers of a type; lies in either order."""
        values = self.integers(high, *shape)
        if dtype.kind in "ub":
            values = np.abs(values) > 0 if dtype.kind == "b" else np.abs(values)
        array = values.astype(dtype)
        return array if self.chance(0.5) else np.ascontiguousarray(
            array.swapaxes(-1, -2)).swapaxes(-1, -2)


def form_of(a, b, precision, accumulate, saturate, xor, sparse=""):
    """The Form of types and options by their names, or None."""
    mixed = any((form.a, form.b) == (a, b) for form in forms.MIXED.values())
    sums_in = accumulate or (
        "s32" if a in (*forms.INTEGERS, "b1") and not mixed else "f32")
    asked = (a, b, sums_in, precision, saturate, xor, sparse)
    return next((form for form in forms.FORMS.values() if form == (
        form.name, *asked, "", False, False)), None)


def default_output(a, b):
    """The name of the type of the result of two by their names."""
    form = form_of(a, b, "", "", False, False)
    if form is None:
        return "s32" if a in (*forms.INTEGERS, "b1") else a
    return "s32" if form.sums == "s32" else form.multiplied


def check(test, label, activation, product, expected, output):
    """A gemmd.Product in type `output` against what epilogue() gives."""
    x, greatest, y = expected
    exact = activation in (None, "relu")
    for name, found, value, is_exact in (
            ("D", product.d, y, exact),
            ("before", product.pre_activation, x, True)):
        if found is None:
            continue
        if is_exact:
            np.testing.assert_array_equal(
                wide(found), wide(forms.round_to(value, output)),
                f"{name} of {label}")
            continue
        clipped = forms.clip(value, output)
        bound = forms.result_bound(
            clipped, 2.0 ** -20 * np.abs(x) + 2.0 ** -24, output)
        test.assertTrue((np.abs(wide(found) - clipped) <= bound).all(),
                        f"{name} of {label}")
    if product.amax is not None:
        np.testing.assert_allclose(product.amax, greatest, rtol=1e-6,
                                   err_msg=label)
