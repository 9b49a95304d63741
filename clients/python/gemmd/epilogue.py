"""What a product does besides alpha, beta and c: options of matmul -> fields
of the request."""

from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import api, arrays, support
from .errors import InvalidArgument
from .tensor import Resident

_EXTENTS = api.enum("Extent")
_BLOCK = 128

Shape = tuple[int, ...]


class ResultKind(NamedTuple):
    """Of which product the epilogue is."""
    dtype: "np.dtype[Any]"
    drops_rows: bool     # numpy's result has none, because a is a vector.
    drops_columns: bool  # Likewise b.
    sparse: bool = False  # One of a and b is.
    mixed: bool = False   # One of them has weights that are widened.


class Values(NamedTuple):
    """Of a bias or a scale: an array of float32, or a Tensor of them."""
    name: str
    value: Union[arrays.Array, Resident]

    @property
    def shape(self) -> Shape:
        return self.value.shape

    @property
    def size(self) -> int:
        return self.value.size

    def wrong(self, allowed: str) -> InvalidArgument:
        return InvalidArgument(
            f"{self.name}: has shape {self.shape}; allowed: {allowed}")


def _values(value: Any, name: str) -> Values:
    if isinstance(value, Resident):
        if value.dtype != np.float32:
            raise InvalidArgument(f"{name}: a tensor of {value.dtype}; "
                                  "allowed: float32")
        return Values(name, value)
    array = arrays.as_array(value, name)
    try:
        if not support.are_real(array.dtype):
            raise TypeError("no real numbers")
        return Values(name, arrays.singles(array, name))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name}: {array.dtype} does not become float32 "
                              f"({error})") from None


def _blocks(size: int) -> int:
    return -(-size // _BLOCK)


class Epilogue:
    """Fills in the header; `buffers` are the bytes to send, by field."""

    def __init__(self, header: Any, dtype: Any, result: ResultKind, *,
                 bias: Any = None, activation: Optional[str] = None,
                 a_scale: Any = None, b_scale: Any = None,
                 out_scale: Any = None, precision: Optional[str] = None,
                 accumulate: Any = None, saturate: bool = False,
                 bits: Optional[str] = None,
                 return_pre_activation: bool = False,
                 return_amax: bool = False, invariant: bool = False) -> None:
        self.buffers: dict[str, memoryview] = {}
        self._header = header
        self._problem = problem = header.problem
        problem.accumulator = api.enum("Accumulator")[
            support.accumulator(dtype, accumulate, result.mixed)]
        problem.precision = api.enum("Precision")[
            support.precision(dtype, precision, accumulate)]
        problem.bit_operation = api.enum("BitOperation")[
            support.bit_operation(dtype, bits)]
        problem.activation = api.enum("Activation")[
            support.activation(dtype, activation)]
        support.check_saturate(dtype, saturate)
        problem.saturate, problem.invariant = saturate, invariant
        support.check_steps(
            result.dtype, problem.alpha, problem.beta,
            bias=bias is not None, a_scale=a_scale is not None,
            b_scale=b_scale is not None, activation=activation is not None,
            out_scale=out_scale is not None,
            return_pre_activation=return_pre_activation,
            return_amax=return_amax)
        if bias is not None:
            self._bias(_values(bias, "bias"), result)
        if (a_scale is not None or b_scale is not None) and self._scales(
                a_scale, b_scale):
            support.check_block_scales(dtype, accumulate, precision,
                                       result.sparse)
        if out_scale is not None:
            self._out_scale(_values(out_scale, "out_scale"))
        if return_pre_activation:
            problem.epilogue.auxiliary = True
        if return_amax:
            problem.epilogue.amax = True

    def _send(self, field: str, values: Values, size: Optional[int] = None,
              is_column: bool = False) -> None:
        """Values in row-major order; one alone is sent `size` times."""
        source = getattr(self._header, field)
        value = values.value
        if not isinstance(value, Resident):
            flat = np.ascontiguousarray(value).reshape(-1)
            if size is not None and flat.size != size:
                flat = np.full(size, flat[0])
            self.buffers[field] = flat.view(np.uint8).data
            return
        if size not in (None, value.size):
            raise values.wrong(f"{size} values in a tensor")
        row = value.T if is_column or (
            value.size == 1 and value.order == "F") else value
        if row.order != "C":
            raise InvalidArgument(
                f"{values.name}: the tensor's order is {value.order!r}; "
                f"allowed: {'F' if is_column else 'C'!r}")
        row.check_operand(values.name, ())
        row.point(source)

    def _bias(self, bias: Values, result: ResultKind) -> None:
        """As numpy broadcasts it to the result: one value a column, or one a
        row."""
        shape = bias.shape
        if result.drops_columns:
            shape = (*shape, 1)
        if result.drops_rows and shape:
            shape = (*shape[:-1], 1, shape[-1])
        *batch, rows, columns = (1, 1, *shape)
        m, n = self._problem.m, self._problem.n
        if any(side != 1 for side in batch) or columns not in (1, n) or (
                rows not in (1, m)) or (rows != 1 and columns != 1):
            allowed = "()" if result.drops_rows and result.drops_columns else (
                f"{(n,)}" if result.drops_rows else
                f"{(m,)}" if result.drops_columns else f"{(n,)} or {(m, 1)}")
            raise bias.wrong(f"{allowed}. The nearest for a whole matrix is c, "
                             "with beta=1")
        is_row = rows != 1
        self._problem.epilogue.bias = _EXTENTS[
            "EXTENT_ROW" if is_row else "EXTENT_COLUMN"]
        self._send("bias", bias, m if is_row else n,
                   is_row and not result.drops_columns)

    def _scales(self, a_scale: Any, b_scale: Any) -> bool:
        """Whether they are by block."""
        problem = self._problem
        k_blocks = _blocks(problem.k)
        shapes = {"a_scale": (problem.m, k_blocks),
                  "b_scale": (k_blocks, _blocks(problem.n))}
        lines = {"a_scale": (problem.m, 1), "b_scale": (1, problem.n)}
        given = {name: _values(value, name) for name, value in (
            ("a_scale", a_scale), ("b_scale", b_scale)) if value is not None}
        # What may be read in two ways is by block where the other has to be.
        by_block = any(values.shape == shapes[name] != lines[name]
                       and values.size != 1 for name, values in given.items())
        for name, values in given.items():
            self._scale(values, shapes[name], lines[name], by_block)
        if by_block:
            for name in shapes:
                if getattr(problem.epilogue, name) != _EXTENTS["EXTENT_BLOCK"]:
                    raise InvalidArgument(
                        f"{name}: has to be by blocks of 128, as the other "
                        f"is; allowed: shape {shapes[name]}")
        return by_block

    def _scale(self, values: Values, blocks: Shape, lines: Shape,
               by_block: bool) -> None:
        axis = 0 if values.name == "a_scale" else 1
        if by_block and values.shape == blocks:
            extent = "EXTENT_BLOCK"
        elif values.size == 1:
            extent = "EXTENT_TENSOR"
        elif values.shape in (lines, (lines[axis],)):
            extent = ("EXTENT_ROW", "EXTENT_COLUMN")[axis]
        else:
            raise values.wrong(f"a number, {(lines[axis],)}, or {blocks} by "
                               "blocks of 128")
        setattr(self._problem.epilogue, values.name, _EXTENTS[extent])
        self._send(values.name, values,
                   is_column=extent == "EXTENT_ROW" and len(values.shape) == 2)

    def _out_scale(self, values: Values) -> None:
        if values.size != 1:
            raise values.wrong("a number")
        self._problem.epilogue.d_scale = True
        self._send("d_scale", values)
