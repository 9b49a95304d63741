"""An AsyncClient that stripes everything and leaves nothing behind."""

import asyncio
import gc
import time
import unittest
import warnings

import gemmd

from host_daemon import HostDaemon

WAIT_S = 60
# Of calls that close() ends. Python 3.10 does not tell who was cancelled.
tells_who_is_cancelled = unittest.skipUnless(
    hasattr(asyncio.Task, "cancelling"), "this Python does not tell")


async def eventually(ask):
    """Whether ask() is true within a minute."""
    end = time.monotonic() + WAIT_S
    while not (answer := await ask()) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return answer


async def alone():
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
        self.assertTrue(await eventually(alone), asyncio.all_tasks())
        self.assertEqual(self.client._tasks, set())
        await self.client.close()
        gc.collect()
        await asyncio.sleep(0)
        self.assertEqual(self.noise, [])
        self.assertEqual([str(one.message) for one in self.warnings], [])

    async def no_tensors(self):
        return not await self.client.tensors()
