"""A daemon in a few lines of Python, for tests of clients and of the
conformance suite. It multiplies in float64 and rounds as the contract says.

`fault` makes it wrong in one way, to prove that the suite notices.
"""

import secrets
import time
from concurrent import futures

import grpc
import numpy as np

from gemmd import api, arrays, wire


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _require(condition, message):
    if not condition:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, message)


def _parse(data, layout, dtype, rows, columns, order, name):
    width, lines = ((columns, rows) if order == api.ROW_MAJOR
                    else (rows, columns))
    leading = layout.leading_dimension or width
    _require(leading >= width, f"{name}.inline.leading_dimension is "
             f"{leading}; at least {width}")
    item = np.dtype(dtype).itemsize
    tight = ((lines - 1) * leading + width) * item if lines and width else 0
    _require(len(data) in (tight, lines * leading * item),
             f"{name}: {len(data)} bytes; {tight} expected")
    if not tight:
        return np.zeros((rows, columns), dtype)
    padded = bytes(data).ljust(lines * leading * item, b"\0")
    matrix = np.frombuffer(padded, dtype=dtype, count=lines * leading)
    matrix = matrix.reshape(lines, leading)[:, :width]
    return matrix if order == api.ROW_MAJOR else matrix.T


def _bytes(matrix, order, leading):
    lines = matrix if order == api.ROW_MAJOR else matrix.T
    if 0 in lines.shape:
        return b""
    leading = leading or lines.shape[1]
    _require(leading >= lines.shape[1], "d.inline.leading_dimension is small")
    padded = np.zeros((lines.shape[0], leading), lines.dtype)
    padded[:, :lines.shape[1]] = lines
    tail = (leading - lines.shape[1]) * lines.dtype.itemsize
    data = padded.tobytes()
    return data[:len(data) - tail]


def _announced(context):
    metadata = dict(context.invocation_metadata())
    return int(metadata.get("gemmd-message-bytes", 0))


