"""Arrays in device memory: which memory is shared, once, and what of it a
request names. The driver and the arrays are fakes, and so is most of the daemon:
no GPU is needed. On a GPU: tests/gpu/device_memory.py."""

import asyncio
import tempfile
import threading
import types
import unittest
from concurrent import futures
from unittest import mock

import gemmd
import ml_dtypes
import numpy as np
from deaf_server import deaf_server
from eventually import eventually
from fake_cuda import UUID, ByInterface, Door, FakeCuda, OnDevice
from gemmd import (api, device_arrays, errors, libcuda, product,
                   sequence, striped_product)
from gemmd.connections import Connections
from gemmd.shared import Regions
from host_daemon import HostCase


class DeviceMemoryTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.door = Door(f"{folder.name}/socket")
        self.addCleanup(self.door.close)
        self.cuda = FakeCuda()
        patch = mock.patch.object(libcuda, "_loaded",
                                  libcuda.Driver(self.cuda))
        patch.start()
        self.addCleanup(patch.stop)
        self.created = []
        self.regions = Regions(f"unix:{folder.name}/socket", self.create)
        self.addCleanup(self.regions.close)

    def create(self, rpc):
        self.created.append(api.CreateRegionRequest.FromString(rpc.request))
        limits = types.SimpleNamespace(max_region_bytes=1 << 30)
        return types.SimpleNamespace(device="cuda:0", limits=limits)

    def block(self, array, before=0, after=0):
        """`array`, in an allocation with bytes before and behind it."""
        return self.cuda.add(array.ctypes.data - before,
                             before + array.nbytes + after)

    def call(self, a, b, **options):
        call = product.Call(a, b, **options)
        call.share(self.regions)
        return call

    def test_operands_and_results_are_named(self):
        whole = np.empty((3, 64, 64), np.float32)
        base = self.block(whole, 256)
        x, y, z = (OnDevice(part) for part in whole)
        call = self.call(x, y, out=z)
        header = call.header
        handle = "%032x" % 1
        for part, offset in ((header.a.region, 256),
                             (header.b.region, 256 + 16384),
                             (header.d.region, 256 + 32768)):
            self.assertEqual((part.region, part.offset), (handle, offset))
        self.assertEqual(call.buffers, {"a": None, "b": None})
        self.assertFalse(call.streams(0))
        self.assertEqual(self.door.came, [(b"d", 0)])
        memory = self.created[0].device_memory
        self.assertEqual(memory.device_uuid, UUID)
        self.assertEqual(memory.ipc_handle, base.to_bytes(64, "little"))
        self.assertEqual(x.streams, [libcuda.LEGACY_STREAM])
        self.assertEqual(self.cuda.waited, [libcuda.LEGACY_STREAM])
        self.assertEqual(self.cuda.bound, [])
        response = types.SimpleNamespace(d=None, auxiliary=None, amax=None,
                                         execution=None)
        self.assertIs(call.product(response).value(), z)
        # As well the pre-activation; there is room for it where x was.
        call = self.call(y, y, out=z, pre_activation_out=x)
        self.assertEqual(call.header.auxiliary.region.offset, 256)
        self.assertEqual(call.header.d.region.offset, 256 + 32768)
        self.assertEqual(call.header.auxiliary.region.layout.order,
                         call.header.problem.d_order)
        self.assertEqual(call.product(response).value(), (z, x))
        # A large result that is returned may come in chunks.
        self.assertTrue(self.call(x, y).streams(16383))
        self.assertFalse(self.call(x, y).streams(16384))
        # Not by way of tensors, which could be of another device.
        connections = Connections(None, 4)
        connections.least_bytes = 0
        self.assertFalse(striped_product.serves(connections, self.call(x, y)))
        self.assertTrue(striped_product.serves(
            connections, self.call(whole[0], whole[1])))

    def sequence(self, record):
        """The SequenceRequest of what `record` does, and what it returned."""
        client = types.SimpleNamespace(_regions=self.regions,
                                       _seconds=lambda timeout: timeout)
        request = api.message("SequenceRequest")
        requests = []

        def run(rpc, timeout):
            requests.append(request.FromString(rpc.request))
            raise errors.Unavailable("there is no daemon")

        client._run = run
        with self.assertRaises(gemmd.Unavailable):
            with sequence.Sequence(client, "", None) as s:
                record(s)
        return requests[0]

    def test_those_of_a_sequence_are_named_once(self):
        whole = np.empty((3, 64, 64), np.float32)
        self.block(whole, 256)
        x, y, z = (OnDevice(part) for part in whole)
        w = np.ones((64, 64), np.float32)

        def record(s):
            h = s.matmul(x, y, out=z)
            s.matmul(h, x)
            s.matmul(x, w)

        request = self.sequence(record)
        handle = "%032x" % 1
        self.assertEqual(
            [(each.region.region, each.region.offset, len(each.data))
             for each in request.operands],
            [(handle, 256, 0), (handle, 256 + 16384, 0), ("", 0, 16384)])
        first, second, third = request.steps
        names = [each.name for each in request.operands]
        self.assertEqual([first.a.name, first.b.name], names[:2])
        self.assertEqual([second.a.name, second.b.name], ["d 0", names[0]])
        self.assertEqual([third.a.name, third.b.name], names[::2])
        self.assertEqual(first.d.region.offset, 256 + 32768)
        self.assertEqual(first.d.region.layout.order, api.ROW_MAJOR)
        self.assertEqual(first.d.name, "d 0")
        # There is no memory of the host's that is shared.
        self.assertTrue(second.d.HasField("inline"))
        self.assertEqual(self.cuda.waited, [libcuda.LEGACY_STREAM] * 2)
        self.assertEqual(self.cuda.bound, [])

    def test_results_in_device_memory_go_there_alone(self):
        whole = np.empty((2, 16, 16), np.float32)
        self.block(whole)
        shared = self.regions.empty((16, 16), np.float32, "C")
        device, host = "%032x" % 2, "%032x" % 1

        def record(s):
            s.matmul(s.matmul(shared, OnDevice(whole[0]),
                              out=OnDevice(whole[1])), shared)

        first, second = self.sequence(record).steps
        self.assertEqual(first.d.region.region, device)
        self.assertEqual(second.d.region.region, host)
        call = self.call(shared, OnDevice(whole[0]), out=OnDevice(whole[1]))
        self.assertEqual(call.header.d.region.region, device)
        self.assertEqual(call.header.a.region.region, host)

    def test_what_two_streams_of_the_owners_make_is_waited_for_twice(self):
        base = self.cuda.add(1 << 40, 1 << 20)
        request = self.sequence(lambda s: s.matmul(
            ByInterface(base, (16, 16), stream=3),
            ByInterface(base, (16, 16), stream=4)))
        self.assertEqual(self.cuda.waited, [3, 4])
        self.assertEqual(len(request.operands), 2)

    def test_empty_ones_of_a_sequence_are_not_named(self):
        base = self.cuda.add(1 << 40, 1 << 20)
        request = self.sequence(lambda s: s.matmul(
            ByInterface(base, (0, 16)), ByInterface(base, (16, 16)),
            out=ByInterface(base, (0, 16))))
        self.assertFalse(request.operands[0].HasField("region"))
        self.assertTrue(request.operands[1].HasField("region"))
        self.assertTrue(request.steps[0].d.HasField("inline"))

    def test_memory_with_a_descriptor_sends_it(self):
        x = np.empty((16, 16), np.float16)
        base = self.block(x, 0, 4096 - x.nbytes)
        self.cuda.mapped.add(base)
        self.call(OnDevice(x), OnDevice(x))
        self.assertEqual(self.door.came, [(b"m", 1)])
        memory = self.created[0].device_memory
        self.assertEqual((memory.bytes, memory.ipc_handle), (4096, b""))
        # It is kept, so that nothing else gets its handle.
        self.assertEqual(self.cuda.held, 1)
        self.call(OnDevice(x), OnDevice(x))
        self.assertEqual(len(self.created), 1)
        self.cuda.handle = 6  # Other memory is mapped there.
        self.call(OnDevice(x), OnDevice(x))
        self.assertEqual(len(self.created), 2)
        self.assertEqual((self.door.open(), self.cuda.held), (1, 1))
        self.regions.close()
        self.assertEqual(self.cuda.held, 0)

    def test_memory_without_a_number_is_not_shared(self):
        x = np.empty((16, 16), np.float16)
        base = self.block(x)
        self.cuda.blocks[base] = (x.nbytes, 0)
        with self.assertRaisesRegex(gemmd.FailedPrecondition, "no number"):
            self.call(OnDevice(x), OnDevice(x))

    def test_layouts(self):
        whole = np.empty((64, 64), np.float32)
        self.block(whole)
        for part, order, leading, offset in (
                (whole[:16, :16], "ROW_MAJOR", 64, 0),
                (whole.T[:16, :16], "COLUMN_MAJOR", 64, 0),
                (whole[3:19, 5:21], "ROW_MAJOR", 64, (3 * 64 + 5) * 4),
                (whole[::4, :16], "ROW_MAJOR", 256, 0)):
            header = self.call(OnDevice(part), np.ones((16, 4), np.float32)
                               ).header
            layout = header.a.region.layout
            self.assertEqual(layout.order, getattr(api, order))
            self.assertEqual(layout.leading_dimension, leading)
            self.assertEqual(header.a.region.offset, offset)
        for part in (whole[:16, ::2], whole[::-1, :16]):
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        "a: strides .* make it contiguous"):
                self.call(OnDevice(part), np.ones((part.shape[1], 4),
                                                  np.float32))

    def test_batches_and_vectors(self):
        whole = np.empty((2, 3, 16, 8), np.float32)
        self.block(whole)
        other = np.ones((8, 4), np.float32)
        call = self.call(OnDevice(whole), other)
        self.assertEqual(call.header.problem.batch, 6)
        self.assertFalse(
            call.header.a.region.layout.HasField("batch_stride"))
        call = self.call(OnDevice(whole[:, :, :, 0][0, 0]),
                         np.ones((16, 4), np.float32))
        self.assertEqual(call.header.problem.m, 1)
        call = self.call(OnDevice(whole[:, :1]), other)
        self.assertEqual(call.header.a.region.layout.batch_stride, 3 * 16 * 8)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "broadcast"):
            self.call(OnDevice(whole[:1]), np.ones((2, 3, 8, 4), np.float32))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "evenly spaced"):
            self.call(OnDevice(whole[:, :2]), other)

    def test_a_column_of_bytes_is_one_line_where_it_is_contiguous(self):
        whole = np.empty((64, 32), np.int8)
        self.block(whole)
        for column, order, leading in (
                (whole.reshape(-1)[:128], "COLUMN_MAJOR", 128),
                (whole.reshape(-1, 1)[:128], "COLUMN_MAJOR", 128),
                (whole[:, 0], "ROW_MAJOR", 32),
                (whole[:, :1], "ROW_MAJOR", 32)):
            layout = self.call(np.ones((4, len(column)), np.int8),
                               OnDevice(column)).header.b.region.layout
            self.assertEqual(layout.order, getattr(api, order))
            self.assertEqual(layout.leading_dimension, leading)

    def test_an_allocation_is_shared_once(self):
        x = np.empty((16, 16), np.float32)
        self.block(x)
        for _ in range(3):
            self.call(OnDevice(x), OnDevice(x))
        self.assertEqual(len(self.created), 1)
        self.door.guests[0].close()  # The daemon came back.
        self.call(OnDevice(x), OnDevice(x))
        self.assertEqual(len(self.created), 2)

    def test_memory_that_was_freed_is_let_go_of(self):
        x, y = np.empty((16, 16), np.float32), np.empty((16, 16), np.float32)
        base = self.block(x)
        self.call(OnDevice(x), OnDevice(x))
        del self.cuda.blocks[base]
        self.block(x)  # Another one, at its address.
        handle = self.call(OnDevice(x), OnDevice(x)).header.a.region.region
        self.assertEqual(handle, "%032x" % 2)
        self.assertEqual(self.door.open(), 1)
        del self.cuda.blocks[base]
        self.block(y)
        self.call(OnDevice(y), OnDevice(y))
        self.assertEqual(self.door.open(), 1)

    def test_only_so_many_are_shared(self):
        arrays = [np.empty((4, 4), np.float32) for _ in range(60)]
        for x in arrays:
            self.block(x)
            self.call(OnDevice(x), OnDevice(x))
        self.assertEqual(len(self.created), 60)
        self.assertEqual(self.door.open(), 48)
        self.call(OnDevice(arrays[-1]), OnDevice(arrays[-2]))
        self.assertEqual(len(self.created), 60)

    def test_others_make_room(self):
        refusals = [None, errors.ResourceExhausted("64 regions"), None]

        def create(rpc):
            error = refusals.pop(0)
            if error is not None:
                raise error
            return self.create(rpc)

        self.regions.device._create = create
        for _ in range(2):
            x = np.empty((4, 4), np.float32)
            self.block(x)
            self.call(OnDevice(x), OnDevice(x))
        self.assertEqual(refusals, [])
        self.assertEqual(self.door.open(), 1)

    def test_who_closes_waits_for_nobody_who_shares(self):
        x = np.empty((16, 16), np.float32)
        self.block(x)

        def close(client, door):
            """While a thread waits for a region."""
            with futures.ThreadPoolExecutor() as pool:
                call = pool.submit(client.matmul, OnDevice(x), OnDevice(x))
                eventually(lambda: door.came)
                client.close()
                self.assertIsInstance(call.exception(), gemmd.Error)

        async def close_async(target, door):
            client = gemmd.AsyncClient(target)
            call = asyncio.ensure_future(
                client.matmul(OnDevice(x), OnDevice(x)))
            while not door.came:
                await asyncio.sleep(0.01)
            await client.close()
            with self.assertRaises(gemmd.Error):
                await call

        for act in (lambda target, door: close(gemmd.Client(target), door),
                    lambda target, door: asyncio.run(
                        close_async(target, door))):
            with deaf_server() as target:
                door = Door(target.removeprefix("unix:"))
                self.addCleanup(door.close)
                closed = threading.Event()

                def run(act=act, target=target, door=door, closed=closed):
                    act(target, door)
                    closed.set()

                threading.Thread(target=run, daemon=True).start()
                self.assertTrue(closed.wait(20), "it waits for ever")

    def test_what_cannot_be_shared_says_what_to_do(self):
        x = np.empty((16, 16), np.float32)
        base = self.block(x)
        self.cuda.private.add(base)
        with self.assertRaisesRegex(
                gemmd.FailedPrecondition,
                "a: its memory cannot be shared .cuIpcGetMemHandle failed with "
                "CUDA_ERROR_FAKE.; copy the array to the host"):
            self.call(OnDevice(x), OnDevice(x))
        self.cuda.blocks[base] = (512, 9)
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    "a: spans several allocations"):
            self.call(OnDevice(x), OnDevice(x))
        elsewhere = Regions("localhost:50051", self.create)
        call = product.Call(OnDevice(x), OnDevice(x))
        with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                    "localhost:50051 is no Unix socket"):
            call.share(elsewhere)
        with gemmd.Client("localhost:50051") as client:
            with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                        "localhost:50051 is no Unix socket"):
                with client.sequence() as s:
                    s.matmul(OnDevice(x), OnDevice(x))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "bool in device"):
            self.call(ByInterface(base, (8, 8), "|b1"), OnDevice(x))
        self.assertEqual(self.created, [])

    def test_the_interface_of_cuda_arrays(self):
        base = self.cuda.add(1 << 40, 1 << 20)
        b = np.ones((16, 4), np.float32)
        for more, waited in (({"stream": 1}, 1), ({"stream": 12345}, 12345),
                             ({"stream": None}, None), ({}, None),
                             ({"version": 2, "stream": 5}, None)):
            call = self.call(ByInterface(base + 64, (16, 16), **more), b)
            self.assertEqual(self.cuda.waited.pop(), waited)
            self.assertEqual(call.header.a.region.offset, 64)
        self.cuda.waited.clear()
        self.call(ByInterface(base, (16, 16), stream=3),
                  ByInterface(base, (16, 16), stream=4),
                  out=ByInterface(base + 4096, (16, 16), stream=3))
        self.assertEqual(self.cuda.waited, [3, 4])
        call = self.call(ByInterface(base, (16, 16), strides=(4, 64)), b)
        self.assertEqual(call.header.problem.a_order, api.COLUMN_MAJOR)

    def test_types_that_numpy_lacks(self):
        torch = types.ModuleType("torch")
        torch.uint8 = "uint8"
        torch.float8_e4m3fn = object()
        value = types.SimpleNamespace(
            dtype=torch.float8_e4m3fn,
            view=lambda dtype: OnDevice(np.empty((16, 16), np.uint8)),
            __dlpack__=None, __dlpack_device__=lambda: (2, 0))
        with mock.patch.dict("sys.modules", torch=torch):
            array = device_arrays.as_device_array(value, "a")
        self.assertEqual(array.dtype, np.dtype(ml_dtypes.float8_e4m3fn))

    def test_arrays_of_the_host_are_not_on_a_device(self):
        for value in (np.ones(3), [1, 2], 3.0, None,
                      types.SimpleNamespace(
                          __dlpack_device__=lambda: (1, 0))):
            self.assertFalse(device_arrays.is_on_device(value))


class HostDaemonTest(HostCase):

    def test_a_daemon_without_a_gpu_says_so(self):
        cuda = FakeCuda()
        x = np.empty((16, 16), np.float32)
        cuda.add(x.ctypes.data, x.nbytes)
        with mock.patch.object(libcuda, "_loaded", libcuda.Driver(cuda)):
            for act in (lambda: self.client.matmul(OnDevice(x), OnDevice(x)),
                        lambda: self.client.tensor(OnDevice(x)),
                        lambda: self.client.matmul(
                            np.ones((16, 16), np.float32),
                            np.ones((16, 16), np.float32), out=OnDevice(x)),
                        self.awaited(x)):
                with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                            "this daemon has no GPU"):
                    act()

    def awaited(self, x):
        async def run():
            async with gemmd.AsyncClient(self.target, timeout=30) as client:
                await client.matmul(OnDevice(x), OnDevice(x))
        return lambda: asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
