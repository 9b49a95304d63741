"""The client for asyncio: Client, with methods to await."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import (alike, arrays, errors, product, rpcs, security,
               striped_product, time_left, wire)
from .address import check_target
from .aio_caller import AsyncCaller
from .client import READY_POLL_S, STREAM_BYTES, default_target
from .grouped import Groups
from .message_room import check_stream_bytes, message_room
from .pages import Pages
from .product import Call, Product
from .quantized import Quantization, QuantizedMatrix, quantization_of
from .retry import Attempts, check_key, check_timeout, told
from .sequence import AsyncSequence
from .shared import Regions
from .sparse import SparseMatrix, is_sparse
from .stripes import Deadline
from .tensor import Resident, Stored, dense, home_of, lie, matrix_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncTensor(Resident):
    """Tensor for AsyncClient: `async with`, and methods to await.

    Multiply with AsyncClient.matmul; `.T` is its transpose.
    """

    _client: "AsyncClient"

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        raise TypeError("an AsyncTensor does not become an array by itself; "
                        "allowed: await tensor.numpy()")

    async def __aenter__(self) -> "AsyncTensor":
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]],
                        error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        try:
            await self.delete()
        except errors.NotFound:
            pass
        except errors.Error:
            # What went wrong inside says more.
            if error is None:
                raise

    async def numpy(self, *, timeout: Optional[float] = None) -> arrays.Array:
        """The elements, in the tensor's order."""
        return dense(await self._download(timeout))

    async def compressed(self, *,
                         timeout: Optional[float] = None) -> SparseMatrix:
        """The SparseMatrix that a sparse tensor has."""
        return self._check_compressed(await self._download(timeout))

    async def quantized(self, *,
                        timeout: Optional[float] = None) -> QuantizedMatrix:
        """The QuantizedMatrix that a quantized tensor has."""
        return self._check_quantized(await self._download(timeout))

    async def _download(self, timeout: Optional[float]) -> Stored:
        return await self._fetch(self._client, timeout)

    async def upload(self, array: Any, *,
                     timeout: Optional[float] = None) -> "AsyncTensor":
        """Replaces the elements by those of an array of the same shape."""
        await self._replace(self._client, array, timeout)
        return self

    async def info(self, *, timeout: Optional[float] = None) -> Any:
        """The daemon's TensorInfo, with device_bytes, ttl_s and idle_s."""
        return await self._client._run(rpcs.describe_tensor(self.handle),
                                       timeout)

    async def delete(self, *, timeout: Optional[float] = None) -> None:
        """Frees the device memory. NotFound when it is already gone."""
        await self._client._run(rpcs.delete_tensor(self.handle), timeout)


