"""Probes of what single forms promise: every byte, promotion, rounding of
inputs, the type of the sum, its ends, the epilogue, batches. Each is a
function (Bench) -> Results, run for the forms that it names."""

import itertools
import math

import gemmd
import numpy as np

from . import form_fills, forms, quantized, requests, results
from .shapes import Shape

PROBES = {}
_F32 = np.float32


def probe(*names):
    def register(function):
        PROBES[function.__name__] = (function, names)
        return function
    return register


class Bench:
    """Multiplies in one form and names the checks."""

    def __init__(self, target, device, form, name, subset):
        self.target = target
        self.device = device
        self.form = forms.FORMS[form]
        self._probe = name
        self.full = subset == "full"

    @property
    def on_tensor_core(self):
        return self.device.startswith("cuda")

    def name(self, what=""):
        return f"{self._probe} {self.form.name}" + (f" {what}" if what else "")

    def a(self, values):
        return np.asarray(values).astype(forms.TYPES[self.form.a])

    def b(self, values):
        return np.asarray(values).astype(forms.TYPES[self.form.b])

    def answer(self, a, b, output, layout="rr", **more):
        return requests.multiply(
            self.target, self.device,
            requests.Product(self.form, a, b, output,
                             layout=self.form.legal(layout), **more))

    def groups(self, products):
        return requests.multiply_groups(self.target, self.device, products)

    def multiply(self, a, b, output, **more):
        return self.answer(a, b, output, **more).d

    def equal(self, what, actual, expected):
        return results.equal(self.name(what), actual,
                             np.asarray(expected).astype(actual.dtype))

    def refused(self, what, call, *words):
        """Whether `call` is, with all the words in the text."""
        try:
            call()
        except (requests.Refused, gemmd.Error) as error:
            text = str(error)
            missing = [word for word in words if word not in text]
            wrong = ("" if "INVALID_ARGUMENT" in text and not missing else
                     f"{text}; expected INVALID_ARGUMENT with {missing}")
        else:
            wrong = "accepted; expected INVALID_ARGUMENT"
        return (results.failed(self.name(what), wrong) if wrong else
                results.Result(self.name(what)))

    def within(self, what, actual, expected, bound):
        return results.within(self.name(what), actual, expected, bound)


_EIGHT_BITS = [name for name, form in forms.DENSE.items()
               if form.a not in ("bf16", "f16", "f32", "b1")]
_FP8 = [name for name in _EIGHT_BITS if forms.FORMS[name].a in forms.FP8]
_INTEGERS = [name for name in _EIGHT_BITS if name not in _FP8]


@probe(*_EIGHT_BITS)
def every_pair_of_bytes(p):
    """256 x 256 products of one step: each byte against each."""
    codes = np.arange(256, dtype=np.uint8)
    a = codes.view(forms.TYPES[p.form.a])[:, None]
    b = codes.view(forms.TYPES[p.form.b])[None, :]
    output = "s32" if p.form.sums == "s32" else "f32"
    with np.errstate(all="ignore"):
        expected = a.astype(float) * b.astype(float)
        if p.form.sums == "f16":
            expected = expected.astype(np.float16)
    for layout in ("rr", "cc"):
        yield p.equal(layout, p.multiply(a, b, output, layout=layout),
                      expected)


@probe("e4m3", "e5m2", "e4m3-e5m2", "e5m2-e4m3")
def small_terms_survive_promotion(p):
    """256 at one end of k, 2^-6 at the other: the tensor core alone keeps
    fourteen bits, 256 + 2^-6 needs fifteen."""
    k = 4096
    for first, last in ((16, 2.0 ** -3), (2.0 ** -3, 16)):
        a = np.zeros((3, k))
        a[:, 0], a[:, -1] = first, last
        b = p.b(a.T[:, :2])
        yield p.equal(f"{first:g} first", p.multiply(p.a(a), b, "f32"),
                      np.full((3, 2), 256 + 2.0 ** -6))
    k = 1 << 20
    ones = p.multiply(p.a(np.ones((1, k))), p.b(np.ones((k, 8))), "f32")
    yield p.equal("2^20 ones", ones, np.full((1, 8), k))


