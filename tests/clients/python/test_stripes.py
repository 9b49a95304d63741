"""What goes by several connections at a time, against the same by one."""

import threading
import time
import unittest
from concurrent import futures
from unittest import mock

import gemmd
import numpy as np

import striped_cases
from eventually import eventually
from gemmd import api, errors, rpcs, stripes
from host_daemon import HostCase, HostDaemon
from striped_cases import (ABORTED, BF16, BROKEN, F32, REFUSED, PartsDaemon,
                           check_product)


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

    def test_lines_are_those_of_all_matrices(self):
        info = _info(rows=2, columns=3)
        info.count = 3
        self.check([(0, 3, 0, 36), (3, 6, 36, 72)], info, 72, 2)

    def test_what_is_not_shared_out(self):
        info = _info(rows=4, columns=3)
        self.check([], _info(rows=1, columns=12), 48, 4)
        self.check([], info, 3, 4)
        self.check([], info, 47, 4)
        self.check([], info, 81, 4, leading_dimension=5)
        self.check([], info, 48, 4, batch_stride=12)
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
        for array, elements in striped_cases.arrays():
            with self.subTest(f"{array.shape} {array.dtype}"), \
                    self.striped.tensor(array) as tensor:
                self.assertEqual(tensor.info().version, 1)
                one = self.client.attach(tensor.handle)
                np.testing.assert_array_equal(one.numpy(), elements)
                np.testing.assert_array_equal(tensor.numpy(), elements)

    def test_products(self):
        for (a, b), options, tensors in striped_cases.products():
            with self.subTest(a=a.shape, b=b.shape, **options):
                check_product(self, self.striped.product(a, b, **options),
                              self.client.product(a, b, **options), tensors)
        a, b = np.ones((1100, 900), F32), np.ones((900, 700), F32)
        out = np.zeros((1100, 700), F32)
        self.assertIs(self.striped.matmul(a, b, out=out), out)
        self.assertTrue((out == 900).all())

    def test_a_product_whose_time_is_over_leaves_no_tensor(self):
        async def upload(caller, handle, layout, data, timeout):
            made.append(handle)
            time.sleep(timeout + 0.1)
            raise gemmd.DeadlineExceeded("it took too long")

        made = []
        a, b = np.ones((1100, 900), F32), np.ones((900, 700), F32)
        with mock.patch("gemmd.striped_product.upload", upload), \
                mock.patch.object(rpcs, "create", wraps=rpcs.create) as create:
            with self.assertRaises(gemmd.DeadlineExceeded):
                self.striped.matmul(a, b, timeout=2)
        self.assertEqual(len(made), 1)
        with self.assertRaises(gemmd.NotFound):
            self.client.attach(made[0])
        # Nor does a client that is gone by then.
        lifetimes = api.enum("CreateTensorRequest.Lifetime")
        self.assertEqual(create.call_args.args[0].lifetime,
                         lifetimes["LIFETIME_CONNECTION"])
        with self.client.tensor(b) as weights:
            self.assertTrue((self.striped.matmul(a, weights) == 900).all())
        self.assertEqual(self.client.statistics().tensors, 0)

    def test_a_product_whose_client_is_closed_leaves_no_tensor(self):
        async def upload(caller, handle, layout, data, timeout):
            made.append(handle)
            client.close()
            raise gemmd.Cancelled("the client was closed")

        made = []
        a, b = np.ones((1100, 900), F32), np.ones((900, 700), F32)
        # Another client of the program is connected, and stays so.
        self.client.wait_for_ready()
        client = gemmd.Client(self.target, timeout=60, stripes=2)
        client._stripes.least_bytes = 0
        with mock.patch("gemmd.striped_product.upload", upload):
            with self.assertRaises(gemmd.Cancelled):
                client.matmul(a, b)
        self.assertEqual(len(made), 1)
        self.assertTrue(eventually(
            lambda: self.client.statistics().tensors == 0))

    def test_results_come_to_memory_that_is_shared(self):
        with gemmd.Client(self.target, timeout=60, stripes=3) as client:
            client._stripes.least_bytes = 0
            a = client.empty((700, 900), F32)
            a[...] = 1
            found = client.product(a, np.ones((900, 700), F32))
        self.assertTrue((found.d == 900).all())
        paths = found.execution.paths
        shared = api.enum("Path")["PATH_SHARED"]
        self.assertEqual([paths.a, paths.d], [shared] * 2)
        self.assertEqual(paths.b, api.enum("Path")["PATH_TENSOR"])

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
        gemmd.Client(self.target, stripes=np.int64(8)).close()

    def test_a_closed_client_makes_no_connections(self):
        with gemmd.Client(self.target, stripes=2) as client:
            pass
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "closed"):
            client._stripes.channels(2)


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