class AsyncClient(AsyncCaller):
    """A connection to the daemon at `target`, for one event loop.

    Arguments, methods and errors are those of Client, but for kernels, kernel,
    prepare, evict and execute, which it lacks. Made inside a running loop.
    Cancelling a call cancels it at the daemon, and what was made there for the
    call alone is deleted.
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

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.unpicklable(self, "another client, of its target")

    def __repr__(self) -> str:
        return (f"<gemmd.AsyncClient {self.target}"
                f"{', closed' if self._closed else ''}>")

    async def wait_for_ready(
            self, timeout: Optional[float] = 30.0) -> "AsyncClient":
        """As Client.wait_for_ready."""
        end = time.monotonic() + told(check_timeout(timeout))
        while True:
            # A connection that ends meanwhile is not waited for by gRPC.
            with suppress(errors.Unavailable), errors.named(
                    self.target, timeout):
                if await self._serves(end):
                    return self
            await asyncio.sleep(READY_POLL_S)

    async def _serves(self, end: float) -> bool:
        """As Client._serves."""
        for channel in (self._channel, *self._stripes.made()):
            if not await self._run(rpcs.check_health(), end - time.monotonic(),
                                   channel, wait_for_ready=True):
                return False
        return True

    async def matmul(self, a: Any, b: Any, *, timeout: Optional[float] = None,
                     idempotency_key: str = "",
                     **options: "Unpack[product.Options]") -> Any:
        """As Client.matmul."""
        product = await self.product(a, b, timeout=timeout,
                                     idempotency_key=idempotency_key,
                                     **options)
        return product.value()

    async def matmul_grouped(self, a: Iterable[Any], b: Iterable[Any], *,
                             timeout: Optional[float] = None,
                             idempotency_key: str = "",
                             **options: "Unpack[product.Options]"
                             ) -> list[Any]:
        """As Client.matmul_grouped."""
        groups = Groups(a, b, **options)
        key = check_key(idempotency_key)
        with time_left.within(self._seconds(timeout)):
            await self._aside(groups.share)
            timeout = told(time_left.left())
        with groups.sharing():
            responses = await self._run(rpcs.matmul_grouped(
                (call.header, call.buffers) for call in groups.calls
            ).with_key(key), timeout)
        return groups.values(responses)

    def sequence(self, *, device: str = "",
                 timeout: Optional[float] = None,
                 idempotency_key: str = "") -> AsyncSequence:
        """As Client.sequence: `async with client.sequence() as s:`, in which
        s.matmul needs no await."""
        return AsyncSequence(self, device, timeout, idempotency_key)

    async def product(self, a: Any, b: Any, *,
                      timeout: Optional[float] = None,
                      idempotency_key: str = "",
                      **options: "Unpack[product.Options]") -> Product:
        """As matmul, but returns the result with its Execution."""
        call = alike.call(a, b, **options)
        key = check_key(idempotency_key)
        with time_left.within(self._seconds(timeout)):
            await self._aside(call.share)
            room = await message_room(
                self, call.travelling_bytes(), told(time_left.left()))
            deadline = Deadline(time_left.left())
        with call.sharing():
            if not key and striped_product.serves(self._stripes, call):
                found = await striped_product.multiply(
                    self, call, deadline.left())
                if found is not None:
                    return found
            if call.streams(min(self._stream_bytes, room)):
                response = await self._streamed(
                    call, room, deadline.left(), key)
            else:
                response = await self._run(rpcs.matmul(
                    call.header, **call.buffers).with_key(key),
                    deadline.left())
        return call.product(response)

    async def _streamed(self, call: Call, room: int, timeout: Optional[float],
                        key: str) -> wire.Response:
        async def attempt(left: Optional[float]) -> wire.Response:
            chunks = call.chunks()
            await self._receive(rpcs.matmul_stream(
                call.header, call.buffers, room).with_key(key), told(left),
                chunks.add)
            return chunks.response()

        return await self._repeated(Attempts(
            self._seconds(timeout), repeatable=False, key=key), attempt)

    async def tensor(self, array: Any, *, order: Optional[arrays.Order] = None,
                     device: str = "", ttl_s: float = 0, label: str = "",
                     timeout: Optional[float] = None) -> AsyncTensor:
        """A matrix on the device with the elements of `array`."""
        array = matrix_of(array, "array")
        order = order or lie(array).order
        deadline = Deadline(self._seconds(timeout))
        with time_left.within(deadline.left()):
            device = device or await self._on_thread(home_of, array)
        tensor = await self.zeros(array.shape, array.dtype, order=order,
                                  sparse=is_sparse(array),
                                  quantization=quantization_of(array),
                                  device=device, ttl_s=ttl_s, label=label,
                                  timeout=deadline.left())
        try:
            return await tensor.upload(array, timeout=deadline.left())
        except BaseException:
            await self._clean_up(tensor.delete())
            raise

    async def zeros(self, shape: tuple[int, ...], dtype: Any, *,
                    order: arrays.Order = "C", sparse: bool = False,
                    quantization: Optional[Quantization] = None,
                    device: str = "", ttl_s: float = 0, label: str = "",
                    timeout: Optional[float] = None) -> AsyncTensor:
        """A matrix of zeros on the device."""
        return AsyncTensor(self, await self._make(rpcs.create_tensor(
            shape, dtype, order=order, sparse=sparse, quantization=quantization,
            device=device, ttl_s=ttl_s, label=label), timeout))

    async def empty(self, shape: Any, dtype: Any = np.float32, *,
                    order: arrays.Order = "C") -> arrays.Array:
        """As Client.empty."""
        with time_left.within(self._timeout):
            return await self._on_thread(Regions.empty, shape, dtype, order)

    async def attach(self, handle: str, *,
                     timeout: Optional[float] = None) -> AsyncTensor:
        """The tensor of that handle. NotFound when there is none."""
        return AsyncTensor(self, await self._run(
            rpcs.describe_tensor(handle), timeout))

    async def tensors(self, *,
                      timeout: Optional[float] = None) -> list[AsyncTensor]:
        """As Client.tensors."""
        tensors: list[AsyncTensor] = []
        pages = Pages(self._seconds(timeout))
        while pages.left:
            page = await self._run(rpcs.list_tensors(pages.token),
                                   pages.timeout)
            tensors += (AsyncTensor(self, info) for info in page.tensors)
            pages.turn(page)
        return tensors

    async def info(self, *, timeout: Optional[float] = None) -> Any:
        """ServerInfo: version, devices, compiler, limits, missing."""
        return await self._run(rpcs.server_info(), timeout)

    async def statistics(self, *, timeout: Optional[float] = None) -> Any:
        """Statistics: counters of requests, bytes, tensors and the cache."""
        return await self._run(rpcs.statistics(), timeout)
