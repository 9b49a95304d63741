"""Clients of every kind and of several principals at a daemon with TLS, tokens,
certificates, quotas and metrics, for as long as is asked:

  python3 -m endurance [--seconds 60] [--device host] [--json FILE]

from tests/, with the client's and tests/clients/python on PYTHONPATH, as
tests/run.sh does. On a GPU host, from a checkout with the programs of
tests/gpu/bundle.sh unpacked into FOLDER:

  PYTHONPATH=build/gpu-bundle/python:tests:tests/clients/python python3 -m
    endurance --device cuda --program FOLDER/bin/gemmd --libraries FOLDER/lib
    --gemmctl FOLDER/bin/gemmctl --load "bf16 TN 4096 4096 4096"
    --seconds 480 --workers 12 --scale 16

where the last kind of load, resident products of `gemmctl load` under the first
principal's token, keeps the GPU busy, which clients in Python do not.

Fails on a wrong answer or an unexpected error, on a daemon that does not end
well, that holds what its clients have left, or that grows: by more than 2% and
16 MiB over the second half of a run of 5 minutes or more (of a shorter one, whose
caches still fill: 128 MiB), and 8 MiB for each thread that came meanwhile, which
malloc gives an arena. gRPC's executor starts threads as it needs them, up to two
for each processor; by more the daemon may not grow either. Prints how fast each kind of work went, and ends with
"N passed, N failed".
"""

import argparse
import getpass
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import time

from endurance import kinds, watch
from eventually import eventually
from secure_daemon import BUILD, SecureDaemon

_EVERY_S = 2
_MIB = 1 << 20
_FEW_THREADS = 8
_QUOTAS = {"max_tensor_bytes": 1 << 30, "max_calls": 64,
           "max_in_flight_bytes": 256 * _MIB}
_NEVER = ("INTERNAL", "UNKNOWN", "DATA_LOSS", "UNIMPLEMENTED")


def policy():
    roles = ["compute", "tensors", "kernels"]
    return {"principals": [
        {"name": "alice", "roles": roles, "weight": 3, **_QUOTAS},
        {"name": "worker", "roles": roles, **_QUOTAS,
         "certificates": ["URI:spiffe://worker"]},
        {"name": "neighbour", "roles": roles, **_QUOTAS,
         "unix_users": [getpass.getuser()]}]}


def connections(daemon):
    """How each principal connects, and what it does."""
    files = {"ca_file": daemon.path("authority.pem")}
    common = {"timeout": 120, "stream_bytes": _MIB}
    return (
        (kinds.EVERYWHERE, daemon.target,
         {**common, **files, "token_file": daemon.path("token")}),
        (kinds.EVERYWHERE, daemon.target,
         {**common, **files, "certificate_file": daemon.path("worker.pem"),
          "key_file": daemon.path("worker.key")}),
        (kinds.EVERYWHERE + kinds.ON_THIS_MACHINE, daemon.unix, common),
    )


class Load:
    """`gemmctl load` beside the workers, under alice's token."""

    def __init__(self, arguments, daemon):
        self.process = subprocess.Popen(
            [arguments.gemmctl, "load", "--server", daemon.target, "--ca-file",
             daemon.path("authority.pem"), "--token-file",
             daemon.path("token"), "--ways", "resident", "--concurrency", "8",
             "--connections", "2", "--duration", f"{arguments.seconds:.0f}s",
             "--json", arguments.load],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **libraries(arguments)})

    def end(self, checks):
        try:
            said, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            said, _ = self.process.communicate()
        checks.expect(self.process.returncode == 0,
                      f"gemmctl load: {said[-1000:]}")
        if self.process.returncode:
            return {}
        found = json.loads(said)
        print(f"gemmctl load: {said.strip()}")
        return found


def libraries(arguments):
    return {"LD_LIBRARY_PATH": arguments.libraries} \
        if arguments.libraries else {}


class Checks:
    passed = failed = 0

    def expect(self, holds, what):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}")


def table(times):
    print(f"{'':<12}{'rounds':>8}{'/s':>8}{'p50 ms':>10}{'p99 ms':>10}"
          f"{'max ms':>10}")
    for name, found in sorted(times.items()):
        found = sorted(found)
        at = [1e3 * found[min(len(found) - 1, int(q * len(found)))]
              for q in (.5, .99, 1)]
        print(f"{name:<12}{len(found):>8}{len(found) / sum(found):>8.1f}"
              + "".join(f"{ms:>10.1f}" for ms in at))


