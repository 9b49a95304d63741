"""How AsyncClient calls the daemon."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import (AbstractAsyncContextManager, contextmanager,
                        nullcontext)
from typing import Any, Optional, TypeVar

import grpc.aio

from . import errors, rpcs, security, streams, time_left
from .connections import Connections
from .messages import Messages, received
from .retry import Attempts, check_timeout, told
from .shared import Regions
from .together import Together

R = TypeVar("R")

# Deletions take no longer while a daemon is well.
_CLEANING_S = 1.0


class AsyncCaller:
    """A Caller for one event loop. Made inside it."""

    def __init__(self, target: str, how: security.Connection,
                 timeout: Optional[float], stripes: int,
                 checksums: bool) -> None:
        self._loop = _running_loop()
        self._peer = errors.Peer(target, how.tls)
        self._timeout = check_timeout(timeout)
        self._messages = Messages(checksums, how.authorization)
        self._closed = False
        self._tasks: set["asyncio.Task[Any]"] = set()
        self._stripes = Connections(
            lambda options: how.channel(grpc.aio, target, options), stripes)
        self._channel = self._stripes.main()
        # They block, and so work on other threads, which ask from there.
        self._regions = Regions(
            target, lambda rpc: asyncio.run_coroutine_threadsafe(
                self._run(rpc, told(time_left.left())), self._loop).result())

    async def close(self) -> None:
        """Closes the connection; running calls are cancelled."""
        self._check_loop()
        self._closed = True
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_CLEANING_S)
        finally:
            try:
                for channel in (*self._stripes.end(), self._channel):
                    await channel.close()
            finally:
                # Whoever waits for this loop has a region's lock until then.
                # The thread goes on though who waits for it is cancelled.
                await asyncio.shield(self._loop.run_in_executor(
                    None, self._regions.close))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """As errors.translated. grpc.aio takes the end of a channel for the
        end of every task that uses it."""
        try:
            with errors.translated(lambda: self._closed, self._peer):
                yield
        except asyncio.CancelledError:
            if self._closed and not _is_cancelled():
                raise errors.Cancelled("the client was closed") from None
            raise

    def _check_loop(self) -> None:
        if _running_loop() is not self._loop:
            raise errors.FailedPrecondition(
                "the client was made in another event loop; allowed: a client "
                "for each loop")

    async def _on_thread(self, act: Callable[..., R], *arguments: Any) -> R:
        """What may wait for a region."""
        self._check_loop()
        return await asyncio.to_thread(act, self._regions, *arguments)

    async def _aside(self, act: Callable[..., R], *arguments: Any) -> R:
        """As _on_thread, unless there is nothing to wait for."""
        owner = getattr(act, "__self__", None)
        waits = bool(self._regions) or any(
            getattr(each, "is_on_device", False)
            for each in (owner, *arguments))
        if not waits:
            return act(self._regions, *arguments)
        return await self._on_thread(act, *arguments)

    def _seconds(self, timeout: Optional[float]) -> Optional[float]:
        return self._timeout if timeout is None else check_timeout(timeout)

    def _start(self, channel: Any, rpc: rpcs.Rpc[Any],
               timeout: Optional[float], **more: Any) -> Any:
        self._check_loop()
        stub = self._messages.stub(channel, rpc)
        # Streams are written by streams.sending.
        request = (rpc.request,) if isinstance(rpc.request, bytes) else ()
        return stub(*request, timeout=timeout,
                    metadata=self._messages.metadata(rpc), **more)

    async def _run(self, rpc: rpcs.Rpc[R], timeout: Optional[float],
                   channel: Any = None, **more: Any) -> R:
        async def attempt(left: Optional[float]) -> R:
            with self._translated():
                call = self._start(channel or self._channel, rpc, left, **more)
                async with _sending(call, rpc):
                    response: R = received(await _ended(call, rpc, left))
                    return response

        return await self._repeated(Attempts(
            self._seconds(timeout), repeatable=rpc.repeatable, key=rpc.key),
            attempt)

    async def _repeated(
            self, attempts: Attempts,
            attempt: Callable[[Optional[float]], Awaitable[R]]) -> R:
        """What attempt(timeout) returns, once it does."""
        while True:
            try:
                return await attempt(attempts.timeout)
            except errors.Error as error:
                pause = attempts.pause(error)
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def _receive(self, rpc: rpcs.Rpc[R], timeout: Optional[float],
                       take: Callable[[R], None]) -> None:
        with self._translated():
            await _follow(self._start(self._channel, rpc,
                                      self._seconds(timeout)), rpc, take)

    async def _run_together(self, calls: list[rpcs.Rpc[Any]],
                            timeout: Optional[float],
                            take: Callable[[int, Any], None]) -> None:
        channels = self._stripes.channels(len(calls))
        seconds = self._seconds(timeout)
        together = Together(self._translated)

        async def follow(i: int) -> None:
            with together.part():
                call = together.begun(
                    self._start(channels[i], calls[i], seconds))
                await _follow(call, calls[i], functools.partial(take, i))

        await together.by_tasks(len(calls), follow)

    async def _make(self, rpc: rpcs.Rpc[Any],
                    timeout: Optional[float]) -> Any:
        # Without its response nobody could delete it.
        making = self._kept(self._run(rpc, timeout))
        try:
            await asyncio.wait([making])
        except asyncio.CancelledError:
            self._kept(self._unmake(making))
            raise
        try:
            return making.result()
        finally:
            # Its error has this frame, which would keep what was to be sent.
            del making

    async def _unmake(self, making: "asyncio.Task[Any]") -> None:
        info = await making
        await self._run(rpcs.delete_tensor(info.handle), None)

    async def _clean_up(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.wait([self._kept(work)], timeout=_CLEANING_S)

    def _kept(self, work: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
        """A task that goes on though nobody waits for it."""
        def forget(task: "asyncio.Task[R]") -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.exception()  # Of use to whoever waits, if anybody does.

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(forget)
        return task


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise errors.FailedPrecondition(
            "no event loop is running; allowed: to make and use an AsyncClient "
            "in coroutines, or gemmd.Client") from None


def _is_cancelled() -> bool:
    """Whether the task that runs is; True where Python does not tell."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


async def _ended(call: Any, rpc: rpcs.Rpc[Any],
                 timeout: Optional[float]) -> Any:
    """The response of a call that has one."""
    if timeout is None or not rpc.may_stall:
        return await call
    try:
        return await asyncio.wait_for(call, timeout)
    except asyncio.TimeoutError:
        raise errors.DeadlineExceeded("Deadline Exceeded") from None


async def _follow(call: Any, rpc: rpcs.Rpc[R],
                  take: Callable[[R], None]) -> None:
    """take(response) gets every one of a call that was started."""
    try:
        async with _sending(call, rpc):
            if rpc.kind == "stream_unary":
                take(received(await call))
            else:
                async for response in call:
                    take(received(response))
    finally:
        call.cancel()  # What take() refuses, too.


def _sending(call: Any,
             rpc: rpcs.Rpc[Any]) -> AbstractAsyncContextManager[None]:
    if isinstance(rpc.request, bytes):
        return nullcontext()
    return streams.sending(call, rpc.request)
