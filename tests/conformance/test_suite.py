"""The suite against a daemon that is right, and against wrong ones: each
fault must be found by the cases made for it."""

import unittest

import gemmd
from conformance import grid, results, shapes, suite
from fake_daemon import FakeDaemon

# Fault of the fake daemon -> cases that must find it.
FAULTS = {
    "reads_c": "beta_zero_never_reads_c",
    "last_column": "every_element_of_d_is_written",
    "flush": "subnormal_inputs_count",
    "drop_tail": "65x129x24",
    "f16_sums": "sums_are_kept_in_f32",
    "skip_zeros": "zero_times_nan_is_nan",
    "noise": "normal bf16",
    "swap_blocks": "coordinates",
}

# Probes of an epilogue, which the fake daemon has none of.
UNSERVED = {"both_results_may_stay"}


def run(fault, only="", subset="ci"):
    with FakeDaemon(fault) as daemon:
        options = suite.Options(daemon.target, subset=subset, only=only)
        return [result for some in suite.run(options) for result in some]


def failed(result):
    return bool(result.detail) and not results.is_unserved(result)


def probe(result):
    return result.case.split()[0]


class SuiteTest(unittest.TestCase):
    def test_a_right_daemon_passes(self):
        found = run("")
        self.assertGreater(len(found), 500)
        wrong = [r for r in found if failed(r)]
        self.assertEqual([r for r in wrong if probe(r) not in UNSERVED], [])
        self.assertEqual({probe(r) for r in wrong}, UNSERVED)

    def test_every_fault_is_found(self):
        for fault, only in FAULTS.items():
            with self.subTest(fault):
                self.assertTrue(any(map(failed, run(fault, only))))

    def test_table_is_complete(self):
        listed = shapes.load("full")
        self.assertGreaterEqual(len(set(listed)), 150)
        self.assertEqual(len(set(listed)), len(listed))
        wanted = {(i, l, o, *s) for i in grid.INPUTS for l in grid.LAYOUTS
                  for o in grid.OUTPUTS for s in grid.SCALARS}
        orders = set()
        for index, shape in enumerate(listed):
            made = [case for name in grid.INPUTS
                    for case in grid.cases(index, shape, name, "full")]
            exact = {(c.input, c.layout, c.output, c.alpha, c.beta)
                     for c in made if c.fill == "exact"}
            self.assertEqual(exact, wanted)
            self.assertEqual(len(set(map(str, made))), len(made))
            orders |= {(c.input, c.layout, c.output, c.beta != 0, c.order)
                       for c in made}
        self.assertEqual(len(orders), 2 * 4 * 3 * 2 * 2)

    def test_shapes_cover_the_edges(self):
        listed = shapes.load("full")
        for side in (1, 7, 63, 65, 127, 129):
            self.assertTrue(any(s.m == side for s in listed))
            self.assertTrue(any(s.n == side for s in listed))
        for k in (0, 1, 8, 24, 65):
            self.assertGreater(sum(s.k == k for s in listed), 5)

    def test_a_dead_daemon_is_a_failure_not_a_crash(self):
        client = gemmd.Client("127.0.0.1:1", timeout=5)
        case = grid.cases(0, shapes.Shape(3, 4, 5), "bf16", "full")[0]
        self.assertIn("UNAVAILABLE", grid.Unit(client, "").run(case).detail)


if __name__ == "__main__":
    unittest.main()
