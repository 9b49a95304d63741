"""Products with an idempotency key, which are carried out once though they are
asked for again."""

import secrets
import threading
import time
import unittest
from unittest import mock

import gemmd
import numpy as np

from both_clients import both_clients
from fake_daemon import FakeDaemon
from gemmd import errors, retry
from host_daemon import HostCase
from proxy import Proxy

F32 = np.float32
MATMUL = "MatmulService/Matmul"
STREAM = "MatmulService/MatmulStream"
A = np.ones((40, 50), F32)


def key():
    return secrets.token_hex(16)


class KeysTest(HostCase):
    """Products that add 50 to every element of a tensor."""

    def setUp(self):
        self.proxy = Proxy(self.target).__enter__()
        self.addCleanup(self.proxy.__exit__)
        self.sums = self.client.zeros((40, 40), F32)
        self.addCleanup(self.sums.delete)

    def clients(self, **options):
        """And what adds to the tensor, with a key or without."""
        for client in both_clients(self.proxy.target,
                                   **{"timeout": 60, **options}):
            self.sums.upload(np.zeros((40, 40), F32))
            self.proxy.calls.clear()
            sums = client.attach(self.sums.handle)

            def add(key="", a=A):
                return client.product(a, A.T, c=sums, beta=1, out=sums,
                                      idempotency_key=key)
            yield client, add

    def check_added(self, times):
        self.assertTrue((self.sums.numpy() == 50 * times).all())

    def test_a_key_is_of_one_product(self):
        for client, add in self.clients():
            mine = key()
            first, second = add(mine), add(mine)
            self.assertEqual(first.execution, second.execution)
            self.check_added(1)
            add(key())
            add()
            add()
            self.check_added(4)
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        "that of another request"):
                add(mine, a=2 * A)
            self.check_added(4)

    def test_a_lost_answer_is_asked_for_again(self):
        for limit, method in (1 << 20, MATMUL), (0, STREAM):
            for client, add in self.clients(stream_bytes=limit):
                self.proxy.lose[method] = 2
                self.assertEqual(add(key()).execution.device, "host")
                self.check_added(1)
                calls = self.proxy.of(method)
                self.assertEqual(len(calls), 3)
                self.assertEqual(len({call.metadata["gemmd-idempotency-key"]
                                      for call in calls}), 1)
                # Of a stream the answer may come before its end.
                self.assertEqual(calls[0].requests[0], calls[2].requests[0])
                # Without one nobody knows.
                self.proxy.lose[method] = 1
                with self.assertRaises(gemmd.Unavailable):
                    add()
                self.check_added(2)
                self.assertNotIn("gemmd-idempotency-key",
                                 self.proxy.of(method)[-1].metadata)

    def test_a_stream_that_is_lost_begins_anew(self):
        a = np.ones((600, 50), F32)
        for client, _ in self.clients(stream_bytes=0):
            inner = getattr(client, "_of", client)
            receive = inner._receive

            def lose_at_its_end(rpc, timeout, take):
                inner._receive = receive
                # By a daemon that does not know it any more later.
                ended = receive(rpc.with_key(""), timeout, take)
                if ended is None:
                    raise errors.Unavailable("lost")

                async def wait():
                    await ended
                    raise errors.Unavailable("lost")
                return wait()

            inner._receive = lose_at_its_end
            self.assertTrue((client.matmul(
                a, a.T, idempotency_key=key()) == 50).all())
            self.assertEqual(len(self.proxy.of(STREAM)), 2)

    def test_a_damaged_message_is_sent_again(self):
        for direction in "request", "response":
            for limit, method in (1 << 20, MATMUL), (0, STREAM):
                for client, add in self.clients(checksums=True,
                                                stream_bytes=limit):
                    def damage_once(call, message):
                        first = (call.method == method
                                 and len(self.proxy.of(method)) == 1)
                        return b"x" + message if first else message

                    setattr(self.proxy, f"spoil_{direction}", damage_once)
                    add(key())
                    self.check_added(1)
                    self.assertEqual(len(self.proxy.of(method)), 2)
                    self.proxy.calls.clear()
                    with self.assertRaises(gemmd.DataLoss):
                        add()
                    setattr(self.proxy, f"spoil_{direction}",
                            lambda call, message: message)

    def test_of_a_group_and_of_a_sequence(self):
        def grouped(client, sums, key):
            return client.matmul_grouped([A], [A.T], c=[sums], beta=1,
                                         out=[sums], idempotency_key=key)

        def sequence(client, sums, key):
            with client.sequence(idempotency_key=key) as s:
                s.matmul(A, A.T, c=sums, beta=1, out=sums)

        for run, method in ((grouped, "MatmulService/MatmulGrouped"),
                            (sequence, "MatmulService/Sequence")):
            for client, _ in self.clients():
                sums = client.attach(self.sums.handle)
                self.proxy.lose[method] = 1
                mine = key()
                run(client, sums, mine)
                self.assertEqual(len(self.proxy.of(method)), 2)
                run(client, sums, mine)
                self.check_added(1)
                self.proxy.lose[method] = 1
                with self.assertRaises(gemmd.Unavailable):
                    run(client, sums, "")
                self.check_added(2)
                with self.assertRaisesRegex(gemmd.InvalidArgument,
                                            "idempotency_key: 'short'"):
                    run(client, sums, "short")

    def test_results_that_return(self):
        large = np.ones((130, 130), F32)  # 66 KiB.
        for client, _ in self.clients():
            for a, kept in (A, True), (large, False):
                mine = key()
                expected = client.matmul(a, a.T, idempotency_key=mine)
                if kept:
                    np.testing.assert_array_equal(client.matmul(
                        a, a.T, idempotency_key=mine), expected)
                    continue
                with self.assertRaisesRegex(gemmd.AlreadyExists,
                                            "was carried out"):
                    client.matmul(a, a.T, idempotency_key=mine)

    def test_it_goes_by_one_connection(self):
        for client, add in self.clients(stripes=3, stream_bytes=0):
            client._stripes.least_bytes = 0
            a = np.ones((600, 900), F32)
            client.matmul(a, a.T, idempotency_key=key())
            self.assertEqual({call.method for call in self.proxy.calls},
                             {"TensorService/DescribeTensor",
                              "ServerService/GetServerInfo", STREAM})

    def test_results_in_shared_memory(self):
        for client in both_clients(self.target, timeout=60):
            a, out = client.empty((40, 50), F32), client.empty((40, 40), F32)
            a[...], out[...] = 1, 0
            mine = key()
            for _ in range(2):
                client.matmul(a, a.T, c=out, beta=1, out=out,
                              idempotency_key=mine)
            self.assertTrue((out == 50).all())

    def test_keys_that_are_none(self):
        for client, add in self.clients():
            for wrong in ("short", 15 * "x", 65 * "x", "0123456789 bcdef", 1,
                          None, "0123456789abcde\n", 16 * "\u00e4", b"x" * 16):
                with self.assertRaisesRegex(
                        gemmd.InvalidArgument,
                        "idempotency_key: .*; allowed: 16 to 64"):
                    add(wrong)
            add(32 * "~" + key())
            self.check_added(1)


