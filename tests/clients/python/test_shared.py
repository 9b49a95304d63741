"""Arrays in memory that is shared with the daemon."""

import asyncio
import gc
import threading
import unittest
from concurrent import futures

import gemmd
import ml_dtypes
import numpy as np
from both_clients import both_clients
from gemmd.grouped import Groups
from host_daemon import HostCase
from shared_case import SharedCase, random


class SharedTest(SharedCase):

    def test_what_is_shared_does_not_travel(self):
        for dtype in (ml_dtypes.bfloat16, np.float16, np.float32, np.int8):
            for order in ("C", "F"):
                a, b = random((40, 64), dtype), random((64, 24), dtype, order)
                expected = self.client.matmul(a, b)
                before = self.received()
                got = self.client.matmul(self.shared(a), self.shared(b, order))
                self.assertEqual(self.received(), before)
                self.assert_same(got, expected)
                self.assertTrue(self.is_shared(got))
                self.assertTrue(got.flags.writeable)

    def test_arrays_are_aligned_as_memory_of_devices_is(self):
        small = [self.client.empty((3,), np.uint8) for _ in range(4)]
        self.assertEqual({array.ctypes.data % 256 for array in small}, {0})

    def test_a_result_is_an_operand(self):
        a = self.shared(random((32, 32), np.float32))
        before = self.received()
        got = self.client.matmul(self.client.matmul(a, a), a)
        self.assertEqual(self.received(), before)
        self.assert_same(got, (a @ a @ a).astype(np.float32))

    def test_views_that_need_no_copy_are_shared_too(self):
        whole = self.shared(random((64, 64), ml_dtypes.bfloat16))
        plain = np.array(whole)
        for part in (np.s_[:, :60], np.s_[8:40, :], np.s_[:, 4:64]):
            before = self.received()
            got = self.client.matmul(whole[part], whole[part].T)
            self.assertEqual(self.received(), before)
            self.assert_same(got, self.client.matmul(plain[part],
                                                     plain[part].T))
        # Every second element is copied, and sent.
        got = self.client.matmul(whole[:, ::2], whole[:, ::2].T)
        self.assert_same(got, self.client.matmul(plain[:, ::2],
                                                 plain[:, ::2].T))

    def test_out_receives_the_result_where_it_lies(self):
        a, b = random((40, 64), np.float32), random((64, 24), np.float32)
        expected = self.client.matmul(a, b)
        for order in ("C", "F"):
            out = self.client.empty((40, 24), np.float32, order=order)
            self.assertIs(self.client.matmul(a, b, out=out), out)
            self.assert_same(np.array(out), expected)
        wide = self.client.empty((40, 32), np.float32)
        wide[...] = 7
        self.client.matmul(a, b, out=wide[:, :24])
        self.assert_same(np.ascontiguousarray(wide[:, :24]), expected)
        self.assertTrue((wide[:, 24:] == 7).all())
        # One whose elements lie apart is filled by the client.
        spread = self.client.empty((40, 48), np.float32)
        spread[...] = 7
        self.client.matmul(a, b, out=spread[:, ::2])
        self.assert_same(np.ascontiguousarray(spread[:, ::2]), expected)
        self.assertTrue((spread[:, 1::2] == 7).all())
        # So is one that is no shared memory.
        own = np.zeros((40, 24), np.float32)
        self.assertIs(self.client.matmul(self.shared(a), b, out=own), own)
        self.assert_same(own, expected)

    def test_large_products_are_those_of_the_whole(self):
        # The daemon makes lines of the result while others are on their way.
        for order in ("C", "F"):
            a = random((9000, 16), ml_dtypes.bfloat16)
            b = random((16, 500), ml_dtypes.bfloat16)
            if order == "F":
                a, b = b.T, a.T
            options = {"bias": random((b.shape[1],), np.float32),
                       "activation": "relu"}
            expected = self.client.matmul(a, b, **options)
            out = self.client.empty(expected.shape, expected.dtype, order=order)
            self.client.matmul(self.shared(a), self.shared(b, order), out=out,
                               **options)
            self.assert_same(np.array(out), expected)

    def test_a_large_result_may_lie_over_its_operands(self):
        a = random((9000, 200), ml_dtypes.bfloat16)
        b = np.eye(200)[::-1].astype(ml_dtypes.bfloat16)
        whole = self.client.empty((9001, 200), a.dtype)
        for lines, out in ((np.s_[:-1], np.s_[:-1]), (np.s_[:-1], np.s_[1:]),
                           (np.s_[1:], np.s_[:-1])):
            whole[lines] = a
            self.client.matmul(whole[lines], self.shared(b), out=whole[out])
            self.assert_same(np.array(whole[out]), a[:, ::-1])
        c = self.shared(a)
        self.client.matmul(a, b, c=c, beta=1.0, out=c)
        self.assert_same(np.array(c), self.client.matmul(a, b, c=a, beta=1.0))

    def test_out_may_be_c(self):
        a, b = random((8, 8), np.float32), random((8, 8), np.float32)
        c = self.shared(np.ones((8, 8), np.float32))
        self.client.matmul(a, b, c=c, beta=1.0, out=c)
        self.assert_same(np.array(c), self.client.matmul(a, b) + np.float32(1))

    def test_more_results_are_shared_too(self):
        a, b = random((16, 64), np.float16), random((64, 24), np.float16)
        options = {"activation": "relu", "return_pre_activation": True,
                   "return_amax": True, "bias": random((24,), np.float32)}
        d, before, amax = self.client.matmul(a, b, **options)
        got = self.client.matmul(self.shared(a), self.shared(b), **options)
        self.assert_same(got[0], d)
        self.assert_same(got[1], before)
        self.assertEqual(got[2], amax)
        self.assertTrue(self.is_shared(got[1]))

    def test_the_pre_activation_is_written_where_it_lies(self):
        a, b = random((16, 64), np.float16), random((64, 24), np.float16)
        d, before = self.client.matmul(a, b, activation="relu",
                                       return_pre_activation=True)
        for out in (None, self.client.empty((16, 24), np.float16)):
            kept = self.client.empty((16, 24), np.float16)
            product = self.client.product(a, b, activation="relu", out=out,
                                          pre_activation_out=kept)
            self.assertIs(product.pre_activation, kept)
            self.assert_same(np.array(kept), before)
            self.assert_same(np.array(product.d), d)
            self.assertEqual(product.execution.paths.auxiliary, 4)  # SHARED
        whole = self.client.empty((32, 24), np.float16)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "shares memory"):
            self.client.matmul(a, b, out=whole[:16],
                               pre_activation_out=whole[15:31])
        whole = self.client.empty((16, 40), np.float16)  # Side by side.
        self.client.matmul(a, b[:, :20], activation="relu", out=whole[:, :20],
                           pre_activation_out=whole[:, 20:])
        self.assert_same(np.array(whole), np.concatenate(
            (d[:, :20], before[:, :20]), axis=1))

    def test_batches_and_vectors(self):
        a, b = random((3, 8, 16), np.float32), random((16, 5), np.float32)
        self.assert_same(self.client.matmul(self.shared(a), self.shared(b)),
                         self.client.matmul(a, b))
        out = self.client.empty((3, 8, 5), np.float32)
        self.client.matmul(a, b, out=out)
        self.assert_same(np.array(out), self.client.matmul(a, b))
        x = random((16,), np.float32)
        self.assert_same(self.client.matmul(self.shared(a), self.shared(x)),
                         self.client.matmul(a, x))

    def test_groups(self):
        a = [random((m, 16), np.float16) for m in (1, 8, 0, 5)]
        b = [random((16, 8), np.float16) for _ in a]
        out = [None, self.client.empty((8, 8), np.float16), None,
               np.empty((5, 8), np.float16)]
        expected = self.client.matmul_grouped(a, b)
        got = self.client.matmul_grouped(
            [self.shared(a[0]), *a[1:]], [*b[:3], self.shared(b[3])],
            out=[np.empty((1, 8), np.float16), out[1],
                 np.empty((0, 8), np.float16), out[3]])
        self.assertIs(got[1], out[1])
        for one, other in zip(got, expected):
            self.assert_same(np.array(one), other)

    def test_a_group_is_not_written_where_another_one_reads(self):
        w = random((8, 8), np.float32)
        for client in both_clients(self.target):
            regions = getattr(client, "_of", client)._regions
            x = client.empty((4, 8, 8), np.float32)
            x[:3] = random((3, 8, 8), np.float32)
            expected = self.client.matmul(np.array(x[:3]), w)
            groups = Groups(x[:3], [w] * 3, out=x[1:])
            groups.share(regions)
            start = regions.place(x.reshape(-1).view(np.uint8).data).offset
            self.assertEqual(
                [call.header.d.region.offset == start + i * x[0].nbytes
                 for i, call in enumerate(groups.calls, 1)],
                [False, False, True])
            client.matmul_grouped(x[:3], [w] * 3, out=x[1:])
            self.assert_same(np.array(x[1:]), expected)

    def test_outs_of_groups_that_overlap_are_filled_in_order(self):
        a, w = random((2, 8, 8), np.float32), random((8, 8), np.float32)
        first, second = self.client.matmul(a, w)
        for upwards in (True, False):
            out = self.client.empty((13, 8), np.float32)
            outs = [out[:8], out[5:]] if upwards else [out[5:], out[7::-1]]
            groups = Groups(a, [w, w], out=outs)
            groups.share(self.client._regions)
            self.assertEqual([call.written for call in groups.calls], [[], []])
            self.client.matmul_grouped(a, [w, w], out=outs)
            self.assert_same(np.array(outs[1]), second)
            if upwards:
                self.assert_same(np.array(out[:5]), first[:5])
            else:
                self.assert_same(np.array(out[8:]), first[3:])

    def test_bits_sparse_and_weights(self):
        a = random((8, 64), np.float32) > 0
        b = random((64, 8), np.float32) > 0
        self.assert_same(self.client.matmul(self.shared(a), b),
                         self.client.matmul(a, b))
        x, w = random((8, 64), np.float16), random((64, 8), np.float16)
        sparse = gemmd.sparse24(w, axis=-2, prune=True)
        self.assert_same(self.client.matmul(self.shared(x), sparse),
                         self.client.matmul(x, sparse))
        weights = gemmd.quantize(w.astype(np.float32), ml_dtypes.int4, axis=-2,
                                 group=32)
        self.assert_same(self.client.matmul(self.shared(x), weights),
                         self.client.matmul(x, weights))

    def test_large_ones_need_no_stream(self):
        with gemmd.Client(self.target, stream_bytes=1000) as client:
            client._stream = None
            a = client.empty((64, 64), np.float32)
            a[...] = 1
            self.assert_same(client.matmul(a, a), np.full((64, 64), 64,
                                                          np.float32))

    def test_what_is_not_shared_goes_in_chunks(self):
        with gemmd.Client(self.target, stream_bytes=1000) as client:
            a = client.empty((64, 64), np.float32)
            a[...] = random((64, 64), np.float32)
            plain = random((64, 64), np.float32)
            expected = self.client.matmul(np.array(a), plain)
            before = self.received()
            got = client.product(a, plain)
            self.assertEqual(self.received(), before + plain.nbytes)
            self.assert_same(got.d, expected)
            paths = got.execution.paths
            self.assertEqual((paths.a, paths.b, paths.d), (4, 2, 4))
            self.assertIsNotNone(client._regions.place(
                got.d.reshape(-1).view(np.uint8).data))
            wide = client.empty((64, 80), np.float32)
            wide[...] = 7
            client.matmul(plain, a, out=wide[:, 8:72], activation="relu")
            self.assert_same(np.ascontiguousarray(wide[:, 8:72]), np.maximum(
                self.client.matmul(plain, np.array(a)), 0))
            self.assertTrue((wide[:, :8] == 7).all())
            self.assertTrue((wide[:, 72:] == 7).all())
            # The pre-activation comes in chunks, the result does not.
            out, kept = np.empty((64, 64), np.float32), wide[:, 8:72]
            for options in ({"out": out, "pre_activation_out": kept},
                            {"out": kept, "pre_activation_out": out}):
                d, first = client.matmul(plain, plain, activation="relu",
                                         **options)
                self.assertIs(d, options["out"])
                self.assertIs(first, options["pre_activation_out"])
                expected = self.client.matmul(plain, plain)
                self.assert_same(np.ascontiguousarray(first), expected)
                self.assert_same(np.ascontiguousarray(d),
                                 np.maximum(expected, 0))

    def test_an_error_of_a_stream_leaves_its_result_to_the_daemon(self):
        with gemmd.Client(self.target, stream_bytes=1000) as client:
            a = client.empty((512, 2048), np.float32)
            a[...] = 1
            plain = np.ones((2048, 512), np.float32)
            with self.assertRaises(gemmd.DeadlineExceeded):
                client.matmul(a, plain, timeout=1e-4)
            # Nobody else gets the 1 MiB behind `a`.
            self.assertEqual(client._regions.block(1).place.offset, 5 << 20)

    def test_what_is_not_shared_goes_by_several_connections(self):
        with gemmd.Client(self.target, stripes=2) as client:
            a = client.empty((2, 32), np.float32)
            a[...] = random((2, 32), np.float32)
            b = random((32, 300_000), np.float32)
            got = client.product(a, b)
            paths = got.execution.paths
            # A tensor for the time of the call; the result is there.
            self.assertEqual((paths.a, paths.b, paths.d), (4, 3, 4))
            self.assert_same(got.d, self.client.matmul(np.array(a), b))

    def test_memory_is_used_again(self):
        with gemmd.Client(self.target) as client:
            for _ in range(20):
                array = client.empty((1 << 20, 8), np.float32)
                array[-1] = 1
                del array
            gc.collect()
            self.assertEqual(len(client._regions._regions), 1)
            views = [client.empty(100, np.int8) for _ in range(50)]
            for i, view in enumerate(views):
                view[...] = i
            for i, view in enumerate(views):
                self.assertTrue((view == i).all())
            del views, view
            self.assertTrue(client._regions._regions[0].is_empty)

    def test_blocks_that_lie_side_by_side_become_one(self):
        with gemmd.Client(self.target) as client:
            arrays = [client.empty(16 << 20, np.int8) for _ in range(4)]
            for i in (2, 0, 3, 1):
                arrays[i] = None
            whole = client.empty(64 << 20, np.int8)
            self.assertEqual(len(client._regions._regions), 1)
            del whole

    def test_threads_share_them(self):
        wrong = []

        def work(seed):
            values = np.random.default_rng(seed)
            for _ in range(20):
                a = self.client.empty((16, 16), np.float32)
                a[...] = values.integers(-4, 4, (16, 16))
                if (self.client.matmul(a, a) != a @ a).any():
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_arrays_outlive_their_client(self):
        client = gemmd.Client(self.target)
        a = client.empty((8, 8), np.float32)
        a[...] = 2
        client.close()
        self.assertEqual(a.sum(), 128)
        self.assert_same(self.client.matmul(a, a),
                         np.full((8, 8), 32, np.float32))

    def test_empty_arrays_and_mistakes(self):
        self.assertEqual(self.client.empty((0, 4), np.int8).shape, (0, 4))
        self.assertEqual(self.client.empty(3).shape, (3,))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "negative side"):
            self.client.empty((2, -1))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "order"):
            self.client.empty((2, 2), order="K")

    def test_tensors_come_from_and_go_to_shared_memory(self):
        for order in ("C", "F"):
            a = random((40, 24), ml_dtypes.bfloat16)
            before = self.client.statistics()
            with self.client.tensor(self.shared(a, order)) as tensor:
                back = tensor.numpy()
                tensor.upload(self.shared(-a, order))
                negative = np.asarray(tensor.T)
            after = self.client.statistics()
            self.assert_same(back, a)
            self.assert_same(negative, -a.T)
            self.assertTrue(self.is_shared(back if order == "C" else back.T))
            self.assertEqual(after.received_bytes, before.received_bytes)
            self.assertEqual(after.sent_bytes, before.sent_bytes)

    def test_tensors_of_several_turns_of_the_device(self):
        a = self.client.empty((20, 4 << 20), np.int8)
        a[...] = np.arange(20, dtype=np.int8)[:, None]
        a[:, -1] = 77
        with self.client.tensor(a) as tensor:
            self.assertTrue((tensor.numpy() == a).all())

    def test_parts_of_an_array_become_tensors(self):
        whole = self.shared(random((48, 24), np.float32))
        for part in (whole[:40, :16], whole[:, 3:], whole[::2], whole[::-1],
                     whole[:, ::2], whole.T[:5]):
            with self.client.tensor(part) as tensor:
                self.assert_same(tensor.numpy(), np.ascontiguousarray(part))

    def test_weights_are_shared_and_sparse_ones_sent(self):
        self.client.empty(1)
        weights = gemmd.quantize(random((64, 128), np.float32), "int4",
                                 group=32)
        with self.client.tensor(weights) as tensor:
            self.assert_same(tensor.quantized().lines, weights.lines)
        sparse = gemmd.sparse24(random((8, 64), np.float16), prune=True)
        with self.client.tensor(sparse) as tensor:
            self.assert_same(tensor.compressed().lines, sparse.lines)

    def test_an_error_leaves_its_result_to_the_daemon(self):
        a = self.shared(random((512, 2048), np.float32))
        with self.assertRaises(gemmd.DeadlineExceeded):
            self.client.matmul(a, a.T, timeout=1e-4)
        # What the daemon may still write is not given to anybody.
        taken = [self.client.empty((512, 512), np.float32) for _ in range(8)]
        for one in taken:
            one[...] = 3
        self.client.matmul(a, a.T)
        for one in taken:
            self.assertTrue((one == 3).all())


