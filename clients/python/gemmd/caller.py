"""What Client and AsyncClient have in common is written once, as coroutines
that call the daemon by a Caller.

An AsyncClient is one. A Client's Caller waits within its methods, so that no
coroutine is ever suspended and completed() runs it like a function.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Optional, Protocol, TypeVar

from .connections import Connections
from .messages import Messages
from .rpcs import Rpc

R = TypeVar("R")


class Caller(Protocol):
    """Seconds of `timeout` that are None are the client's."""

    @property
    def _messages(self) -> Messages:
        """How all its calls are made."""

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
