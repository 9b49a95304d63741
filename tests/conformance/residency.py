"""Probes of resident tensors, repeated and concurrent requests."""

from concurrent import futures

import numpy as np

from . import fills, reference, results
from .probes import probe
from .semantics import SHAPE
from .shapes import Shape

# The second is long in k with few tiles, where k may be split.
_SHAPES = (SHAPE, Shape(64, 72, 4096))


def _normal(p, shape, output=fills.F32):
    a, b, c = fills.normal(shape, p.dtype)
    return p.a(a), p.b(b), p.c(c, output)


@probe
def tensors_come_back_as_sent(p):
    for rows, columns in ((1, 1), (7, 129), (130, 71), (256, 64)):
        values = fills.normal(Shape(rows, 1, columns), p.dtype)[0]
        for name, array in (("C", np.ascontiguousarray(values)),
                            ("F", np.asfortranarray(values))):
            with p.tensor(array) as tensor:
                yield p.same_bits(f"{rows}x{columns} {name}", tensor.numpy(),
                                  array)
    with p.client.zeros((7, 5), p.dtype, device=p.device) as tensor:
        yield p.same_bits("zeros", tensor.numpy(), np.zeros((7, 5), p.dtype))


@probe
def resident_and_inline_operands_give_the_same_bits(p):
    for shape in _SHAPES:
        a, b, c = _normal(p, shape)
        inline = p.multiply(a, b, c=c, alpha=1.5, beta=0.5)
        with p.tensor(a) as ta, p.tensor(b) as tb, p.tensor(c) as tc, \
                p.client.zeros(c.shape, c.dtype, order=p.order,
                               device=p.device) as td:
            p.multiply(ta, tb, c=tc, alpha=1.5, beta=0.5, out=td)
            yield p.same_bits(f"{shape}", td.numpy(), inline)
            for name, tensor, array in (("A", ta, a), ("B", tb, b),
                                        ("C", tc, c)):
                yield p.same_bits(f"{shape} {name} is unchanged",
                                  tensor.numpy(), array)


def _shared(p, array, padding=0):
    """The same in memory that is shared with the daemon, its lines further
    apart by so many elements."""
    order = "C" if array.flags.c_contiguous else "F"
    lines = array if order == "C" else array.T
    wide = p.client.empty((lines.shape[0], lines.shape[1] + padding),
                          array.dtype)
    view = wide[:, :lines.shape[1]]
    view[...] = lines
    return view if order == "C" else view.T


@probe
def shared_and_inline_operands_give_the_same_bits(p):
    if not p.client.target.startswith("unix:"):
        return  # Nothing is shared over TCP.
    for shape in (*_SHAPES, Shape(1, 1, 8), Shape(129, 65, 24),
                  Shape(300, 258, 71)):
        a, b, c = _normal(p, shape)
        inline = p.multiply(a, b, c=c, alpha=1.5, beta=0.5)
        for padding in (0, 1, 8):
            shared = [_shared(p, array, padding) for array in (a, b, c)]
            what = f"{shape} padding {padding}"
            d = p.multiply(*shared[:2], c=shared[2], alpha=1.5, beta=0.5)
            yield p.same_bits(what, d, inline)
            out = _shared(p, np.zeros_like(inline, order=p.order), padding)
            p.multiply(*shared[:2], c=shared[2], alpha=1.5, beta=0.5, out=out)
            yield p.same_bits(f"{what} out", np.array(out), inline)


@probe
def sequences_of_shared_and_inline_operands_give_the_same_bits(p):
    if not p.client.target.startswith("unix:"):
        return
    for shape in (*_SHAPES, Shape(1, 1, 8), Shape(129, 65, 24)):
        a, b, c = _normal(p, shape)

        def chain(operands, outs=(None, None)):
            """D, and its transpose times A."""
            x, y, z = operands
            # A matrix of one line that is given has an order of its own.
            to = [{"out_order": p.order} if out is None else {"out": out}
                  for out in outs]
            with p.client.sequence(device=p.device) as s:
                d = s.matmul(x, y, c=z, alpha=1.5, beta=0.5, out_dtype=p.dtype,
                             **to[0])
                e = s.matmul(d.T, x, out_dtype=fills.F32, **to[1])
                s.returns(d, e)
            return [np.array(result.numpy()) for result in (d, e)]

        c = p.c(c, p.dtype)
        inline = chain((a, b, c))
        for padding in (0, 1, 8):
            shared = [_shared(p, array, padding) for array in (a, b, c)]
            outs = [_shared(p, np.zeros_like(array, order=p.order), padding)
                    for array in inline]
            for what, found in (("", chain(shared)),
                                (" out", chain(shared, outs)),
                                (" lies there", outs)):
                for name, one, other in zip("DE", found, inline):
                    yield p.same_bits(f"{shape} padding {padding}{what} {name}",
                                      np.array(one), other)


