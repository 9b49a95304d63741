#!/usr/bin/env python3
"""Checks and measures a daemon that has two GPUs.

    two_devices.py --target HOST:PORT --gemmctl COMMAND [--seconds S] [--json FILE]

Needs numpy, ml_dtypes, grpcio and protobuf. Products of tensors that lie apart
are compared, bit for bit, with those of the same arrays that were sent. Then
products of resident tensors are asked for on one GPU, on each by a client of its
own, and by one client that leaves their place to the daemon. Prints a line for
each check that fails, a table, and `N passed, N failed`; exits with 1 where any
failed.
"""

import argparse
import itertools
import json
import shlex
import subprocess
import sys
import threading

import gemmd
import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
S8 = np.dtype(np.int8)
PROBLEMS = ("bf16 TN 1024 1024 1024", "bf16 TN 4096 4096 4096",
            "bf16 TN 8192 8192 8192")


def random(shape, dtype, seed=0):
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return values.astype(dtype)


class Checks:
    def __init__(self, client):
        self.client = client
        self.devices = [each.name for each in client.info().devices]
        self.passed = self.failed = 0

    def expect(self, good, what):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print(f"FAILED: {what}")

    def same(self, got, expected, what):
        self.expect(got.tobytes() == expected.tobytes(), what)

    def tensor(self, array, device):
        return self.client.tensor(array, device=self.devices[device])

    def check(self, name, a, b, **options):
        """Operands on any device, the product on any."""
        expected = self.client.matmul(a, b, **options)
        for homes in itertools.product((0, 1), (0, 1)):
            with self.tensor(a, homes[0]) as x, self.tensor(b, homes[1]) as y:
                for where in (0, 1, 1, 0):
                    got = self.client.product(
                        x, y, device=self.devices[where], **options)
                    what = f"{name}, tensors on {homes}, product on {where}"
                    self.same(got.value(), expected, what)
                    self.expect(
                        got.execution.device.startswith(self.devices[where]),
                        f"{what}: it ran on {got.execution.device}")

    def check_types(self):
        for (dtype, m, n, k), orders in itertools.product(
                ((BF16, 300, 520, 1000), (S8, 300, 520, 1000),
                 (E4M3, 256, 384, 512), (np.dtype(np.float32), 100, 200, 300)),
                itertools.product("CF", "CF")):
            a = np.asarray(random((m, k), dtype, 1), order=orders[0])
            b = np.asarray(random((k, n), dtype, 2), order=orders[1])
            options = {"out_dtype": np.float32} if dtype == E4M3 else {}
            self.check(f"{dtype} {orders}", a, b, **options)
        self.check("split", random((64, 65536), BF16, 1),
                   random((65536, 64), BF16, 2))
        dense = random((256, 512), BF16, 3)
        dense[:, 2::4] = dense[:, 3::4] = 0
        self.check("sparse", gemmd.sparse24(dense), random((512, 320), BF16, 4))

    def check_writes(self):
        """Whoever reads from far sees what was written last."""
        a = random((512, 512), BF16, 1)
        far, near = self.tensor(a, 0), self.tensor(a, 1)
        for i in range(20):
            values = random((512, 512), BF16, 10 + i)
            if i % 2:
                far.upload(values)
            else:  # By a product, which reads the other one from far.
                near.upload(values)
                self.client.matmul(near, np.eye(512, dtype=BF16), out=far)
            self.same(
                self.client.matmul(far, a, device=self.devices[1]),
                self.client.matmul(values, a), f"write {i}")
        far.delete()
        near.delete()

    def check_many_threads(self):
        arrays = [random((512, 512), BF16, 20 + i) for i in range(4)]
        tensors = [self.tensor(each, i % 2) for i, each in enumerate(arrays)]
        expected = {(i, j): self.client.matmul(arrays[i], arrays[j])
                    for i in range(4) for j in range(4)}
        wrong = []

        def work(seed):
            random_ = np.random.default_rng(seed)
            for _ in range(100):
                i, j = (int(x) for x in random_.integers(4, size=2))
                got = self.client.matmul(tensors[i], tensors[j])
                if got.tobytes() != expected[i, j].tobytes():
                    wrong.append((seed, i, j))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.expect(not wrong, f"threads: {wrong}")
        for each in tensors:
            each.delete()


class Load:
    def __init__(self, options):
        self.options = options

    def start(self, problem, *more):
        return subprocess.Popen(
            [*shlex.split(self.options.gemmctl), "load", problem,
             "--ways", "resident", "--target", self.options.target, "--json",
             "--warmup", "2s", "--duration", f"{self.options.seconds}s", *more],
            stdout=subprocess.PIPE, text=True)

    @staticmethod
    def rate(child):
        said, _ = child.communicate(timeout=300)
        return json.loads(said)["requests_per_s"]

    def measure(self, problem, devices):
        one = ("--connections", "8", "--concurrency", "16")
        two = ("--connections", "16", "--concurrency", "32")
        alone = [self.rate(self.start(problem, *one, "--device", each))
                 for each in devices]
        children = [self.start(problem, *one, "--device", each)
                    for each in devices]
        apart = sum(self.rate(each) for each in children)
        free = self.rate(self.start(problem, *two))
        best = max(alone)
        return {"alone": alone, "apart": apart, "free": free,
                "apart_ratio": apart / best, "free_ratio": free / best}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--gemmctl", required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    with gemmd.Client(options.target) as client:
        checks = Checks(client)
        if len(checks.devices) < 2:
            sys.exit(f"two GPUs are needed; there are {checks.devices}")
        checks.check_types()
        checks.check_writes()
        checks.check_many_threads()
    load = Load(options)
    table = {}
    for problem in PROBLEMS:
        row = table[problem] = load.measure(problem, checks.devices[:2])
        print(f"{problem}: {row['alone'][0]:.0f} and {row['alone'][1]:.0f}/s "
              f"alone; two clients {row['apart']:.0f} ({row['apart_ratio']:.2f} "
              f"times), one {row['free']:.0f} ({row['free_ratio']:.2f})")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"passed": checks.passed, "failed": checks.failed,
                       "products_per_s": table}, file, indent=1)
            file.write("\n")
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
