"""Results in arrays of the caller's whose leading dimensions no view merges,
such as parts of larger arrays, on a daemon's host device."""

import unittest

import gemmd
import numpy as np

from both_clients import both_clients
from host_daemon import HostCase

F32 = np.float32
SHAPE = (2, 3, 4, 6)


def part():
    """An array of SHAPE that numpy cannot flatten without a copy, and what it
    is a part of."""
    whole = np.zeros((2, 4, 4, 6), F32)
    return whole[:, :3], whole


def turned():
    """The same, in order F."""
    whole = np.zeros((2, 4, 4, 6), F32)
    return whole[:, :3].transpose(0, 1, 3, 2), whole


class OutTest(HostCase):
    def setUp(self):
        generator = np.random.default_rng(5)
        self.a = generator.integers(-4, 5, (2, 3, 4, 5)).astype(F32)
        self.b = generator.integers(-4, 5, (5, 6)).astype(F32)
        self.d = self.a @ self.b

    def both(self, **options):
        return both_clients(self.target, timeout=60, **options)

    def check(self, out, whole, expected):
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(whole[:, 3], 0)

    def test_of_a_product(self):
        for options in {}, {"stream_bytes": 0}:
            for client in self.both(**options):
                out, whole = part()
                self.assertIs(client.matmul(self.a, self.b, out=out), out)
                self.check(out, whole, self.d)

    def test_of_another_order_than_is_asked_for(self):
        for client in self.both():
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        "out_order: 'F' is not out's order"):
                client.matmul(self.a[0, 0], self.b, out_order="F",
                              out=np.zeros((4, 6), F32))

    def test_beside_c_and_in_another_order(self):
        for client in self.both():
            out, whole = turned()
            c = np.full((2, 3, 6, 4), 2, F32)
            client.matmul(self.b.T, self.a.swapaxes(-1, -2), c=c, beta=0.5,
                          out=out)
            self.check(out, whole, self.d.swapaxes(-1, -2) + 1)
            out[...] = c
            client.matmul(self.b.T, self.a.swapaxes(-1, -2), c=out, beta=0.5,
                          out=out)
            self.check(out, whole, self.d.swapaxes(-1, -2) + 1)

    def test_the_pre_activation(self):
        for client in self.both():
            out, whole = part()
            d, before = client.matmul(self.a, self.b, activation="relu",
                                      pre_activation_out=out)
            self.assertIs(before, out)
            self.check(out, whole, self.d)
            np.testing.assert_array_equal(d, np.maximum(self.d, 0))

    def test_of_groups(self):
        for client in self.both():
            (out, whole), plain = part(), np.zeros((4, 6), F32)
            client.matmul_grouped([self.a, self.a[0, 0]], [self.b, self.b],
                                  out=[out, plain])
            self.check(out, whole, self.d)
            np.testing.assert_array_equal(plain, self.d[0, 0])

    def test_of_a_sequence(self):
        for client in self.both():
            (out, whole), (kept, other) = part(), part()
            with client.sequence() as s:
                s.matmul(self.a, self.b, out=out, pre_activation_out=kept,
                         activation="relu")
            self.check(out, whole, np.maximum(self.d, 0))
            self.check(kept, other, self.d)

    def test_of_a_batch_and_a_vector(self):
        for client in self.both():
            whole = np.zeros((2, 4, 4), F32)
            out = whole[:, :3]
            client.matmul(self.a, self.b[:, 0], out=out)
            self.check(out, whole, self.d[..., 0])
            rows = np.zeros((2, 4, 6), F32)
            client.matmul(self.a[0, 0, 0], np.broadcast_to(
                self.b, (2, 3, 5, 6)), out=rows[:, :3])
            self.check(rows[:, :3], rows, np.broadcast_to(
                self.d[0, 0, 0], (2, 3, 6)))

    def test_in_memory_that_is_shared(self):
        for client in self.both():
            a = client.empty(self.a.shape)
            a[...] = self.a
            whole = client.empty((2, 4, 4, 6))
            whole[...] = 0
            client.matmul(a, self.b, out=whole[:, :3])
            self.check(whole[:, :3], whole, self.d)
            whole[...] = 0
            with client.sequence() as s:
                s.matmul(a, self.b, out=whole[:, :3])
            self.check(whole[:, :3], whole, self.d)

    def test_by_several_connections(self):
        for client in self.both(stripes=2):
            client._stripes.least_bytes = 1
            a = np.ones((2, 3, 512, 256), F32)
            b = np.ones((256, 512), F32)
            whole = np.zeros((2, 4, 512, 512), F32)
            client.matmul(a, b, out=whole[:, :3])
            self.check(whole[:, :3], whole, 256)


if __name__ == "__main__":
    unittest.main()
