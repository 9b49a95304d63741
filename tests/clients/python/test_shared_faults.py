"""Shared memory where calls fail, a daemon ends, stands still or has little."""

import gc
import os
import signal
import socket
import tempfile
import threading
import time
import unittest
import unittest.mock

import gemmd
import numpy as np
from both_clients import both_clients
from host_daemon import HostCase, HostDaemon

F32 = np.float32


def ones(*shape):
    return np.ones(shape, F32)


def regions(client):
    return getattr(client, "_of", client)._regions._regions


class RestartTest(unittest.TestCase):

    def test_a_client_goes_on_with_a_daemon_that_was_restarted(self):
        with HostDaemon() as daemon:
            for client in both_clients(daemon.target):
                x = client.empty((8, 8))
                x[...] = 1
                daemon.restart()
                client.wait_for_ready()
                with self.subTest("tensor"):
                    self.assertTrue((client.tensor(ones(8, 8)).numpy() == 1)
                                    .all())
                # What the old one had is sent, and `out` filled here.
                self.assertTrue((client.matmul(x, x) == 8).all())
                out = client.empty((8, 8))
                self.assertTrue((client.matmul(x, x, out=out) == 8).all())
                self.assertIs(client.matmul(out, out, out=x), x)
                self.assertTrue((x == 512).all())
                self.assertEqual(len(regions(client)), 1)

    def test_an_older_region_that_is_gone_has_room(self):
        with HostDaemon() as daemon:
            for client in both_clients(daemon.target):
                old = client.empty((8, 8))
                full = client.empty((1 << 20, 16))
                daemon.restart()
                client.wait_for_ready()
                new = client.empty((8, 8))
                new[...] = 2
                self.assertTrue((client.matmul(new, new) == 32).all())
                with client.sequence() as s:
                    y = s.matmul(new, new)
                self.assertTrue((y.numpy() == 32).all())
                del old, full


class FailedCallsTest(HostCase):

    def test_what_the_daemon_refuses_leaves_no_memory(self):
        for client in both_clients(self.target, timeout=60):
            x = client.empty((1024, 8))
            gone = client.tensor(ones(8, 1024))
            gone.delete()
            for _ in range(40):
                with self.assertRaises(gemmd.NotFound):
                    client.matmul(x, gone)
                with self.assertRaises(gemmd.NotFound):
                    client.matmul_grouped([x], [gone])
                with self.assertRaises(gemmd.NotFound):
                    with client.sequence() as s:
                        s.matmul(x, gone)
            gc.collect()
            # What an exception still refers to may have needed a second one.
            self.assertLessEqual(len(regions(client)), 2)
            self.assertEqual(sum(region._lost for region in
                                 regions(client)), 0)

    def test_what_has_no_answer_leaves_a_region_at_most(self):
        for client in both_clients(self.target):
            x = client.empty((1024, 1024))
            x[...] = 1
            for _ in range(60):
                with self.assertRaises(gemmd.DeadlineExceeded):
                    client.matmul(x, x, timeout=1e-3)
            self.assertGreater(sum(region._lost for region in
                                   regions(client)), 0)
            self.assertLessEqual(len(regions(client)), 2)
            self.assertTrue((client.matmul(x, x) == 1024).all())

    def test_an_answer_after_none_is_none(self):
        attempts = gemmd.retry.Attempts(None, key="k" * 16)
        attempts.pause(gemmd.Unavailable("lost"))
        refused = gemmd.NotFound("gone")
        attempts.pause(refused)
        self.assertFalse(refused.is_answer)
        self.assertTrue(gemmd.NotFound("gone").is_answer)

    def test_shapes_and_types_that_nobody_has(self):
        for client in both_clients(self.target):
            for shape, dtype in ((None, F32), ((2.9, 3), F32), ("4", F32),
                                 ((2, None), F32), ((4,), object),
                                 ((1 << 62, 0), F32), ((1,) * 80, F32)):
                with self.assertRaises(gemmd.InvalidArgument):
                    client.empty(shape, dtype)
            with self.assertRaises(gemmd.ResourceExhausted):
                client.empty(1 << 62)
            self.assertEqual(client.empty(np.int64(3)).shape, (3,))
            self.assertEqual(client.empty([2, 3]).shape, (2, 3))
            self.assertEqual(client.empty(()).shape, ())


class LittleMemoryTest(unittest.TestCase):

    def test_a_daemon_that_grants_less_than_a_usual_region(self):
        with HostDaemon("--region-bytes=64MiB") as daemon:
            for client in both_clients(daemon.target):
                a = client.empty((4, 4))
                a[...] = 1
                self.assertTrue((client.matmul(a, a) == 4).all())
            # Beside what others have, a smaller one.
            for client in both_clients(daemon.target):
                large = client.empty(40 << 20, np.int8)
                small = client.empty(4 << 20, np.int8)
                del large, small

    def test_too_much_is_refused_before_it_is_allocated(self):
        allocated = []

        class Counted(gemmd.shared._Region):
            def __init__(self, size):
                allocated.append(size)
                super().__init__(size)

        with HostDaemon("--region-bytes=64MiB") as daemon, \
                unittest.mock.patch("gemmd.shared._Region", Counted):
            for client in both_clients(daemon.target):
                with self.assertRaisesRegex(gemmd.ResourceExhausted,
                                            "the limit of one is 50331648"):
                    client.empty(100 << 18)
        self.assertEqual(allocated, [])


