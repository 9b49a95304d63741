#!/usr/bin/env python3
"""The performance page: what was measured, and pictures of it.

    performance.py collect CORE.json SAMPLE.json > evidence/DEVICE/performance.json
    performance.py plot

CORE and SAMPLE are what gemm_bench wrote with --json: of the core set, and of a
sample of shapes that nobody chose; with --tuning of the latter, its kernels are
the planner's choice and the tuned one. `plot` draws what lies in evidence/ into
tests/gpu/performance/, and needs matplotlib: nothing else here does. A test
fails when a picture is of other evidence.
"""

import hashlib
import json
import math
import pathlib
import random
import sys

_HERE = pathlib.Path(__file__).resolve().parent
_PAGE = _HERE / "performance"
_DEVICES = {"h200": "#1f77b4", "h100": "#ff7f0e"}
# Bytes a second of device memory, of the vendor's data sheets.
_MEMORY = {"h200": 4.8e12, "h100": 3.35e12}
_STRATA = ("regular", "small", "skinny", "vector", "long k", "outer", "odd")


def collect(core, sample):
    """The part of two files of gemm_bench that pictures are made of."""
    def row(result):
        before, after = result["kernels"][0]["us"], result["kernels"][-1]["us"]
        return {"stratum": result["stratum"], "us": before,
                "tuned_us": after, "cublaslt_us": result["cublaslt_us"],
                "ceiling_fraction": result["ceiling_fraction"]}
    return {"device": sample["device"], "date": sample["date"],
            "template_digest": sample["template_digest"],
            "core": {p: row(r) for p, r in core["bench"].items()
                     if p.startswith("bf16 TN ") and p.count("x") == 2},
            "sample": {p: row(r) for p, r in sample["bench"].items()
                       if r["cublaslt_us"]}}


def evidence():
    """By device, what is there to draw."""
    return {name: json.loads(path.read_text())
            for name in _DEVICES
            if (path := _HERE / "evidence" / name / "performance.json").exists()}


def digest():
    """Of all that the pictures are made of."""
    text = json.dumps(evidence(), sort_keys=True) + pathlib.Path(
        __file__).read_text()
    return hashlib.sha256(text.encode()).hexdigest()


def _sides(problem):
    return map(int, problem.split()[2].split("x"))


def _geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def _draw_strata(axes, devices):
    """Ratio to the best of cuBLASLt's heuristics, a dot a shape."""
    series = [(name, "us", color, f"{name.upper()}, cost model alone")
              for name, color in _DEVICES.items()]
    series.insert(1, ("h200", "tuned_us", "#2ca02c", "H200, tuned"))
    dice = random.Random(0)
    for at, (name, field, color, label) in enumerate(series):
        shapes = list(devices[name]["sample"].values())
        for column, stratum in enumerate(_STRATA):
            ratios = [s["cublaslt_us"] / s[field] for s in shapes
                      if s["stratum"] == stratum]
            middle = column + (at - 1) * .27
            axes.scatter([middle + dice.uniform(-.08, .08) for _ in ratios],
                         ratios, s=6, color=color, alpha=.5,
                         label=label if column == 0 else None)
            mean = _geometric_mean(ratios)
            axes.plot([middle - .12, middle + .12], [mean, mean], color="black")
            axes.annotate(f"{mean:.2f}", (middle, mean), fontsize=8,
                          weight="bold", textcoords="offset points",
                          xytext=(0, 3), ha="center")
    axes.axhline(1, color="gray", linewidth=.8)
    axes.set_yscale("log")
    axes.set_yticks([.5, .7, 1, 1.5, 2, 3, 5], [.5, .7, 1, 1.5, 2, 3, 5])
    axes.set_yticks([], minor=True)
    axes.set_xticks(range(len(_STRATA)), _STRATA)
    axes.set_ylabel("times as fast as the best of eight heuristics")
    axes.set_title("Shapes that nobody chose, bf16, all layouts; "
                   "bars: geometric means")
    axes.legend(fontsize=8)


def _draw_ceiling(axes, devices):
    """Squares: the part of the tensor cores' own speed."""
    for name, each in devices.items():
        squares = []
        for problem, row in each["core"].items():
            m, n, k = _sides(problem)
            if m == n == k and row["ceiling_fraction"] and m % 8 == 0:
                squares.append((m, row))
        squares.sort(key=lambda pair: pair[0])
        sides = [m for m, _ in squares]
        color = _DEVICES[name]
        axes.plot(sides, [row["ceiling_fraction"] for _, row in squares],
                  marker="o", color=color, label=f"{name.upper()}, gemmd")
        axes.plot(sides, [row["ceiling_fraction"] * row["us"] /
                          row["cublaslt_us"] for _, row in squares],
                  marker="x", linestyle=":", color=color,
                  label=f"{name.upper()}, best of cuBLASLt's eight")
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1)
    axes.set_xlabel("m = n = k, bf16 TN")
    axes.set_ylabel("of the measured ceiling of wgmma")
    axes.set_title("Squares")
    axes.legend(fontsize=8)


def _draw_small_m(axes, devices):
    """Few rows: bytes that must be read and written, by time."""
    for name, each in devices.items():
        points = []
        for problem, row in each["core"].items():
            m, n, k = _sides(problem)
            if m <= 128 <= min(n, k) and m * 16 <= min(n, k):
                moved = 2 * (m * k + k * n + m * n)
                points.append((m, moved / row["us"] * 1e6 / _MEMORY[name]))
        points.sort()
        axes.plot([m for m, _ in points], [part for _, part in points],
                  marker="o", color=_DEVICES[name], label=name.upper())
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1)
    axes.set_xlabel("m; the weights are those of the core set")
    axes.set_ylabel("of the memory's bandwidth (data sheet)")
    axes.set_title("Few rows: operands and result by time")
    axes.legend(fontsize=8)


def plot():
    # Only those who draw have it.
    # pylint: disable-next=import-outside-toplevel
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gemmd"
    # pylint: disable-next=import-outside-toplevel
    from matplotlib import pyplot
    devices = evidence()
    _PAGE.mkdir(exist_ok=True)
    for name, draw, size in (("strata", _draw_strata, (10, 5)),
                             ("ceiling", _draw_ceiling, (6, 4)),
                             ("small_m", _draw_small_m, (6, 4))):
        figure, axes = pyplot.subplots(figsize=size)
        draw(axes, devices)
        figure.tight_layout()
        figure.savefig(_PAGE / f"{name}.svg", metadata={
            "Date": None, "Description": f"evidence {digest()}"})
        pyplot.close(figure)


def main():
    if sys.argv[1:2] == ["collect"] and len(sys.argv) == 4:
        core, sample = (json.loads(pathlib.Path(path).read_text())
                        for path in sys.argv[2:])
        print(json.dumps(collect(core, sample), indent=0))
    elif sys.argv[1:] == ["plot"]:
        plot()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
