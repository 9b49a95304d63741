"""Tensors that other clients made, as batches or of bits, and tensors for other
processes and for numpy."""

import asyncio
import copy
import pickle
import unittest

import ml_dtypes
import numpy as np

import gemmd
from arguments_case import ArgumentsCase
from gemmd import api, arrays, rpcs

F32 = np.float32


class BatchTest(ArgumentsCase):
    def setUp(self):
        info = self.client._run(rpcs.create(api.CreateTensorRequest(
            dtype=arrays.wire_type(F32), rows=4, columns=64,
            order=api.ROW_MAJOR, count=6)), None)
        self.handle = info.handle
        self.addCleanup(self.client.attach(info.handle).delete)

    def test_it_is_told_and_neither_read_nor_filled(self):
        says = "is a batch of 6 matrices of 4 x 64; allowed: a single matrix"
        left, right = np.ones((4, 2), F32), np.ones((2, 64), F32)
        for client in self.both():
            tensor = client.attach(self.handle)
            self.assertEqual(tensor.nbytes, 6 * 4 * 64 * 4)
            of = getattr(tensor, "_of", tensor)
            self.assertIn("batch of 6, 4x64 float32", repr(of))
            self.refused(f"tensor: {says}", tensor.numpy)
            self.refused(f"tensor: {says}", tensor.upload,
                         np.ones((4, 64), F32))
            for batch in left, np.ones((6, 4, 2), F32):
                self.refused(f"out: {says}", client.matmul, batch, right,
                             out=tensor)
                self.refused(f"pre_activation_out: {says}", client.matmul,
                             batch, right, pre_activation_out=tensor)

    def test_products_of_as_many_read_it(self):
        for client in self.both():
            tensor = client.attach(self.handle)
            for batch in (6,), (2, 3):
                d = client.matmul(np.ones((*batch, 2, 4), F32), tensor)
                np.testing.assert_array_equal(d, np.zeros((*batch, 2, 64)))


class BitsTest(ArgumentsCase):
    def made(self, shape, order):
        info = self.client._run(rpcs.create(api.CreateTensorRequest(
            dtype=arrays.wire_type(np.bool_), rows=shape[0], columns=shape[1],
            order=order)), None)
        self.addCleanup(self.client.attach(info.handle).delete)
        return info.handle

    def test_they_are_filled_and_read(self):
        bits = np.random.default_rng(1).random((5, 13)) < 0.5
        packed = gemmd.Bits(np.packbits(bits, axis=1, bitorder="little"), 13)
        for order, size in (api.ROW_MAJOR, 10), (api.COLUMN_MAJOR, 13):
            handle = self.made(bits.shape, order)
            for client in self.both():
                tensor = client.attach(handle)
                self.assertEqual(tensor.nbytes, size)
                tensor.upload(bits)
                np.testing.assert_array_equal(tensor.numpy(), bits)
                self.assertEqual(tensor.numpy().dtype, np.bool_)
            turned = self.client.attach(handle).T
            np.testing.assert_array_equal(turned.upload(~bits.T).numpy(),
                                          ~bits.T)
        handle = self.made(bits.shape, api.ROW_MAJOR)
        for client in self.both():
            tensor = client.attach(handle)
            tensor.upload(packed)
            np.testing.assert_array_equal(tensor.numpy(), bits)
            self.refused("array: shape", tensor.upload, packed.T)

    def test_products_read_them_in_any_order(self):
        bits = np.random.default_rng(2).random((9, 9)) < 0.5
        d = bits.astype(int) @ bits
        for order in api.ROW_MAJOR, api.COLUMN_MAJOR:
            handle = self.made(bits.shape, order)
            for client in self.both():
                tensor = client.attach(handle)
                tensor.upload(bits)
                for a, b in ((tensor, bits), (bits, tensor),
                             (tensor, tensor)):
                    np.testing.assert_array_equal(client.matmul(a, b), d)


class PickleTest(ArgumentsCase):
    def test_of_a_tensor_its_handle_is(self):
        for client in self.both():
            tensor = client.tensor(np.ones((2, 4), F32))
            of = getattr(tensor, "_of", tensor)
            for copied in pickle.dumps, copy.deepcopy:
                self.refused(r".*Tensor: is not pickled.* client.attach"
                             r"\(handle\)", copied, of)
            self.assertEqual(copy.copy(of.T).shape, (4, 2))
            tensor.delete()
            with client.sequence() as s:
                d = s.matmul(np.ones((2, 4), F32), np.ones((4, 3), F32))
            self.refused(r"Pending: is not pickled.* numpy\(\)",
                         pickle.dumps, d)

    def test_of_a_client_another_one_is(self):
        async def in_a_loop():
            async with gemmd.AsyncClient(self.target) as client:
                self.refused("AsyncClient: is not pickled.* another client",
                             pickle.dumps, client)

        with gemmd.Client(self.target) as client:
            for value in client, client.sequence():
                self.refused("Client: is not pickled.* another client",
                             pickle.dumps, value)
        asyncio.run(in_a_loop())


class ArrayTest(ArgumentsCase):
    """numpy would make an array of one object of what is none."""

    def test_what_becomes_one_when_it_is_asked(self):
        dense = np.ones((4, 64), ml_dtypes.bfloat16)
        for made in (gemmd.sparse24(dense, prune=True),
                     gemmd.quantize(dense, group=32)):
            with self.assertRaisesRegex(TypeError, r"toarray\(\)"):
                np.asarray(made)
            self.refused(r"bias: .*toarray\(\)", self.client.matmul,
                         dense, dense.T, bias=made)

    def test_what_is_waited_for(self):
        async def fetch():
            async with gemmd.AsyncClient(self.target) as client:
                tensor = await client.zeros((2, 4), F32)
                with self.assertRaisesRegex(TypeError, r"await .*numpy\(\)"):
                    np.asarray(tensor)
                return await tensor.numpy()

        self.assertEqual(asyncio.run(fetch()).shape, (2, 4))


if __name__ == "__main__":
    unittest.main()
