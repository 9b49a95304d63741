"""Transfers of a Client, by several connections where there are many bytes."""

import math
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import api, errors, rpcs, wire
from .stripes import Deadline, check_filled, filled, split, transfer

if TYPE_CHECKING:
    from .client import Client
    from .product import Call, Product

# Less goes with the product: to make a tensor of it takes two calls.
_LEAST_OPERAND_BYTES = 1 << 20
# For the daemon to forget them all when the time of the call has passed.
_FORGETTING_S = 1.0
_LIFETIME_CONNECTION = api.enum("CreateTensorRequest.Lifetime")[
    "LIFETIME_CONNECTION"]


def upload(client: "Client", handle: str, layout: Any, data: wire.Buffer,
           timeout: Optional[float]) -> None:
    """Replaces all elements of a tensor by those in `data`."""
    connections = client._stripes.count_for(len(data))
    deadline = Deadline(client._seconds(timeout))
    stripes = []
    if connections > 1:
        info = client._run(rpcs.describe_tensor(handle), deadline.left())
        stripes = split(info, layout, len(data), connections)
    if stripes:
        part = api.UploadTensorRequest.Part(transfer=transfer())
        calls = []
        for stripe in stripes:
            part.lines.CopyFrom(stripe.lines())
            calls.append(rpcs.upload_lines(
                handle, layout, data[stripe.start:stripe.end],
                api.UploadTensorRequest.Part.FromString(
                    part.SerializeToString())))
        try:
            client._run_together(calls, deadline.left(),
                                 lambda i, message: None)
            return
        except errors.ResourceExhausted:
            pass  # There may be room for one call.
    client._run(rpcs.upload_lines(handle, layout, data), deadline.left())


def download(client: "Client", handle: str, layout: Any, target: memoryview,
             timeout: Optional[float]) -> None:
    """Fills `target` with all elements of a tensor; lines are tight."""
    connections = client._stripes.count_for(len(target))
    deadline = Deadline(client._seconds(timeout))
    stripes = []
    if connections > 1:
        info = client._run(rpcs.describe_tensor(handle), deadline.left())
        stripes = split(info, layout, len(target), connections)
    if stripes:
        positions = [stripe.start for stripe in stripes]

        def take(i: int, chunk: memoryview) -> None:
            positions[i] = filled(target[:stripes[i].end], positions[i],
                                  chunk)

        try:
            client._run_together(
                [rpcs.download_lines(handle, layout, stripe.lines(),
                                     info.version) for stripe in stripes],
                deadline.left(), take)
            for stripe, position in zip(stripes, positions):
                check_filled(target[:stripe.end], position)
            return
        except errors.ResourceExhausted:
            pass  # As above.
    position = 0
    for chunk in client._stream(rpcs.download_lines(handle, layout),
                                deadline.left()):
        position = filled(target, position, chunk)
    check_filled(target, position)


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

    def __init__(self, client: "Client", device: str,
                 deadline: Deadline) -> None:
        self.device = device
        self._client = client
        self._deadline = deadline
        self._handles: list[str] = []

    def create(self, request: Any) -> str:
        request.device = self.device
        info = self._client._run(rpcs.create(request), self._deadline.left())
        self.device = info.device
        self._handles.append(info.handle)
        return str(info.handle)

    def delete(self) -> None:
        left = self._deadline.left()
        limit = Deadline(None if left is None else max(left, _FORGETTING_S))
        for handle in self._handles:
            try:
                self._client._run(rpcs.delete_tensor(handle), limit.left())
            except errors.Error:
                pass  # It goes with the connection.


def multiply(client: "Client", call: "Call",
             timeout: Optional[float]) -> Optional["Product"]:
    """None where the product does not go that way, or the daemon has no room
    for tensors of what it reads and returns."""
    problem = call.header.problem
    batch = problem.batch if problem.HasField("batch") else 1
    # No tensor holds an auxiliary result, and a stream brings it beside D. What
    # is in device memory says on which device all is to be.
    if (problem.epilogue.auxiliary or call.is_on_device
            or min(problem.m, problem.n, problem.k, batch) < 1):
        return None
    header = api.MatmulHeader.FromString(call.header.SerializeToString())
    buffers = dict(call.buffers)
    large = {name: data for name in ("a", "b", "c")
             if (data := buffers.get(name)) is not None
             and len(data) >= _LEAST_OPERAND_BYTES}
    # Gaps between matrices are for streams.
    if any(getattr(header, name).inline.batch_stride for name in large):
        return None
    deadline = Deadline(client._seconds(timeout))
    temporaries = _Temporaries(client, header.device, deadline)
    try:
        try:
            for name in ("a", "b", "c", "d"):
                handle = getattr(header, name).tensor
                if handle and not temporaries.device:
                    temporaries.device = client._run(
                        rpcs.describe_tensor(handle), deadline.left()).device
            for name, data in large.items():
                source = getattr(header, name)
                layout = api.Layout.FromString(
                    source.inline.SerializeToString())
                serves_all = (layout.HasField("batch_stride")
                              and not layout.batch_stride)
                layout.ClearField("batch_stride")
                handle = temporaries.create(
                    _tensor_of(problem, name, 1 if serves_all else batch))
                upload(client, handle, layout, data, deadline.left())
                source.tensor = handle
                buffers[name] = None
            d = _result(call, header, temporaries, batch)
        except (errors.ResourceExhausted, errors.InvalidArgument,
                errors.NotFound, errors.PermissionDenied,
                errors.Unimplemented):
            # The stream that is tried then does it, or says what is wrong in
            # the words of a product.
            return None
        header.device = temporaries.device
        response = client._run(rpcs.matmul(header, **buffers),
                               deadline.left())
        if d is not None:
            download(client, header.d.tensor,
                     api.Layout(order=problem.d_order), d, deadline.left())
            response = response._replace(d=d)
        return call.product(response)
    finally:
        temporaries.delete()


def _result(call: "Call", header: Any, temporaries: _Temporaries,
            batch: int) -> Optional[memoryview]:
    """Memory for D, which is to go to a tensor; None: it does as it is."""
    size = math.prod(call.shape) * call.dtype.itemsize
    if (header.d.WhichOneof("kind") != "inline"
            or size < _LEAST_OPERAND_BYTES):
        return None
    header.d.tensor = temporaries.create(
        _tensor_of(header.problem, "d", batch))
    return np.empty(size, np.uint8).data
