"""Arguments of Client.matmul -> header and bytes of one MatmulRequest."""

import contextlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, SupportsFloat, TypedDict

import numpy as np

from . import api, arrays, results, support, wire
from .arguments import check_flag, check_text
from .composite import Composite
from .device_arrays import DeviceArray
from .epilogue import Epilogue, ResultKind
from .errors import Internal, InvalidArgument
from .operands import Matrix, array_of, batch_of, flat, matrices_of
from .quantized import quantization_of
from .shared import Block, Regions, Written, lent
from .sparse import is_sparse
from .tensor import Resident, lie


class Options(TypedDict, total=False):
    """The keyword arguments of matmul, which documents them."""
    c: Any
    alpha: SupportsFloat
    beta: SupportsFloat
    out_dtype: Any
    out_order: Optional[arrays.Order]
    out: Any
    device: str
    precision: Optional[str]
    accumulate: Any
    saturate: bool
    bits: Optional[str]
    invariant: bool
    a_scale: Any
    b_scale: Any
    bias: Any
    activation: Optional[str]
    out_scale: Any
    return_pre_activation: bool
    pre_activation_out: Any
    return_amax: bool


_FLAGS = ("saturate", "invariant", "return_pre_activation", "return_amax")


def _check_known(options: Iterable[str]) -> None:
    for name in options:
        if name not in Options.__annotations__:
            # As of a function without **options.
            raise TypeError(
                f"matmul() got an unexpected keyword argument {name!r}")


def _is_line(b: Matrix) -> bool:
    """Whether b is a column to be sent as one line along k, not as k lines of
    one element, each of which the device pads to 16 bytes. Bytes are: kernels
    read them along k, however they lie, so no bit of the result depends on it.
    Into how many parts k is split for wider ones does."""
    if b.dtype.itemsize > 1 or b.shape[-1] != 1:
        return False
    # Which cannot be copied.
    return not isinstance(b, DeviceArray) or (
        arrays.lying(b, "F", math.inf) is not None)


class Product(NamedTuple):
    """A result and how it came about."""
    d: Any
    # gemmd.v1.Execution: device, kernel, cubin_key, cubin_source, phases,
    # arithmetic, splits.
    execution: Any
    pre_activation: Any = None  # Where it was asked for.
    amax: Optional[float] = None

    def value(self) -> Any:
        """What matmul returns."""
        more = tuple(part for part in (self.pre_activation, self.amax)
                     if part is not None)
        return (self.d, *more) if more else self.d

    def __repr__(self) -> str:
        d = self.d if isinstance(self.d, Resident) else (
            f"{'x'.join(map(str, np.shape(self.d)))} {self.d.dtype} array")
        return (f"Product(d=<{d}>, execution=<{self.execution.kernel} on "
                f"{self.execution.device}>)")


