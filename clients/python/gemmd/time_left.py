"""How long what a call does before it reaches the daemon may take, such as
making regions: known to whatever runs inside, on other threads, too."""

import contextlib
import contextvars
import time
from collections.abc import Iterator
from typing import Optional

_END: "contextvars.ContextVar[Optional[float]]" = contextvars.ContextVar(
    "gemmd_end", default=None)


@contextlib.contextmanager
def within(seconds: Optional[float]) -> Iterator[None]:
    """All inside may take that long, or what is left outside; None: any
    time."""
    end = _END.get()
    if seconds is not None:
        own = time.monotonic() + seconds
        end = own if end is None else min(end, own)
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


def left() -> Optional[float]:
    """Seconds; None: any number. Less than none stay that, as Deadline has
    it."""
    end = _END.get()
    return None if end is None else end - time.monotonic()
