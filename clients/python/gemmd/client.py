"""A connection to a gemmd daemon."""

from typing import NamedTuple, Union

import grpc
import numpy as np

from . import api, arrays, errors, product, wire
from .tensor import Tensor

_OPTIONS = (
    # The daemon's own limit (ServerInfo.limits.max_message_bytes) decides.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)


class Product(NamedTuple):
    """A result and how it came about."""
    d: Union[np.ndarray, Tensor]
    # gemmd.v1.Execution: device, kernel, cubin_key, cubin_source, phases.
    execution: object


class Client:
    """A connection to the daemon at `target`, such as "localhost:50051" or
    "unix:/run/gemmd.sock".

    Connects on first use. `credentials` (grpc.ChannelCredentials) makes it a
    TLS connection. `timeout` in seconds is the default of every method; None
    waits without a limit. Thread-safe. Every method raises gemmd.Error.
    """

    def __init__(self, target: str, *, credentials=None, timeout=None):
        self._timeout = timeout
        if credentials is None:
            self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        else:
            self._channel = grpc.secure_channel(target, credentials,
                                                options=_OPTIONS)
        self._matmul = self._channel.unary_unary(
            "/gemmd.v1.MatmulService/Matmul",
            request_serializer=None,
            response_deserializer=wire.parse_matmul_response)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        """Closes the connection; running calls are cancelled."""
        self._channel.close()

    def matmul(self, a, b, *, c=None, alpha=1.0, beta=0.0, out_dtype=None,
               out_order=None, out=None, device="", timeout=None):
        """alpha * a @ b + beta * c.

        a (m, k), b (k, n) and c (m, n) are arrays or Tensors; a and b are
        float16 or ml_dtypes.bfloat16, of one type. Arrays that are C- or
        F-contiguous, transposed or slightly padded are sent as they lie;
        others are copied first.

        out_dtype  float16, bfloat16 or float32. Default: the type of out,
                   else of c, else of a. c has the type of the result.
        out_order  "C" (default) or "F": the order in which the result lies.
        out        An array or Tensor (m, n) that receives the result. It may
                   be the Tensor given as c.
        device     "", the daemon's choice, or a name such as "cuda:0".

        Sums are kept in float32 and rounded once to out_dtype. beta = 0
        never reads c. Returns `out`, else a new array.
        """
        return self.product(
            a, b, c=c, alpha=alpha, beta=beta, out_dtype=out_dtype,
            out_order=out_order, out=out, device=device, timeout=timeout).d

    def product(self, a, b, *, timeout=None, **options) -> Product:
        """As matmul, but returns the result with its Execution."""
        call = product.Call(a, b, **options)
        execution, data = self.execute(call.header, call.a, call.b, call.c,
                                       timeout=timeout)
        return Product(call.result(data), execution)

    def execute(self, header, a=None, b=None, c=None, *, timeout=None):
        """The RPC itself: an api.MatmulHeader and buffers of operand bytes.

        Returns (Execution, view of D's bytes or None). For programs that
        hold matrices in another form than numpy arrays.
        """
        return self._try(self._matmul, wire.matmul_request(header, a, b, c),
                         timeout)

    def tensor(self, array, *, order=None, device="", ttl_s=0, label="",
               timeout=None) -> Tensor:
        """A matrix on the device with the elements of `array`.

        order  "C" or "F": how it lies on the device; default as the array.
        ttl_s  Seconds without use after which the daemon deletes it; 0 is
               the daemon's default.
        """
        array = arrays.check_matrix(array, "array")
        order = order or arrays.operand(array).order
        tensor = self.zeros(array.shape, array.dtype, order=order,
                            device=device, ttl_s=ttl_s, label=label,
                            timeout=timeout)
        try:
            return tensor.upload(array, timeout=timeout)
        except BaseException:
            tensor.delete()
            raise

    def zeros(self, shape, dtype, *, order="C", device="", ttl_s=0, label="",
              timeout=None) -> Tensor:
        """A matrix of zeros on the device."""
        if len(shape) != 2:
            raise errors.InvalidArgument(f"shape: {shape} is not (rows, "
                                         "columns)")
        request = api.CreateTensorRequest(
            dtype=arrays.wire_type(dtype), rows=shape[0], columns=shape[1],
            order=arrays.wire_order(order), ttl_s=ttl_s, device=device,
            label=label)
        return Tensor(self, self._call("TensorService/CreateTensor", request,
                                       api.TensorInfo, timeout))

    def tensors(self, *, timeout=None):
        """All tensors of the daemon."""
        response = self._call("TensorService/ListTensors",
                              api.ListTensorsRequest(),
                              api.ListTensorsResponse, timeout)
        return [Tensor(self, info) for info in response.tensors]

    def info(self, *, timeout=None):
        """ServerInfo: version, devices, compiler, limits, missing."""
        return self._call("ServerService/GetServerInfo",
                          api.GetServerInfoRequest(), api.ServerInfo, timeout)

    def statistics(self, *, timeout=None):
        """Statistics: counters of requests, bytes, tensors and the cache."""
        return self._call("ServerService/GetStatistics",
                          api.GetStatisticsRequest(), api.Statistics, timeout)

    def kernels(self, *, timeout=None):
        """KernelSummary of each cached kernel: key, kernel, loaded_on."""
        return list(self._call("KernelService/ListKernels",
                               api.ListKernelsRequest(),
                               api.ListKernelsResponse, timeout).kernels)

    def kernel(self, key, *, timeout=None):
        """KernelDescription: source, compile_log, registers and more."""
        return self._call("KernelService/DescribeKernel",
                          api.DescribeKernelRequest(key=key),
                          api.KernelDescription, timeout)

    def prepare(self, problems, *, device="", timeout=None):
        """Compiles and loads what api.Problem messages would use."""
        request = api.PrepareKernelsRequest(problems=problems, device=device)
        return list(self._call("KernelService/PrepareKernels", request,
                               api.PrepareKernelsResponse, timeout).kernels)

    def evict(self, key, *, timeout=None) -> None:
        """Forgets a cached kernel, on disk too."""
        self._call("KernelService/EvictKernel",
                   api.EvictKernelRequest(key=key), api.EvictKernelResponse,
                   timeout)

    def _try(self, method, request, timeout):
        try:
            return method(request, timeout=self._timeout if timeout is None
                          else timeout)
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None

    def _call(self, method, request, response_type, timeout):
        stub = self._channel.unary_unary(
            f"/gemmd.v1.{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response_type.FromString)
        return self._try(stub, request, timeout)

    def _stream_to(self, method, requests, timeout):
        stub = self._channel.stream_unary(
            f"/gemmd.v1.TensorService/{method}", request_serializer=None,
            response_deserializer=api.TensorInfo.FromString)
        return self._try(stub, requests, timeout)

    def _stream_from(self, method, request, timeout):
        stub = self._channel.unary_stream(
            f"/gemmd.v1.TensorService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=wire.parse_download_response)
        try:
            yield from stub(request, timeout=self._timeout if timeout is None
                            else timeout)
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None
