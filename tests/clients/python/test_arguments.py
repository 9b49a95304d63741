"""What no call can be made of is an error of the client's that names the
argument, whichever client and method it goes to."""

import math
import unittest
import warnings

import grpc
import numpy as np

import gemmd
from arguments_case import ArgumentsCase

F32 = np.float32
A, B = np.ones((2, 4), F32), np.ones((4, 3), F32)
HALF = "a\udc80"  # What os.fsdecode makes of bytes that are no UTF-8.


class ArgumentsTest(ArgumentsCase):
    def test_options_of_products(self):
        for client in self.both():
            for name, value in (
                    ("device", 0), ("device", HALF), ("device", b"host"),
                    ("activation", ["relu"]), ("precision", [None]),
                    ("bits", {}), ("invariant", None), ("invariant", 2),
                    ("saturate", "no"), ("return_amax", "no"),
                    ("return_amax", np.ones(2)),
                    ("return_pre_activation", np.ones(2)),
                    ("out_order", np.array(["C", "F"])),
                    ("out_dtype", "f4,("), ("out_dtype", HALF),
                    ("alpha", np.complex64(1 + 2j)), ("alpha", 1 + 2j),
                    ("alpha", np.array(1 + 2j)), ("beta", np.complex128(1)),
                    ("alpha", 10**400), ("beta", -10**400),
                    ("alpha", 1e39), ("beta", -1e39), ("alpha", np.ones(2)),
                    ("beta", np.zeros(1, "m8[s]")),
                    ("alpha", np.ma.masked)):
                with self.subTest(f"{name}={value!r:.20}", client=client):
                    option = {name: value}
                    self.refused(name, client.matmul, A, B, **option)
                    self.refused(rf"groups\[0\]: {name}",
                                 client.matmul_grouped, [A], [B], **option)
                    with self.assertRaisesRegex(gemmd.InvalidArgument, name):
                        with client.sequence() as s:
                            s.matmul(A, B, **option)
            with self.assertRaisesRegex(gemmd.Unimplemented, "accumulate"):
                client.matmul(A, B, accumulate="f4,(")

    def test_an_unknown_option_is_one_of_matmul(self):
        said = r"^matmul\(\) got an unexpected keyword argument 'alhpa'"
        for client in self.both():
            with self.assertRaisesRegex(TypeError, said):
                client.matmul(A, B, alhpa=2)
            with self.assertRaisesRegex(TypeError, said):
                client.matmul_grouped([A], [B], alhpa=2)
            with self.assertRaisesRegex(TypeError, said):
                with client.sequence() as s:
                    s.matmul(A, B, alhpa=2)

    def test_values_beyond_float32_are_refused(self):
        for name, value in (
                ("bias", np.array([1, -1e39, 1])),
                ("a_scale", np.array([[1], [1e39]], np.longdouble)),
                ("b_scale", 1e300)):
            for client in self.both():
                with self.subTest(name, client=client):
                    self.refused(f"{name}: .* is beyond what float32 holds",
                                 client.matmul, A, B, **{name: value})
                    self.refused(rf"groups\[0\]: {name}",
                                 client.matmul_grouped, [A], [B],
                                 **{name: [value]})

    def test_infinite_values_stay_infinite(self):
        for client in self.both():
            d = client.matmul(A, B, bias=np.array([-math.inf, 0, 0]),
                              b_scale=np.array([[1, math.inf, 1]]))
            self.assertEqual(d.tolist(), 2 * [[-math.inf, math.inf, 4]])

    def test_switches_of_numpy_are_switches(self):
        for client in self.both():
            d, amax = client.matmul(A, B, return_amax=np.True_, invariant=1,
                                    saturate=np.False_)
            self.assertEqual((d[0, 0], amax), (4, 4))
            self.assertEqual(client.matmul(A, B, alpha=np.float64(2))[0, 0], 8)
            for alpha in -np.inf, 3.4028235e38:  # As float32 has it.
                d = client.matmul(A[:, :1], B[:1], alpha=alpha)
                self.assertEqual(d[0, 0], np.float32(alpha))

    def test_arrays_of_one_number_are_that(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for client in self.both():
                d = client.matmul(A, B, alpha=np.array([[2]]), out_scale=[2],
                                  timeout=np.array([60.0]))
                self.assertEqual(d[0, 0], 16)

    def test_what_is_no_sequence_of_groups(self):
        for client in self.both():
            self.refused("a: type is no array", client.matmul, np.ndarray, B)
            self.refused("a: is no sequence", client.matmul_grouped, None, [B])
            self.refused("b: is no sequence", client.matmul_grouped, [A], None)
            for name in "device", "idempotency_key":
                for wrong in HALF, 5:
                    self.refused(name, lambda: client.sequence(**{
                        name: wrong}).__enter__())

    def test_of_tensors(self):
        for client in self.both():
            for name, value in (
                    ("label", HALF), ("label", 5), ("device", 0),
                    ("device", HALF), ("sparse", "no"), ("ttl_s", -0.5),
                    ("ttl_s", math.nan), ("ttl_s", math.inf), ("ttl_s", 1e30),
                    ("ttl_s", 10**400), ("ttl_s", np.complex64(1j)),
                    ("quantization", 32), ("order", np.array(["C", "F"]))):
                with self.subTest(f"{name}={value!r:.20}", client=client):
                    self.refused(name, client.zeros, (2, 2), F32,
                                 **{name: value})
                    if name in ("label", "ttl_s"):
                        self.refused(name, client.tensor, A, **{name: value})
            for shape in (2.9, 3), (3.0, 3), "34", (2**70, 2), (2, -2**70), (
                    1, 2, 3), None, 5:
                self.refused("shape", client.zeros, shape, F32)
            self.refused("dtype: .*; the nearest is np.float32", client.zeros,
                         (2, 2), np.float64)
            for handle in HALF, 5, b"0" * 32:
                self.refused("handle", client.attach, handle)

    def test_words_that_are_no_types(self):
        for client in self.both():
            for word in "bf16", "fp16", "e4m3", "no such":
                says = (f": '{word}' is no type that numpy knows; allowed: a "
                        "type or its name, such as float32, float16, bfloat16,"
                        " float8_e4m3fn, .*uint4$")
                self.refused(f"dtype{says}", client.zeros, (2, 2), word)
                self.refused(f"out_dtype{says}", client.matmul, A, B,
                             out_dtype=word)
            d = client.matmul(A, B, out_dtype="bfloat16")
            self.assertEqual(d.dtype.name, "bfloat16")

    def test_times_to_live_are_not_cut_off(self):
        for client in self.both():
            for asked, found in ((0.5, 1), (1, 1), (1.25, 2),
                                 (np.float32(3), 3)):
                tensor = client.zeros((np.int64(2), np.uint8(2)), F32,
                                      ttl_s=asked)
                self.assertEqual(tensor.info().ttl_s, found)
                tensor.delete()
            tensor = client.zeros((2, 2), F32)
            self.assertGreater(tensor.info().ttl_s, 3)
            tensor.delete()

    def test_of_kernels(self):
        for key in HALF, 5:
            self.refused("key", self.client.kernel, key)
            self.refused("key", self.client.evict, key)
        for wrong in ([5], 5, [HALF]):
            self.refused("problems", self.client.prepare, wrong)
            self.refused("problems", self.client.prepare, groups=[wrong])
        self.refused("device", self.client.prepare, device=5)

    def test_of_bits(self):
        packed = np.zeros((2, 1), np.uint8)
        self.refused("width: 7.5 is no integer", gemmd.Bits, packed, 7.5)
        self.refused("order: 'K'", gemmd.Bits, packed, 8, "K")
        self.refused("width: -3; allowed: from 0", gemmd.Bits, packed[:, :0],
                     -3)

    def test_bits_and_compressed_matrices_are_no_arrays(self):
        x = np.ones((4, 4), np.float32)
        for client in self.both():
            for matrix in (gemmd.Bits(np.zeros((4, 1), np.uint8), 4),
                           gemmd.sparse24(x, prune=True)):
                kind = type(matrix).__name__
                self.refused(f"bias: is {kind}; allowed: an array",
                             client.matmul, x, x, bias=matrix)
                self.refused(f"array: is {kind}", gemmd.quantize, matrix)
            self.refused("c: is Bits; allowed: an array", client.matmul, x, x,
                         c=gemmd.Bits(np.zeros((4, 1), np.uint8), 4), beta=1)
            with self.assertRaisesRegex(gemmd.Unimplemented, "tensors of bool"):
                client.tensor(gemmd.Bits(np.zeros((4, 1), np.uint8), 4))

    def test_what_is_no_array_is_named(self):
        for client in self.both():
            for wrong in None, 3.0, "a.npy", b"a":
                kind = type(wrong).__name__
                self.refused(f"a: {kind} has 0 dimensions; matrices have 2",
                             client.matmul, wrong, B)

    def test_thresholds_of_streams(self):
        for client in self.both(stream_bytes=math.inf):
            client.matmul(A, B)
        for wrong, said in ((-1, "-1; allowed: from 0"), (math.nan, "nan"),
                            ("1MiB", "'1MiB' is not a real number")):
            self.refused(f"stream_bytes: {said}", gemmd.Client,
                         "localhost:1", stream_bytes=wrong)

    def test_files(self):
        self.refused("ca_file: 5 is no path", gemmd.Client, "localhost:1",
                     ca_file=5)
        self.refused("ca_file is 'a", gemmd.Client, "localhost:1",
                     ca_file="a\0b")
        for wrong in 5, grpc.access_token_call_credentials("token"):
            self.refused("credentials: .*; allowed: grpc.ChannelCredentials",
                         gemmd.Client, "localhost:1", credentials=wrong)
        self.refused("token_file is ''; allowed: a path, None", gemmd.Client,
                     "localhost:1", token_file="")


if __name__ == "__main__":
    unittest.main()
