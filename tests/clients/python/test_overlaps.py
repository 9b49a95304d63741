"""Which results of calls that run together share memory with others'."""

import unittest

import numpy as np

from gemmd.overlaps import overlapping
from gemmd.product import Call


def ones(*shape):
    return np.ones(shape, np.float32)


class OverlapsTest(unittest.TestCase):
    def test_results_and_what_others_read(self):
        memory = np.zeros((8, 4), np.float32)
        b = ones(4, 4)
        calls = [Call(ones(4, 4), b, out=memory[:4]),
                 Call(ones(4, 4), b, out=memory[3:7]),
                 Call(ones(1, 4), b, out=memory[7:]),
                 Call(ones(2, 4), b),
                 Call(memory[7:], b, out=ones(1, 4))]
        found = [{"d"}, {"d"}, set(), set(), set()]
        self.assertEqual(overlapping(calls, reads=False), found)
        found[2] = {"d"}
        self.assertEqual(overlapping(calls, reads=True), found)

    def test_every_byte_counts_also_of_what_runs_backwards(self):
        memory = np.zeros((8, 4), np.float32)
        for first, second, overlap in (
                (memory[4:][::-1], memory[:5], True),
                (memory[4:][::-1], memory[:4], False),
                (memory[:4], memory[3:4, 3:], True),
                (memory[:4], memory[4:5, :1], False)):
            calls = [Call(ones(len(out), 4), ones(4, out.shape[1]), out=out)
                     for out in (first, second)]
            self.assertEqual(overlapping(calls, reads=False),
                             [{"d"} if overlap else set()] * 2)

    def test_of_its_own_a_call_may_read(self):
        c = ones(4, 4)
        self.assertEqual(overlapping([Call(ones(4, 4), ones(4, 4), c=c,
                                           beta=1.0, out=c)], reads=True),
                         [set()])

    def test_every_result_of_a_call_counts(self):
        memory = ones(3, 4, 4)
        a, b = ones(4, 4), ones(4, 4)
        calls = [Call(a, b, out=memory[0], pre_activation_out=memory[1]),
                 Call(a, b, out=memory[1].T, pre_activation_out=memory[2].T)]
        self.assertEqual(overlapping(calls, reads=True),
                         [{"auxiliary"}, {"d"}])


if __name__ == "__main__":
    unittest.main()
