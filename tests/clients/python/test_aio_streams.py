"""Streams of AsyncClient that the daemon, or the caller, ends early."""

import asyncio
import gc
import unittest

import grpc
import numpy as np

import gemmd
from gemmd import streams
from host_daemon import HostDaemon

F32 = np.float32
# How a call ends is a race within gRPC.
TIMES = 20


class AioStreamsTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.daemon = HostDaemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.client = gemmd.AsyncClient(self.daemon.target, timeout=60,
                                        stream_bytes=0)
        self.addAsyncCleanup(self.client.close)
        self.a = np.ones((1500, 1500), F32)
        self.noise = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self.noise.append(context["message"]))

    async def test_a_refusal_is_what_the_daemon_said(self):
        async with await self.client.tensor(self.a) as gone:
            pass
        for _ in range(TIMES):
            with self.assertRaisesRegex(gemmd.InvalidArgument, "device is un"):
                await self.client.matmul(self.a, self.a, device="cuda:9")
            with self.assertRaisesRegex(gemmd.NotFound, "no tensor"):
                await gone.upload(self.a)

    async def test_a_deadline_is_a_deadline(self):
        for timeout in (1e-6, 1e-4, 1e-3, 5e-3):
            for _ in range(TIMES):
                with self.assertRaises(gemmd.DeadlineExceeded):
                    await self.client.matmul(self.a, self.a, timeout=timeout)
        gc.collect()
        self.assertEqual(self.noise, [])  # No task is left behind.

    async def test_what_is_cancelled_is_left_by_all(self):
        for delay in (0, 1e-4, 1e-3, 5e-3):
            for _ in range(TIMES):
                task = asyncio.ensure_future(
                    self.client.matmul(self.a, self.a))
                await asyncio.sleep(delay)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
        # gRPC's own ends when the core has said that the call was cancelled.
        for _ in range(1000):
            if asyncio.all_tasks() == {asyncio.current_task()}:
                break
            await asyncio.sleep(.01)
        self.assertEqual(asyncio.all_tasks(), {asyncio.current_task()})
        gc.collect()
        self.assertEqual(self.noise, [])
        b = np.full((1500, 2), 2, F32)
        np.testing.assert_array_equal(await self.client.matmul(self.a, b),
                                      self.a @ b)


class FakeCore:
    """What grpc.aio calls a call of gRPC's core."""

    def __init__(self):
        self.error = None

    def done(self):
        return self.error is not None

    def set_internal_error(self, details):
        self.error = details


class FakeCall:
    def __init__(self):
        self._cython_call = FakeCore()

    async def write(self, message):
        self._cython_call.set_internal_error("the write failed")
        raise grpc.aio.InternalError()


class PatienceTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_call_without_a_status_ends_all_the_same(self):
        call = FakeCall()
        core = call._cython_call
        async with streams.sending(call, [b"message"]):
            for _ in range(3):  # The write has failed.
                await asyncio.sleep(0)
            self.assertIsNone(core.error)
            await asyncio.sleep(streams._STATUS_S)
            self.assertEqual(core.error, "the write failed")


if __name__ == "__main__":
    unittest.main()
