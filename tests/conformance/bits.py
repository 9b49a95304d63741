"""D against the arithmetic of the tensor core (tensor_core.py), bit for bit:
on a GPU, and on a host that gives a GPU's bits. Where the answer says that sums
are of another arithmetic, there is nothing to compare.

A unit is one form with one layout of A and B. Shapes are chosen so that many
configs take part; of large ones some rows and columns are compared.
"""

import itertools

import numpy as np
from gemmd import api

from . import (form_fills, forms, quantized, requests, results,
               tensor_core)
from .shapes import Shape

KINDS = (*form_fills.RANDOM, "special")
_CI_SHAPES = (Shape(33, 48, 40), Shape(70, 67, 136))
_CI_SPLIT = Shape(12, 20, 4100)
_SHAPES = (
    Shape(33, 48, 32), Shape(65, 40, 250), Shape(24, 136, 900),
    Shape(1, 300, 1000), Shape(300, 8, 700), Shape(16, 4096, 512),
    Shape(128, 256, 300), Shape(200, 520, 1024), Shape(512, 512, 256),
    Shape(1024, 768, 320), Shape(2048, 1111, 130), Shape(1500, 2048, 192),
    Shape(4096, 64, 100), Shape(8, 1000, 2048), Shape(640, 640, 72),
    Shape(64, 64, 8192), Shape(200, 24, 5000), Shape(3000, 1600, 40),
)
# Kernels that a unit of the full set has to meet.
_LEAST_KERNELS = 12
# Rows and columns that are compared.
_SAMPLE = 24
# alpha, beta: powers of two, so that no rounding but one depends on whether
# a multiplication and an addition are one step.
_SCALARS = ((1, 0), (1, 0), (-0.5, 2))
_HOPPER = api.enum("SumArithmetic")["SUM_ARITHMETIC_HOPPER"]


def _sample(count):
    if count <= 2 * _SAMPLE:
        return np.arange(count)
    some = np.random.default_rng(count).choice(count, _SAMPLE - 2, False)
    return np.unique(np.concatenate([[0, count - 1], some]))


def _same_zeros_and_nans(values):
    """Signs of zero and bits of NaN are free."""
    values = values.copy()
    values[values == 0] = 0
    values[np.isnan(values.astype(np.float32))] = np.nan
    return values


def _operands(form, shape, kind):
    if kind != "special":
        return form_fills.random(form, shape, kind)
    a, b = form_fills.random(form, shape, "normal")
    generator = np.random.default_rng([*shape, 7])
    for name, values in ((form.a, a), (form.b, b)):
        if name in (*forms.INTEGERS, *quantized.FOUR_BITS):
            continue
        row, column = (generator.integers(0, size, 3)
                       for size in values.shape)
        with np.errstate(all="ignore"):
            values[row, column] = np.array([np.inf, -np.inf, np.nan])
    return form.keep(a, b, generator)


class Unit:
    """The checks of one form and layout."""

    def __init__(self, client, target, device, form, layout, subset, required):
        self._client = client
        self._target = target
        self._device = device
        self._form = forms.FORMS[form]._replace(free=True)
        self._layout = layout
        self._ci = subset == "ci"
        self._required = required
        self._count = itertools.count("rr rc cr cc".split().index(layout))
        self._kernels = set()

    def run(self):
        """Yields Results; requests.Refused when the form is not served."""
        shapes = (*_CI_SHAPES, _CI_SPLIT) if self._ci else _SHAPES
        for shape in shapes:
            shape = shape._replace(k=self._form.depth(shape.k))
            output, order, scalars = self._how()
            # The specification is slow where k is long.
            kinds = KINDS[:2] if shape[:2] == _CI_SPLIT[:2] else KINDS
            for kind in kinds:
                made = self._check(shape, kind, output, order, scalars)
                if made is None:
                    return
                yield made
        enough = self._ci or len(self._kernels) >= _LEAST_KERNELS
        yield (results.Result(self._name("kernels")) if enough else
               results.failed(self._name("kernels"),
                              f"{len(self._kernels)} took part; at least "
                              f"{_LEAST_KERNELS} should"))

    def _name(self, what):
        return f"bits {self._form.name} {self._layout} {what}"

    def _how(self):
        """Type and order of D, alpha and beta; f32, which shows most, half of
        the time."""
        number = next(self._count)
        if self._ci:
            return "f32", "r", (1, 0)
        outputs = self._form.outputs
        output = outputs[number // 2 % len(outputs)] if number % 2 else "f32"
        return output, "rc"[number // 3 % 2], _SCALARS[number % len(_SCALARS)]

    def _check(self, shape, kind, output, order, scalars):
        """A Result; None when sums are not of the tensor core's arithmetic."""
        a, b = _operands(self._form, shape, kind)
        alpha, beta = scalars
        c = forms.round_to(np.random.default_rng(shape).standard_normal(
            (shape.m, shape.n)), output) if beta else None
        product = requests.Product(
            self._form, a, b, output, layout=self._layout, order=order, c=c,
            alpha=alpha, beta=beta)
        if kind == KINDS[0]:
            requests.prepare(self._client, self._device, product)
        answer = requests.multiply(self._target, self._device, product)
        name = self._name(f"{kind} {order} {output} alpha={alpha:g} "
                          f"beta={beta:g} {shape}")
        if answer.arithmetic != _HOPPER:
            return results.failed(name, "sums are of another arithmetic than "
                                  "Hopper's") if self._required else None
        self._kernels.add(answer.kernel)
        rows, columns = _sample(shape.m), _sample(shape.n)
        with np.errstate(all="ignore"):
            x = alpha * tensor_core.sums(self._form, a[rows], b[:, columns],
                                         answer.splits)
            if beta:
                x = x + beta * c[np.ix_(rows, columns)].astype(float)
            expected = forms.round_to(x, output)
        result = results.same_bits(
            name, _same_zeros_and_nans(answer.d[np.ix_(rows, columns)]),
            _same_zeros_and_nans(expected))
        return result if not result.detail else result._replace(
            detail=f"{result.detail}; by {answer.kernel}, {answer.splits} "
                   "parts of k")
