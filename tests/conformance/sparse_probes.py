"""Probes of what sparse operands promise: every pattern in every place, what
is stored and what is not, metadata that are refused, tensors."""

import contextlib

import gemmd
import numpy as np
from gemmd import api

from . import form_fills, forms, requests, results, sparse
from .form_probes import probe
from .shapes import Shape

_NAMES = tuple(forms.SPARSE)
_ORDERS = {"a": "C", "b": "F"}


def _output(p):
    return "s32" if p.form.sums == "s32" else "f32"


def _type(p):
    return getattr(p.form, p.form.sparse)


def _oriented(p, lines, other):
    """A and B of lines of the sparse operand, along k, and of the other one,
    k x n."""
    return (lines, other) if p.form.sparse == "a" else (other.T, lines.T)


def _made(p, lines, other, made=None, output=""):
    """The MatmulRequest of such a product; `made` are other metadata."""
    a, b = _oriented(p, lines, other)
    request = requests.request(requests.Product(
        p.form, a, b, output or _output(p), layout="rc"), p.device)
    if made is not None:
        setattr(request, p.form.sparse,
                sparse.pack(lines, _type(p), made).tobytes())
    return request


def _ask(p, lines, other, made=None):
    """D as the product of the lines with the other operand."""
    request = _made(p, lines, other, made)
    shape = (request.header.problem.m, request.header.problem.n)
    answer = requests.send(p.target, request)
    d = np.frombuffer(answer.d, forms.TYPES[_output(p)]).reshape(shape)
    return d if p.form.sparse == "a" else d.T


def _places(p):
    return sparse.PLACES[p.form.chunk]


def _ladder(p, k):
    """The other operand: k x 8, of which every step of k has values of its
    own, small enough for any type."""
    steps = np.arange(k)[:, None]
    values = 1 + (steps + np.arange(8)) % 7
    name = p.form.b if p.form.sparse == "a" else p.form.a
    return values.astype(forms.TYPES[name])


