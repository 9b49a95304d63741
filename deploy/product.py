#!/usr/bin/env python3
"""Multiplies two bf16 matrices of odd sizes through a daemon and says how it
went: device, kernel, latency, error against numpy in float64.

Exit code 1 when the result breaks the numerics contract.
"""

import argparse
import statistics
import time

import gemmd
import ml_dtypes
import numpy as np

M, N, K = 1111, 1237, 1501


def timed(call):
    start = time.perf_counter()
    result = call()
    return result, (time.perf_counter() - start) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="localhost:50051")
    parser.add_argument("--device", default="")
    arguments = parser.parse_args()

    generator = np.random.default_rng(1)
    a = generator.standard_normal((M, K)).astype(ml_dtypes.bfloat16)
    b = generator.standard_normal((K, N)).astype(ml_dtypes.bfloat16)
    with gemmd.Client(arguments.target, timeout=120) as client:
        def multiply():
            return client.product(a, b, device=arguments.device)

        first, cold_ms = timed(multiply)
        warm = [timed(multiply) for _ in range(10)]
        warm_ms = statistics.median(ms for _, ms in warm)
        execution = warm[-1][0].execution

    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    expected = a64 @ b64
    error = np.abs(first.d.astype(np.float64) - expected)
    # The contract of proto/gemmd/v1/matmul.proto; D's type is bf16.
    bound = (2 * K * 2.0 ** -24 * (np.abs(a64) @ np.abs(b64)) * (1 + 2.0 ** -8)
             + 2.0 ** -8 * np.abs(expected))
    good = bool((error <= bound).all())

    megabytes = (a.nbytes + b.nbytes + first.d.nbytes) / 1e6
    print(f"product        {M} x {N} x {K}, bf16, {megabytes:.1f} MB moved")
    print(f"device         {execution.device}")
    print(f"kernel         {execution.kernel}")
    print(f"cold           {cold_ms:.1f} ms, of which compile "
          f"{first.execution.phases.compile_us / 1e3:.1f} ms")
    print(f"warm           {warm_ms:.1f} ms round trip, of which execute "
          f"{execution.phases.execute_us / 1e3:.2f} ms")
    print(f"error          {error.max():.3g} at most against numpy in float64,"
          f" {(error / bound).max():.2f} of what the contract allows")
    print(f"cubin key      {execution.cubin_key}")
    if not good:
        print("WRONG: the error exceeds the bound")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
