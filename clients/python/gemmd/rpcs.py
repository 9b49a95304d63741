"""Every call of the API, as what a channel sends and how the answer is read.

Client and AsyncClient run the same calls.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Optional, TypeVar, Union

import numpy as np

from . import api, arrays, wire
from .arguments import check_flag, check_integer, check_text
from .errors import InvalidArgument, Unimplemented
from .quantized import Quantization
from .wire import Place

R = TypeVar("R")

# Smaller messages are written whether the daemon reads or not.
_LEAST_STALLED_BYTES = 64 << 10


# A NamedTuple is not generic before Python 3.11.
@dataclasses.dataclass(frozen=True)
class Rpc(Generic[R]):
    method: str                # "/gemmd.v1.TensorService/CreateTensor".
    request: Union[bytes, Iterator[bytes]]
    parse: Callable[[wire.Buffer], R]
    kind: str = "unary_unary"  # What a channel calls it.
    message_bytes: int = 0     # Of the largest message, where it is large.
    key: str = ""              # Of idempotency; "": none.

    @property
    def repeatable(self) -> bool:
        """A stream is gone once it has been sent."""
        return isinstance(self.request, bytes)

    @property
    def may_stall(self) -> bool:
        """Whether gRPC waits for what it is writing, also when the time is up:
        for ever where the daemon has stopped reading."""
        return self.message_bytes > _LEAST_STALLED_BYTES

    def with_key(self, key: str) -> "Rpc[R]":
        """The same call with another key."""
        return dataclasses.replace(self, key=key)


def _unary(method: str, request: Any, response: Any) -> Rpc[Any]:
    return Rpc(f"/gemmd.v1.{method}", request.SerializeToString(),
               response.FromString)


def matmul(header: Any,
           **operands: Optional[wire.Buffer]) -> Rpc[wire.Response]:
    request = wire.matmul_request(header, **operands)
    return Rpc("/gemmd.v1.MatmulService/Matmul", request,
               wire.parse_matmul_response, message_bytes=len(request))


def matmul_stream(header: Any, operands: wire.Operands,
                  room: int) -> Rpc[wire.Response]:
    """`room` as message_room() has it."""
    chunk = min(wire.CHUNK_BYTES, room)
    return Rpc("/gemmd.v1.MatmulService/MatmulStream",
               wire.stream_requests(header, operands, chunk),
               wire.parse_stream_response, "stream_stream",
               chunk + wire.STREAM_PREFIX_BYTES)


def matmul_grouped(
        groups: Iterable[tuple[Any, wire.Operands]]
) -> Rpc[list[wire.Response]]:
    request = wire.grouped_request(groups)
    return Rpc("/gemmd.v1.MatmulService/MatmulGrouped", request,
               wire.parse_grouped_response, message_bytes=len(request))


def sequence(steps: Iterable[Any], operands: Iterable[wire.Named],
             device: str) -> Rpc[wire.SequenceResponse]:
    request = wire.sequence_request(steps, operands, device)
    return Rpc("/gemmd.v1.MatmulService/Sequence", request,
               wire.parse_sequence_response, message_bytes=len(request))


def create(request: Any) -> Rpc[Any]:
    """Of a CreateTensorRequest."""
    return _unary("TensorService/CreateTensor", request, api.TensorInfo)


def _check_ttl(ttl_s: Any) -> int:
    """Whole seconds, no fewer than those: 0 is the daemon's default."""
    seconds = arrays.check_number(ttl_s, "ttl_s")
    if not 0 <= seconds < math.inf:
        raise InvalidArgument(f"ttl_s: {seconds:g}; allowed: seconds, or 0, "
                              "the daemon's default")
    return check_integer(math.ceil(seconds), "ttl_s")


def create_tensor(shape: tuple[int, ...], dtype: Any, *, order: str,
                  device: str, ttl_s: float, label: str,
                  sparse: bool = False,
                  quantization: Optional[Quantization] = None) -> Rpc[Any]:
    rows, columns = arrays.check_shape(shape)
    if arrays.check_dtype(dtype) == np.bool_:
        raise Unimplemented("dtype: tensors of bool are made by other clients;"
                            " bool arrays and Bits are sent with each product")
    request = api.CreateTensorRequest(
        dtype=arrays.wire_type(dtype), rows=rows, columns=columns,
        order=arrays.wire_order(order), ttl_s=_check_ttl(ttl_s),
        device=check_text(device, "device"), label=check_text(label, "label"),
        sparsity=arrays.wire_sparsity(check_flag(sparse, "sparse")))
    if quantization is not None:
        if not isinstance(quantization, Quantization):
            raise InvalidArgument(f"quantization: {quantization!r}; allowed: "
                                  "that of a QuantizedMatrix")
        quantization.fill(request)
    return create(request)


