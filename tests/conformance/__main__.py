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

from . import refusals, suite

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
                        help="ci: under a minute on two cores; default: full")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="run the cases whose name contains TEXT")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="processes; default: one per core")
    parser.add_argument("--json", metavar="FILE",
                        help="write every case with its error and bound")
    return parser.parse_args()


def _write(path, arguments, info, results, started):
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc)
                .isoformat(timespec="seconds"),
        "subset": arguments.subset,
        "device": arguments.device or "the daemon's choice",
        "daemon": json_format.MessageToDict(info),
        "seconds": round(time.monotonic() - started, 1),
        "passed": sum(not result.detail for result in results),
        "failed": sum(bool(result.detail) for result in results),
        "unsupported": [{"name": entry.name, "reason": entry.reason}
                        for entry in refusals.UNSUPPORTED],
        "failures": [{"case": result.case, "detail": result.detail}
                     for result in results if result.detail],
        "columns": ["case", "error", "bound"],
    }
    head = json.dumps(report, indent=1)
    # One case a line, so that reports can be compared.
    rows = ",\n".join(
        json.dumps([result.case, float(f"{result.error:.4g}"),
                    float(f"{result.bound:.4g}")])
        for result in sorted(results))
    # JSON has no infinity: a case that gave no matrix has no error.
    rows = rows.replace("Infinity", "null").replace("NaN", "null")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{head[:-2]},\n "cases": [\n{rows}\n]}}\n')


def main():
    arguments = _arguments()
    started = time.monotonic()
    try:
        with gemmd.Client(arguments.target, timeout=30) as client:
            info = client.info()
    except gemmd.Error as error:
        print(f"no daemon at {arguments.target}: {error}", file=sys.stderr)
        return 3
    options = suite.Options(arguments.target, arguments.device,
                            arguments.subset, arguments.only, arguments.jobs)
    results, failures = [], 0
    for found in suite.run(options):
        results += found
        for result in found:
            if not result.detail:
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
          + ", ".join(entry.name for entry in refusals.UNSUPPORTED))
    if arguments.json:
        _write(arguments.json, arguments, info, results, started)
    print(f"{time.monotonic() - started:.0f} s on "
          f"{', '.join(device.name for device in info.devices)}")
    print(f"{len(results) - failures} passed, {failures} failed")
    return 1 if failures or not results else 0


if __name__ == "__main__":
    sys.exit(main())
