"""Ctrl-C beside gRPC, which keeps a lock where an exception comes just after it
was taken: whoever uses the channel then waits for ever.

Python raises KeyboardInterrupt between any two steps of the main thread.
Inside `with Held()` it is raised at the end instead, or where gRPC's core is
waited for, which holds no lock. On other threads, and where SIGINT has a
handler of somebody else's, nothing is held.
"""

import _thread
# Quicker than signal, which makes enums of what it is given and returns.
import _signal  # type: ignore[import-not-found]
import threading
from collections.abc import Callable
from typing import Any, Optional


class Held:
    """A context manager, to be used once."""

    def __init__(self) -> None:
        self._came = False
        self._holds = False
        self._ends: Optional[Callable[[], Any]] = None
        self._undoes: Optional[Callable[[], Any]] = None

    def ends(self, act: Callable[[], Any]) -> None:
        """act() ends what runs, where an interrupt comes or has come."""
        self._ends = act
        if self._came:
            act()

    def undoes(self, act: Callable[[], Any]) -> None:
        """act() undoes what an interrupted caller does not learn of."""
        self._undoes = act

    def __enter__(self) -> "Held":
        self._holds = (
            threading.current_thread() is threading.main_thread()
            and _signal.getsignal(_signal.SIGINT)
            is _signal.default_int_handler)
        if self._holds:
            _signal.signal(_signal.SIGINT, self._take)
        return self

    def __exit__(self, *unused: object) -> None:
        if not self._holds:
            return
        try:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        except KeyboardInterrupt:
            self._came = True
        if self._came:
            if self._undoes is not None:
                self._undoes()
            raise KeyboardInterrupt from None

    def _take(self, signum: int, frame: Any) -> None:
        """Python's handler of SIGINT."""
        if self._ends is None and _waits_for_core(frame):
            raise KeyboardInterrupt
        self._came = True
        if self._ends is not None:
            # It takes locks that this thread may have, as threading does.
            _thread.start_new_thread(self._ends, ())


def _waits_for_core(frame: Any) -> bool:
    """Whether a call that has one response waits for it in gRPC, which drops
    the call where that raises."""
    return (frame is not None and frame.f_code.co_name == "_blocking"
            and frame.f_globals.get("__name__") == "grpc._channel")
