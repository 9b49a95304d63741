"""The product table: every shape x input type x layout x type and order of D
x alpha and beta, on inline operands.

A unit is one shape with one input type; its references are computed once.
"""

import itertools
from typing import NamedTuple

import gemmd
import numpy as np
from gemmd import api

from . import fills, matrices, reference, results

LAYOUTS = ("rr", "rc", "cr", "cc")  # Orders of A and B.
INPUTS = ("bf16", "f16")
OUTPUTS = ("bf16", "f16", "f32")
SCALARS = ((1, 0), (2, 0), (1, 1), (-0.5, 2), (0, 1.5), (0, 0), (1, -1))
# Elements between the lines of A, B, C and D.
PADDINGS = ((0, 0, 0, 0), (3, 0, 0, 0), (0, 5, 0, 1), (8, 8, 8, 8),
            (0, 0, 1, 7), (1, 2, 3, 4))


class Case(NamedTuple):
    shape: object
    input: str
    layout: str
    order: str  # Of C and D, "r" or "c".
    output: str
    alpha: float
    beta: float
    fill: str
    padding: tuple
    offset: int = 0  # Of the one_hot fill.

    def __str__(self):
        padding = ("" if not any(self.padding) else
                   " pad=" + ",".join(map(str, self.padding)))
        offset = f"+{self.offset}" if self.offset else ""
        return (f"{self.fill}{offset} {self.input} {self.layout}{self.order} "
                f"{self.output} alpha={self.alpha:g} beta={self.beta:g} "
                f"{self.shape}{padding}")


def _order(index, layout, output, beta):
    """Both orders of D take turns over the shapes, and one shape uses one
    order per (layout, output, C read or not): each is a kernel of its own."""
    return "rc"[(index + LAYOUTS.index(layout) + OUTPUTS.index(output)
                 + (beta != 0)) % 2]


def cases(index, shape, input_name, subset):
    """The cases of a unit; `index` numbers the shape."""
    thin = 7 if subset == "ci" else 1  # "ci" takes every seventh case.
    count = itertools.count(index)

    def make(fill, layout, output, alpha, beta, offset=0):
        number = next(count)
        if fill != "one_hot" and fill != "coordinates" and number % thin:
            return None
        return Case(shape, input_name, layout,
                    _order(index, layout, output, beta), output, alpha, beta,
                    fill, PADDINGS[number % len(PADDINGS)], offset)

    made = []
    for layout, output, scalars in itertools.product(LAYOUTS, OUTPUTS,
                                                     SCALARS):
        made.append(make("exact", layout, output, *scalars))
    for layout, output in itertools.product(LAYOUTS, OUTPUTS):
        scalars = SCALARS[(index + len(made)) % len(SCALARS)]
        made.append(make("normal", layout, output, *scalars))
    layouts = LAYOUTS if subset == "full" else LAYOUTS[index % 4:][:1]
    for layout in layouts:
        if shape.k >= 4 and shape.n <= fills.SPAN:
            made.append(make("coordinates", layout, "f32", 1, 0))
        # Each step of k once, as far as four products reach.
        for offset in range(0, min(shape.k, 4 * shape.m), shape.m):
            made.append(make("one_hot", layout, input_name, 1, 0, offset))
    return [case for case in made if case is not None]


class Unit:
    """Runs the cases of one shape and input type."""

    def __init__(self, client, device):
        self._client = client
        self._device = device
        self._memo = {}

    def run(self, case):
        output = fills.TYPES[case.output]
        key = (case.fill, case.offset)
        a, b, c = self._once(("operands", key), lambda: self._operands(case))
        if c is not None:
            c = self._once(("c", key, case.output), lambda: c.astype(output))
        header = api.MatmulHeader(device=self._device)
        problem = header.problem
        problem.m, problem.n, problem.k = case.shape
        problem.a_type = problem.b_type = matrices.type_number(a.dtype)
        problem.c_type = problem.d_type = matrices.type_number(output)
        problem.a_order = matrices.ORDERS[case.layout[0]]
        problem.b_order = matrices.ORDERS[case.layout[1]]
        problem.d_order = matrices.ORDERS[case.order]
        problem.alpha, problem.beta = case.alpha, case.beta
        data = [
            matrices.set_source(header, "a", self._once(
                ("a", key, case.layout[0], case.padding[0]),
                lambda: matrices.encode(a, case.layout[0], case.padding[0]))),
            matrices.set_source(header, "b", self._once(
                ("b", key, case.layout[1], case.padding[1]),
                lambda: matrices.encode(b, case.layout[1], case.padding[1])))]
        if case.beta:
            data.append(matrices.set_source(header, "c", matrices.encode(
                c, case.order, case.padding[2])))
        width = case.shape.n if case.order == "r" else case.shape.m
        header.d.inline.order = problem.d_order
        if case.padding[3]:
            header.d.inline.leading_dimension = width + case.padding[3]
        try:
            _, d = self._client.execute(header, *data)
            actual, padding = matrices.decode(
                d, case.shape.m, case.shape.n, output, case.order,
                case.padding[3])
        except (gemmd.Error, ValueError) as error:
            return results.failed(str(case), f"{error}")
        if padding.view(f"u{output.itemsize}").any():
            return results.failed(str(case), "padding of D is not zero")
        return self._judge(case, key, a, b, c, output, actual)

    def _operands(self, case):
        fill = getattr(fills, case.fill)
        dtype = fills.TYPES[case.input]
        if case.fill == "one_hot":
            return fill(case.shape, dtype, case.offset)
        return fill(case.shape, dtype)

    def _judge(self, case, key, a, b, c, output, actual):
        products = self._once(("products", key),
                              lambda: reference.Products(a, b))
        c = None if c is None else c.astype(np.float64)
        scalars = (case.alpha, case.beta, c)
        if case.fill == "normal":
            expected = products.result(*scalars)
            return results.within(str(case), actual, expected,
                                  products.bound(*scalars, expected, output))
        rounded = self._once(
            ("rounded", key, case.alpha, case.beta, case.output),
            lambda: reference.round_to(products.result(*scalars), output))
        result = results.equal(str(case), actual, rounded)
        if case.fill == "coordinates" and result.detail:
            found = actual[actual != rounded][0]
            if np.isfinite(found):
                row, column = divmod(int(found), fills.SPAN)
                result = result._replace(detail=(
                    f"{result.detail}; it holds element [{row}, {column}]"))
        return result

    def _once(self, key, make):
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]
