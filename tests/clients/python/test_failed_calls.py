"""What a call was to send goes when it fails, not when Python looks for cycles
next: products and tensors of gigabytes fail, too."""

import asyncio
import contextlib
import gc
import time
import unittest
import weakref

import numpy as np

import gemmd
from gemmd.together import Together
from host_daemon import HostDaemon

# The daemon's refusal, and the client's own end of a call.
FAILURES = {"device": "cuda:9"}, {"timeout": 1e-5}


def sent():
    a = np.ones((256, 256), np.float32)
    return a, weakref.ref(a)


class FailedCallsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        daemon = HostDaemon().__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.target = daemon.target
        gc.collect()
        gc.disable()
        cls.addClassCleanup(gc.enable)

    def fails(self, act, *arguments, **options):
        a, held = sent()
        with self.assertRaises(gemmd.Error):
            act(a, *arguments, **options)
        del a
        # gRPC's own threads hear of it a moment later.
        end = time.monotonic() + 20
        while held() is not None and time.monotonic() < end:
            time.sleep(0.01)
        self.assertIsNone(held(), "it is still there")

    def sequence(self, a, client, **options):
        with client.sequence(**options) as s:
            s.matmul(a, a)

    def test_client(self):
        for more in {}, {"stream_bytes": 0}, {"stripes": 2}:
            with gemmd.Client(self.target, **more) as client:
                client._stripes.least_bytes = 0
                for failure in FAILURES:
                    with self.subTest(more=more, failure=failure):
                        self.fails(lambda a: client.matmul(a, a, **failure))
                        self.fails(lambda a: client.matmul_grouped(
                            [a], [a], **failure))
                        self.fails(client.tensor, **failure)
                        self.fails(self.sequence, client, **failure)

    def test_several_connections(self):
        def by_threads(a):
            together = Together(contextlib.nullcontext)

            def follow(i):
                with together.part():
                    raise gemmd.Unknown(f"{a.shape} by {i}")

            together.by_threads(2, follow)

        async def by_tasks(a):
            together = Together(contextlib.nullcontext)

            async def follow(i):
                with together.part():
                    raise gemmd.Unknown(f"{a.shape} by {i}")

            await together.by_tasks(2, follow)

        self.fails(by_threads)
        asyncio.run(self.fails_by_aio(by_tasks))

    def test_a_block_that_raises(self):
        def interrupted(a):
            with client.sequence() as s:
                s.matmul(a, a)
                raise gemmd.Unknown("in the block")

        with gemmd.Client(self.target) as client:
            self.fails(interrupted)

    def test_results_of_a_sequence_that_failed(self):
        a, _ = sent()
        with gemmd.Client(self.target) as client:
            with self.assertRaisesRegex(gemmd.InvalidArgument, "device"):
                with client.sequence(device="cuda:9") as s:
                    d, amax = s.matmul(a, a, return_amax=True)
        for act in d.numpy, lambda: float(amax):
            with self.assertRaisesRegex(
                    gemmd.FailedPrecondition,
                    "is not there: the block of its sequence has failed"):
                act()

    async def fails_by_aio(self, act):
        a, held = sent()
        try:
            await act(a)
            self.fail("it does not fail")
        except gemmd.Error:
            pass
        del a
        end = time.monotonic() + 20
        while held() is not None and time.monotonic() < end:
            await asyncio.sleep(0.01)
        self.assertIsNone(held(), "it is still there")

    async def all_by_aio(self):
        async def sequence(a, **options):
            async with client.sequence(**options) as s:
                s.matmul(a, a)

        for more in {}, {"stream_bytes": 0}:
            async with gemmd.AsyncClient(self.target, **more) as client:
                for failure in FAILURES:
                    with self.subTest(more=more, failure=failure):
                        for act in (
                                lambda a: client.matmul(a, a, **failure),
                                lambda a: client.tensor(a, **failure),
                                lambda a: sequence(a, **failure)):
                            await self.fails_by_aio(act)

    def test_async_client(self):
        asyncio.run(self.all_by_aio())


if __name__ == "__main__":
    unittest.main()
