"""Probes of what weights promise: every element in every place, what scales and
zero points move, what is refused, tensors. Lines of weights meet the unit
matrix, so that D shows them one by one."""

import contextlib

import gemmd
import numpy as np
from gemmd import api

from . import forms, quantized, requests, results
from .form_probes import probe

_QUANTIZED = tuple(forms.QUANTIZED)
_NAMES = (*forms.MIXED, *_QUANTIZED)
# Lengths of k around groups, parts of a stage, and stages.
_DEPTHS = (1, 2, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129, 193, 200, 257)


def _type(p):
    return getattr(p.form, p.form.weights)


def _wide(p):
    return forms.TYPES[p.form.multiplied]


class _Lines:
    """Lines of weights with a scale of 1 and a zero point of 0 for each
    group."""

    def __init__(self, p, elements):
        self.elements = np.asarray(elements)
        count = len(self.elements)
        self.k = self.elements.shape[1]
        self.groups = quantized.count(p.form.group, self.k) if (
            p.form.group) else 0
        self.scales = np.ones((count, self.groups), np.float32)
        self.zeros = np.zeros((count, self.groups), np.int8)

    def due(self, p):
        """What they stand for, in float64."""
        wide = self.elements.astype(np.float64)
        if not p.form.group:
            return wide
        zeros = self.zeros if p.form.zero_points else None
        return (quantized.centered(self.elements, p.form.group, zeros)
                * quantized.spread(self.scales.astype(np.float64),
                                   p.form.group, self.k))

    def bytes(self, p):
        if not p.form.group:
            return quantized.elements_bytes(self.elements).tobytes()
        return quantized.pack(self.elements, self.scales, self.zeros
                              if p.form.zero_points else None).tobytes()


def _made(p, lines, other, output="f32"):
    """The MatmulRequest of lines, along k, and of the other operand, k x n."""
    elements = lines.elements
    a, b = ((elements, other) if p.form.weights == "a" else
            (other.T, elements.T))
    request = requests.request(requests.Product(
        p.form, a, b, output, layout="rc"), p.device)
    setattr(request, p.form.weights, lines.bytes(p))
    return request


def _sent(p, request, output="f32"):
    """D as the product of the lines with the other operand."""
    problem = request.header.problem
    d = np.frombuffer(requests.send(p.target, request).d,
                      forms.TYPES[output]).reshape(problem.m, problem.n)
    return d if p.form.weights == "a" else d.T


def _shown(p, lines):
    """Each element as the product shows it."""
    unit = np.eye(lines.k).astype(_wide(p))
    return _sent(p, _made(p, lines, unit))


def _values(p):
    """Every element of the type that is finite."""
    dtype = forms.TYPES[_type(p)]
    if _type(p) in quantized.FOUR_BITS:
        least = -8 if _type(p) == "s4" else 0
        return np.arange(least, least + 16).astype(np.int8).astype(dtype)
    values = np.arange(256, dtype=np.uint8).view(dtype)
    return values[np.isfinite(values.astype(np.float64))]


def _every(p, count, k):
    """Lines that go through all elements, each from one on."""
    values = _values(p)
    places = np.add.outer(np.arange(count), np.arange(k)) % len(values)
    return _Lines(p, values[places])


@probe(*_NAMES)
def every_element_in_every_place(p):
    """Of a byte, a group, a stage."""
    count = len(_values(p))
    for k in (1, 137):
        lines = _every(p, count, k)
        yield p.equal(f"k={k}", _shown(p, lines), lines.due(p))


@probe(*[name for name in _QUANTIZED if forms.QUANTIZED[name].zero_points])
def every_zero_point(p):
    """-128 to 127, other ones in each group."""
    lines = _every(p, 256, 200)
    groups = np.arange(lines.groups)
    lines.zeros = (np.add.outer(np.arange(256), 37 * groups) % 256).astype(
        np.uint8).view(np.int8)
    yield p.equal("all", _shown(p, lines), lines.due(p))


