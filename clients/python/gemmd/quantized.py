"""Weights of few bits, of which groups along k share a scale."""

from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np
import numpy.typing as npt

from . import nibbles, support
from .arguments import check_flag, check_integer
from .composite import Composite, check_axis
from .errors import InvalidArgument

Array = npt.NDArray[Any]

_INT8 = np.dtype(np.int8)
_E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
# Names of the daemon's; numpy's own "u4" has four bytes.
_NAMES = {"s4": nibbles.S4, "u4": nibbles.U4, "s8": _INT8, "e4m3": _E4M3}
# Least and greatest elements.
_ENDS = {nibbles.S4: (-8, 7), nibbles.U4: (0, 15), _INT8: (-128, 127),
         _E4M3: (-448, 448)}
_GROUPS = (32, 64, 128)


class Quantization(NamedTuple):
    """How weights are quantized along k."""
    group: Optional[int]  # Elements that share a scale; None: all of k.
    zero_points: bool = False

    @staticmethod
    def of(message: Any) -> "Optional[Quantization]":
        """Of a gemmd.v1 message that may have one."""
        if not message.HasField("quantization"):
            return None
        wire = message.quantization
        return Quantization(wire.group or None, wire.zero_points)

    def fill(self, message: Any) -> None:
        """The field of such a message."""
        message.quantization.SetInParent()
        message.quantization.group = self.group or 0
        message.quantization.zero_points = self.zero_points

    def groups(self, length: int) -> int:
        """Of a line of so many elements."""
        return -(-length // (self.group or max(length, 1)))

    def line_bytes(self, length: int, dtype: Any) -> int:
        """Of a line of so many elements."""
        return (_elements_bytes(length, dtype)
                + (4 + self.zero_points) * self.groups(length))

    def __str__(self) -> str:
        return f"groups of {self.group or 'all'}" + (
            " with zero points" if self.zero_points else "")


def _elements_bytes(length: int, dtype: Any) -> int:
    return nibbles.width(length) if nibbles.are(dtype) else length


def _check_type(dtype: Any) -> "np.dtype[Any]":
    try:
        known: "np.dtype[Any]" = np.dtype(_NAMES.get(dtype, dtype))
        if known in _ENDS:
            return known
    except support.NO_TYPE:
        pass
    raise InvalidArgument(f"dtype: {dtype!r} is no type of quantized weights; "
                          f"allowed: {', '.join(_NAMES)}")


def _check_group(group: Any) -> Optional[int]:
    if group is None:
        return None
    size = check_integer(group, "group")
    if size not in _GROUPS:
        raise InvalidArgument(f"group: {group!r}; allowed: "
                              f"{', '.join(map(str, _GROUPS))}, None (all of "
                              "k)")
    return size


class QuantizedMatrix(Composite):
    """Weights of a product, or a batch of them, that are elements of four or
    eight bits with a scale for each group along k: what quantize, quantized,
    from_gptq and from_awq make. An element q stands for scale * (q - zero
    point).

    It may be a or b of matmul, where the other operand is bfloat16 or float16,
    and what Client.tensor brings to the device. As a, k is its axis -1; as b,
    its axis -2; `.T` changes between them. Immutable.
    """

    def __init__(self, lines: Any, dtype: Any, length: int,
                 quantization: Quantization, axis: int = -1) -> None:
        """`lines` are bytes as they go on the wire, (..., lines, bytes), as
        Quantization in gemmd/v1/types.proto describes them."""
        super().__init__(lines, dtype, length, axis)
        self.quantization = quantization

    @property
    def group(self) -> Optional[int]:
        """Elements of k that share a scale; None: all."""
        return self.quantization.group

    def _bytes(self, first: int, count: int, dtype: Any) -> Array:
        """A copy of so many bytes of each line, as elements of a type."""
        part = self._lines[..., first:first + count]
        return np.ascontiguousarray(part).view(dtype)

    def _scales_at(self) -> int:
        return _elements_bytes(self._length, self.dtype)

    def _of_lines(self) -> tuple[Array, Array, Optional[Array]]:
        """Elements, scales and zero points, line by line."""
        at, groups = self._scales_at(), self.quantization.groups(self._length)
        if nibbles.are(self.dtype):
            elements = nibbles.unpack(self._lines[..., :at], self._length,
                                      self.dtype)
        else:
            elements = self._bytes(0, at, self.dtype)
        zeros = self._bytes(at + 4 * groups, groups, np.int8)
        return (elements, self._bytes(at, 4 * groups, np.float32),
                zeros if self.quantization.zero_points else None)

    @property
    def elements(self) -> Array:
        """A copy of what is multiplied, of type `dtype`, (..., rows,
        columns)."""
        return self._oriented(self._of_lines()[0])

    @property
    def scales(self) -> Array:
        """A copy; as elements, but with groups where those have k."""
        return self._oriented(self._of_lines()[1])

    @property
    def zero_points(self) -> Optional[Array]:
        """A copy, as scales; None where there are none."""
        zeros = self._of_lines()[2]
        return None if zeros is None else self._oriented(zeros)

    def dequantize(self, dtype: Any = np.float32) -> Array:
        """What it stands for, rounded once to `dtype`."""
        from . import arrays

        dtype = arrays.check_dtype(dtype)
        elements, scales, zeros = self._of_lines()
        group = self.group or max(self._length, 1)
        result = elements.astype(np.float64)
        if zeros is not None:
            result -= np.repeat(zeros, group, -1)[..., :self._length]
        result *= np.repeat(scales, group, -1)[..., :self._length]
        if dtype.isbuiltin == 2:  # ml_dtypes rounds float32 alone.
            result = _to_odd(result)
        return self._oriented(result.astype(dtype))

    def toarray(self) -> Array:
        return self.dequantize()

    def __repr__(self) -> str:
        return self._text(str(self.quantization))


def _to_odd(wide: Array) -> Array:
    """float64 as float32 whose last bit is 1 where bits were lost: rounded
    again, to fewer, it becomes what one rounding makes of float64."""
    with np.errstate(over="ignore", under="ignore"):
        single: Array = wide.astype(np.float32)
    bits = single.view(np.uint32)
    bits -= np.abs(single) > np.abs(wide)  # Towards zero, also of infinity.
    bits |= single != wide
    return single


def _parts(elements: Array, scales: Array, zeros: Optional[Array],
           dtype: "np.dtype[Any]", group: Optional[int],
           axis: int) -> QuantizedMatrix:
    """Of lines."""
    plain = (nibbles.pack(elements) if nibbles.are(dtype) else
             np.ascontiguousarray(elements.astype(dtype)).view(np.uint8))
    parts = [plain, np.ascontiguousarray(scales, "<f4").view(np.uint8)]
    if zeros is not None:
        parts.append(np.ascontiguousarray(zeros, np.int8).view(np.uint8))
    return QuantizedMatrix(np.concatenate(parts, axis=-1), dtype,
                           elements.shape[-1],
                           Quantization(group, zeros is not None), axis)


def _matrix(value: Any, name: str) -> Array:
    from . import arrays

    array = arrays.as_array(value, name)
    if array.ndim < 2:
        raise InvalidArgument(f"{name}: has {array.ndim} dimension(s), shape "
                              f"{array.shape}; a matrix has 2")
    if not support.are_real(array.dtype):
        raise InvalidArgument(f"{name}: {array.dtype} has no real numbers")
    return array


def _check_integers(array: Array, least: int, most: int, name: str) -> None:
    wide = array.astype(np.float64)
    wrong = ~((wide >= least) & (wide <= most) & (wide == np.rint(wide)))
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise InvalidArgument(f"{name}: {wide[at]:g} at {at}; allowed: integers"
                              f" from {least} to {most}")


def group_of(length: int, groups: int) -> Optional[int]:
    """Of what size so many groups are."""
    for group in (None, *_GROUPS):
        if Quantization(group).groups(length) == groups:
            return group
    counts = {str(group or "k"): Quantization(group).groups(length)
              for group in (*_GROUPS, None)}
    raise InvalidArgument(
        f"scales: {groups} groups along {length} k; allowed: " + ", ".join(
            f"{count} of {group}" for group, count in counts.items()))


def quantized(elements: Any, scales: Any, zero_points: Any = None, *,
              dtype: Any = None, axis: int = -1) -> QuantizedMatrix:
    """A QuantizedMatrix of its parts.

    elements     (..., rows, columns): integers, or float8_e4m3fn.
    scales       Likewise, but with as many as there are groups where elements
                 have k; how many says whether groups are of 32, 64, 128 or all
                 of k. They become float32.
    zero_points  Like scales, integers from -128 to 127; of s4 and u4 only.
    dtype        "s4" (ml_dtypes.int4), "u4", int8 or float8_e4m3fn; default:
                 that of elements.
    axis         That which k is: -1, the default, for a; -2 for b.
    """
    from . import arrays

    array = _matrix(elements, "elements")
    kind = _check_type(array.dtype if dtype is None else dtype)
    axis = check_axis(axis, array.ndim)
    if kind == _E4M3 and array.dtype != kind:
        raise InvalidArgument(f"elements: {array.dtype}; allowed: {kind}, as "
                              "elements.astype(ml_dtypes.float8_e4m3fn) makes")
    if kind != _E4M3 and array.dtype != kind:
        _check_integers(array, *_ENDS[kind], "elements")
    lines = array if axis == -1 else array.swapaxes(-1, -2)
    given = {"scales": arrays.singles(_matrix(scales, "scales"), "scales")}
    if zero_points is not None:
        if not nibbles.are(kind):
            raise InvalidArgument(f"zero_points: do not go with {kind}; "
                                  "allowed: with s4 and u4")
        given["zero_points"] = _matrix(zero_points, "zero_points")
        _check_integers(given["zero_points"], -128, 127, "zero_points")
    group = group_of(lines.shape[-1], given["scales"].shape[axis])
    shape = (*lines.shape[:-1], Quantization(group).groups(lines.shape[-1]))
    for name, values in given.items():
        turned = values if axis == -1 else values.swapaxes(-1, -2)
        if turned.shape != shape:
            raise InvalidArgument(
                f"{name}: shape {values.shape} does not go with elements of "
                f"{array.shape} and {shape[-1]} groups along axis {axis}")
        given[name] = turned
    return _parts(lines, given["scales"], given.get("zero_points"), kind,
                  group, axis)


def _scales_and_zeros(grouped: Array, kind: "np.dtype[Any]",
                      asymmetric: bool) -> tuple[Array, Array]:
    """float32 and integers, of groups along the last axis."""
    least, most = _ENDS[kind]
    if asymmetric:
        low = np.minimum(grouped.min(axis=-1, initial=0), 0)
        high = np.maximum(grouped.max(axis=-1, initial=0), 0)
        # Before the difference: that may leave float32.
        scales = high / np.float32(most - least) - low / np.float32(
            most - least)
    else:
        scales = np.abs(grouped).max(axis=-1, initial=0) / np.float32(most)
        low = np.zeros_like(scales)
    scales = np.where(scales == 0, np.float32(1), scales)
    zeros = np.clip(np.rint(least - low / scales), least, most)
    return scales, zeros


def quantize(array: Any, dtype: Any = "s4", *, group: Optional[int] = 128,
             axis: int = -1, zero_points: bool = False) -> QuantizedMatrix:
    """The nearest QuantizedMatrix whose scales are those of the greatest
    magnitude of each group.

    array        (..., rows, columns) of real numbers.
    dtype        "s4" (ml_dtypes.int4), "u4", int8 or float8_e4m3fn.
    group        Elements of k that share a scale: 32, 64, 128, or None, all.
    axis         That which k is: -1, the default, for a; -2 for b.
    zero_points  Scales span from the least to the greatest of a group, or from
                 0, instead of both sides of 0 alike. Of s4 and u4 only.
    """
    given = _matrix(array, "array")
    kind, group = _check_type(dtype), _check_group(group)
    axis = check_axis(axis, given.ndim)
    zero_points = check_flag(zero_points, "zero_points")
    if zero_points and not nibbles.are(kind):
        raise InvalidArgument(f"zero_points: do not go with {kind}; allowed: "
                              "False, and True with s4 and u4")
    with np.errstate(over="ignore"):
        lines = np.ascontiguousarray(
            given if axis == -1 else given.swapaxes(-1, -2), np.float32)
    if not np.isfinite(lines).all():
        raise InvalidArgument("array: has infinities, NaN, or what float32 "
                              "does not hold; allowed: finite numbers")
    if kind == nibbles.U4 and not zero_points and (lines < 0).any():
        raise InvalidArgument("array: has negative elements, which u4 holds "
                              "with zero_points=True alone")
    *sides, length = lines.shape
    how = Quantization(group, zero_points)
    size = group or max(length, 1)
    rest = how.groups(length) * size - length
    padded = np.pad(lines, [(0, 0)] * len(sides) + [(0, rest)])
    grouped = padded.reshape(*sides, how.groups(length), size)
    scales, zeros = _scales_and_zeros(grouped, kind, zero_points)
    least, most = _ENDS[kind]
    steps = grouped / scales[..., None]
    if kind != _E4M3:
        steps = np.rint(steps)
    if zero_points:
        steps += zeros[..., None]
    codes = np.clip(steps, least, most).reshape(padded.shape)[..., :length]
    if nibbles.are(kind):
        codes = codes.astype(np.int8)
    return _parts(codes, scales, zeros if zero_points else None, kind, group,
                  axis)


def quantization_of(value: Any) -> Optional[Quantization]:
    """How an operand is quantized, here or on a device; None: it is not."""
    found = getattr(value, "quantization", None)
    return found if isinstance(found, Quantization) else None
