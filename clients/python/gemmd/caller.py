"""What Client and AsyncClient have in common is written once, as coroutines
that call the daemon by a Caller.

An AsyncClient is one. A Client's Caller waits within its methods, so that no
coroutine is ever suspended and completed() runs it like a function.
"""

import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Optional, Protocol, TypeVar

from . import errors
from .connections import Connections
from .rpcs import Rpc
from .together import Together

if TYPE_CHECKING:
    from .client import Client

R = TypeVar("R")


class Caller(Protocol):
    """Seconds of `timeout` that are None are the client's."""

    @property
    def _stripes(self) -> Connections:
        """What large transfers go by."""

    def _seconds(self, timeout: Optional[float]) -> Optional[float]:
        """The same, once they are looked up; None: any number."""

    async def _aside(self, act: Callable[..., R], *arguments: Any) -> R:
        """act(regions, *arguments), which may wait."""

    async def _run(self, rpc: Rpc[R], timeout: Optional[float]) -> R:
        """A call that has one response."""

    async def _receive(self, rpc: Rpc[R], timeout: Optional[float],
                       take: Callable[[R], None]) -> None:
        """A call that has many, which take(response) gets."""

    async def _run_together(self, calls: list[Rpc[Any]],
                            timeout: Optional[float],
                            take: Callable[[int, Any], None]) -> None:
        """By a connection each; take(i, response) gets what comes of the i-th.
        The first failure ends the others, and is raised."""

    async def _make(self, rpc: Rpc[Any], timeout: Optional[float]) -> Any:
        """As _run, of a call that makes a tensor, which is deleted again where
        nobody waits for it any more."""

    async def _clean_up(self, work: Coroutine[Any, Any, None]) -> None:
        """Does it, whoever is cancelled meanwhile, and waits for that unless
        it takes long. Its errors are nobody's."""


class Blocking:
    """The Caller of a Client."""

    def __init__(self, client: "Client") -> None:
        self._client = client
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
        together = Together(self._client._translated)

        def follow(i: int) -> None:
            rpc = calls[i]
            with together.part():
                stub = self._client._stub(channels[i], rpc)
                has_one = rpc.kind == "stream_unary"
                call = together.begun((stub.future if has_one else stub)(
                    rpc.request, timeout=seconds,
                    metadata=self._client._metadata(rpc)))
                for response in (call.result(),) if has_one else call:
                    take(i, response)

        together.by_threads(len(calls), follow)

    async def _make(self, rpc: Rpc[Any], timeout: Optional[float]) -> Any:
        return self._client._run(rpc, timeout)

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