class OtherKeysTest(unittest.TestCase):
    """Against a daemon in Python."""

    def test_while_the_first_call_is_carried_out(self):
        a = np.ones((2, 3), np.float16)
        with FakeDaemon() as daemon:
            for client in both_clients(daemon.target, timeout=60):
                daemon.full = [1] * 6
                d = client.matmul(a, a.T, idempotency_key=key())
                self.assertEqual(d.tolist(), [[3, 3], [3, 3]])
                self.assertEqual(daemon.full, [])

    def test_a_daemon_that_comes_back(self):
        a = np.ones((2, 3), np.float16)
        with FakeDaemon() as daemon:
            port = daemon.target
        for client in both_clients(port, timeout=60):
            with self.assertRaises(gemmd.Unavailable):
                client.matmul(a, a.T)
            later = threading.Timer(0.5, lambda: started.append(
                FakeDaemon(address=port).__enter__()))
            started = []
            later.start()
            try:
                d = client.matmul(a, a.T, idempotency_key=key())
            finally:
                later.join()
                started[0].__exit__()
            self.assertEqual(d.tolist(), [[3, 3], [3, 3]])


class AttemptsTest(unittest.TestCase):
    def test_pauses_double_and_end(self):
        with mock.patch("random.uniform", return_value=1.0):
            attempts = retry.Attempts(None, repeatable=False, key=key())
            pauses = [attempts.pause(errors.Unavailable("lost"))
                      for _ in range(retry.MOST_RETRIES_WITH_KEY + 1)]
        self.assertEqual(pauses[:3], [0.05, 0.1, 0.2])
        self.assertIsNone(pauses.pop())
        self.assertAlmostEqual(sum(pauses), 12.75)

    def test_the_daemon_may_know_better(self):
        full = errors.ResourceExhausted("full")
        full.retry_after = 3.0
        pause = retry.Attempts(None, key=key()).pause(full)
        self.assertTrue(3 <= pause <= 6)
        full.retry_after = None
        self.assertIsNone(retry.Attempts(None, key=key()).pause(full))

    def test_what_would_fail_again_is_not_asked_for(self):
        for error in (errors.InvalidArgument(""), errors.AlreadyExists(""),
                      errors.DeadlineExceeded(""), errors.Internal(""),
                      errors.Cancelled("")):
            self.assertIsNone(retry.Attempts(None, key=key()).pause(error))
        self.assertIsNone(retry.Attempts(None).pause(errors.Unavailable("")))
        self.assertIsNone(retry.Attempts(None).pause(errors.DataLoss("")))

    def test_not_beyond_the_timeout(self):
        with FakeDaemon() as daemon:
            target = daemon.target
        for client in both_clients(target):
            start = time.monotonic()
            with self.assertRaises(gemmd.Unavailable):
                client.matmul(A, A.T, idempotency_key=key(), timeout=1)
            self.assertLess(time.monotonic() - start, 2)


if __name__ == "__main__":
    unittest.main()
