"""Products that travel in chunks, on a daemon whose messages are small, against
the same ones in one message on a daemon whose are not."""

import asyncio
import unittest

import gemmd
import grpc
import ml_dtypes
import numpy as np

from both_clients import both_clients
from fake_daemon import FakeDaemon, Refused
from gemmd import api, wire
from host_daemon import HostDaemon
from random_products import Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
F32 = np.float32


class StreamTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        roomy = HostDaemon().__enter__()
        cls.addClassCleanup(roomy.__exit__)
        cls.unary = gemmd.Client(roomy.target, timeout=60,
                                 stream_bytes=1 << 40)
        cls.addClassCleanup(cls.unary.close)
        small = HostDaemon("--max-message-bytes=3MiB",
                           "--max-inflight-bytes=8MiB",
                           "--max-tensor-bytes=512MiB").__enter__()
        cls.addClassCleanup(small.__exit__)
        cls.target = small.target
        cls.client = gemmd.Client(cls.target, timeout=60, stream_bytes=0)
        cls.addClassCleanup(cls.client.close)

    def test_one_result_stays_and_the_other_returns(self):
        g = Generator(9)
        a, b = g.matrix(BF16, 4, 300, 200), g.matrix(BF16, 4, 200, 100)
        d, before = self.unary.matmul(a, b, activation="relu",
                                      return_pre_activation=True)
        with self.client.zeros(d.shape, BF16) as tensor:
            found, kept = self.client.matmul(a, b, activation="relu",
                                             pre_activation_out=tensor)
            self.assertIs(kept, tensor)
            np.testing.assert_array_equal(found, d)
            np.testing.assert_array_equal(tensor.numpy(), before)
            kept, found = self.client.matmul(
                a, b, activation="relu", return_pre_activation=True,
                out=tensor)
            np.testing.assert_array_equal(found, before)
            np.testing.assert_array_equal(tensor.numpy(), d)

    def check(self, a, b, **options):
        expected = self.unary.product(a, b, **options)
        found = self.client.product(a, b, **options)
        np.testing.assert_array_equal(found.d, expected.d)
        self.assertEqual(found.d.dtype, expected.d.dtype)
        self.assertEqual(found.d.flags.f_contiguous,
                         expected.d.flags.f_contiguous)
        self.assertTrue(found.d.flags.writeable)
        self.assertEqual(found.amax, expected.amax)
        if expected.pre_activation is not None:
            np.testing.assert_array_equal(found.pre_activation,
                                          expected.pre_activation)
        # Another kernel of the family may serve until this one is compiled.
        self.assertEqual(found.execution.device, expected.execution.device)

    def test_operands_and_results_beyond_a_message(self):
        g = Generator(1)
        a, b = g.matrix(BF16, 4, 2000, 1900), g.matrix(BF16, 4, 1900, 700)
        self.check(a, b, out_dtype=F32)
        self.check(a.T[:700], g.matrix(BF16, 4, 2000, 5))
        with gemmd.Client(self.target, stream_bytes=1 << 40) as client:
            np.testing.assert_array_equal(client.matmul(a, b[:, 0]),
                                          self.unary.matmul(a, b[:, 0]))

    def test_everything_that_one_message_serves(self):
        g = Generator(2)
        f = g.matrix(np.dtype(F32), 4, 37, 300)
        e = g.matrix(E4M3, 1, 37, 300)
        w = g.matrix(E4M3, 1, 300, 29)
        c = g.matrix(np.dtype(F32), 4, 37, 29)
        self.check(f, f.T)
        self.check(f, f.T, out_order="F", precision="tf32")
        self.check(e, w, c=c, beta=2.0, alpha=0.5, out_dtype=F32,
                   bias=np.arange(29), a_scale=g.powers(37), b_scale=0.25,
                   activation="relu", out_scale=2.0,
                   return_pre_activation=True, return_amax=True)
        self.check(e, w, a_scale=np.ones((37, 3), F32),
                   b_scale=np.full((3, 1), 2, F32), out_dtype=F32)
        self.check(e, w, c=c, alpha=0.0, beta=1.0, out_dtype=F32)
        self.check(f > 0, f.T > 0)
        self.check(np.ones((3, 0), F32), np.ones((0, 4), F32))
        self.check(np.ones((0, 3), F32), np.ones((3, 4), F32),
                   return_amax=True)
        self.check(f[0], f.T)
        self.assertEqual(self.client.matmul(f[0], f[1]), f[0] @ f[1])

    def test_batches(self):
        g = Generator(3)
        stack = g.matrix(np.dtype(np.float16), 4, 4 * 60, 50).reshape(4, 60, 50)
        one = g.matrix(np.dtype(np.float16), 4, 50, 20)
        self.check(stack, one)
        self.check(stack[:, :55], one)         # With gaps.
        self.check(stack[::2], one)
        self.check(np.stack([stack, stack]), stack.swapaxes(1, 2))
        windows = np.lib.stride_tricks.sliding_window_view(
            stack[0], (8, 50))[:, 0]
        self.check(windows, one)               # They overlap.

    def test_results_go_where_they_are_to(self):
        a = np.full((700, 600), 2, F32)
        b = np.ones((600, 500), F32)
        out = np.zeros((700, 500), F32)
        self.assertIs(self.client.matmul(a, b, out=out), out)
        self.assertTrue((out == 1200).all())
        with self.client.zeros((700, 500), F32) as total, \
                self.client.tensor(b) as weights:
            for _ in range(2):
                self.client.matmul(a, weights, c=total, beta=1.0, out=total)
            self.assertTrue((total.numpy() == 2400).all())
        self.assertEqual(self.client.statistics().tensor_bytes, 0)

    def test_errors_are_those_of_one_message(self):
        a, b = np.ones((200, 300), F32), np.ones((300, 200), F32)
        for client in self.unary, self.client:
            with self.assertRaisesRegex(gemmd.InvalidArgument, "device is un"):
                client.matmul(a, b, device="cuda:9")
            with self.assertRaisesRegex(gemmd.NotFound, "b.tensor: "):
                with client.tensor(b) as gone:
                    pass
                client.matmul(a, gone)
            with self.assertRaises(gemmd.DeadlineExceeded):
                client.matmul(a, b, timeout=1e-6)
        with self.assertRaisesRegex(gemmd.ResourceExhausted,
                                    "operands and results on the device"):
            self.client.matmul(np.ones((11000, 1), F32),
                               np.ones((1, 10500), F32))
        self.assertEqual(self.client.matmul(a, b)[0, 0], 300)

    def test_size_decides(self):
        # With b and the result 768 KiB, and 3 MiB.
        small, large = np.ones((256, 256), F32), np.ones((512, 512), F32)
        for a, limit, methods in (
                (small, 768 << 10, ["Matmul"]),
                (small, (768 << 10) - 1, ["MatmulStream"]),
                # The daemon is asked, once, what it takes: 3 MiB in all.
                (large, 3 << 20, ["GetServerInfo", "MatmulStream",
                                  "MatmulStream"]),
                (large[:320], 3 << 20, ["GetServerInfo", "Matmul", "Matmul"])):
            with gemmd.Client(self.target, stream_bytes=limit) as client:
                started = []
                start = client._start
                client._start = lambda channel, rpc, *more, **others: (
                    started.append(rpc.method.rpartition("/")[2]),
                    start(channel, rpc, *more, **others))[1]
                for _ in methods[-2:]:
                    client.matmul(a, a.T)
                self.assertEqual(started, methods)

    def test_parts_are_no_larger_than_messages(self):
        a = np.ones((700, 1000), F32)
        # One that goes by several connections, beside more than a message of
        # what does not.
        wide = np.ones((80, 3500), F32)
        b, c = np.ones((3500, 74), F32), np.ones((80, 74), F32)
        with HostDaemon("--max-message-bytes=1MiB") as daemon:
            for options in {}, {"stripes": 2}, {"checksums": True}:
                for client in both_clients(daemon.target, timeout=60,
                                           **options):
                    client._stripes.least_bytes = 1
                    tensor = client.tensor(a)
                    np.testing.assert_array_equal(tensor.numpy(), a)
                    self.assertTrue((client.matmul(a, a[0]) == 1000).all())
                    self.assertTrue((client.matmul(
                        wide, b, c=c, beta=1.0) == 3501).all())
                    tensor.delete()

    def test_asyncio(self):
        a = np.ones((700, 600), F32)

        async def run():
            async with gemmd.AsyncClient(self.target, timeout=60,
                                         stream_bytes=0) as client:
                return await asyncio.gather(
                    *(client.matmul(a, a.T, alpha=i) for i in range(4)))
        for i, d in enumerate(asyncio.run(run())):
            self.assertTrue((d == 600 * i).all())


