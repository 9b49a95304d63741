"""How AsyncClient calls the daemon."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Optional, TypeVar

import grpc.aio

from . import errors, rpcs, security, streams
from .client import CHANNEL_OPTIONS, check_timeout
from .connections import Connections
from .retry import Attempts
from .shared import Regions
from .together import Together

R = TypeVar("R")

# What is cleaned up takes no longer while a daemon is well.
_CLEANING_S = 1.0


class AsyncCaller:
    """A Caller for one event loop. Made inside it."""

    def __init__(self, target: str, how: security.Connection,
                 timeout: Optional[float], stripes: int) -> None:
        def connect(more: tuple[tuple[str, Any], ...]) -> Any:
            return how.channel(grpc.aio, target, CHANNEL_OPTIONS + more)

        self._timeout = check_timeout(timeout)
        self._authorization = how.authorization
        self._closed = False
        self._tasks: set["asyncio.Task[Any]"] = set()
        self._stripes = Connections(connect, stripes)
        self._channel = connect(())
        # They block, and so work on other threads, which ask from there.
        loop = asyncio.get_running_loop()
        self._regions = Regions(
            target, lambda rpc: asyncio.run_coroutine_threadsafe(
                self._run(rpc, None), loop).result())

    async def close(self) -> None:
        """Closes the connection; running calls are cancelled."""
        self._closed = True
        self._regions.close()
        for channel in (*self._stripes.end(), self._channel):
            await channel.close()

    async def _aside(self, act: Callable[..., R], *arguments: Any) -> R:
        """What may wait for a region, on a thread where it does."""
        owner = getattr(act, "__self__", None)
        waits = bool(self._regions) or any(
            getattr(each, "is_on_device", False)
            for each in (owner, *arguments))
        if not waits:
            return act(self._regions, *arguments)
        return await asyncio.to_thread(act, self._regions, *arguments)

    def _seconds(self, timeout: Optional[float]) -> Optional[float]:
        return self._timeout if timeout is None else check_timeout(timeout)

    def _start(self, channel: Any, rpc: rpcs.Rpc[Any],
               timeout: Optional[float], **more: Any) -> Any:
        stub = getattr(channel, rpc.kind)(rpc.method, None, rpc.parse)
        metadata = rpc.metadata() + self._authorization.metadata()
        # Streams are written by streams.sending.
        request = (rpc.request,) if isinstance(rpc.request, bytes) else ()
        return stub(*request, timeout=timeout, metadata=metadata, **more)

    async def _run(self, rpc: rpcs.Rpc[R], timeout: Optional[float],
                   **more: Any) -> R:
        with errors.translated(lambda: self._closed):
            attempts = Attempts(self._seconds(timeout))
        while True:
            try:
                with errors.translated(lambda: self._closed):
                    call = self._start(self._channel, rpc, attempts.timeout,
                                       **more)
                    async with _sending(call, rpc):
                        response: R = await call
                        return response
            except errors.ResourceExhausted as error:
                pause = attempts.pause(error) if rpc.repeatable else None
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def _receive(self, rpc: rpcs.Rpc[R], timeout: Optional[float],
                       take: Callable[[R], None]) -> None:
        with errors.translated(lambda: self._closed):
            await _follow(self._start(self._channel, rpc,
                                      self._seconds(timeout)), rpc, take)

    async def _run_together(self, calls: list[rpcs.Rpc[Any]],
                            timeout: Optional[float],
                            take: Callable[[int, Any], None]) -> None:
        channels = self._stripes.channels(len(calls))
        seconds = self._seconds(timeout)
        together = Together(lambda: self._closed)

        async def follow(i: int) -> None:
            with together.part():
                call = together.begun(
                    self._start(channels[i], calls[i], seconds))
                await _follow(call, calls[i], functools.partial(take, i))

        await together.by_tasks(len(calls), follow)

    async def _complete(self, work: Coroutine[Any, Any, R]) -> R:
        task = self._kept(work)
        await asyncio.wait([task])
        return task.result()

    async def _clean_up(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.wait([self._kept(work)], timeout=_CLEANING_S)

    def _kept(self, work: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
        """A task that nobody needs to wait for."""
        def forget(task: "asyncio.Task[R]") -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.exception()  # Of use to whoever waits, if anybody does.

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(forget)
        return task


async def _follow(call: Any, rpc: rpcs.Rpc[R],
                  take: Callable[[R], None]) -> None:
    """take(response) gets every one of a call that was started."""
    try:
        async with _sending(call, rpc):
            if rpc.kind == "stream_unary":
                take(await call)
            else:
                async for response in call:
                    take(response)
    finally:
        call.cancel()  # What take() refuses, too.


def _sending(call: Any,
             rpc: rpcs.Rpc[Any]) -> AbstractAsyncContextManager[None]:
    if isinstance(rpc.request, bytes):
        return nullcontext()
    return streams.sending(call, rpc.request)
