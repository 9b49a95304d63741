"""Every option of matmul against float64, on a daemon's host device. Values are
integers and powers of two, so that what is no transcendental is exact."""

import asyncio
import unittest

import gemmd
import ml_dtypes
import numpy as np

from epilogue_reference import ACTIVATIONS, epilogue, sums, wide
from host_daemon import HostCase

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
F32 = np.float32
M, N, K = 9, 21, 300


def integers(*shape, dtype=BF16, high=4, seed=1):
    generator = np.random.default_rng([seed, *shape])
    low = 0 if np.dtype(dtype) == np.uint8 else -high
    return generator.integers(low, high + 1, shape).astype(dtype)


def powers(*shape):
    generator = np.random.default_rng([3, *shape])
    return np.exp2(generator.integers(-2, 3, shape)).astype(F32)


class EpilogueTest(HostCase):
    def setUp(self):
        self.a, self.b = integers(M, K), integers(K, N)

    def equal(self, actual, expected):
        np.testing.assert_array_equal(wide(actual), expected)

    def matmul(self, *operands, **options):
        options.setdefault("out_dtype", F32)
        return self.client.matmul(*(operands or (self.a, self.b)), **options)

    def test_bias_of_columns_and_rows(self):
        for bias in (integers(N, dtype=F32), integers(M, 1, dtype=float),
                     integers(1, N, dtype=BF16), 3, [1.0] * N):
            self.equal(self.matmul(bias=bias),
                       sums(self.a, self.b) + wide(bias))

    def test_bias_of_a_square_result_is_of_columns_as_in_numpy(self):
        a, b = integers(8, 8), integers(8, 8, seed=2)
        bias = integers(8, dtype=F32)
        self.equal(self.matmul(a, b, bias=bias), wide(a) @ wide(b) + bias)
        self.equal(self.matmul(a, b, bias=bias[:, None]),
                   wide(a) @ wide(b) + bias[:, None])

    def test_bias_of_products_with_vectors(self):
        v, w = integers(K), integers(M)
        bias = integers(M, dtype=F32)
        self.equal(self.matmul(self.a, v, bias=bias),
                   wide(self.a) @ wide(v) + bias)
        bias = integers(K, dtype=F32)
        self.equal(self.matmul(w, self.a, bias=bias),
                   wide(w) @ wide(self.a) + bias)
        self.equal(self.matmul(v, v, bias=5), wide(v) @ wide(v) + 5)

    def test_scales_of_rows_columns_and_all(self):
        for a_scale in (None, 2.0, powers(M), powers(M)[:, None]):
            for b_scale in (None, np.float32(0.5), powers(N)):
                expected = sums(self.a, self.b)
                for scale, of_rows in ((a_scale, True), (b_scale, False)):
                    if scale is not None:
                        expected = expected * (
                            np.reshape(scale, (-1, 1)) if of_rows else scale)
                self.equal(self.matmul(a_scale=a_scale, b_scale=b_scale),
                           expected)

    def test_scales_by_block_of_every_pair(self):
        for a_type in (E4M3, E5M2):
            for b_type in (E4M3, E5M2):
                a = integers(M, K, dtype=a_type)
                b = integers(K, 200, dtype=b_type)
                a_scale, b_scale = powers(M, 3), powers(3, 2)
                self.equal(self.matmul(a, b, a_scale=a_scale, b_scale=b_scale),
                           sums(a, b, a_scale, b_scale))

    def test_every_activation_with_every_step_before_and_after(self):
        c, bias = integers(M, N, dtype=F32), integers(N, dtype=F32)
        scale = powers(M) / 64  # Where activations differ most.
        for activation in ACTIVATIONS:
            d, before, amax = self.matmul(
                alpha=-0.5, beta=2.0, c=c, a_scale=scale, b_scale=0.5,
                bias=bias, activation=activation, out_scale=0.25,
                return_pre_activation=True, return_amax=True)
            x, greatest, y = epilogue(
                sums(self.a, self.b, scale, 0.5), alpha=-0.5, beta=2.0,
                c=c, bias=bias, activation=activation, out_scale=0.25)
            self.equal(before, x)
            np.testing.assert_allclose(wide(d), y, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(amax, greatest, rtol=1e-5)

    def test_amax_is_of_what_is_scaled_and_rounded_afterwards(self):
        a, b = integers(M, K, dtype=E4M3), integers(K, N, dtype=E4M3)
        product = self.client.product(a, b, out_scale=2.0 ** -6,
                                      return_amax=True)
        x = sums(a, b)
        self.assertEqual(product.d.dtype, E4M3)
        self.assertEqual(product.amax, np.abs(x).max())
        self.assertIsNone(product.pre_activation)
        self.equal(product.d, wide((x / 64).astype(F32).astype(E4M3)))

    def test_second_results_have_the_type_and_order_of_the_first(self):
        for order in "CF":
            product = self.client.product(
                self.a, self.b, out_dtype=np.float16, out_order=order,
                activation="relu", return_pre_activation=True)
            for result in (product.d, product.pre_activation):
                self.assertEqual(result.dtype, np.float16)
                self.assertTrue(result.flags[f"{order}_CONTIGUOUS"])
            self.equal(product.pre_activation, sums(self.a, self.b))
            self.equal(product.d, np.maximum(sums(self.a, self.b), 0))

    def test_the_pre_activation_goes_where_out_may(self):
        options = {"activation": "relu", "out_dtype": F32}
        x = sums(self.a, self.b)
        array = np.empty((M, 2 * N), F32)[:, ::2]
        with self.client.zeros((M, N), F32, order="F") as tensor:
            for out in (None, np.empty((M, N), F32, order="F")):
                for kept in (array, tensor):
                    if kept is array:
                        kept[...] = 0
                    d, before = self.client.matmul(
                        self.a, self.b, out=out, pre_activation_out=kept,
                        **options)
                    self.assertIs(before, kept)
                    self.equal(np.asarray(before), x)
                    self.equal(d, np.maximum(x, 0))
                    self.assertTrue(out is None or d is out)
            # Its order is that of both.
            self.assertTrue(d.flags.f_contiguous)
            with self.client.zeros((M, N), F32, order="F") as other:
                product = self.client.product(
                    self.a, self.b, out=other, pre_activation_out=tensor,
                    return_amax=True, **options)
                self.assertIs(product.d, other)
                self.equal(other.numpy(), np.maximum(x, 0))
                self.assertEqual(product.amax, np.maximum(x, 0).max())

    def test_the_pre_activation_has_a_place_of_its_own(self):
        whole = np.zeros((2 * M, N), F32)
        with self.client.zeros((M, N), F32) as tensor, \
                self.client.zeros((M, N), F32, order="F") as columns:
            for says, out, kept in (
                    ("pre_activation_out: shares memory with out",
                     whole[:M], whole[1:M + 1]),
                    ("pre_activation_out: shape", None, whole),
                    ("pre_activation_out: dtype float16 is not out's float32",
                     whole[:M], np.zeros((M, N), np.float16)),
                    ("pre_activation_out: list", None, []),
                    ("pre_activation_out: order 'F' is not out's 'C'",
                     whole[:M], columns),
                    ("auxiliary.tensor is also d's", tensor, tensor)):
                with self.assertRaisesRegex(gemmd.InvalidArgument, says):
                    self.client.matmul(self.a, self.b, out=out,
                                       pre_activation_out=kept)
            with self.assertRaisesRegex(
                    gemmd.InvalidArgument,
                    "auxiliary.tensor is also an input"):
                self.client.matmul(self.a, self.b, c=tensor, beta=1,
                                   out_dtype=F32, pre_activation_out=tensor)

    def test_a_batch_shares_values_and_broadcasts(self):
        a = integers(2, 1, M, K)
        b = integers(3, K, N)
        bias, scale = integers(M, 1, dtype=F32), powers(N)
        d, before, amax = self.matmul(
            a, b, bias=bias, b_scale=scale, activation="relu",
            return_pre_activation=True, return_amax=True)
        x = (wide(a) @ wide(b)) * scale + bias
        self.assertEqual(d.shape, (2, 3, M, N))
        self.equal(before, x)
        self.equal(d, np.maximum(x, 0))
        self.assertEqual(amax, np.maximum(x, 0).max())

    def test_tensors_hold_values_too(self):
        bias, rows = integers(1, N, dtype=F32), integers(1, M, dtype=F32)
        scale = powers(1, N)
        with self.client.tensor(bias) as t_bias, \
                self.client.tensor(rows) as t_rows, \
                self.client.tensor(scale) as t_scale, \
                self.client.tensor(self.b) as weights, \
                self.client.zeros((M, N), F32) as out:
            self.assertIs(self.matmul(
                self.a, weights, bias=t_bias, b_scale=t_scale, out=out), out)
            self.equal(out.numpy(), sums(self.a, self.b) * scale + bias)
            d = self.matmul(self.a, weights, bias=t_rows.T)
            self.equal(d, sums(self.a, self.b) + rows.T)
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        "bias: a tensor of bfloat16"):
                self.matmul(self.a, weights, bias=weights)
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        r"bias: has shape \(1, 9\)"):
                self.matmul(self.a, weights, bias=t_rows)

    def test_blocks_in_tensors(self):
        a, b = integers(M, K, dtype=E4M3), integers(K, 200, dtype=E4M3)
        a_scale, b_scale = powers(M, 3), powers(3, 2)
        with self.client.tensor(a_scale) as ta, \
                self.client.tensor(b_scale, order="C") as tb:
            self.equal(self.matmul(a, b, a_scale=ta, b_scale=tb),
                       sums(a, b, a_scale, b_scale))

    def test_bits_that_differ(self):
        a, b = integers(M, 41, dtype=F32) > 0, integers(41, N, dtype=F32) > 0
        for bits in ("and", "xor"):
            d = self.client.matmul(a, b, bits=bits)
            self.assertEqual(d.dtype, np.int32)
            self.equal(d, sums(a, b, xor=bits == "xor"))
        self.equal(self.matmul(a, b, bits="xor", bias=0.5, alpha=-1),
                   0.5 - sums(a, b, xor=True))
        packed = gemmd.Bits(np.packbits(a, axis=1, bitorder="little"), 41)
        self.equal(self.client.matmul(packed, b, bits="xor"),
                   sums(a, b, xor=True))

    def test_integers_take_every_step_where_the_result_is_none(self):
        a, b = integers(M, K, dtype=np.int8), integers(K, N, dtype=np.uint8)
        d = self.client.matmul(a, b, out_dtype=np.int8, a_scale=powers(M),
                               bias=2, activation="relu", out_scale=0.0625)
        x = np.maximum(sums(a, b, powers(M)) + 2, 0) / 16
        self.equal(d, np.clip(np.rint(x), -128, 127))

    def test_steps_of_a_result_that_multiplies_nothing(self):
        a, b = self.a[:, :0], self.b[:0]
        d, before, amax = self.matmul(
            a, b, bias=-3.0, a_scale=np.full(M, np.nan), activation="relu",
            return_pre_activation=True, return_amax=True)
        self.equal(before, np.full((M, N), -3.0))
        self.equal(d, np.zeros((M, N)))
        self.assertEqual(amax, 0)

    def test_amax_of_an_empty_result_is_zero(self):
        for a in (self.a[:0], np.zeros((0, M, K), BF16)):
            d, amax = self.matmul(a, self.b, return_amax=True)
            self.assertEqual((d.size, amax), (0, 0))

    def test_asyncio_takes_the_same_options(self):
        bias = integers(N, dtype=F32)

        async def several():
            async with gemmd.AsyncClient(self.target, timeout=60) as client:
                async with await client.tensor(bias[None]) as resident:
                    return await asyncio.gather(*(
                        client.matmul(self.a, self.b, bias=value,
                                      activation="relu", out_dtype=F32,
                                      return_amax=True)
                        for value in (bias, resident)))

        expected = np.maximum(sums(self.a, self.b) + bias, 0)
        for d, amax in asyncio.run(several()):
            self.equal(d, expected)
            self.assertEqual(amax, expected.max())


if __name__ == "__main__":
    unittest.main()
