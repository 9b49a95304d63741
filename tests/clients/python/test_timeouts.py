"""Times that calls may take: what is none, and what is no limit."""

import math
import unittest

import numpy as np

import gemmd
from arguments_case import ArgumentsCase

F32 = np.float32
A, B = np.ones((2, 4), F32), np.ones((4, 3), F32)
YEARS = 10 * 365 * 86400.0


class TimeoutTest(ArgumentsCase):
    def test_what_is_no_time(self):
        for client in self.both():
            for wrong in math.nan, -math.inf, 10**400, "x", np.complex64(1):
                self.refused("timeout", client.matmul, A, B, timeout=wrong)
                self.refused("timeout", client.info, timeout=wrong)
                self.refused("timeout", client.wait_for_ready, wrong)
        for wrong in math.nan, -math.inf, 10**400:
            self.refused("timeout", gemmd.Client, self.target, timeout=wrong)

    def test_years_are_no_limit(self):
        for years in math.inf, YEARS, 1e300, 10**20:
            for client in self.both(timeout=years):
                self.assertEqual(client.matmul(A, B)[0, 0], 4)
                client.wait_for_ready(years)

    def test_no_limit_is_not_that_of_the_client(self):
        large = np.ones((600, 600), F32)
        for options in {}, {"stream_bytes": 0}, {"stripes": 2}:
            for client in self.both(timeout=-1, **options):
                client._stripes.least_bytes = 1
                with self.assertRaises(gemmd.DeadlineExceeded):
                    client.info()
                for years in math.inf, YEARS:
                    d = client.matmul(large, large, timeout=years)
                    self.assertEqual(d[0, 0], 600)
                    tensor = client.tensor(large, timeout=years)
                    np.testing.assert_array_equal(tensor.numpy(timeout=years),
                                                  large)
                    self.assertEqual(len(client.tensors(timeout=years)), 1)
                    tensor.delete(timeout=years)
                    with client.sequence(timeout=years) as s:
                        d = s.matmul(A, B)
                    self.assertEqual(d.numpy()[0, 0], 4)
                client.wait_for_ready(None)


if __name__ == "__main__":
    unittest.main()
