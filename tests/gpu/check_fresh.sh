#!/usr/bin/env bash
# Fails when no committed GPU evidence is of this device code, or when evidence
# of it shows a failed case. One folder a device: evidence/h100, evidence/h200.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
digest=$("$here/digest.sh")
python3 - "$digest" "$here"/evidence/*/summary.json << 'END'
import json
import sys

digest, *paths = sys.argv[1:]
summaries = [json.load(open(path)) for path in paths]
current = [each for each in summaries if each["digest"] == digest]
if not current:
    found = ", ".join(f"{each['digest']} on {each['device']}"
                      for each in summaries)
    sys.exit(f"GPU evidence is stale: it is of device code {found}; this is "
             f"{digest}. Run tests/gpu/run.sh on a GPU.")
for summary in current:
    conformance = summary["conformance"]
    if conformance["failed"] or not conformance["passed"]:
        sys.exit(f"GPU conformance on {summary['device']}: {conformance}")
    random = summary.get("random")
    if random and random["failed"]:
        sys.exit(f"GPU random products on {summary['device']}: {random}")
    for name, counts in summary.get("delays", {}).items():
        if counts["failed"]:
            sys.exit(f"GPU {name} on {summary['device']}: {counts}")
    if not summary["bench"]:
        sys.exit(f"GPU evidence on {summary['device']} has no benchmark")
    print(f"GPU evidence of {summary['date']} on {summary['device']} is "
          "current")
END