class AsyncTest(HostCase):

    def test_who_is_cancelled_while_closing_keeps_no_region(self):
        async def run():
            client = gemmd.AsyncClient(self.target, timeout=30)
            await client.empty(100, np.uint8)
            channel, loop = client._channel, asyncio.get_running_loop()
            close = channel.close

            async def close_late():
                try:
                    await asyncio.sleep(60)
                finally:
                    await close()

            channel.close = close_late
            # The only thread for what waits is taken.
            leaves = threading.Event()
            loop.set_default_executor(futures.ThreadPoolExecutor(1))
            loop.run_in_executor(None, leaves.wait, 30)
            closing = asyncio.ensure_future(client.close())
            for _ in "channel", "regions":
                await asyncio.sleep(0.01)
                closing.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await closing
            leaves.set()
            await loop.shutdown_default_executor()
            self.assertFalse(client._regions)

        asyncio.run(run())

    def test_the_same_awaited(self):
        async def run():
            async with gemmd.AsyncClient(self.target, timeout=30) as client:
                with self.assertRaises(gemmd.InvalidArgument):
                    await client.empty((2, -1))
                arrays = await asyncio.gather(
                    *(client.empty((64, 64), np.float32) for _ in range(8)))
                for i, a in enumerate(arrays):
                    a[...] = i
                before = (await client.statistics()).received_bytes
                results = await asyncio.gather(
                    *(client.matmul(a, a) for a in arrays))
                grouped = await client.matmul_grouped(arrays, arrays)
                tensor = await client.tensor(arrays[3])
                self.assertTrue((await tensor.numpy() == 3).all())
                # The region is full: the results need another one.
                large = await client.empty(60 << 20, np.int8)
                more = await client.matmul(
                    arrays[1], arrays[1], out=await client.empty(
                        (64, 64), np.float32))
                after = (await client.statistics()).received_bytes
                self.assertEqual(after, before)
                for i, (one, other) in enumerate(zip(results, grouped)):
                    self.assertTrue((one == 64 * i * i).all())
                    self.assertTrue((other == 64 * i * i).all())
                self.assertTrue((more == 64).all())
                self.assertEqual(len(large), 60 << 20)
                out = await client.empty((64, 64), np.float32)
                before = (await client.statistics()).received_bytes
                async with client.sequence() as s:
                    h = s.matmul(arrays[1], arrays[1], out=out)
                    y = s.matmul(h, arrays[2])
                after = (await client.statistics()).received_bytes
                self.assertEqual(after, before)
                self.assertIs(h.numpy(), out)
                self.assertTrue((out == 64).all())
                self.assertTrue((y.numpy() == 64 * 64 * 2).all())
                self.assertIsNotNone(client._regions.place(
                    y.numpy().reshape(-1).view(np.uint8).data))
                async with client.sequence() as s:
                    # The operands are not kept with the result.
                    y = s.matmul(arrays[1], arrays[1])
                self.assertEqual((s._steps, s._operands.all), ([], []))
                # A small one is done before gRPC looks at its clock.
                slow = await client.empty((1000, 1000), np.float32)
                with self.assertRaises(gemmd.DeadlineExceeded):
                    await client.matmul(slow, slow, timeout=1e-6)
                with self.assertRaises(gemmd.DeadlineExceeded):
                    async with client.sequence(timeout=1e-6) as s:
                        s.matmul(slow, slow)

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
