"""Products of different sizes in one call, against float64, on a daemon's host
device."""

import asyncio
import unittest

import gemmd
import ml_dtypes
import numpy as np

from epilogue_reference import epilogue, sums, wide
from host_daemon import HostDaemon
from random_products import Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
F32 = np.float32
# Rows of the groups of a mixture's experts, n, k: from public test suites.
_MIXTURES = (
    ((8, 8, 8, 8), 32, 64), ((2, 6, 8), 24, 32), ((10, 20, 30, 40), 32, 64),
    ((1, 2, 4, 8, 16), 32, 64), ((8,), 12, 16), ((0, 1, 2, 0, 3, 0), 20, 24),
    ((0,) * 31 + (4,), 64, 128), ((255,) + (0,) * 255, 64, 128))


class GroupedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        daemon = HostDaemon("--max-message-bytes=64MiB").__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.target = daemon.target
        cls.client = gemmd.Client(cls.target, timeout=60)
        cls.addClassCleanup(cls.client.close)

    def test_experts_of_mixtures(self):
        for number, (rows, n, k) in enumerate(_MIXTURES):
            g = Generator(number)
            a = g.matrix(BF16, 4, sum(rows), k)
            experts = [g.matrix(BF16, 4, k, n) for _ in rows]
            outputs = self.client.matmul_grouped(
                np.split(a, np.cumsum(rows)[:-1]), experts, out_dtype=F32)
            self.assertEqual([d.shape for d in outputs],
                             [(m, n) for m in rows])
            parts = np.split(wide(a), np.cumsum(rows)[:-1])
            for d, part, expert in zip(outputs, parts, experts):
                np.testing.assert_array_equal(d, part @ wide(expert))

    def test_kernels_are_prepared_for_a_group(self):
        def problem(m):
            return gemmd.api.Problem(
                m=m, n=48, k=96, a_type="DATA_TYPE_F16",
                b_type="DATA_TYPE_F16")

        kernels = self.client.prepare(
            [problem(9)], groups=[[problem(m) for m in range(1, 13)]])
        self.assertEqual(len(kernels), 13)
        self.assertNotIn("_grouped", kernels[0].kernel)
        self.assertEqual(len({e.kernel for e in kernels[1:]}), 1)
        self.assertIn("_grouped", kernels[1].kernel)

    def test_groups_of_any_sizes_and_their_own_values(self):
        g = Generator(1)
        sizes = [(g.size(70, 0.2), g.size(70, 0.2), g.size(200, 0.2))
                 for _ in range(40)]
        a = [g.matrix(E4M3, 1, m, k) for m, _, k in sizes]
        b = [g.matrix(E4M3, 1, k, n) for _, n, k in sizes]
        bias = [g.integers(9, n).astype(F32) for _, n, _ in sizes]
        scale = [g.powers(m) for m, *_ in sizes]
        c = [g.matrix(np.dtype(F32), 4, m, n) for m, n, _ in sizes]
        found = self.client.matmul_grouped(
            a, b, c=c, beta=2.0, bias=bias, a_scale=scale, activation="relu",
            out_dtype=F32, return_pre_activation=True, return_amax=True)
        self.assertEqual(len(found), len(sizes))
        for i, (d, before, amax) in enumerate(found):
            x, greatest, y = epilogue(
                sums(a[i], b[i]) * wide(scale[i])[:, None], beta=2.0, c=c[i],
                bias=bias[i], activation="relu")
            np.testing.assert_array_equal(before, x)
            np.testing.assert_array_equal(d, y)
            self.assertEqual(amax, greatest)

    def test_every_group_has_its_own_pre_activation(self):
        a = [np.ones((m, 8), F32) for m in (3, 5)]
        b = [np.ones((8, 4), F32)] * 2
        kept = [np.zeros((m, 4), F32) for m in (3, 5)]
        found = self.client.matmul_grouped(a, b, alpha=-1.0, activation="relu",
                                           pre_activation_out=kept)
        for (d, before), array in zip(found, kept):
            self.assertIs(before, array)
            self.assertTrue((before == -8).all() and (d == 0).all())

    def test_no_groups_and_many(self):
        self.assertEqual(self.client.matmul_grouped([], []), [])
        one = np.ones((1, 2), np.float16)
        outputs = self.client.matmul_grouped([one] * 256, [one.T] * 256)
        self.assertEqual([float(d[0, 0]) for d in outputs], [2.0] * 256)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "more than 256"):
            self.client.matmul_grouped([one] * 257, [one.T] * 257)

    def test_weights_and_results_in_tensors(self):
        a = [np.full((3, 4), i, BF16) for i in range(3)]
        with self.client.tensor(np.ones((4, 5), BF16)) as weights, \
                self.client.zeros((3, 5), F32) as out:
            d = self.client.matmul_grouped(
                a, [weights] * 3, out=[None, out, None], out_dtype=F32)
            self.assertIs(d[1], out)
            for i, found in enumerate((d[0], out.numpy(), d[2])):
                np.testing.assert_array_equal(found, np.full((3, 5), 4.0 * i))

    def test_types_may_differ_from_group_to_group(self):
        d = self.client.matmul_grouped(
            [np.ones((2, 3), np.int8), np.ones((4, 5), bool)],
            [np.ones((3, 4), np.uint8), np.ones((5, 1), bool)])
        np.testing.assert_array_equal(d[0], np.full((2, 4), 3))
        np.testing.assert_array_equal(d[1], np.full((4, 1), 5))

    def test_errors_name_the_group(self):
        a, b = np.ones((2, 3), F32), np.ones((3, 2), F32)
        for left, right, says in (
                ([a, a], [b, a], r"groups\[1\]: b: has 2 rows"),
                ([a], [b, b], "b: has 2 values; allowed: one for each of the "
                              "1 groups"),
                ([a, a], 5, "b: is no sequence")):
            with self.assertRaisesRegex(gemmd.InvalidArgument, says):
                self.client.matmul_grouped(left, right)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "bias: has 1 val"):
            self.client.matmul_grouped([a, a], [b, b], bias=[1])
        with self.client.tensor(b) as gone:
            pass
        with self.assertRaisesRegex(gemmd.NotFound,
                                    r"groups\[1\]: b.tensor: "):
            self.client.matmul_grouped([a, a], [b, gone])
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    r"groups\[0\]: device"):
            self.client.matmul_grouped([a], [b], device="cuda:9")
        self.assertEqual(self.client.matmul(a, b)[0, 0], 3)

    def test_answers_that_no_message_holds_are_refused_before_the_work(self):
        tall, wide_one = np.ones((2048, 1), F32), np.ones((1, 2048), F32)
        with self.assertRaisesRegex(
                gemmd.ResourceExhausted, r"groups\[3\]: results until here"):
            self.client.matmul_grouped([tall] * 5, [wide_one] * 5)

    def test_asyncio(self):
        async def run():
            async with gemmd.AsyncClient(self.target, timeout=60) as client:
                return await client.matmul_grouped(
                    [np.ones((i, 4), F32) for i in range(4)],
                    [np.ones((4, 3), F32)] * 4)
        self.assertEqual([d.sum() for d in asyncio.run(run())],
                         [0, 12, 24, 36])


if __name__ == "__main__":
    unittest.main()
