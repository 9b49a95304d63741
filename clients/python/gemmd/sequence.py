"""Recorded calls of matmul -> one request, and what becomes of its answer."""

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np

from . import alike, arrays, product, rpcs, time_left, wire
from .arguments import check_text
from .device_arrays import DeviceArray
from .errors import FailedPrecondition, InvalidArgument
from .overlaps import overlapping
from .retry import check_key, told
from .shared import Regions, lent
from .tensor import Resident

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio import AsyncClient
    from .client import Client


class Pending(Resident):
    """A result of a recorded call: an operand of later calls of the same
    sequence, and, once its block has ended, an array, where it is returned."""

    _instead = "its array, numpy()"

    def __init__(self, recording: "Recording", name: str,
                 call: product.Call, fills: bool) -> None:
        rows, columns = call.shape[-2:]
        self._lie(None, (rows, columns), call.order, call.dtype)
        self._recording = recording
        self._name = name
        self._fills = fills  # An array of the caller's.
        self._result_shape = call.result_shape()
        # Of all views of it.
        self._state: dict[str, Any] = {"read": False, "value": None}

    @property
    def shape(self) -> Any:
        """As of what it becomes."""
        shape = self._result_shape
        return (*shape[:-2], *shape[:-3:-1]) if self._transposed else shape

    @property
    def ndim(self) -> int:
        return len(self._result_shape)

    def __repr__(self) -> str:
        return (f"<gemmd.Pending {'x'.join(map(str, self.shape))} "
                f"{self.dtype} order {self.order}>")

    def name_in(self, source: Any) -> None:
        reads = self._recording.reads
        if reads is None:
            raise InvalidArgument(
                "a result of a sequence is read by products of the same one "
                "alone; allowed: its array, numpy(), once the block has ended")
        source.name = self._name
        reads.append(self)

    def check_operand(self, name: str, batch: tuple[int, ...]) -> None:
        if self.ndim < 2:
            raise InvalidArgument(
                f"{name}: is the result of a product with a vector; allowed: "
                "of matrices. The nearest is a matrix of one row or column")
        if self.shape[:-2] not in ((), batch):
            raise InvalidArgument(
                f"{name}: leading dimensions {self.shape[:-2]} of a result are "
                f"not broadcast; allowed: {batch} or none")

    def numpy(self) -> Any:
        """The array. FailedPrecondition before the block has ended, and where
        it is not returned."""
        value = self._state["value"]
        if value is None:
            raise FailedPrecondition("the result is not there: "
                                     + self._recording.why_not_there())
        return (value.swapaxes(-1, -2) if self._transposed and self.ndim > 1
                else value)

    def __array__(self, dtype: Any = None,
                  copy: Optional[bool] = None) -> arrays.Array:
        if copy is None:  # Which numpy 1 does not take.
            return np.asarray(self.numpy(), dtype)
        return np.array(self.numpy(), dtype, copy=copy)


class PendingNumber:
    """The greatest magnitude of a recorded call; float() of it is the number
    once the block has ended."""

    def __init__(self, recording: "Recording") -> None:
        self.value: Optional[float] = None
        self._recording = recording

    def __float__(self) -> float:
        if self.value is None:
            raise FailedPrecondition("the number is not there: "
                                     + self._recording.why_not_there())
        return self.value


class _Step(NamedTuple):
    call: product.Call
    pending: dict[str, Pending]  # By their fields; not of those in tensors.
    amax: Optional[PendingNumber]


