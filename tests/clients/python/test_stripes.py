"""What goes by several connections at a time, against the same by one."""

import threading
import time
import unittest

import gemmd
import ml_dtypes
import numpy as np

from gemmd import api, errors, stripes
from host_daemon import HostCase, HostDaemon
from random_products import Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)


def _info(**fields):
    return api.TensorInfo(dtype=api.enum("DataType")["DATA_TYPE_F32"],
                          count=1, version=0, **fields)


class SplitTest(unittest.TestCase):
    def check(self, expected, info, size, connections, **layout):
        self.assertEqual(
            [tuple(stripe) for stripe in stripes.split(
                info, api.Layout(**layout), size, connections)], expected)

    def test_every_line_is_in_one_stripe(self):
        self.check([(0, 2, 0, 24), (2, 5, 24, 60), (5, 7, 60, 84),
                    (7, 10, 84, 120)], _info(rows=10, columns=3), 120, 4)
        self.check([(0, 1, 0, 12), (1, 2, 12, 24)],
                   _info(rows=2, columns=3), 24, 4)

    def test_padding_belongs_to_nobody(self):
        self.check([(0, 2, 0, 32), (2, 4, 40, 72)],
                   _info(rows=4, columns=3), 72, 2, leading_dimension=5)

    def test_what_is_not_shared_out(self):
        info = _info(rows=4, columns=3)
        self.check([], _info(rows=1, columns=12), 48, 4)
        self.check([], info, 3, 4)
        self.check([], info, 47, 4)
        self.check([], info, 81, 4, leading_dimension=5)
        info.ClearField("version")  # An old daemon's.
        self.check([], info, 48, 4)


