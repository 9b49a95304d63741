#!/usr/bin/env python3
"""Fits the correction of the cost model to measurements.

  fit.py MEASUREMENTS.csv.xz... > jit/plan/cost_weights.h
  fit.py --check MEASUREMENTS.csv.xz...                  of cost_weights.h
  fit.py --import BENCH.json[.gz] > MEASUREMENTS.csv     what gemm_bench wrote

A line of measurements: problem, microseconds, predicted cycles, and the terms
of the plan (jit/plan/cost_correction.h). A committee of small networks predicts
the logarithm of measured over predicted time from the terms, each member
begun elsewhere. Plans near a problem's best weigh most, and what counts besides
is how much is lost by who chooses the plan of the least prediction, softly: a
plan with odds of exp(-logarithm / SOFTNESS). On standard error: how much slower
than the fastest plan timed the chosen one is, by the model alone and corrected,
on problems that were left out of the fit (five folds by problem); of --check, what
the committed weights choose. They were fitted to h200.csv.xz and
h200_variants.csv.xz (batches, C, f32 and D of f32); problems of
h200_unseen.csv.xz, h200_short.csv.xz (short k, many in batches),
h200_layouts.csv.xz (110 random batches, and 90 random products of layouts other than
TN) and h200_waves.csv.xz (few rounds of tiles, long k, mostly mn-major; vectors), and
the device of h100.csv.xz, they have not seen. Of D whose lines end within a sector of
32 bytes, of 1 MB and more with k of 256 and less, only h200_short.csv.xz has times
since their ends are written whole: a fit with those, and without the 224 such
problems of the others, chose no better on problems that it had not seen. Needs numpy.
"""

import csv
import gzip
import json
import lzma
import multiprocessing
import os
import pathlib
import re
import sys

# Networks are fitted side by side, each by one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402 pylint: disable=wrong-import-position

# As in jit/plan/cost_correction.cc.
START_US, CYCLES_PER_US = 2, 1750
MEMBERS, UNITS, EPOCHS, DECAY, RATE = 4, 64, 320, 1e-4, 4e-3
BATCH = 8  # Problems.
FOLDS = 5
CHOICE, SOFTNESS = .1, .02

WEIGHTS = pathlib.Path(__file__).parents[3] / "jit/plan/cost_weights.h"
HEADER = """\
// Written by tests/bench/fit/fit.py; do not edit.
#ifndef GEMMD_JIT_PLAN_COST_WEIGHTS_H_
#define GEMMD_JIT_PLAN_COST_WEIGHTS_H_

namespace gemmd::jit {{

// clang-format off
inline constexpr int kCostUnits = {units};
inline constexpr float kCostOutputBias = {output_bias};
inline constexpr float kCostOutput[kCostUnits] = {{{output}}};
inline constexpr float kCostBias[kCostUnits] = {{{bias}}};
inline constexpr float kCostWeights[{terms}][kCostUnits] = {{
{weights}}};
// clang-format on

}}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_COST_WEIGHTS_H_"""


def opened(path):
    compressed = {".gz": gzip, ".xz": lzma}.get(pathlib.Path(path).suffix)
    return compressed.open(path, "rt") if compressed else open(path)


def write_measurements(paths):
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for path in paths:
        with opened(path) as file:
            bench = json.load(file)["bench"]
        for problem, row in bench.items():
            for kernel in row["kernels"]:
                writer.writerow([problem, f"{kernel['us']:.5g}",
                                 f"{kernel['predicted_cycles']:.6g}",
                                 *(f"{term:.4g}" for term in kernel["terms"])])