def _with_places(lines, made, size):
    """Dense lines of the same values at the places of `made`."""
    dense = np.zeros((lines.shape[0], made.shape[-1] * size), lines.dtype)
    for (line, chunk), code in np.ndenumerate(made):
        for i, place in enumerate(sparse.PLACES[size][int(code)]):
            dense[line, chunk * size + place] = lines[
                line, chunk * (size // 2) + i]
    return dense


def _values(p, count, k):
    """`count` lines of k / 2 values that are not zero."""
    values = 1 + np.add.outer(np.arange(count), np.arange(k // 2)) % 5
    return values.astype(forms.TYPES[_type(p)])


@probe(*_NAMES)
def every_pattern_in_every_place(p):
    """Line i has pattern i + c in chunk c, over two stages of k; then one
    pattern everywhere."""
    size, codes = p.form.chunk, list(_places(p))
    k = 264
    chunks = np.arange(k // size)
    turns = np.array([[codes[(i + c) % len(codes)] for c in chunks]
                      for i in range(2 * len(codes))], np.uint8)
    other = _ladder(p, k)
    for what, made in [("in turn", turns)] + [
            (f"{code:#x}", np.full((3, len(chunks)), code, np.uint8))
            for code in codes]:
        lines = _with_places(_values(p, len(made), k), made, size)
        yield p.equal(what, _ask(p, lines, other, made),
                      lines.astype(float) @ other.astype(float))


@probe(*_NAMES)
def metadata_alone_move_the_values(p):
    """The same values under each metadata, chunk by chunk."""
    size = p.form.chunk
    k, codes = 64 * size, list(_places(p))
    other, values = _ladder(p, k), _values(p, 1, k)
    start = np.full((1, k // size), codes[0], np.uint8)
    for chunk in (0, 1, 2, 15, 16, 31, 63):
        for code in codes[1:]:
            made = start.copy()
            made[0, chunk] = code
            lines = _with_places(values, made, size)
            yield p.equal(f"chunk {chunk} {code:#x}",
                          _ask(p, lines, other, made),
                          lines.astype(float) @ other.astype(float))


@probe(*_NAMES)
def chunks_with_few_values(p):
    """One or none in each, also negative zeros, under all metadata that have
    a place for it; k of one chunk and of one odd number of them."""
    size = p.form.chunk
    for chunks in (1, 3, 33):
        k = chunks * size
        other = _ladder(p, k)
        for place in range(size + 1):
            lines = np.zeros((5, k), forms.TYPES[_type(p)])
            if place < size:
                lines[::2, place::size] = 2
            if _type(p) not in forms.INTEGERS:
                lines[1::2] = -0.0
            yield p.equal(f"k={k} place {place}", _ask(p, lines, other),
                          lines.astype(float) @ other.astype(float))


@probe(*_NAMES)
def integers_as_in_the_dense_form(p):
    """The same bits, in every layout of the other operand and order of D."""
    dense = forms.FORMS[p.form.dense]
    shapes = (Shape(65, 33, 132), Shape(1, 7, 260)) + (
        (Shape(200, 129, 1028), Shape(3, 300, 4)) if p.full else ())
    for shape in shapes:
        a, b = form_fills.exact(p.form, shape)
        for layout in p.form.layouts:
            for order in "rc" if p.full else "r":
                product = requests.Product(p.form, a, b, _output(p),
                                           layout=layout, order=order)
                mine, other = (requests.multiply(
                    p.target, p.device, product._replace(form=form)).d
                    for form in (p.form, dense))
                yield results.same_bits(
                    p.name(f"{shape} {layout}{order}"), mine, other)


def _wrong_codes(p):
    return sorted(set(range(16)) - set(_places(p)))


@probe(*_NAMES)
def illegal_metadata_are_refused(p):
    """Each value, in several places of lines and chunks, naming the place and
    the rule; and the next request is right."""
    size = p.form.chunk
    k = 18 * size  # An even number of chunks, and one that is odd.
    line_name = "row" if p.form.sparse == "a" else "column"
    for chunks in (18, 17):
        k = chunks * size
        lines = np.zeros((4, k), forms.TYPES[_type(p)])
        other = _ladder(p, k)
        right = sparse.codes(lines, _type(p))
        yield p.equal(f"before {chunks}", _ask(p, lines, other),
                      np.zeros((4, 8)))
        places = ((0, 0), (3, chunks - 1), (2, 5))
        for number, code in enumerate(_wrong_codes(p)):
            line, chunk = places[number % 3]
            made = right.copy()
            made[line, chunk] = code
            yield p.refused(
                f"{code:#x} of {chunks}",
                lambda made=made: requests.send(p.target, _made(
                    p, lines, other, made)),
                f"{p.form.sparse} has metadata {code:#x} for k {chunk * size} "
                f"to {chunk * size + size - 1} of {line_name} {line};",
                "allowed: 0x4")
        yield p.equal(f"the next of {chunks}", _ask(p, lines, other),
                      np.zeros((4, 8)))


@probe(*_NAMES)
def wrong_bytes_are_refused(p):
    """Dense bytes, a byte less and one more, both operands sparse, lines that
    do not run along k, and a k that is no multiple of the chunk."""
    size, side = p.form.chunk, p.form.sparse
    k = 8 * size
    lines = np.zeros((4, k), forms.TYPES[_type(p)])
    other = _ladder(p, k)
    good = getattr(_made(p, lines, other), side)
    yield p.equal("before", _ask(p, lines, other), np.zeros((4, 8)))
    for what, data in (("dense", lines.tobytes()), ("short", good[:-1]),
                       ("long", good + b"\0"), ("none", b"")):
        request = _made(p, lines, other)
        setattr(request, side, data)
        yield p.refused(what, lambda request=request: requests.send(
            p.target, request), f"{side} has {len(data)} bytes",
            f"allowed for its shape: {len(good)}")
    both = _made(p, lines, other)
    both.header.problem.sparsity = both.header.problem.b_sparsity = (
        api.SPARSE)
    yield p.refused("both sparse",
                    lambda: requests.send(p.target, both), "b_sparsity")
    turned = _made(p, lines, other)
    setattr(turned.header.problem, f"{side}_order",
            api.COLUMN_MAJOR if side == "a" else api.ROW_MAJOR)
    yield p.refused("order", lambda: requests.send(p.target, turned),
                    f"problem.{side}_order", "run along k")
    odd = _made(p, lines, other)
    odd.header.problem.k += 1
    yield p.refused("k", lambda: requests.send(p.target, odd),
                    "problem.k", f"multiples of {size}")
    yield p.equal("the next", _ask(p, lines, other), np.zeros((4, 8)))


def _matrix(p, lines, made=None):
    """The client's sparse matrix of such lines; `made` are other metadata."""
    packed = sparse.pack(lines, _type(p), made)
    return gemmd.SparseMatrix(packed, lines.dtype, lines.shape[-1],
                              -1 if p.form.sparse == "a" else -2)


def _resident(p, client, operand, other):
    """D of a tensor and the other operand."""
    side = p.form.sparse
    request = _made(p, np.zeros((4, other.shape[0]),
                                forms.TYPES[_type(p)]), other)
    setattr(request, side, b"")
    getattr(request.header, side).tensor = operand.handle
    answer = requests.send(p.target, request)
    d = np.frombuffer(answer.d, forms.TYPES[_output(p)]).reshape(
        request.header.problem.m, request.header.problem.n)
    return d if side == "a" else d.T


@probe(*_NAMES)
def tensors(p):
    """New ones are zero; they come back as they went; what is refused changes
    nothing; neither stands for a dense one, nor a dense one for them."""
    size = p.form.chunk
    k = 33 * size
    generator = np.random.default_rng(3)
    lines = sparse.keep(_dense_lines(p, k), _type(p), generator)
    other, order = _ladder(p, k), _ORDERS[p.form.sparse]
    due = lines.astype(float) @ other.astype(float)
    shape = lines.shape if p.form.sparse == "a" else lines.T.shape
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(gemmd.Client(p.target))
        tensor = stack.enter_context(client.zeros(
            shape, lines.dtype, order=order, sparse=True, device=p.device))
        yield p.equal("zeros", _resident(p, client, tensor, other),
                      np.zeros_like(due))
        good = _matrix(p, lines)
        tensor.upload(good)
        yield p.equal("multiplied", _resident(p, client, tensor, other), due)
        back = tensor.compressed()
        yield results.same_bits(p.name("downloaded"), back.lines, good.lines)
        made = sparse.codes(lines, _type(p))
        made[2, 32] = 0xF
        yield p.refused(
            "refused", lambda: tensor.upload(_matrix(p, lines, made)),
            f"data has metadata 0xf for k {32 * size} to {33 * size - 1} of "
            f"{'row' if p.form.sparse == 'a' else 'column'} 2;")
        yield p.equal("the old one stays", _resident(p, client, tensor, other),
                      due)
        dense = stack.enter_context(client.zeros(
            shape, lines.dtype, order=order, device=p.device))
        yield p.refused(
            "dense", lambda: _resident(p, client, dense, other),
            f"{p.form.sparse}.tensor is", "allowed for this problem: sparse")
        request = _made(p, lines, other)
        request.header.problem.sparsity = api.DENSE
        request.header.problem.b_sparsity = api.DENSE
        setattr(request, p.form.sparse, b"")
        getattr(request.header, p.form.sparse).tensor = tensor.handle
        yield p.refused("in a dense product",
                        lambda: requests.send(p.target, request),
                        f"{p.form.sparse}.tensor is sparse")


def _dense_lines(p, k):
    values = np.add.outer(np.arange(4), np.arange(k)) % 4
    return values.astype(forms.TYPES[_type(p)])


@probe("sparse-bf16", "tf32-sparse", "sparse-e5m2")
def what_is_not_stored_is_not_multiplied(p):
    """Infinities and NaN beside what is stored have no part in sums; a stored
    zero meets them."""
    size = p.form.chunk
    k, codes = 40 * size, list(_places(p))
    other = _ladder(p, k).astype(np.float32)
    generator = np.random.default_rng(5)
    rows = generator.integers(0, k, 12)
    other[rows, generator.integers(0, 8, 12)] = generator.choice(
        (np.inf, -np.inf, np.nan), 12)
    other = other.astype(_ladder(p, k).dtype)
    made = generator.choice(codes, (9, k // size)).astype(np.uint8)
    values = _values(p, 9, k)
    values[4] = 0
    lines = _with_places(values, made, size)
    mask = _with_places(np.ones_like(values), made, size).astype(bool)
    with np.errstate(invalid="ignore"):
        products = lines.astype(float)[:, :, None] * other.astype(float)[None]
        due = np.where(mask[:, :, None], products, 0).sum(axis=1)
    yield p.equal("beside", _ask(p, lines, other, made), due)
