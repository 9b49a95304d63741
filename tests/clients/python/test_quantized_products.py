"""Products of weights, plain and quantized, against numpy's in float64."""

import asyncio
import itertools
import unittest

import gemmd
import numpy as np
from gemmd import Quantization, QuantizedMatrix

from host_daemon import HostCase
from quantized_reference import BF16, INT8, S4, TYPES, U4, Parts, wide


class QuantizedProductsTest(HostCase):
    def integers(self, *shape, dtype=BF16):
        return np.random.default_rng(shape).integers(-3, 4, shape).astype(
            np.float32).astype(dtype)

    def check(self, x, weights, due, label):
        """Weights as b, `due` what they stand for; and transposed as a."""
        for a, b, expected in ((x, weights, wide(x) @ due),
                               (weights.T, x.T, due.T @ wide(x).T)):
            d = self.client.matmul(a, b, out_dtype=np.float32)
            np.testing.assert_array_equal(d, expected, label)
            self.assertEqual(self.client.matmul(a, b).dtype, x.dtype)

    def test_every_type_group_and_place(self):
        for seed, (dtype, other, group, zero_points, k) in enumerate(
                itertools.product(TYPES, (BF16, np.float16),
                                  (32, 64, 128, None), (False, True),
                                  (1, 31, 64, 65, 200))):
            if zero_points and dtype not in (S4, U4):
                continue
            p = Parts(seed, (k, 7), dtype, group, zero_points, -2)
            label = f"{dtype} {other} {group} {zero_points} {k}"
            x = self.integers(5, k, dtype=other)
            self.check(x, p.matrix, p.due, label)
            with self.client.tensor(p.matrix) as tensor:
                self.check(x, tensor, p.due, f"{label} resident")
                np.testing.assert_array_equal(tensor.quantized().lines,
                                              p.matrix.lines)

    def test_plain_weights_of_any_order(self):
        for dtype, k, order in itertools.product(TYPES, (1, 7, 33, 64), "CF"):
            p = Parts(k, (k, 7), dtype, None, False, -2)
            weights = np.array(p.elements, order=order)
            self.check(self.integers(5, k), weights, wide(weights),
                       f"{dtype} {k}")
            with self.client.tensor(weights) as tensor:
                self.check(self.integers(5, k), tensor, wide(weights),
                           f"{dtype} {k} resident")
                np.testing.assert_array_equal(wide(tensor.numpy()),
                                              wide(weights))
                self.assertEqual(tensor.dtype, dtype)
                self.assertIsNone(tensor.quantization)

    def test_batches_vectors_and_streams(self):
        x = self.integers(3, 5, 70)
        shared = Parts(1, (70, 7), S4, 32, True, -2)
        own = Parts(2, (3, 70, 7), U4, 64, True, -2)
        plain = own.elements
        with gemmd.Client(self.client.target, stream_bytes=0) as streaming:
            for client in (self.client, streaming):
                for weights, due in ((shared.matrix, shared.due),
                                     (own.matrix, own.due),
                                     (plain, wide(plain))):
                    np.testing.assert_array_equal(
                        client.matmul(x, weights, out_dtype=np.float32),
                        wide(x) @ due)
                np.testing.assert_array_equal(
                    client.matmul(x[0], own.matrix, out_dtype=np.float32),
                    wide(x[0]) @ own.due)
                np.testing.assert_array_equal(
                    client.matmul(x[0, 0], shared.matrix,
                                  out_dtype=np.float32),
                    wide(x[0, 0]) @ shared.due)

    def test_grouped(self):
        parts = [Parts(m, (40, 6), S4, 32, True, -2) for m in (1, 0, 5)]
        x = [self.integers(m, 40) for m in (1, 0, 5)]
        for left, p, d in zip(x, parts, self.client.matmul_grouped(
                x, [p.matrix for p in parts], out_dtype=np.float32)):
            np.testing.assert_array_equal(wide(d), wide(left) @ p.due)

    def test_sequences(self):
        first = Parts(1, (40, 40), S4, 32, False, -2)
        x = self.integers(5, 40)
        # The same bytes as plain elements are another operand.
        plain = first.elements
        with self.client.sequence() as sequence:
            y = sequence.matmul(x, first.matrix, out_dtype=np.float32)
            z = sequence.matmul(x, plain, out_dtype=np.float32)
            w = sequence.matmul(first.matrix.T, x.T, out_dtype=np.float32)
            narrow = sequence.matmul(x, first.matrix)
            last = sequence.matmul(narrow, first.matrix, out_dtype=np.float32)
            sequence.returns(y, z, w, narrow, last)
        np.testing.assert_array_equal(y.numpy(), wide(x) @ first.due)
        np.testing.assert_array_equal(z.numpy(), wide(x) @ wide(plain))
        np.testing.assert_array_equal(w.numpy(), first.due.T @ wide(x).T)
        np.testing.assert_allclose(last.numpy(),
                                   wide(narrow.numpy()) @ first.due,
                                   rtol=1e-6, atol=1e-3)

    def test_one_buffer_read_in_two_ways_is_two_operands(self):
        whole = Parts(1, (8, 2), INT8, None, False, -2)
        by_32 = QuantizedMatrix(whole.matrix.lines, INT8, 8, Quantization(32),
                                -2)
        x = self.integers(3, 8)
        with self.client.sequence() as sequence:
            y = sequence.matmul(x, whole.matrix, out_dtype=np.float32)
            z = sequence.matmul(x, by_32, out_dtype=np.float32)
        for result in (y, z):
            np.testing.assert_array_equal(result.numpy(), wide(x) @ whole.due)

    def test_tensors(self):
        p = Parts(3, (70, 7), U4, 32, True, -2)
        x = self.integers(5, 70)
        with self.client.tensor(p.matrix, label="w") as tensor:
            self.assertEqual(tensor.quantization, Quantization(32, True))
            self.assertEqual((tensor.shape, tensor.order, tensor.nbytes,
                              tensor.dtype),
                             ((70, 7), "F", p.matrix.nbytes, U4))
            self.assertIn("quantized (by groups of 32 with zero points)",
                          repr(tensor))
            np.testing.assert_array_equal(tensor.numpy(), p.due)
            np.testing.assert_array_equal(tensor.T.quantized().lines,
                                          p.matrix.lines)
            np.testing.assert_array_equal(wide(x @ tensor), wide(
                self.client.matmul(x, p.matrix)))
            attached = self.client.attach(tensor.handle)
            self.assertEqual(attached.quantization, Quantization(32, True))
            other = Parts(4, (70, 7), U4, 32, False, -2)
            with self.assertRaisesRegex(ValueError, "array: is not quantized "
                                        "as the tensor is, by groups of 32"):
                tensor.upload(other.matrix)
            with self.assertRaisesRegex(ValueError, "is not quantized as"):
                tensor.upload(p.elements)
            with self.assertRaisesRegex(ValueError, "out: a quantized tensor"):
                self.client.matmul(x[:, :4], np.zeros((4, 7), BF16),
                                   out=tensor.T.T)
            again = Parts(5, (70, 7), U4, 32, True, -2)
            tensor.upload(again.matrix)
            np.testing.assert_array_equal(tensor.numpy(), again.due)
        with self.client.zeros((70, 7), U4, order="F") as plain:
            with self.assertRaisesRegex(ValueError, "array: is quantized, and "
                                        "the tensor is not"):
                plain.upload(p.matrix)
            with self.assertRaisesRegex(ValueError, "quantized: the tensor"):
                plain.quantized()
        with self.client.zeros((70, 7), S4, order="F",
                               quantization=Quantization(None)) as zeros:
            self.assertEqual(zeros.quantization, Quantization(None))
            np.testing.assert_array_equal(x @ zeros, np.zeros((5, 7)))

    def test_async(self):
        p = Parts(6, (70, 7), S4, 64, True, -2)
        x = self.integers(5, 70)

        async def run():
            async with gemmd.AsyncClient(self.client.target) as client:
                inline = await client.matmul(x, p.matrix,
                                             out_dtype=np.float32)
                async with await client.tensor(p.matrix) as tensor:
                    back = await tensor.quantized()
                    d = await client.matmul(x, tensor, out_dtype=np.float32)
                return inline, back, d

        inline, back, d = asyncio.run(run())
        np.testing.assert_array_equal(inline, wide(x) @ p.due)
        np.testing.assert_array_equal(d, wide(x) @ p.due)
        np.testing.assert_array_equal(back.lines, p.matrix.lines)

    def test_the_steps_of_the_epilogue_go_with_it(self):
        p = Parts(7, (64, 6), S4, 32, False, -2)
        x = self.integers(5, 64)
        bias = np.arange(6, dtype=np.float32)
        d = self.client.matmul(x, p.matrix, bias=bias, a_scale=0.5,
                               b_scale=np.full(6, 2.0), activation="relu",
                               out_dtype=np.float32)
        np.testing.assert_array_equal(
            d, np.maximum(wide(x) @ p.due + bias, 0))

    def test_what_the_daemon_refuses(self):
        with self.assertRaisesRegex(gemmd.InvalidArgument, "quantiz"):
            self.client.zeros((8, 8), BF16, quantization=Quantization(32))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "group is 48"):
            self.client.zeros((8, 8), S4, quantization=Quantization(48))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "zero_points"):
            self.client.zeros((8, 8), np.int8,
                              quantization=Quantization(32, True))


if __name__ == "__main__":
    unittest.main()
