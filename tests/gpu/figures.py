#!/usr/bin/env python3
"""The figures of a GPU that README.md has, from the evidence of one device, and
of a second one beside samples.

  figures.py [--write]

Prints the tables; --write puts them into README.md, each between the comments
that name this program and the table. A test fails when the two differ.
"""

import json
import math
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DEVICE = "h200"
_BESIDE = "h100"
_README = _ROOT / "README.md"
_MARKED = re.compile(
    r"(<!-- tests/gpu/figures\.py (\w+) -->\n).*?(<!-- end -->\n)", re.S)
# The types of the core set.
_CORE = ("bf16", "f16")
# As tests/bench/sample.h has them, and what README.md calls them.
_STRATA = {"regular": "regular", "small": "small (2^28 products and less)",
           "skinny": "m or n of 2 to 32", "vector": "m or n of 1",
           "long k": "m, n up to 512, k of 8192 and more",
           "outer": "k up to 16", "odd": "odd sides"}


def _number(value, form):
    return "-" if value is None else format(value, form)


def _digits(value):
    """Four of them, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _file(device, name):
    return json.loads((_ROOT / "tests/gpu/evidence" / device / name).read_text())


def _evidence():
    return {**_file(_DEVICE, "summary.json"),
            "sample": _file(_DEVICE, "sample.json")["sample"],
            "groups": _file(_DEVICE, "grouped.json")["groups"],
            "energy": _file(_DEVICE, "energy.json")["energy"],
            "forms": _file(_DEVICE, "forms.json")["forms"],
            "tuned": _file(_DEVICE, "tuned.json")["tuned"],
            "squares": _file(_DEVICE, "squares.json")["squares"],
            "beside": _file(_BESIDE, "performance.json")["sample"]}


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def _core(bench):
    """One matrix product each, of the types of the core set."""
    return {problem: row for problem, row in bench.items()
            if problem.split()[0] in _CORE
            and problem.split()[2].count("x") == 2}


def _mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def _spread(name, ratios, firsts):
    return [f"the core set, {len(ratios)} {name}", f"{_mean(ratios):.3f}",
            "-" if firsts is None else f"{_mean(firsts):.3f}",
            f"{min(ratios):.3f}"]


def _mean_tenth_worst(ratios):
    ratios = sorted(ratios)
    return [f"{value:.3f}" for value in (
        _mean(ratios), ratios[len(ratios) // 10], ratios[0])]


def _samples(evidence):
    rows = []
    for stratum, name in _STRATA.items():
        ratios = [theirs / ours
                  for ours, theirs in evidence["sample"][stratum].values()]
        beside = [row["cublaslt_us"] / row["us"]
                  for row in evidence["beside"].values()
                  if row["stratum"] == stratum]
        rows.append([name, str(len(ratios)), *_mean_tenth_worst(ratios),
                     ", ".join(_mean_tenth_worst(beside))])
    return _table(["", "shapes", "mean", "a tenth is below", "worst",
                   "on an H100"], rows)


def _tuned(evidence):
    """Strata of bf16, and the regular shapes of other types."""
    rows = []
    strata = [("bf16", stratum, name) for stratum, name in _STRATA.items()]
    others = sorted({problem.split()[0] for problem in
                     evidence["tuned"]["regular"]} - {"bf16"})
    for kind, stratum, name in strata + [
            (kind, "regular", f"regular, {kind}") for kind in others]:
        times = [row for problem, row in evidence["tuned"][stratum].items()
                 if problem.split()[0] == kind]
        rows.append([name, str(len(times)), *(
            ", ".join(_mean_tenth_worst([row[2] / row[which] for row in times]))
            for which in (0, 1))])
    return _table(["", "shapes", "mean, tenth, worst before", "tuned"], rows)


def _squares(evidence):
    return _table(
        ["", "us", "before", "tuned"],
        [[problem, _digits(tuned), f"{library / planned:.3f}",
          f"{library / tuned:.3f}"]
         for problem, (planned, tuned, library)
         in evidence["squares"].items()])


def _energy(evidence):
    return _table(
        ["", "joules", "the library's", "ratio", "ratio of times"],
        [[problem, f"{ours:.4f}", f"{theirs:.4f}", f"{theirs / ours:.3f}",
          f"{times:.3f}"]
         for problem, (ours, theirs, times) in evidence["energy"].items()])


def _sets(summary):
    core = _core(summary["bench"]).values()
    odd = [row for row in core if row.get("resident_ratio")]
    regular = [row for row in core if not row.get("resident_ratio")]
    return _table(
        ["shapes", "to the best of 8", "to the first", "worst"],
        [_spread("regular", [row["ratio"] for row in regular],
                 [row["first_ratio"] for row in regular]),
         _spread("odd, packing counted", [row["ratio"] for row in odd],
                 [row["first_ratio"] for row in odd]),
         _spread("odd, resident", [row["resident_ratio"] for row in odd],
                 None)])


def _shapes(summary):
    return _table(
        ["problem", "us", "TFLOP/s", "to the best of 8", "to the first",
         "of the ceiling"],
        [[problem, _digits(row["us"]), _digits(row["ours_tflops"]),
          f"{row['ratio']:.3f}", f"{row['first_ratio']:.3f}",
          _number(row.get("ceiling_fraction"), ".2f")]
         for problem, row in _core(summary["bench"]).items()])


def _types(summary):
    core = _core(summary["bench"])
    return _table(
        ["problem", "us", "TFLOP/s", "to the best of 8", "resident",
         "of the ceiling"],
        [[problem, _digits(row["us"]), _digits(row["ours_tflops"]),
          _number(row.get("ratio"), ".3f"),
          _number(row.get("resident_ratio"), ".3f"),
          _number(row.get("ceiling_fraction"), ".2f")]
         for problem, row in summary["bench"].items() if problem not in core])


def _forms(evidence):
    forms = {problem.split()[0]: row
             for problem, row in evidence["forms"].items()}
    rows = []
    for name in forms:
        if "sparse" in name.split("-"):
            continue
        first, *rest = name.split("-")
        cells = [name]
        for each in (name, f"sparse-{name}", "-".join([first, "sparse", *rest])):
            row = forms.get(each)
            cells += ["", ""] if row is None else [
                _digits(row[0]), f"{row[1]:.2f}"]
        rows.append(cells)
    return _table(["", "TFLOP/s", "of the ceiling", "sparse A",
                   "of the ceiling", "sparse B", "of the ceiling"], rows)


def _groups(evidence):
    ratios = [row["cublas_us"] / row["us"]
              for row in evidence["groups"].values() if row["cublas_us"]]
    return _table(
        ["groups", "geometric mean of ratios", "worst", "best"],
        [[str(len(ratios)), *(f"{value:.3f}" for value in (
            _mean(ratios), min(ratios), max(ratios)))]])


def _left_out(checks):
    units = checks["left_out"]
    return f"; {units} units of the suite left out" if units else ""


def _daemon(summary):
    checks = summary["conformance"]
    compiles = [each["compile_ms"]
                for each in summary["latency"]["cold_compiles"]]
    return _table(["through the daemon", ""], [
        ["cold compile of one kernel, NVRTC's cache off",
         f"{min(compiles)} to {max(compiles)} ms"],
        ["checks of the conformance suite",
         f"{checks['passed']} passed, {checks['failed']} failed"
         f"{_left_out(checks)}"],
        ["products at random, bit for bit",
         f"{summary['random']['passed']} the same, "
         f"{summary['random']['failed']} others"]])


_TABLES = {"sets": _sets, "samples": _samples, "tuned": _tuned,
           "squares": _squares, "energy": _energy,
           "shapes": _shapes, "types": _types, "forms": _forms,
           "groups": _groups, "daemon": _daemon}


def table(name):
    return _TABLES[name](_evidence())


def written(text):
    """`text` with the tables where they belong."""
    made, count = _MARKED.subn(lambda at: at[1] + table(at[2]) + at[3], text)
    if count != len(_TABLES):
        sys.exit(f"{_README} has {count} places for tables; "
                 f"{len(_TABLES)} are needed")
    return made


def main():
    if sys.argv[1:] == ["--write"]:
        _README.write_text(written(_README.read_text()))
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print("\n".join(map(table, _TABLES)), end="")


if __name__ == "__main__":
    main()
