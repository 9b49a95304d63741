"""Random options of matmul over all that can be said: each is answered rightly or
refused with a text that names what is wrong, and by rules that are written
apart from those of the project (conformance/forms.py, and `_wrong` here).
"""

import re
import unittest

import gemmd
import numpy as np
from conformance import forms

from epilogue_reference import epilogue, sums, wide
from host_daemon import HostCase
from random_products import NAMES as _NAMES
from random_products import Generator, check, default_output, form_of

COUNT = 300
F32 = np.float32
# What is asked for besides what is multiplied.
_OTHERS = [np.dtype(t) for t in (np.float64, np.int16, np.complex64)]
_STEPS = ("bias", "a_scale", "b_scale", "activation", "out_scale",
          "return_pre_activation", "return_amax")
_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


def _default(a, b):
    """The type of the result of two that may be no types of matrices."""
    if a not in _NAMES or b not in _NAMES:
        return np.dtype(np.int32) if a.kind in "iub" else a
    return forms.TYPES[default_output(_NAMES[a], _NAMES[b])]


class RandomOptionsTest(HostCase):
    def _types(self, g):
        if g.chance(0.05):
            return (g.one([*forms.TYPES.values(), *_OTHERS]),
                    g.one([*forms.TYPES.values(), *_OTHERS]))
        form = g.one(list((
            forms.MIXED if g.chance(0.2) else forms.DENSE).values()))
        return forms.TYPES[form.a], forms.TYPES[form.b]

    def _options(self, g, a, shape):
        m, n, k = shape
        blocks = -(-k // 128)
        said = {
            "out_dtype": None if g.chance(0.3) else g.one(
                [*forms.TYPES.values()][:9]),
            "out_order": g.one((None, "C", "F")),
            "alpha": g.one((1.0, 1.0, 0.5, -2.0, 0.0)),
            "beta": g.one((0.0, 0.0, 1.0, -0.5)),
            "precision": None if g.chance(0.8) else g.one(("tf32", "fast")),
            "accumulate": None if g.chance(0.85) else g.one(
                (np.float16, np.float32, np.int32)),
            "saturate": g.chance(0.1), "invariant": g.chance(0.2),
            "bits": None if g.chance(0.9 if a.kind != "b" else 0.5)
            else g.one(("and", "xor")),
            "activation": None if g.chance(0.5) else g.one(_ACTIVATIONS),
            "bias": None, "a_scale": None, "b_scale": None, "out_scale": None,
            "return_pre_activation": g.chance(0.3),
            "return_amax": g.chance(0.3)}
        if g.chance(0.4):
            said["bias"] = g.integers(90, *g.one(((n,), (m, 1), ()))).astype(
                F32)
        if g.chance(0.4):
            said["a_scale"] = g.powers(*g.one(((), (m,), (m, 1))))
        if g.chance(0.4):
            said["b_scale"] = g.powers(*g.one(((), (n,))))
        if g.chance(0.3) and blocks:
            said["a_scale"] = g.powers(m, blocks)
            if g.chance(0.9):
                said["b_scale"] = g.powers(blocks, -(-n // 128))
        if g.chance(0.3):
            said["out_scale"] = g.one((0.5, 0.125))
        return said

    def _wrong(self, a, b, c, said, form, shape):
        """The arguments of which one has to be named; none: it is served."""
        known = [t for t in _NAMES if t != np.int32]
        if a not in known or b not in known or form_of(
                _NAMES[a], _NAMES[b], "", "", False, False) is None:
            return {"a", "b"}
        wrong = set()
        if form is None:
            wrong |= {"precision", "accumulate", "saturate", "bits"}
        output = self._output(a, b, c, said)
        if output is None:
            return wrong | {"out_dtype", "c"}
        if _NAMES[output] not in (
                form or form_of(_NAMES[a], _NAMES[b], "", "", False,
                                False)).outputs:
            wrong.add("out_dtype")
        if c is not None and c.dtype != output and (
                c.dtype != F32 or output == np.int32):
            wrong |= {"c", "out_dtype"}
        if said["beta"] and c is None:
            wrong.add("c")
        if output == np.int32:
            wrong |= {name for name in _STEPS
                      if said[name] is not None and said[name] is not False}
            wrong |= {name for name in ("alpha", "beta")
                      if said[name] not in (0, 1)}
        blocks = self._blocks(said, shape)
        if blocks and not (form and form.promotes and len(blocks) == 2):
            wrong |= {"a_scale", "b_scale", "accumulate", "precision"}
        return wrong

    @staticmethod
    def _output(a, b, c, said):
        """The type of the result; None where two are given."""
        asked = said["out_dtype"]
        if c is not None and not (c.dtype == F32 and asked is not None):
            return c.dtype if asked in (None, c.dtype) else None
        return asked or _default(a, b)

    @staticmethod
    def _blocks(said, shape):
        """Which scales can only be by block."""
        m, n, k = shape
        blocks = -(-k // 128)
        found = []
        for name, by_block, lines in (
                ("a_scale", (m, blocks), (m, 1)),
                ("b_scale", (blocks, -(-n // 128)), (1, n))):
            values = said[name]
            if values is not None and np.shape(values) == by_block != lines \
                    and np.size(values) != 1:
                found.append(name)
        if found:  # The other may be read as one, then.
            for name, by_block in (
                    ("a_scale", (m, blocks)),
                    ("b_scale", (blocks, -(-n // 128)))):
                if name not in found and said[name] is not None and (
                        np.shape(said[name]) == by_block):
                    found.append(name)
        return sorted(found)

    def _perhaps_shared(self, g, array):
        """The same in memory that is shared with the daemon, sometimes."""
        if array is None or g.chance(0.7):
            return array
        last = "F" if array.strides[-2] < array.strides[-1] else "C"
        if array.ndim > 2:
            last = "C"
        shared = self.client.empty(array.shape, array.dtype, order=last)
        shared[...] = array
        return shared

    def _run(self, number):
        g = Generator(number)
        a_type, b_type = self._types(g)
        m, n, k = g.size(40), g.size(300), g.size(300)
        high = 1 if a_type == np.float16 or a_type.itemsize == 1 else 4
        batch = g.one(((), (), (2,), (0,)))
        a = g.matrix(a_type, high, *batch, m, k)
        b = g.matrix(b_type, high, *g.one(((), batch)), k, n)
        said = self._options(g, a_type, (m, n, k))
        c = None
        if said["beta"] or g.chance(0.1):
            dtype = said["out_dtype"] or _default(a_type, b_type)
            if g.chance(0.3):
                dtype = np.dtype(F32)
            c = g.matrix(dtype, 4, *batch, m, n)
        if g.chance(0.02):
            c = None
        form = a_type in _NAMES and b_type in _NAMES and form_of(
            _NAMES[a_type], _NAMES[b_type], (said["precision"] or "").upper(),
            {np.float16: "f16", np.float32: "f32", np.int32: "s32",
             None: ""}[said["accumulate"]],
            said["saturate"], said["bits"] == "xor") or None
        if said["bits"] == "and" and a_type != np.bool_:
            form = None
        wrong = self._wrong(a_type, b_type, c, said, form, (m, n, k))
        label = f"{number}: {a_type} {b_type} {(m, n, k)} {batch} " + str(
            {name: value for name, value in said.items()
             if value is not None and value is not False})
        a, b, c = (self._perhaps_shared(g, array) for array in (a, b, c))
        try:
            product = self.client.product(a, b, c=c, **said)
        except gemmd.Error as error:
            self.assertIsInstance(
                error, (gemmd.InvalidArgument, gemmd.Unimplemented), label)
            self.assertTrue(wrong, f"{label}: {error}")
            named = re.match(r"(\w+): ", error.message)
            self.assertIsNotNone(named, f"{label}: {error}")
            self.assertIn(named[1], wrong, f"{label}: {error}")
            self.assertNotRegex(error.message,
                                r"problem\.|EXTENT|\b[sf]32\b|\bbf16\b")
            return False
        self.assertFalse(wrong, label)
        scales = said["a_scale"], said["b_scale"]
        if self._blocks(said, (m, n, k)):
            x = sums(a, b, *scales)
        else:
            x = sums(a, b, xor=form.xor)
            for scale, axes in zip(scales, ((-1, 1), (1, -1))):
                x = x if scale is None else x * np.reshape(wide(scale), axes)
        expected = epilogue(
            x, c=c, **{name: said[name] for name in (
                "alpha", "beta", "bias", "activation", "out_scale")})
        check(self, label, said["activation"], product, expected,
              _NAMES[product.d.dtype])
        return True

    def test_each_is_answered_rightly_or_refused_by_name(self):
        served = sum(self._run(number) for number in range(COUNT))
        self.assertGreater(served, COUNT // 4)
        self.assertLess(served, COUNT * 3 // 4)


if __name__ == "__main__":
    unittest.main()
