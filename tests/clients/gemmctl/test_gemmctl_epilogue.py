"""gemmctl with bias, scales, activations and second results, against a daemon
on the host device. GEMMD_BUILD names the build folder.
"""

import subprocess
import unittest

import ml_dtypes
import numpy as np

from epilogue_reference import epilogue, sums
from host_daemon import BUILD
from gemmctl_case import FAILED, USAGE, GemmctlCase, integers, wide

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


def powers(*shape):
    """Of two, so that products with them are exact."""
    generator = np.random.default_rng([*shape, 1])
    return np.exp2(generator.integers(-2, 3, shape)).astype(np.float32)


class GemmctlEpilogueTest(GemmctlCase):
    def setUp(self):
        self.a = integers(5, 300, dtype=np.float16)
        self.b = integers(300, 7, dtype=np.float16)

    def test_bias_belongs_to_columns_or_rows(self):
        for shape in ((7,), (1, 7), (5, 1)):
            bias = integers(*shape, low=-90, high=90)
            d = self.multiply(self.a, self.b, "--d-type=f32", "--bias",
                              self.save("bias.npy", bias))
            np.testing.assert_array_equal(d, sums(self.a, self.b) + bias)
        square = integers(5, 300, dtype=np.float16), integers(
            300, 5, dtype=np.float16)
        for shape in ((5,), (5, 1)):
            bias = integers(*shape, low=-90, high=90)
            d = self.multiply(*square, "--d-type=f32", "--bias",
                              self.save("bias.npy", bias))
            np.testing.assert_array_equal(d, sums(*square) + bias)

    def test_scales_of_rows_columns_and_all(self):
        for a_scale, b_scale in ((powers(5), powers(7)), (2.0, powers(7)),
                                 (powers(5), 0.25)):
            words = []
            for name, values in (("a", a_scale), ("b", b_scale)):
                text = str(values) if np.ndim(values) == 0 else self.save(
                    f"{name}_scale.npy", values)
                words += [f"--{name}-scale", text]
            d = self.multiply(self.a, self.b, "--d-type=f32", *words)
            np.testing.assert_array_equal(
                d, sums(self.a, self.b, a_scale, b_scale))
        d = self.multiply(self.a, self.b, "--d-type=f32", "--a-scale",
                          self.save("one.npy", np.float32(4)))
        np.testing.assert_array_equal(d, 4 * sums(self.a, self.b))

    def test_scales_of_no_columns(self):
        """None are also those of all blocks, which floats have not."""
        d = self.multiply(self.a[:, :100], self.b[:100, :0], "--a-scale=2",
                          "--b-scale", self.save("bs.npy", powers(0)))
        self.assertEqual(d.shape, (5, 0))
        e = np.ones((2, 130), np.float32)
        d = self.multiply(e, e.T[:, :0], "--dtype=e4m3", "--a-scale",
                          self.save("as.npy", powers(2, 2)), "--b-scale",
                          self.save("bs.npy", powers(2, 0)))
        self.assertEqual(d.shape, (2, 0))

    def test_scales_by_block(self):
        a = integers(5, 300, dtype=E4M3)
        b = integers(300, 200, dtype=E4M3)
        a_scale, b_scale = powers(5, 3), powers(3, 2)
        for order in (np.ascontiguousarray, np.asfortranarray):
            d = self.multiply(a, b, "--dtype=e4m3", "--d-type=f32",
                              "--a-scale", self.save("as.npy", order(a_scale)),
                              "--b-scale", self.save("bs.npy", order(b_scale)))
            np.testing.assert_array_equal(d, sums(a, b, a_scale, b_scale))
        a, b = a[:1, :100], b[:100]  # One value is by block beside others.
        d = self.multiply(a, b, "--dtype=e4m3", "--d-type=f32", "--a-scale=2",
                          "--b-scale", self.save("bs.npy", b_scale[:1]))
        np.testing.assert_array_equal(
            d, sums(a, b, np.full((1, 1), 2), b_scale[:1]))

    def test_every_step_in_its_order(self):
        c = integers(5, 7)
        bias = integers(7)
        for activation in ("relu", "gelu", "gelu_tanh", "silu"):
            for order in ("row", "column"):
                d = self.multiply(
                    self.a, self.b, "--d-type=f32", f"--order={order}",
                    "--alpha=-0.5", "--beta=2", "--c", self.save("c.npy", c),
                    "--bias", self.save("bias.npy", bias), "--a-scale=0.015625",
                    "--b-scale=0.5", "--activation", activation,
                    "--d-scale=0.25", "--aux", self.path("aux.npy"),
                    "--amax", self.path("amax.npy"))
                before, amax, expected = epilogue(
                    sums(self.a, self.b, 2.0 ** -6, 0.5), alpha=-0.5, beta=2, c=c,
                    bias=bias, activation=activation, out_scale=0.25)
                np.testing.assert_allclose(d, expected, rtol=1e-5, atol=1e-5)
                np.testing.assert_array_equal(np.load(self.path("aux.npy")),
                                              before)
                np.testing.assert_allclose(np.load(self.path("amax.npy")),
                                           [[amax]], rtol=1e-5)

    def test_results_of_a_narrow_type(self):
        a = integers(5, 300, dtype=E4M3)
        b = integers(300, 7, dtype=E4M3)
        d = self.multiply(a, b, "--dtype=e4m3", "--out-scale=0.03125",
                          "--amax", self.path("amax.npy"),
                          "--pre-activation", self.path("aux.npy"))
        x = sums(a, b)
        np.testing.assert_array_equal(
            d.view(E4M3), (x / 32).astype(np.float32).astype(E4M3))
        aux = np.load(self.path("aux.npy")).view(E4M3)
        np.testing.assert_array_equal(aux, np.clip(x, -448, 448).astype(
            np.float32).astype(E4M3))
        self.assertEqual(np.load(self.path("amax.npy"))[0, 0],
                         np.abs(x).max())

    def test_a_batch_shares_the_values(self):
        a = integers(3, 5, 16, dtype=np.int8)
        b = integers(3, 16, 7, dtype=np.int8)
        bias = integers(7)
        d = self.multiply(a, b, "--d-type=f32", "--bias",
                          self.save("bias.npy", bias), "--act=relu", "--aux",
                          self.path("aux.npy"))
        x = wide(a) @ wide(b) + bias
        np.testing.assert_array_equal(d, np.maximum(x, 0))
        np.testing.assert_array_equal(np.load(self.path("aux.npy")), x)

    def test_bits_that_differ(self):
        a, b = integers(5, 41) > 0, integers(41, 3) > 0
        np.testing.assert_array_equal(self.multiply(a, b, "--bits", "xor"),
                                      sums(a, b, xor=True))

    def test_amax_of_nothing_is_zero(self):
        self.multiply(self.a[:0], self.b, "--amax", self.path("amax.npy"))
        self.assertEqual(np.load(self.path("amax.npy"))[0, 0], 0)

    def test_refusals_name_the_option_and_what_is_allowed(self):
        bias = self.save("bias.npy", integers(6))
        for words, code, says in (
                (("--bias", bias), FAILED,
                 ("--bias: ", "1 x 6", "7 or 1 x 7", "5 x 1")),
                (("--a-scale", bias), FAILED,
                 ("--a-scale: ", "5 of rows, or 5 x 3 by blocks of 128")),
                (("--b-scale", bias), FAILED,
                 ("--b-scale: ", "7 of columns, or 3 x 1 by blocks")),
                (("--d-scale", bias), FAILED, ("--d-scale: ", "one value")),
                (("--a-scale=1e50",), FAILED, ("1e50 is beyond what f32",)),
                (("--d-scale=1e400",), FAILED, ("1e400 is beyond what f32",)),
                (("--bias", self.save("h.npy", integers(7, dtype="f2"))),
                 FAILED, ("h.npy", "f16", "np.float32")),
                (("--act", "tanh"), USAGE, ("tanh", "relu, gelu, gelu_tanh")),
                (("--a-scale", self.save("blocks.npy", powers(5, 3))), USAGE,
                 ("epilogue.b_scale is none", "block")),
                (("--aux", "-", "--amax", "-"), USAGE, ("standard output",))):
            error = self.refuse(self.a, self.b, *words, code=code)
            for text in says:
                self.assertIn(text, error)
        s8 = integers(4, 4, dtype=np.int8)
        error = self.refuse(s8, s8, "--act", "relu")
        for text in ("activation is relu", "d_type s32", "nearest", "f32"):
            self.assertIn(text, error)

    def test_kernels_are_prepared_with_their_epilogue(self):
        size = ("kernel", "prepare", "64", "64", "64", "--dtype", "bf16")
        plain = self.run_gemmctl(*size)
        for words in (("--bias", "row"), ("--a-scale", "row"),
                      ("--b-scale=column",), ("--d-scale",), ("--act=silu",),
                      ("--aux",), ("--amax",)):
            self.assertNotEqual(self.run_gemmctl(*size, *words).split()[:2],
                                plain.split()[:2], words)
        error = self.run_gemmctl(*size, "--bias", "tensor", code=USAGE)
        self.assertIn("none, row, column", error)

    def test_capabilities_say_what_goes_with_what(self):
        text = subprocess.run(  # It asks no daemon.
            [BUILD / "clients/gemmctl/gemmctl", "capabilities"],
            capture_output=True, timeout=60, check=True).stdout.decode()
        self.assertRegex(text, r"activation +relu, gelu, gelu_tanh, silu")
        self.assertRegex(text, r"bias +row, column .* all; f32, f16, bf16")

    def test_both_results_may_be_tensors(self):
        a, b = integers(5, 4), integers(4, 3)
        d, before = (self.run_gemmctl("tensor", "create", "5", "3", "--dtype",
                                      "f32").strip() for _ in range(2))
        self.run_gemmctl("matmul", self.save("a.npy", a),
                         self.save("b.npy", b), "--act=relu", "-o",
                         f"tensor:{d}", "--aux", f"tensor:{before}")
        for handle, expected in ((d, np.maximum(a @ b, 0)), (before, a @ b)):
            self.run_gemmctl("tensor", "download", handle, "-o",
                             self.path("back.npy"))
            np.testing.assert_array_equal(np.load(self.path("back.npy")),
                                          expected)
        error = self.run_gemmctl("matmul", self.path("a.npy"),
                                 self.path("b.npy"), "-o", f"tensor:{d}",
                                 "--aux", f"tensor:{d}", code=USAGE)
        self.assertIn("several results go to tensor:", error)


if __name__ == "__main__":
    unittest.main()
