"""What a probe is, and the products it makes.

A probe checks one rule that the product table cannot: it is a function
(Probe) -> results, registered by @probe and run once per kind of kernel.
"""

from typing import NamedTuple

import numpy as np
from gemmd import product

from . import fills, matrices, results

PROBES = {}


class Kind(NamedTuple):
    """One kind of kernel: input type, orders of A and B, order of D."""
    input: str
    layout: str
    order: str

    def __str__(self):
        return f"{self.input} {self.layout}{self.order}"


_CI = (Kind("bf16", "rc", "r"), Kind("f16", "cr", "c"))
_FULL = tuple(Kind(input, layout, order) for input in ("bf16", "f16")
              for layout in ("rr", "rc", "cr", "cc") for order in "rc")


def kinds(subset):
    return _CI if subset == "ci" else _FULL


def probe(function):
    PROBES[function.__name__] = function
    return function


_NUMPY_ORDER = {"r": "C", "c": "F"}


class Probe:
    """Makes products of one kind and names the checks on them."""

    def __init__(self, client, device, name, kind):
        self.client = client
        self.device = device
        self.kind = kind
        self.dtype = fills.TYPES[kind.input]
        self.order = _NUMPY_ORDER[kind.order]
        self._name = name

    def name(self, what=""):
        return f"{self._name} {self.kind}" + (f" {what}" if what else "")

    def a(self, values):
        return self._array(values, self.kind.layout[0])

    def b(self, values):
        return self._array(values, self.kind.layout[1])

    def c(self, values, dtype=fills.F32):
        return self._array(values, self.kind.order, dtype)

    def tensor(self, array):
        return self.client.tensor(array, device=self.device)

    def multiply(self, a, b, **options):
        if "out" not in options:
            options.setdefault("out_order", self.order)
        return self.client.matmul(a, b, device=self.device, **options)

    def multiply_naming_c(self, a, b, c):
        """A B for a request that names C, an Inline or a Tensor, with
        beta = 0; the client itself would leave C out."""
        call = product.Call(a, b, out_dtype=fills.F32, out_order=self.order,
                            device=self.device)
        data = matrices.set_source(call.header, "c", c)
        _, d = self.client.execute(
            call.header, call.buffers["a"], call.buffers["b"], data)
        return call.result("d", d)

    def exact(self, shape):
        """(A, B, C) of the exact fill; C in float32."""
        a, b, c = fills.exact(shape, self.dtype)
        return self.a(a), self.b(b), self.c(c)

    def equal(self, what, actual, expected):
        return results.equal(self.name(what), np.asarray(actual),
                             np.asarray(expected).astype(actual.dtype))

    def same_bits(self, what, actual, expected):
        return results.same_bits(self.name(what), actual, expected)

    def _array(self, values, order, dtype=None):
        return np.array(values, dtype=dtype or self.dtype,
                        order=_NUMPY_ORDER[order])
