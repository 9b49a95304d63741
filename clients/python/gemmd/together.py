"""Calls at the same time, which stand or fall together."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from typing import Any

import grpc

from . import errors, interrupts

# The daemon ends the others for one's failure, too, and tells them so. What it
# tells first is not always the cause.
_CONSEQUENCES = (errors.Aborted, errors.Cancelled, grpc.FutureCancelledError,
                 asyncio.CancelledError)


class Together:
    """The first failure ends the others, and is raised, as `translated` has it;
    but one that the daemon tells for another's failure waits for that one.
    Thread-safe.

    follow(i) makes the i-th call and waits for it, within part().
    """

    def __init__(self, translated: Callable[[], AbstractContextManager[None]]
                 ) -> None:
        self._translated = translated
        self._is_over = False
        self._begun: list[Any] = []
        self._failures: list[BaseException] = []

    def begun(self, call: Any) -> Any:
        """The call, which ends with the others."""
        self._begun.append(call)
        if self._is_over:  # Else, whoever ends them finds it among them.
            call.cancel()
        return call

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """No error leaves it: it ends the others, if it is a cause."""
        try:
            with self._translated():
                yield
        except BaseException as error:  # Raised by _check.
            self._failures.append(error)
            if not isinstance(error, _CONSEQUENCES):
                self._end()

    def by_threads(self, count: int, follow: Callable[[int], None]) -> None:
        threads = [threading.Thread(target=follow, args=(i,), daemon=True)
                   for i in range(1, count)]
        with interrupts.Held() as held:
            held.ends(self._end)
            try:
                for thread in threads:
                    thread.start()
                follow(0)
                for thread in threads:
                    thread.join()
            finally:
                self._end()  # What is left of them: this thread is interrupted.
        self._check()

    async def by_tasks(self, count: int,
                       follow: Callable[[int], Coroutine[Any, Any, None]]
                       ) -> None:
        tasks = [asyncio.ensure_future(follow(i)) for i in range(count)]
        try:
            await asyncio.wait(tasks)
        finally:
            # What is left of them: whoever waits is cancelled.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._check()

    def _end(self) -> None:
        self._is_over = True
        for call in self._begun:
            call.cancel()  # Of one that has ended this changes nothing.

    def _check(self) -> None:
        """Raises the failure that says most: the first that is not another's
        consequence."""
        # An error has the frames that it passes: where these have it, too, what
        # was to be sent stays until the collector runs.
        failures, self._failures = self._failures, []
        try:
            if failures:
                raise next((error for error in failures
                            if not isinstance(error, _CONSEQUENCES)),
                           failures[0])
        finally:
            del failures
