"""A connection to a gemmd daemon."""

import contextlib
import functools
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import (alike, arrays, errors, product, rpcs, security,
               striped_product, time_left, wire)
from .address import check_target
from .blocking_caller import (CLEANING_S, Blocking, BlockingCaller,
                              completed)
from .grouped import Groups
from .message_room import check_stream_bytes, message_room
from .pages import Pages
from .product import Call, Product
from .quantized import Quantization, quantization_of
from .retry import Attempts, check_key, check_timeout, told
from .sequence import Sequence
from .sparse import is_sparse
from .stripes import Deadline
from .tensor import Tensor, home_of, lie, matrix_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Products whose arrays and results have more bytes in all are streamed.
STREAM_BYTES = 64 << 20
# Between two looks at a daemon that answers but does not serve yet.
READY_POLL_S = 0.1


def default_target() -> str:
    """Where a daemon is, unless told otherwise: $GEMMD_SERVER."""
    return os.environ.get("GEMMD_SERVER") or "localhost:50051"


class Client(BlockingCaller):
    """A connection to the daemon at `target`, such as "localhost:50051" or
    "unix:/run/gemmd.sock"; the default is $GEMMD_SERVER, else the former.

    Connects on first use. `ca_file`, authorities in PEM or "system", makes it
    a TLS connection; `certificate_file` and `key_file` say who calls, or
    `token_file` does. Their defaults are $GEMMD_CA_FILE and so on, then what
    the file of $GEMMD_CONFIG says. `credentials` (grpc.ChannelCredentials)
    takes the place of the first three. `timeout` in seconds is the default of
    every method; None is no limit, nor is math.inf of a call. Products whose
    arrays and results have more than `stream_bytes` in all, without those that
    are shared (empty), or more than the daemon takes in a message, travel in
    chunks, and so may be of any size; others are one message. What has 32 MiB
    or more goes by `stripes` connections at a time, 1 to 8. With `checksums`,
    which need the package google-crc32c, every message is guarded by a CRC-32C
    in both directions: DataLoss where it was damaged on its way. Thread-safe.
    Every method raises gemmd.Error.
    """

    def __init__(self, target: Optional[str] = None, *,
                 credentials: Any = None,
                 ca_file: Optional[str] = None,
                 certificate_file: Optional[str] = None,
                 key_file: Optional[str] = None,
                 token_file: Optional[str] = None,
                 timeout: Optional[float] = None,
                 stream_bytes: int = STREAM_BYTES,
                 stripes: int = 1,
                 checksums: bool = False) -> None:
        self.target = check_target(target) or check_target(default_target())
        self._stream_bytes = check_stream_bytes(stream_bytes)
        super().__init__(self.target, security.connection(
            self.target, credentials, ca_file=ca_file,
            certificate_file=certificate_file, key_file=key_file,
            token_file=token_file), timeout, stripes, checksums)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.unpicklable(self, "another client, of its target")

    def __repr__(self) -> str:
        return (f"<gemmd.Client {self.target}"
                f"{', closed' if self._closed else ''}>")

    def wait_for_ready(
            self, timeout: Optional[float] = 30.0) -> "Client":
        """Returns once the daemon serves, and every connection to it that was
        lost is there again. DeadlineExceeded after `timeout` seconds."""
        end = time.monotonic() + told(check_timeout(timeout))
        while True:
            # A connection that ends meanwhile is not waited for by gRPC.
            with contextlib.suppress(errors.Unavailable), errors.named(
                    self.target, timeout):
                if self._serves(end):
                    return self
            time.sleep(READY_POLL_S)

    def _serves(self, end: float) -> bool:
        """What the daemon says by every connection that there is, each of
        which is waited for."""
        for channel in (self._channel, *self._stripes.made()):
            if not self._run(rpcs.check_health(), end - time.monotonic(),
                             channel, wait_for_ready=True):
                return False
        return True

    def matmul(self, a: Any, b: Any, *, timeout: Optional[float] = None,
               idempotency_key: str = "",
               **options: "Unpack[product.Options]") -> Any:
        """alpha * a @ b + beta * c, and what is named below.

        a (..., m, k), b (..., k, n) and c (..., m, n) are arrays of host
        memory (numpy's, or others' with DLPack or __array__), of the memory of
        the daemon's GPU on this machine (DLPack, __cuda_array_interface__; the
        target is a Unix socket), or Tensors. a
        and b are float32, float16 or ml_dtypes.bfloat16, of one type; any two
        of float8_e4m3fn and float8_e5m2; any two of int8 and uint8; or bool
        (or Bits), of which the places are counted where both are True. A
        vector counts as with numpy.matmul: as a row of a, a column of b.
        Leading dimensions are batches and are broadcast as numpy does.
        Arrays that are C- or F-contiguous, transposed or slightly padded are
        sent as they lie; others are copied first.

        c, alpha, beta  Default: None, 1.0 and, without c, 0.0. beta = 0 never
                   reads c, which has the type of the result or float32.
        out_dtype  float32, float16, bfloat16, float8_e4m3fn or float8_e5m2;
                   of integers and bool int32, float32, float16, bfloat16,
                   int8 or uint8. Default: the type of out, else of c, else of
                   a (int32 of integers and bool). Here as everywhere types
                   are numpy's and those of ml_dtypes, or their names:
                   "bfloat16", not "bf16".
        out_order  "C" (default) or "F": the order in which the result lies.
        out        An array or Tensor (..., m, n) that receives the result, in
                   host memory or a GPU's. It may be the Tensor given as c.
        device     "", the daemon's choice, or a name such as "cuda:0".

        precision  float32: None, accurate; "tf32", inputs rounded to TF32;
                   "fast", truncated. float8: "fast" adds all products in the
                   tensor core, which keeps 14 bits.
        accumulate Type of the sum: np.float16 with float16 and float8.
        saturate   Sums of integers stay at the ends of int32, not wrap.
        bits       Of bool: "and" (default) or "xor", places that differ.
        invariant  A row of the result depends on nothing but its row of a, b
                   and the values below, bit for bit.

        The rest is computed in float32, in this order:
        a_scale, b_scale  Factors: a number, one a row of a (m,) or a column
                   of b (n,), or by blocks of 128: (m, k/128) and (k/128,
                   n/128), of float8 with sums that are promoted.
        bias       Added after beta * c: one value a column, (n,), or a row,
                   (m, 1); broadcast as numpy does.
        return_pre_activation  Returns what the activation is applied to, too.
        pre_activation_out  Receives it, as `out` the result, in the same order
                   and type; it is returned then.
        activation "relu", "gelu" (erf), "gelu_tanh" or "silu".
        return_amax  Returns the greatest magnitude so far, too.
        out_scale  Factor before the result is rounded to out_dtype.
        These values are arrays, or Tensors of float32; a batch shares them. A
        result of int32 has none of these steps.

        What travels as bytes may be of any size: the client's stream_bytes.

        idempotency_key  16 to 64 printable characters that were drawn at
                   random for this call, such as secrets.token_hex(16). With
                   one the call is made again by itself where its connection is
                   lost or its answer comes damaged, and is carried out once
                   all the same, as long as the daemon lives. For results that
                   stay where they are: AlreadyExists where more than 64 KiB
                   would be returned again. It goes by one connection.

        Returns `out`, else a new array; a tuple with the pre-activation and
        amax where they are asked for.
        """
        return self.product(a, b, timeout=timeout,
                            idempotency_key=idempotency_key,
                            **options).value()

    def matmul_grouped(self, a: Iterable[Any], b: Iterable[Any], *,
                       timeout: Optional[float] = None,
                       idempotency_key: str = "",
                       **options: "Unpack[product.Options]") -> list[Any]:
        """matmul(a[i], b[i]) for every i, in one call: matrices of any sizes,
        also empty ones, such as the experts of a mixture and their tokens.

        c, out, pre_activation_out, bias, a_scale, b_scale and out_scale are
        sequences, too, of one value a group; the other options are those of all
        groups, as is the key. At most 256 of them, in any order: what one
        writes in device memory or a Tensor, no other may read or write.
        Returns a list of what matmul returns.
        """
        groups = Groups(a, b, **options)
        key = check_key(idempotency_key)
        with time_left.within(self._seconds(timeout)):
            groups.share(self._regions)
            timeout = told(time_left.left())
        with groups.sharing():
            responses = self._run(rpcs.matmul_grouped(
                (call.header, call.buffers) for call in groups.calls
            ).with_key(key), timeout)
        return groups.values(responses)

    def sequence(self, *, device: str = "",
                 timeout: Optional[float] = None,
                 idempotency_key: str = "") -> Sequence:
        """Products in order in one call: `with client.sequence() as s:`
        records s.matmul(...), whose results are operands of later ones, and
        at its end runs them. Results that are returned, which are those of
        s.returns(...) or else those that no later call reads, are arrays
        then: result.numpy(). At most 256 products; arrays, each of which is
        sent once, and what is returned fit in one message, but for what is
        shared (Client.empty) or in the memory of the daemon's GPU, which does
        not travel. What is read must not change until the block has ended. An
        `out` receives its result when all products are done. Nothing is sent
        where the block raises. The key is that of the whole.
        """
        return Sequence(self, device, timeout, idempotency_key)

    def product(self, a: Any, b: Any, *, timeout: Optional[float] = None,
                idempotency_key: str = "",
                **options: "Unpack[product.Options]") -> Product:
        """As matmul, but returns the result with its Execution."""
        call = alike.call(a, b, **options)
        key = check_key(idempotency_key)
        with time_left.within(self._seconds(timeout)):
            call.share(self._regions)
            room = completed(message_room(
                Blocking(self), call.travelling_bytes(),
                told(time_left.left())))
            deadline = Deadline(time_left.left())
        with call.sharing():
            if not key and striped_product.serves(self._stripes, call):
                found = completed(striped_product.multiply(
                    Blocking(self), call, deadline.left()))
                if found is not None:
                    return found
            if call.streams(min(self._stream_bytes, room)):
                response = self._streamed(
                    call, room, deadline.left(), key)
            else:
                response = self._run(rpcs.matmul(
                    call.header, **call.buffers).with_key(key),
                    deadline.left())
        return call.product(response)

    def _streamed(self, call: Call, room: int, timeout: Optional[float],
                  key: str) -> wire.Response:
        def attempt(left: Optional[float]) -> wire.Response:
            chunks = call.chunks()
            self._receive(rpcs.matmul_stream(
                call.header, call.buffers, room).with_key(key), told(left),
                chunks.add)
            return chunks.response()

        return self._repeated(Attempts(
            self._seconds(timeout), repeatable=False, key=key), attempt)

    def execute(self, header: Any, a: Any = None, b: Any = None,
                c: Any = None, *, timeout: Optional[float] = None,
                **values: Any) -> tuple[Any, Optional[memoryview]]:
        """The RPC itself: an api.MatmulHeader and buffers of operand bytes;
        those of the epilogue by the names of the request's fields.

        Returns (Execution, view of D's bytes or None). For programs that
        hold matrices in another form than arrays.
        """
        response = self._run(rpcs.matmul(header, a=a, b=b, c=c, **values),
                             timeout)
        return response.execution, response.d

    def tensor(self, array: Any, *, order: Optional[arrays.Order] = None,
               device: str = "", ttl_s: float = 0, label: str = "",
               timeout: Optional[float] = None) -> Tensor:
        """A matrix on the device with the elements of `array`, which may be a
        SparseMatrix, a QuantizedMatrix or an array in the device's memory.
        Until it is there it counts twice: ResourceExhausted where the daemon's
        limits leave no room for that.

        order  "C" or "F": how it lies on the device, which pads every line to
               16 bytes: a column takes least in "F". Default as the array,
               "C" where it has both.
        ttl_s  Seconds without use after which the daemon deletes it; 0 is
               the daemon's default.
        """
        array = matrix_of(array, "array")
        order = order or lie(array).order
        deadline = Deadline(self._seconds(timeout))
        with time_left.within(deadline.left()):
            device = device or home_of(self._regions, array)
        tensor = self.zeros(array.shape, array.dtype, order=order,
                            sparse=is_sparse(array),
                            quantization=quantization_of(array),
                            device=device, ttl_s=ttl_s, label=label,
                            timeout=deadline.left())
        try:
            return tensor.upload(array, timeout=deadline.left())
        except BaseException:
            with contextlib.suppress(errors.Error):
                tensor.delete(timeout=CLEANING_S)
            raise

    def zeros(self, shape: tuple[int, ...], dtype: Any, *,
              order: arrays.Order = "C", sparse: bool = False,
              quantization: Optional[Quantization] = None,
              device: str = "", ttl_s: float = 0, label: str = "",
              timeout: Optional[float] = None) -> Tensor:
        """A matrix of zeros on the device; where it is sparse, for a
        SparseMatrix of the same shape and order, where it has a quantization,
        for a QuantizedMatrix with the same. Of ttl_s fractions are rounded
        up."""
        return self._make(rpcs.create_tensor(
            shape, dtype, order=order, sparse=sparse, quantization=quantization,
            device=device, ttl_s=ttl_s, label=label), timeout,
            functools.partial(Tensor, self))

    def empty(self, shape: Any, dtype: Any = np.float32, *,
              order: arrays.Order = "C") -> arrays.Array:
        """An array of host memory that is shared with the daemon, of any
        elements; as numpy.empty.

        As an argument or out of matmul, matmul_grouped and the matmul of a
        sequence, it and its views that need no copy do not travel, and results
        of calls that read or fill one come back in such memory. So a daemon on
        the same machine is reached without copying, by a GPU at the speed of
        its bus; where --region-bytes of the daemon is 0 or the target is no
        Unix socket there is none: FailedPrecondition. ResourceExhausted when
        the daemon has no room.

        An array that a call reads must not change before the call returns. Its
        `out` may change until then, and, where the call fails for its timeout
        or is interrupted, for a while after that.
        """
        with time_left.within(self._timeout):
            return self._regions.empty(shape, dtype, order)

    def attach(self, handle: str, *,
               timeout: Optional[float] = None) -> Tensor:
        """The tensor of that handle, of another client's too. NotFound when
        there is none, or another principal's."""
        return Tensor(self, self._run(rpcs.describe_tensor(handle), timeout))

    def tensors(self, *, timeout: Optional[float] = None) -> list[Tensor]:
        """Those that this client has made or, where the daemon knows who
        calls, that his clients have; with --admin-calls of the daemon or the
        role admin all of them. Within `timeout`."""
        tensors: list[Tensor] = []
        pages = Pages(self._seconds(timeout))
        while pages.left:
            page = self._run(rpcs.list_tensors(pages.token), pages.timeout)
            tensors += (Tensor(self, info) for info in page.tensors)
            pages.turn(page)
        return tensors

    def info(self, *, timeout: Optional[float] = None) -> Any:
        """ServerInfo: version, devices, compiler, limits, missing."""
        return self._run(rpcs.server_info(), timeout)

    def statistics(self, *, timeout: Optional[float] = None) -> Any:
        """Statistics: counters of requests, bytes, tensors and the cache."""
        return self._run(rpcs.statistics(), timeout)

    def kernels(self, *, timeout: Optional[float] = None) -> list[Any]:
        """KernelSummary of each cached kernel: key, kernel, loaded_on."""
        kernels: list[Any] = []
        pages = Pages(self._seconds(timeout))
        while pages.left:
            page = self._run(rpcs.list_kernels(pages.token), pages.timeout)
            kernels += page.kernels
            pages.turn(page)
        return kernels

    def kernel(self, key: str, *, timeout: Optional[float] = None) -> Any:
        """KernelDescription: source, compile_log, registers and more."""
        return self._run(rpcs.describe_kernel(key), timeout)

    def prepare(self, problems: Any = (), *, groups: Any = (),
                device: str = "",
                timeout: Optional[float] = None) -> list[Any]:
        """Compiles and loads what api.Problem messages would use.

        groups: lists of them, each of one call of matmul_grouped. One
        Execution for each problem and device, those of groups last."""
        return list(self._run(rpcs.prepare_kernels(problems, groups, device),
                              timeout).kernels)

    def evict(self, key: str, *, timeout: Optional[float] = None) -> None:
        """Forgets a cached kernel, on disk too."""
        self._run(rpcs.evict_kernel(key), timeout)
