"""Products by several connections: what they read and return is of tensors for
the time of the call."""

import math
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import api, errors, rpcs
from .caller import Caller
from .connections import Connections
from .message_room import message_room
from .stripes import Deadline
from .striped import download, upload

if TYPE_CHECKING:
    from .product import Call, Product

# Less goes with the product: to make a tensor of it takes two calls.
_LEAST_OPERAND_BYTES = 1 << 20
# For the daemon to forget them all when the time of the call has passed.
_FORGETTING_S = 1.0
_LIFETIME_CONNECTION = api.enum("CreateTensorRequest.Lifetime")[
    "LIFETIME_CONNECTION"]


def serves(stripes: Connections, call: "Call") -> bool:
    """Whether a product goes by several connections if the daemon has room."""
    if (stripes.count_for(call.travelling_bytes()) == 1
            or not call.streams(0)):
        return False
    problem = call.header.problem
    # No tensor holds an auxiliary result, and a stream brings it beside D. What
    # is in device memory says on which device all is to be.
    if (problem.epilogue.auxiliary or call.is_on_device
            or min(problem.m, problem.n, problem.k, _batch(problem)) < 1):
        return False
    # Gaps between matrices are for streams.
    return not any(getattr(call.header, name).inline.batch_stride
                   for name in _large(call))


async def multiply(caller: Caller, call: "Call",
                   timeout: Optional[float]) -> Optional["Product"]:
    """One that serves(). None where the daemon has no room for tensors of what
    it reads and returns, or in a message for what is in none."""
    problem = call.header.problem
    header = api.MatmulHeader.FromString(call.header.SerializeToString())
    buffers = dict(call.buffers)
    deadline = Deadline(caller._seconds(timeout))
    large = _large(call)
    d = _result(call, header)
    # What no tensor takes goes in one message.
    rest = call.travelling_bytes() - sum(map(len, large.values())) - (
        0 if d is None else len(d))
    if rest > await message_room(caller, rest, deadline.left()):
        return None
    temporaries = _Temporaries(caller, header.device, deadline)
    try:
        try:
            for name in ("a", "b", "c", "d"):
                handle = getattr(header, name).tensor
                if handle and not temporaries.device:
                    info = await caller._run(rpcs.describe_tensor(handle),
                                             deadline.left())
                    temporaries.device = info.device
            for name, data in large.items():
                source = getattr(header, name)
                layout = api.Layout.FromString(
                    source.inline.SerializeToString())
                serves_all = (layout.HasField("batch_stride")
                              and not layout.batch_stride)
                layout.ClearField("batch_stride")
                handle = await temporaries.create(_tensor_of(
                    problem, name, 1 if serves_all else _batch(problem)))
                await upload(caller, handle, layout, data, deadline.left())
                source.tensor = handle
                buffers[name] = None
            if d is not None:
                header.d.tensor = await temporaries.create(
                    _tensor_of(problem, "d", _batch(problem)))
        except (errors.ResourceExhausted, errors.InvalidArgument,
                errors.NotFound, errors.PermissionDenied,
                errors.Unimplemented):
            # The stream that is tried then does it, or says what is wrong in
            # the words of a product.
            return None
        header.device = temporaries.device
        response = await caller._run(rpcs.matmul(header, **buffers),
                                     deadline.left())
        if d is not None:
            await download(caller, header.d.tensor,
                           api.Layout(order=problem.d_order), d,
                           deadline.left())
            response = response._replace(d=d)
        return call.product(response)
    finally:
        await temporaries.delete()


def _tensor_of(problem: Any, name: str, count: int) -> Any:
    """The CreateTensorRequest of an operand or result that is no tensor."""
    rows = problem.k if name == "b" else problem.m
    columns = problem.k if name == "a" else problem.n
    request = api.CreateTensorRequest(
        dtype=getattr(problem, f"{name}_type"), rows=rows, columns=columns,
        order=getattr(problem, f"{'d' if name == 'c' else name}_order"),
        count=count, lifetime=_LIFETIME_CONNECTION)
    if name == "a":
        request.sparsity = problem.sparsity
    elif name == "b":
        request.sparsity = problem.b_sparsity
    if name in ("a", "b") and problem.HasField("quantization"):
        other = problem.b_type if name == "a" else problem.a_type
        if api.BITS[request.dtype] < api.BITS[other]:
            request.quantization.CopyFrom(problem.quantization)
    return request


class _Temporaries:
    """Tensors for the time of a call, all on one device."""

    def __init__(self, caller: Caller, device: str,
                 deadline: Deadline) -> None:
        self.device = device
        self._caller = caller
        self._deadline = deadline
        self._handles: list[str] = []

    async def create(self, request: Any) -> str:
        request.device = self.device
        info = await self._caller._make(rpcs.create(request),
                                        self._deadline.left())
        self.device = info.device
        self._handles.append(info.handle)
        return str(info.handle)

    async def delete(self) -> None:
        await self._caller._clean_up(self._delete())

    async def _delete(self) -> None:
        limit = Deadline(max(self._deadline.left(), _FORGETTING_S))
        while self._handles:
            try:
                await self._caller._run(
                    rpcs.delete_tensor(self._handles.pop()), limit.left())
            except errors.Error:
                pass  # It goes with the connection.


def _batch(problem: Any) -> int:
    return int(problem.batch) if problem.HasField("batch") else 1


def _large(call: "Call") -> dict[str, memoryview]:
    """The operands that go to tensors."""
    return {name: data for name in ("a", "b", "c")
            if (data := call.buffers.get(name)) is not None
            and len(data) >= _LEAST_OPERAND_BYTES}


def _result(call: "Call", header: Any) -> Optional[memoryview]:
    """Memory for D, which is to go to a tensor; None: it does as it is."""
    size = math.prod(call.shape) * call.dtype.itemsize
    if (header.d.WhichOneof("kind") != "inline"
            or size < _LEAST_OPERAND_BYTES):
        return None
    return np.empty(size, np.uint8).data
