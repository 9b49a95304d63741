#!/usr/bin/env python3
"""Asks a daemon for products again and again, as its users would.

    ask_for.py --target HOST:PORT --problems FILE [--seconds N] [--calm N]
               [--clients N] [--json FILE]

FILE holds lines of bf16 problems as gemm_bench --list prints them. Operands and
results are tensors of the daemon, so that it does little but multiply. Each
client is a process of its own. They ask until every problem has been tuned, but
for --seconds at most, and then for --calm seconds more. Prints, and writes to
the file of --json, requests a second in both times, what part of them tuning
cost, and what it came to.
"""

import argparse
import json
import multiprocessing
import random
import time

import gemmd
import ml_dtypes

ORDERS = {"N": "F", "T": "C"}
STEP = 0.5  # Seconds between two looks.


class Tensors:
    """Tensors of zeros, each shape and order once."""

    def __init__(self, client):
        self._client = client
        self._made = {}

    def get(self, *key):
        if key not in self._made:
            rows, columns, order = key[:3]
            self._made[key] = self._client.zeros(
                (rows, columns), ml_dtypes.bfloat16, order=order)
        return self._made[key]


def read_products(path, tensors):
    """(a, b, d) of each line."""
    products = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            kind, letters, m, n, k = line.split()
            if kind != "bf16":
                raise SystemExit(f"{line.strip()} is not of bf16")
            m, n, k = int(m), int(n), int(k)
            products.append((tensors.get(m, k, ORDERS[letters[0]], "a"),
                             tensors.get(k, n, ORDERS[letters[1]], "b"),
                             tensors.get(m, n, "F", "d")))
    return products


def ask(arguments, seed, ready, over, count):
    """Asks for products in random order until `over`, counting."""
    with gemmd.Client(arguments.target, timeout=120) as client:
        products = read_products(arguments.problems, Tensors(client))
        for a, b, d in products:  # Kernels are there before the clock starts.
            client.product(a, b, out=d)
        ready.wait()
        choice = random.Random(seed)
        while not over.is_set():
            a, b, d = choice.choice(products)
            client.product(a, b, out=d)
            count.value += 1


class Watch:
    """Requests by time, and the state of the tuner."""

    def __init__(self, client, counts):
        self._client = client
        self._counts = counts
        self._begin = time.monotonic()
        self.seen = []  # (seconds, requests, problems tuned)
        self.look()

    def look(self):
        self.tuned = self._client.statistics().tuning
        self.seen.append((time.monotonic() - self._begin,
                          sum(count.value for count in self._counts),
                          self.tuned.records))

    def until(self, seconds, records=None):
        """Looks on for so long, or until there are so many records."""
        while self.seen[-1][0] < seconds and (records is None or
                                              self.tuned.records < records):
            time.sleep(STEP)
            self.look()
        return self.seen[-1]


def rate(first, last):
    return (last[1] - first[1]) / (last[0] - first[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--problems", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--calm", type=float, default=20)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with open(arguments.problems, encoding="utf-8") as file:
        problems = sum(1 for _ in file)
    spawn = multiprocessing.get_context("spawn")
    ready, over = spawn.Barrier(arguments.clients + 1), spawn.Event()
    counts = [spawn.Value("q", 0, lock=False) for _ in range(arguments.clients)]
    clients = [spawn.Process(target=ask,
                             args=(arguments, seed, ready, over, count))
               for seed, count in enumerate(counts)]
    for each in clients:
        each.start()
    ready.wait()
    with gemmd.Client(arguments.target, timeout=120) as client:
        watch = Watch(client, counts)
        begin = watch.seen[0]
        middle = watch.until(arguments.seconds, problems)
        end = watch.until(middle[0] + arguments.calm)
    over.set()
    for each in clients:
        each.join()
    tuning, calm = rate(begin, middle), rate(middle, end)
    result = {"seconds": middle[0], "requests_per_s": tuning,
              "calm_requests_per_s": calm, "lost": 1 - tuning / calm,
              "problems": problems, "records": middle[2],
              "failed": watch.tuned.failed,
              "device_seconds": watch.tuned.background_us / 1e6,
              "timeline": watch.seen}
    print("{seconds:.0f} s: {requests_per_s:.0f} requests/s; then "
          "{calm_requests_per_s:.0f}/s: {lost:.1%} lost. {records} of "
          "{problems} problems have a record, {failed} attempts failed, "
          "{device_seconds:.1f} s of the device taken".format(**result))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file)
    return max(each.exitcode for each in clients)


if __name__ == "__main__":
    raise SystemExit(main())
