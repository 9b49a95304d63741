"""Command line of the suite. Ends with "N passed, N failed", exit code 0 or 1.
"""

import argparse
import datetime
import json
import os
import sys
import time

import gemmd
from google.protobuf import json_format

from . import random_products, refusals, results, suite

_SHOWN_FAILURES = 40


def _arguments():
    parser = argparse.ArgumentParser(
        prog="python3 -m conformance",
        description="Checks a gemmd daemon against its numerics contract.")
    parser.add_argument("--target", required=True,
                        help="address of the daemon, such as localhost:50051")
    parser.add_argument("--device", default="",
                        help='device to test, such as "cuda:0" or "host"; '
                             "default: the daemon's choice")
    parser.add_argument("--subset", choices=("ci", "full"), default="full",
                        help="ci: under two minutes on two cores; default: "
                             "full")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="run the cases whose name contains TEXT")
    parser.add_argument("--hopper", action="store_true",
                        help="fail where sums have not the bits of Hopper's "
                             "tensor cores although these are known")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="processes; default: one per core")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="begin nothing new after so long, and say how "
                             "much was left out; default: no limit")
    parser.add_argument("--skip", type=int, default=0, metavar="N",
                        help="leave out the first N units of work, which an "
                             "earlier run has done")
    parser.add_argument("--random", type=int, default=0, metavar="N",
                        help="N random products instead of the suite's cases")
    parser.add_argument("--reference", default="", metavar="TARGET",
                        help="a second daemon, on the host device with "
                             "--host-model as the GPU, that random products "
                             "are compared with bit for bit; default: the "
                             "specification alone")
    parser.add_argument("--seed", type=int, default=1,
                        help="of random products; default: 1")
    parser.add_argument("--families", type=int, default=480,
                        help="of random products, which share kernels: about "
                             "three a family; default: 480")
    parser.add_argument("--only-index", type=int, default=-1, metavar="I",
                        help="of random products only number I")
    parser.add_argument("--json", metavar="FILE",
                        help="write counts and worst error of each check, "
                             "and every failure")
    return parser.parse_args()


def _by_check(found):
    """Of each check and family of kernels: how many cases, and the largest
    part of its bound that an error took."""
    checks = {}
    for result in sorted(found):
        name = " ".join(result.case.split()[:2])
        entry = checks.setdefault(name, {"passed": 0, "failed": 0})
        if results.is_unserved(result):
            entry["not_served"] = entry.get("not_served", 0) + 1
            continue
        entry["failed" if result.detail else "passed"] += 1
        if result.bound > 0 and not result.detail:
            entry["worst"] = max(entry.get("worst", 0.0), float(
                f"{result.error / result.bound:.3g}"))
    return checks


def _write(path, arguments, info, found, left_out, started):
    failures = [result for result in found
                if result.detail and not results.is_unserved(result)]
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc)
                .isoformat(timespec="seconds"),
        "subset": arguments.subset,
        "device": arguments.device or "the daemon's choice",
        "daemon": json_format.MessageToDict(info),
        "seconds": round(time.monotonic() - started, 1),
        "passed": sum(not result.detail for result in found),
        "failed": len(failures),
        "left_out": left_out,
        "unsupported": [{"name": entry.name, "reason": entry.reason}
                        for entry in refusals.UNSUPPORTED],
        "not_served": _not_served(found),
        "failures": [{"case": result.case, "detail": result.detail}
                     for result in failures],
    }
    head = json.dumps(report, indent=1)
    # One check a line, so that reports can be compared.
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}"
                      for name, entry in _by_check(found).items())
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{head[:-2]},\n "checks": {{\n{rows}\n }}\n}}\n')


def _not_served(found):
    return sorted({result.case for result in found
                   if results.is_unserved(result)})


def _random(arguments, info):
    """Runs random products; the exit code."""
    started = time.monotonic()
    options = random_products.Options(
        arguments.target, arguments.device, arguments.reference,
        arguments.seed, arguments.random, arguments.families,
        arguments.only_index, arguments.jobs)
    outcomes = []
    for some in random_products.run(options):
        outcomes += some
    failures = [outcome for outcome in outcomes if outcome.result.detail]
    for outcome in failures[:_SHOWN_FAILURES]:
        index = outcome.result.case.split()[1].split(":")[1]
        print(f"FAILED {outcome.result.case}\n  {outcome.result.detail}\n  "
              f"repeat: python3 -m conformance --target {arguments.target} "
              f"--device '{arguments.device}' --reference "
              f"'{arguments.reference}' --random {arguments.random} --families "
              f"{arguments.families} --seed {arguments.seed} --jobs 1 "
              f"--only-index {index}")
    report = {
        "daemon": json_format.MessageToDict(info),
        "seed": arguments.seed, "families": arguments.families,
        "seconds": round(time.monotonic() - started, 1),
        **random_products.summary(outcomes),
        "failures": [outcome.result._asdict() for outcome in failures],
    }
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    for name in ("kernels", "split", "notes", "differing"):
        print(f"{name}: {json.dumps(report[name])}")
    print(f"{report['seconds']:.0f} s")
    print(f"{report['passed']} passed, {report['failed']} failed")
    return 1 if failures or not outcomes else 0


def main():
    arguments = _arguments()
    started = time.monotonic()
    try:
        with gemmd.Client(arguments.target, timeout=30) as client:
            info = client.info()
    except gemmd.Error as error:
        print(f"no daemon at {arguments.target}: {error}", file=sys.stderr)
        return 3
    if arguments.random:
        return _random(arguments, info)
    options = suite.Options(arguments.target, arguments.device,
                            arguments.subset, arguments.only, arguments.jobs,
                            arguments.hopper, arguments.seconds,
                            arguments.skip)
    found, failures, left_out = [], 0, 0
    for some in suite.run(options):
        if some is None:
            left_out += 1
            continue
        found += some
        for result in some:
            if not result.detail or results.is_unserved(result):
                continue
            failures += 1
            if failures <= _SHOWN_FAILURES:
                print(f"FAILED {result.case}\n  {result.detail}\n  repeat: "
                      f"python3 -m conformance --target {arguments.target} "
                      f"--device '{arguments.device}' --subset "
                      f"{arguments.subset} --jobs 1 --only '{result.case}'",
                      flush=True)
    if failures > _SHOWN_FAILURES:
        print(f"... and {failures - _SHOWN_FAILURES} more failures")
    print("Not served, and refused as it should be: "
          + ", ".join([entry.name for entry in refusals.UNSUPPORTED]
                      + _not_served(found)))
    if arguments.json:
        _write(arguments.json, arguments, info, found, left_out, started)
    if left_out:
        print(f"Left out for lack of time: {left_out} units of work")
    print(f"{time.monotonic() - started:.0f} s on "
          f"{', '.join(device.name for device in info.devices)}")
    passed = sum(not result.detail for result in found)
    print(f"{passed} passed, {failures} failed")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
