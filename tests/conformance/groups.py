"""Probes of products of several sizes in one call."""

from . import form_fills, forms, requests
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
