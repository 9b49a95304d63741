"""A client's own connections for what moves many bytes."""

import threading
from collections.abc import Callable
from typing import Any

from . import errors
from .arguments import check_integer

MOST_CONNECTIONS = 8
# What has fewer bytes goes by one.
LEAST_BYTES = 32 << 20
# A daemon that gives no sign of life while calls run is asked for one, and
# after as long again they end. It cuts off who asks more often than every 10 s.
SILENCE_MS = 20_000
CHANNEL_OPTIONS = (
    # The daemon's own limit (ServerInfo.limits.max_message_bytes) decides.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A daemon that comes back is found within seconds (while calls fail at once
    # gRPC looks every five); by default it waits longer from try to try, two
    # minutes in the end.
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", SILENCE_MS),
    ("grpc.keepalive_timeout_ms", SILENCE_MS),
    ("grpc.http2.ping_timeout_ms", SILENCE_MS),  # Of newer versions of gRPC.
    ("grpc.http2.max_pings_without_data", 0),
)
# Others may share a connection with a channel to the same target.
_OWN_CONNECTION = (*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))


class Connections:
    """As many as `stripes` says, made by connect(options) when they are first
    of use. Thread-safe."""

    def __init__(self, connect: Callable[[tuple[tuple[str, Any], ...]], Any],
                 stripes: Any) -> None:
        count = (0 if isinstance(stripes, bool)
                 else check_integer(stripes, "stripes"))
        if not 1 <= count <= MOST_CONNECTIONS:
            raise errors.InvalidArgument(
                f"stripes: {stripes!r} is no number of connections; allowed: "
                f"1 to {MOST_CONNECTIONS}")
        self.least_bytes = LEAST_BYTES
        self._count = count
        self._connect = connect
        self._is_closed = False
        self._channels: list[Any] = []
        self._lock = threading.Lock()

    def count_for(self, size: int) -> int:
        """How many such `size` bytes go by."""
        return self._count if size >= self.least_bytes else 1

    def channels(self, count: int) -> list[Any]:
        """The same ones each time."""
        with self._lock:
            if self._is_closed:
                raise errors.FailedPrecondition("the client is closed")
            while len(self._channels) < count:
                self._channels.append(self._connect(_OWN_CONNECTION))
            return self._channels[:count]

    def main(self) -> Any:
        """A channel for all that goes by one. Where there are several, nobody
        shares its connection: what products have in tensors goes with it."""
        return self._connect(_OWN_CONNECTION if self._count > 1
                             else CHANNEL_OPTIONS)

    def made(self) -> list[Any]:
        """The channels that there are."""
        with self._lock:
            return list(self._channels)

    def end(self) -> list[Any]:
        """All channels, for the client to close; there will be no more."""
        with self._lock:
            self._is_closed = True
            channels, self._channels = self._channels, []
        return channels
