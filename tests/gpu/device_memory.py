#!/usr/bin/env python3
"""Multiplies what lies in this process's own GPU memory, by a daemon on the same
GPU, and measures how long that takes.

    device_memory.py --target unix:/PATH [--only TEXT] [--rounds N]

Needs numpy, ml_dtypes, grpcio, protobuf and libcuda; torch and cupy are tried
where they are installed. Results are compared, bit for bit, with those of the
same products of arrays that were sent. Prints a line for each check that fails,
a table of latencies, and `N passed, N failed`; exits with 1 where any failed.
"""

import argparse
import importlib
import itertools
import os
import statistics
import subprocess
import sys
import time
import traceback

import gemmd
import ml_dtypes
import numpy as np
from gemmd import api, offer, rpcs
from own_memory import BF16, DEVICE, Array, Buffer, Cuda

TYPES = (BF16, np.dtype(np.float16), np.dtype(np.float32),
         np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(np.int8))


def random(shape, dtype, seed=0):
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return values.astype(np.float32).astype(dtype)


class Checks:
    """Each method that begins with check_ is one."""

    def __init__(self, target):
        self.target = target
        self.client = gemmd.Client(target, timeout=120)
        self.cuda = Cuda()

    def __del__(self):
        self.client.close()

    def expect(self, condition, what=""):
        if not condition:
            raise AssertionError(what)

    def same(self, got, expected, what):
        got, expected = np.asarray(got), np.asarray(expected)
        self.expect(got.shape == expected.shape
                    and got.tobytes() == expected.tobytes(), what)

    def _layouts(self, vmm):
        """Shapes, orders, alignments and paddings of every operand."""
        buffer = Buffer(self.cuda, 64 << 20, vmm)
        path = api.enum("Path")[f"PATH_DEVICE_{'VMM' if vmm else 'IPC'}"]
        quarter = buffer.size // 4
        for dtype, (m, n, k) in itertools.product(
                TYPES, ((256, 256, 256), (100, 70, 300), (64, 1, 1000),
                        (1, 512, 256), (333, 512, 129))):
            a, b = random((m, k), dtype, m), random((k, n), dtype, n)
            for orders, offset, padding in itertools.product(
                    ("CC", "CF", "FC", "FF"), (0, 16, dtype.itemsize),
                    (0, 8, 128)):
                x = Array(buffer, offset, (m, k), dtype, orders[0],
                          padding).put(a)
                y = Array(buffer, quarter + offset, (k, n), dtype, orders[1],
                          padding).put(b)
                out = (np.int32 if dtype == np.int8 else np.float32)
                z = Array(buffer, 2 * quarter + offset // dtype.itemsize * 4,
                          (m, n), out, "C", padding)
                around = z.offset - 64 if z.offset > 64 else 0
                size = z.offset + z.nbytes + 64 - around
                buffer.put(around, b"\x5a" * size)
                expected = self.client.matmul(
                    np.asarray(a, order=orders[0]),
                    np.asarray(b, order=orders[1]), out_dtype=out)
                result = self.client.product(x, y, out=z)
                name = (f"{dtype} {m}x{n}x{k} {orders} offset {offset} "
                        f"padding {padding} vmm {vmm}")
                self.same(z.take(), expected, name)
                seen = buffer.take(around, size)
                lines = np.zeros(size, bool)
                start = z.offset - around
                for line in range(z.lines):
                    at = start + line * z.pitch * 4
                    lines[at:at + z.width * 4] = True
                self.expect((seen[~lines] == 0x5a).all(),
                            f"{name}: bytes beside the result were written")
                paths = result.execution.paths
                self.expect((paths.a, paths.b, paths.d) == (path,) * 3,
                            f"{name}: paths {paths}")
                if m == 256 and offset < 17 and offset % 16 == 0 and (
                        padding == 0):
                    self.expect(paths.copies == 0, f"{name}: {paths.copies} "
                                                   "copies")
        buffer.free()

    def check_layouts_by_ipc(self):
        self._layouts(False)

    def check_layouts_by_descriptor(self):
        self._layouts(True)

    def check_results_over_operands(self):
        buffer = Buffer(self.cuda, 16 << 20)
        a, b = random((512, 512), BF16, 1), random((512, 512), BF16, 2)
        expected = self.client.matmul(a, b)
        for which in (0, 1):
            x = Array(buffer, 0, (512, 512), BF16).put(a)
            y = Array(buffer, 1 << 20, (512, 512), BF16).put(b)
            self.client.matmul(x, y, out=(x, y)[which])
            self.same((x, y)[which].take(), expected, f"over operand {which}")
        x.put(a)
        y.put(b)
        c = random((512, 512), BF16, 3)
        z = Array(buffer, 2 << 20, (512, 512), BF16).put(c)
        expected = self.client.matmul(a, b, c=c, beta=2.0)
        result = self.client.product(x, y, c=z, beta=2.0, out=z)
        self.same(z.take(), expected, "c is the result")
        self.expect(result.execution.paths.copies == 0, "copies")
        buffer.free()

    def check_batches_and_mixtures(self):
        buffer = Buffer(self.cuda, 16 << 20)
        a, b = random((3, 128, 256), BF16, 1), random((3, 256, 64), BF16, 2)
        x = Array(buffer, 0, a.shape, BF16).put(a)
        y = Array(buffer, 1 << 20, b.shape, BF16).put(b)
        z = Array(buffer, 2 << 20, (3, 128, 64), BF16)
        expected = self.client.matmul(a, b)
        self.client.matmul(x, y, out=z)
        self.same(z.take(), expected, "a batch")
        self.same(self.client.matmul(x, b), expected, "b was sent")
        self.client.matmul(a, y, out=z)
        self.same(z.take(), expected, "a was sent")
        one = Array(buffer, 1 << 20, b.shape[1:], BF16).put(b[0])
        self.same(self.client.matmul(x, one),
                  self.client.matmul(a, b[0]), "one matrix for all")
        shared = self.client.empty((256, 64), BF16)
        shared[...] = b[0]
        self.same(self.client.matmul(x, shared),
                  self.client.matmul(a, b[0]), "b in shared memory")
        many = self.client.matmul_grouped(
            [Array(buffer, 0, (128, 256), BF16), a[0]], [b[0], one])
        for got in many:
            self.same(got, expected[0], "a group")
        # Each reads what it finds before any is written.
        left = Array(buffer, 4 << 20, (256, 256), BF16).put(a[0, :, :].repeat(
            2, axis=0))
        right = Array(buffer, 5 << 20, (256, 256), BF16).put(
            random((256, 256), BF16, 9))
        values = left.take(), right.take()
        self.client.matmul_grouped([left, right], [right, left],
                                   out=[left, right])
        self.same(left.take(), self.client.matmul(*values), "group over left")
        self.same(right.take(), self.client.matmul(*values[::-1]),
                  "group over right")
        with self.client.tensor(one) as tensor:
            self.same(tensor.numpy(), b[0], "a tensor")
            self.same(self.client.matmul(a[0], tensor), expected[0],
                      "a product with that tensor")
        buffer.free()

    def check_memory_that_is_freed_and_allocated_again(self):
        for vmm, i in itertools.product((False, True), range(20)):
            buffer = Buffer(self.cuda, 8 << 20, vmm)
            a = random((512, 512), np.float16, i)
            x = Array(buffer, 0, a.shape, a.dtype).put(a)
            z = Array(buffer, 4 << 20, a.shape, a.dtype)
            self.client.matmul(x, x, out=z)
            self.same(z.take(), self.client.matmul(a, a), f"round {i}")
            buffer.free()

    def check_what_names_no_memory_is_refused(self):
        buffer = Buffer(self.cuda, 4 << 20, vmm=True)
        uuid = self.cuda.driver.uuid(DEVICE)

        def refused(what, descriptor, size, ipc=b"", name=uuid):
            connection, handle = offer.offer(
                offer.socket_path(self.target), descriptor)
            try:
                self.client._run(rpcs.create_device_region(
                    handle, name, size, ipc), None)
            except (gemmd.InvalidArgument, gemmd.FailedPrecondition,
                    gemmd.ResourceExhausted) as error:
                print(f"   {what}: {error}")
            else:
                raise AssertionError(f"{what} was not refused")
            finally:
                connection.close()
            self._still_multiplies(what)

        with self.cuda.driver.bound(DEVICE):
            allocation = self.cuda.driver.allocation(DEVICE, buffer.address)
            descriptor = self.cuda.driver.export(allocation)
        size = allocation.size
        self.expect((allocation.base, size) == (buffer.address, buffer.size),
                    f"{allocation} is not the buffer")
        # What the driver says to half of an allocation, for the record.
        connection, handle = offer.offer(offer.socket_path(self.target),
                                         descriptor)
        try:
            self.client._run(rpcs.create_device_region(
                handle, uuid, size // 2, b""), None)
            print("   half of an allocation is mapped")
        except gemmd.Error as error:
            print(f"   half of an allocation: {error}")
        connection.close()
        refused("more than the allocation", descriptor, 2 * size)
        refused("far more", descriptor, 64 << 30)
        refused("an odd size", descriptor, size - 1)
        refused("another GPU", descriptor, size, name="GPU-" + "0" * 32)
        os.close(descriptor)
        memfd = os.memfd_create("none")
        os.ftruncate(memfd, 4 << 20)
        refused("a memfd", memfd, 4 << 20)
        os.close(memfd)
        ends = os.pipe()
        refused("a pipe", ends[0], 4 << 20)
        for end in ends:
            os.close(end)
        for path in ("/dev/null", "/dev/nvidiactl", "/dev/nvidia0"):
            if os.path.exists(path):
                file = os.open(path, os.O_RDWR)
                refused(path, file, 4 << 20)
                os.close(file)
        refused("zeros of IPC", None, 0, bytes(64))
        refused("garbage of IPC", None, 0, os.urandom(64))
        plain = Buffer(self.cuda, 1 << 20)
        with self.cuda.driver.bound(DEVICE):
            handle = bytearray(self.cuda.driver.ipc_handle(plain.address))
        plain.free()
        refused("IPC of freed memory", None, 0, bytes(handle))
        buffer.free()

    def _child(self, *arguments):
        return subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--target",
             self.target, *arguments], stdout=subprocess.PIPE, text=True)

    def check_two_processes(self):
        children = [self._child("--child", "20") for _ in range(2)]
        for child in children:
            said, _ = child.communicate(timeout=300)
            self.expect(child.returncode == 0 and "right" in said,
                        f"a child said {said}")

    def check_clients_that_are_killed(self):
        for i in range(4):
            child = self._child("--child", "1000000")
            child.stdout.readline()
            time.sleep(0.05 + 0.03 * i)
            child.kill()
            child.wait()
            child.stdout.close()
        self._still_multiplies("clients that were killed")

    def _still_multiplies(self, after):
        """Nothing that a client does makes the daemon lose its GPU."""
        a = random((256, 256), BF16)
        wide = a.astype(np.float32)
        self.same(self.client.matmul(a, a, out_dtype=np.float32), wide @ wide,
                  f"after {after}")

    def child(self, rounds):
        buffer = Buffer(self.cuda, 64 << 20)
        a = random((2048, 2048), BF16, os.getpid())
        x = Array(buffer, 0, a.shape, BF16).put(a)
        z = Array(buffer, 32 << 20, a.shape, BF16)
        expected = self.client.matmul(a, a)
        print("begun", flush=True)
        for _ in range(rounds):
            self.client.matmul(x, x, out=z)
        self.same(z.take(), expected, "a child's product")
        print("right", flush=True)

    def check_torch(self):
        torch = importlib.import_module("torch")
        for name, mine in (("bfloat16", BF16), ("float16", np.float16),
                           ("float32", np.float32),
                           ("float8_e4m3fn", ml_dtypes.float8_e4m3fn)):
            dtype = getattr(torch, name)
            base = torch.randint(-4, 5, (700, 900), device="cuda").float()
            base = base.to(dtype)

            def host(tensor):
                wide = tensor.float().cpu().numpy()
                return wide.astype(mine)

            views = [base[:256, :512], base[3:259, 5:517], base.T[:256, :512],
                     base[100:356, 16:528].contiguous()]
            for i, view in enumerate(views):
                y = base[100:612, 8:264]
                out = torch.full((256, 256), 7.0, device="cuda")
                expected = self.client.matmul(host(view), host(y),
                                              out_dtype=np.float32)
                got = self.client.matmul(view, y, out=out)
                self.expect(got is out, "out is returned")
                self.same(out.cpu().numpy(), expected, f"torch {name} {i}")
        # What another stream is still computing is waited for.
        stream = torch.cuda.Stream()
        big = torch.randn(8192, 8192, device="cuda").half()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(20):
                big = (big @ big) * 0 + 1
            x = big[:256, :256].contiguous()
            out = torch.empty(256, 256, device="cuda", dtype=torch.half)
            self.client.matmul(x, x, out=out)
        self.expect(bool((out == 256).all()), "torch: another stream")
        del big, x
        for i in range(10):
            x = torch.full((512, 512), float(i), device="cuda").half()
            out = torch.empty_like(x)
            self.client.matmul(x, x, out=out)
            self.expect(bool((out == 512.0 * i * i).all()), f"round {i}")
            del x, out
            torch.cuda.empty_cache()
        x = torch.ones(64, 64, device="cuda", requires_grad=True)
        try:
            self.client.matmul(x, x)
        except gemmd.InvalidArgument as error:
            print(f"   requires_grad: {error}")
        with self.client.tensor(base[:64, :128]) as tensor:
            self.same(tensor.numpy(), host(base[:64, :128]), "torch: a tensor")

    def check_cupy(self):
        cupy = importlib.import_module("cupy")
        for dtype in (np.float16, np.float32, np.int8):
            base = cupy.asarray(random((300, 400), dtype))
            out = cupy.empty((256, 128),
                             np.int32 if dtype == np.int8 else dtype)
            for x, y in ((base[:256, :256], base[:256, :128]),
                         (base[7:263, 3:259], base[5:261, 9:137])):
                self.client.matmul(x, y, out=out)
                expected = self.client.matmul(
                    cupy.asnumpy(x), cupy.asnumpy(y), out_dtype=out.dtype)
                self.same(cupy.asnumpy(out), expected, f"cupy {dtype}")

    def latency(self, rounds):
        """Prints a table, in microseconds."""
        def times(act, count):
            for _ in range(20):
                act()
            taken = []
            for _ in range(count):
                begin = time.perf_counter()
                act()
                taken.append((time.perf_counter() - begin) * 1e6)
            taken.sort()
            return taken[count // 2], taken[int(count * 0.99)]

        health = rpcs.check_health()
        empty, _ = times(lambda: self.client._run(health, None), rounds)
        print(f"\nempty call: {empty:.0f} us\n")
        print("bf16      | what      |   p50 |   p99 | daemon's kernel and wait"
              " | beyond it | beyond it and an empty call")
        for side in (256, 1024, 4096, 8192):
            size = 2 * side * side
            for kind in ("ipc", "vmm", "resident"):
                buffer = Buffer(self.cuda, 3 * size, kind == "vmm")
                x, y, z = (Array(buffer, i * size, (side, side), BF16)
                           for i in range(3))
                x.put(random((side, side), BF16, 1))
                y.put(random((side, side), BF16, 2))
                if kind == "resident":
                    x, y = self.client.tensor(x), self.client.tensor(y)
                    z = self.client.zeros((side, side), BF16)
                self.client.matmul(x, y, out=z)
                time.sleep(2)  # A better kernel may be compiled meanwhile.
                kernel = statistics.median(
                    self.client.product(x, y, out=z
                                        ).execution.phases.execute_us
                    for _ in range(100))
                count = rounds if side < 4096 else max(rounds // 4, 100)
                half, most = times(lambda: self.client.matmul(x, y, out=z),
                                   count)
                print(f"{side:5d}^3   | {kind:9s} | {half:5.0f} | {most:5.0f} |"
                      f" {kernel:5.0f} | {half - kernel:5.0f} |"
                      f" {half - kernel - empty:5.0f}")
                if kind == "resident":
                    for tensor in (x, y, z):
                        tensor.delete()
                buffer.free()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--child", type=int, default=0)
    options = parser.parse_args()
    checks = Checks(options.target)
    if options.child:
        checks.child(options.child)
        return 0
    for device in checks.client.info().devices:
        print(f"{device.name}: {device.uuid}, by descriptor "
              f"{device.shares_vmm}, by IPC {device.shares_ipc}")
    passed = failed = 0
    for name in [name for name in dir(checks) if name.startswith("check_")]:
        if options.only not in name:
            continue
        print(f"== {name}", flush=True)
        try:
            getattr(checks, name)()
            passed += 1
        except ModuleNotFoundError as error:
            print(f"   left out: {error}")
        except Exception:  # pylint: disable=broad-except
            failed += 1
            traceback.print_exc(file=sys.stdout)
    try:
        if options.rounds:
            checks.latency(options.rounds)
    except Exception:  # pylint: disable=broad-except
        failed += 1
        traceback.print_exc(file=sys.stdout)
    print(f"\n{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
