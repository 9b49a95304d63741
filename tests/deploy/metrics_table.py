#!/usr/bin/env python3
"""The table of metrics in deploy/README.md, which is that of the code.

  metrics_table.py --write    puts service/metrics/table.inc into the manual
"""

import dataclasses
import json
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
MANUAL = _ROOT / "deploy/README.md"
_START = "<!-- tests/deploy/metrics_table.py -->\n"
_END = "<!-- end -->\n"


@dataclasses.dataclass(frozen=True)
class Metric:
    kind: str
    name: str
    labels: tuple
    help: str

    def series(self):
        """Names under which its values are read."""
        if self.kind != "histogram":
            return [self.name]
        return [f"{self.name}_{part}" for part in ("bucket", "sum", "count")]


def metrics():
    """Every metric, by name."""
    text = (_ROOT / "service/metrics/table.inc").read_text(encoding="utf-8")
    string = r'("(?:[^"\\]|\\.)*")'
    lines = re.findall(rf"^M\(\w+, (\w+), {string}, {string}, {string}\)$",
                       text, re.M)
    assert len(lines) == text.count("\nM("), "a line that is not understood"
    table = {}
    for kind, *strings in lines:
        name, labels, about = map(json.loads, strings)
        table[name] = Metric(kind.lower(), name, tuple(labels.split()), about)
    return table


def table():
    rows = ["| metric | | labels | |", "|---|---|---|---|"]
    for metric in metrics().values():
        labels = ", ".join(metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} "
                    f"| {metric.help} |")
    return "\n".join(rows) + "\n"


def written(text):
    """`text` with the table of today between its marks."""
    before, rest = text.split(_START)
    _, after = rest.split(_END, 1)
    return f"{before}{_START}{table()}{_END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    MANUAL.write_text(written(MANUAL.read_text(encoding="utf-8")),
                      encoding="utf-8")