class _Operands:
    """Arrays to be sent, or shared, each once."""

    def __init__(self) -> None:
        self.all: list[wire.Named] = []
        self._names: dict[Any, str] = {}
        # By their names:
        self._sparse: set[str] = set()
        self._on_device: dict[str, DeviceArray] = {}

    def name(self, call: product.Call, field: str, data: memoryview) -> str:
        p = call.header.problem
        # What one array can stand for in two calls.
        scales = (p.HasField("quantization"),
                  p.quantization.SerializeToString())
        matrices = {"a": (p.a_type, p.sparsity, scales, p.m, p.k),
                    "b": (p.b_type, p.b_sparsity, scales, p.k, p.n),
                    "c": (p.c_type, 0, None, p.m, p.n)}
        # Values may be by row in one call and by block in another.
        kind = matrices.get(field) or (
            field, getattr(p.epilogue, field), p.m, p.n, p.k)
        layout = getattr(call.header, field).inline
        array = call.on_device.get(field)
        lies: Any = None
        if array is not None:
            lies = array.address, array.device, array.stream
        elif data:
            lies = np.frombuffer(data, np.uint8).ctypes.data
        key = (lies, len(data), kind, layout.SerializeToString())
        if key not in self._names:
            name = self._names[key] = f"operand {len(self.all)}"
            copy = type(layout)()
            copy.CopyFrom(layout)
            self.all.append(wire.Named(name, copy, data))
            if call.is_sparse(field):
                self._sparse.add(name)
            if array is not None:
                self._on_device[name] = array
        return self._names[key]

    def share(self, regions: Regions) -> bool:
        """Names what lies in a region, or in device memory, instead of sending
        it. Whether there is any of the former."""
        in_regions = {
            each.name: place for each in self.all
            if regions and each.data and each.name not in self._sparse
            and (place := regions.place(each.data)) is not None}
        places = regions.device.places(list(self._on_device.values()))
        on_device = {name: place for name, (place, _)
                     in zip(self._on_device, places)}
        found = {**in_regions, **on_device}
        self.all = [each._replace(place=found.get(each.name))
                    for each in self.all]
        return bool(in_regions)


