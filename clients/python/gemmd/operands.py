"""What a product reads, as matrices or batches of them: vectors become rows and
columns, leading dimensions one."""

import math
from typing import Any, Union

import numpy as np

from . import arrays, support
from .bits import Bits
from .composite import Composite
from .device_arrays import DeviceArray, as_device_array, is_on_device
from .errors import InvalidArgument
from .tensor import Resident

Matrix = Union[arrays.Array, DeviceArray, Resident, Bits, Composite]


def array_of(value: Any, name: str) -> Union[arrays.Array, DeviceArray]:
    """Of the host's memory, or of a GPU's."""
    return (as_device_array(value, name) if is_on_device(value)
            else arrays.as_array(value, name))


def matrices_of(value: Any, name: str, vector_axis: int) -> tuple[Any, bool]:
    """A matrix or more, and whether it was a vector: a row (0) or a column
    (1)."""
    if isinstance(value, Resident):
        value.check_operand(name, value.shape[:-2])
        support.check_input(value.dtype, name)  # Others are results.
    if isinstance(value, (Resident, Bits, Composite)):
        return value, False
    array = array_of(value, name)
    is_vector = array.ndim == 1
    if is_vector:
        array = (array.expand(vector_axis) if isinstance(array, DeviceArray)
                 else np.expand_dims(array, vector_axis))
    elif array.ndim == 0:
        raise InvalidArgument(
            f"{name}: {type(value).__name__} has 0 dimensions; matrices have 2 "
            "and vectors 1")
    if isinstance(array, DeviceArray):
        support.check_input(array.dtype, name)
    else:
        support.check_input(array.dtype, name, value, array)
    return array, is_vector


def flat(array: Any, batch: tuple[int, ...]) -> Any:
    """An operand of a batch with one leading dimension, or with none where one
    matrix serves all."""
    if isinstance(array, (Resident, Bits)):
        return array
    if isinstance(array, Composite):
        return array.broadcast(batch)
    if isinstance(array, DeviceArray):
        return array.flat(batch)
    if all(side == 1 for side in array.shape[:-2]):
        return array.reshape(array.shape[-2:])
    shape = array.shape[-2:]
    return np.broadcast_to(array, (*batch, *shape)).reshape(
        math.prod(batch), *shape)


def batch_of(a: Any, b: Any) -> tuple[int, ...]:
    """The leading dimensions of the product."""
    leading: tuple[tuple[int, ...], ...] = (a.shape[:-2], b.shape[:-2])
    try:
        return (leading[0] if leading[0] == leading[1]
                else np.broadcast_shapes(*leading))
    except ValueError:
        raise InvalidArgument(
            f"b: its leading dimensions {leading[1]} do not go with those of "
            f"a, {leading[0]}") from None
