"""Shared memory where a client or the daemon ends, or there is none."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import time
import unittest

import gemmd
import numpy as np
from eventually import eventually
from host_daemon import HostDaemon


# Makes regions and multiplies until it is killed.
ENDLESS = """
import sys, numpy as np, gemmd
while True:
    with gemmd.Client(sys.argv[1]) as client:
        a = client.empty((300, 300), np.float32)
        large = client.empty(70 << 20, np.int8)
        a[...] = 1
        assert (client.matmul(a, a) == 300).all()
        print("multiplied", flush=True)
        del a, large
"""


def shared_mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return sum("memfd:gemmd" in line for line in maps)


class KilledTest(unittest.TestCase):

    def test_clients_that_are_killed_leave_nothing(self):
        with HostDaemon() as daemon, gemmd.Client(daemon.target) as client:
            a = client.empty((300, 300), np.float32)
            a[...] = 1
            client.matmul(a, a)
            pid = daemon.process.pid

            def files():
                return len(os.listdir(f"/proc/{pid}/fd"))

            before = files()
            self.assertEqual(shared_mappings(pid), 1)
            for i in range(8):
                victim = subprocess.Popen(
                    [sys.executable, "-c", ENDLESS, daemon.target],
                    stdout=subprocess.PIPE)
                victim.stdout.readline()
                time.sleep(0.013 * i)
                victim.kill()
                victim.wait()
                victim.stdout.close()
            self.assertTrue(eventually(lambda: shared_mappings(pid) == 1))
            # gRPC opens one of its own when it likes; each victim had three.
            self.assertTrue(eventually(lambda: files() < before + 4), files())
            self.assertTrue((client.matmul(a, a) == 300).all())


@contextlib.contextmanager
def forked(act):
    """A child of this process that lives as long as the block, and what act()
    returns there."""
    fork = multiprocessing.get_context("fork")
    answers, may_end = fork.SimpleQueue(), fork.Event()

    def run():
        answers.put(act())
        may_end.wait()

    child = fork.Process(target=run)
    child.start()
    try:
        yield answers.get()
    finally:
        may_end.set()
        child.join()


class ForkedTest(unittest.TestCase):

    def test_a_child_keeps_no_region_of_a_client_that_is_closed(self):
        with HostDaemon() as daemon, gemmd.Client(daemon.target) as client:
            client.empty((8, 8))
            pid = daemon.process.pid
            self.assertEqual(shared_mappings(pid), 1)
            with forked(lambda: None):
                client.close()
                self.assertTrue(eventually(lambda: shared_mappings(pid) == 0))

    def test_a_child_neither_gets_memory_nor_ends_a_region(self):
        with HostDaemon() as daemon, gemmd.Client(daemon.target) as client:
            a = client.empty((8, 8))
            a[...] = 1

            def act():
                try:
                    client.empty((8, 8))
                    return "it has memory"
                except gemmd.Error as error:
                    return str(error)
                finally:
                    client._regions.close()

            with forked(act) as said:
                self.assertIn("of the process that made it", said)
                paths = client.product(a, a).execution.paths
                self.assertEqual((paths.a, paths.d), (4, 4))  # SHARED


class WithoutTest(unittest.TestCase):

    def test_only_unix_sockets_share(self):
        with gemmd.Client("localhost:1") as client:
            with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                        "is no Unix socket"):
                client.empty((2, 2))

    def test_a_daemon_that_grants_none(self):
        with HostDaemon("--region-bytes=0") as daemon:
            self.assertEqual(os.listdir(os.path.dirname(
                daemon.target[5:])).count("socket.memory"), 0)
            with gemmd.Client(daemon.target) as client:
                with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                            "--region-bytes is 0"):
                    client.empty((2, 2))
                a, out = np.ones((8, 8), np.float32), np.empty((8, 8),
                                                               np.float32)
                with client.sequence() as s:
                    d = s.matmul(s.matmul(a, a, out=out), a)
                self.assertTrue((d.numpy() == 64).all())
                self.assertTrue((out == 8).all())
                # Nor does it know those of others.
                header = gemmd.api.MatmulHeader()
                header.problem.CopyFrom(gemmd.product.Call(a, a).header.problem)
                header.a.name = header.b.name = "x"
                place = gemmd.wire.Place("0" * 32, 0)
                with self.assertRaisesRegex(
                        gemmd.NotFound, "steps.0.: a.name .x.: operand's "
                        "region: no such region"):
                    client._run(gemmd.rpcs.sequence(
                        [header], [gemmd.wire.Named(
                            "x", gemmd.api.Layout(), memoryview(b""), place)],
                        ""), None)

    def test_a_daemon_that_has_no_more(self):
        with HostDaemon("--region-bytes=128MiB") as daemon:
            with gemmd.Client(daemon.target) as client:
                whole = client.empty(16 << 20, np.float32)
                a = whole[:64 * 64].reshape(64, 64)
                a[...] = 2
                with self.assertRaisesRegex(gemmd.ResourceExhausted,
                                            "the limit of one is 100663296"):
                    client.empty(40 << 20, np.int8)
                # Its results are sent where there is no room for them.
                d = client.matmul(a, a)
                self.assertTrue((d == 256).all())
                self.assertIsNone(client._regions.place(
                    d.reshape(-1).view(np.uint8).data))
                with client.sequence() as s:
                    d = s.matmul(s.matmul(a, a), a)
                self.assertTrue((d.numpy() == 256 * 128).all())

    def test_a_daemon_that_has_ended(self):
        daemon = HostDaemon()
        with daemon:
            client = gemmd.Client(daemon.target)
            a = client.empty((8, 8), np.float32)
            a[...] = 2
            client.matmul(a, a)
        with self.assertRaises(gemmd.Unavailable):
            client.matmul(a, a, timeout=5)
        self.assertEqual(a.sum(), 128)
        client.close()

    def test_a_daemon_that_comes_back(self):
        with HostDaemon() as daemon, gemmd.Client(daemon.target) as client:
            a = client.empty((8, 8), np.float32)
            a[...] = 2
            client.matmul(a, a)
            daemon.restart()
            client.wait_for_ready()
            d = client.matmul(a, a)  # Sent: that daemon has it not.
            self.assertTrue((d == 32).all())
            with client.sequence() as s:
                e = s.matmul(a, a)
            self.assertTrue((e.numpy() == 32).all())
            b = client.empty((8, 8), np.float32)
            b[...] = 3
            self.assertTrue((client.matmul(b, b) == 72).all())


if __name__ == "__main__":
    unittest.main()
