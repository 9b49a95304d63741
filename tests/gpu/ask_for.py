#!/usr/bin/env python3
"""Asks a daemon for products again and again, as its users would.

    ask_for.py --target HOST:PORT --problems FILE [--seconds N] [--clients N]

FILE holds lines of bf16 problems as gemm_bench --list prints them. Operands and
results are tensors of the daemon, so that it does little but multiply. Prints
requests a second over the first tenth of the time and over the last.
"""

import argparse
import random
import threading
import time

import gemmd
import ml_dtypes

ORDERS = {"N": "F", "T": "C"}


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


def ask(client, products, seed, end, times):
    """Asks for products in random order until `end`, and notes when."""
    choice = random.Random(seed)
    while time.monotonic() < end:
        a, b, d = choice.choice(products)
        client.product(a, b, out=d)
        times.append(time.monotonic())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--problems", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=2)
    arguments = parser.parse_args()
    with gemmd.Client(arguments.target, timeout=120) as client:
        products = read_products(arguments.problems, Tensors(client))
        for a, b, d in products:  # Kernels are there before the clock starts.
            client.product(a, b, out=d)
        begin = time.monotonic()
        end = begin + arguments.seconds
        times = [[] for _ in range(arguments.clients)]
        threads = [threading.Thread(target=ask, args=(client, products, seed,
                                                      end, times[seed]))
                   for seed in range(arguments.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tuned = client.statistics().tuning
    tenth = arguments.seconds / 10
    every = [at - begin for of_one in times for at in of_one]
    first = sum(at < tenth for at in every) / tenth
    last = sum(at > 9 * tenth for at in every) / tenth
    print(f"{len(every)} requests; {first:.0f}/s at first, {last:.0f}/s at "
          f"last; {tuned.tuned} problems tuned, {tuned.failed} attempts "
          f"failed, {tuned.background_us / 1e6:.2f} s of the device taken")


if __name__ == "__main__":
    main()