class Measurements:
    def __init__(self, paths):
        problems, numbers = [], []
        for path in paths:
            with opened(path) as file:
                for line in csv.reader(file):
                    problems.append(line[0])
                    numbers.append([float(text) for text in line[1:]])
        numbers = np.array(numbers)
        _, self.problem = np.unique(problems, return_inverse=True)
        self.us, self.cycles, self.terms = (numbers[:, 0], numbers[:, 1],
                                            numbers[:, 2:])
        self.count = self.problem.max() + 1
        self.base = np.log(START_US + self.cycles / CYCLES_PER_US)
        self.target = np.log(self.us) - self.base
        best = np.full(self.count, np.inf)
        np.minimum.at(best, self.problem, self.us)
        self.excess = self.us / best[self.problem]
        self.weight = 1 / (1 + 3 * (self.excess - 1))

    def regret(self, predicted, problems):
        """Excess over the fastest of the plan with the least prediction."""
        return np.array([
            self.excess[rows[np.argmin(predicted[rows])]]
            for rows in (np.flatnonzero(self.problem == p) for p in problems)])


def slope_of_choice(predicted, loss, counts):
    """Of what is lost by a soft choice among so many plans of each problem."""
    problem = np.repeat(np.arange(len(counts)), counts)
    least = np.minimum.reduceat(predicted, np.cumsum([0, *counts[:-1]]))
    odds = np.exp((least[problem] - predicted) / SOFTNESS)
    odds /= np.bincount(problem, odds)[problem]
    expected = np.bincount(problem, odds * loss)
    return odds * (expected[problem] - loss) / SOFTNESS