class StripesTest(HostCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.striped = gemmd.Client(cls.target, timeout=60, stripes=4)
        cls.addClassCleanup(cls.striped.close)
        cls.striped._stripes.least_bytes = 0

    def test_tensors_go_there_and_back(self):
        g = Generator(1)
        for array in (g.matrix(BF16, 4, 301, 70),
                      np.asfortranarray(g.matrix(F32, 4, 33, 900)),
                      g.matrix(F32, 4, 50, 80)[:, :70],
                      gemmd.sparse24(g.matrix(BF16, 4, 64, 128), axis=1,
                                     prune=True)):
            with self.subTest(f"{array.shape} {array.dtype}"), \
                    self.striped.tensor(array) as tensor:
                self.assertEqual(tensor.info().version, 1)
                one = self.client.attach(tensor.handle)
                if isinstance(array, gemmd.SparseMatrix):
                    array = array.toarray()
                np.testing.assert_array_equal(one.numpy(), array)
                np.testing.assert_array_equal(tensor.numpy(), array)

    def check(self, a, b, **options):
        expected = self.client.product(a, b, **options)
        found = self.striped.product(a, b, **options)
        np.testing.assert_array_equal(found.d, expected.d)
        self.assertEqual(found.d.dtype, expected.d.dtype)
        self.assertEqual(found.d.flags.f_contiguous,
                         expected.d.flags.f_contiguous)
        self.assertTrue(found.d.flags.writeable)
        self.assertEqual(found.amax, expected.amax)
        if expected.pre_activation is not None:
            np.testing.assert_array_equal(found.pre_activation,
                                          expected.pre_activation)
        return found.execution.paths

    def test_products(self):
        tensor = api.enum("Path")["PATH_TENSOR"]
        g = Generator(2)
        a, b = g.matrix(BF16, 4, 1100, 900), g.matrix(BF16, 4, 900, 700)
        paths = self.check(a, b, out_dtype=np.float32)
        self.assertEqual([paths.a, paths.b, paths.d], [tensor] * 3)
        self.check(a.T[:, :900], b, out_order="F")
        c = g.matrix(F32, 4, 1100, 700)
        options = {"c": c, "beta": 2.0, "out_dtype": np.float32,
                   "bias": np.arange(700), "activation": "relu",
                   "return_amax": True}
        self.assertEqual(self.check(a, b, **options).c, tensor)
        self.check(a, b, return_pre_activation=True, **options)
        out = np.zeros((1100, 700), np.float32)
        self.assertIs(self.striped.matmul(a, b, out=out), out)
        np.testing.assert_array_equal(
            out, self.client.matmul(a, b, out_dtype=np.float32))
        stack = g.matrix(BF16, 4, 4 * 300, 900).reshape(4, 300, 900)
        self.check(stack, b)
        self.check(stack[:, :280], b)          # With gaps.
        self.check(np.ones((3, 0), F32), np.ones((0, 4), F32))
        self.check(a, gemmd.quantize(np.random.randn(900, 2400), "s4",
                                     group=128, axis=0))
        self.check(a > 0, b > 0)
        with self.client.tensor(b) as weights:
            self.check(a, weights)
        self.assertEqual(self.client.statistics().tensors, 0)

    def test_errors_are_those_of_one_connection(self):
        a, b = np.ones((900, 700), F32), np.ones((700, 900), F32)
        for client in self.client, self.striped:
            with self.assertRaisesRegex(gemmd.InvalidArgument, "device is un"):
                client.matmul(a, b, device="cuda:9")
            with self.assertRaisesRegex(gemmd.NotFound, "b.tensor: "):
                with client.tensor(b) as gone:
                    pass
                client.matmul(a, gone)
            with self.assertRaises(gemmd.NotFound):
                gone.upload(b)
            with self.assertRaises(gemmd.NotFound):
                gone.numpy()
        self.assertEqual(self.client.statistics().tensors, 0)

    def test_time_limits(self):
        # Of its own: what the daemon made when nobody waited for it any more
        # goes with the connection.
        with HostDaemon() as daemon, gemmd.Client(
                daemon.target, stripes=2) as client:
            client._stripes.least_bytes = 0
            a = np.ones((900, 700), F32)
            for timeout in 1e-6, 1e-3:
                with self.assertRaises(gemmd.DeadlineExceeded):
                    client.matmul(a, a.T, timeout=timeout)
            self.assertTrue((client.matmul(a, a.T, timeout=60) == 700).all())

    def test_readers_see_whole_uploads(self):
        one, two = np.full((64, 1024), 1, F32), np.full((64, 1024), 2, F32)
        with self.striped.tensor(one) as tensor:
            ended = threading.Event()

            def write():
                while not ended.is_set():
                    tensor.upload(two)
                    tensor.upload(one)

            writer = threading.Thread(target=write)
            writer.start()
            try:
                end = time.monotonic() + 2
                while time.monotonic() < end:
                    try:
                        found = tensor.numpy()
                    except errors.Aborted:
                        continue
                    self.assertIn(found[0, 0], (1, 2))
                    self.assertTrue((found == found[0, 0]).all())
            finally:
                ended.set()
                writer.join()

    def test_numbers_of_connections(self):
        for wrong in 0, 9, True, 1.5, "2":
            with self.assertRaisesRegex(gemmd.InvalidArgument, "stripes: "):
                gemmd.Client(self.target, stripes=wrong)


class ShortOfRoomTest(unittest.TestCase):
    def test_products_travel_in_chunks(self):
        with HostDaemon("--max-tensor-bytes=7MiB") as daemon, \
                gemmd.Client(daemon.target, timeout=60, stripes=3,
                             stream_bytes=0) as client:
            client._stripes.least_bytes = 0
            a = np.ones((1024, 2048), BF16)     # 4 MiB.
            result = client.product(a, np.ones((2048, 8), BF16))
            self.assertTrue((result.d == 2048).all())
            self.assertEqual(result.execution.paths.a,
                             api.enum("Path")["PATH_STREAM"])


if __name__ == "__main__":
    unittest.main()
