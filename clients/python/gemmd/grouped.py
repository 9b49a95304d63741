"""Arguments of Client.matmul_grouped -> the products of one request."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import alike, arrays, product, wire
from .errors import Error, InvalidArgument
from .shared import Regions, lent

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Options with one value a group; the others are those of all groups.
_OF_GROUPS = ("c", "out", "pre_activation_out", "bias", "a_scale", "b_scale",
              "out_scale")


def _sequence(values: Any, name: str,
              count: Optional[int] = None) -> Sequence[Any]:
    try:
        sequence = list(values)
    except TypeError:
        sequence = None
    if sequence is None or count not in (None, len(sequence)):
        has = "is no sequence" if sequence is None else (
            f"has {len(sequence)} values")
        groups = "group" if count is None else f"of the {count} groups"
        raise InvalidArgument(f"{name}: {has}; allowed: one for each {groups}")
    return sequence


def _bounds(array: arrays.Array) -> tuple[int, int]:
    """Addresses of its first byte and of the one behind its last."""
    reach = [(side - 1) * stride
             for side, stride in zip(array.shape, array.strides)]
    start = array.ctypes.data
    return (start + sum(each for each in reach if each < 0),
            start + sum(each for each in reach if each > 0) + array.itemsize)


def _clashing(calls: list[product.Call]) -> list[set[str]]:
    """Of each, the results for arrays that may overlap what another one reads
    or gives."""
    outs = [(i, name, out) for i, call in enumerate(calls)
            for name, out in call.outs()
            if isinstance(out, np.ndarray) and out.size]
    found: list[set[str]] = [set() for _ in calls]
    if not outs:
        return found
    used = [(i, out) for i, _, out in outs] + [
        (i, np.frombuffer(data, np.uint8)) for i, call in enumerate(calls)
        for data in call.buffers.values() if data]
    group = np.array([i for i, _ in used])
    start, end = np.array([_bounds(array) for _, array in used]).T
    # All at once: every one with every other one.
    out = np.s_[:len(outs), np.newaxis]
    overlap = (start[out] < end) & (start < end[out]) & (group[out] != group)
    for clashes, (i, name, _) in zip(overlap.any(axis=1), outs):
        if clashes:
            found[i].add(name)
    return found


class Groups:
    """Products, checked: `calls` are to be sent."""

    def __init__(self, a: Iterable[Any], b: Iterable[Any],
                 **options: "Unpack[product.Options]") -> None:
        lefts = _sequence(a, "a")
        given: dict[str, Any] = {"b": b}
        shared: dict[str, Any] = {}
        for name, value in options.items():
            if name not in _OF_GROUPS:
                shared[name] = value
            elif value is not None:
                given[name] = value
        given = {name: _sequence(values, name, len(lefts))
                 for name, values in given.items()}
        self.calls: list[product.Call] = []
        for i, left in enumerate(lefts):
            own = {name: values[i] for name, values in given.items()}
            try:
                self.calls.append(alike.call(left, own.pop("b"), **own,
                                             **shared))
            except Error as error:
                raise type(error)(f"groups[{i}]: {error.message}") from None

    @property
    def is_on_device(self) -> bool:
        """Whether anything of it is in device memory."""
        return any(call.is_on_device for call in self.calls)

    def share(self, regions: Regions) -> None:
        """As Call.share, of all."""
        # The daemon writes results while other groups read: those that clash
        # are filled when all are there.
        copied: list[set[str]] = (_clashing(self.calls) if regions
                                  else [set() for _ in self.calls])
        for call, of_call in zip(self.calls, copied):
            call.share(regions, of_call)

    def sharing(self) -> contextlib.AbstractContextManager[None]:
        """Around the call."""
        return lent([written for call in self.calls
                     for written in call.written])

    def values(self, responses: list[wire.Response]) -> list[Any]:
        """What matmul returns for each."""
        return [call.product(response).value()
                for call, response in zip(self.calls, responses)]