class SilentDaemon(FakeDaemon):
    """Does not tell how large a message may be."""

    def __init__(self):
        super().__init__()
        self.code = None  # What it says instead.
        self.asked = 0

    def _info(self, _):
        self.asked += 1
        raise Refused(self.code, "no info")


class LimitNotToldTest(unittest.TestCase):
    def test_who_refuses_to_tell_is_asked_once(self):
        a = np.ones((700, 1000), F32)
        for code in (grpc.StatusCode.UNIMPLEMENTED,
                     grpc.StatusCode.PERMISSION_DENIED):
            with SilentDaemon() as daemon:
                for client in both_clients(daemon.target, timeout=60):
                    with self.subTest(code, client=client):
                        daemon.asked = 0
                        daemon.code = grpc.StatusCode.INTERNAL  # This time.
                        client.tensor(a)
                        daemon.code = code
                        for _ in range(3):
                            client.tensor(a)
                        self.assertEqual(daemon.asked, 2)


class ChunksTest(unittest.TestCase):
    """The messages by hand against protobuf's own."""

    def test_nothing_is_a_header_alone(self):
        self.assertEqual(len(list(wire.stream_requests(
            api.MatmulHeader(), {}, chunk_bytes=300))), 1)

    def test_requests_parse_as_the_proto_says(self):
        header = api.MatmulHeader(device="cuda:0")
        request = api.message("MatmulStreamRequest")
        messages = [request.FromString(data) for data in wire.stream_requests(
            header, {"d_scale": b"1234", "b": b"x" * 700, "c": None,
                     "a": b"y" * 5, "bias": b""}, chunk_bytes=300)]
        self.assertEqual(messages[0].header, header)
        self.assertEqual(
            [(m.chunk.operand, len(m.chunk.data)) for m in messages[1:]],
            [(1, 5), (2, 300), (2, 300), (2, 100), (7, 4)])

    def test_answers_are_put_together(self):
        response = api.message("MatmulStreamResponse")
        last = response(execution=api.Execution(kernel="k"), amax=2.5)
        chunks = gemmd.results.Chunks(5, 3)
        for part in (response(data=b"ab"), response(data=b"cde"),
                     response(auxiliary=b"xyz"), last):
            chunks.add(wire.parse_stream_response(part.SerializeToString()))
        whole = chunks.response()
        self.assertEqual((bytes(whole.d), bytes(whole.auxiliary), whole.amax,
                          whole.execution.kernel), (b"abcde", b"xyz", 2.5, "k"))

    def test_what_is_too_much_too_little_or_cut_off_is_told(self):
        def add(*parts):
            chunks = gemmd.results.Chunks(3, None)
            for part in parts:
                chunks.add(part)
            chunks.response()
        end = wire.Response(api.Execution(), None)
        for parts, says in (
                ((wire.Response(None, memoryview(b"ab")), end), "2 bytes of D"),
                ((wire.Response(None, memoryview(b"abcd")), end), "4 bytes"),
                ((wire.Response(None, memoryview(b"abc")),), "without an exec"),
                ((end,), "0 bytes of D, which has 3"),
                # What would never end.
                ((wire.Response(None, memoryview(b"ab")),) * 3, "4 bytes"),
                ((end, end), "a second message without bytes"),
                ((wire.Response(None, None),) * 2, "a second message"),
                ((wire.Response(None, None, memoryview(b"x")),) * 2,
                 "a second message")):
            with self.assertRaisesRegex(gemmd.Internal, says):
                add(*parts)


if __name__ == "__main__":
    unittest.main()
