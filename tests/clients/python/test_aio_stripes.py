"""What an AsyncClient sends and gets by several connections at a time, and what
is left of it where that is cut short."""

import asyncio
import gc
import os
import signal
import time
import unittest
import warnings

import gemmd
import numpy as np

import striped_cases
from gemmd import api, errors
from host_daemon import HostDaemon
from striped_cases import (ABORTED, BF16, BROKEN, F32, REFUSED, PartsDaemon,
                           check_product)

_WAIT_S = 60


async def eventually(ask):
    """Whether ask() is true within a minute."""
    end = time.monotonic() + _WAIT_S
    while not (answer := await ask()) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return answer


async def _alone():
    return asyncio.all_tasks() == {asyncio.current_task()}


class StripesCase(unittest.IsolatedAsyncioTestCase):
    """`client` has three connections to `daemon`, for any number of bytes.
    Nothing is left behind by a test."""

    def new_daemon(self):
        return HostDaemon()

    async def asyncSetUp(self):
        self.noise = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self.noise.append(context["message"]))
        caught = warnings.catch_warnings(record=True)
        self.warnings = caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("always")
        self.daemon = self.new_daemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.client = gemmd.AsyncClient(self.daemon.target, timeout=60,
                                        stripes=3)
        self.client._stripes.least_bytes = 0

    async def asyncTearDown(self):
        self.assertTrue(await eventually(_alone), asyncio.all_tasks())
        self.assertEqual(self.client._tasks, set())
        await self.client.close()
        gc.collect()
        await asyncio.sleep(0)
        self.assertEqual(self.noise, [])
        self.assertEqual([str(one.message) for one in self.warnings], [])

    async def no_tensors(self):
        return not await self.client.tensors()


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
            self.assertTrue(await eventually(_alone), asyncio.all_tasks())

            async def has_one():
                return len(await self.client.tensors()) == 1

            self.assertTrue(await eventually(has_one))
            self.assertTrue((await tensor.numpy() == 1).all())
        self.assertTrue(
            (await self.client.matmul(array, array.T) == 1024).all())

    async def test_the_daemon_dies_and_another_one_comes(self):
        array = np.ones((512, 1024), F32)
        tensor = await self.client.tensor(array)
        transfers = [asyncio.ensure_future(work) for work in (
            self.client.matmul(array, array.T), tensor.upload(array),
            tensor.numpy(), self.client.tensor(array))]
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

    async def test_closing_ends_what_travels(self):
        array = np.ones((512, 1024), F32)
        tensor = await self.client.tensor(array)
        tasks = [asyncio.ensure_future(tensor.upload(array))
                 for _ in range(4)]
        await asyncio.sleep(0.01)
        await self.client.close()
        # As with one connection.
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, BaseException):
                self.assertIsInstance(end, (
                    asyncio.CancelledError, errors.Cancelled,
                    gemmd.FailedPrecondition))
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "closed"):
            await tensor.upload(array)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "closed"):
            self.client._stripes.channels(3)

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


