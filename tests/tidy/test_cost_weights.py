"""The weights of the cost model are those that fit.py wrote: they choose well among
the plans that it was fitted to, and on an H100 that it has never seen."""

import pathlib
import sys
import unittest

import numpy as np

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FIT = _ROOT / "tests" / "bench" / "fit"
sys.path.insert(0, str(_FIT))

import fit  # noqa: E402 pylint: disable=wrong-import-position


class CostWeightsTest(unittest.TestCase):
    """What is chosen over the fastest plan that was timed."""

    def _mean(self, name):
        return np.exp(np.log(fit.check(str(_FIT / name))).mean())

    def test_of_what_it_was_fitted_to(self):
        self.assertLess(self._mean("h200.csv.xz"), 1.017)
        self.assertLess(self._mean("h200_variants.csv.xz"), 1.02)

    def test_of_another_device(self):
        self.assertLess(self._mean("h100.csv.xz"), 1.025)


if __name__ == "__main__":
    unittest.main()
