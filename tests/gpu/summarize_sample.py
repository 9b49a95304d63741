#!/usr/bin/env python3
"""What of gemm_bench's files is kept as evidence of shapes that nobody chose, of
energy, of every arithmetic, and of tuning.

  summarize_sample.py sample FILE... > evidence/DEVICE/sample.json
  summarize_sample.py energy FILE    > evidence/DEVICE/energy.json
  summarize_sample.py forms FILE     > evidence/DEVICE/forms.json
  summarize_sample.py tuned FILE...  > evidence/DEVICE/tuned.json
  summarize_sample.py squares FILE   > evidence/DEVICE/squares.json

The files of `sample` are parts of one run of `gemm_bench --sample --json`, whose
first kernel is the planner's choice; microseconds of it and of the library's best
by stratum. `energy` is of --mode sustained: joules of a product, the library's,
and how many times longer the library took. Both only of what the library serves.
`forms` is of run.sh's step of that name: TFLOP/s with operands that are ready, and
as a part of the ceiling. `tuned` and `squares` are of tune.sh's: microseconds of the
planner's choice, of what a daemon found, and of the library's best; samples by
stratum.
"""

import json
import pathlib
import sys


def _compared(results):
    return {problem: row for problem, row in results.items()
            if row["cublaslt_us"]}


def sample(results):
    strata = {}
    for problem, row in _compared(results).items():
        strata.setdefault(row["stratum"], {})[problem] = [
            round(us, 3) for us in (row["kernels"][0]["us"],
                                    row["cublaslt_us"])]
    return strata


def squares(results):
    return {problem: [round(us, 3) for us in (
                row["kernels"][0]["us"], row["kernels"][-1]["us"],
                row["cublaslt_us"])]
            for problem, row in _compared(results).items()}


def tuned(results):
    strata = {}
    for problem, times in squares(results).items():
        strata.setdefault(results[problem]["stratum"], {})[problem] = times
    return strata


def energy(results):
    return {problem: [row[key] for key in ("joules", "cublaslt_joules",
                                           "sustained_ratio")]
            for problem, row in _compared(results).items()}


def forms(results):
    found = {}
    for problem, row in results.items():
        tflops = row.get("resident_tflops") or row["ours_tflops"]
        part = row["ceiling_fraction"] * tflops / row["ours_tflops"]
        found[problem] = [round(tflops, 1), round(part, 4)]
    return found


def main():
    kinds = {"sample": sample, "energy": energy, "forms": forms,
             "tuned": tuned, "squares": squares}
    if len(sys.argv) < 3 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    parts = [json.loads(pathlib.Path(path).read_text())
             for path in sys.argv[2:]]
    if len({(part["device"], part["template_digest"]) for part in parts}) > 1:
        sys.exit("the files are of several devices or templates")
    found = {key: parts[0][key] for key in ("device", "date", "clocks",
                                            "cublaslt", "template_digest")}
    found[sys.argv[1]] = kinds[sys.argv[1]](
        {problem: row for part in parts
         for problem, row in part["bench"].items()})
    # One problem on a line, as gemm_bench writes them.
    print(json.dumps(found).replace('], "', '],\n"'))


if __name__ == "__main__":
    main()
