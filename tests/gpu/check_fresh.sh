#!/usr/bin/env bash
# Fails when the committed GPU evidence is not of this device code, or shows a
# failed case.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
summary=$here/evidence/summary.json
digest=$("$here/digest.sh")
python3 - "$summary" "$digest" << 'END'
import json
import sys

summary = json.load(open(sys.argv[1]))
if summary["digest"] != sys.argv[2]:
    sys.exit(f"GPU evidence is stale: it is of device code {summary['digest']}"
             f", this is {sys.argv[2]}. Run tests/gpu/run.sh on a GPU.")
if summary["conformance"]["failed"] or not summary["conformance"]["passed"]:
    sys.exit(f"GPU conformance: {summary['conformance']}")
if not summary["bench"]:
    sys.exit("GPU evidence has no benchmark")
print(f"GPU evidence of {summary['date']} on {summary['device']} is current")
END
