"""Sequences of products: bit for bit what single calls give, in one call."""

import asyncio
import threading
import time
import unittest

import gemmd
import ml_dtypes
import numpy as np

from eventually import eventually
from host_daemon import HostDaemon
from random_products import Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
F32 = np.float32


class SequenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        daemon = HostDaemon("--max-message-bytes=64MiB",
                            "--max-tensor-bytes=128MiB").__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.target = daemon.target
        cls.client = gemmd.Client(cls.target, timeout=300)
        cls.addClassCleanup(cls.client.close)

    def held(self):
        return self.client.statistics().tensor_bytes

    def check_nothing_is_held(self):
        self.assertTrue(eventually(lambda: self.held() == 0))

    def normal(self, *shape, dtype=BF16, seed=7):
        return np.random.default_rng(seed).standard_normal(shape).astype(dtype)

    def test_what_is_to_be_returned_may_be_said_one_by_one(self):
        x = self.normal(8, 8)
        with self.client.sequence() as s:
            first = s.matmul(x, x)
            second = s.matmul(first, x)
            s.matmul(second, x)
            s.returns(first)
            s.returns(second)
        expected = self.client.matmul(x, x)
        np.testing.assert_array_equal(first.numpy(), expected)
        np.testing.assert_array_equal(second.numpy(),
                                      self.client.matmul(expected, x))

    def test_an_mlp_is_one_call(self):
        x, w1, w2 = (self.normal(32, 64), self.normal(64, 96, seed=1),
                     self.normal(96, 24, seed=2))
        bias = self.normal(96, dtype=F32, seed=3)
        before = self.client.statistics().requests
        with self.client.sequence() as s:
            h = s.matmul(x, w1, bias=bias, activation="gelu")
            y = s.matmul(h, w2, out_dtype=F32)
        self.assertEqual(self.client.statistics().requests, before + 1)
        expected = self.client.matmul(
            self.client.matmul(x, w1, bias=bias, activation="gelu"), w2,
            out_dtype=F32)
        np.testing.assert_array_equal(y.numpy(), expected)
        np.testing.assert_array_equal(np.asarray(y), expected)
        self.assertEqual(y.numpy().dtype, F32)
        self.assertEqual([e.device for e in s.executions], ["host", "host"])
        self.assertGreater(s.phases.execute_us, 0)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "returns()"):
            h.numpy()
        self.check_nothing_is_held()

    def test_long_chains_keep_what_is_still_read(self):
        g = Generator(5)
        weights = [g.matrix(BF16, 2, 16, 16) for _ in range(5)]
        x = g.matrix(BF16, 2, 16, 16)

        def chain(matmul):
            """Reads what was computed just now, and some that is old."""
            values = [x]
            for i in range(60):
                more = {}
                if i >= 7 and i % 3:
                    more = {"c": values[-7], "beta": 0.5, "out_order": "C"}
                values.append(matmul(values[-1], weights[i % 5], alpha=0.0625,
                                     **more))
            return values[30], values[-1]

        with self.client.sequence() as s:
            found = chain(s.matmul)
            s.returns(*found)
        for one, expected in zip(found, chain(self.client.matmul)):
            np.testing.assert_array_equal(one.numpy(), expected)

    def test_random_graphs_equal_single_calls(self):
        for seed in range(25):
            with self.subTest(seed=seed):
                self.run_graph(Generator(seed))

    def run_graph(self, g):
        dtype = g.one([BF16, np.dtype(F32), E4M3, np.dtype(np.int8)])
        out = np.dtype(F32) if dtype == E4M3 else dtype
        n = g.size(40)
        arrays = [g.matrix(dtype, 2, n, n) for _ in range(3)]
        with self.client.sequence() as s:
            steps = []
            for _ in range(1 + g.size(12)):
                pool = [*arrays, *(p for p, _ in steps if p.dtype == dtype)]
                picks = [pool[g.size(len(pool) + 1) - 1] for _ in range(2)]
                flips = [g.chance(0.3), g.chance(0.3)]
                a, b = (p.T if flip else p for p, flip in zip(picks, flips))
                kind = dtype if g.chance(0.7) else out
                options = {"out_dtype": kind,
                           "out_order": g.one(["C", "F"])}
                if kind != np.int8 and g.chance(0.3):
                    options["activation"] = "relu"
                steps.append((s.matmul(a, b, **options),
                              (picks, flips, options)))
            returned = [p for p, _ in steps if g.chance(0.3)] + [steps[-1][0]]
            s.returns(*returned)
        found = {}
        for pending, (picks, flips, options) in steps:
            a, b = ((found[id(p)] if id(p) in found else p) for p in picks)
            expected = self.client.matmul(a.T if flips[0] else a,
                                          b.T if flips[1] else b, **options)
            found[id(pending)] = expected
            if any(pending is one for one in returned):
                self.assertEqual(pending.numpy().tobytes(),
                                 expected.tobytes())

    def test_tensors_are_read_and_written(self):
        x, w = self.normal(8, 8), self.normal(8, 8, seed=1)
        with self.client.tensor(w) as weights, \
                self.client.zeros((8, 8), BF16) as state:
            with self.client.sequence() as s:
                h = s.matmul(x, weights, out=state)
                self.assertIs(h, state)
                y = s.matmul(state, weights)
                z = s.matmul(y, weights.T, out=state)
                self.assertIs(z, state)
                last = s.matmul(state, weights)
            first = self.client.matmul(x, w)
            second = self.client.matmul(first, w)
            third = self.client.matmul(second, w.T)
            np.testing.assert_array_equal(state.numpy(), third)
            np.testing.assert_array_equal(last.numpy(),
                                          self.client.matmul(third, w))

    def test_every_result_of_a_product(self):
        x, w = self.normal(8, 8), self.normal(8, 8, seed=1)
        into = np.empty((8, 8), F32)
        with self.client.sequence() as s:
            h, before, amax = s.matmul(x, w, activation="relu",
                                       return_pre_activation=True,
                                       return_amax=True)
            y = s.matmul(before, w, c=h, beta=2.0)
            filled = s.matmul(h, w, out=into)
            s.returns(y, before)
            with self.assertRaisesRegex(gemmd.FailedPrecondition, "not ended"):
                y.numpy()
            with self.assertRaises(gemmd.FailedPrecondition):
                float(amax)
        hh, bb, aa = self.client.matmul(x, w, activation="relu",
                                        return_pre_activation=True,
                                        return_amax=True)
        np.testing.assert_array_equal(before.numpy(), bb)
        self.assertEqual(float(amax), aa)
        np.testing.assert_array_equal(
            y.numpy(), self.client.matmul(bb, w, c=hh, beta=2.0))
        np.testing.assert_array_equal(
            into, self.client.matmul(hh, w, out_dtype=F32))
        self.assertIs(filled.numpy(), into)

    def test_the_pre_activation_goes_to_a_tensor_or_an_array(self):
        x, w = self.normal(8, 8), self.normal(8, 8, seed=1)
        into = np.empty((8, 8), BF16)
        with self.client.zeros((8, 8), BF16) as tensor:
            with self.client.sequence() as s:
                h, kept = s.matmul(x, w, activation="relu",
                                   pre_activation_out=tensor)
                y = s.matmul(kept, w, c=h, beta=2.0)
                _, filled = s.matmul(h, w, activation="relu",
                                     pre_activation_out=into)
            self.assertIs(kept, tensor)
            hh, bb = self.client.matmul(x, w, activation="relu",
                                        return_pre_activation=True)
            np.testing.assert_array_equal(tensor.numpy(), bb)
        np.testing.assert_array_equal(
            y.numpy(), self.client.matmul(bb, w, c=hh, beta=2.0))
        np.testing.assert_array_equal(into, self.client.matmul(hh, w))
        self.assertIs(filled.numpy(), into)

    def test_batches_and_results_as_bias(self):
        x, w = self.normal(3, 4, 8), self.normal(8, 6, seed=1)
        row = self.normal(1, 8, seed=2)
        with self.client.sequence() as s:
            h = s.matmul(x, w)
            y = s.matmul(h, self.normal(3, 6, 5, seed=3))
            bias = s.matmul(row, w, out_dtype=F32)
            z = s.matmul(row, w, bias=bias)
        hh = self.client.matmul(x, w)
        np.testing.assert_array_equal(
            y.numpy(), self.client.matmul(hh, self.normal(3, 6, 5, seed=3)))
        np.testing.assert_array_equal(
            z.numpy(), self.client.matmul(row, w, bias=self.client.matmul(
                row, w, out_dtype=F32)))

    def test_sparse_operands_and_scales(self):
        w = gemmd.sparse24(self.normal(16, 64, seed=1), axis=-1, prune=True)
        x = self.normal(64, 32)
        scale = self.normal(16, dtype=F32, seed=2)
        with self.client.tensor(w) as weights:
            with self.client.sequence() as s:
                h = s.matmul(w, x, a_scale=scale)
                y = s.matmul(weights, x, c=h, beta=1.0)
        np.testing.assert_array_equal(
            y.numpy(), self.client.matmul(w, x, beta=1.0, c=self.client.matmul(
                w, x, a_scale=scale)))

    def test_scales_of_one_array_by_block_and_by_row(self):
        a = self.normal(5, 100, dtype=E4M3)
        b = self.normal(100, 130, dtype=E4M3)
        scale, block = self.normal(5, 1, dtype=F32), np.ones((1, 2), F32)
        each = [{"a_scale": scale, "b_scale": block}, {"a_scale": scale}]
        with self.client.sequence() as s:
            found = [s.matmul(a, b, out_dtype=F32, **more) for more in each]
        for one, more in zip(found, each):
            np.testing.assert_array_equal(one.numpy(), self.client.matmul(
                a, b, out_dtype=F32, **more))

    def test_nothing_is_written_before_all_metadata_are_found_right(self):
        lines = gemmd.sparse24(self.normal(4, 64, seed=1), axis=-1,
                               prune=True).lines.copy()
        lines[2, -1] = 0  # The same place twice.
        w = gemmd.SparseMatrix(lines, BF16, 64)
        x = self.normal(64, 4)
        with self.client.tensor(np.ones((4, 4), BF16)) as state:
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        'operand "operand 2" has metadata'):
                with self.client.sequence() as s:
                    s.matmul(self.normal(4, 64), x, out=state)
                    s.matmul(w, x)
            self.assertTrue((state.numpy() == 1).all())

    def test_empty_products_and_no_products(self):
        with self.client.sequence() as s:
            pass
        with self.client.sequence() as s:
            h = s.matmul(np.ones((0, 4), F32), np.ones((4, 3), F32))
            y = s.matmul(h.T, h, return_amax=True)
            z = s.matmul(np.ones((2, 0), F32), np.ones((0, 3), F32))
        self.assertEqual(y[0].numpy().tolist(), [[0] * 3] * 3)
        self.assertEqual(float(y[1]), 0)
        self.assertEqual(z.numpy().tolist(), [[0] * 3] * 2)

    def test_an_array_is_sent_once(self):
        x = np.ones((500, 500), F32)
        before = self.client.statistics().received_bytes
        with self.client.sequence() as s:
            h = x
            for _ in range(10):
                h = s.matmul(h, x, alpha=1 / 500)
        # As A and as B, which are not told apart by their shapes.
        self.assertEqual(self.client.statistics().received_bytes - before,
                         x.nbytes)
        self.assertEqual(h.numpy()[3, 3], 1)

    def test_what_is_wrong_is_said(self):
        x = np.ones((2, 2), F32)
        with self.client.sequence() as other:
            foreign = other.matmul(x, x)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "has ended"):
            other.matmul(x, x)
        with self.client.sequence() as s:
            h = s.matmul(x, x)
            vector = s.matmul(x, x[0])
            s.matmul(h.T, h)
            for wrong, text in (
                    (lambda: s.matmul(h, np.ones((3, 2), F32)), "b: has 3"),
                    (lambda: s.matmul(h, foreign), "another sequence"),
                    (lambda: s.matmul(x, x, out=h), "out: a result of the"),
                    (lambda: s.matmul(x, x, device="host"), "device: allowed"),
                    (lambda: s.matmul(vector, x), "product with a vector"),
                    (lambda: s.returns(x), "returns: ndarray")):
                with self.assertRaisesRegex(gemmd.InvalidArgument, text):
                    wrong()
        self.assertEqual(vector.numpy().tolist(), [2, 2])
        self.assertEqual(vector.T.numpy().tolist(), [2, 2])
        for outside in (lambda: self.client.matmul(h, x),
                        lambda: self.client.matmul(h.T, h),
                        lambda: self.client.matmul_grouped([h], [x])):
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        r"of the same one .* numpy\(\)"):
                outside()

    def test_what_a_refused_call_was_to_read_is_returned(self):
        x = np.ones((2, 2), F32)
        with self.client.sequence() as s:
            h = s.matmul(x, x)
            with self.assertRaisesRegex(gemmd.InvalidArgument, "bias"):
                s.matmul(h, x, bias=np.ones(7))
        self.assertEqual(h.numpy().tolist(), [[2, 2], [2, 2]])

    def test_a_block_that_raises_sends_nothing(self):
        before = self.client.statistics().requests
        with self.assertRaises(KeyError):
            with self.client.sequence() as s:
                s.matmul(np.ones((2, 2), F32), np.ones((2, 2), F32))
                raise KeyError
        self.assertEqual(self.client.statistics().requests, before)

    def test_a_sequence_has_one_block(self):
        a = np.ones((4, 4), F32)
        with self.client.zeros((4, 4), F32) as total:
            given_up = self.client.sequence()
            with self.assertRaises(ZeroDivisionError), given_up as s:
                s.matmul(a, a, c=total, beta=1, out=total)
                raise ZeroDivisionError
            with self.assertRaisesRegex(gemmd.FailedPrecondition, "another"):
                with given_up:
                    pass
            self.assertEqual(total.numpy()[0, 0], 0)
            with self.client.sequence() as s:
                s.matmul(a, a, c=total, beta=1, out=total)
                with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                            "another"), s:
                    pass
                s.matmul(a, a, c=total, beta=1, out=total)
            self.assertEqual(total.numpy()[0, 0], 8)

        async def again():
            async with gemmd.AsyncClient(self.target) as client:
                async with client.sequence() as s:
                    s.matmul(a, a)
                with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                            "another"):
                    async with s:
                        pass
        asyncio.run(again())

    def test_the_daemon_refuses_with_the_step(self):
        x = np.ones((2, 2), F32)
        with self.client.tensor(x) as gone:
            pass
        with self.assertRaisesRegex(gemmd.NotFound, r"steps\[1\]: b.tensor: "):
            with self.client.sequence() as s:
                s.matmul(s.matmul(x, x), gone)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "steps: more than "
                                                           "256"):
            with self.client.sequence() as s:
                for _ in range(257):
                    s.matmul(x, x)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "device is unkn"):
            with self.client.sequence(device="cuda:9") as s:
                s.matmul(x, x)
        self.check_nothing_is_held()

    def test_arrays_of_results_are_copies_where_numpy_asks_for_some(self):
        x = np.eye(3, dtype=F32) * 2
        with self.client.sequence() as s:
            y = s.matmul(x, x)
        self.assertIs(y.__array__(), y.numpy())
        # numpy 2 tells what it was asked for, and copies nothing itself.
        for taken in np.array(y), y.__array__(copy=True), y.__array__(F32, True):
            taken[...] = 7
            np.testing.assert_array_equal(y.numpy(), x @ x)
        self.assertEqual(np.asarray(y, np.float64).dtype, np.float64)

    def test_256_products(self):
        x = np.eye(3, dtype=F32) * 2
        with self.client.sequence() as s:
            h = x
            for i in range(256):
                h = s.matmul(h, x, alpha=0.5)
        np.testing.assert_array_equal(h.numpy(), x)

    def test_answers_that_no_message_holds_are_refused_before_the_work(self):
        tall, wide = np.ones((2048, 1), F32), np.ones((1, 2048), F32)
        with self.assertRaisesRegex(gemmd.ResourceExhausted,
                                    r"steps\[3\]: results until here"):
            with self.client.sequence() as s:
                for _ in range(5):
                    s.matmul(tall, wide)

    def test_what_the_device_has_no_room_for_is_refused(self):
        tall, wide = np.ones((4096, 1), F32), np.ones((1, 4096), F32)
        with self.assertRaisesRegex(gemmd.ResourceExhausted,
                                    "operands and results on the device"):
            with self.client.sequence() as s:
                h = [s.matmul(tall, wide) for _ in range(3)]
                y = s.matmul(tall.T, h[0])
                for one in h[1:]:
                    y = s.matmul(y, one)
        self.check_nothing_is_held()
        # One after the other, they have the same room.
        with self.client.sequence() as s:
            y = tall.T
            for _ in range(3):
                y = s.matmul(y, s.matmul(tall, wide), alpha=1 / 4096)
        self.assertEqual(y.numpy()[0, 0], 1)

    def slow(self, s):
        """Seconds of a host device."""
        h = np.ones((700, 700), F32)
        for _ in range(250):
            h = s.matmul(h, h if isinstance(h, np.ndarray) else self.ones)
        return h

    ones = np.ones((700, 700), F32)

    def test_a_deadline_ends_it_between_two_steps(self):
        self.client.matmul(self.ones, self.ones)
        with self.assertRaises(gemmd.DeadlineExceeded):
            with self.client.sequence(timeout=0.2) as s:
                self.slow(s)
        self.check_nothing_is_held()

    def test_a_client_that_goes_leaves_nothing(self):
        self.client.matmul(self.ones, self.ones)
        client = gemmd.Client(self.target)

        def run():
            with self.assertRaises(gemmd.Cancelled):
                with client.sequence() as s:
                    self.slow(s)
        thread = threading.Thread(target=run)
        thread.start()
        self.assertTrue(eventually(lambda: self.held() > 0))
        start = time.monotonic()
        client.close()
        thread.join()
        self.check_nothing_is_held()
        self.assertLess(time.monotonic() - start, 30)

    def test_asyncio(self):
        async def run():
            x, w = self.normal(4, 4), self.normal(4, 4, seed=1)
            async with gemmd.AsyncClient(self.target, timeout=60) as client:
                async with await client.tensor(w) as weights:
                    async with client.sequence() as s:
                        y = s.matmul(s.matmul(x, weights), weights)
                    return y.numpy(), await client.matmul(
                        await client.matmul(x, w), w)
        found, expected = asyncio.run(run())
        np.testing.assert_array_equal(found, expected)


if __name__ == "__main__":
    unittest.main()
