"""What a daemon tells of shows a moment after what was done: a call counts
as ended only once its client has the answer."""

import time

_WAIT_S = 60


def eventually(ask):
    """What `ask` answers, as soon as that is true; after a minute, its last
    answer."""
    end = time.monotonic() + _WAIT_S
    while not (answer := ask()) and time.monotonic() < end:
        time.sleep(0.02)
    return answer
