"""Random products: of every arithmetic, layout, type and order of D, epilogue,
batch, pitch and kind of data. Pure functions of a seed.

A seed has families of products, which share kernels; product number i is of
family i mod their count. A family has a few shapes, and draws stay so near to
one of them that they need the same kernel: however many products there are, a
family takes about three.
"""

import itertools
import math
from typing import NamedTuple, Optional

import numpy as np

from . import elements, forms, quantized, requests
from . import sparse as sparse_lines
from .shapes import Shape

_SIDES = (1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40, 56, 63, 64, 65, 72, 96,
          104, 127, 128, 129, 136, 200, 260)
# Small results have small tiles; these have others.
_BROAD_SIDES = (100, 250, 400, 520, 700, 1000, 1500, 2100)
_BROAD_ELEMENTS = 700_000
_DEPTHS = (1, 3, 8, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 127, 128,
           129, 192, 255, 256, 300)
# Elements in a stage of k, 128 bytes; within one, k changes no kernel.
_STAGE = {"bf16": 64, "f16": 64, "f32": 32, "b1": 1024}
# Of a k that is split, in stages.
_LONG = (17, 40)
# Products of the least and greatest integers that pass 2^31.
_OVERFLOW_K = 140_000
_SHAPES_OF_A_FAMILY = 3  # The first is often long, the last often broad.
_EXTENTS = ("none", "tensor", "vector")
_ACTIVATIONS = ("", "relu", "relu", "gelu_erf", "gelu_tanh", "silu")
_SCALARS = (-1.0, 0.5, 2.0, -0.37, 1.7e-3, 3e5, 2.0 ** -149, 1e-40, -3e38)
_NOT_FINITE = (math.inf, -math.inf, math.nan)
# Of draws with a scalar or a value of the epilogue that is not finite.
_ODD_SHARE = 0.06


def _stage(form):
    return 64 if form.weights else _STAGE.get(form.a, 128)


class Family(NamedTuple):
    form: str
    layout: str
    order: str
    output: str
    c_type: str  # Empty: C is not read.
    scales: bool  # alpha is not one.
    a_scale: str  # One of _EXTENTS, or "block".
    b_scale: str
    bias: str  # "", "row" or "column".
    activation: str
    auxiliary: bool
    amax: bool
    d_scale: bool
    invariant: bool
    empties: bool  # Some draws read neither A nor B.
    shapes: tuple  # (Shape, batch or None).


class Draw(NamedTuple):
    name: str
    product: requests.Product
    # In the tensor that is C, which has D's type and layout.
    in_place: bool


def _pick(generator, values):
    return values[generator.integers(len(values))]


def _chance(generator, share):
    return generator.random() < share


def _shape(generator, form, number):
    m, n = _pick(generator, _SIDES), _pick(generator, _SIDES)
    stage = _stage(form)
    kind = generator.random()
    if number == _SHAPES_OF_A_FAMILY - 1 and kind < 0.7:
        m = int(_pick(generator, _BROAD_SIDES))
        fitting = [n for n in _BROAD_SIDES if m * n <= _BROAD_ELEMENTS]
        n = int(_pick(generator, fitting[-4:]))
        if kind < 0.05:
            m, n = generator.integers(1500, 2600, 2)
        return Shape(int(m), int(n), int(generator.integers(1, 3 * stage))
                     ), None
    if number == 0 and kind < 0.7:
        m, n = min(m, 72), min(n, 72)
        k = int(generator.integers(*_LONG)) * stage
        if form.name == "f32":
            k //= 4
    elif form.sums == "s32" and form.a != "b1" and kind > 0.9:
        m, n, k = min(m, 9), min(n, 9), _OVERFLOW_K
    else:
        k = _pick(generator, _DEPTHS) * (8 if form.a == "b1" else 1)
    batch = None
    if _chance(generator, 0.3):
        batch = int(_pick(generator, (0, 1, 2, 3, 4, 5)))
        m, n, k = min(m, 72), min(n, 72), min(k, 40 * stage)
    return Shape(int(m), int(n), int(k)), batch


def _steps(generator, form):
    """Those of the epilogue in f32."""
    made = {"a_scale": "none", "b_scale": "none", "bias": "",
            "activation": "", "auxiliary": False, "amax": False,
            "d_scale": False}
    if form.promotes and _chance(generator, 0.35) and not form.sparse:
        made.update(a_scale="block", b_scale="block")
    if _chance(generator, 0.4):
        return made
    if made["a_scale"] == "none":
        made["a_scale"] = _pick(generator, _EXTENTS)
        made["b_scale"] = _pick(generator, _EXTENTS)
    made["bias"] = _pick(generator, ("", "row", "column"))
    made["activation"] = _pick(generator, _ACTIVATIONS)
    for name in ("auxiliary", "amax", "d_scale"):
        made[name] = _chance(generator, 0.4)
    return made