class FakeDaemon:
    """Serves gemmd.v1 at `address`, by default a free loopback port: `target`.
    """

    def __init__(self, fault="", address="127.0.0.1:0"):
        self.fault = fault
        self.kernels = {
            key: api.KernelSummary(key=key, kernel=name, cubin_bytes=1)
            for key, name in (("ab" * 32, "gemm_one"), ("ac" * 32, "gemm_two"))}
        self.tensors = {}
        # What the next unary calls are refused with: milliseconds after which
        # they may be tried again, or -1.
        self.full = []
        self.not_serving = 0  # Health checks to answer so, before SERVING.
        self.headers = []  # MatmulHeader of every product, newest last.
        # (bytes that were announced, bytes that came) of products' messages
        # and of the largest of each upload, newest last.
        self.announced = []
        self._server = grpc.server(
            futures.ThreadPoolExecutor(4),
            options=(("grpc.max_receive_message_length", -1),
                     ("grpc.max_send_message_length", -1)))
        self._server.add_generic_rpc_handlers([self._handlers()])
        port = self._server.add_insecure_port(address)
        self.target = (address if address.startswith("unix:")
                       else f"127.0.0.1:{port}")
        self._server.start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._server.stop(None).wait()

    def _handlers(self):
        def unary(function, request=None):
            def call(message, context):
                if request is None:
                    self.announced.append((_announced(context), len(message)))
                if self.full:
                    context.set_trailing_metadata(
                        (("grpc-retry-pushback-ms", str(self.full.pop(0))),))
                    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
                try:
                    reply = function(message)
                except Refused as refused:
                    context.abort(refused.code, str(refused))
                return (reply if isinstance(reply, bytes)
                        else reply.SerializeToString())
            return grpc.unary_unary_rpc_method_handler(
                call, request_deserializer=request and request.FromString)

        methods = {
            "MatmulService/Matmul": unary(self._matmul),
            "ServerService/GetServerInfo": unary(
                self._info, api.GetServerInfoRequest),
            "ServerService/GetStatistics": unary(
                self._statistics, api.GetStatisticsRequest),
            "KernelService/ListKernels": unary(
                lambda _: api.ListKernelsResponse(
                    kernels=self.kernels.values()), api.ListKernelsRequest),
            "KernelService/DescribeKernel": unary(
                self._describe_kernel, api.DescribeKernelRequest),
            "KernelService/EvictKernel": unary(
                self._evict_kernel, api.EvictKernelRequest),
            "TensorService/CreateTensor": unary(
                self._create, api.CreateTensorRequest),
            "TensorService/DescribeTensor": unary(
                lambda request: self._find(request.handle)[0],
                api.DescribeTensorRequest),
            "TensorService/ListTensors": unary(
                self._list_tensors,
                api.ListTensorsRequest),
            "TensorService/DeleteTensor": unary(
                self._delete, api.DeleteTensorRequest),
            "TensorService/UploadTensor": grpc.stream_unary_rpc_method_handler(
                self._upload, api.UploadTensorRequest.FromString,
                lambda info: info.SerializeToString()),
            "TensorService/DownloadTensor":
                grpc.unary_stream_rpc_method_handler(
                    self._download, api.DownloadTensorRequest.FromString),
        }
        handlers = {f"/gemmd.v1.{name}": handler
                    for name, handler in methods.items()}
        handlers["/grpc.health.v1.Health/Check"] = unary(self._health)
        return _Handlers(handlers)

    def _health(self, _):
        """HealthCheckResponse with status = NOT_SERVING or SERVING."""
        if self.not_serving:
            self.not_serving -= 1
            return b"\x08\x02"
        return b"\x08\x01"

    def _info(self, _):
        info = api.ServerInfo(version="fake", compiler="none")
        info.devices.add(name="host", description="numpy")
        return info

    def _statistics(self, _):
        statistics = api.Statistics(requests=7)
        statistics.cache.rejected_at_once = 3
        statistics.cache.tiers.add(name="disk", hits=11, misses=12, errors=13,
                                   bytes_loaded=14, bytes_stored=15,
                                   load_us=16)
        statistics.cache.tiers.add(name="shared")
        return statistics

    def _kernel(self, key):
        if key not in self.kernels:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"no kernel {key}")
        return self.kernels[key]

    def _describe_kernel(self, request):
        return api.KernelDescription(summary=self._kernel(request.key))

    def _evict_kernel(self, request):
        self._kernel(request.key)
        del self.kernels[request.key]
        return api.EvictKernelResponse()

    def _find(self, handle):
        if handle not in self.tensors:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"no tensor {handle}")
        return self.tensors[handle]

    def _list_tensors(self, request):
        """Two at a time, so that clients ask for more."""
        handles = [handle for handle in sorted(self.tensors)
                   if handle > request.page_token]
        return api.ListTensorsResponse(
            tensors=[self.tensors[handle][0] for handle in handles[:2]],
            next_page_token=handles[1] if handles[2:] else "")

    def _create(self, request):
        for name in ("rows", "columns"):
            value = getattr(request, name)
            _require(0 < value < 2 ** 24, f"{name} is {value}")
        handle = secrets.token_hex(16)
        info = api.TensorInfo(
            handle=handle, dtype=request.dtype, rows=request.rows,
            columns=request.columns, order=request.order or api.ROW_MAJOR,
            device="host", label=request.label)
        self.tensors[handle] = (info, np.zeros(
            (request.rows, request.columns), arrays.numpy_type(request.dtype)))
        return info

    def _delete(self, request):
        self._find(request.handle)
        del self.tensors[request.handle]
        return api.DeleteTensorResponse()

    def _upload(self, requests, context):
        header = next(requests).header
        info, matrix = self._find(header.handle)
        parts = list(requests)
        self.announced.append((_announced(context),
                               max(part.ByteSize() for part in parts)))
        data = b"".join(part.data for part in parts)
        matrix[...] = _parse(data, header.layout, matrix.dtype, *matrix.shape,
                             info.order, "data")
        return info

    def _download(self, request, context):
        try:
            info, matrix = self._find(request.handle)
        except Refused as refused:
            context.abort(refused.code, str(refused))
        data = _bytes(matrix, info.order, request.layout.leading_dimension)
        for start in range(0, len(data), request.chunk_bytes or 1 << 20):
            chunk = data[start:start + (request.chunk_bytes or 1 << 20)]
            yield wire.field(1, len(chunk)) + chunk

    def _operand(self, name, header, parts, number, dtype, rows, columns,
                 order):
        source = getattr(header, name)
        if source.WhichOneof("kind") == "tensor":
            info, matrix = self._find(source.tensor)
            found = (info.dtype, info.rows, info.columns, info.order)
            if source.transposed:
                matrix = matrix.T
                found = (info.dtype, info.columns, info.rows, 3 - info.order)
            _require(found == (dtype, rows, columns, order),
                     f"{name}.tensor: wrong type, shape or order")
            return matrix
        return _parse(parts.get(number, b""), source.inline,
                      arrays.numpy_type(dtype), rows, columns, order, name)

    def _matmul(self, message):
        parts = dict(wire.fields(message))
        header = api.MatmulHeader.FromString(bytes(parts[1]))
        self.headers.append(header)
        if header.device == "slow":
            time.sleep(0.5)
        problem = header.problem
        self._check(header)
        m, n, k = problem.m, problem.n, problem.k
        beta = np.float32(problem.beta)
        order = problem.d_order or api.ROW_MAJOR
        acc = np.zeros((m, n))
        alpha = np.float32(problem.alpha if problem.HasField("alpha") else 1)
        if alpha != 0 and k:
            a = self._operand("a", header, parts, 2, problem.a_type, m, k,
                              problem.a_order or api.ROW_MAJOR)
            b = self._operand("b", header, parts, 3, problem.b_type, k, n,
                              problem.b_order or api.ROW_MAJOR)
            acc = self._product(a, b)
        with np.errstate(all="ignore"):
            result = np.float64(alpha) * acc if k else acc
            if beta != 0 or self.fault == "reads_c" and (
                    header.c.WhichOneof("kind") == "tensor"):
                c = self._operand("c", header, parts, 4,
                                  problem.c_type or problem.d_type, m, n,
                                  order)
                result += beta * c.astype(np.float64)
            d = result.astype(np.float32).astype(
                arrays.numpy_type(problem.d_type))
        if self.fault == "last_column" and n > 1:
            d[:, -1] = d[:, -2]
        head = api.Execution(device="host fake", kernel="numpy",
                             cubin_key="0" * 64).SerializeToString()
        reply = wire.field(1, len(head)) + head
        if header.d.WhichOneof("kind") == "tensor":
            self._find(header.d.tensor)[1][...] = d
            return reply
        data = _bytes(d, order, header.d.inline.leading_dimension)
        if self.fault == "cut_off":
            data = data[:-1]
        if self.fault == "more":
            data += bytes(1)
        if self.fault == "nothing":
            return reply
        return reply + wire.field(2, len(data)) + data

    def _product(self, a, b):
        a, b = a.astype(np.float64), b.astype(np.float64)
        if self.fault == "flush":
            a = np.where(np.abs(a) < 2.0 ** -14, 0, a)
        if self.fault == "drop_tail" and a.shape[1] % 16 == 8:
            a, b = a[:, :-8], b[:-8]
        with np.errstate(all="ignore"):
            if self.fault == "f16_sums":
                total = np.zeros((a.shape[0], b.shape[1]), np.float16)
                for step in range(a.shape[1]):
                    total += np.outer(a[:, step], b[step]).astype(np.float16)
                return total.astype(np.float64)
            if self.fault == "skip_zeros":
                a = np.where(np.any(b != 0, axis=1), a, 0)
            d = a @ b
        if self.fault == "noise":
            d *= 1 + 2.0 ** -7
        if self.fault == "swap_blocks" and d.shape[0] >= 128:
            d[:128] = np.roll(d[:128], 64, axis=0)
        return d

    def _check(self, header):
        problem = header.problem
        _require(header.device in ("", "host", "slow"),
                 f"device is {header.device}; served: host")
        for name in ("m", "n", "k"):
            value = getattr(problem, name)
            _require(0 <= value < 2 ** 31, f"problem.{name} is {value}")
        _require(problem.batch >= 0, "problem.batch is negative")
        for name in ("a_order", "b_order", "d_order"):
            _require(getattr(problem, name) <= 2, f"problem.{name} is unknown")
        inputs = {arrays.wire_type(np.float16),
                  api.enum("DataType")["DATA_TYPE_BF16"]}
        if (problem.HasField("batch") and problem.batch != 1
                or problem.HasField("epilogue") and
                problem.epilogue != api.message("Epilogue")()
                or problem.activation or problem.sparsity
                or problem.b_sparsity
                or problem.precision or problem.accumulator > 1
                or problem.a_type not in inputs
                or problem.a_type != problem.b_type
                or problem.d_type not in inputs | {arrays.wire_type("f4")}
                or problem.c_type not in (0, problem.d_type,
                                          arrays.wire_type("f4"))):
            raise Refused(grpc.StatusCode.UNIMPLEMENTED,
                          "not served: a_type "
                          + api.enum_name("DataType", problem.a_type))
        _require(max(problem.m, problem.k) * max(problem.n, problem.k)
                 < 2 ** 30, "too large")


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, handlers):
        self._handlers = handlers

    def service(self, details):
        return self._handlers.get(details.method)


