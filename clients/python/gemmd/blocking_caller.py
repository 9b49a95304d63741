"""How Client calls the daemon."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Optional, TypeVar

import grpc

from . import errors, interrupts, rpcs, security, time_left
from .connections import Connections
from .messages import Messages, received
from .retry import Attempts, check_timeout, told
from .rpcs import Rpc
from .shared import Regions
from .together import Together

R = TypeVar("R")
T = TypeVar("T")

# Creations and deletions take no longer while a daemon is well.
CLEANING_S = 1.0
# A channel closes at once but for calls whose messages are being written: gRPC
# cancels them, and keeps them until they are written or the connection ends,
# which a Unix socket that nobody reads never does.
CLOSING_S = 2.0


class BlockingCaller:
    """As AsyncCaller, by methods that wait. Thread-safe."""

    def __init__(self, target: str, how: security.Connection,
                 timeout: Optional[float], stripes: int,
                 checksums: bool) -> None:
        self._peer = errors.Peer(target, how.tls)
        self._timeout = check_timeout(timeout)
        self._messages = Messages(checksums, how.authorization)
        self._closed = False
        self._unmaking: list[threading.Thread] = []
        self._stubs: dict[tuple[Any, str], Any] = {}
        self._stripes = Connections(
            lambda options: how.channel(grpc, target, options), stripes)
        self._channel = self._stripes.main()
        self._regions = Regions(target, lambda rpc: self._run(
            rpc, told(time_left.left())))

    def close(self) -> None:
        """Closes the connection; running calls are cancelled. Waits two seconds
        at most for those, of which a daemon may not read the rest: they are
        left behind, until the program ends."""
        self._closed = True
        for thread in self._unmaking:
            thread.join()
        with interrupts.Held():
            _close((*self._stripes.end(), self._channel))
        # Whoever waits for the daemon has a region's lock until then.
        self._regions.close()

    def _translated(self) -> contextlib.AbstractContextManager[None]:
        return errors.translated(lambda: self._closed, self._peer)

    def _stub(self, channel: Any, rpc: Rpc[Any]) -> Any:
        stub = self._stubs.get((channel, rpc.method))
        if stub is None:
            stub = self._stubs[channel, rpc.method] = self._messages.stub(
                channel, rpc)
        return stub

    def _start(self, channel: Any, rpc: Rpc[Any], timeout: Optional[float],
               **more: Any) -> Any:
        return self._stub(channel, rpc)(
            rpc.request, timeout=timeout,
            metadata=self._messages.metadata(rpc), **more)

    def _seconds(self, timeout: Optional[float]) -> Optional[float]:
        return self._timeout if timeout is None else check_timeout(timeout)

    def _run(self, rpc: Rpc[R], timeout: Optional[float],
             channel: Any = None, **more: Any) -> R:
        def attempt(left: Optional[float]) -> R:
            with interrupts.Held() as held, self._translated():
                response: R = received(self._answer(
                    channel or self._channel, rpc, left, held, **more))
                return response

        return self._repeated(Attempts(
            self._seconds(timeout), repeatable=rpc.repeatable, key=rpc.key),
            attempt)

    def _answer(self, channel: Any, rpc: Rpc[Any], timeout: Optional[float],
                held: interrupts.Held, **more: Any) -> Any:
        """The one of a call that has one."""
        if timeout is None or not rpc.may_stall:
            return self._start(channel, rpc, timeout, **more)
        # Only a future need not be waited for.
        call = self._stub(channel, rpc).future(
            rpc.request, timeout=timeout,
            metadata=self._messages.metadata(rpc), **more)
        held.ends(call.cancel)
        try:
            return call.result(timeout)
        except grpc.FutureTimeoutError:
            call.cancel()
            raise errors.DeadlineExceeded("Deadline Exceeded") from None

    def _make(self, rpc: Rpc[R], timeout: Optional[float],
              own: Callable[[R], T]) -> T:
        """own(response) of a call that makes a tensor, which is deleted again
        where that is interrupted."""
        def attempt(left: Optional[float]) -> T:
            with interrupts.Held() as held, self._translated():
                call = self._stub(self._channel, rpc).future(
                    rpc.request, timeout=left,
                    metadata=self._messages.metadata(rpc))
                held.undoes(lambda: self._abandon(call))
                ended: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
                held.ends(lambda: ended.put(None))
                call.add_done_callback(ended.put)
                ended.get()
                return own(received(call.result(0)))

        return self._repeated(Attempts(self._seconds(timeout)), attempt)

    def _abandon(self, making: Any) -> None:
        # Whoever exits, too, waits for this thread.
        thread = threading.Thread(target=self._unmake, args=(making,))
        self._unmaking.append(thread)
        thread.start()

    def _unmake(self, making: Any) -> None:
        with contextlib.suppress(errors.Error), self._translated():
            try:
                # Cancelled, it may have been answered: nobody knows the handle.
                info: Any = received(making.result(CLEANING_S))
            except grpc.FutureTimeoutError:
                making.cancel()
            else:
                self._run(rpcs.delete_tensor(info.handle), CLEANING_S)

    def _repeated(self, attempts: Attempts,
                  attempt: Callable[[Optional[float]], R]) -> R:
        """What attempt(timeout) returns, once it does."""
        while True:
            try:
                return attempt(attempts.timeout)
            except errors.Error as error:
                pause = attempts.pause(error)
                if pause is None:
                    raise
                time.sleep(pause)

    def _receive(self, rpc: Rpc[R], timeout: Optional[float],
                 take: Callable[[R], None]) -> None:
        with interrupts.Held() as held, self._translated():
            call = self._start(self._channel, rpc, self._seconds(timeout))
            held.ends(call.cancel)
            try:
                for response in call:
                    take(received(response))
            finally:
                call.cancel()  # What take() refuses.


def _close(channels: tuple[Any, ...]) -> None:
    """As BlockingCaller.close."""
    closing = []
    for channel in channels:
        thread = threading.Thread(target=channel.close, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # The program ends, and starts no more.
            channel.close()
        else:
            closing.append(thread)
    end = time.monotonic() + CLOSING_S
    for thread in closing:
        thread.join(max(0.0, end - time.monotonic()))


class Blocking:
    """The Caller of a Client: no coroutine of its is ever suspended."""

    def __init__(self, client: BlockingCaller) -> None:
        self._client = client
        self._messages = client._messages
        self._stripes = client._stripes
        self._seconds = client._seconds

    async def _aside(self, act: Callable[..., R], *arguments: Any) -> R:
        return act(self._client._regions, *arguments)

    async def _run(self, rpc: Rpc[R], timeout: Optional[float]) -> R:
        return self._client._run(rpc, timeout)

    async def _receive(self, rpc: Rpc[R], timeout: Optional[float],
                       take: Callable[[R], None]) -> None:
        self._client._receive(rpc, timeout, take)

    async def _run_together(self, calls: list[Rpc[Any]],
                            timeout: Optional[float],
                            take: Callable[[int, Any], None]) -> None:
        channels = self._stripes.channels(len(calls))
        seconds = self._seconds(timeout)
        messages = self._messages
        together = Together(self._client._translated)

        def follow(i: int) -> None:
            rpc = calls[i]
            with together.part():
                stub = messages.stub(channels[i], rpc)
                has_one = rpc.kind == "stream_unary"
                call = together.begun((stub.future if has_one else stub)(
                    rpc.request, timeout=seconds,
                    metadata=messages.metadata(rpc)))
                for response in (call.result(),) if has_one else call:
                    take(i, received(response))

        together.by_threads(len(calls), follow)

    async def _make(self, rpc: Rpc[Any], timeout: Optional[float]) -> Any:
        return self._client._make(rpc, timeout, lambda info: info)

    async def _clean_up(self, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(errors.Error):
            await work


def completed(work: Coroutine[Any, Any, R]) -> R:
    """What a coroutine by a Blocking returns."""
    try:
        work.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    work.close()
    raise RuntimeError(f"{work!r} waits for an event loop")
