"""What a product does besides alpha, beta and c: options of matmul -> fields
of the request."""

from typing import Any, Optional

import numpy as np

from . import api, arrays, support
from .errors import InvalidArgument

_EXTENTS = api.enum("Extent")
_BLOCK = 128


def _values(value: Any, name: str) -> arrays.Array:
    try:
        return np.ascontiguousarray(arrays.as_array(value, name), np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name}: {error}") from None


def _wrong(name: str, values: arrays.Array, allowed: str) -> InvalidArgument:
    return InvalidArgument(f"{name}: has shape {values.shape}; allowed: "
                           f"{allowed}")


class Epilogue:
    """Fills in the header; `buffers` are the bytes to send, by field."""

    def __init__(self, header: Any, dtype: Any, *, bias: Any = None,
                 activation: Optional[str] = None, a_scale: Any = None,
                 b_scale: Any = None, out_scale: Any = None,
                 precision: Optional[str] = None, accumulate: Any = None,
                 saturate: bool = False, bits: Optional[str] = None,
                 return_pre_activation: bool = False,
                 return_amax: bool = False, invariant: bool = False) -> None:
        self.buffers: dict[str, memoryview] = {}
        self.returns_auxiliary = return_pre_activation
        self.returns_amax = return_amax
        self._problem = problem = header.problem
        problem.precision = api.enum("Precision")[
            support.precision(dtype, precision)]
        problem.accumulator = api.enum("Accumulator")[
            support.accumulator(dtype, accumulate)]
        problem.bit_operation = api.enum("BitOperation")[
            support.bit_operation(dtype, bits)]
        problem.activation = api.enum("Activation")[
            support.activation(dtype, activation)]
        problem.saturate, problem.invariant = saturate, invariant
        if bias is not None:
            self._bias(bias)
        if a_scale is not None:
            self._scale("a_scale", a_scale, problem.m, "EXTENT_ROW",
                        (problem.m, -(-problem.k // _BLOCK)))
        if b_scale is not None:
            self._scale("b_scale", b_scale, problem.n, "EXTENT_COLUMN",
                        (-(-problem.k // _BLOCK), -(-problem.n // _BLOCK)))
        if out_scale is not None:
            problem.epilogue.d_scale = True
            self._send("d_scale", np.float32(
                arrays.check_number(out_scale, "out_scale")).reshape(1))
        if return_pre_activation:
            problem.epilogue.auxiliary = True
            header.auxiliary.inline.order = problem.d_order
        if return_amax:
            problem.epilogue.amax = True

    def _send(self, field: str, values: arrays.Array) -> None:
        self.buffers[field] = values.reshape(-1).view(np.uint8).data

    def _bias(self, bias: Any) -> None:
        values = _values(bias, "bias")
        rows, columns = (self._problem.m, 1), (self._problem.n,)
        if values.shape in (columns, (1, *columns)):
            self._problem.epilogue.bias = _EXTENTS["EXTENT_COLUMN"]
        elif values.shape == rows:
            self._problem.epilogue.bias = _EXTENTS["EXTENT_ROW"]
        else:
            raise _wrong("bias", values, f"{columns} or {rows}")
        self._send("bias", values)

    def _scale(self, name: str, value: Any, lines: int, extent: str,
               blocks: tuple[int, int]) -> None:
        values = _values(value, name)
        if values.size == 1 and np.ndim(value) == 0:
            extent = "EXTENT_TENSOR"
        elif values.shape == blocks:
            extent = "EXTENT_BLOCK"
        elif values.shape != (lines,):
            raise _wrong(name, values, f"a number, {(lines,)}, or {blocks} by "
                                       "blocks of 128")
        setattr(self._problem.epilogue, name, _EXTENTS[extent])
        self._send(name, values)