class Call:
    """One product, checked: `header` and the operand buffers to send."""

    def __init__(self, a: Any, b: Any, *, c: Any = None,
                 alpha: SupportsFloat = 1.0, out_dtype: Any = None,
                 out_order: Optional[arrays.Order] = None, out: Any = None,
                 pre_activation_out: Any = None, device: str = "",
                 **epilogue: Any) -> None:
        _check_known(epilogue)
        device = check_text(device, "device")
        epilogue.update({name: check_flag(epilogue[name], name)
                         for name in _FLAGS if name in epilogue})
        a, self._drops_rows = matrices_of(a, "a", 0)
        b, self._drops_columns = matrices_of(b, "b", 1)
        support.check_quantized(a, b)
        support.check_pair(a.dtype, b.dtype)
        kind = support.multiplied_as(a.dtype, b.dtype)
        support.check_sparse(a, b, epilogue.get("precision"))
        alpha = arrays.check_single(alpha, "alpha")
        if c is not None and "beta" not in epilogue:
            raise InvalidArgument("c: is given without beta; allowed: beta=1, "
                                  "or another factor, of which 0 does not read "
                                  "c")
        beta = arrays.check_single(epilogue.pop("beta", 0.0), "beta")
        if a.shape[-1] != b.shape[-2]:
            raise InvalidArgument(
                f"b: has {b.shape[-2]} rows but a has {a.shape[-1]} columns "
                f"(shapes {a.shape} and {b.shape})")
        self._batch: tuple[int, ...] = batch_of(a, b)
        a, b = flat(a, self._batch), flat(b, self._batch)
        matrix = (a.shape[-2], b.shape[-1])
        # One leading dimension stands for all of them.
        self.shape: tuple[int, ...] = (
            (math.prod(self._batch), *matrix) if self._batch else matrix)
        if c is not None:
            c = self._like_result(
                c if isinstance(c, (Resident, Composite))
                else array_of(c, "c"), "c")
            support.check_byte_order(c.dtype, "c")
        if beta != 0 and c is None:
            raise InvalidArgument(f"c: required because beta is {beta}")
        if pre_activation_out is not None:
            epilogue["return_pre_activation"] = True
        self._results = {"d": results.Result("out", out)}
        if epilogue.get("return_pre_activation"):
            self._results["auxiliary"] = results.Result(
                "pre_activation_out", pre_activation_out)
        for result in self._results.values():
            if result.out is not None:
                result.target = self._checked_out(result)
        results.check_apart(self._results)
        if out_order is not None:
            arrays.wire_order(out_order, "out_order")
        self.dtype = results.type_of(self._results, c, out_dtype, kind)
        self.order = results.order_of(self._results, c, out_order)
        if c is not None:
            support.check_c(c.dtype, self.dtype)
        self.buffers: dict[str, Optional[memoryview]] = {}
        # Operands in device memory, by field.
        self.on_device: dict[str, DeviceArray] = {}
        self._fill_header(a, b, c, alpha, beta, device)
        epilogue_of = Epilogue(
            self.header, kind,
            ResultKind(self.dtype, self._drops_rows, self._drops_columns,
                       is_sparse(a) or is_sparse(b),
                       support.is_mixed(a.dtype, b.dtype)),
            **epilogue)
        self.buffers.update(epilogue_of.buffers)
        # Results that come in shared memory, by what they are; of `out` itself
        # there is no block.
        self._shared: dict[str, Optional[Block]] = {}
        self.written: list[Written] = []  # By the daemon, in regions.
        self._read: list[memoryview] = []

    def of_others(self, operands: Iterable[tuple[str, Resident]],
                  outs: Iterable[tuple[str, Resident]]) -> "Call":
        """This product of other tensors of the same kinds, which these are with
        their fields. Of this one nothing has been shared."""
        call = Call.__new__(Call)
        call.__dict__.update(self.__dict__)
        call.header = header = api.MatmulHeader()
        header.CopyFrom(self.header)
        for field, operand in operands:
            operand.name_in(getattr(header, field))
        call._results = {name: results.Result(result.option, None)
                         for name, result in self._results.items()}
        for field, out in outs:
            result = call._results[field]
            result.out = result.target = out
            getattr(header, field).tensor = out.handle
        call._shared, call.written, call._read = {}, [], []
        return call

    def _like_result(self, value: Any, name: str) -> Any:
        """`value` as a matrix of the product's shape, or an error."""
        for what, is_it in (("sparse", is_sparse(value)),
                            ("quantized", quantization_of(value))):
            if is_it:
                raise InvalidArgument(f"{name}: is {what}; allowed: a or b "
                                      "alone")
        is_array = not isinstance(value, Resident)
        shape = (self.result_shape() if is_array
                 else self._batch + self.shape[-2:])
        if value.shape != shape:
            raise InvalidArgument(f"{name}: shape {value.shape} is not that "
                                  f"of the product, {shape}")
        # With the dimensions that a product with a vector drops and one for all
        # of a batch: a copy where no view has them.
        return value.reshape(self.shape) if is_array else value

    def _checked_out(self, result: results.Result) -> Matrix:
        out = results.checked_out(result.out, result.option)
        matrix: Matrix = self._like_result(out, result.option)
        return matrix

    def outs(self) -> Iterator[tuple[str, Any]]:
        """The results by their fields, D first, and what each is to go to."""
        return ((name, result.out) for name, result in self._results.items())

    def result_shape(self) -> tuple[int, ...]:
        """As numpy has it: what vectors added is dropped."""
        rows, columns = self.shape[-2:]
        return self._batch + (() if self._drops_rows else (rows,)) + (
            () if self._drops_columns else (columns,))

    def _fill_header(self, a: Matrix, b: Matrix, c: Optional[Matrix],
                     alpha: float, beta: float, device: str) -> None:
        self.header = header = api.MatmulHeader(device=device)
        problem = header.problem
        problem.m, problem.n = self.shape[-2:]
        problem.k = a.shape[-1]
        if self._batch:
            problem.batch = self.shape[0]
        problem.a_type = arrays.wire_type(a.dtype, "a")
        problem.b_type = arrays.wire_type(b.dtype, "b")
        problem.sparsity = arrays.wire_sparsity(is_sparse(a))
        problem.b_sparsity = arrays.wire_sparsity(is_sparse(b))
        quantization = quantization_of(a) or quantization_of(b)
        if quantization is not None:
            quantization.fill(problem)
        problem.d_type = arrays.wire_type(self.dtype, "out")
        problem.c_type = (problem.d_type if c is None
                          else arrays.wire_type(c.dtype, "c"))
        problem.d_order = arrays.wire_order(self.order)
        problem.alpha, problem.beta = alpha, beta
        bits = a.dtype == np.bool_  # Fastest where k is contiguous.
        self.buffers["a"] = self._source("a", a, "C" if bits else None)
        self.buffers["b"] = self._source(
            "b", b, "F" if bits or _is_line(b) else None)
        if c is not None and beta != 0:
            self.buffers["c"] = self._source("c", c, self.order)
        for name, result in self._results.items():
            destination = getattr(header, name)
            if isinstance(result.target, Resident):
                destination.tensor = result.target.handle
            else:
                destination.inline.order = problem.d_order

    def _source(self, name: str, value: Matrix,
                order: Optional[arrays.Order]) -> Optional[memoryview]:
        """Fills in where the operand comes from; its bytes when inline."""
        source = getattr(self.header, name)
        data = None
        if isinstance(value, Resident):
            if name == "c" and value.order != order:
                raise InvalidArgument(f"c: the tensor's order {value.order!r} "
                                      f"is not {order!r}")
            value.check_operand(name, self._batch)
            value.point(source)
            order = value.order
        else:
            operand = lie(value, order)
            source.inline.CopyFrom(operand.layout())
            if isinstance(value, DeviceArray) and value.size:
                self.on_device[name] = value
            if self._batch and value.ndim == 2 and self.shape[0] != 1:
                source.inline.batch_stride = 0
            order, data = operand.order, operand.data
        if name != "c":
            setattr(self.header.problem, f"{name}_order",
                    arrays.wire_order(order))
        return data

    def _result_bytes(self) -> int:
        """Of the results that are returned."""
        return self._size() * sum(
            not isinstance(result.target, Resident) and name not in self._shared
            for name, result in self._results.items())

    def _size(self) -> int:
        """Bytes of a result."""
        return math.prod(self.shape) * self.dtype.itemsize

    def _overlaps(self, name: str, data: memoryview) -> bool:
        """Whether matrices of a batch overlap, which streams do not serve."""
        stride = getattr(self.header, name).inline.batch_stride
        if not stride:
            return False
        item = arrays.numpy_type(
            getattr(self.header.problem, f"{name}_type")).itemsize
        return bool(stride * item * self.shape[0] < len(data))

    @property
    def is_on_device(self) -> bool:
        """Whether anything of it is in device memory."""
        return bool(self.on_device) or any(
            isinstance(result.target, DeviceArray)
            for result in self._results.values())

    def streams(self, limit: float) -> bool:
        """Whether it travels in chunks: it has more than `limit` bytes."""
        return self.travelling_bytes() > limit and not any(
            self._overlaps(name, data)
            for name, data in self.buffers.items() if data)

    def travelling_bytes(self) -> int:
        """Of arrays that are sent, and of results that come back."""
        return self._result_bytes() + sum(
            len(data) for data in self.buffers.values() if data)

    def share(self, regions: Regions, copied: Collection[str] = ()) -> None:
        """Names what lies in a region, or in device memory, instead of sending
        it. Where anything lies in a region, results come to one, too; what is
        to be `copied` to the caller's array at the end, to another block."""
        self._share_device(regions, {**self.on_device, **self._device_outs()})
        if not regions:
            return
        places = {name: place for name, data in self.buffers.items()
                  if data and not self.is_sparse(name)
                  and (place := regions.place(data)) is not None}
        outs = {name: out for name, out in self.out_places(regions).items()
                if name not in copied}
        if not places and not outs:
            return
        for name, place in places.items():
            data = self.buffers[name]
            assert data is not None
            self._read.append(data)
            self.buffers[name] = None
            source = getattr(self.header, name)
            wire.set_place(source.region, place, source.inline)
        self.share_results(regions, self._results, outs)

    def out_places(self, regions: Regions) -> dict[str, Any]:
        """Where results of the caller's arrays lie and how, by their fields,
        when the daemon can write there: not between the lines of others."""
        outs = results.arrays_of(self._results)
        if len(outs) == 2 and np.may_share_memory(outs[0], outs[1]):
            return {}
        return {name: out for name, result in self._results.items()
                if (out := self._out_place(regions, result.target)) is not None}

    def share_results(self, regions: Regions, returned: Iterable[str],
                      outs: Mapping[str, Any]) -> None:
        """Has these come to shared memory: to `outs`, of out_places, and what
        else is `returned` to new blocks, where there is room."""
        for name in returned:
            if name in outs or self._results[name].stays:
                continue
            block = regions.block_or_none(self._size())
            if block is not None:
                wire.set_place(getattr(self.header, name).region, block.place,
                               api.Layout(order=self.header.problem.d_order))
                self._shared[name] = block
                self.written.append(block.written)
        for name, (place, layout) in outs.items():
            wire.set_place(getattr(self.header, name).region, place, layout)
            self._shared[name] = None
            self.written.append(Written(regions, place))

    def share_device_outs(self, regions: Regions) -> None:
        """As share, of results in device memory alone."""
        self._share_device(regions, self._device_outs())

    def _device_outs(self) -> dict[str, DeviceArray]:
        return {name: result.target for name, result in self._results.items()
                if isinstance(result.target, DeviceArray)}

    def _share_device(self, regions: Regions,
                      ends: Mapping[str, DeviceArray]) -> None:
        if not ends:
            return
        self._shared.update((name, None) for name in ends
                            if name in self._results)
        ends = {name: array for name, array in ends.items() if array.size}
        places = regions.device.places(list(ends.values()))
        for (name, array), (place, _) in zip(ends.items(), places):
            end = getattr(self.header, name)
            if name in self._results:
                wire.set_place(end.region, place,
                               array.operand(self.order).layout())
            else:
                wire.set_place(end.region, place, end.inline)
                self.buffers[name] = None

    def is_sparse(self, name: str) -> bool:
        """Whether an operand is."""
        problem = self.header.problem
        sparsity = {"a": problem.sparsity, "b": problem.b_sparsity}
        return bool(sparsity.get(name, api.DENSE) != api.DENSE)

    def _out_place(self, regions: Regions, target: Optional[Matrix]) -> Any:
        """Of out_places."""
        if (not isinstance(target, np.ndarray) or target.size == 0
                or target.dtype == np.bool_):
            return None
        operand = arrays.operand(target, self.order)
        place = regions.place(operand.data)
        if place is None or operand.batch_stride is not None:
            return None
        return place, operand.layout()

    def sharing(self) -> contextlib.AbstractContextManager[None]:
        """Around the call."""
        return lent(self.written)

    def chunks(self) -> results.Chunks:
        """For what comes back in chunks."""
        def size(name: str) -> Optional[int]:
            result = self._results.get(name)
            returns = (result is not None and name not in self._shared
                       and not isinstance(result.target, Resident))
            return self._size() if returns else None
        return results.Chunks(size("d"), size("auxiliary"))

    def product(self, response: wire.Response) -> Product:
        values = {name: self.result(name, getattr(response, name))
                  for name in self._results}
        return Product(values["d"], response.execution,
                       values.get("auxiliary"), response.amax)

    def result(self, name: str, data: Optional[memoryview]) -> Any:
        """A result, or what it was to go to, from the response's bytes."""
        result = self._results[name]
        block = self._shared.get(name)
        is_there = name in self._shared and block is None
        if is_there or isinstance(result.target, Resident):
            return result.out
        if block is not None:
            data = block.bytes.data
        if result.target is not None:
            # Of which the target, for the daemon, may be a copy.
            result.out[...] = self._received(data).reshape(
                self.result_shape())
            return result.out
        return self._array(data)

    def _received(self, data: Optional[memoryview]) -> arrays.Array:
        came = 0 if data is None else data.nbytes
        if came != self._size():
            raise Internal(f"the daemon sent {came} bytes of a result, which "
                           f"has {self._size()}")
        return arrays.matrix(data if data is not None else b"", self.shape,
                             self.dtype, self.order)

    def _array(self, data: Optional[memoryview]) -> Any:
        """A result from its bytes: one copy makes it aligned and writable; what
        came in chunks is."""
        result = self._received(data)
        if not result.flags.writeable:
            result = result.copy(
                order=self.order if len(self.shape) == 2 else "K")
        result = result.reshape(self.result_shape())
        return result if result.ndim else result[()]