def describe_tensor(handle: str) -> Rpc[Any]:
    request = api.DescribeTensorRequest(handle=check_text(handle, "handle"))
    return _unary("TensorService/DescribeTensor", request, api.TensorInfo)


def list_tensors(page_token: str) -> Rpc[Any]:
    return _unary("TensorService/ListTensors",
                  api.ListTensorsRequest(page_token=page_token),
                  api.ListTensorsResponse)


def delete_tensor(handle: str) -> Rpc[Any]:
    return _unary("TensorService/DeleteTensor",
                  api.DeleteTensorRequest(handle=handle),
                  api.DeleteTensorResponse)


def upload_lines(handle: str, layout: Any, data: wire.Buffer, room: int,
                 part: Any = None) -> Rpc[Any]:
    """`room` as message_room() has it."""
    chunk = min(wire.CHUNK_BYTES, room)
    return Rpc("/gemmd.v1.TensorService/UploadTensor",
               wire.upload_requests(handle, layout, data, chunk, part),
               api.TensorInfo.FromString, "stream_unary",
               min(len(data), chunk) + wire.UPLOAD_PREFIX_BYTES)


def download_lines(handle: str, layout: Any, lines: Any = None,
                   version: Optional[int] = None) -> Rpc[memoryview]:
    request = api.DownloadTensorRequest(
        handle=handle, layout=layout, chunk_bytes=4 << 20, lines=lines,
        version=version)
    return Rpc("/gemmd.v1.TensorService/DownloadTensor",
               request.SerializeToString(), wire.parse_download_response,
               "unary_stream")


def upload_from(place: Place, handle: str, layout: Any) -> Rpc[Any]:
    """Of all elements, which lie in a region."""
    request = api.UploadTensorRequest()
    request.header.handle = handle
    wire.set_place(request.header.region, place, layout)
    return Rpc("/gemmd.v1.TensorService/UploadTensor",
               iter([request.SerializeToString()]), api.TensorInfo.FromString,
               "stream_unary", 0)


def download_to(place: Place, handle: str, layout: Any) -> Rpc[memoryview]:
    """Of all elements, to a region: in no chunk."""
    request = api.DownloadTensorRequest(handle=handle)
    wire.set_place(request.region, place, layout)
    return Rpc("/gemmd.v1.TensorService/DownloadTensor",
               request.SerializeToString(), wire.parse_download_response,
               "unary_stream")


def create_region(handle: str) -> Rpc[Any]:
    return _unary("RegionService/CreateRegion",
                  api.CreateRegionRequest(handle=handle), api.RegionInfo)


def create_device_region(handle: str, uuid: str, size: int,
                         ipc_handle: bytes) -> Rpc[Any]:
    """Of device memory whose descriptor was sent, or of an IPC handle."""
    request = api.CreateRegionRequest(handle=handle)
    request.device_memory.device_uuid = uuid
    request.device_memory.bytes = size
    request.device_memory.ipc_handle = ipc_handle
    return _unary("RegionService/CreateRegion", request, api.RegionInfo)


def server_info() -> Rpc[Any]:
    return _unary("ServerService/GetServerInfo", api.GetServerInfoRequest(),
                  api.ServerInfo)


def statistics() -> Rpc[Any]:
    return _unary("ServerService/GetStatistics", api.GetStatisticsRequest(),
                  api.Statistics)


def list_kernels(page_token: str = "") -> Rpc[Any]:
    return _unary("KernelService/ListKernels",
                  api.ListKernelsRequest(page_token=page_token),
                  api.ListKernelsResponse)


def describe_kernel(key: str) -> Rpc[Any]:
    return _unary("KernelService/DescribeKernel",
                  api.DescribeKernelRequest(key=check_text(key, "key")),
                  api.KernelDescription)


def prepare_kernels(problems: Any, groups: Any, device: str) -> Rpc[Any]:
    device = check_text(device, "device")
    try:
        request = api.PrepareKernelsRequest(
            problems=problems, device=device,
            groups=[api.ProblemGroup(problems=group) for group in groups])
    except (TypeError, ValueError, AttributeError):
        raise InvalidArgument("problems: allowed are api.Problem messages, and "
                              "as groups lists of them") from None
    return _unary("KernelService/PrepareKernels", request,
                  api.PrepareKernelsResponse)


def evict_kernel(key: str) -> Rpc[Any]:
    return _unary("KernelService/EvictKernel",
                  api.EvictKernelRequest(key=check_text(key, "key")),
                  api.EvictKernelResponse)


def _is_serving(response: wire.Buffer) -> bool:
    """HealthCheckResponse.status = SERVING."""
    return response == b"\x08\x01"


def check_health() -> Rpc[bool]:
    return Rpc("/grpc.health.v1.Health/Check", b"", _is_serving)
