"""Writes vectors.txt: sums as the tensor core makes them, by the arithmetic
of tests/conformance/tensor_core.py.

    PYTHONPATH=tests:clients/python:build/release/python \
      build/venv/bin/python tests/service/host/hopper/make_vectors.py
"""

import pathlib

import numpy as np
from conformance import form_fills, forms, tensor_core
from conformance.shapes import Shape

_FORMS = ("bf16", "f16", "f16-f16", "tf32", "e4m3-fast", "e5m2-e4m3-fast",
          "e4m3-e5m2-fast", "e5m2-fast", "e4m3", "e5m2-e4m3")
_HEAD = """\
# What Hopper's tensor core makes of a row of A and a column of B: name of the
# arithmetic, bytes of both as they lie in memory, bits of the sum as f32.
# Made by make_vectors.py, whose arithmetic an H200 confirmed bit for bit.
"""


def _depths(form):
    """Within one instruction, over several, and over promotions."""
    if form.promotes:
        return (40, 300)
    step = 256 // (8 * forms.TYPES[form.a].itemsize)
    return (step // 2 + 1, 3 * step + 1)


def _tiny(form, shape):
    """Numbers around the smallest normal one of the type."""
    generator = np.random.default_rng(shape)
    m, n, k = shape
    least = -14 if form.a == "f16" else -70  # Products near the end of f32.
    return [forms.round_to(
        generator.standard_normal(size)
        * np.exp2(generator.integers(least - 9, least + 9, size)), form.a)
        for size in ((m, k), (k, n))]


def _line(form, a, b):
    total = tensor_core.sums(form, a, b).astype(np.float32)[0, 0]
    bits = (total + np.float32(0)).view(np.uint32)
    return (f"{form.name} {a.tobytes().hex()} "
            f"{np.ascontiguousarray(b).tobytes().hex()} {bits:08x}\n")


def main():
    with open(pathlib.Path(__file__).with_name("vectors.txt"), "w",
              encoding="ascii") as file:
        file.write(_HEAD)
        for name in _FORMS:
            form = forms.FORMS[name]
            for k in _depths(form):
                for number, kind in enumerate(form_fills.RANDOM):
                    for repeat in (0, 1):
                        a, b = form_fills.random(
                            form, Shape(1, 1, k + repeat), kind)
                        file.write(_line(form, a, b))
                if form.a in ("bf16", "f16"):
                    file.write(_line(form, *_tiny(form, Shape(1, 1, k))))


if __name__ == "__main__":
    main()
