"""Work in processes that each hold a client of every daemon."""

import functools
import multiprocessing
import os

import gemmd

_TIMEOUT_S = 300


@functools.cache
def client(target):
    """This process's."""
    return gemmd.Client(target, timeout=_TIMEOUT_S)


def run(task, units, jobs):
    """Yields task(unit) of every unit, as they finish."""
    if jobs <= 1:
        yield from map(task, units)
        return
    # One thread each: the processes are the parallelism. Read by the BLAS
    # that a child loads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A fork would copy gRPC's threads' locks in whatever state they are.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(task, units)