class Network:
    """One hidden layer of rectified units; Adam with decoupled decay."""

    def __init__(self, data, rows, seed):
        random = np.random.default_rng(seed)
        rows = np.flatnonzero(rows)
        rows = rows[np.argsort(data.problem[rows], kind="stable")]
        x = data.terms[rows]
        self.mean, self.scale = x.mean(axis=0), x.std(axis=0)
        # Of a term that is always the same nothing is learnt.
        self.scale[self.scale < 1e-6] = np.inf
        x = (x - self.mean) / self.scale
        y, weight = data.target[rows], data.weight[rows]
        base, loss = data.base[rows], np.log(data.excess[rows])
        plans = np.split(np.arange(len(rows)), np.flatnonzero(
            np.diff(data.problem[rows])) + 1)  # Of each problem.
        terms = x.shape[1]
        p = [random.normal(0, (2 / terms) ** .5, (terms, UNITS)),
             np.zeros(UNITS), random.normal(0, .3 / UNITS ** .5, UNITS),
             np.array(np.average(y, weights=weight))]
        first = [np.zeros_like(v) for v in p]
        second = [np.zeros_like(v) for v in p]
        steps, step = EPOCHS * -(-len(plans) // BATCH), 0
        for _ in range(EPOCHS):
            order = random.permutation(len(plans))
            for at in range(0, len(plans), BATCH):
                parts = [plans[i] for i in order[at:at + BATCH]]
                part = np.concatenate(parts)
                h = np.maximum(x[part] @ p[0] + p[1], 0)
                out = h @ p[2] + p[3]
                error = out - y[part]
                # Large errors count by size, not by square.
                slope = weight[part] * error / np.sqrt(1 + (error / .1) ** 2)
                slope /= len(part)
                slope += CHOICE / len(parts) * slope_of_choice(
                    out + base[part], loss[part], [len(each) for each in parts])
                back = slope[:, None] * p[2] * (h > 0)
                gradients = [x[part].T @ back, back.sum(axis=0),
                             h.T @ slope, slope.sum()]
                step += 1
                rate = RATE * .5 * (1 + np.cos(np.pi * step / steps))
                for i, g in enumerate(gradients):
                    first[i] = .9 * first[i] + .1 * g
                    second[i] = .999 * second[i] + .001 * g * g
                    p[i] = p[i] - rate * (
                        first[i] / (1 - .9 ** step)
                        / (np.sqrt(second[i] / (1 - .999 ** step)) + 1e-8)
                        + (DECAY / RATE * p[i] if i in (0, 2) else 0))
        self.p = p

    def predict(self, terms):
        x = (terms - self.mean) / self.scale
        return np.maximum(x @ self.p[0] + self.p[1], 0) @ self.p[2] + self.p[3]

    def raw(self):
        """Weights for terms as they are: of terms, of units, two biases."""
        return (self.p[0] / self.scale[:, None],
                self.p[1] - (self.mean / self.scale) @ self.p[0],
                self.p[2], float(self.p[3]))


class Committee:
    """The mean of its members, which is one wider network."""

    def __init__(self, members):
        self.members = members

    def predict(self, terms):
        return np.mean([m.predict(terms) for m in self.members], axis=0)

    def source(self):
        weights, bias, output, output_bias = zip(*(m.raw()
                                                   for m in self.members))
        weights = np.concatenate(weights, axis=1)

        def text(values):
            return ", ".join(f"{v:.6g}f" if "." in f"{v:.6g}" or
                             "e" in f"{v:.6g}" else f"{v:.6g}.0f"
                             for v in values)
        return HEADER.format(
            units=weights.shape[1], terms=len(weights),
            output=text(np.concatenate(output) / MEMBERS),
            output_bias=text([np.mean(output_bias)]),
            bias=text(np.concatenate(bias)),
            weights="".join(f"    {{{text(row)}}},\n" for row in weights))


def committees(data, subsets):
    """One fitted to each subset of the measurements."""
    with multiprocessing.Pool() as pool:
        networks = pool.starmap(Network, [
            (data, rows, MEMBERS * i + member)
            for i, rows in enumerate(subsets) for member in range(MEMBERS)],
            chunksize=1)
    return [Committee(networks[i * MEMBERS:(i + 1) * MEMBERS])
            for i in range(len(subsets))]


class Committed:
    """What cost_weights.h has."""

    def __init__(self):
        text = WEIGHTS.read_text()

        def numbers(name):
            value = re.search(rf"{name}(?:\[\w*\])* = (.*?);", text, re.S)[1]
            return np.array([float(each) for each in
                             re.findall(r"(-?[\d.]+(?:e[+-]?\d+)?)f", value)])
        self.output_bias, self.output, self.bias = map(numbers, (
            "kCostOutputBias", "kCostOutput", "kCostBias"))
        self.weights = numbers("kCostWeights").reshape(-1, len(self.bias))

    def predict(self, terms):
        units = np.maximum(terms @ self.weights + self.bias, 0)
        return units @ self.output + self.output_bias


def check(path):
    """How much slower than the fastest the committed weights choose, by problem."""
    data = Measurements([path])
    return data.regret(data.base + Committed().predict(data.terms),
                       np.arange(data.count))


def report(name, regret):
    print(f"{name}: chosen over fastest, mean {np.exp(np.log(regret).mean()):.4f}"
          f", p90 {np.quantile(regret, .9):.3f}, worst {regret.max():.2f}",
          file=sys.stderr)


def main():
    if sys.argv[1] == "--import":
        return write_measurements(sys.argv[2:])
    if sys.argv[1] == "--check":
        for path in sys.argv[2:]:
            report(pathlib.Path(path).name, check(path))
        return None
    data = Measurements(sys.argv[1:])
    everything = np.arange(data.count)
    print(f"{len(data.us)} measurements of {data.count} problems",
          file=sys.stderr)
    report("the model alone", data.regret(data.base, everything))
    folds = np.random.default_rng(0).integers(0, FOLDS, data.count)
    left_out = [folds[data.problem] == fold for fold in range(FOLDS)]
    whole, *of_folds = committees(
        data, [np.full(len(data.us), True), *(~rows for rows in left_out)])
    predicted = np.zeros(len(data.us))
    for rows, committee in zip(left_out, of_folds):
        predicted[rows] = data.base[rows] + committee.predict(data.terms[rows])
    report("corrected, left out", data.regret(predicted, everything))
    error = predicted - np.log(data.us)
    print(f"error of left-out times: {np.sqrt(np.mean(error ** 2)):.3f}",
          file=sys.stderr)
    fitted = data.base + whole.predict(data.terms)
    report("corrected, fitted", data.regret(fitted, everything))
    print(whole.source())


if __name__ == "__main__":
    main()
