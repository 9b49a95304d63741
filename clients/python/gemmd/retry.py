"""Calls that are made again: what the daemon had no room for, when it says so,
and with an idempotency key what may or may not have been carried out."""

import math
import random
import re
import time
from typing import Any, Optional

from . import arrays, errors

# After the first, however much time is left.
MOST_RETRIES = 4
# With a key there is a connection to wait for, or the end of the first call:
# half a minute at most.
MOST_RETRIES_WITH_KEY = 8
_FIRST_PAUSE_S = 0.05
# Who would have to wait longer is told so instead (Error.retry_after).
_LONGEST_PAUSE_S = 300.0


# A wait of more than a year has no limit; gRPC knows none of 300.
_LONGEST_TIMEOUT_S = 365 * 86400.0


def check_timeout(timeout: Any) -> Optional[float]:
    """Seconds; None: any number."""
    if timeout is None:
        return None
    seconds = arrays.check_number(timeout, "timeout")
    if not seconds > -math.inf:
        raise errors.InvalidArgument(f"timeout: {seconds:g}; allowed: seconds,"
                                     " or None, without a limit")
    return None if seconds > _LONGEST_TIMEOUT_S else seconds


def told(seconds: Optional[float]) -> float:
    """What check_timeout found, for what takes None for the client's own."""
    return math.inf if seconds is None else seconds


def check_key(key: Any) -> str:
    """An idempotency key; "": none."""
    if isinstance(key, str) and re.fullmatch(r"([!-~]{16,64})?", key):
        return key
    raise errors.InvalidArgument(
        f"idempotency_key: {key!r}; allowed: 16 to 64 printable ASCII "
        "characters without spaces, drawn at random for each call, such as "
        "secrets.token_hex(16)")


class Attempts:
    """Of one call that may take `timeout` seconds in all; None: any time."""

    def __init__(self, timeout: Optional[float], *, repeatable: bool = True,
                 key: str = "") -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._repeatable = repeatable
        self._has_key = bool(key)
        self._retries = 0
        self._is_answered = True
        self.timeout = timeout  # Of the next attempt.

    def pause(self, error: errors.Error) -> Optional[float]:
        """Seconds to wait before the next attempt, others at other times; None
        when there is to be none. `error` is no answer where one before was
        none: that attempt may still run."""
        self._is_answered = self._is_answered and error.is_answer
        error.is_answer = self._is_answered
        least = self._least_pause(error)
        if least is None:
            return None
        self._retries += 1
        pause = least * random.uniform(1, 2)
        if self._end is not None:
            self.timeout = self._end - time.monotonic() - pause
            if self.timeout <= 0:
                return None
        return pause

    def _least_pause(self, error: errors.Error) -> Optional[float]:
        after = (error.retry_after
                 if isinstance(error, errors.ResourceExhausted) else None)
        if after is not None and after > _LONGEST_PAUSE_S:
            return None
        if not self._has_key:
            again = self._repeatable and self._retries < MOST_RETRIES
            return after if again else None
        if (self._retries == MOST_RETRIES_WITH_KEY or after is None
                and not isinstance(error, (errors.Unavailable,
                                           errors.DataLoss))):
            return None
        return max(after or 0.0, _FIRST_PAUSE_S * 2.0 ** self._retries)
