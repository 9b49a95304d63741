"""The Python client against a fake daemon: what goes on the wire, what comes
back, and which errors are raised."""

import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import grpc
import ml_dtypes
import numpy as np

import gemmd
from fake_daemon import FakeDaemon
from gemmd import api, arrays, errors, product
from host_daemon import HostDaemon

BF16 = np.dtype(ml_dtypes.bfloat16)


def integers(rows, columns, dtype=BF16, seed=1):
    generator = np.random.default_rng(seed + rows * 1000 + columns)
    return generator.integers(-4, 5, (rows, columns)).astype(dtype)


class BytesTest(unittest.TestCase):
    """A column of bytes is one line along k, which a device does not pad."""

    def test_how_it_is_sent(self):
        a, b = integers(2, 40, np.int8), integers(40, 3, np.int8)
        for column in (b[:, :1].copy(), b[:, 0].copy(), b[:, 1], b[::-1, 2:],
                       a[:1].T, np.stack([b, b])[:, :, :1]):
            header = product.Call(a, column).header
            self.assertEqual(header.problem.b_order, api.COLUMN_MAJOR)
            self.assertEqual(header.b.inline.leading_dimension, 40)
        # The bits of other results depend on the order.
        for other in integers(40, 1), integers(40, 2):
            header = product.Call(integers(2, 40), other).header
            self.assertEqual(header.problem.b_order, api.ROW_MAJOR)

    def test_it_takes_no_more_room_than_a_row(self):
        row = integers(1, 1 << 20, np.int8)
        square = int((row.astype(int) ** 2).sum())
        with HostDaemon("--max-tensor-bytes=3MiB") as daemon, \
                gemmd.Client(daemon.target, timeout=60,
                             stream_bytes=0) as client:
            for column in row[0], row.T, np.repeat(row.T, 2, axis=1)[:, :1]:
                self.assertEqual(client.matmul(row, column).item(), square)
            with client.tensor(row.T, order="F") as tensor:
                self.assertEqual(client.matmul(row, tensor).item(), square)


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = FakeDaemon().__enter__()
        cls.client = gemmd.Client(cls.daemon.target, timeout=30)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.__exit__()

    def check(self, a, b, **options):
        d = self.client.matmul(a, b, **options)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_array_equal(np.asarray(d, np.float64), expected)
        return d

    def test_product_has_type_of_a_and_is_writable(self):
        for dtype in (BF16, np.float16):
            d = self.check(integers(5, 7, dtype), integers(7, 3, dtype))
            self.assertEqual(d.dtype, dtype)
            self.assertTrue(d.flags.writeable and d.flags.aligned
                            and d.flags.c_contiguous)

    def test_transposed_views_are_sent_as_column_major(self):
        self.check(integers(7, 5).T, integers(3, 7).T)
        problem = self.daemon.headers[-1].problem
        self.assertEqual(problem.a_order, api.COLUMN_MAJOR)
        self.assertEqual(problem.b_order, api.COLUMN_MAJOR)

    def test_padded_views_are_sent_with_their_leading_dimension(self):
        self.check(integers(5, 16)[:, 2:15], integers(20, 13).T[:13, 1:19])
        header = self.daemon.headers[-1]
        self.assertEqual(header.a.inline.leading_dimension, 16)
        self.assertEqual(header.problem.b_order, api.COLUMN_MAJOR)

    def test_other_strides_are_copied(self):
        wide = integers(4, 4000)
        self.check(wide[:, :6], integers(6, 3))  # Far too much padding.
        self.assertEqual(
            self.daemon.headers[-1].a.inline.leading_dimension, 6)
        self.check(integers(8, 12)[::2, ::3], integers(4, 3))
        self.check(integers(8, 4)[::-1], integers(4, 3)[:, ::-1])
        self.check(np.broadcast_to(integers(1, 6), (5, 6)), integers(6, 2))

    def test_vectors_as_matrices(self):
        self.check(integers(1, 9), integers(9, 1))
        self.check(integers(9, 1), integers(1, 9))
        self.check(integers(9, 3)[:, 1:2], integers(1, 9))
        self.check(integers(1, 1), integers(1, 1))

    def test_empty_matrices(self):
        self.check(integers(0, 4), integers(4, 3))
        self.check(integers(3, 4), integers(4, 0))
        self.check(integers(3, 0), integers(0, 5))

    def test_result_in_column_major_order_and_other_types(self):
        d = self.check(integers(5, 7), integers(7, 3), out_order="F",
                       out_dtype=np.float32)
        self.assertTrue(d.flags.f_contiguous)
        self.assertEqual(d.dtype, np.float32)

    def test_alpha_beta_and_c(self):
        a, b, c = integers(4, 6), integers(6, 5), integers(4, 5)
        d = self.client.matmul(a, b, c=c, alpha=-0.5, beta=2)
        expected = (-0.5 * (a.astype(float) @ b.astype(float))
                    + 2 * c.astype(float))
        np.testing.assert_array_equal(d.astype(float), expected)
        # C follows the order of D.
        d = self.client.matmul(a, b, c=c.T.copy().T, alpha=-0.5, beta=2)
        np.testing.assert_array_equal(d.astype(float), expected)

    def test_c_is_not_sent_when_beta_is_zero(self):
        a, b = integers(4, 6), integers(6, 5)
        self.client.matmul(a, b, c=np.full((4, 5), np.nan, BF16), beta=0)
        self.assertFalse(self.daemon.headers[-1].HasField("c"))

    def test_c_without_beta_is_not_ignored(self):
        a, b = integers(4, 6), integers(6, 5)
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    "c: is given without beta; allowed: beta"):
            self.client.matmul(a, b, c=np.ones((4, 5), BF16))

    def test_out_array_is_filled(self):
        a, b = integers(4, 6), integers(6, 5)
        out = np.zeros((5, 4), np.float32).T
        self.assertIs(self.check(a, b, out=out), out)
        strided = np.zeros((4, 10), np.float32)[:, ::2]
        self.assertIs(self.check(a, b, out=strided), strided)

    def test_tensors_as_operands_and_result(self):
        a, b = integers(40, 60), integers(60, 50).T.copy().T
        with self.client.tensor(a) as ta, self.client.tensor(b) as tb, \
                self.client.zeros((40, 50), np.float32, order="F") as td:
            self.assertEqual((ta.order, tb.order), ("C", "F"))
            np.testing.assert_array_equal(tb.numpy(), b)
            self.assertIs(self.client.matmul(ta, tb, out=td), td)
            expected = a.astype(float) @ b.astype(float)
            np.testing.assert_array_equal(td.numpy(), expected)
            np.testing.assert_array_equal(
                self.client.matmul(ta, b, out_dtype="f4"), expected)
            self.assertEqual(len(self.client.tensors()), 3)
        self.assertEqual(self.client.tensors(), [])
        with self.assertRaises(gemmd.NotFound):
            ta.numpy()

    def test_tensors_of_sums_are_no_operands(self):
        sums = self.client.zeros((4, 4), np.int32)
        ones = np.ones((4, 4), np.float32)
        for name, pair in (("a", (sums, ones)), ("b", (ones, sums))):
            with self.assertRaisesRegex(
                    gemmd.InvalidArgument, f"{name}: matrices of dtype int32 "
                    "are not multiplied"):
                self.client.matmul(*pair)

    def test_a_tensor_that_none_can_be_is_not_worked_with(self):
        for rows, columns in (-1, 4), (4, 0), (2 ** 62, 2 ** 62):
            self.daemon.tensors["odd"] = (api.TensorInfo(
                handle="odd", dtype=arrays.wire_type("f4"), rows=rows,
                columns=columns), None)
            self.addCleanup(self.daemon.tensors.pop, "odd", None)
            with self.assertRaisesRegex(gemmd.Internal, "which is none"):
                self.client.attach("odd")

    def test_large_messages_are_announced(self):
        """So that the daemon makes room before it reads."""
        small = np.ones((2, 2), "f2")
        self.client.matmul(small, small)
        self.assertEqual(self.daemon.announced[-1][0], 0)
        large = np.ones((300, 300), "f2")
        self.client.matmul(large, large)
        announced, came = self.daemon.announced[-1]
        self.assertEqual(announced, came)
        with self.client.tensor(large):
            announced, came = self.daemon.announced[-1]
            self.assertGreaterEqual(announced, came)
            self.assertLess(announced, came + 64)

    def test_upload_in_many_chunks(self):
        array = np.arange(3 << 20, dtype=np.float32).reshape(3, -1)
        with self.client.tensor(array) as tensor:
            np.testing.assert_array_equal(tensor.numpy(), array)
            self.assertEqual(tensor.info().label, "")
            with self.assertRaisesRegex(gemmd.InvalidArgument, "shape"):
                tensor.upload(array.T)

    def test_execution_is_reported(self):
        result = self.client.product(integers(2, 2), integers(2, 2))
        self.assertEqual(result.execution.kernel, "numpy")

    def test_wrong_arguments_are_refused_locally(self):
        a, b = integers(4, 6), integers(6, 5)
        count = len(self.daemon.headers)
        for expected, call in (
                ("b: its leading dimensions", lambda c: c.matmul(
                    np.stack([a, a]), np.stack([b, b, b]))),
                ("b: has 4 rows", lambda c: c.matmul(a, a)),
                ("a: .* float64", lambda c: c.matmul(a.astype(float), b)),
                ("c: required", lambda c: c.matmul(a, b, beta=1)),
                ("c: shape", lambda c: c.matmul(a, b, c=a, beta=1)),
                ("out: shape", lambda c: c.matmul(a, b, out=a)),
                ("out_dtype", lambda c: c.matmul(
                    a, b, c=integers(4, 5), beta=1, out_dtype="f2")),
                ("bias: has shape", lambda c: c.matmul(a, b, bias=[1, 2])),
                ("precision: 'tf32'", lambda c: c.matmul(
                    a, b, precision="tf32")),
                ("out_order", lambda c: c.matmul(a, b, out_order="K")),
                ("out: list", lambda c: c.matmul(a, b, out=[])),
        ):
            with self.assertRaisesRegex(gemmd.InvalidArgument, expected):
                call(self.client)
        self.assertEqual(len(self.daemon.headers), count)

    def test_results_of_another_size_are_errors(self):
        a = np.ones((4, 2), np.float16)
        for fault in ("cut_off", "more", "nothing"):
            with self.subTest(fault), FakeDaemon(fault=fault) as daemon, \
                    gemmd.Client(daemon.target) as client:
                for out in (None, np.empty((4, 4), np.float32)):
                    with self.assertRaisesRegex(
                            gemmd.Internal, "bytes of a result, which has"):
                        client.matmul(a, a.T, out=out, out_dtype=np.float32)

    def test_server_errors_keep_code_and_text(self):
        a, b = integers(4, 6, np.int8), integers(6, 5, np.int8)
        with self.assertRaisesRegex(gemmd.Unimplemented,
                                    "UNIMPLEMENTED: not served"):
            self.client.matmul(a, b)
        with self.assertRaises(NotImplementedError):
            self.client.matmul(a, b)
        with self.assertRaises(gemmd.Unimplemented):
            self.client.prepare([])

    def test_texts_are_nothing_that_a_terminal_obeys(self):
        refused = mock.Mock(code=lambda: grpc.StatusCode.NOT_FOUND,
                            details=lambda: "no \x1b[2J\x9b1m\0\r\n\u00e4")
        self.assertEqual(str(errors.from_rpc_error(refused)),
                         "NOT_FOUND: no \\x1b[2J\\x9b1m\\x00\\r\n\u00e4")

    def test_a_daemon_that_ends_has_cancelled_nobody(self):
        for text, kind in (("CANCELLED", gemmd.Unavailable),
                           ("the client has gone", gemmd.Cancelled)):
            ended = mock.Mock(code=lambda: grpc.StatusCode.CANCELLED,
                              details=lambda: text)
            self.assertIs(type(errors.from_rpc_error(ended)), kind)

    def test_unreachable_and_late_daemons(self):
        with gemmd.Client("127.0.0.1:1") as client:
            with self.assertRaises(gemmd.Unavailable):
                client.info()
            with self.assertRaises(ConnectionError):
                client.matmul(integers(1, 1), integers(1, 1))
        with self.assertRaises(TimeoutError):
            self.client.matmul(integers(1, 1), integers(1, 1), timeout=0.05,
                               device="slow")

    def test_a_call_that_closing_ends_says_so(self):
        known = len(self.daemon.headers)
        client = gemmd.Client(self.daemon.target)
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(client.matmul, integers(1, 1),
                                  integers(1, 1), device="slow")
            while len(self.daemon.headers) == known and not call.done():
                time.sleep(0.001)
            client.close()
            with self.assertRaisesRegex(gemmd.Cancelled,
                                        "the client was closed"):
                call.result(timeout=20)

    def test_a_program_that_ends_closes_its_clients(self):
        client = gemmd.Client(self.daemon.target)
        # Such a program starts no threads.
        with mock.patch("threading.Thread.start", side_effect=RuntimeError):
            client.close()
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "is closed"):
            client.info()

    def test_info(self):
        self.assertEqual(self.client.info().devices[0].name, "host")

    def test_statistics(self):
        statistics = self.client.statistics()
        self.assertEqual(statistics.requests, 7)
        self.assertEqual(statistics.cache.rejected_at_once, 3)
        disk, shared = statistics.cache.tiers
        self.assertEqual((disk.name, shared.name), ("disk", "shared"))
        self.assertEqual(
            (disk.hits, disk.misses, disk.errors, disk.bytes_loaded,
             disk.bytes_stored, disk.load_us), (11, 12, 13, 14, 15, 16))


if __name__ == "__main__":
    unittest.main()
