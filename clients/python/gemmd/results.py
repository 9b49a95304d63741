"""Where the results of a product may go, their order and type, and what comes
in chunks."""

from typing import Any, Optional

import numpy as np

from . import arrays, support, wire
from .device_arrays import DeviceArray, as_device_array, is_on_device
from .errors import Internal, InvalidArgument
from .tensor import Resident, lie


class Result:
    """D or the pre-activation: where it goes."""

    def __init__(self, option: str, out: Any) -> None:
        self.option = option
        self.out = out  # As it was given; None: a new array.
        # The same as a matrix of the product's shape; of an array perhaps a
        # copy, which says how it lies, and is not written.
        self.target: Any = None

    @property
    def stays(self) -> bool:
        """Whether it is no array of the host's."""
        return isinstance(self.target, (Resident, DeviceArray))

    def order(self) -> arrays.Order:
        if isinstance(self.target, Resident):
            return self.target.order
        return lie(self.target).order


# By their fields.
Results = dict[str, Result]


def checked_out(out: Any, name: str) -> Any:
    """`out` where a result may go, or an error."""
    if isinstance(out, Resident):
        if out.sparse or out.quantization:
            kind = "sparse" if out.sparse else "quantized"
            raise InvalidArgument(f"{name}: a {kind} tensor receives no "
                                  "result; allowed: a dense one")
        if not out.handle:
            raise InvalidArgument(f"{name}: a result of the sequence receives "
                                  "no other; allowed: an array or a Tensor")
        if out._transposed:
            raise InvalidArgument(
                f"{name}: a transposed tensor receives no result; compute "
                "b.T @ a.T into the tensor itself")
        out.check_single(name)
    elif is_on_device(out):
        out = as_device_array(out, name)
    elif not isinstance(out, np.ndarray):
        raise InvalidArgument(f"{name}: {type(out).__name__} is neither a "
                              "numpy array, nor one in device memory, nor "
                              "a Tensor")
    elif not out.flags.writeable:
        raise InvalidArgument(f"{name}: the array is read-only")
    else:
        arrays.as_array(out, name)
        support.check_byte_order(out.dtype, name)
    return out


def arrays_of(results: Results) -> list[arrays.Array]:
    """Those of the host that results go to."""
    return [result.out for result in results.values()
            if isinstance(result.out, np.ndarray)]


def check_apart(results: Results) -> None:
    """Of tensors and what is shared, the daemon sees it."""
    outs = arrays_of(results)
    if len(outs) == 2 and np.shares_memory(outs[0], outs[1]):
        raise InvalidArgument("pre_activation_out: shares memory with out; "
                              "allowed: an array of its own")


def order_of(results: Results, c: Any,
             out_order: Optional[arrays.Order]) -> arrays.Order:
    """Order of the results: that of `out`, else of another one, else
    out_order, else a tensor c's, else C."""
    given = [(result.order(), result.option) for result in results.values()
             if result.target is not None]
    if not given and out_order is None and isinstance(c, Resident):
        given = [(c.order, "c")]
    if not given:
        return out_order or "C"
    order, owner = given[0]
    if out_order not in (None, order):
        raise InvalidArgument(
            f"out_order: {out_order!r} is not {owner}'s order {order!r}")
    for result in results.values():
        # Into an array of the host's it is copied.
        if result.stays and result.order() != order:
            raise InvalidArgument(f"{result.option}: order {result.order()!r} "
                                  f"is not {owner}'s {order!r}")
    return order


def type_of(results: Results, c: Any, out_dtype: Any,
            kind: "np.dtype[Any]") -> "np.dtype[Any]":
    """Type of the results: that of `out`, else of another one, else out_dtype,
    else c's, else what a product of `kind` has."""
    dtype = (None if out_dtype is None
             else arrays.check_dtype(out_dtype, "out_dtype"))
    if dtype is not None:
        support.check_byte_order(dtype, "out_dtype")
    owner = "out_dtype"
    for result in results.values():
        if result.target is None:
            continue
        found: "np.dtype[Any]" = result.target.dtype
        if dtype not in (None, found):
            raise InvalidArgument(
                f"out_dtype: {dtype} is not {result.option}'s dtype {found}"
                if owner == "out_dtype" else
                f"{result.option}: dtype {found} is not {owner}'s {dtype}")
        dtype, owner = found, result.option
    # A c of float32 is added to results of any type.
    if owner == "out_dtype" and c is not None and (
            dtype is None or c.dtype not in (dtype, np.float32)):
        support.check_output(kind, c.dtype, "c")
        if dtype is not None:
            raise InvalidArgument(
                f"out_dtype: {dtype} is not c's dtype {c.dtype}")
        dtype = c.dtype
    if dtype is None:
        return support.default_output(kind)
    support.check_output(kind, dtype, owner)
    return dtype


class _Buffer:
    """A result that comes in chunks."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._position = 0
        self.data = memoryview(b"")

    def add(self, chunk: memoryview) -> None:
        if not self._position:  # Not before the daemon has taken the product.
            self.data = np.empty(self._size, np.uint8).data
        end = self._position + len(chunk)
        self._check(end <= self._size, end)
        self.data[self._position:end] = chunk
        self._position = end

    def check(self) -> memoryview:
        self._check(self._position == self._size, self._position)
        return self.data

    def _check(self, fits: bool, size: int) -> None:
        if not fits:
            raise Internal(f"the daemon sent {size} bytes of "
                           f"{self._name}, which has {self._size}")


class Chunks:
    """The response of a stream, put together from its messages."""

    def __init__(self, d: Optional[int], auxiliary: Optional[int]) -> None:
        """Bytes of what is returned."""
        self._buffers = {
            name: None if size is None else _Buffer(name, size)
            for name, size in (("D", d), ("the pre-activation", auxiliary))}
        self._last: Optional[wire.Response] = None

    def add(self, message: wire.Response) -> None:
        came = False
        for buffer, chunk in zip(self._buffers.values(),
                                 (message.d, message.auxiliary)):
            if buffer is not None and chunk:
                buffer.add(chunk)
                came = True
        # The last one has no bytes: of others there could be any number.
        if not came:
            if self._last is not None:
                raise Internal("the daemon sent a second message without bytes")
            self._last = message

    def response(self) -> wire.Response:
        d, auxiliary = (None if buffer is None else buffer.check()
                        for buffer in self._buffers.values())
        if self._last is None or self._last.execution is None:
            raise Internal("the daemon ended the call without an execution")
        return wire.Response(self._last.execution, d, auxiliary,
                             self._last.amax)
