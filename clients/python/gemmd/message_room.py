"""How much a message may hold: a daemon's --max-message-bytes, in all."""

from typing import Any, Optional

from . import arrays, errors, rpcs
from .caller import Caller

# The least that a daemon is to be set to.
_LEAST_LIMIT = 1 << 20
# Of a request or an answer, for what is beside matrices.
_MORE_BYTES = 64 << 10
_LEAST_ROOM = _LEAST_LIMIT - _MORE_BYTES


def check_stream_bytes(value: Any) -> float:
    """From how many bytes on products are streamed, or an error."""
    least = arrays.check_number(value, "stream_bytes")
    if not least >= 0:
        raise errors.InvalidArgument(
            f"stream_bytes: {least:g}; allowed: from 0")
    return least


async def message_room(caller: Caller, size: int,
                       timeout: Optional[float]) -> int:
    """Bytes of matrices for one message, where `size` are to travel. The daemon
    is asked once, and only where not every daemon takes them; of one that does
    not say there is room for all, and what is sent learns why."""
    if size <= _LEAST_ROOM:
        return _LEAST_ROOM
    limit = caller._messages.limit
    if limit is None:
        try:
            info = await caller._run(rpcs.server_info(), timeout)
        except (errors.Unimplemented, errors.PermissionDenied):
            # For good; after other errors it may tell the next time.
            caller._messages.limit = 0
            return size
        except errors.Error:
            return size
        limit = caller._messages.limit = int(info.limits.max_message_bytes)
    return max(limit, _LEAST_LIMIT) - _MORE_BYTES if limit else size
