"""Products of gemmctl that are larger than a message of the daemon."""

import json
import unittest

import numpy as np

from gemmctl_case import USAGE, GemmctlCase, integers


class GemmctlStreamTest(GemmctlCase):
    daemon_flags = ("--max-message-bytes=3MiB", "--max-inflight-bytes=8MiB")

    def test_large_products_travel_in_chunks(self):
        a, b = integers(900, 1100), integers(1100, 800)
        d = self.multiply(a, b, "--stream-above", "1MiB")
        np.testing.assert_array_equal(d, a @ b)
        # However large one message may be: the daemon takes no larger ones.
        d = self.multiply(a, b, "--stream-above", "1GiB")
        np.testing.assert_array_equal(d, a @ b)

    def test_second_results_come_too(self):
        a, b = integers(30, 40), integers(40, 20)
        self.multiply(a, b, "--stream-above=0", "--act", "relu", "--aux",
                      self.path("x.npy"), "--amax", self.path("amax.npy"),
                      "--json")
        np.testing.assert_array_equal(np.load(self.path("x.npy")), a @ b)
        np.testing.assert_array_equal(np.load(self.path("d.npy")),
                                      np.maximum(a @ b, 0))
        self.assertEqual(np.load(self.path("amax.npy")),
                         np.maximum(a @ b, 0).max())

    def test_results_go_to_tensors(self):
        a, b = integers(30, 40), integers(40, 20)
        handle = self.run_gemmctl("tensor", "create", "30", "20", "--dtype",
                                  "f32").strip()
        text = self.run_gemmctl(
            "matmul", self.save("a.npy", a), self.save("b.npy", b), "-o",
            f"tensor:{handle}", "--stream-above=0", "--json")
        self.assertEqual(json.loads(text)["device"], "host")
        self.run_gemmctl("tensor", "download", handle, "-o",
                         self.path("d.npy"))
        np.testing.assert_array_equal(np.load(self.path("d.npy")), a @ b)

    def test_a_threshold_is_a_size(self):
        a = integers(2, 2)
        self.assertIn("--stream-above",
                      self.refuse(a, a, "--stream-above", "much", code=USAGE))


if __name__ == "__main__":
    unittest.main()
