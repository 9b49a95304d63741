"""Random messages of the API, their fields at anything that an enum holds: each
is answered rightly or refused with a text that names the field."""

import functools
import re
import unittest

import gemmd
import numpy as np
from conformance import forms, quantized, requests
from gemmd import api, arrays

from epilogue_reference import epilogue, sums, wide
from host_daemon import HostCase
from random_products import Generator, check, default_output, form_of

COUNT = 400
_TYPES = ("", "f32", "f16", "bf16", "e4m3", "e5m2", "s8", "u8", "b1", "s32",
          "s4", "u4")
_SUMS = ("", "f32", "f16", "s32")
_PRECISIONS = ("", "FAST", "TF32")
_EXTENTS = ("", "tensor", "row", "column", "block")
_ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")
# Enums of the problem: how many values they have.
_ENUMS = {"a_type": 12, "b_type": 12, "c_type": 12, "d_type": 12,
          "accumulator": 4, "precision": 3, "sparsity": 2, "b_sparsity": 2,
          "a_order": 3, "b_order": 3, "d_order": 3, "activation": 5,
          "bit_operation": 3}
_EPILOGUE = {"bias": 5, "a_scale": 5, "b_scale": 5}
_SWITCHES = ("d_scale", "auxiliary", "amax")


def _known(problem):
    """The fields that hold no value of their enum."""
    return {name for name, values in _ENUMS.items()
            if getattr(problem, name) >= values} | {
        f"epilogue.{name}" for name, values in _EPILOGUE.items()
        if getattr(problem.epilogue, name) >= values}


def _form(problem):
    a, b = _TYPES[problem.a_type], _TYPES[problem.b_type]
    form = form_of(a, b, _PRECISIONS[problem.precision],
                   _SUMS[problem.accumulator], problem.saturate,
                   problem.bit_operation == 2,
                   "a" if problem.sparsity else
                   "b" if problem.b_sparsity else "")
    if form is None or not form.weights or not problem.HasField(
            "quantization"):
        return form
    return form._replace(group=str(problem.quantization.group or "k"),
                         zero_points=problem.quantization.zero_points)


def _wrong_quantization(problem, form):
    if not problem.HasField("quantization"):
        return set()
    if not form.weights:
        return {"quantization"}
    wrong = set()
    if form.group not in quantized.GROUPS:
        wrong.add("quantization.group")
    if form.zero_points and not {form.a, form.b} & set(quantized.FOUR_BITS):
        wrong.add("quantization.zero_points")
    return wrong


def _wrong_lines(problem, form):
    """Lines of a sparse or quantized operand run along k, in whole chunks."""
    wrong = set()
    if form.along_k == "a" and problem.a_order == api.COLUMN_MAJOR:
        wrong.add("a_order")
    if form.along_k == "b" and problem.b_order != api.COLUMN_MAJOR:
        wrong.add("b_order")
    return wrong | ({"k"} if problem.k % form.chunk else set())


def _wrong(problem):
    """The fields of which one has to be named; none: it is served."""
    wrong = _known(problem)
    for name in ("m", "n", "k", "batch"):
        if not 0 <= getattr(problem, name) < 2 ** 31 - 255:
            wrong.add(name)
    if problem.sparsity and problem.b_sparsity:
        wrong.add("b_sparsity")
    wrong |= {name for name in ("a_type", "b_type")
              if not getattr(problem, name)}
    if wrong:
        return wrong
    form = _form(problem)
    if form is None:
        return {"a_type", "b_type", "accumulator", "precision", "saturate",
                "bit_operation"}
    wrong |= _wrong_quantization(problem, form)
    wrong |= _wrong_lines(problem, form)
    output = _output(problem)
    if output not in form.outputs:
        wrong.add("d_type")
    c_type = _TYPES[problem.c_type] or output
    if problem.beta and c_type != output and (
            c_type != "f32" or output == "s32"):
        wrong |= {"c_type", "d_type"}
    given = problem.epilogue
    for name, allowed in (("bias", ("", "row", "column")),
                          ("a_scale", ("", "tensor", "row", "block")),
                          ("b_scale", ("", "tensor", "column", "block"))):
        if _EXTENTS[getattr(given, name)] not in allowed:
            wrong.add(f"epilogue.{name}")
    blocks = [_EXTENTS[scale] == "block"
              for scale in (given.a_scale, given.b_scale)]
    if any(blocks) and not (all(blocks) and form.promotes
                           and not form.sparse):
        wrong |= {"epilogue.a_scale", "epilogue.b_scale"}
    if output == "s32":
        wrong |= {name for name in ("alpha", "beta")
                  if getattr(problem, name) not in (0, 1)}
        wrong |= {f"epilogue.{name}" for name in (*_EPILOGUE, *_SWITCHES)
                  if getattr(given, name)}
        wrong |= {"activation"} if problem.activation else set()
    return wrong