def endure(arguments, daemon, checks):
    address = eventually(lambda: re.search(
        r"event=monitoring address=(\S+)", daemon.log()))[1]
    watched = watch.Watch(daemon.process.pid, address)
    began = time.monotonic()
    watched.sample(0)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    ways = connections(daemon)
    workers = [context.Process(target=kinds.work, daemon=True, args=(
        i, *ways[i % len(ways)], arguments.seconds, arguments.seed,
        arguments.scale, queue)) for i in range(arguments.workers)]
    load = Load(arguments, daemon) if arguments.load else None
    for worker in workers:
        worker.start()
    times, failures, reports = {}, [], 0
    latest = began + arguments.seconds + 150
    while reports < len(workers) and time.monotonic() < latest:
        if daemon.process.poll() is not None:
            break
        watched.sample(time.monotonic() - began)
        time.sleep(_EVERY_S)
        dead = [w.exitcode for w in workers if w.exitcode]
        while not queue.empty():
            some, wrong = queue.get()
            reports, failures = reports + 1, failures + wrong
            for name, found in some.items():
                times.setdefault(name, []).extend(found)
        if dead:
            break
    for worker in workers:
        worker.terminate()
    loaded = load.end(checks) if load else {}
    if daemon.process.poll() is not None:
        checks.expect(False, "the daemon ended on its own with code "
                      f"{daemon.process.returncode}")
        return {}
    checks.expect(reports == len(workers),
                  f"{len(workers) - reports} workers did not end in time")
    for kind in kinds.EVERYWHERE + kinds.ON_THIS_MACHINE:
        checks.expect(arguments.workers < len(ways) or kind.__name__ in times,
                      f"{kind.__name__} was never served")
    checks.expect(not failures, f"{len(failures)} rounds failed, first: "
                  + "; ".join(failures[:5]))
    table(times)
    return {"times": {name: len(found) for name, found in times.items()},
            "load": loaded,
            **after(arguments, daemon, watched, checks, began)}


def after(arguments, daemon, watched, checks, began):
    """What is left when the clients have gone."""
    seconds = time.monotonic() - began

    def held():
        m = watched.metrics()
        left = {name: watch.total(m, name) for name in (
            "gemmd_tensors", "gemmd_requests_in_flight", "gemmd_region_bytes",
            "gemmd_budget_held_bytes", "gemmd_connections")}
        return {name: value for name, value in left.items() if value}

    eventually(lambda: not held())
    checks.expect(not held(), f"left behind: {held()}")
    first, last = watched.samples[0], watched.samples[-1]
    checks.expect(
        eventually(lambda: len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
                   <= first["files"] + 32), "files stay open")
    metrics = watched.sample(seconds)
    codes = {}
    for labels, value in metrics.get("gemmd_requests_total", {}).items():
        code = re.search(r'code="(\w+)"', labels)[1]
        codes[code] = codes.get(code, 0) + int(value)
    checks.expect(not any(codes.get(code) for code in _NEVER),
                  f"codes of answers: {codes}")
    checks.expect(not watch.total(metrics, "gemmd_product_failures_total"),
                  "products failed")
    growth, error, each = watched.growth()
    most = max(16 * _MIB, .02 * last["resident_bytes"])
    if arguments.seconds < 300:
        most = 128 * _MIB
    most += 8 * _MIB * watched.new_threads()
    checks.expect(growth <= most, f"grew by {growth / _MIB:.1f} MiB; allowed: "
                  f"{most / _MIB:.1f}")
    checks.expect(
        last["threads"] <= first["threads"] + 2 * os.cpu_count() + _FEW_THREADS,
        f"has {last['threads']} threads, had {first['threads']}")
    busy = (last["busy_seconds"] - first["busy_seconds"]) / seconds
    print(f"{seconds:.0f} s, {last['requests']:.0f} requests, lanes busy "
          f"{busy:.2f} of the time, codes {codes}")
    print(f"resident {first['resident_bytes'] / _MIB:.0f} to "
          f"{last['resident_bytes'] / _MIB:.0f} MiB, at most "
          f"{max(s['resident_bytes'] for s in watched.samples) / _MIB:.0f}; second "
          f"half: {growth / _MIB:+.2f} +- {error / _MIB:.2f} MiB, {each:+.1f} "
          f"bytes a request; {first['threads']} to {last['threads']} threads")
    return {"seconds": seconds, "codes": codes, "growth_bytes": growth,
            "growth_error_bytes": error, "samples": watched.samples}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--device", default="host")
    parser.add_argument("--program", type=pathlib.Path,
                        default=BUILD / "service/gemmd")
    parser.add_argument("--libraries", help="of the program alone")
    parser.add_argument("--load", help="a problem for gemmctl load")
    parser.add_argument("--gemmctl", type=pathlib.Path,
                        default=BUILD / "clients/gemmctl/gemmctl")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--scale", type=int, default=1,
                        help="large products have sides of so many times 256")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    checks, found = Checks(), {}
    try:
        with SecureDaemon("--metrics-listen=127.0.0.1:0",
                          device=arguments.device, program=arguments.program,
                          policy=policy(),
                          environment=libraries(arguments)) as daemon:
            found = endure(arguments, daemon, checks)
    except (RuntimeError, OSError, http.client.HTTPException) as error:
        checks.expect(False, str(error)[-2000:])
    else:
        checks.expect(True, "the daemon ends well")
    if arguments.json:
        arguments.json.write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