class AioPartsTest(StripesCase):
    """Against a daemon that goes wrong."""

    def new_daemon(self):
        return PartsDaemon()

    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.array = np.arange(2700, dtype=F32).reshape(90, 30)
        self.tensor = await self.client.tensor(self.array)
        self.long = np.ones((512, 1024), np.float16)  # For a temporary.

    async def test_large_ones_alone_go_in_parts(self):
        self.client._stripes.least_bytes = self.array.nbytes + 1
        await self.tensor.upload(self.array)
        await self.tensor.numpy()
        self.client._stripes.least_bytes = self.array.nbytes
        await self.tensor.upload(self.array)
        await self.tensor.numpy()
        self.assertEqual(self.daemon.calls,
                         ["part"] * 3 + ["whole"] * 2 + ["part"] * 6)
        self.assertEqual(len(self.daemon.part_peers), 3)

    async def test_a_part_that_is_refused(self):
        self.daemon.part_ends = [REFUSED]
        await self.tensor.upload(self.array)
        self.assertEqual(self.daemon.calls[-1], "whole")
        self.daemon.part_ends = [REFUSED]
        np.testing.assert_array_equal(await self.tensor.numpy(), self.array)
        self.assertEqual(self.daemon.calls[-1], "whole")

    async def test_a_part_that_fails(self):
        for code, expected in (BROKEN, gemmd.Internal), (ABORTED,
                                                         errors.Aborted):
            self.daemon.part_ends = [code] * 2
            with self.assertRaisesRegex(expected, "as it was told"):
                await self.tensor.upload(self.array)
            with self.assertRaisesRegex(expected, "as it was told"):
                await self.tensor.numpy()

    async def test_parts_of_other_sizes(self):
        self.daemon.too_many = 4
        with self.assertRaisesRegex(
                gemmd.InvalidArgument,
                "^INVALID_ARGUMENT: the daemon sent more than the 3600 bytes"):
            await self.tensor.numpy()
        self.daemon.too_many = -4
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    "sent 3596 bytes of a tensor of 3600"):
            await self.tensor.numpy()

    async def test_what_is_refused_ends(self):
        self.daemon.too_many = 4
        self.daemon.endless = True
        for least_bytes in 0, 1 << 20:
            self.client._stripes.least_bytes = least_bytes
            with self.assertRaises(gemmd.InvalidArgument):
                try:
                    await self.tensor.numpy()
                except gemmd.InvalidArgument as error:
                    kept = error  # With all that it refers to.
                    self.assertTrue(await eventually(self.none_hangs))
                    raise
            del kept

    async def none_hangs(self):
        return not self.daemon.hung.is_set()

    async def test_time_passes_in_one_part(self):
        for work in (lambda: self.tensor.upload(self.array, timeout=0.2),
                     lambda: self.tensor.numpy(timeout=0.2)):
            self.daemon.part_ends = ["hang"]
            with self.assertRaises(gemmd.DeadlineExceeded):
                await asyncio.wait_for(work(), _WAIT_S)

    async def begin_and_hang(self, work):
        """A task of which the daemon has a part, and no end of it."""
        self.daemon.part_ends = ["hang"]
        task = asyncio.ensure_future(work)
        self.assertTrue(
            await asyncio.to_thread(self.daemon.hung.wait, _WAIT_S))
        return task

    async def check_cancelled(self, task):
        await asyncio.wait([task], timeout=_WAIT_S)
        self.assertTrue(task.cancelled())

    async def test_cancelling_reaches_every_part(self):
        client = self.client
        client._timeout = None
        for work in (self.tensor.upload(self.array), self.tensor.numpy(),
                     client.matmul(self.long, self.long.T),
                     client.tensor(self.array)):
            task = await self.begin_and_hang(work)
            task.cancel()
            await self.check_cancelled(task)
            self.assertTrue(await eventually(self.none_hangs))
            self.assertEqual(list(self.daemon.tensors), [self.tensor.handle])
            self.assertTrue(await eventually(_alone), asyncio.all_tasks())

    async def test_deletions_hold_up_nobody_who_is_cancelled(self):
        self.client._timeout = None
        for work in (self.client.matmul(self.long, self.long.T),
                     self.client.tensor(self.array)):
            self.daemon.deletes.clear()
            task = await self.begin_and_hang(work)
            task.cancel()
            await self.check_cancelled(task)
            self.assertEqual(len(self.daemon.tensors), 2)
            self.daemon.deletes.set()
            self.assertTrue(await eventually(_alone), asyncio.all_tasks())
            self.assertEqual(list(self.daemon.tensors), [self.tensor.handle])

    async def test_a_tensor_that_is_made_when_nobody_waits_is_deleted(self):
        for times in 1, 5:  # Some libraries cancel until a task has ended.
            with self.subTest(times=times):
                made = self.daemon.made
                self.daemon.creates.clear()
                task = asyncio.ensure_future(
                    self.client.matmul(self.long, self.long.T))
                await asyncio.sleep(0.2)
                for _ in range(times):
                    task.cancel()
                    await asyncio.sleep(0)
                await self.check_cancelled(task)
                self.daemon.creates.set()

                async def is_made():
                    return self.daemon.made > made

                self.assertTrue(await eventually(is_made))
                self.assertTrue(await eventually(_alone), asyncio.all_tasks())
                self.assertEqual(list(self.daemon.tensors),
                                 [self.tensor.handle])


if __name__ == "__main__":
    unittest.main()
