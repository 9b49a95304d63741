"""What an AsyncClient sends and gets by several connections at a time."""

import asyncio
import os
import signal
import time
import unittest

import gemmd
import numpy as np

import striped_cases
from aio_stripes_case import (StripesCase, alone, eventually,
                              tells_who_is_cancelled)
from gemmd import api, errors
from host_daemon import HostDaemon
from striped_cases import BF16, F32, check_product


class AioStripesTest(StripesCase):
    async def test_tensors_go_there_and_back(self):
        async with gemmd.AsyncClient(self.daemon.target) as one:
            for array, elements in striped_cases.arrays():
                with self.subTest(f"{array.shape} {array.dtype}"):
                    async with await self.client.tensor(array) as tensor:
                        self.assertEqual((await tensor.info()).version, 1)
                        alone = await one.attach(tensor.handle)
                        for found in alone, tensor, tensor.T.T:
                            np.testing.assert_array_equal(await found.numpy(),
                                                          elements)
                        np.testing.assert_array_equal(
                            await tensor.T.numpy(), elements.T)

    async def test_products(self):
        async with gemmd.AsyncClient(self.daemon.target) as one:
            for (a, b), options, tensors in striped_cases.products():
                with self.subTest(a=a.shape, b=b.shape, **options):
                    check_product(
                        self, await self.client.product(a, b, **options),
                        await one.product(a, b, **options), tensors)
        a, b = np.ones((1100, 900), F32), np.ones((900, 700), F32)
        out = np.zeros((1100, 700), F32)
        self.assertIs(await self.client.matmul(a, b, out=out), out)
        self.assertTrue((out == 900).all())
        async with await self.client.tensor(b) as weights:
            self.assertTrue(
                (await self.client.matmul(a, weights) == 900).all())
        self.assertTrue(await self.no_tensors())

    async def test_results_come_to_memory_that_is_shared(self):
        a = await self.client.empty((700, 900), F32)
        a[...] = 1
        found = await self.client.product(a, np.ones((900, 700), F32))
        self.assertTrue((found.d == 900).all())
        paths = found.execution.paths
        shared = api.enum("Path")["PATH_SHARED"]
        self.assertEqual([paths.a, paths.d], [shared] * 2)
        self.assertEqual(paths.b, api.enum("Path")["PATH_TENSOR"])
        async with await self.client.tensor(a) as tensor:
            self.assertTrue((await tensor.numpy() == 1).all())

    async def test_many_at_a_time(self):
        async def travel(value):
            array = np.full((300, 1000), value, F32)
            async with await self.client.tensor(array) as tensor:
                self.assertTrue((await tensor.numpy() == value).all())
                d = await self.client.matmul(tensor.T, array)
                self.assertTrue((d == 300 * value * value).all())

        await asyncio.gather(*(travel(value) for value in range(8)))
        self.assertTrue(await self.no_tensors())

    async def test_errors_are_those_of_one_connection(self):
        a, b = np.ones((900, 700), F32), np.ones((700, 900), F32)
        async with await self.client.tensor(b) as gone:
            pass
        for _ in range(10):
            with self.assertRaisesRegex(gemmd.InvalidArgument, "device is un"):
                await self.client.matmul(a, b, device="cuda:9")
            with self.assertRaisesRegex(gemmd.NotFound, "b.tensor: "):
                await self.client.matmul(a, gone)
            with self.assertRaises(gemmd.NotFound):
                await gone.upload(b)
            with self.assertRaises(gemmd.NotFound):
                await gone.numpy()
        self.assertTrue(await self.no_tensors())

    async def test_time_limits(self):
        a = np.ones((900, 700), F32)
        for timeout in (1e-6, 1e-3, 3e-3, 1e-2) * 3:
            try:
                await self.client.matmul(a, a.T, timeout=timeout)
            except gemmd.DeadlineExceeded:
                continue
            self.assertGreater(timeout, 1e-6)
        self.assertTrue(
            (await self.client.matmul(a, a.T, timeout=60) == 700).all())

    async def test_what_is_cancelled_is_left_by_all(self):
        array = np.ones((512, 1024), F32)
        async with await self.client.tensor(array) as tensor:
            for work in (lambda: self.client.matmul(array, array.T),
                         lambda: tensor.upload(array),
                         tensor.numpy):
                start = time.monotonic()
                await work()
                whole = time.monotonic() - start
                for share in np.linspace(0, 0.9, 10):
                    task = asyncio.ensure_future(work())
                    await asyncio.sleep(share * whole)
                    if not task.cancel():
                        continue
                    with self.assertRaises(asyncio.CancelledError):
                        await task
            self.assertTrue(await eventually(alone), asyncio.all_tasks())

            async def has_one():
                return len(await self.client.tensors()) == 1

            self.assertTrue(await eventually(has_one))
            self.assertTrue((await tensor.numpy() == 1).all())
        self.assertTrue(
            (await self.client.matmul(array, array.T) == 1024).all())

    async def test_the_daemon_dies_and_another_one_comes(self):
        array = np.ones((512, 1024), F32)
        tensor = await self.client.tensor(array)
        other = await self.client.tensor(array)
        transfers = [asyncio.ensure_future(work) for work in (
            self.client.matmul(array, array.T), tensor.upload(array),
            other.numpy(), self.client.tensor(array))]
        await asyncio.sleep(0.02)
        self.daemon.kill()
        for error in await asyncio.gather(*transfers, return_exceptions=True):
            # Some may have ended before.
            if isinstance(error, BaseException):
                self.assertIsInstance(error, gemmd.Unavailable)
        with self.assertRaises(gemmd.Unavailable):
            await tensor.upload(array)
        self.daemon.start_again()
        await self.client.wait_for_ready(60)
        self.assertTrue(
            (await self.client.matmul(array, array.T) == 1024).all())

    async def test_a_daemon_that_stands_still_holds_up_nobody(self):
        array = np.ones((512, 1024), F32)
        client = gemmd.AsyncClient(self.daemon.target, stripes=3)  # No limit.
        client._stripes.least_bytes = 0
        await client.matmul(array, array.T)
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        try:
            start = time.monotonic()
            for work in (client.matmul(array, array.T), client.tensor(array)):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(work, 0.1)
            self.assertLess(time.monotonic() - start, 30)
        finally:
            os.kill(self.daemon.process.pid, signal.SIGCONT)
        self.assertTrue(
            (await client.matmul(array, array.T) == 1024).all())
        await client.close()

    @tells_who_is_cancelled
    async def test_closing_ends_what_travels(self):
        array = np.ones((512, 1024), F32)
        tensor = await self.client.tensor(array)
        tasks = [asyncio.ensure_future(tensor.upload(array))
                 for _ in range(4)]
        await asyncio.sleep(0.01)
        await self.client.close()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, BaseException):
                self.assertIsInstance(end, (errors.Cancelled,
                                            gemmd.FailedPrecondition))
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "closed"):
            await tensor.upload(array)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "closed"):
            self.client._stripes.channels(3)

    async def test_a_client_is_for_one_loop(self):
        array = np.ones((3, 4), F32)
        tensor = await self.client.tensor(array)
        for work in (self.client.matmul(array, array.T), tensor.numpy(),
                     tensor.upload(array), self.client.tensor(array),
                     self.client.empty((3, 4)), tensor.delete()):
            with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                        "another event loop"):
                await asyncio.to_thread(asyncio.run, work)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "no event loop"):
            await asyncio.to_thread(gemmd.AsyncClient, self.daemon.target)

    async def test_numbers_of_connections(self):
        for wrong in 0, 9, True, 1.5, "2":
            with self.assertRaisesRegex(gemmd.InvalidArgument, "stripes: "):
                gemmd.AsyncClient(self.daemon.target, stripes=wrong)


class AioShortOfRoomTest(StripesCase):
    def new_daemon(self):
        return HostDaemon("--max-tensor-bytes=7MiB")

    async def test_products_travel_in_chunks(self):
        a = np.ones((1024, 2048), BF16)     # 4 MiB.
        async with gemmd.AsyncClient(self.daemon.target, timeout=60, stripes=3,
                                     stream_bytes=0) as client:
            client._stripes.least_bytes = 0
            found = await client.product(a, np.ones((2048, 8), BF16))
        self.assertTrue((found.d == 2048).all())
        self.assertEqual(found.execution.paths.a,
                         api.enum("Path")["PATH_STREAM"])
        self.assertTrue(await self.no_tensors())


if __name__ == "__main__":
    unittest.main()
