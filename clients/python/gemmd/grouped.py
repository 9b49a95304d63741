"""Arguments of Client.matmul_grouped -> the products of one request."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import alike, product, wire
from .errors import Error, InvalidArgument
from .overlaps import overlapping
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
        # The daemon writes results while other groups read: those that overlap
        # are filled when all are there.
        copied: list[set[str]] = (overlapping(self.calls, reads=True)
                                  if regions else [set() for _ in self.calls])
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
