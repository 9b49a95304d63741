"""Plain arguments, before they go to a message: what protobuf says of wrong
ones does not name them, and differs between its versions."""

import operator
from typing import Any

import numpy as np

from .errors import InvalidArgument

_MOST_INT64 = (1 << 63) - 1


def check_text(value: Any, name: str) -> str:
    """`value`, which UTF-8 can hold, or an error. None is no text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}: {value!r} is of type "
                              f"{type(value).__name__}; allowed: str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{name}: {value!r} holds half of a surrogate pair at "
            f"{error.start}; allowed: characters of Unicode") from None
    return value


def check_flag(value: Any, name: str) -> bool:
    """`value` as a bool, or an error."""
    if isinstance(value, (bool, np.bool_, int)) and value in (0, 1):
        return bool(value)
    raise InvalidArgument(f"{name}: {value!r}; allowed: False, True")


def check_integer(value: Any, name: str) -> int:
    """`value` as an integer that a message can hold, or an error. Fractions
    are none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{name}: {value!r} is no integer") from None
    if not -_MOST_INT64 <= number <= _MOST_INT64:
        raise InvalidArgument(f"{name}: is beyond 64 bits")
    return number
