"""Runs the suite: units of work, in processes that each hold a client."""

import functools
import time
from typing import NamedTuple

import gemmd

from . import (bits, form_grid, form_probes, forms, grid, groups, probes,
               processes, quantized_probes, refusals, requests, residency,
               results, semantics, shapes, sparse_probes, tensor_core)

# Imported for the probes they register.
assert (semantics and residency and groups and sparse_probes
        and quantized_probes)


class Options(NamedTuple):
    target: str
    device: str = ""
    subset: str = "full"
    only: str = ""  # Runs only cases whose name contains it.
    jobs: int = 1
    # Sums must have Hopper's bits wherever its arithmetic is known.
    hopper: bool = False
    seconds: float = float("inf")  # After which no further unit begins.
    skip: int = 0  # The first units, which are left out.


def units(options):
    """(function, arguments) of each unit, the longest first."""
    work = []
    for index, shape in enumerate(shapes.load(options.subset)):
        size = shape.m * shape.n + shape.k * (shape.m + shape.n)
        work += [(size, run_grid, (index, shape, name))
                 for name in grid.INPUTS]
    # Probes hold tensors and use several kernels each: early.
    work += [(1 << 21, run_probe, (name, kind)) for name in probes.PROBES
             for kind in probes.kinds(options.subset)]
    work += [(1 << 20, run_form, (form, layout)) for form in _forms(options.subset)
             for layout in _grid_layouts(options.subset, form)]
    work += [(1 << 19, run_bits, (name, layout))
             for number, (name, form) in enumerate(forms.FORMS.items())
             if tensor_core.knows(form) and name in _forms(options.subset)
             for layout in _layouts(options.subset, form, number)]
    work += [(1 << 20, run_form_probe, (name, form))
             for name, (_, named) in form_probes.PROBES.items()
             for form in named if form in _probed(options.subset)]
    work.append((0, run_refusals, ()))
    work.sort(key=lambda unit: -unit[0])
    return [(function, arguments)
            for _, function, arguments in work[options.skip:]]


def _forms(subset):
    return forms.FORMS if subset == "full" else forms.CI


def _grid_layouts(subset, form):
    """All; of sparse forms and those with weights one in ci."""
    layouts = forms.FORMS[form].layouts
    return layouts if subset == "full" or form in forms.DENSE else layouts[:1]


def _probed(subset):
    if subset == "full":
        return forms.FORMS
    return {*forms.DENSE, *forms.FEW_SPARSE, *forms.FEW_MIXED}


def run_grid(client, options, index, shape, input_name):
    unit = grid.Unit(client, options.device)
    return [unit.run(case)
            for case in grid.cases(index, shape, input_name, options.subset)
            if options.only in str(case)]


def run_probe(client, options, name, kind):
    probe = probes.Probe(client, options.device, name, kind)
    if options.only and not (options.only in probe.name()
                             or probe.name() in options.only):
        return []
    found = []
    try:
        for result in probes.PROBES[name](probe):
            found.append(result)
    except gemmd.Error as error:
        found.append(results.failed(probe.name(), f"stopped by {error}"))
    return [result for result in found if options.only in result.case
            or result.detail]


def _collect(options, name, made):
    """Results of a generator, also of one that the daemon's answer ends."""
    found = []
    try:
        for result in made:
            found.append(result)
    except requests.Refused as refused:
        found.append(results.unserved(name, str(refused))
                     if refused.code == "UNIMPLEMENTED" else
                     results.failed(name, f"stopped by {refused}"))
    except ValueError as error:
        found.append(results.failed(name, f"stopped by {error}"))
    return [result for result in found
            if options.only in result.case or options.only in name]


def run_form(client, options, form, layout):
    unit = form_grid.Unit(options.target, options.device, form, layout,
                          options.subset)
    return _collect(options, f"form {form} {layout}", unit.run())


def _layouts(subset, form, number):
    """All, or in ci one a form, which form_grid uses too."""
    if subset == "full":
        return form.layouts
    if form.along_k:
        return form.layouts[:1]
    return form.layouts[number % 4:][:1]


def run_bits(client, options, form, layout):
    unit = bits.Unit(client, options.target, options.device, form, layout,
                     options.subset, options.hopper)
    return _collect(options, f"bits {form} {layout}", unit.run())


def run_form_probe(client, options, name, form):
    bench = form_probes.Bench(options.target, options.device, form, name,
                              options.subset)
    return _collect(options, bench.name(), form_probes.PROBES[name][0](bench))


def run_refusals(client, options):
    found = list(refusals.refusals(client, options.device))
    found += [result for result, _ in refusals.unsupported(client,
                                                           options.device)]
    return [result for result in found if options.only in result.case]


def _run(options, end, unit):
    """Results of a unit, or None past the end."""
    function, arguments = unit
    if time.time() > end:
        return None
    return function(processes.client(options.target), options, *arguments)


def run(options):
    """Yields lists of Results as units finish, None for one left out."""
    task = functools.partial(_run, options, time.time() + options.seconds)
    yield from processes.run(task, units(options), options.jobs)
