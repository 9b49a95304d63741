"""Lists that come by pages."""

import time
from typing import Any, Optional

from .errors import Internal
from .retry import told

# Of 1000 each; a daemon has room for less. Of one that is trusted to have ever
# more to tell, a list would have no end, and would take all memory.
MOST_PAGES = 1000


class Pages:
    """Which page is next of a list that may take `timeout` seconds in all."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._end = time.monotonic() + told(timeout)
        self._count = 0
        self.token = ""
        self.left = True  # Whether there is one.

    @property
    def timeout(self) -> float:
        """Of the next one; less than none when the time is up, infinity where
        there is no limit."""
        return self._end - time.monotonic()

    def turn(self, page: Any) -> None:
        """After each page. Internal where the next is the same again, or
        there were too many."""
        self._count += 1
        token = page.next_page_token
        self.left = token != ""
        if self.left and (token == self.token or self._count == MOST_PAGES):
            same = ", which is the same again" if token == self.token else ""
            raise Internal(
                f"the daemon's list does not end: after {self._count} pages "
                f"it says that there is another one{same}")
        self.token = token
