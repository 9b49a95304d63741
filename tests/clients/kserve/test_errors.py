"""Requests that are wrong: each is refused with what is wrong about it, and the
daemon goes on."""

import random
import unittest

import grpc
import numpy as np

from triton_case import (TritonCase, given, service_pb2 as api, triton,
                         values)

INVALID, UNKNOWN = "INVALID_ARGUMENT", "NOT_FOUND"
MOST = 2**63 - 1


class ErrorsTest(TritonCase):
    def tearDown(self):
        d = self.product({"A": np.eye(3, dtype="f4"), "B": values(3, 2)})
        np.testing.assert_array_equal(d, values(3, 2))

    def wrong(self, text, inputs, code=INVALID, **options):
        self.refuse(code, text, self.product, inputs, **options)

    def request(self, *inputs, **fields):
        """`inputs` are (name, datatype, shape, bytes or None)."""
        request = api.ModelInferRequest(
            **{"model_name": "matmul", **fields})
        for name, datatype, shape, data in inputs:
            request.inputs.add(name=name, datatype=datatype, shape=shape)
            if data is not None:
                request.raw_input_contents.append(data)
        return request

    def wrong_raw(self, text, request, code=INVALID):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(request, timeout=60)
        self.assertEqual(caught.exception.code().name, code,
                         caught.exception.details())
        self.assertIn(text, caught.exception.details())
        self.assertLess(len(caught.exception.details()), 700)

    def wrong_bytes(self, message, text="", code=INVALID):
        call = self.client._channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer")
        with self.assertRaises(grpc.RpcError) as caught:
            call(message, timeout=60)
        self.assertEqual(caught.exception.code().name, code,
                         caught.exception.details())
        self.assertIn(text, caught.exception.details())

    def test_unknown_models(self):
        a = {"A": values(2, 2), "B": values(2, 2)}
        unknown = "Request for unknown model: 'nobody' is not found"
        self.wrong(unknown, a, UNKNOWN, model="nobody")
        self.wrong("version '7' is not found; allowed: 1", a, UNKNOWN,
                   model_version="7")
        for call in (self.client.get_model_metadata,
                     self.client.get_model_config,
                     self.client.get_inference_statistics):
            self.refuse(UNKNOWN, unknown, call, "nobody")
        for name in ("", "x" * 50_000, "\n\x1b[31m", "ä" * 200):
            self.wrong_raw("Request for unknown model",
                           self.request(model_name=name), UNKNOWN)

    def test_inputs(self):
        a, b = values(2, 3), values(3, 2)
        self.wrong("input 'B' is missing for model 'matmul'", {"A": a})
        self.wrong("input 'A' is missing", {})
        self.wrong("input 'C' is missing", {"A": a, "B": b},
                   parameters={"beta": 1.0})
        self.wrong("unexpected inference input 'X' for model 'matmul'; "
                   "allowed: A, B, C", {"A": a, "B": b, "X": a})
        self.refuse(INVALID, "input 'A' is given twice", self.client.infer,
                    "matmul", [given("A", a), given("A", a), given("B", b)])
        self.wrong_raw("unexpected inference input",
                       self.request(("A", "FP32", [1, 1], b"1234"),
                                    ("B", "FP32", [1, 1], b"1234"),
                                    ("N" * 30_000, "FP32", [1], b"1234")))

    def test_datatypes(self):
        b = ("B", "FP32", [1, 1], b"1234")
        for name in ("FP64", "BOOL", "INT64", "BYTES", "fp32", "", "X" * 9999,
                     "INT32"):
            self.wrong_raw("allowed: FP32, FP16, BF16, INT8, UINT8",
                           self.request(("A", name, [1, 1], b"1234"), b))
        for pair in ((np.float32, np.float16), (np.int8, np.float32),
                     (np.int32, np.int32)):
            with self.assertRaises(Exception) as caught:
                self.product({"A": values(2, 2, dtype=pair[0]),
                              "B": values(2, 2, dtype=pair[1])})
            self.assertIn(caught.exception.status(), (
                "StatusCode.INVALID_ARGUMENT", "StatusCode.UNIMPLEMENTED"))

    def test_lengths(self):
        b = ("B", "FP32", [2, 2], bytes(16))
        for size in (0, 15, 17, 12, 32, 1 << 20):
            self.wrong_raw(
                "input byte size mismatch for input 'A'. Expected 16, got "
                f"{size}",
                self.request(("A", "FP32", [2, 2], bytes(size)), b))
        self.wrong_raw("raw_input_contents is there 1 times; allowed: 2",
                       self.request(("A", "FP32", [2, 2], None), b))
        more = self.request(("A", "FP32", [2, 2], bytes(16)), b)
        more.raw_input_contents.append(b"")
        self.wrong_raw("raw_input_contents is there 3 times; allowed: 2", more)
        self.wrong_raw("Expected 16, got 0",
                       self.request(("A", "FP32", [2, 2], None)))

    def test_shapes(self):
        def product(a, b, text, code=INVALID, data=b""):
            self.wrong_raw(text, self.request(("A", "FP32", a, data),
                                              ("B", "FP32", b, data)), code)
        for bad in ([-1, 4], [4, -2**63], [MOST, MOST], [2**31, 1],
                    [2**62, 4], [MOST], [0, -1], [2**16] * 4, [2**31 - 256] * 3,
                    [0] * 3 + [2**31 - 256] * 3):
            product(bad, [1, 1], "unexpected shape")
        product([1] * 17, [1, 1], "17 dimensions; allowed: 0 to 16")
        product([1] * 5000, [1, 1], "5000 dimensions")
        product([], [1, 1], "unexpected shape [] for input 'A'", data=b"1234")
        product([1, 1], [], "unexpected shape [] for input 'B'", data=b"1234")
        # Nothing is sent, and much would be computed.
        product([10**6, 0], [0, 10**6], "a response is limited",
                "RESOURCE_EXHAUSTED")
        product([2**31 - 256, 0], [0, 2**31 - 256],
                "; allowed: 0 to 2146435072")
        product([2**31 - 256, 1, 0], [2**31 - 256, 1, 0, 1], "unexpected shape")
        a, b = values(2, 3), values(2, 3)
        self.wrong("its matrices have 3 columns, and those of B 2 rows",
                   {"A": a, "B": b})
        self.wrong("batch [2] does not go with that of B, [3]",
                   {"A": values(2, 2, 2), "B": values(3, 2, 2)})
        ok = {"A": values(2, 3), "B": values(3, 4)}
        for shape in ((2, 3), (4,), (1, 2, 4), (8,), (4, 2)):
            self.wrong("allowed: [2,4], the shape of D",
                       {**ok, "C": values(*shape)})
        for shape in ((2,), (3,), (2, 4), (1, 1, 4), (4, 1), (1,)):
            self.wrong("for input 'BIAS'; allowed: FP32 [4] or [2,1]",
                       {**ok, "BIAS": values(*shape)})
        # Without the dimensions that D lacks.
        for a, b, shape, allowed in (
                ((2, 3), (3,), (2, 1), "[1] or [2]"),
                ((3,), (3, 4), (1, 4), "[4] or [1]"),
                ((3,), (3,), (2,), "[1] or []")):
            self.wrong(f"for input 'BIAS'; allowed: FP32 {allowed}",
                       {"A": values(*a), "B": values(*b),
                        "BIAS": values(*shape)})
        self.wrong("for input 'BIAS'",
                   {**ok, "BIAS": values(4, dtype=np.float16)})
        self.wrong("for input 'A_SCALE'; allowed: FP32 [1], [2] or [2,1]",
                   {**ok, "A_SCALE": values(3)})
        self.wrong("for input 'B_SCALE'; allowed: FP32 [1], [4] or [1,4]",
                   {**ok, "B_SCALE": values(2)})

    def test_repeated_matrices_have_limits(self):
        self.wrong_raw("is to serve 262144 products", self.request(
            ("A", "INT8", [512, 1, 1, 1], bytes(512)),
            ("B", "INT8", [512, 1, 1], bytes(512))))
        side = 1 << 14
        self.wrong_raw("the limit of all of them", self.request(
            ("A", "INT8", [256, 1, 1, side], bytes(256 * side)),
            ("B", "INT8", [256, side, 0], b"")), "RESOURCE_EXHAUSTED")

    def test_parameters(self):
        ok = {"A": values(2, 2), "B": values(2, 2)}
        for parameters, text in (
                ({"alfa": 1}, "parameter 'alfa' is unknown; allowed for model "
                 "'matmul': alpha, beta, out_dtype"),
                ({"alpha": "one"}, "parameter 'alpha' is 'one'; "
                 "allowed: a number"),
                ({"alpha": True}, "is true; allowed: a number"),
                ({"alpha": "-1e300"}, "is '-1e300'; allowed: what FP32"),
                ({"beta": "1e39"}, "parameter 'beta' is '1e39'; allowed: "),
                ({"out_dtype": "FP8"}, "parameter 'out_dtype' is 'FP8'"),
                ({"out_dtype": 1}, "parameter 'out_dtype' is 1; allowed: a "
                 "text"),
                ({"activation": "tanh"}, "allowed: none, relu, gelu"),
                ({"activation": "relu d=f16"}, "allowed: none, relu, gelu"),
                ({"precision": "low"}, "allowed: default, tf32, fast"),
                ({"accumulate": "FP64"}, "parameter 'accumulate' is 'FP64'"),
                ({"accumulate": "BF16"}, "parameter 'accumulate' is 'BF16'; "
                 "allowed: FP32, FP16, INT32"),
                ({"accumulate": "UINT8"}, "'UINT8'; allowed: FP32, FP16"),
                ({"saturate": 1}, "is 1; allowed: true or false"),
                ({"invariant": "yes"}, "allowed: true or false"),
                ({"x" * 5000: "y"}, "is unknown")):
            self.wrong(text, ok, parameters=parameters)
        self.wrong("parameter 'sequence_", ok, sequence_id=7,
                   sequence_start=True)

    def test_outputs(self):
        ok = {"A": values(2, 2), "B": values(2, 2)}
        d = triton.InferRequestedOutput("D")
        np.testing.assert_array_equal(
            self.infer(ok, outputs=[d]).as_numpy("D"), self.product(ok))
        self.wrong("unexpected inference output 'E'", ok,
                   outputs=[triton.InferRequestedOutput("E")])
        self.wrong("unexpected inference output 'D'", ok, outputs=[d, d])
        self.wrong("'classification' of output 'D'", ok, "UNIMPLEMENTED",
                   outputs=[triton.InferRequestedOutput("D", class_count=3)])
        shared = triton.InferRequestedOutput("D")
        shared.set_shared_memory("region", 16)
        self.wrong("of output 'D' is not served", ok, "UNIMPLEMENTED",
                   outputs=[shared])
        region = triton.InferInput("A", [2, 2], "FP32")
        region.set_shared_memory("region", 16)
        self.refuse("UNIMPLEMENTED", "is in shared memory", self.client.infer,
                    "matmul", [region, given("B", values(2, 2))])

    def test_contents(self):
        def contents(datatype, shape, **fields):
            request = self.request(("B", "FP32", [1, 1], None))
            request.inputs[0].contents.fp32_contents.append(1)
            tensor = request.inputs.add(name="A", datatype=datatype,
                                        shape=shape)
            for field, numbers in fields.items():
                getattr(tensor.contents, field).extend(numbers)
            return request
        self.wrong_raw("Expected 8, got 4",
                       contents("FP32", [2, 1], fp32_contents=[1]))
        self.wrong_raw("allowed: fp32_contents, packed",
                       contents("FP32", [1, 1], int_contents=[1]))
        self.wrong_raw("allowed: raw_input_contents alone",
                       contents("FP16", [1, 1], fp32_contents=[1]))
        self.wrong_raw("are none of FP16; allowed: raw_input_contents alone",
                       contents("FP16", [1, 1]))
        self.wrong_raw("allowed: int_contents, packed",
                       contents("INT8", [1, 1], int_contents=[1],
                                bytes_contents=[b"1"]))
        self.wrong_raw("hold 128; allowed for INT8: -128 to 127",
                       contents("INT8", [2, 1], int_contents=[-128, 128]))
        self.wrong_raw("hold 256; allowed for UINT8: 0 to 255",
                       contents("UINT8", [1, 1], uint_contents=[256]))
        for count in (0, 1, 3, 1000):
            self.wrong_raw("more or fewer elements than its shape, 2",
                           contents("INT8", [2, 1], int_contents=[1] * count))
        # What is sent is small; what it says it is, is not.
        self.wrong_raw("more or fewer elements",
                       contents("INT8", [2**19, 2**20], int_contents=[1]))
        both = contents("FP32", [1, 1], fp32_contents=[1])
        both.raw_input_contents.extend([b"1234", b"1234"])
        self.wrong_raw("contents field must not be specified", both)

    def test_bytes_that_are_no_request(self):
        def field(number, payload, kind=2):
            def varint(value):
                out = b""
                while value > 127:
                    out += bytes([value & 127 | 128])
                    value >>= 7
                return out + bytes([value])
            return (varint(number << 3 | kind)
                    + (varint(len(payload)) if kind == 2 else b"") + payload)
        name = field(1, b"matmul")
        for message in (b"\xff", b"\x0a", b"\x0a\xff\xff\xff\xff\x0f", b"\x00",
                        field(1, b"\xff\xfe"),  # Not UTF-8.
                        name + field(5, field(1, b"\xc0")),
                        name + field(5, b"\x0a\x7f"),
                        name + field(4, b"\xff"),
                        name + field(3, b"", 3)):
            self.wrong_bytes(message)
        self.wrong_bytes(name * 65, "more than 64 fields")
        self.wrong_bytes(name + field(5, field(3, b"\x01") * 65),
                         "more than 64 fields")
        for big in (field(1, b"x" * 70_000), field(5, field(1, b"x" * 70_000)),
                    field(4, b"x" * 70_000),
                    (field(4, field(1, b"k")) + field(3, b"x" * 3000)) * 30):
            self.wrong_bytes(big, "64 KiB in all")
        # Unpacked numbers, which would be a field each.
        a = field(1, b"A") + field(2, b"FP32") + field(3, b"\x01\x01")
        self.wrong_bytes(
            name + field(5, a + field(5, field(6, b"1234", 5))), "packed")
        ints = field(1, b"A") + field(2, b"INT8") + field(3, b"\x01\x01")
        for numbers in (b"\x80", b"\xff" * 11, b"\x80" * 9 + b"\x01\x01",
                        b"\x01\x80"):
            self.wrong_bytes(
                name + field(5, ints + field(5, field(2, numbers))))

    def test_noise(self):
        request = self.request(("A", "FP32", [2, 2], bytes(16)),
                               ("B", "FP32", [2, 2], bytes(16)))
        request.inputs[0].parameters["p"].int64_param = 1
        request.inputs.add(name="BIAS", datatype="FP32", shape=[2])
        request.raw_input_contents.append(bytes(8))
        good = request.SerializeToString()
        call = self.client._channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer")
        random.seed(13)
        codes = set()
        for _ in range(1500):
            message = bytearray(good)
            for _ in range(random.randint(1, 4)):
                at = random.randrange(len(message))
                kind = random.randrange(4)
                if kind == 0:
                    message[at] = random.randrange(256)
                elif kind == 1:
                    message[at] ^= 1 << random.randrange(8)
                elif kind == 2 and len(message) > 2:
                    del message[at:at + random.randint(1, 8)]
                else:
                    message[at:at] = random.randbytes(random.randint(1, 8))
            try:
                call(bytes(message), timeout=60)
                codes.add("OK")
            except grpc.RpcError as error:
                codes.add(error.code().name)
        self.assertLessEqual(codes, {
            "OK", INVALID, UNKNOWN, "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"})
        self.assertIn(INVALID, codes)

    def test_a_message_that_is_too_long(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(self.request(
                ("A", "INT8", [1 << 26, 1], bytes(1 << 26)),
                ("B", "INT8", [1, 1], b"1")), timeout=60)
        self.assertEqual(caught.exception.code().name, "RESOURCE_EXHAUSTED")

    daemon_flags = ("--max-message-bytes=32MiB",)


if __name__ == "__main__":
    unittest.main()
