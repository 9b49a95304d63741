"""Streams of grpc.aio that end as the daemon ended them.

A write fails where the call has ended, and grpc.aio then says INTERNAL of the
call, whatever it has ended with (https://github.com/grpc/grpc/issues/36066).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc.aio

# For the status of a call that has ended, after a write has failed.
_STATUS_S = 1.0


@contextlib.asynccontextmanager
async def sending(call: Any, messages: Iterable[bytes]) -> AsyncIterator[None]:
    """Inside, `messages` go to `call`, which was started without any. What its
    answers raise is what the daemon said."""
    # Where grpc.aio has no such field, it is as it is.
    core = getattr(call, "_cython_call", None)
    if hasattr(core, "set_internal_error"):
        call._cython_call = _Patient(core)
    writer = asyncio.ensure_future(_write(call, messages))
    try:
        yield
    finally:
        writer.cancel()
        await asyncio.wait([writer])


async def _write(call: Any, messages: Iterable[bytes]) -> None:
    try:
        for message in messages:
            await call.write(message)
        await call.done_writing()
    except (grpc.aio.AioRpcError, grpc.aio.InternalError,
            asyncio.InvalidStateError):
        pass  # It has ended; why, its answers tell.


class _Patient:
    """A call of gRPC's core that takes a failed write for its end only when no
    status comes."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def set_internal_error(self, details: str) -> None:
        asyncio.get_running_loop().call_later(_STATUS_S, self._end, details)

    def _end(self, details: str) -> None:
        if not self._core.done():
            self._core.set_internal_error(details)