@probe(*_QUANTIZED)
def each_scale_and_zero_point_has_its_elements(p):
    """One alone moves those of its group and line, wherever k ends."""
    for k in _DEPTHS:
        lines = _every(p, 3, k)
        for group in {0, lines.groups // 2, lines.groups - 1}:
            lines.scales[:] = 1
            lines.scales[1, group] = 2
            yield p.equal(f"scale {group} k={k}", _shown(p, lines),
                          lines.due(p))
            lines.scales[1, group] = 1
            if p.form.zero_points:
                lines.zeros[:] = 0
                lines.zeros[1, group] = -5
                yield p.equal(f"zero point {group} k={k}", _shown(p, lines),
                              lines.due(p))
        lines.scales = 2.0 ** (np.arange(3 * lines.groups) % 7 - 3).reshape(
            3, -1).astype(np.float32)
        yield p.equal(f"all k={k}", _shown(p, lines), lines.due(p))


@probe(*_QUANTIZED)
def scales_of_any_size(p):
    """Zero, negative, subnormal, near the ends of float32."""
    lines = _every(p, 9, 140)
    sizes = (0.0, -0.0, -1.5, 2.0 ** -149, 3 * 2.0 ** -140, 2.0 ** -126,
             2.0 ** 100, 3e38, 1 / 3)
    lines.scales[:] = np.array(sizes, np.float32)[:, None]
    with np.errstate(over="ignore"):
        due = lines.due(p).astype(np.float32)
    yield p.equal("one by one", _shown(p, lines), due)


@probe(*_NAMES)
def integers_are_multiplied_as_they_are(p):
    """With scales of one D has the bits of the dense product of what elements
    stand for."""
    dense = forms.FORMS[p.form.multiplied]
    generator = np.random.default_rng(11)
    for m, n, k in ((5, 8, 64), (70, 40, 300), (16, 130, 1031)):
        lines = _every(p, m, k)
        # Sums of e4m3 stay below 2^24 steps of its least number.
        if _type(p) == "e4m3":
            small = generator.integers(-15, 16, (m, k))
            lines = _Lines(p, small.astype(forms.E4M3))
        lines.zeros = generator.integers(-128, 128, lines.zeros.shape).astype(
            np.int8)
        other = generator.integers(-4, 5, (k, n)).astype(_wide(p))
        whole = lines.due(p).astype(_wide(p))
        a, b = ((whole, other) if p.form.weights == "a" else
                (other.T, whole.T))
        for output in ("f32", p.form.multiplied):
            due = requests.multiply(p.target, p.device, requests.Product(
                dense, a, b, output, layout="rc")).d
            found = _sent(p, _made(p, lines, other, output), output)
            yield results.same_bits(
                p.name(f"{m}x{n}x{k} {output}"), found,
                due if p.form.weights == "a" else due.T)


@probe(*_QUANTIZED)
def wrong_requests_are_refused(p):
    """Other groups, zero points that the type has not, lines that do not run
    along k, other lengths; and the next request is right."""
    side = p.form.weights
    lines = _every(p, 4, 130)
    other = (1 + np.add.outer(np.arange(130), np.arange(8)) % 7).astype(
        _wide(p))
    due = lines.due(p) @ other.astype(np.float64)

    def made():
        return _made(p, lines, other)
    yield p.equal("before", _sent(p, made()), due)
    good = lines.bytes(p)
    wrong = []
    for group in (-1, 1, 16, 48, 256, 1 << 20):
        request = made()
        request.header.problem.quantization.group = group
        wrong.append((f"group {group}", request, "problem.quantization.group "
                      f"is {group}", "allowed: 32, 64, 128, 0"))
    for what, data in (("short", good[:-1]), ("long", good + b"\0"),
                       ("none", b""),
                       ("plain", quantized.elements_bytes(
                           lines.elements).tobytes())):
        request = made()
        setattr(request, side, data)
        wrong.append((what, request, f"{side} has {len(data)} bytes",
                      f"allowed for its shape: {len(good)}"))
    turned = made()
    setattr(turned.header.problem, f"{side}_order",
            api.COLUMN_MAJOR if side == "a" else api.ROW_MAJOR)
    wrong.append(("order", turned, f"{side}_order", "run along k"))
    if _type(p) not in quantized.FOUR_BITS:
        request = made()
        request.header.problem.quantization.zero_points = True
        wrong.append(("zero points", request,
                      "problem.quantization.zero_points is true", "s4, u4"))
    request = made()
    wide = getattr(request.header.problem, f"{'ab'.replace(side, '')}_type")
    setattr(request.header.problem, f"{side}_type", wide)
    wrong.append(("dense", request, "problem.quantization"))
    for number, (what, request, *words) in enumerate(wrong):
        yield p.refused(what, lambda request=request: requests.send(
            p.target, request), *words)
        if number % 4 == 3:
            yield p.equal(f"after {what}", _sent(p, made()), due)
    yield p.equal("the next", _sent(p, made()), due)


@probe(*_NAMES)
def weights_stay_as_tensors(p):
    """New ones are zero; they come back as they went; tensors that are not
    quantized alike stand for no others."""
    side, name = p.form.weights, _type(p)
    quantization = gemmd.Quantization(
        None if p.form.group == "k" else int(p.form.group),
        p.form.zero_points) if p.form.group else None
    lines = _every(p, 5, 135)
    other = (1 + np.add.outer(np.arange(135), np.arange(8)) % 7).astype(
        _wide(p))
    due = lines.due(p) @ other.astype(np.float64)
    shape = (5, 135) if side == "a" else (135, 5)
    made = _made(p, lines, other)
    setattr(made, side, b"")

    def resident(tensor):
        getattr(made.header, side).tensor = tensor.handle
        return _sent(p, made)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(gemmd.Client(p.target))

        def zeros(**how):
            return stack.enter_context(client.zeros(
                shape, forms.TYPES[name], order="C" if side == "a" else "F",
                device=p.device, **how))
        tensor = zeros(quantization=quantization)
        yield p.equal("zeros", resident(tensor), np.zeros_like(due))
        axis = -1 if side == "a" else -2
        data = np.frombuffer(lines.bytes(p), np.uint8).reshape(5, -1)
        if quantization is None:
            elements = lines.elements
            tensor.upload(elements if side == "a" else elements.T)
            back = quantized.elements_bytes(
                tensor.numpy() if side == "a" else tensor.numpy().T)
        else:
            tensor.upload(gemmd.QuantizedMatrix(
                data, forms.TYPES[name], 135, quantization, axis))
            back = tensor.quantized().lines
        yield p.equal("multiplied", resident(tensor), due)
        yield results.same_bits(p.name("downloaded"), _without_slack(p, back),
                                _without_slack(p, data))
        others = zeros(quantization=gemmd.Quantization(
            64 if p.form.group == "32" else 32, p.form.zero_points))
        yield p.refused("other groups", lambda: resident(others),
                        f"{side}.tensor is quantized by")
        if quantization is not None:
            plain = zeros()
            yield p.refused("plain", lambda: resident(plain),
                            f"{side}.tensor is {name}", "quantized by")


def _without_slack(p, lines):
    """Lines whose half a byte behind an odd number of elements is zero."""
    made = np.array(lines, np.uint8)
    if _type(p) in quantized.FOUR_BITS:
        made[:, 67] &= 0xF
    return made
