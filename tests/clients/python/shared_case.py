"""What tests of memory that is shared with the daemon have in common."""

import numpy as np
from host_daemon import HostCase


def random(shape, dtype, order="C"):
    values = np.random.default_rng(7).integers(-8, 8, shape)
    return np.asarray(values.astype(np.float32).astype(dtype), order=order)


class SharedCase(HostCase):

    def shared(self, array, order="C"):
        copy = self.client.empty(array.shape, array.dtype, order=order)
        copy[...] = array
        return copy

    def assert_same(self, got, expected):
        self.assertEqual(got.dtype, expected.dtype)
        self.assertEqual(got.shape, expected.shape)
        self.assertEqual(got.tobytes(), expected.tobytes())

    def received(self):
        return self.client.statistics().received_bytes

    def is_shared(self, array):
        flat = np.ascontiguousarray(array).reshape(-1)
        return self.client._regions.place(
            flat.view(np.uint8).data) is not None
