"""What is left of what an AsyncClient sends and gets in parts, where a daemon
goes wrong or somebody leaves."""

import asyncio
import unittest

import gemmd
import numpy as np

from aio_stripes_case import (WAIT_S, StripesCase, alone, eventually,
                              tells_who_is_cancelled)
from gemmd import errors
from striped_cases import ABORTED, BROKEN, F32, REFUSED, PartsDaemon


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
                gemmd.Internal,
                "^INTERNAL: the daemon sent more than the 3600 bytes"):
            await self.tensor.numpy()
        self.daemon.too_many = -4
        with self.assertRaisesRegex(gemmd.Internal,
                                    "sent 3596 bytes of a tensor of 3600"):
            await self.tensor.numpy()

    async def test_what_is_refused_ends(self):
        self.daemon.too_many = 4
        self.daemon.endless = True
        for least_bytes in 0, 1 << 20:
            self.client._stripes.least_bytes = least_bytes
            with self.assertRaises(gemmd.Internal):
                try:
                    await self.tensor.numpy()
                except gemmd.Internal as error:
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
                await asyncio.wait_for(work(), WAIT_S)

    async def begin_and_hang(self, work):
        """A task of which the daemon has a part, and no end of it."""
        self.daemon.part_ends = ["hang"]
        task = asyncio.ensure_future(work)
        self.assertTrue(
            await asyncio.to_thread(self.daemon.hung.wait, WAIT_S))
        return task

    async def check_cancelled(self, task):
        await asyncio.wait([task], timeout=WAIT_S)
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
            self.assertTrue(await eventually(alone), asyncio.all_tasks())

    @tells_who_is_cancelled
    async def test_closing_ends_every_part(self):
        for work in (lambda client, tensor: tensor.upload(self.array),
                     lambda client, tensor: tensor.numpy(),
                     lambda client, tensor: client.matmul(self.long,
                                                          self.long.T),
                     lambda client, tensor: client.tensor(self.array)):
            client = gemmd.AsyncClient(self.daemon.target, stripes=3)
            client._stripes.least_bytes = 0
            tensor = await client.attach(self.tensor.handle)
            task = await self.begin_and_hang(work(client, tensor))
            await client.close()
            await asyncio.wait([task], timeout=WAIT_S)
            self.assertIsInstance(task.exception(), (
                errors.Cancelled, gemmd.FailedPrecondition))
            self.assertTrue(await eventually(self.none_hangs))

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
            self.assertTrue(await eventually(alone), asyncio.all_tasks())
            self.assertEqual(list(self.daemon.tensors), [self.tensor.handle])

    async def test_a_tensor_that_is_made_when_nobody_waits_is_deleted(self):
        # Some libraries cancel until a task has ended.
        for work, times in ((self.client.matmul(self.long, self.long.T), 1),
                            (self.client.matmul(self.long, self.long.T), 5),
                            (self.client.zeros((3, 4), F32), 1),
                            (self.client.tensor(self.array), 1)):
            with self.subTest(work=work.__name__, times=times):
                made = self.daemon.made
                self.daemon.creates.clear()
                task = asyncio.ensure_future(work)
                await asyncio.sleep(0.2)
                for _ in range(times):
                    task.cancel()
                    await asyncio.sleep(0)
                await self.check_cancelled(task)
                self.daemon.creates.set()

                async def is_made():
                    return self.daemon.made > made

                self.assertTrue(await eventually(is_made))
                self.assertTrue(await eventually(alone), asyncio.all_tasks())
                self.assertEqual(list(self.daemon.tensors),
                                 [self.tensor.handle])

    async def test_closing_waits_for_deletions(self):
        client = gemmd.AsyncClient(self.daemon.target, stripes=3)
        self.daemon.creates.clear()
        task = asyncio.ensure_future(client.tensor(self.array))
        await asyncio.sleep(0.2)
        task.cancel()
        await self.check_cancelled(task)
        asyncio.get_running_loop().call_later(0.2, self.daemon.creates.set)
        await client.close()

        async def is_made():
            return self.daemon.made == 2

        self.assertTrue(await eventually(is_made))
        self.assertEqual(list(self.daemon.tensors), [self.tensor.handle])

    async def test_another_loop_does_not_close_it(self):
        client = gemmd.AsyncClient(self.daemon.target)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "another event"):
            await asyncio.to_thread(asyncio.run, client.close())
        await client.info()
        await client.close()

    async def test_who_is_cancelled_stays_so_while_the_client_closes(self):
        self.daemon.deletes.clear()
        for closes in False, True:
            client = gemmd.AsyncClient(self.daemon.target)
            tensor = await client.attach(self.tensor.handle)
            task = asyncio.ensure_future(tensor.delete())
            await asyncio.sleep(0.1)
            task.cancel()
            if closes:
                await client.close()
            await self.check_cancelled(task)
            await client.close()


if __name__ == "__main__":
    unittest.main()
