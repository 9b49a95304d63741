"""Messages that end with a Checksum: what is damaged on its way is noticed."""

import sys
import types
import unittest
from unittest import mock

import gemmd
import numpy as np

from both_clients import both_clients
from gemmd.checksums import Checksums
from host_daemon import HostCase
from proxy import Proxy

F32 = np.float32
# Of RFC 3720, appendix B.4, and of nothing.
ZEROS = bytes(32)
ZEROS_SUM = b"\xfd\x7f" + 0x8A9136AA.to_bytes(4, "little")
EMPTY_SUM = b"\xfd\x7f" + bytes(4)

UPLOAD = "TensorService/UploadTensor"
DOWNLOAD = "TensorService/DownloadTensor"
MATMUL = "MatmulService/Matmul"
STREAM = "MatmulService/MatmulStream"


class ChecksumsTest(unittest.TestCase):
    def setUp(self):
        self.checksums = Checksums()

    def test_known_sums(self):
        self.assertEqual(self.checksums.sealed(ZEROS), ZEROS + ZEROS_SUM)
        self.assertEqual(self.checksums.sealed(b""), EMPTY_SUM)
        self.assertEqual(self.checksums.opened(ZEROS + ZEROS_SUM), ZEROS)
        self.assertEqual(self.checksums.opened(EMPTY_SUM), b"")

    def test_every_bit_counts(self):
        sealed = self.checksums.sealed(b"some message")
        for bit in range(8 * len(sealed)):
            damaged = bytearray(sealed)
            damaged[bit // 8] ^= 1 << bit % 8
            with self.assertRaisesRegex(gemmd.DataLoss, "a message of 18 b"):
                self.checksums.opened(bytes(damaged))

    def test_lengths(self):
        sealed = self.checksums.sealed(b"some message")
        for damaged in (sealed[:-1], sealed[1:], sealed + b"\0", b"",
                        sealed[:-6], EMPTY_SUM[1:], sealed[:-6] + EMPTY_SUM):
            with self.assertRaises(gemmd.DataLoss):
                self.checksums.opened(damaged)

    def test_what_is_said(self):
        with self.assertRaisesRegex(
                gemmd.DataLoss, "^DATA_LOSS: a message of 5 bytes does not end "
                "with a Checksum, as the metadata gemmd-checksums says"):
            self.checksums.opened(b"other")
        with self.assertRaisesRegex(
                gemmd.DataLoss, "a message of 38 bytes was damaged on its way: "
                "the CRC-32C of what came is 8a9136aa, and its Checksum says "
                "00000000$"):
            self.checksums.opened(ZEROS + EMPTY_SUM)

    def test_without_the_package(self):
        slow = types.SimpleNamespace(implementation="python")
        for found, said in (None, "not installed"), (slow, "extension in C"):
            with mock.patch.dict(sys.modules, google_crc32c=found):
                with self.assertRaisesRegex(
                        gemmd.MissingPackage,
                        f"{said}; run pip install 'google-crc32c") as raised:
                    gemmd.Client("localhost:1", checksums=True)
                gemmd.Client("localhost:1").close()
            self.assertIsInstance(raised.exception, ImportError)

    def test_only_bools(self):
        for wrong in 1, "crc32c", None:
            with self.assertRaisesRegex(gemmd.InvalidArgument, "^INVALID_ARGU"
                                        "MENT: checksums: .* is no bool"):
                gemmd.Client("localhost:1", checksums=wrong)


def _flipped(message, at):
    return message[:at] + bytes([message[at] ^ 16]) + message[at + 1:]


SPOILS = {
    "first": lambda message: _flipped(message, 0),
    "middle": lambda message: _flipped(message, len(message) // 2),
    "sum": lambda message: _flipped(message, len(message) - 1),
    "no sum": lambda message: message[:-6],
    "nothing": lambda message: b"",
}


class GuardedTest(HostCase):
    """Calls through a proxy that damages one of their messages."""

    def setUp(self):
        self.proxy = Proxy(self.target).__enter__()
        self.addCleanup(self.proxy.__exit__)
        self.a = np.arange(90 * 70, dtype=F32).reshape(90, 70)

    def clients(self, **options):
        for client in both_clients(self.proxy.target, **{
                "timeout": 60, "checksums": True, **options}):
            client._stripes.least_bytes = 0
            self.proxy.calls.clear()
            yield client

    def spoil(self, direction, method, spoil, nth=0):
        """The message that is the nth of a call; nobody's without a method."""
        def act(call, message):
            passed = getattr(call, f"{direction}s")
            hit = call.method == method and len(passed) == nth + 1
            return spoil(message) if hit else message
        setattr(self.proxy, f"spoil_{direction}", act)

    def check_all_are_sealed(self, methods):
        self.assertEqual({call.method for call in self.proxy.calls},
                         set(methods))
        checksums = Checksums()
        for call in self.proxy.calls:
            self.assertEqual(call.metadata["gemmd-checksums"], "crc32c")
            self.assertTrue(call.requests and call.responses)
            for message in call.requests + call.responses:
                checksums.opened(message)
            longest = max(map(len, call.requests))
            if longest > 70000:
                # What was not announced would not be read.
                announced = int(call.metadata["gemmd-message-bytes"])
                self.assertGreaterEqual(announced, longest)
                if call.method == MATMUL:
                    self.assertEqual(announced, longest)

    def test_every_call_is_guarded(self):
        large = np.ones((300, 400), F32)
        for client in self.clients(stream_bytes=1 << 20, stripes=1):
            client.wait_for_ready(60)
            self.assertEqual(client.info().version, self.client.info().version)
            self.assertEqual(client.statistics().tensors, 0)
            tensor = client.tensor(large)
            self.assertEqual(len(client.tensors()), 1)
            self.assertTrue((tensor.numpy() == large).all())
            self.assertTrue((client.matmul(large, large[0]) == 400).all())
            self.assertTrue((client.matmul(np.ones((900, 300), F32), tensor,
                                           out_dtype=F32) == 300).all())
            self.assertTrue((client.matmul_grouped(
                [large], [large.T], bias=[np.ones(300)])[0] == 401).all())
            tensor.delete()
            self.check_all_are_sealed({
                "/grpc.health.v1.Health/Check", "ServerService/GetServerInfo",
                "ServerService/GetStatistics", "TensorService/CreateTensor",
                "TensorService/ListTensors", "TensorService/DeleteTensor",
                UPLOAD, DOWNLOAD, MATMUL, STREAM,
                "MatmulService/MatmulGrouped"})

    def test_what_stripes_bring_is_guarded(self):
        for client in self.clients(stripes=3):
            tensor = client.tensor(self.a)
            self.assertTrue((tensor.numpy() == self.a).all())
            tensor.delete()
            self.check_all_are_sealed({
                "TensorService/CreateTensor", "TensorService/DescribeTensor",
                UPLOAD, DOWNLOAD, "TensorService/DeleteTensor"})
            self.assertEqual(len(self.proxy.of(UPLOAD)), 3)
            self.assertEqual(len(self.proxy.of(DOWNLOAD)), 3)

    def test_sequences_are_guarded(self):
        with gemmd.Client(self.proxy.target, checksums=True) as client:
            with client.sequence() as s:
                d = s.matmul(s.matmul(self.a, self.a.T), self.a)
        np.testing.assert_array_equal(d.numpy(), self.client.matmul(
            self.client.matmul(self.a, self.a.T), self.a))
        self.check_all_are_sealed({"MatmulService/Sequence"})

    def test_shared_memory_goes_with_checksums(self):
        for client in both_clients(self.target, timeout=60, checksums=True):
            a = client.empty((90, 70), F32)
            a[...] = self.a
            np.testing.assert_array_equal(
                client.matmul(a, a.T), self.client.matmul(self.a, self.a.T))

    def test_damaged_answers(self):
        b = self.client.tensor(self.a.T)
        self.addCleanup(b.delete)
        for client in self.clients(stream_bytes=1000):
            kept = client.attach(b.handle)
            small = np.ones((2, 3), F32)
            for what, spoil in SPOILS.items():
                for method, nth, work in (
                        (MATMUL, 0, lambda: client.matmul(small, small.T)),
                        (STREAM, 0, lambda: client.matmul(self.a, kept)),
                        (STREAM, 1, lambda: client.matmul(self.a, kept)),
                        (DOWNLOAD, 0, kept.numpy),
                        ("ServerService/GetServerInfo", 0, client.info),
                        ("/grpc.health.v1.Health/Check", 0,
                         client.wait_for_ready)):
                    with self.subTest(f"{what} {method} {nth}"):
                        self.spoil("response", method, spoil, nth)
                        with self.assertRaisesRegex(gemmd.DataLoss,
                                                    "a message of"):
                            work()
                self.proxy.spoil_response = lambda call, message: message
                self.assertTrue((client.matmul(small, small.T) == 3).all())

    def test_damaged_requests(self):
        b = self.client.tensor(self.a.T)
        self.addCleanup(b.delete)
        for client in self.clients(stream_bytes=1000):
            kept = client.attach(b.handle)
            small = np.ones((2, 3), F32)
            for what, spoil in SPOILS.items():
                for method, nth, work in (
                        (MATMUL, 0, lambda: client.matmul(small, small.T)),
                        (STREAM, 0, lambda: client.matmul(self.a, kept)),
                        (STREAM, 1, lambda: client.matmul(self.a, kept)),
                        (UPLOAD, 0, lambda: kept.upload(-self.a.T)),
                        (UPLOAD, 1, lambda: kept.upload(-self.a.T)),
                        ("ServerService/GetServerInfo", 0, client.info)):
                    with self.subTest(f"{what} {method} {nth}"):
                        self.spoil("request", method, spoil, nth)
                        with self.assertRaisesRegex(gemmd.DataLoss,
                                                    "a message of"):
                            work()
                self.proxy.spoil_request = lambda call, message: message
                # Nothing of it has counted.
                self.assertTrue((kept.numpy() == self.a.T).all())

    def test_damaged_parts(self):
        for client in self.clients(stripes=3):
            tensor = client.tensor(self.a)
            for direction, method, nth, work in (
                    ("request", UPLOAD, 1, lambda: tensor.upload(-self.a)),
                    ("response", UPLOAD, 0, lambda: tensor.upload(-self.a)),
                    ("response", DOWNLOAD, 0, tensor.numpy)):
                self.spoil(direction, method, SPOILS["middle"], nth)
                with self.assertRaises(gemmd.DataLoss):
                    work()
                self.spoil(direction, "", None)
            tensor.upload(self.a)
            self.assertTrue((tensor.numpy() == self.a).all())
            tensor.delete()

    def test_without_checksums_nobody_notices(self):
        for client in self.clients(checksums=False):
            self.spoil("request", MATMUL, SPOILS["middle"])
            client.matmul(self.a, np.eye(70, dtype=F32))
            self.assertNotIn("gemmd-checksums",
                             self.proxy.calls[0].metadata)


if __name__ == "__main__":
    unittest.main()
