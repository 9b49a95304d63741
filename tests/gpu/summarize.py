#!/usr/bin/env python3
"""summary.json of an evidence folder, from the files of the steps just run.

  summarize.py FOLDER DIGEST STEP...

Steps: conformance, random, delays, bench, grouped, latency. What the other steps gave stays when the
earlier summary is of the same digest.
"""

import json
import pathlib
import sys

_KEPT = ("ours_tflops", "cublaslt_tflops", "ratio", "first_ratio",
         "ceiling_fraction", "us", "cublaslt_us", "sustained_ratio",
         "resident_ratio", "kernel")


def _load(path):
    return json.loads(path.read_text()) if path.exists() else {}


def main():
    folder, digest = pathlib.Path(sys.argv[1]), sys.argv[2]
    conformance, random, bench, grouped, latency = (
        _load(folder / f"{step}.json") if step in sys.argv[3:] else {}
        for step in ("conformance", "random", "bench", "grouped", "latency"))
    summary = _load(folder / "summary.json")
    if summary.get("digest") != digest:
        summary = {"device": "", "date": "", "digest": digest,
                   "conformance": {"passed": 0, "failed": 0}, "bench": {}}
    if conformance:
        devices = conformance["daemon"].get("devices", [])
        summary["device"] = "; ".join(d["description"] for d in devices)
        summary["driver"] = "; ".join(d.get("driver", "") for d in devices)
        summary["compiler"] = conformance["daemon"].get("compiler", "")
        summary["date"] = conformance["date"]
        summary["conformance"] = {key: conformance[key] for key in (
            "passed", "failed", "left_out")}
        summary["conformance"]["not_served"] = len(conformance["not_served"])
    if random:
        devices = random["daemon"].get("devices", [])
        summary["device"] = summary["device"] or "; ".join(
            d["description"] for d in devices)
        summary["random"] = {key: random[key] for key in (
            "seed", "products", "passed", "failed", "kernels", "split",
            "notes")}
    if "delays" in sys.argv[3:]:
        summary["delays"] = {
            path.stem: {key: _load(path)[key] for key in (
                "products", "passed", "failed", "kernels")}
            for path in sorted(folder.glob("delays-*.json"))}
    if grouped:
        rows = grouped["groups"].values()
        summary["grouped"] = {
            "groups": len(rows),
            "wrong_lines": sum(row["wrong_lines"] for row in rows)}
    if bench:
        summary["device"] = bench["device"]
        summary["driver"] = bench["driver"]
        summary["cublaslt"] = bench["cublaslt"]
        summary["date"] = bench["date"]
        summary["ceiling_tflops"] = bench["ceiling_tflops"]
        summary["bench"] = {
            shape: {key: row[key] for key in _KEPT if row.get(key) is not None}
            for shape, row in bench["bench"].items()}
    if latency:
        summary["latency"] = latency
    text = json.dumps(summary, indent=1)
    (folder / "summary.json").write_text(text + "\n")
    counts = summary.get("random", {})
    print(f"{summary['device']}: conformance {summary['conformance']}, "
          f"{counts.get('passed', 0)} random products passed, "
          f"{counts.get('failed', 0)} failed, "
          f"{len(summary['bench'])} shapes timed")


if __name__ == "__main__":
    main()