class TurnedAwayTest(unittest.TestCase):

    def test_who_is_not_heard_is_told_so(self):
        def turn_away():
            with door.accept()[0]:
                time.sleep(0.05)  # What has come by then is not read.

        with tempfile.TemporaryDirectory() as folder, \
                socket.socket(socket.AF_UNIX) as door:
            path = f"{folder}/door"
            door.bind(path)
            door.listen()
            thread = threading.Thread(target=turn_away)
            thread.start()
            with self.assertRaisesRegex(gemmd.Unavailable, "too many regions"):
                gemmd.offer.offer(path, None)
            thread.join()


class StandsStillTest(unittest.TestCase):

    def setUp(self):
        self.daemon = HostDaemon().__enter__()
        self.addCleanup(self.daemon.__exit__)

    def stop(self):
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        # All threads have, not the first.
        os.waitpid(self.daemon.process.pid, os.WUNTRACED)

    def go_on(self):
        os.kill(self.daemon.process.pid, signal.SIGCONT)

    def test_regions_are_made_within_the_timeout(self):
        for client in both_clients(self.daemon.target, timeout=30):
            x = client.empty((1 << 20, 16))  # All of a region.
            x[...] = 1
            b = ones(16, 16)
            self.stop()
            try:
                for call in (
                        lambda: client.matmul(x, b, timeout=0.5),
                        lambda: client.matmul_grouped([x], [b], timeout=0.5)):
                    start = time.monotonic()
                    with self.assertRaises(gemmd.DeadlineExceeded):
                        call()
                    self.assertLess(time.monotonic() - start, 4)
            finally:
                self.go_on()
            self.assertTrue((client.matmul(x, b) == 16).all())

    def test_an_out_that_has_no_answer_is_given_to_nobody_else(self):
        for client in both_clients(self.daemon.target):
            a = client.empty((8, 8))
            a[...] = 1

            def sequence(out):
                with client.sequence(timeout=0.05) as s:
                    s.matmul(a, a, out=out)

            before = []
            self.stop()
            try:
                for call in (
                        lambda out: client.matmul(a, a, out=out, timeout=0.05),
                        lambda out: client.matmul_grouped(
                            [a], [a], out=[out], timeout=0.05),
                        sequence):
                    whole = client.empty((9, 8))
                    before.append(whole.ctypes.data)
                    with self.assertRaises(gemmd.DeadlineExceeded):
                        call(whole[1:])
                    del whole
            finally:
                self.go_on()
            gc.collect()
            after = [client.empty((9, 8)) for _ in range(8)]
            self.assertFalse(
                set(before) & {each.ctypes.data for each in after})
            # Who still has one shares it as before.
            out = client.empty((8, 8))
            with self.assertRaises(gemmd.DeadlineExceeded):
                client.matmul(a, a, out=out, timeout=-1)
            product = client.product(a, a, out=out)
            self.assertEqual(product.execution.paths.d, 4)  # SHARED

    def test_empty_ends_with_the_clients_timeout(self):
        self.stop()
        try:
            for client in both_clients(self.daemon.target, timeout=0.5):
                start = time.monotonic()
                with self.assertRaises(gemmd.DeadlineExceeded):
                    client.empty((4, 4))
                self.assertLess(time.monotonic() - start, 4)
        finally:
            self.go_on()

    def test_a_clock_that_is_early_changes_no_error(self):
        early = gemmd.DeadlineExceeded("a moment before")
        for client in both_clients(self.daemon.target, timeout=5):
            with unittest.mock.patch("gemmd.shared.rpcs.server_info",
                                     side_effect=early), \
                    self.assertRaises(gemmd.DeadlineExceeded):
                client.empty((4, 4))

    def test_the_socket_is_waited_for_as_long(self):
        path = gemmd.offer.socket_path(self.daemon.target)
        self.stop()
        try:
            with gemmd.time_left.within(0.2), self.assertRaisesRegex(
                    gemmd.DeadlineExceeded, r"within 0\.(2|1\d*) s"):
                gemmd.offer.offer(path, None)
            with unittest.mock.patch("gemmd.offer.ANSWER_S", 0.2), \
                    self.assertRaisesRegex(gemmd.Unavailable, "within 0.2 s"):
                gemmd.offer.offer(path, None)
        finally:
            self.go_on()


if __name__ == "__main__":
    unittest.main()
