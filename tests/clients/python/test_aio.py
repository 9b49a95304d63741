"""AsyncClient: the same calls, awaited."""

import asyncio
import unittest

import ml_dtypes
import numpy as np

import gemmd
from fake_daemon import FakeDaemon

BF16 = np.dtype(ml_dtypes.bfloat16)


def integers(rows, columns, seed=1):
    generator = np.random.default_rng([seed, rows, columns])
    return generator.integers(-4, 5, (rows, columns)).astype(BF16)


class AsyncClientTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.daemon = FakeDaemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.client = gemmd.AsyncClient(self.daemon.target, timeout=30)
        self.addAsyncCleanup(self.client.close)

    async def test_products_run_at_a_time(self):
        await self.client.wait_for_ready(30)
        a = integers(4, 6)
        matrices = [integers(6, n) for n in range(1, 9)]
        results = await asyncio.gather(
            *(self.client.matmul(a, b) for b in matrices))
        for b, d in zip(matrices, results):
            np.testing.assert_array_equal(
                d.astype(float), a.astype(float) @ b.astype(float))

    async def test_tensors(self):
        a, b = integers(4, 6), integers(6, 5)
        async with await self.client.tensor(a) as ta:
            np.testing.assert_array_equal(await ta.numpy(), a)
            again = await self.client.attach(ta.handle)
            self.assertEqual(again.shape, (4, 6))
            product = await self.client.product(ta, b, out_dtype=np.float32)
            np.testing.assert_array_equal(
                product.d, a.astype(float) @ b.astype(float))
            d = await self.client.matmul(b.T, ta.T)
            np.testing.assert_array_equal(
                d.astype(float), b.T.astype(float) @ a.T.astype(float))
            self.assertEqual(len(await self.client.tensors()), 1)
            self.assertEqual((await ta.info()).handle, ta.handle)
        self.assertEqual(await self.client.tensors(), [])

    async def test_leaving_with_does_not_need_the_tensor(self):
        async with await self.client.zeros((2, 3), BF16) as tensor:
            await tensor.delete()

    async def test_errors_are_those_of_the_client(self):
        a = integers(4, 6)
        with self.assertRaises(gemmd.InvalidArgument):
            await self.client.matmul(a, a)
        with self.assertRaises(gemmd.NotFound):
            await self.client.attach("none")
        with self.assertRaises(TimeoutError):
            await self.client.matmul(a, a.T, timeout=0.05, device="slow")
        async with gemmd.AsyncClient("127.0.0.1:1") as nobody:
            with self.assertRaises(gemmd.Unavailable):
                await nobody.info()
            with self.assertRaisesRegex(
                    gemmd.DeadlineExceeded,
                    "no daemon serves at 127.0.0.1:1 within 0.1 seconds"):
                await nobody.wait_for_ready(0.1)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "closed"):
            await nobody.info()

    async def test_information(self):
        self.assertEqual((await self.client.info()).version, "fake")
        self.assertEqual((await self.client.statistics()).requests, 7)
        self.assertIn(self.daemon.target, repr(self.client))


if __name__ == "__main__":
    unittest.main()