@probe("tf32", "tf32-fast")
def inputs_become_tf32(p):
    """Values at, just below and just above the middle of two neighbours."""
    step = 2.0 ** -10
    base = 1 + step * np.arange(4)
    offsets = np.array([0, step / 2 - 2.0 ** -23, step / 2 + 2.0 ** -23,
                        step - 2.0 ** -23])
    values = np.concatenate([(base[:, None] + offsets).ravel()] * 2)
    values[values.size // 2:] *= -1
    values = values.astype(_F32)[:, None]
    one = np.ones((1, 8), _F32)
    expected = np.repeat(p.form.read("a", values), 8, 1)
    yield p.equal("of A", p.multiply(values, one, "f32"), expected)
    yield p.equal("of B", p.multiply(one.T, values.T, "f32"), expected.T)
    # A tie may go either way, but always the same.
    tie = np.full((1, 1), 1 + step / 2, _F32)
    found = float(p.multiply(tie, one, "f32")[0, 0])
    allowed = (1.0, 1 + step) if p.form.name == "tf32" else (1.0,)
    yield (results.Result(p.name("tie")) if found in allowed else
           results.failed(p.name("tie"), f"{found}; allowed: {allowed}"))
    special_values = np.array([[np.inf], [-np.inf], [np.nan]], _F32)
    yield p.equal("not finite", p.multiply(special_values, one, "f32"),
                  np.repeat(special_values, 8, 1))


@probe("f32")
def f32_counts_in_full(p):
    generator = np.random.default_rng(7)
    for k in (1, 2, 5, 16, 100, 1000):
        for kind in ("normal", "positive"):
            a, b = form_fills.random(p.form, Shape(67, 40, k), kind)
            expected = forms.sums(p.form, a, b)
            yield p.within(f"{kind} k={k}", p.multiply(a, b, "f32"), expected,
                           forms.result_bound(expected, forms.sum_bound(
                               p.form, a, b), "f32"))
    # All 24 bits of both factors matter.
    a = (generator.integers(1 << 23, 1 << 24, (64, 1)) / 2.0 ** 23)
    a = a.astype(_F32)
    one = np.ones((1, 8), _F32)
    exact = np.repeat(a.astype(float), 8, 1)
    yield p.within("times one", p.multiply(a, one, "f32"), exact,
                   2.0 ** -23 * exact)
    values = np.array([[np.inf], [-np.inf], [np.nan], [0.0], [-3.4e38],
                       [3.4028235e38]], _F32)
    # Six products of terms: infinity times a term that is zero is NaN.
    ends = np.array(p.multiply(values, one, "f32"))
    ends[:2] = np.where(np.isnan(ends[:2]), values[:2], ends[:2])
    yield p.equal("ends", ends, np.repeat(values, 8, 1))


@probe("f16-f16", "f16")
def the_type_of_the_sum_shows(p):
    """Partial sums that leave f16; then one that f16 cannot hold exactly."""
    k = 64
    a = np.full((66, k), 65280.0)
    b = np.tile([[2.0], [-2.0]], (k // 2, 9))
    # All positive first: 2 * 65280 is beyond f16 whatever is added at once.
    b = np.sort(b, axis=0)[::-1]
    d = p.multiply(p.a(a), p.b(b), "f32")
    if p.form.sums == "f32":
        yield p.equal("large partial sums", d, np.zeros((66, 9)))
    else:
        lost = ~np.isfinite(d.astype(float))
        yield (results.Result(p.name("large partial sums")) if lost.all() else
               results.failed(p.name("large partial sums"),
                              f"{(~lost).sum()} results are finite"))
    a, b = np.zeros((1, 32)), np.ones((32, 8))
    a[0, 0], a[0, 16] = 2048, 1
    expected = 2049 if p.form.sums == "f32" else 2048
    yield p.equal("2048 + 1", p.multiply(p.a(a), p.b(b), "f32"),
                  np.full((1, 8), expected))


@probe(*_INTEGERS)
def sums_at_the_ends_of_s32(p):
    """2^17 products of 2^14 (u8: 255^2) pass 2^31."""
    extremes = {"s8": -128, "u8": 255}
    a_value, b_value = extremes[p.form.a], extremes[p.form.b]
    least = -(-2 ** 31 // abs(a_value * b_value))
    for k in (least - 1, least, least + 1):
        a = p.a(np.full((3, k), a_value))
        b = p.b(np.full((k, 8), b_value))
        exact = k * a_value * b_value
        limits = np.iinfo(np.int32)
        expected = (min(max(exact, limits.min), limits.max)
                    if p.form.saturate else
                    (exact + 2 ** 31) % 2 ** 32 - 2 ** 31)
        yield p.equal(f"k={k}", p.multiply(a, b, "s32"),
                      np.full((3, 8), expected))
    c = np.full((3, 8), 2 ** 31 - 2, np.int32)
    a, b = np.zeros((3, 40)), np.zeros((40, 8))
    a[:, 39], b[39] = 2, 3
    expected = 2 ** 31 - 1 if p.form.saturate else -2 ** 31 + 4
    yield p.equal("with C", p.multiply(p.a(a), p.b(b), "s32", c=c, beta=1),
                  np.full((3, 8), expected))


@probe("b1", "b1-xor")
def any_depth_in_bits(p):
    """Every k up to 300 with slack bits and padding of ones."""
    depths = range(1, 300) if p.full else (1, 7, 8, 9, 127, 129, 255, 257)
    for k in depths:
        a, b = form_fills.exact(p.form, Shape(9, 17, k))
        for layout in (("rc", "rr", "cr", "cc")[k % 4],):
            d = p.multiply(a, b, "s32", layout=layout, padding=(1, 2, 0, 0))
            yield p.equal(f"k={k} {layout}", d, forms.sums(p.form, a, b))


_ERF = np.vectorize(math.erf, otypes=[float])


def _sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _apply(activation, x):
    return {"": lambda: x,
            "relu": lambda: np.maximum(x, 0),
            "gelu_erf": lambda: x / 2 * (1 + _ERF(x / 2 ** 0.5)),
            "gelu_tanh": lambda: x * _sigmoid(2 * np.sqrt(2 / np.pi) * (
                x + 0.044715 * x ** 3)),
            "silu": lambda: x * _sigmoid(x)}[activation]()


_STEPS = ("a_scale", "b_scale", "beta", "bias", "activation", "d_scale")


def _powers(generator, size):
    return np.exp2(generator.integers(-2, 3, size)).astype(_F32)


def _epilogue(which, shape, activation, by_row, outputs):
    """An Epilogue with the steps in `which`, exact on integers; `outputs`:
    with the auxiliary one and amax."""
    generator = np.random.default_rng([*shape, len(which)])
    m, n, _ = shape
    made = {}
    if "a_scale" in which:
        made["a_scale"] = _powers(generator, m if by_row else ())
    if "b_scale" in which:
        made["b_scale"] = _powers(generator, n if by_row else ())
    if "bias" in which:
        size = (m, 1) if by_row else n
        made["bias"] = generator.integers(-9, 10, size).astype(_F32)
    if "d_scale" in which:
        made["d_scale"] = 0.5
    if "activation" in which:
        made["activation"] = activation
    return requests.Epilogue(auxiliary=outputs, amax=outputs, **made)


def _expected(p, a, b, c, beta, alpha, epilogue):
    """(auxiliary, D before d_scale) in float64."""
    x = alpha * forms.sums(p.form, a, b)
    if epilogue.a_scale is not None:
        x = x * np.reshape(epilogue.a_scale, (-1, 1)).astype(float)
    if epilogue.b_scale is not None:
        x = x * np.reshape(epilogue.b_scale, (1, -1)).astype(float)
    if beta:
        x = x + beta * c.astype(float)
    if epilogue.bias is not None:
        x = x + epilogue.bias.astype(float)
    return x, _apply(epilogue.activation, x)


# Forms whose epilogues take sums in f32, promoted sums and sums in s32; the
# others share their code and take each set of steps once.
_EVERY_STEP = ("bf16", "e4m3", "s8")


def _step_cases(p, sets):
    """(set, type of D, values by row, order of D)."""
    outputs = [o for o in p.form.outputs if o != "s32"]
    every = list(itertools.product(outputs, (True, False), "rc"))
    if not p.full:
        return [(sets[6], outputs[0], by_row, "r") for by_row in (True, False)]
    if p.form.name in _EVERY_STEP:
        return [(which, *case) for which in sets for case in every]
    return [(which, *every[3 * number % len(every)])
            for number, which in enumerate(sets)]


@probe(*forms.FORMS)
def steps_of_the_epilogue(p):
    """Each step alone, all together, all but one; exact where there is no
    transcendental function, in every type of D, order, and layout."""
    sets = [(step,) for step in _STEPS] + [_STEPS]
    sets += [tuple(s for s in _STEPS if s != gone) for gone in _STEPS]
    layouts = ("rc", "cr", "rr", "cc")
    activations = ("relu", "gelu_erf", "gelu_tanh", "silu")
    shape = Shape(130, 71, 40)
    a, b = form_fills.exact(p.form, shape)
    for number, (which, output, by_row, order) in enumerate(
            _step_cases(p, sets)):
        activation = activations[number % 4]
        outputs = number % 2 == 0
        epilogue = _epilogue(which, shape, activation, by_row, outputs)
        beta = 2.0 if "beta" in which else 0.0
        c = form_fills.exact_c(p.form, shape).astype(_F32)
        answer = p.answer(
            a, b, output, c=c, c_type="f32", beta=beta, alpha=0.5,
            order=order, layout=layouts[number % 4], epilogue=epilogue)
        x, y = _expected(p, a, b, c, beta, 0.5, epilogue)
        label = f"{'+'.join(which)} {activation} {output} {order}" + (
            " rows" if by_row else "")
        if outputs:
            yield p.equal(f"auxiliary {label}", answer.auxiliary,
                          forms.round_to(x, output))
        scaled = y * (epilogue.d_scale or 1)
        if "activation" not in which or activation == "relu":
            yield p.equal(f"D {label}", answer.d,
                          forms.round_to(scaled, output))
            if outputs:
                yield p.equal(f"amax {label}",
                              np.array([[answer.amax]], _F32),
                              [[np.abs(y).max()]])
            continue
        error = 2.0 ** -20 * np.abs(x) + 2.0 ** -24
        clipped = forms.clip(scaled, output)
        yield p.within(f"D {label}", answer.d, clipped,
                       forms.result_bound(clipped, error, output))
        if outputs:
            amax = np.abs(y).max()
            yield p.within(f"amax {label}", np.array([[answer.amax]]),
                           np.array([[amax]]), np.array([[2.0 ** -20 * amax]]))


@probe("e4m3", "e5m2", "e4m3-e5m2", "e5m2-e4m3")
def scales_by_block(p):
    for shape in (Shape(70, 200, 300), Shape(1, 129, 128), Shape(130, 64, 1)):
        m, n, k = shape
        a, b = form_fills.exact(p.form, shape)
        generator = np.random.default_rng(shape)
        blocks, n_blocks = -(-k // 128), -(-n // 128)
        a_scale = _powers(generator, (m, blocks))
        b_scale = _powers(generator, (blocks, n_blocks))
        expected = np.zeros((m, n))
        for block in range(blocks):
            step = slice(128 * block, 128 * block + 128)
            part = a[:, step].astype(float) @ b[step].astype(float)
            expected += part * a_scale[:, block:block + 1] * np.repeat(
                b_scale[block], 128)[None, :n]
        for layout in ("rc", "rr", "cc", "cr"):
            d = p.multiply(a, b, "f32", layout=layout,
                           epilogue=requests.Epilogue(a_scale, b_scale))
            yield p.equal(f"{shape} {layout}", d, expected)


@probe(*forms.FORMS)
def batches(p):
    """One, two, many and no products; one operand for all of them."""
    output = "s32" if p.form.sums == "s32" else "f32"
    counts = (0, 1, 2, 5) + ((1000,) if p.full else ())
    for number, count in enumerate(counts):
        shape = Shape(9, 17, 24) if count > 5 else Shape(70, 40, 72)
        layout = ("rr", "rc", "cr", "cc")[number % 4]
        tall = Shape(shape.m * max(count, 1), shape.n * max(count, 1), shape.k)
        a, b = form_fills.exact(p.form, tall)
        a = a[:shape.m * count].reshape(count, shape.m, shape.k)
        b = np.moveaxis(b[:, :shape.n * count].reshape(
            shape.k, count, shape.n), 1, 0)
        for one in (("",) if not count else ("", "a", "b")):
            left, right = (a[0] if one == "a" else a), (
                b[0] if one == "b" else b)
            d = p.multiply(left, right, output, layout=layout, batch=count)
            expected = np.stack([forms.sums(
                p.form, left if one == "a" else left[i],
                right if one == "b" else right[i]) for i in range(count)]
                ) if count else np.zeros((0, shape.m, shape.n))
            yield p.equal(f"{count} {layout}" + (f" one {one}" if one else ""),
                          d.reshape(-1, shape.n),
                          expected.reshape(-1, shape.n))


@probe(*forms.FORMS)
def rows_are_invariant(p):
    """The first rows of a tall product are those of a short one, bit for
    bit."""
    output = "s32" if p.form.sums == "s32" else "f32"
    a, b = form_fills.exact(p.form, Shape(300, 64, 4096))
    if p.form.sums != "s32":
        a, b = form_fills.random(p.form, Shape(300, 64, 4096), "normal")
    whole = p.multiply(a, b, output, invariant=True)
    for rows in (1, 16, 64, 129):
        part = p.multiply(a[:rows], b, output, invariant=True)
        yield results.same_bits(p.name(f"m={rows}"), part, whole[:rows])


@probe(*forms.FORMS)
def what_is_not_read_does_not_count(p):
    """k or alpha of 0 with scalars that are not finite; NaN in an unread C."""
    if p.form.sums == "s32":
        return
    shape = Shape(70, 40, 24)
    a, b = form_fills.exact(p.form, shape)
    c = np.full((70, 40), np.nan, _F32)
    yield p.equal("beta = 0", p.multiply(a, b, "f32", c=c),
                  forms.sums(p.form, a, b))
    c = form_fills.exact_c(p.form, shape).astype(_F32)
    for alpha in (np.inf, -np.inf, np.nan, -1.0):
        d = p.multiply(a[:, :0], b[:0], "f32", c=c, beta=2, alpha=alpha)
        yield p.equal(f"k = 0, alpha {alpha}", d, 2 * c)
    if p.form.a in (*forms.INTEGERS, *quantized.FOUR_BITS):
        b = p.b(np.full((24, 40), np.nan))
    else:
        nan = np.full((70, 24), np.nan)
        if p.form.sparse == "a":
            nan[:, ::2] = 0
        a = p.a(nan)
    yield p.equal("alpha = 0", p.multiply(a, b, "f32", c=c, beta=1, alpha=0),
                  c)
