"""Products of tensors that are like earlier ones: the same request as if each
was checked anew, and no more work than that takes."""

import gc
import unittest
import weakref
from unittest import mock

import gemmd
import ml_dtypes
import numpy as np

from gemmd import alike, api, arrays, product
from gemmd.quantized import Quantization
from gemmd.sequence import Sequence
from gemmd.tensor import Tensor

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
S4 = np.dtype(ml_dtypes.int4)


class AlikeTest(unittest.TestCase):
    def setUp(self):
        alike._known.clear()
        self.made = 0

    def tensor(self, rows=64, columns=64, dtype=BF16, order="C", sparse=False,
               quantization=None):
        self.made += 1
        info = api.TensorInfo(
            rows=rows, columns=columns, order=arrays.wire_order(order),
            dtype=arrays.wire_type(dtype), handle=f"tensor {self.made}",
            sparsity=arrays.wire_sparsity(sparse))
        if quantization is not None:
            quantization.fill(info)
        return Tensor(None, info)

    def products(self):
        """Arguments of products of which none is like another one."""
        t = self.tensor
        plain = lambda: (t(), t())
        yield plain(), {}
        yield (t(), t().T), {}
        yield (t().T, t()), {}
        used = t()
        alike.call(used, used)
        yield (used.T, used), {}
        yield (t(32), t()), {}
        yield (t(), t(order="F")), {}
        yield (t(dtype=F32), t(dtype=F32)), {}
        yield (t(sparse=True), t()), {}
        yield (t(), t(dtype=S4, order="F",
                      quantization=Quantization(32))), {}
        yield (t(), t(dtype=S4, order="F",
                      quantization=Quantization(64))), {}
        yield (t(), t(dtype=S4, order="F")), {}
        for alpha in (2, 0.5, 0.0, -0.0, np.float32(2), "3"):
            yield plain(), {"alpha": alpha}
        for name, value in (
                ("out_dtype", np.float32), ("out_dtype", np.float16),
                ("out_order", "F"), ("device", "host"), ("invariant", True),
                ("activation", "relu"), ("activation", "gelu"),
                ("return_amax", True), ("return_pre_activation", True)):
            yield plain(), {name: value}
        yield plain(), {"c": t(), "beta": 0.0}
        yield plain(), {"c": t(), "beta": 0.5}
        yield plain(), {"c": t(dtype=F32), "beta": 0.5, "out_dtype": BF16}
        yield plain(), {"out": t()}
        yield plain(), {"out": t(order="F")}
        yield plain(), {"out": t(dtype=F32), "pre_activation_out": t(dtype=F32)}
        yield plain(), {"out_order": "F", "activation": "silu"}
        yield plain(), {"bias": t(1, dtype=F32)}
        yield plain(), {"bias": t(64, 1, dtype=F32, order="F")}
        yield plain(), {"bias": np.ones(64, F32)}
        yield plain(), {"bias": t(1, dtype=F32), "out_scale": t(1, 1, F32),
                        "a_scale": t(1, 1, F32), "b_scale": t(1, dtype=F32)}
        yield plain(), {"out": np.zeros((64, 64), BF16)}
        yield (t(), np.ones((64, 64), BF16)), {}

    def compare(self, found, expected):
        self.assertEqual(found.header.SerializeToString(),
                         expected.header.SerializeToString())
        self.assertEqual({name: data and bytes(data)
                          for name, data in found.buffers.items()},
                         {name: data and bytes(data)
                          for name, data in expected.buffers.items()})
        self.assertEqual((found.shape, found.order, found.dtype),
                         (expected.shape, expected.order, expected.dtype))
        self.assertEqual(found.result_shape(), expected.result_shape())
        self.assertEqual(found.travelling_bytes(),
                         expected.travelling_bytes())
        for (name, out), (other, expected_out) in zip(
                found.outs(), expected.outs(), strict=True):
            self.assertEqual(name, other)
            self.assertIs(out, expected_out)

    def test_requests_are_those_of_products_that_are_checked_anew(self):
        for _ in range(3):
            for operands, options in self.products():
                with self.subTest(options=options):
                    self.compare(alike.call(*operands, **options),
                                 product.Call(*operands, **options))

    def test_what_a_call_does_to_its_request_is_its_own(self):
        calls = []
        for _ in range(3):
            a, b = self.tensor(), self.tensor()
            calls.append(alike.call(a, b))
            self.compare(calls[-1], product.Call(a, b))
            calls[-1].header.d.name = "mine"
            calls[-1]._shared["d"] = None
        self.assertEqual(len({c.header.a.tensor for c in calls}), 3)

    def test_what_is_refused_is_refused_again(self):
        a, b, wide = self.tensor(), self.tensor(), self.tensor(32)
        for _ in range(3):
            with self.assertRaisesRegex(gemmd.InvalidArgument, "32 rows"):
                alike.call(a, wide)
            with self.assertRaisesRegex(gemmd.InvalidArgument, "activation"):
                alike.call(a, b, activation="ruly")
            with self.assertRaisesRegex(TypeError, "nonsense"):
                alike.call(a, b, nonsense=1)
            with self.assertRaisesRegex(gemmd.InvalidArgument, "alpha"):
                alike.call(a, b, alpha=[1])
            alike.call(a, b)

    def test_one_of_many_is_checked(self):
        a, b = self.tensor(), self.tensor()
        with mock.patch.object(product.Call, "_fill_header", autospec=True,
                               side_effect=product.Call._fill_header) as fill:
            s = Sequence(None, "", None)
            hidden = a
            for _ in range(100):
                hidden = s.matmul(hidden, b, alpha=0.5, activation="relu")
            for _ in range(100):
                alike.call(a, b, out=a)
        # A result is of another kind than a tensor.
        self.assertEqual(fill.call_count, 3)
        self.assertEqual([step.call.header.a.name for step in s._steps],
                         ["", *(f"d {i}" for i in range(99))])

    def test_tensors_are_not_kept(self):
        tensors = [self.tensor() for _ in range(4)]
        alike.call(tensors[0], tensors[1], c=tensors[2], beta=1.0,
                   out=tensors[3])
        gone = [weakref.ref(tensor) for tensor in tensors]
        tensors.clear()
        gc.collect()
        self.assertEqual([ref() for ref in gone], [None] * 4)

    def test_a_bounded_number_is_known(self):
        for rows in range(1, 3 * alike._MOST_KNOWN):
            alike.call(self.tensor(rows), self.tensor())
            self.assertLessEqual(len(alike._known), alike._MOST_KNOWN)


if __name__ == "__main__":
    unittest.main()
