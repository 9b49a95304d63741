#!/usr/bin/env python3
"""The figures of types that README.md has, from the evidence of one device.

  figures.py [--write]

Prints the table; --write puts it into README.md, between the comments that
name this program. A test fails when the two differ.
"""

import json
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DEVICE = "h200"
_README = _ROOT / "README.md"
_MARKED = re.compile(r"(<!-- tests/gpu/figures\.py -->\n).*?(<!-- end -->\n)",
                     re.S)
# These have a table of shapes of their own.
_ELSEWHERE = ("bf16", "f16")


def _number(value, form):
    return "-" if value is None else format(value, form)


def _digits(value):
    """Four of them, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def table():
    summary = json.loads((_ROOT / "tests/gpu/evidence" / _DEVICE /
                          "summary.json").read_text())
    lines = [
        "| problem | us | TFLOP/s | to the best of 8 | resident "
        "| of the ceiling |",
        "|---|---|---|---|---|---|"]
    for problem, row in summary["bench"].items():
        if problem.split()[0] in _ELSEWHERE:
            continue
        cells = (problem, _digits(row["us"]), _digits(row["ours_tflops"]),
                 _number(row.get("ratio"), ".3f"),
                 _number(row.get("resident_ratio"), ".3f"),
                 _number(row.get("ceiling_fraction"), ".2f"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(text):
    """`text` with the table where it belongs."""
    made, count = _MARKED.subn(rf"\1{table()}\2", text)
    if count != 1:
        sys.exit(f"{_README} has {count} places for the table; one is needed")
    return made


def main():
    if sys.argv[1:] == ["--write"]:
        _README.write_text(written(_README.read_text()))
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
