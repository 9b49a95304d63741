"""What all calls of a client have in common: how their messages are guarded, and
what is said of them in the metadata."""

from typing import Any, Optional, TypeVar, Union

from . import errors
from .checksums import BYTES, METADATA, Checksums
from .rpcs import Rpc
from .security import Authorization

R = TypeVar("R")

# Smaller ones are read in any case.
_LEAST_ANNOUNCED_BYTES = 64 << 10


class Messages:
    """Thread-safe."""

    def __init__(self, checksums: Any, authorization: Authorization) -> None:
        if not isinstance(checksums, bool):
            raise errors.InvalidArgument(
                f"checksums: {checksums!r} is no bool")
        self._checksums: Optional[Checksums] = (
            Checksums() if checksums else None)
        self._authorization = authorization
        # What message_room() knows of the daemon's; 0: it does not say.
        self.limit: Optional[int] = None

    def stub(self, channel: Any, rpc: Rpc[Any]) -> Any:
        """What makes such calls; received() takes what comes of them."""
        make = getattr(channel, rpc.kind)
        if self._checksums is None:
            return make(rpc.method, None, rpc.parse)
        checksums = self._checksums

        def read(message: bytes) -> Any:
            try:
                return rpc.parse(checksums.opened(message))
            except errors.DataLoss as error:  # gRPC would make it another one.
                return error

        return make(rpc.method, checksums.sealed, read)

    def metadata(self, rpc: Rpc[Any]) -> tuple[tuple[str, str], ...]:
        said = self._authorization.metadata()
        more = 0
        if self._checksums is not None:
            said += METADATA
            more = BYTES
        if rpc.message_bytes > _LEAST_ANNOUNCED_BYTES:
            # The daemon waits for room.
            said += (("gemmd-message-bytes", str(rpc.message_bytes + more)),)
        if rpc.key:
            said += (("gemmd-idempotency-key", rpc.key),)
        return said


def received(response: Union[R, errors.DataLoss]) -> R:
    """The response, unless it was damaged on its way."""
    if isinstance(response, errors.DataLoss):
        raise response
    return response
