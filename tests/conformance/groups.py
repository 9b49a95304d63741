"""Probes of products of several sizes in one call."""

import numpy as np

from . import form_fills, forms, requests, results
from .form_probes import probe
from .shapes import Shape

# Of the experts of a mixture, few rows each and many none; and of any kind.
_MIXTURE = [Shape(m, 72, 128) for m in (0, 1, 2, 0, 3, 130, 0, 64)]
_ANY = [Shape(70, 67, 136), Shape(0, 5, 9), Shape(1, 300, 1), Shape(33, 0, 7),
        Shape(129, 1, 255), Shape(9, 17, 0), Shape(1, 1, 1024)]
_LAYOUTS = ("rr", "rc", "cr", "cc")


@probe("bf16", "f16-f16", "f32", "e4m3", "u8-s8", "b1")
def groups(p):
    """Each is what it is alone, whatever is beside it, also nothing."""
    output = "s32" if p.form.sums == "s32" else "f32"
    for name, shapes in (("mixture", _MIXTURE), ("any", _ANY), ("none", []),
                         ("many", [Shape(1, 8, 16)] * 256)):
        products = []
        for number, shape in enumerate(shapes):
            a, b = form_fills.exact(p.form, shape)
            products.append(requests.Product(
                p.form, a, b, output, layout=_LAYOUTS[number % 4],
                order="rc"[number % 2]))
        answers = p.groups(products)
        for number, (made, answer) in enumerate(zip(products, answers)):
            yield p.equal(f"{name} {number}", answer.d,
                          forms.sums(p.form, made.a, made.b))


# More than a few, so that one launch makes all, of sizes that fill, straddle
# and miss tiles; long ones among short ones.
_TOGETHER = [Shape(m, n, k) for m, n, k in (
    (1, 8, 64), (130, 72, 128), (64, 64, 64), (5, 300, 1000), (257, 16, 8),
    (1, 1, 2048), (33, 129, 24), (128, 128, 128), (7, 9, 3000), (200, 40, 56),
    (3, 3, 16), (65, 65, 192))]


@probe("bf16", "f16", "f16-f16", "f32", "tf32", "e4m3", "e4m3-fast",
       "e5m2-e4m3", "s8", "u8-s8-clamp", "b1", "sparse-bf16", "sparse-s8",
       "tf32-sparse", "bf16-s4", "f16-s8/k", "bf16-s4/32z", "u4-bf16/64z")
def together(p):
    """One launch makes each as it is alone, with C and an epilogue too."""
    output = "s32" if p.form.sums == "s32" else "f32"
    layout = p.form.layouts[0]
    plain, finished = [], []
    for number, shape in enumerate(_TOGETHER):
        a, b = form_fills.exact(p.form, shape)
        made = requests.Product(p.form, a, b, output, layout=layout)
        plain.append(made)
        c = np.full((shape.m, shape.n), number, forms.TYPES[output])
        epilogue = requests.Epilogue()
        if output == "f32":
            epilogue = requests.Epilogue(
                bias=np.arange(shape.n, dtype=np.float32),
                activation="relu", auxiliary=True)
        scalars = {"beta": 1.0} if output == "s32" else {
            "alpha": 1.0 + number % 2, "beta": 2.0}
        finished.append(made._replace(c=c, epilogue=epilogue, **scalars))
    for number, (made, answer) in enumerate(zip(plain, p.groups(plain))):
        yield p.equal(f"{number}", answer.d,
                      forms.sums(p.form, made.a, made.b))
        grouped = answer.kernel.endswith("_grouped")
        yield (results.Result(p.name(f"launch of {number}")) if grouped else
               results.failed(p.name(f"launch of {number}"), answer.kernel))
    for number, (made, answer) in enumerate(zip(finished,
                                                p.groups(finished))):
        alone = requests.multiply(p.target, p.device, made)
        yield p.equal(f"finished {number}", answer.d, alone.d)
        if alone.auxiliary is not None:
            yield p.equal(f"auxiliary {number}", answer.auxiliary,
                          alone.auxiliary)
