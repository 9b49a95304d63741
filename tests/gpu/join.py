#!/usr/bin/env python3
"""One conformance.json of several, each of other units of one suite.

  join.py FIRST.json NEXT.json... > conformance.json

For runs by GEMMD_SECONDS and GEMMD_SKIP (run.sh). What the last one left out is
left out; counts are added, and of errors the largest is kept.
"""

import json
import pathlib
import sys


def _join(first, other):
    for key, value in other.items():
        if key in ("passed", "failed"):
            first[key] += value
        else:
            first[key] = max(first.get(key, value), value)


def _tested(run):
    """What must be the same: another GPU of the same kind, on another day, is."""
    daemon = run["daemon"]
    return (daemon["templateDigest"], daemon["compiler"], run["unsupported"],
            [device["description"] for device in daemon["devices"]])


def main():
    joined, *others = (json.loads(pathlib.Path(path).read_text())
                       for path in sys.argv[1:])
    checks = joined.pop("checks")
    for other in others:
        if _tested(other) != _tested(joined):
            sys.exit("these are runs of different code or devices")
        for name, entry in other["checks"].items():
            _join(checks.setdefault(name, {"passed": 0, "failed": 0}), entry)
        for key in ("seconds", "passed", "failed", "not_served", "failures"):
            joined[key] += other[key]
        joined["left_out"], joined["date"] = other["left_out"], other["date"]
    head = json.dumps(joined, indent=1).removesuffix("\n}")
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}"
                      for name, entry in sorted(checks.items()))
    print(f'{head},\n "checks": {{\n{rows}\n }}\n}}')


if __name__ == "__main__":
    main()
