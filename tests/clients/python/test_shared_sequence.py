"""Sequences of arrays in memory that is shared with the daemon."""

import gc
import unittest

import gemmd
import ml_dtypes
import numpy as np
from shared_case import SharedCase, random


class SharedSequenceTest(SharedCase):

    def test_sequences_use_them_where_they_are(self):
        x, w1, w2 = (random((16, 32), np.float32), random((32, 24), np.float32),
                     random((24, 8), np.float32))
        bias = random((24,), np.float32)
        h = self.client.matmul(x, w1, bias=bias, activation="relu")
        y = self.client.matmul(h, w2)
        shared = [self.shared(each) for each in (x, w1, w2, bias)]
        before = self.received()
        with self.client.sequence() as s:
            hh = s.matmul(shared[0], shared[1], bias=shared[3],
                          activation="relu")
            yy = s.matmul(hh, shared[2])
            s.returns(hh, yy)
        self.assertEqual(self.received(), before)
        for got, expected in ((hh, h), (yy, y)):
            self.assert_same(got.numpy(), expected)
            self.assertTrue(self.is_shared(got.numpy()))
            self.assertTrue(got.numpy().flags.writeable)
        # Views of them, and others that travel.
        with self.client.sequence() as s:
            yy = s.matmul(s.matmul(x, shared[1][:, 4:20]), shared[2][4:20])
        self.assertEqual(self.received(), before + x.nbytes)
        self.assert_same(yy.numpy(), self.client.matmul(
            self.client.matmul(x, w1[:, 4:20]), w2[4:20]))
        self.assertTrue(self.is_shared(yy.numpy()))
        # Where nothing is shared, results come as they came.
        with self.client.sequence() as s:
            yy = s.matmul(x, w1)
        self.assertFalse(self.is_shared(yy.numpy()))

    def test_sequences_fill_out_where_it_lies(self):
        x, w = random((8, 8), np.float32), random((8, 8), np.float32)
        first = self.client.matmul(x, w)
        second = self.client.matmul(first, w)
        sent = self.client.statistics().sent_bytes
        wide = self.client.empty((8, 12), np.float32)
        wide[...] = 7
        kept = self.client.empty((8, 8), np.float32, order="F")
        own = np.empty((8, 8), np.float32)
        with self.client.sequence() as s:
            h = s.matmul(x, w, out=wide[:, :8])
            y, before = s.matmul(h, w, activation="relu", out_order="F",
                                 pre_activation_out=kept)
            z = s.matmul(h, w, out=own)
        self.assert_same(np.array(wide[:, :8]), first)
        self.assertTrue((wide[:, 8:] == 7).all())
        self.assertIs(before.numpy(), kept)
        self.assert_same(np.ascontiguousarray(kept), second)
        self.assert_same(np.ascontiguousarray(y.numpy()),
                         np.maximum(second, 0))
        self.assertIs(z.numpy(), own)
        self.assert_same(own, second)
        self.assertEqual(self.client.statistics().sent_bytes, sent)

    def test_out_of_a_sequence_may_be_what_it_reads(self):
        a, w = random((8, 8), np.float32), random((8, 8), np.float32)
        x = self.shared(a)
        first = self.client.matmul(a, w)
        with self.client.sequence() as s:
            s.matmul(x, w, out=x)
            y = s.matmul(x, x)  # As it was before the call.
        self.assert_same(np.array(x), first)
        self.assert_same(y.numpy(), self.client.matmul(a, a))

    def test_outs_of_a_sequence_that_overlap_are_filled_in_order(self):
        a, w = random((8, 8), np.float32), random((8, 8), np.float32)
        both = self.client.empty((13, 8), np.float32)
        apart = self.client.empty((8, 8), np.float32)
        with self.client.sequence() as s:
            h = s.matmul(a, w, out=both[:8])
            s.matmul(h, w, out=both[5:])
            s.matmul(h, w, out=apart)
        first = self.client.matmul(a, w)
        second = self.client.matmul(first, w)
        self.assert_same(np.array(both[5:]), second)
        self.assert_same(np.array(both[:5]), first[:5])
        self.assert_same(np.array(apart), second)
        # Also one that the daemon could not write where it lies.
        wide = self.client.empty((8, 16), np.float32)
        with self.client.sequence() as s:
            h = s.matmul(a, w, out=wide[:, ::2])
            s.matmul(h, w, out=wide[:, :8])
        self.assert_same(np.ascontiguousarray(wide[:, :8]), second)
        self.assert_same(np.ascontiguousarray(wide[:, 8::2]), first[:, 4:])

    def test_sequences_send_what_is_sparse_and_share_weights(self):
        x, w = random((8, 64), np.float16), random((64, 8), np.float16)
        sparse = gemmd.sparse24(w, axis=-2, prune=True)
        lines = self.client.empty(sparse.lines.shape, sparse.lines.dtype)
        lines[...] = sparse.lines
        there = gemmd.SparseMatrix(lines, np.dtype(np.float16), 64).T
        if there.shape != sparse.shape:
            there = there.T
        weights = gemmd.quantize(w.astype(np.float32), ml_dtypes.int4, axis=-2,
                                 group=32)
        stack = random((3, 8, 64), np.float16)
        with self.client.sequence() as s:
            one = s.matmul(self.shared(x), there)
            two = s.matmul(self.shared(x), weights)
            three = s.matmul(self.shared(stack), self.shared(w))
            four = s.matmul(np.ones((0, 4), np.float32),
                            np.ones((4, 3), np.float32),
                            out=self.client.empty((0, 3), np.float32))
        self.assert_same(one.numpy(), self.client.matmul(x, sparse))
        self.assert_same(two.numpy(), self.client.matmul(x, weights))
        self.assert_same(three.numpy(), self.client.matmul(stack, w))
        self.assertEqual(four.numpy().shape, (0, 3))

    def test_an_error_of_a_sequence_leaves_its_results_to_the_daemon(self):
        with gemmd.Client(self.target) as client:
            a = client.empty((512, 512), np.float32)
            a[...] = 1
            with self.assertRaises(gemmd.DeadlineExceeded):
                with client.sequence(timeout=1e-4) as s:
                    s.matmul(a, a)
            del s
            gc.collect()
            # What the daemon may still write is not given to anybody.
            self.assertEqual(client._regions.block(1).place.offset, 2 << 20)


if __name__ == "__main__":
    unittest.main()
