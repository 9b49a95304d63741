"""Calls that the daemon has no room for."""

import asyncio
import time
import unittest
from unittest import mock

import numpy as np

import gemmd
from fake_daemon import FakeDaemon
from gemmd import errors, retry

A = np.ones((2, 3), np.float16)


class RetryTest(unittest.TestCase):
    def setUp(self):
        self.daemon = FakeDaemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.client = gemmd.Client(self.daemon.target, timeout=30)
        self.addCleanup(self.client.close)

    def multiply(self, **options):
        return self.client.matmul(A, A.T, **options)

    def test_a_call_is_made_again_when_there_should_be_room(self):
        self.daemon.full = [30, 60]
        start = time.monotonic()
        self.assertEqual(self.multiply().tolist(), [[3, 3], [3, 3]])
        self.assertGreaterEqual(time.monotonic() - start, 0.09)
        self.assertEqual(self.daemon.full, [])

    def test_what_would_fail_again_is_not(self):
        self.daemon.full = [-1, -1]
        with self.assertRaises(gemmd.ResourceExhausted) as raised:
            self.multiply()
        self.assertIsNone(raised.exception.retry_after)
        self.assertEqual(self.daemon.full, [-1])

    def test_not_for_ever(self):
        self.daemon.full = [10] * 10
        with self.assertRaises(gemmd.ResourceExhausted) as raised:
            self.multiply()
        self.assertEqual(raised.exception.retry_after, 0.01)
        self.assertEqual(len(self.daemon.full), 10 - 1 - retry.MOST_RETRIES)

    def test_not_beyond_the_timeout(self):
        self.daemon.full = [5000] * 2
        start = time.monotonic()
        with self.assertRaises(gemmd.ResourceExhausted):
            self.multiply(timeout=5)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(len(self.daemon.full), 1)

    def test_not_in_a_year(self):
        patient = gemmd.Client(self.daemon.target, timeout=None)
        self.addCleanup(patient.close)
        for after in (301_000, 10 ** 18):
            self.daemon.full = [after]
            with mock.patch("time.sleep") as sleep, \
                    self.assertRaises(gemmd.ResourceExhausted) as raised:
                patient.matmul(A, A.T)
            self.assertEqual(raised.exception.retry_after, after / 1000)
            sleep.assert_not_called()

    def test_an_attempt_has_the_time_that_is_left(self):
        attempts = retry.Attempts(10.0)
        self.assertEqual(attempts.timeout, 10.0)
        error = errors.ResourceExhausted("full")
        error.retry_after = 2.0
        pause = attempts.pause(error)
        self.assertAlmostEqual(attempts.timeout, 10 - pause, delta=0.5)
        self.assertIsNone(retry.Attempts(None).timeout)

    def test_clients_do_not_come_back_together(self):
        error = errors.ResourceExhausted("full")
        error.retry_after = 1.0
        pauses = {retry.Attempts(None).pause(error) for _ in range(100)}
        self.assertGreater(len(pauses), 90)
        self.assertTrue(all(1 <= pause <= 2 for pause in pauses))

    def test_asyncio_too(self):
        async def run():
            async with gemmd.AsyncClient(self.daemon.target) as client:
                self.daemon.full = [20, 20]
                d = await client.matmul(A, A.T)
                self.assertEqual(d.tolist(), [[3, 3], [3, 3]])
                self.daemon.full = [-1]
                with self.assertRaises(gemmd.ResourceExhausted):
                    await client.matmul(A, A.T)
        asyncio.run(run())

    def test_a_stream_is_gone(self):
        client = gemmd.Client(self.daemon.target, timeout=30, stream_bytes=0)
        self.addCleanup(client.close)
        with client.zeros((2, 3), np.float16) as tensor:
            for call in (lambda: tensor.upload(A),
                         lambda: client.matmul(A, A.T)):
                with mock.patch.object(client, "_start",
                                       side_effect=full) as start, \
                        self.assertRaises(gemmd.ResourceExhausted):
                    call()
                start.assert_called_once()


def full(*_, **__):
    error = errors.ResourceExhausted("full")
    error.retry_after = 0.01
    raise error


if __name__ == "__main__":
    unittest.main()
