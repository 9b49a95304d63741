"""Calls that the daemon had no room for, made again when it says so."""

import random
import time
from typing import Optional

from . import errors

# After the first, however much time is left.
MOST_RETRIES = 4


class Attempts:
    """Of one call that may take `timeout` seconds in all; None: any time."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._retries = 0
        self.timeout = timeout  # Of the next attempt.

    def pause(self, error: errors.ResourceExhausted) -> Optional[float]:
        """Seconds to wait before the next attempt, others at other times; None
        when there is to be none."""
        if error.retry_after is None or self._retries == MOST_RETRIES:
            return None
        self._retries += 1
        pause = error.retry_after * random.uniform(1, 2)
        if self._end is not None:
            self.timeout = self._end - time.monotonic() - pause
            if self.timeout <= 0:
                return None
        return pause
