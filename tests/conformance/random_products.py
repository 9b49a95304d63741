"""Random products (draws.py) on the device under test, against a second daemon
and against the specification, bit for bit.

A unit is one family, so that its kernels are compiled once and before its
products, each by the plan that was chosen for it. What is compared of product i
of a seed does not depend on how many there are.
"""

import collections
import functools
from typing import NamedTuple

import gemmd
import numpy as np
from gemmd import api

from . import draws, processes, requests, results, specification

_HOPPER = api.enum("SumArithmetic")["SUM_ARITHMETIC_HOPPER"]
# Rows and columns that the specification is asked for.
_SAMPLE = 6
# Products that differ in what nobody promises, of each kind.
_SHOWN = 4
# Signs of zeros and bits of NaN are promised by no one; that they differ is
# counted.
_FREE = "other signs of zero or bits of NaN than "


class Options(NamedTuple):
    target: str
    device: str = ""
    reference: str = ""  # A daemon to compare with; empty: none.
    seed: int = 1
    count: int = 10_000
    families: int = 480
    only: int = -1  # The only product, if not negative.
    jobs: int = 1


class Outcome(NamedTuple):
    result: results.Result
    kernel: str = ""
    splits: int = 0
    # What D was compared with, and what was left out and why.
    notes: tuple = ()


def _canonical(values):
    """With one zero and one NaN."""
    values = values.copy()
    if values.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):
            values[values == 0] = 0
            values[np.isnan(values.astype(np.float32))] = np.nan
    return values


def _differences(product, what, mine, other, promised):
    """(what is wrong, in words or empty; whether what is free differs)."""
    if mine.tobytes() == other.tobytes():
        return "", False
    a, b = (_canonical(x).reshape(-1, x.shape[-1]) for x in (mine, other))
    if promised:
        wrong = results.same_bits("", a, b).detail
    else:
        apart = ~specification.close(product, a, b)
        wrong = results.describe(apart, a, b, " nearly") if apart.any() else ""
    return (f"{what}: {wrong}" if wrong else ""), promised and not wrong


def _compare(product, mine, d, auxiliary, amax=None):
    """(what is wrong, whether what is free differs) between an Answer's parts
    and others."""
    promised = specification.exact(product)
    found = [_differences(product, "D", mine.d, d, promised)]
    if auxiliary is not None:
        found.append(_differences(product, "auxiliary", mine.auxiliary,
                                  auxiliary, True))
    if amax is not None:
        found.append(_differences(
            product._replace(output="f32", epilogue=product.epilogue._replace(
                d_scale=None)), "amax",
            *(np.array([[x]], np.float32) for x in (mine.amax, amax)),
            promised))
    return ("; ".join(wrong for wrong, _ in found if wrong),
            any(free for _, free in found))


def _sample(generator, size):
    if size <= _SAMPLE:
        return np.arange(size)
    # The last ones, where tiles are cut, more often than others.
    some = generator.choice(size, _SAMPLE - 1, False)
    return np.unique(np.append(some, size - 1))


def _by_specification(draw, answer, seed):
    """As _compare, of a part of one matrix."""
    product = draw.product
    generator = np.random.default_rng(seed)
    rows = _sample(generator, product.a.shape[-2])
    columns = _sample(generator, product.b.shape[-1])
    number = 0
    if product.batch is not None:
        number = int(generator.integers(max(product.batch, 1)))
    if not answer.d.size:
        return "", False
    part = np.ix_(rows, columns)

    def cut(array):
        if array is None:
            return None
        return (array if array.ndim == 2 else array[number])[part]
    due = specification.elements(product, number, rows, columns,
                                 max(answer.splits, 1))
    return _compare(product, answer._replace(d=cut(answer.d), auxiliary=cut(
        answer.auxiliary)), due.d, due.auxiliary)


def _multiply(client, device, draw):
    if not draw.in_place:
        return requests.multiply(client.target, device, draw.product)
    order = "C" if draw.product.order == "r" else "F"
    with client.tensor(draw.product.c, order=order, device=device) as tensor:
        answer = requests.multiply(client.target, device, draw.product,
                                   tensor.handle)
        return answer._replace(d=tensor.numpy())


def _judge(draw, answer, other, seed):
    """An Outcome; `other` is the reference's Answer, or None."""
    product, notes, wrong = draw.product, [], []
    if not answer.d.size:
        notes.append("empty")
    elif answer.arithmetic == _HOPPER:
        notes.append("compared with the specification")
        wrong.append(("the specification",
                      *_by_specification(draw, answer, seed)))
    if other is not None:
        if other.arithmetic != answer.arithmetic:
            notes.append("reference of another arithmetic")
        elif other.splits != answer.splits:
            notes.append("reference with another split")
        else:
            notes.append("compared with the reference")
            wrong.append(("the reference", *_compare(
                product, answer, other.d, other.auxiliary, other.amax)))
    notes += [_FREE + what for what, _, free in wrong if free]
    detail = "; ".join(f"other than {what}: {text}"
                       for what, text, _ in wrong if text)
    if detail:
        detail += (f"; by {answer.kernel}, {answer.splits} parts of k, "
                   f"{draws.label(product)}")
    return Outcome(results.Result(draw.name, detail=detail), answer.kernel,
                   answer.splits, tuple(notes))


def indices(options, family):
    if options.only >= 0:
        return ([options.only] if options.only % options.families == family
                else [])
    return draws.of_family(options.families, family, options.count)


def run_family(clients, options, family):
    """Outcomes of the products of a family. `clients`: of the device under
    test and, if there is one, of the reference."""
    made = [(index, draws.draw(options.seed, options.families, index))
            for index in indices(options, family)]
    devices = (options.device, "")
    for client, device in zip(clients, devices):
        requests.prepare(client, device, *(draw.product for _, draw in made))
    outcomes = []
    for index, draw in made:
        try:
            answers = [_multiply(client, device, draw)
                       for client, device in zip(clients, devices)]
            outcomes.append(_judge(draw, answers[0], (*answers, None)[1],
                                   [options.seed, index, 2]))
        except (requests.Refused, gemmd.Error, ValueError) as error:
            outcomes.append(Outcome(results.failed(draw.name, f"{error}")))
    return outcomes


def _run(options, family):
    targets = [options.target] + [options.reference] * bool(options.reference)
    return run_family([processes.client(target) for target in targets],
                      options, family)


def run(options):
    """Yields lists of Outcomes as families finish."""
    families = [family for family in range(options.families)
                if indices(options, family)]
    yield from processes.run(functools.partial(_run, options), families,
                             options.jobs)


def summary(outcomes):
    """Counts for a report."""
    notes = collections.Counter(note for outcome in outcomes
                                for note in set(outcome.notes))
    differing = collections.defaultdict(list)
    for outcome in outcomes:
        for note in outcome.notes:
            if "other" in note and len(differing[note]) < _SHOWN:
                differing[note].append(outcome.result.case)
    return {
        "products": len(outcomes),
        "passed": sum(not outcome.result.detail for outcome in outcomes),
        "failed": sum(bool(outcome.result.detail) for outcome in outcomes),
        "kernels": len({outcome.kernel for outcome in outcomes}),
        "split": sum(outcome.splits > 1 for outcome in outcomes),
        "notes": dict(sorted(notes.items())),
        # Of what is promised by no one: where, and what was there.
        "differing": differing,
    }