class Recording:
    """Calls of matmul that become one request."""

    def __init__(self, device: str, timeout: Optional[float],
                 key: str) -> None:
        self.done = False
        # While a call is made whose operands may be its results: those.
        self.reads: Optional[list[Pending]] = None
        self._begun = False
        # Of the daemon's answer: Phases of the whole, an Execution a call.
        self.phases: Any = None
        self.executions: list[Any] = []
        self._device = check_text(device, "device")
        self._timeout = timeout
        self._key = check_key(key)
        self._steps: list[_Step] = []
        self._operands = _Operands()
        self._returned: Optional[set[str]] = None

    def _begin(self) -> None:
        """The block, of which there is one: what a block that raised has
        recorded must not be sent by another."""
        if self._begun:
            raise FailedPrecondition("the sequence has had its block; allowed: "
                                     "another sequence for another block")
        self._begun = True

    def matmul(self, a: Any, b: Any,
               **options: "Unpack[product.Options]") -> Any:
        """As Client.matmul, but it is recorded, and its results are operands
        of later calls. Arrays must not change until the block has ended: some
        are read then, and those that need a copy now."""
        if self.done:
            raise FailedPrecondition("the block of the sequence has ended")
        if options.get("device"):
            raise InvalidArgument("device: allowed for the whole sequence "
                                  "alone: client.sequence(device=...)")
        self._check_own(a, b, *options.values())
        reads: list[Pending] = []
        self.reads = reads
        try:
            call = alike.call(a, b, **options)
        finally:
            self.reads = None
        for field, data in call.buffers.items():
            if data is not None:
                source = getattr(call.header, field)
                source.name = self._operands.name(call, field, data)
        step = _Step(
            call,
            {name: Pending(self, f"{name} {len(self._steps)}", call,
                           out is not None)
             for name, out in call.outs() if not isinstance(out, Resident)},
            PendingNumber(self) if options.get("return_amax") else None)
        self._steps.append(step)
        for pending in reads:  # Not where the call was refused.
            pending._state["read"] = True
        d, *more = (step.pending.get(name, out) for name, out in call.outs())
        if step.amax is not None:
            more.append(step.amax)
        return (d, *more) if more else d

    def returns(self, *results: Pending) -> None:
        """These are returned. Without this: those that no later call reads."""
        for result in results:
            if not isinstance(result, Pending):
                raise InvalidArgument(
                    f"returns: {type(result).__name__} is no result of the "
                    "sequence; allowed: what its matmul returns")
        self._check_own(*results)
        self._returned = (self._returned or set()) | {
            result._name for result in results}

    def why_not_there(self) -> str:
        """Of what somebody wants to have of it."""
        if not self.done:
            return "the block of its sequence has not ended"
        if self.phases is None:
            return "the block of its sequence has failed"
        return "the sequence does not return it; name it in returns()"

    def _check_own(self, *values: Any) -> None:
        for value in values:
            if isinstance(value, Pending) and value._recording is not self:
                raise InvalidArgument("a result of another sequence is not "
                                      "read; return it there")

    def _is_returned(self, pending: Pending) -> bool:
        if self._returned is None:
            return not pending._state["read"]
        return pending._name in self._returned

    @property
    def is_on_device(self) -> bool:
        """Whether anything of it is in device memory."""
        return any(step.call.is_on_device for step in self._steps)

    def _leaves(self, pending: Pending) -> bool:
        return self._is_returned(pending) or pending._fills

    def _share(self, regions: Regions) -> None:
        """As Call.share, of all together; nothing streams."""
        for step in self._steps:
            step.call.share_device_outs(regions)
        is_shared = self._operands.share(regions)
        if not regions:
            return
        # Those that overlap are filled one after the other, when all are there.
        copied = overlapping([step.call for step in self._steps], reads=False)
        outs = [{name: place
                 for name, place in step.call.out_places(regions).items()
                 if name not in of_step}
                for step, of_step in zip(self._steps, copied)]
        if not is_shared and not any(outs):
            return
        for step, of_step in zip(self._steps, outs):
            step.call.share_results(
                regions, [name for name, pending in step.pending.items()
                          if self._leaves(pending)], of_step)

    def _sharing(self) -> contextlib.AbstractContextManager[None]:
        """Around the call."""
        return lent([written for step in self._steps
                     for written in step.call.written])

    def _rpc(self) -> rpcs.Rpc[wire.SequenceResponse]:
        for step in self._steps:
            for name, pending in step.pending.items():
                to = getattr(step.call.header, name)
                to.name = pending._name
                if not self._leaves(pending):
                    to.ClearField("inline")
        return rpcs.sequence([step.call.header for step in self._steps],
                             self._operands.all,
                             self._device).with_key(self._key)

    def _take(self, response: wire.SequenceResponse) -> None:
        self.phases = response.phases
        for step, of_step in zip(self._steps, response.steps):
            self.executions.append(of_step.execution)
            for name, pending in step.pending.items():
                if self._leaves(pending):
                    pending._state["value"] = step.call.result(
                        name, getattr(of_step, name))
            if step.amax is not None:
                step.amax.value = of_step.amax

    def _forget(self) -> None:
        """Results may be kept for long, what they were made of need not be."""
        self._steps = []
        self._operands = _Operands()


class Sequence(Recording):
    """Made by Client.sequence."""

    def __init__(self, client: "Client", device: str,
                 timeout: Optional[float], key: str = "") -> None:
        super().__init__(device, timeout, key)
        self._client = client

    def __enter__(self) -> "Sequence":
        self._begin()
        return self

    def __exit__(self, kind: Optional[type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.done = True
        try:
            if error is None and self._steps:
                with time_left.within(self._client._seconds(self._timeout)):
                    self._share(self._client._regions)
                    left = told(time_left.left())
                with self._sharing():
                    response = self._client._run(self._rpc(), left)
                self._take(response)
        finally:
            self._forget()


class AsyncSequence(Recording):
    """Made by AsyncClient.sequence."""

    def __init__(self, client: "AsyncClient", device: str,
                 timeout: Optional[float], key: str = "") -> None:
        super().__init__(device, timeout, key)
        self._client = client

    async def __aenter__(self) -> "AsyncSequence":
        self._begin()
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]],
                        error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self.done = True
        try:
            if error is None and self._steps:
                with time_left.within(self._client._seconds(self._timeout)):
                    await self._client._aside(self._share)
                    left = told(time_left.left())
                with self._sharing():
                    response = await self._client._run(self._rpc(), left)
                self._take(response)
        finally:
            self._forget()