_WITH_WEIGHTS = (*forms.MIXED.values(), *forms.QUANTIZED.values())


def _form(number):
    """Every dense one, then as many with a sparse A or B or with weights, and
    so on."""
    turn, place = divmod(number, len(forms.DENSE))
    form = list(forms.DENSE.values())[place]
    if turn % 2 == 0:
        return form
    turn //= 2
    if (turn + place) % 2:
        # A step without a common divisor meets all.
        step = 37 * (turn * len(forms.DENSE) + place)
        return _WITH_WEIGHTS[step % len(_WITH_WEIGHTS)]
    side = "ab"[(turn + place) // 2 % 2]
    return next((sparse for sparse in forms.SPARSE.values()
                 if (sparse.dense, sparse.sparse) == (form.name, side)), form)


def family(seed, number):
    generator = np.random.default_rng([seed, number])
    form = _form(number)
    output = _pick(generator, form.outputs)
    c_type = output if _chance(generator, 0.45) else ""
    if c_type and output not in ("s32", "f32") and _chance(generator, 0.35):
        c_type = "f32"
    steps = _steps(generator, form)
    if output == "s32":
        steps = {name: type(value)() if name not in ("a_scale", "b_scale")
                 else "none" for name, value in steps.items()}
    return Family(
        form.name, form.legal(_pick(generator, ("rr", "rc", "cr", "cc"))),
        _pick(generator, "rc"), output, c_type,
        output != "s32" and _chance(generator, 0.5), **steps,
        invariant=_chance(generator, 0.1), empties=_chance(generator, 0.15),
        shapes=tuple(_shape(generator, form, i)
                     for i in range(_SHAPES_OF_A_FAMILY)))


def _smaller(generator, size, step):
    """As large as `size` in whole steps, and no larger."""
    return size - int(generator.integers((size - 1) % step + 1))


class _Maker:
    """The parts of one draw."""

    def __init__(self, family_, generator):
        self._family = family_
        self._form = forms.FORMS[family_.form]._replace(free=True)
        self._generator = generator
        shape, self.batch = _pick(generator, family_.shapes)
        stage = _stage(self._form)
        self.shape = Shape(_smaller(generator, shape.m, 8),
                           _smaller(generator, shape.n, 8),
                           self._form.depth(_smaller(generator, shape.k,
                                                     min(stage, 16))))
        self.empty = ""
        if family_.empties and _chance(generator, 0.2):
            self.empty = "k"
            self.shape = self.shape._replace(k=0)
            if family_.scales and _chance(generator, 0.5):
                self.empty = "alpha"
                self.shape = self.shape._replace(
                    k=self._form.depth(shape.k))
        self.kind = _pick(generator, elements.kinds(self._form))
        self.odd = _chance(generator, _ODD_SHARE)

    def operand(self, name, rows, columns, order, kind, shares, side=""):
        """(array, elements between lines, batch stride or None). `shares`: one
        matrix may serve the whole batch. `side`: it is A ("a") or B."""
        generator = self._generator
        padding = int(_pick(generator, (0, 0, 1, 3, 5, 8)))
        lines, width = (rows, columns) if order == "r" else (columns, rows)
        stride = None

        def values(size):
            made = elements.values(generator, name, kind, size)
            return (sparse_lines.keep(made, name, generator)
                    if side and side == self._form.sparse else made)
        if self.batch in (None, 0) or 0 in (lines, width) or (
                shares and _chance(generator, 0.25)):
            whole = (lines, width)
            if self.batch is not None and (not shares or self.batch == 0
                                           or 0 in (lines, width)):
                whole = (self.batch, lines, width)
            array = values(whole)
        else:
            pitch = width + padding
            how = _pick(generator, ("tight", "tight", "apart", "overlap"))
            if (how == "tight" or side and side == self._form.along_k
                    or name in ("b1", *quantized.FOUR_BITS)):
                array = values((self.batch, lines, width))
            else:
                stride = lines * pitch + int(generator.integers(1, 20))
                if how == "overlap":
                    stride = int(generator.integers(1, lines * pitch + 1))
                flat = values(stride * (self.batch - 1) + lines * pitch)
                array = requests.strided(flat, (self.batch, lines, width),
                                         (stride, pitch, 1))
        return (array if order == "r" else array.swapaxes(-1, -2), padding,
                stride)

    def scalar(self):
        if self.odd and _chance(self._generator, 0.5):
            return float(_pick(self._generator, _NOT_FINITE))
        if _chance(self._generator, 0.4):
            return float(np.float32(_pick(self._generator, _SCALARS)))
        return float(np.float32(self._generator.standard_normal()))

    def scalars(self):
        """alpha and beta."""
        alpha, beta = 1.0, 1.0
        if self.empty == "alpha":
            alpha = _pick(self._generator, (0.0, -0.0))
        elif self._family.scales:
            alpha = self.scalar()
        if self._family.output != "s32" and _chance(self._generator, 0.7):
            beta = self.scalar() or 1.0
        return alpha, beta if self._family.c_type else 0.0

    def factors(self, size):
        made = np.exp(self._generator.standard_normal(size)).astype(np.float32)
        if self.odd and np.size(made):
            odd = np.float32(_pick(self._generator, (
                0.0, -0.0, 1e-42, -1e30, *_NOT_FINITE)))
            if made.ndim == 0:
                return np.full((), odd)
            made.flat[self._generator.integers(made.size)] = odd
        return made

    def epilogue(self):
        m, n, k = self.shape
        family_ = self._family
        blocks = -(-k // 128)
        sizes = {"tensor": ((), ()), "vector": (m, n),
                 "block": ((m, blocks), (blocks, -(-n // 128)))}
        made = {}
        for side, name in enumerate(("a_scale", "b_scale")):
            extent = getattr(family_, name)
            if extent != "none":
                made[name] = self.factors(sizes[extent][side])
        if family_.bias:
            size = (m, 1) if family_.bias == "row" else n
            made["bias"] = np.float32(4) * self._generator.standard_normal(
                size, np.float32)
        if family_.d_scale:
            # Of a value that is off by a bit, an infinite one may make
            # anything.
            known = family_.activation in ("", "relu")
            made["d_scale"] = (self.factors(()) if known else
                               np.float32(self._generator.uniform(0.1, 3)))
        return requests.Epilogue(activation=family_.activation,
                                 auxiliary=family_.auxiliary,
                                 amax=family_.amax, **made)


def draw(seed, families, index) -> Draw:
    """Product number `index`."""
    own = family(seed, index % families)
    form = forms.FORMS[own.form]._replace(free=True)
    generator = np.random.default_rng([seed, index, 1])
    maker = _Maker(own, generator)
    m, n, k = maker.shape
    a, a_padding, a_stride = maker.operand(form.a, m, k, own.layout[0],
                                           maker.kind, True, "a")
    b, b_padding, b_stride = maker.operand(form.b, k, n, own.layout[1],
                                           elements.partner(maker.kind), True,
                                           "b")
    alpha, beta = maker.scalars()
    c, c_padding, c_stride = None, 0, None
    if own.c_type:
        kind = _pick(generator, ("normal",) * 4 + ("special", "subnormal"))
        c, c_padding, c_stride = maker.operand(own.c_type, m, n, own.order,
                                               kind, False)
    in_place = (maker.batch is None and own.c_type == own.output and m > 0
                and n > 0 and _chance(generator, 0.15))
    padding = (a_padding, b_padding, c_padding, int(generator.integers(4)))
    product = requests.Product(
        form, a, b, own.output, c=c, c_type=own.c_type, layout=own.layout,
        order=own.order, alpha=alpha, beta=beta, batch=maker.batch,
        padding=padding, epilogue=maker.epilogue(), invariant=own.invariant,
        strides=(a_stride, b_stride, c_stride))
    batch = "" if maker.batch is None else f" batch={maker.batch}"
    name = (f"random {seed}:{index} {form.name} {own.layout}{own.order} "
            f"{own.output} {m}x{n}x{k}{batch} {maker.kind}")
    return Draw(name, product, in_place)


def of_family(families, number, count) -> list[int]:
    """Which of `count` products are of that family."""
    return list(itertools.islice(range(number, count, families), None))


def label(product) -> Optional[str]:
    """What a name leaves out."""
    epilogue = product.epilogue
    words = [f"alpha={product.alpha:g}", f"beta={product.beta:g}",
             f"padding={product.padding}", f"strides={product.strides}"]
    words += [f"{name}{np.shape(value)}" for name, value in
              epilogue._asdict().items() if value is not None
              and value is not False and not isinstance(value, str)]
    return " ".join(words + [epilogue.activation]).strip()
