"""What Triton's client is given is what our own client gets, bit for bit."""

import unittest

import numpy as np

from triton_case import (BF16, TritonCase, given, service_pb2 as api,
                         values)


class InferTest(TritonCase):
    def check(self, a, b, parameters=None, **options):
        """`options` are those of our own client; C and the like go as inputs,
        too."""
        inputs = {"A": a, "B": b}
        for name in ("c", "bias", "a_scale", "b_scale"):
            if name in options:
                inputs[name.upper()] = options[name]
        own = self.gemmd.matmul(a, b, **options)
        theirs = self.product(inputs, parameters=parameters)
        self.assertEqual(theirs.dtype, own.dtype)
        self.assertEqual(theirs.shape, own.shape)
        self.assertEqual(theirs.tobytes(), own.tobytes())
        return theirs

    def test_every_type(self):
        for dtype in (np.float32, np.float16, BF16, np.int8, np.uint8):
            with self.subTest(dtype=np.dtype(dtype).name):
                d = self.check(values(37, 65, dtype=dtype),
                               values(65, 21, dtype=dtype))
                integers = np.dtype(dtype).kind in "iu"
                self.assertEqual(d.dtype, np.int32 if integers else dtype)

    def test_pairs_of_integers(self):
        a, b = values(9, 33, dtype=np.int8), values(33, 5, dtype=np.uint8)
        d = self.check(a, b)
        np.testing.assert_array_equal(d, a.astype(np.int32) @ b)
        self.check(b.T.copy(), a.T.copy())

    def test_bytes_as_they_are(self):
        """Of a type that the client's version may know nothing of."""
        a, b = values(5, 6, dtype=BF16), values(6, 7, dtype=BF16)
        request = api.ModelInferRequest(model_name="matmul")
        for name, array in (("A", a), ("B", b)):
            request.inputs.add(name=name, datatype="BF16", shape=array.shape)
            request.raw_input_contents.append(array.tobytes())
        answer = self.stub.ModelInfer(request)
        self.assertEqual(answer.outputs[0].datatype, "BF16")
        self.assertEqual(answer.raw_output_contents[0],
                         self.gemmd.matmul(a, b).tobytes())

    def test_numpy_of_the_client_itself(self):
        a, b = values(4, 6), values(6, 5)
        result = self.infer({"A": a, "B": b})
        np.testing.assert_allclose(result.as_numpy("D"), a @ b, rtol=1e-5,
                                   atol=1e-5)
        self.assertIsNone(result.as_numpy("E"))

    def test_float32_is_accurate(self):
        a, b = values(64, 512), values(512, 64)
        d = self.check(a, b)
        exact = a.astype(np.float64) @ b
        bound = 2 * 512 * 2.0**-24 * (np.abs(a) @ np.abs(b))
        self.assertTrue(np.all(np.abs(d - exact) <= bound))

    def test_results_of_other_types(self):
        half = values(8, 16, dtype=np.float16), values(16, 8, dtype=np.float16)
        for name, dtype in (("FP32", np.float32), ("BF16", BF16)):
            self.check(*half, {"out_dtype": name}, out_dtype=dtype)
        whole = values(8, 16, dtype=np.int8), values(16, 8, dtype=np.int8)
        for name, dtype in (("FP32", np.float32), ("FP16", np.float16),
                            ("INT8", np.int8), ("UINT8", np.uint8)):
            self.check(*whole, {"out_dtype": name}, out_dtype=dtype)

    def test_ways_to_compute(self):
        a, b = values(8, 48), values(48, 8)
        for name in ("tf32", "fast"):
            self.check(a, b, {"precision": name}, precision=name)
        self.check(a, b, {"invariant": True}, invariant=True)
        half = a.astype(np.float16), b.astype(np.float16)
        self.check(*half, {"accumulate": "FP16"}, accumulate=np.float16)
        large = np.full((4, 1 << 18), 127, np.int8)
        d = self.check(large, large.T.copy(), {"saturate": True},
                       saturate=True)
        self.assertEqual(d[0, 0], np.iinfo(np.int32).max)

    def test_scalars_and_c(self):
        a, b, c = values(6, 10), values(10, 7), values(6, 7, seed=3)
        self.check(a, b, {"alpha": 0.5}, alpha=0.5)
        self.check(a, b, {"alpha": 2, "beta": "-0.25"}, alpha=2.0, beta=-0.25,
                   c=c)
        self.check(a, b, {"beta": 0}, beta=0.0, c=c)
        # C counts once, unless beta says how often.
        with_c = self.product({"A": a, "B": b, "C": c})
        self.assertEqual(with_c.tobytes(), self.gemmd.matmul(
            a, b, c=c, beta=1.0).tobytes())
        half = a.astype(np.float16), b.astype(np.float16)
        self.check(*half, {"beta": 1, "out_dtype": "FP16"}, beta=1.0, c=c,
                   out_dtype=np.float16)

    def test_c_says_what_d_is(self):
        # More than FP16 holds.
        a = np.full((2, 4), 300, np.float16)
        c = np.full((2, 2), 0.25, np.float32)
        d = self.check(a, a.T.copy(), {"beta": 1}, beta=1.0, c=c)
        self.assertEqual(d[0, 0], 360000.25)
        whole = a.astype(np.int8)
        for dtype in (np.float32, np.float16, BF16, np.int8, np.int32):
            with self.subTest(dtype=np.dtype(dtype).name):
                self.check(whole, whole.T.copy(), {"beta": 1}, beta=1.0,
                           c=c.astype(dtype))
        # Not read, it says so all the same.
        self.check(a, a.T.copy(), {"beta": 0}, beta=0.0, c=c)

    def test_epilogue(self):
        a, b = values(6, 10), values(10, 7)
        for activation in ("relu", "gelu", "gelu_tanh", "silu"):
            self.check(a, b, {"activation": activation},
                       activation=activation)
        self.check(a, b, bias=values(7, seed=1))
        self.check(a, b, bias=values(6, 1, seed=1))
        self.check(values(10), b, bias=values(7, seed=1))
        self.check(a, values(10), bias=values(6, seed=1))
        for shape in ((), (1,)):
            self.check(a, values(10), bias=values(*shape, seed=1))
            self.check(values(10), values(10), bias=values(*shape, seed=1))
        whole = values(6, 32, dtype=np.int8), values(32, 7, dtype=np.int8)
        self.check(*whole, {"out_dtype": "FP32"}, out_dtype=np.float32,
                   a_scale=values(6, seed=2), b_scale=values(7, seed=2))
        self.check(*whole, {"out_dtype": "FP16"}, out_dtype=np.float16,
                   a_scale=values(1, seed=2), b_scale=values(1, 7, seed=2))

    def test_vectors(self):
        a, b = values(6, 10), values(10, 7)
        self.assertEqual(self.check(a[0], b).shape, (7,))
        self.assertEqual(self.check(a, b[:, 0].copy()).shape, (6,))
        self.assertEqual(self.check(a[0], b[:, 0].copy()).shape, ())
        self.assertEqual(self.check(values(3, 6, 10), values(10)).shape, (3, 6))

    def test_batches(self):
        for a, b in (((3,), (3,)), ((3,), ()), ((), (3,)), ((1,), (3,)),
                     ((2, 3), (2, 3)), ((2, 3), ()), ((2, 3), (1, 1)),
                     # Matrices that serve some products and not others.
                     ((2, 3), (3,)), ((2, 1), (3,)), ((2, 1, 3), (1, 4, 1)),
                     ((2, 1), (1, 3)), ((0,), ()), ((0, 1), (3,))):
            with self.subTest(a=a, b=b):
                for dtype in (np.float32, np.int8):
                    self.check(values(*a, 5, 9, dtype=dtype),
                               values(*b, 9, 4, dtype=dtype))

    def test_nothing_to_compute(self):
        for m, n, k in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)):
            with self.subTest(m=m, n=n, k=k):
                self.check(values(m, k), values(k, n))

    def test_large_ones(self):
        self.check(values(700, 1501, dtype=BF16), values(1501, 900, dtype=BF16))

    def test_contents_in_place_of_bytes(self):
        def element_by_element(a, b, field):
            request = api.ModelInferRequest(model_name="matmul")
            for name, array in (("A", a), ("B", b)):
                tensor = request.inputs.add(
                    name=name, datatype={"f": "FP32", "i": "INT8",
                                         "u": "UINT8"}[array.dtype.kind],
                    shape=array.shape)
                getattr(tensor.contents, field).extend(array.ravel().tolist())
            answer = self.stub.ModelInfer(request)
            return answer.raw_output_contents[0]
        for dtype, field in ((np.float32, "fp32_contents"),
                             (np.int8, "int_contents"),
                             (np.uint8, "uint_contents")):
            a, b = values(40, 70, dtype=dtype), values(70, 30, dtype=dtype)
            self.assertEqual(element_by_element(a, b, field),
                             self.gemmd.matmul(a, b).tobytes())
        a, b = values(2, 3, dtype=np.int8), values(3, 2, dtype=np.int8)
        c = np.array([[-2**31, 2**31 - 1], [0, -1]], np.int32)
        request = api.ModelInferRequest(model_name="matmul")
        for name, array, datatype in (("A", a, "INT8"), ("B", b, "INT8"),
                                      ("C", c, "INT32")):
            request.inputs.add(
                name=name, datatype=datatype, shape=array.shape,
            ).contents.int_contents.extend(array.ravel().tolist())
        self.assertEqual(self.stub.ModelInfer(request).raw_output_contents[0],
                         self.gemmd.matmul(a, b, c=c, beta=1.0).tobytes())

    def test_what_a_client_says_of_its_request_is_given_back(self):
        result = self.client.infer(
            "matmul", [given("A", values(2, 2)), given("B", values(2, 2))],
            request_id="mine", priority=3, timeout=10_000_000,
            client_timeout=60, model_version="1")
        response = result.get_response()
        self.assertEqual(response.id, "mine")
        self.assertEqual((response.model_name, response.model_version),
                         ("matmul", "1"))
        self.assertEqual(response.parameters["device"].string_param, "host")


if __name__ == "__main__":
    unittest.main()
