"""Shared arrays that Python collects in the middle of something else."""

import gc
import itertools
import random
import sys

import numpy as np
from shared_case import SharedCase

import gemmd
from gemmd import shared


class _Cycle:
    """Keeps an array until it is collected."""

    def __init__(self, array):
        self.array = array
        self.itself = self


class _Collecting:
    """Inside, Python collects at any line of a function, which it may do
    wherever it has made objects enough."""

    def __init__(self, function, seed):
        self._code = function.__code__
        self._random = random.Random(seed)

    def _trace(self, frame, event, argument):
        if frame.f_code is not self._code:
            return None
        if event == "line" and self._random.random() < 0.3:
            sys.settrace(None)
            gc.collect(0)
            sys.settrace(self._trace)
        return self._trace

    def __enter__(self):
        self._trace_before = sys.gettrace()
        gc.disable()
        sys.settrace(self._trace)

    def __exit__(self, *unused):
        sys.settrace(self._trace_before)
        gc.enable()


class CollectedTest(SharedCase):

    def test_no_memory_is_given_out_twice(self):
        sizes = random.Random(2)
        live = []
        for seed in range(100):
            while len(live) > 20:
                _Cycle(live.pop(sizes.randrange(len(live))))
            with _Collecting(shared._Region.take, seed):
                for _ in range(3):
                    live.append(self.client.empty(
                        sizes.choice([100, 300, 1000, 5000]), np.uint8))
            places = sorted((a.ctypes.data, a.nbytes) for a in live)
            for (start, size), (behind, _) in itertools.pairwise(places):
                self.assertLessEqual(start + size, behind)
        live.clear()
        gc.collect()
        self.assertTrue(all(region.is_empty for region in
                            self.client._regions._regions))

    def test_a_client_may_be_closed_by_what_is_collected(self):
        client = gemmd.Client(self.client.target)
        client.empty(100, np.uint8)

        class Owner:
            def __init__(self):
                self.itself = self

            def __del__(self):
                client.close()

        Owner()
        with _Collecting(shared._Region.take, 1):
            for _ in range(100):
                try:
                    client.empty(100, np.uint8)
                except gemmd.FailedPrecondition:
                    break
            else:
                self.fail("the client is not closed")
        self.assertFalse(client._regions)

    def test_a_client_that_is_closed_meanwhile_keeps_no_region(self):
        client = gemmd.Client(self.client.target)
        regions = client._regions
        make = regions._made

        def made(*arguments):
            region = make(*arguments)
            client.close()
            return region

        regions._made = made
        with self.assertRaises(gemmd.FailedPrecondition):
            client.empty(100, np.uint8)
        self.assertFalse(regions)
