"""Products of tensors are checked once: one whose tensors are of the kinds of
an earlier one's, with equal options, is that one with other tensors."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .product import Call
from .tensor import Resident

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .product import Options

# Fields of the header that name tensors, by the arguments that are those.
_OPERANDS = {"a": "a", "b": "b", "c": "c", "bias": "bias",
             "a_scale": "a_scale", "b_scale": "b_scale",
             "out_scale": "d_scale"}
_RESULTS = {"out": "d", "pre_activation_out": "auxiliary"}
# Options of these are equal where they ask for the same.
_PLAIN = (type(None), str, int, bool, type)

_MOST_KNOWN = 256


class _Known:
    """A Call without its tensors."""

    def __init__(self, call: Call) -> None:
        self._call = call.of_others((), ())
        self._operands = [(field, name) for name, field in _OPERANDS.items()
                          if call.header.HasField(field)]
        self._results = [(field, name) for name, field in _RESULTS.items()
                         if getattr(call.header, field).tensor]

    def of(self, tensors: Mapping[str, Any]) -> Call:
        return self._call.of_others(
            [(field, tensors[name]) for field, name in self._operands],
            [(field, tensors[name]) for field, name in self._results])


_known: dict[Any, _Known] = {}


def _option(value: Any) -> Any:
    """What a product depends on of an option; TypeError of arrays."""
    if isinstance(value, Resident):
        return value.kind
    if isinstance(value, float):
        return float, repr(value)  # -0.0 is not 0.0, though it is equal.
    if type(value) in _PLAIN or isinstance(value, np.dtype):
        return value
    raise TypeError


def call(a: Any, b: Any, **options: "Unpack[Options]") -> Call:
    """Call(a, b, **options)."""
    if not (isinstance(a, Resident) and isinstance(b, Resident)):
        return Call(a, b, **options)
    try:
        key = (a.kind, b.kind, *[(name, _option(value))
                                 for name, value in options.items()])
    except TypeError:
        return Call(a, b, **options)
    known = _known.get(key)
    if known is not None:
        return known.of({"a": a, "b": b, **options})
    made = Call(a, b, **options)
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[key] = _Known(made)
    return made