@probe
def tensors_have_the_elements_of_shared_arrays(p):
    if not p.client.target.startswith("unix:"):
        return
    for shape in (Shape(1, 1, 8), Shape(129, 65, 24), Shape(300, 258, 71)):
        for array in _normal(p, shape):
            for padding in (0, 1, 8):
                with p.tensor(_shared(p, array, padding)) as tensor:
                    yield p.same_bits(f"{shape} padding {padding}",
                                      tensor.numpy(), array)


@probe
def d_may_be_c(p):
    for output in fills.TYPES.values():
        a, b, c = _normal(p, SHAPE, output)
        apart = p.multiply(a, b, c=c, alpha=2, beta=-0.5)
        with p.tensor(c) as tensor:
            p.multiply(a, b, c=tensor, alpha=2, beta=-0.5, out=tensor)
            yield p.same_bits(f"{output}", tensor.numpy(), apart)


@probe
def both_results_may_stay(p):
    for output in fills.TYPES.values():
        a, b, _ = _normal(p, SHAPE)
        options = {"alpha": -0.5, "activation": "relu"}
        apart = p.multiply(a, b, out_dtype=output, return_pre_activation=True,
                           **options)
        poison = p.c(np.full((SHAPE.m, SHAPE.n), np.nan), output)
        with p.tensor(poison) as d, p.tensor(poison) as before:
            p.multiply(a, b, out=d, pre_activation_out=before, **options)
            yield p.same_bits(f"{output} D", d.numpy(), apart[0])
            yield p.same_bits(f"{output} before", before.numpy(), apart[1])
        with p.tensor(poison) as before:
            d, _ = p.multiply(a, b, pre_activation_out=before, **options)
            yield p.same_bits(f"{output} D returned", d, apart[0])
            yield p.same_bits(f"{output} before alone", before.numpy(),
                              apart[1])
        if p.client.target.startswith("unix:"):
            before = _shared(p, poison, 8)
            d, _ = p.multiply(a, b, pre_activation_out=before, **options)
            yield p.same_bits(f"{output} D of shared", d, apart[0])
            yield p.same_bits(f"{output} before shared", np.array(before),
                              apart[1])


@probe
def every_element_of_d_is_written(p):
    for shape in (Shape(1, 1, 8), Shape(129, 65, 24), Shape(65, 200, 1),
                  Shape(300, 258, 72), Shape(7, 520, 0)):
        a, b, _ = p.exact(shape)
        for output in fills.TYPES.values():
            poison = p.c(np.full((shape.m, shape.n), np.nan), output)
            with p.tensor(poison) as tensor:
                p.multiply(a, b, out=tensor)
                expected = reference.round_to(
                    reference.Products(a, b).product, output)
                yield p.equal(f"{shape} {output}", tensor.numpy(), expected)


@probe
def same_request_gives_the_same_bits(p):
    for shape in _SHAPES:
        a, b, c = _normal(p, shape)
        first = p.multiply(a, b, c=c, beta=1)
        for repeat in range(3):
            yield p.same_bits(f"{shape} repeat {repeat + 1}",
                              p.multiply(a, b, c=c, beta=1), first)


@probe
def concurrent_requests_do_not_mix(p):
    shapes = [Shape(65 + 8 * i, 129 - 8 * i, 24 + i) for i in range(12)]
    operands = [p.exact(shape) for shape in shapes]
    with futures.ThreadPoolExecutor(len(shapes)) as pool:
        products = list(pool.map(
            lambda abc: p.multiply(*abc[:2], c=abc[2], beta=-1), operands))
    for shape, (a, b, c), d in zip(shapes, operands, products):
        expected = reference.Products(a, b).result(1, -1, c)
        yield results.equal(p.name(str(shape)), d, expected.astype(d.dtype))
