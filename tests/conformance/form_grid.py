"""Every form x layout x type and order of D, on the fills of form_fills.

A unit is one form with one layout of A and B.
"""

import itertools

import numpy as np

from . import form_fills, forms, quantized, requests, results
from .shapes import Shape

LAYOUTS = forms.FORMS["bf16"].layouts
_CI_SHAPES = (Shape(70, 67, 136),)
_SHAPES = (
    Shape(1, 1, 1), Shape(7, 65, 33), Shape(70, 67, 136), Shape(129, 130, 255),
    Shape(64, 256, 64), Shape(257, 40, 520), Shape(16, 300, 1024),
    Shape(300, 8, 72), Shape(1, 129, 500), Shape(200, 1, 31),
)
_PADDINGS = ((0, 0, 0, 0), (3, 0, 0, 0), (0, 5, 0, 1), (8, 8, 8, 8),
             (0, 0, 1, 7), (1, 2, 3, 4))
# alpha, beta; where D is s32 only those of 0 and 1.
# Beyond this, results are asked for in f32: f16 ends at 65504.
_GREATEST_F16 = 65000
_SCALARS = ((1, 0), (2, 0), (1, 1), (-0.5, 2), (0, 1), (1, -1), (0, 0))


def _scalars(output):
    if output == "s32":
        return [s for s in _SCALARS if all(x in (0, 1) for x in s)]
    return _SCALARS


class Unit:
    """The checks of one form and layout."""

    def __init__(self, target, device, form, layout, subset):
        self._target = target
        self._device = device
        self._form = forms.FORMS[form]
        self._layout = layout
        self._ci = subset == "ci"
        self._few = self._ci and (self._form.sparse or self._form.weights)
        self._count = itertools.count(LAYOUTS.index(layout))

    def run(self):
        """Yields Results; requests.Refused when the form is not served."""
        yield from self._exact()
        yield from self._one_hot()
        # Digits and weights of powers of two that hold in their types.
        if not (self._form.group or {self._form.a, self._form.b} & {
                "b1", *quantized.FOUR_BITS}):
            yield from self._coordinates()
        if self._form.sums != "s32":
            yield from self._bounds()

    def _shape(self, m, n, k):
        return Shape(m, n, self._form.depth(k))

    def _name(self, check, shape, output, order):
        return (f"{check} {self._form.name} {self._layout}{order} {output} "
                f"{shape}")

    def _multiply(self, a, b, output, order, **more):
        return requests.multiply(self._target, self._device, requests.Product(
            self._form, a, b, output, layout=self._layout, order=order,
            **more))

    def _outputs(self):
        """(output, order): all in the full set, two a unit in ci, of sparse
        forms and those with weights one."""
        pairs = [(output, order) for output in self._form.outputs
                 for order in "rc"]
        if not self._ci:
            return pairs
        first = 5 * LAYOUTS.index(self._layout)
        some = [pairs[first % len(pairs)], pairs[(first + 3) % len(pairs)]]
        return some[:1] if self._few else some

    def _exact(self):
        for shape, (output, order) in itertools.product(
                _CI_SHAPES if self._ci else _SHAPES, self._outputs()):
            shape = self._shape(*shape)
            a, b = form_fills.exact(self._form, shape)
            number = next(self._count)
            scalars = _scalars(output)
            alpha, beta = scalars[number % len(scalars)]
            c = form_fills.exact_c(self._form, shape)
            c_type = ("f32" if number % 2 and output != "s32" else output)
            c = forms.round_to(forms.clip(c, c_type), c_type)
            answer = self._multiply(
                a, b, output, order, alpha=alpha, beta=beta, c=c,
                c_type=c_type, padding=_PADDINGS[number % len(_PADDINGS)])
            exact = alpha * forms.sums(self._form, a, b) if alpha else 0.0
            expected = exact + (beta * c.astype(np.float64) if beta else 0.0)
            expected = np.broadcast_to(expected, c.shape)
            yield results.equal(
                self._name("exact", shape, output, order)
                + f" alpha={alpha:g} beta={beta:g}",
                answer.d, forms.round_to(expected, output))

    def _first_output(self):
        return "s32" if self._form.sums == "s32" else "f32"

    def _one_hot(self):
        shape, output = Shape(64, 40, 200), self._first_output()
        for offset in (0,) if self._ci else range(0, shape.k, shape.m):
            a, b = form_fills.one_hot(self._form, shape, offset)
            answer = self._multiply(a, b, output, "r")
            yield results.equal(
                self._name(f"one_hot+{offset}", shape, output, "r"), answer.d,
                forms.round_to(forms.sums(self._form, a, b), output))

    def _coordinates(self):
        shapes = (Shape(257, 200, 12),) if self._ci else (
            Shape(257, 200, 12), Shape(520, 300, 40))
        for shape, high in itertools.product(shapes, (False, True)):
            output = self._first_output()
            a, b = form_fills.coordinates(self._form, shape, high)
            answer = self._multiply(a, b, output, "r")
            yield results.equal(
                self._name("coordinates " + ("low", "high")[high], shape,
                           output, "r"), answer.d,
                forms.round_to(form_fills.coordinate_values(shape, high),
                               output))

    def _bounds(self):
        kinds = ("normal", "positive")
        shapes = (Shape(70, 67, 300),) if self._ci else (
            Shape(70, 67, 300), Shape(65, 129, 1023), Shape(64, 72, 4096))
        for shape, kind in itertools.product(shapes, kinds):
            shape = self._shape(*shape)
            output = ("f32" if self._few else
                      self._form.outputs[next(self._count) % 3])
            a, b = form_fills.random(self._form, shape, kind)
            sums = forms.sums(self._form, a, b)
            if output == "f16" and np.abs(sums).max() > _GREATEST_F16:
                output = "f32"
            answer = self._multiply(a, b, output, "r")
            expected = forms.clip(sums, output)
            error = forms.sum_bound(self._form, a, b)
            yield results.within(
                self._name(kind, shape, output, "r"), answer.d, expected,
                forms.result_bound(expected, error, output))
