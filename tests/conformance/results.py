"""Outcome of a case, and how a wrong matrix is described."""

from typing import NamedTuple

import numpy as np


class Result(NamedTuple):
    """Passed when `detail` is empty."""
    case: str
    # At the element where error / bound is largest.
    error: float = 0.0
    bound: float = 0.0
    detail: str = ""


def failed(case, detail):
    return Result(case, float("inf"), 0.0, detail)


def unserved(case, detail):
    """Neither passed nor failed: the daemon refused it, as it should where
    it has no kernels."""
    return Result(case, detail="not served: " + detail)


def is_unserved(result):
    return result.detail.startswith("not served: ")


def describe(wrong, actual, expected, note):
    """Which elements, in words."""
    rows, columns = np.nonzero(wrong)
    i, j = rows[0], columns[0]
    return (f"{len(rows)} of {wrong.size} elements wrong, in rows "
            f"{rows.min()}..{rows.max()}, columns {columns.min()}.."
            f"{columns.max()}; first at [{i}, {j}]: {actual[i, j]!s}, "
            f"expected {expected[i, j]!s}{note}")


def equal(case, actual, expected) -> Result:
    """Every element equals; NaN equals NaN, the sign of zero is free."""
    if actual.tobytes() == expected.tobytes():
        return Result(case)
    actual64, expected64 = actual.astype(float), expected.astype(float)
    wrong = ~((actual64 == expected64)
              | (np.isnan(actual64) & np.isnan(expected64)))
    if not wrong.any():
        return Result(case)
    with np.errstate(invalid="ignore"):
        error = np.abs(actual64 - expected64)[wrong].max()
    return Result(case, float(error), 0.0,
                  describe(wrong, actual, expected, ""))


def same_bits(case, actual, expected) -> Result:
    """Byte for byte."""
    if actual.tobytes() == expected.tobytes():
        return Result(case)
    bits = f"u{actual.dtype.itemsize}"
    a, b = (np.ascontiguousarray(x).view(bits) for x in (actual, expected))
    return failed(case, "other bits: " + describe(a != b, actual, expected,
                                                   ""))


def within(case, actual, expected, bound) -> Result:
    """|actual - expected| <= bound for every element, all finite."""
    with np.errstate(invalid="ignore"):
        error = np.abs(actual.astype(float) - expected)
        wrong = ~(error <= bound)
    if not wrong.size:
        return Result(case)
    if wrong.any():
        worst = np.unravel_index(np.argmax(wrong), wrong.shape)
        return Result(case, float(error[worst]), float(bound[worst]),
                      describe(wrong, actual, expected,
                                f" within {bound[worst]:.3g}"))
    worst = np.unravel_index(np.argmax(error / bound), error.shape)
    return Result(case, float(error[worst]), float(bound[worst]))