class PartsTest(unittest.TestCase):
    """Against a daemon that goes wrong."""

    def setUp(self):
        self.daemon = PartsDaemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.client = gemmd.Client(self.daemon.target, timeout=60, stripes=3)
        self.addCleanup(self.client.close)
        self.client._stripes.least_bytes = 0
        self.array = np.arange(2700, dtype=F32).reshape(90, 30)

    def test_each_part_has_its_connection(self):
        self.client.tensor(self.array).numpy()
        self.assertEqual(self.daemon.calls, ["part"] * 6)
        self.assertEqual(len(self.daemon.part_peers), 3)

    def test_a_part_that_is_refused(self):
        tensor = self.client.zeros((90, 30), F32)
        self.daemon.part_ends = [REFUSED]
        tensor.upload(self.array)
        self.assertEqual(self.daemon.calls[-1], "whole")
        self.daemon.part_ends = [REFUSED]
        np.testing.assert_array_equal(tensor.numpy(), self.array)
        self.assertEqual(self.daemon.calls[-1], "whole")

    def test_a_part_that_fails(self):
        tensor = self.client.tensor(self.array)
        for code, expected in (BROKEN, gemmd.Internal), (ABORTED,
                                                         errors.Aborted):
            self.daemon.part_ends = [code] * 2
            with self.assertRaisesRegex(expected, "as it was told"):
                tensor.upload(self.array)
            with self.assertRaisesRegex(expected, "as it was told"):
                tensor.numpy()

    def test_parts_of_other_sizes(self):
        tensor = self.client.tensor(self.array)
        self.daemon.too_many = 4
        with self.assertRaisesRegex(
                gemmd.Internal,
                "^INTERNAL: the daemon sent more than the 3600 bytes"):
            tensor.numpy()
        self.daemon.too_many = -4
        with self.assertRaisesRegex(gemmd.Internal,
                                    "sent 3596 bytes of a tensor of 3600"):
            tensor.numpy()
        self.client._stripes.least_bytes = 1 << 20  # By one.
        with self.assertRaisesRegex(gemmd.Internal,
                                    "sent 10796 bytes of a tensor of 10800"):
            tensor.numpy()

    def none_hangs(self):
        return not self.daemon.hung.is_set()

    def test_what_is_refused_ends(self):
        tensor = self.client.tensor(self.array)
        self.daemon.too_many = 4
        self.daemon.endless = True
        for least_bytes in 0, 1 << 20:
            self.client._stripes.least_bytes = least_bytes
            with self.assertRaises(gemmd.Internal):
                try:
                    tensor.numpy()
                except gemmd.Internal as error:
                    kept = error  # With all that it refers to.
                    self.assertTrue(eventually(self.none_hangs))
                    raise
            del kept

    def test_closing_ends_every_part(self):
        tensor = self.client.tensor(self.array)
        for work in (lambda client: client.attach(tensor.handle).upload(
                         self.array),
                     lambda client: client.attach(tensor.handle).numpy(),
                     lambda client: client.tensor(self.array)):
            client = gemmd.Client(self.daemon.target, timeout=60, stripes=3)
            client._stripes.least_bytes = 0
            self.daemon.part_ends = ["hang"]
            with futures.ThreadPoolExecutor(1) as thread:
                ending = thread.submit(work, client)
                self.assertTrue(self.daemon.hung.wait(60))
                client.close()
                self.assertIsInstance(ending.exception(), (
                    errors.Cancelled, gemmd.FailedPrecondition))
            self.assertTrue(eventually(self.none_hangs))


if __name__ == "__main__":
    unittest.main()
