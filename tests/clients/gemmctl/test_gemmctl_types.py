"""gemmctl with every type, batches and all that says how a product is
computed, against a daemon on the host device.

GEMMD_BUILD names the build folder.
"""

import json
import unittest

import gemmd
import ml_dtypes
import numpy as np

from gemmctl_case import FAILED, USAGE, GemmctlCase, integers, wide

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)


class GemmctlTypesTest(GemmctlCase):
    daemon_flags = ("--admin-calls",)  # For models.

    def test_f32_is_multiplied_as_it_is(self):
        a = np.random.default_rng(1).random((5, 300), np.float32)
        b = np.random.default_rng(2).random((300, 3), np.float32)
        d = self.multiply(a, b)
        self.assertEqual(d.dtype, np.float32)
        np.testing.assert_allclose(d, wide(a) @ wide(b), rtol=1e-5)
        rough = self.multiply(a, b, "--precision", "fast")
        self.assertGreater(np.max(np.abs(rough - wide(a) @ wide(b))),
                           np.max(np.abs(d - wide(a) @ wide(b))))

    def test_fp8_pairs(self):
        for a_type, b_type in ((E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3),
                               (E5M2, E5M2)):
            a = integers(5, 48, dtype=a_type)
            b = integers(48, 3, dtype=b_type)
            names = {E4M3: "e4m3", E5M2: "e5m2"}
            d = self.multiply(a, b, "--dtype", names[a_type], "--b-type",
                              names[b_type], "--d-type", "f32")
            np.testing.assert_array_equal(d, wide(a) @ wide(b))

    def test_fp8_results_are_read_again(self):
        a, b = integers(5, 48, low=0, high=2), integers(48, 3, low=0, high=2)
        d = self.multiply(a, b, "--dtype", "e4m3").view(E4M3)
        expected = (wide(a) @ wide(b)).astype(np.float32).astype(E4M3)
        np.testing.assert_array_equal(wide(d), wide(expected))
        again = self.multiply(d, np.eye(3, dtype=E4M3), "--dtype=e4m3",
                              "--d-type=f32")
        np.testing.assert_array_equal(again, wide(d))

    def test_elements_without_a_type_need_one(self):
        name = self.save("a.npy", integers(4, 4, dtype=E4M3))
        error = self.run_gemmctl("matmul", name, name, "-o",
                                 self.path("d.npy"), code=FAILED)
        self.assertIn("--dtype e4m3 or e5m2", error)

    def test_integers(self):
        for a_type, b_type in ((np.int8, np.int8), (np.int8, np.uint8),
                               (np.uint8, np.int8), (np.uint8, np.uint8)):
            a = integers(5, 32, dtype=a_type, low=0, high=100)
            b = integers(32, 3, dtype=b_type, low=0, high=100)
            d = self.multiply(a, b)
            self.assertEqual(d.dtype, np.int32)
            np.testing.assert_array_equal(
                d, a.astype(np.int32) @ b.astype(np.int32))
        small = self.multiply(a, b, "--d-type", "s8")
        self.assertEqual(small.dtype, np.int8)
        np.testing.assert_array_equal(small, 127)
        # 255 * 255 * 40000 is beyond s32.
        a, b = np.full((1, 40000), 255, "u1"), np.full((40000, 1), 255, "u1")
        self.assertLess(self.multiply(a, b)[0, 0], 0)
        self.assertEqual(self.multiply(a, b, "--saturate")[0, 0], 2**31 - 1)

    def test_bits(self):
        a, b = integers(5, 40, low=0, high=2) > 0, integers(40, 3) > 0
        both = self.multiply(a, b)
        self.assertEqual(both.dtype, np.int32)
        np.testing.assert_array_equal(
            both, a.astype(np.int32) @ b.astype(np.int32))
        columns = self.multiply(np.asfortranarray(a), np.asfortranarray(b))
        np.testing.assert_array_equal(columns, both)

    def test_f16_sums(self):
        a, b = np.ones((1, 4096), np.float16), np.ones((4096, 1), np.float16)
        self.assertEqual(self.multiply(a, b, "--d-type=f32")[0, 0], 4096)
        # Above 2048 f16 has no odd integers.
        sums = self.multiply(a, b, "--acc", "f16", "--d-type=f32")[0, 0]
        self.assertLessEqual(sums, 4096)
        self.multiply(a, b, "--accumulate", "f16", "--invariant")

    def test_batches(self):
        a = integers(2, 3, 5, 16, dtype=np.int8)
        b = integers(2, 3, 16, 7, dtype=np.int8)
        whole = a.astype(np.int32) @ b.astype(np.int32)
        for order in "row", "column":
            np.testing.assert_array_equal(
                self.multiply(a, b, "--order", order), whole)
        np.testing.assert_array_equal(
            self.multiply(a, b[0, 0]),
            a.astype(np.int32) @ b[0, 0].astype(np.int32))
        np.testing.assert_array_equal(
            self.multiply(a[0, 0], b[:, :1].reshape(2, 16, 7)),
            a[0, 0].astype(np.int32) @ b[:, 0].astype(np.int32))
        c = integers(2, 3, 5, 7)
        np.testing.assert_array_equal(
            self.multiply(a, b, "--d-type=f32", "--beta=2", "--c",
                          self.save("c.npy", c)), whole + 2 * c)
        error = self.refuse(a, b[:1])
        self.assertIn("2 x 3 x 5 x 16", error)
        self.assertIn("1 x 3 x 16 x 7", error)

    def test_tensors_of_every_type(self):
        arrays = {"f32": integers(3, 4), "bf16": integers(3, 4, dtype=BF16),
                  "f16": integers(3, 4, dtype=np.float16),
                  "s8": integers(3, 4, dtype=np.int8),
                  "u8": integers(3, 4, dtype=np.uint8, low=0),
                  "s32": integers(3, 4, dtype=np.int32),
                  "e4m3": integers(3, 4, dtype=E4M3),
                  "e5m2": integers(3, 4, dtype=E5M2),
                  "b1": integers(3, 12) > 0}
        for name, array in arrays.items():
            for order in (array, np.asfortranarray(array),
                          np.stack([array, array[::-1]])):
                handle = self.run_gemmctl(
                    "tensor", "upload", self.save("x.npy", order), "--dtype",
                    name).strip()
                self.assertIn(name, self.run_gemmctl("tensor", "describe",
                                                     handle))
                self.run_gemmctl("tensor", "download", handle, "-o",
                                 self.path("y.npy"))
                back = np.load(self.path("y.npy"))
                if back.dtype != order.dtype:
                    back = back.view(order.dtype)
                np.testing.assert_array_equal(wide(back), wide(order))
        stack = self.run_gemmctl("tensor", "create", "3", "4", "--count", "2",
                                 "--dtype", "s8").strip()
        self.assertIn("2 x 3 x 4 s8",
                      self.run_gemmctl("tensor", "describe", stack))

    def test_a_tensor_lives_no_shorter_than_it_was_asked_for(self):
        for time, seconds in (("500ms", 1), ("1s", 1), ("1.5", 2)):
            said = self.run_gemmctl("tensor", "create", "2", "2", "--ttl",
                                    time, "--json")
            self.assertEqual(int(json.loads(said)["ttl_s"]), seconds)

    def test_a_tensor_serves_a_batch(self):
        b = integers(16, 7, dtype=np.int8)
        handle = self.run_gemmctl("tensor", "upload",
                                  self.save("b.npy", b)).strip()
        a = integers(3, 5, 16, dtype=np.int8)
        self.run_gemmctl("matmul", self.save("a.npy", a), f"tensor:{handle}",
                         "-o", self.path("d.npy"))
        np.testing.assert_array_equal(
            np.load(self.path("d.npy")),
            a.astype(np.int32) @ b.astype(np.int32))

    def test_weights_of_few_bits(self):
        a = integers(5, 17, dtype="f2")
        for name, weights in (
                ("s4", integers(17, 3, dtype=np.int8) % 16 - 8),
                ("u4", integers(17, 3, dtype=np.int8).astype("u1") % 16),
                ("s8", integers(17, 3, dtype=np.int8))):
            self.run_gemmctl("matmul", self.save("a.npy", a),
                             self.save("b.npy", weights), "-o",
                             self.path("d.npy"), "--dtype", "f16", "--b-type",
                             name, "--d-type", "f32")
            np.testing.assert_array_equal(
                np.load(self.path("d.npy")),
                a.astype("f4") @ weights.astype("f4"), name)
            handle = self.run_gemmctl("tensor", "upload", self.path("b.npy"),
                                      "--dtype", name).strip()
            self.run_gemmctl("tensor", "download", handle, "-o",
                             self.path("y.npy"))
            np.testing.assert_array_equal(np.load(self.path("y.npy")), weights)
        error = self.run_gemmctl("tensor", "upload",
                                 self.save("b.npy", np.int8([[1, 8]])),
                                 "--dtype", "s4", code=1)
        self.assertIn("has an element 8; allowed as s4: -8 to 7", error)

    def test_quantized_tensors(self):
        generator = np.random.default_rng(5)
        elements = generator.integers(0, 16, (70, 3))
        scales = np.exp2(generator.integers(-2, 3, (3, 3)))
        zeros = generator.integers(-9, 10, (3, 3))
        weights = gemmd.quantized(elements, scales, zeros, dtype="u4", axis=0)
        x = integers(5, 70)
        due = wide(x) @ weights.dequantize(np.float64)
        self.save("x.npy", x)
        self.save("xt.npy", x.T)
        client = gemmd.Client(self.address)
        self.addCleanup(client.close)
        by_groups = client.tensor(weights)
        by_lines = client.tensor(gemmd.quantize(
            np.ones((70, 3)), np.int8, group=None, axis=0))
        as_a = client.tensor(weights.T)
        for tensor, says in (
                (by_groups, "quantized by groups of 32 with zero points, "),
                (by_lines, "quantized by groups of all of k, ")):
            self.assertIn(says, self.run_gemmctl("tensor", "describe",
                                                 tensor.handle))
        for a, b, expected in (("x.npy", by_groups, due),
                               (as_a, "xt.npy", due.T)):
            a, b = (self.path(x) if isinstance(x, str)
                    else f"tensor:{x.handle}" for x in (a, b))
            self.run_gemmctl("matmul", a, b, "-o", self.path("d.npy"),
                             "--dtype", "bf16", "--d-type", "f32")
            np.testing.assert_array_equal(np.load(self.path("d.npy")),
                                          expected)
        error = self.run_gemmctl(
            "matmul", f"tensor:{by_groups.handle}", f"tensor:{as_a.handle}",
            "-o", self.path("d.npy"), code=USAGE)
        self.assertIn("are quantized; allowed: one of them", error)
        error = self.run_gemmctl(
            "matmul", self.path("x.npy"), f"tensor:{by_lines.handle}", "-o",
            self.path("d.npy"), code=USAGE)
        self.assertIn("b_type is s8", error)
        for tensor, bits in (by_groups, "u4"), (by_lines, "s8"):
            said = self.run_gemmctl("model", "create", f"of-{bits}", "--b",
                                    tensor.handle)
            self.assertIn(": A bf16 ", said)

    def test_help_tells_of_four_bits(self):
        for words in ("matmul",), ("tensor", "upload"):
            said = self.run_gemmctl(*words, "--help")
            self.assertIn("s4", said)
            self.assertIn("u4", said)

    def test_refusals_name_what_is_allowed(self):
        s8, f16 = integers(4, 4, dtype=np.int8), integers(4, 4, dtype="f2")
        for words, says in (
                ((s8, integers(4, 4, dtype="f4")),
                 ("b_type is f32", "s8, u8")),
                ((s8, s8, "--dtype", "s4"), ("b_type is s4", "bf16, f16")),
                ((s8, s8, "--precision", "tf32"), ("precision", "default")),
                ((f16, f16, "--acc", "s32"), ("accumulator", "f32, f16")),
                ((f16, f16, "--d-type", "s8"), ("d_type is s8", "e4m3")),
                ((f16, f16, "--saturate"), ("saturate", "false")),
                ((f16, f16, "--op", "nand"), ("nand", "and, xor")),
                ((f16, f16, "--d-type", "f64"), ("--d-type", "bf16"))):
            error = self.refuse(*words)
            for text in says:
                self.assertIn(text, error)

    def test_kernels_are_prepared_for_what_is_asked(self):
        # A row-major D is computed as its transpose, with A and B exchanged.
        for words, name in ((("--dtype", "e4m3", "--b-type", "e5m2"),
                             "gemm_e5m2-e4m3_"),
                            (("--dtype", "f16", "--acc", "f16"), "gemm_f16-f16"),
                            (("--dtype", "s8", "--saturate", "--batch", "3"),
                             "gemm_s8-clamp_")):
            self.assertIn(name, self.run_gemmctl("kernel", "prepare", "64",
                                                 "64", "64", *words))


if __name__ == "__main__":
    unittest.main()