def _output(problem):
    return _TYPES[problem.d_type] or default_output(
        _TYPES[problem.a_type], _TYPES[problem.b_type])


class RandomWireTest(HostCase):
    def _header(self, g):
        """One that is served, with a few fields at anything."""
        header = api.MatmulHeader(device="host")
        problem = header.problem
        form = g.one(list(g.one((
            forms.DENSE, forms.DENSE, forms.DENSE, forms.SPARSE, forms.MIXED,
            forms.QUANTIZED)).values()))
        form.describe(problem)
        problem.m, problem.n, problem.k = g.size(30), g.size(200), g.size(300)
        if form.along_k:
            problem.k = form.depth(problem.k)
            problem.b_order = 2 if form.along_k == "b" else 0
        if g.chance(0.05):
            problem.quantization.group = g.one((0, 1, 32, 100, 128))
            problem.quantization.zero_points = g.chance(0.5)
        problem.batch = g.one((1, 1, 1, 2, 0))
        problem.alpha = g.one((1.0, 0.5, -2.0, 0.0))
        problem.beta = g.one((0.0, 0.0, 1.0, -0.5))
        problem.epilogue.SetInParent()
        for _ in range(g.one((0, 1, 2, 3, 6))):
            where = problem if g.chance(0.5) else problem.epilogue
            enums = _ENUMS if where is problem else _EPILOGUE
            name = g.one(list(enums))
            value = enums[name] if g.chance(0.05) else g.size(enums[name], 0.2)
            setattr(where, name, value)
        if g.chance(0.4):
            problem.activation = g.size(5, 0)
        for name in _SWITCHES:
            setattr(problem.epilogue, name, g.chance(0.2))
        if g.chance(0.15):
            problem.epilogue.a_scale = problem.epilogue.b_scale = 4
        problem.invariant = g.chance(0.2)
        if g.chance(0.04):
            setattr(problem, g.one(("m", "n", "k", "batch")),
                    g.one((-1, 2 ** 40)))
        return header

    def _operand(self, g, dtype, *shape):
        high = 1 if dtype == np.float16 or dtype.itemsize == 1 else 4
        return g.matrix(dtype, high, *shape)

    def _bytes(self, values, order, pack=None):
        """Of a matrix that lies in `order`."""
        return requests.encode(
            values, "c" if order == api.COLUMN_MAJOR else "r", 0,
            api.Layout(), pack=pack)

    def _values(self, g, problem):
        """(arrays, bytes) of the epilogue, as its extents say."""
        m, n, k = problem.m, problem.n, problem.k
        blocks = -(-k // 128)
        given = problem.epilogue
        made = {}
        for name, extent, by_block in (
                ("bias", given.bias, ()),
                ("a_scale", given.a_scale, (m, blocks)),
                ("b_scale", given.b_scale, (blocks, -(-n // 128)))):
            shape = {"tensor": (), "row": (m,), "column": (n,),
                     "block": by_block}.get(_EXTENTS[extent])
            if shape is not None:
                made[name] = (g.integers(90, *shape).astype(np.float32)
                              if name == "bias" else g.powers(*shape))
        if given.d_scale:
            made["d_scale"] = np.float32(0.25)
        return made

    def _expected(self, problem, form, a, b, c, values):
        scales = values.get("a_scale"), values.get("b_scale")
        if problem.epilogue.a_scale == 4:
            x = sums(a, b, *scales)
        else:
            x = sums(a, b, xor=form.xor)
            for scale, axes in zip(scales, ((-1, 1), (1, -1))):
                x = x if scale is None else x * np.reshape(wide(scale), axes)
        bias = values.get("bias")
        if bias is not None and _EXTENTS[problem.epilogue.bias] == "row":
            bias = bias[:, None]
        return epilogue(x, alpha=problem.alpha, beta=problem.beta, c=c,
                        bias=bias, out_scale=values.get("d_scale"),
                        activation=_ACTIVATIONS[problem.activation])

    def _answer(self, header, response, output):
        problem = header.problem
        shape = (problem.batch, problem.m, problem.n)
        order = "F" if problem.d_order == api.COLUMN_MAJOR else "C"

        def matrix(data):
            return None if data is None else arrays.matrix(
                data, shape, forms.TYPES[output], order)
        auxiliary = response.auxiliary if problem.epilogue.auxiliary else None
        return gemmd.Product(matrix(response.d or b""), None,
                             matrix(auxiliary), response.amax)

    def _run(self, number):
        g = Generator(number)
        header = self._header(g)
        problem = header.problem
        label = f"{number}: {' '.join(str(problem).split())}"
        wrong = _wrong(problem)
        if wrong:
            self._expect_refusal(header, wrong, label)
            return False
        form, output = _form(problem), _output(problem)
        batch, (m, n, k) = problem.batch, (problem.m, problem.n, problem.k)
        a = self._operand(g, forms.TYPES[form.a], batch, m, k)
        b = self._operand(g, forms.TYPES[form.b], batch, k, n)
        c = self._operand(g, forms.TYPES[_TYPES[problem.c_type] or output],
                          batch, m, n)
        a, b = form.keep(a, b, np.random.default_rng(number))
        a_bytes = self._bytes(a, problem.a_order,
                              functools.partial(form.pack, "a"))
        b_bytes = self._bytes(b, problem.b_order,
                              functools.partial(form.pack, "b"))
        c_bytes = self._bytes(c, problem.d_order)
        values = self._values(g, problem)
        for name in "abd":
            order = getattr(problem, f"{name}_order")
            getattr(header, name).inline.order = order
        header.c.inline.order = header.auxiliary.inline.order = problem.d_order
        response = self.client._run(gemmd.client.rpcs.matmul(
            header, a=a_bytes, b=b_bytes, c=c_bytes if problem.beta else None,
            **{name: np.ascontiguousarray(value).tobytes()
               for name, value in values.items()}), None)
        check(self, label, _ACTIVATIONS[problem.activation],
              self._answer(header, response, output),
              self._expected(problem, form, *(
                  form.read(name, x) if name == form.weights else x
                  for name, x in (("a", a), ("b", b))), c, values), output)
        self.assertEqual(response.amax is not None, problem.epilogue.amax)
        return True

    def _expect_refusal(self, header, wrong, label):
        with self.assertRaises(gemmd.Error, msg=label) as raised:
            self.client.execute(header, b"", b"", b"")
        error = raised.exception
        self.assertIsInstance(
            error, (gemmd.InvalidArgument, gemmd.Unimplemented), label)
        named = re.match(r"problem\.([\w.]+) is .+; (allowed|served): .+",
                         error.message)
        self.assertIsNotNone(named, f"{label}: {error}")
        self.assertIn(named[1], wrong, f"{label}: {error}")

    def test_each_is_answered_rightly_or_refused_by_name(self):
        served = sum(self._run(number) for number in range(COUNT))
        self.assertGreater(served, COUNT // 5)
        self.assertLess(served, COUNT * 3 // 4)


if __name__ == "__main__":
    unittest.main()
