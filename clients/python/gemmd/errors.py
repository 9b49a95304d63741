"""One exception per gRPC code, all derived from gemmd.Error.

Where Python has a matching built-in exception the class derives from it too,
so that `except TimeoutError` or `except ValueError` work as expected.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

import grpc
import grpc.aio


class Error(Exception):
    """A request failed. `code` is the gRPC code's name, `message` the text."""

    code = "UNKNOWN"
    # Whether it says that the daemon does no more for the call: what is true of
    # its own refusals, and of none that gRPC may make while a call runs.
    is_answer = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class InvalidArgument(Error, ValueError):
    """The request is wrong; the text names the field and what is allowed.

    Raised locally too, for arrays that cannot be a matrix or do not match.
    """
    code = "INVALID_ARGUMENT"
    is_answer = True


class NotFound(Error, LookupError):
    """No tensor or kernel has that name (any more)."""
    code = "NOT_FOUND"
    is_answer = True


class DeadlineExceeded(Error, TimeoutError):
    """`timeout` seconds passed before the response was there."""
    code = "DEADLINE_EXCEEDED"


class Unavailable(Error, ConnectionError):
    """No daemon answers at the target, or it is shutting down."""
    code = "UNAVAILABLE"


class ResourceExhausted(Error):
    """A message, queue or memory limit is exceeded.

    `retry_after` is the time in seconds after which the daemon expects to have
    room; None where trying again is of no use.
    """
    code = "RESOURCE_EXHAUSTED"
    is_answer = True
    retry_after: Optional[float] = None


class FailedPrecondition(Error):
    """The daemon lacks something, such as NVRTC for a kernel not cached."""
    code = "FAILED_PRECONDITION"
    is_answer = True


class MissingPackage(FailedPrecondition, ImportError):
    """What was asked for needs a package that is not installed."""


class Unimplemented(Error, NotImplementedError):
    """This daemon does not serve that combination."""
    code = "UNIMPLEMENTED"
    is_answer = True


class Internal(Error):
    """The daemon or its device failed."""
    code = "INTERNAL"


class Cancelled(Error):
    """The call was cancelled."""
    code = "CANCELLED"


class Unknown(Error):
    code = "UNKNOWN"


class AlreadyExists(Error):
    """The request of this idempotency key was carried out, but its answer is
    not kept."""
    code = "ALREADY_EXISTS"
    is_answer = True


class PermissionDenied(Error, PermissionError):
    code = "PERMISSION_DENIED"
    is_answer = True


class Aborted(Error):
    code = "ABORTED"


class OutOfRange(Error):
    code = "OUT_OF_RANGE"
    is_answer = True


class DataLoss(Error):
    """A message was damaged on its way."""
    code = "DATA_LOSS"


class Unauthenticated(Error):
    code = "UNAUTHENTICATED"
    is_answer = True


# Where numpy's name of a type is not that of the API.
_TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32",
          "s8": "int8", "u8": "uint8", "s32": "int32",
          "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def _in_words_of_numpy(text: str) -> str:
    """What the daemon says, with types named as numpy names them."""
    def name(match: "re.Match[str]") -> str:
        return _TYPES.get(match[1].lower(), match[0])
    return re.sub(r"\bDATA_TYPE_(\w+)", name, text)


def _printable(text: str) -> str:
    """Without what a terminal would obey: a daemon may mean harm."""
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]",
                  lambda found: repr(found[0])[1:-1], text)


# What gRPC's server says of a call that comes as it ends and that nobody takes.
# Who cancels says more.
_ENDING = ("CANCELLED", "CANCELLED")

# How gRPC's own texts begin where there is no connection.
_UNCONNECTED = "failed to connect to all addresses"
# What they hold where one side alone speaks TLS.
_NOT_IN_PLAINTEXT = "Connection reset by peer|Socket closed|SETTINGS frame"
_NOT_IN_TLS = "WRONG_VERSION_NUMBER"


class Peer(NamedTuple):
    """Whom a client calls, and how."""
    target: str
    tls: bool

    def unconnected(self, text: str) -> str:
        """What gRPC says of it, with what gRPC does not know."""
        if self.tls:
            symptom = _NOT_IN_TLS
            hint = "; the daemon may speak plaintext: no ca_file"
        else:
            symptom = _NOT_IN_PLAINTEXT
            hint = "; the daemon may speak TLS: ca_file"
        return (f"no daemon answers {'' if self.tls else 'in plaintext '}at "
                f"{self.target}: {text}"
                f"{hint if re.search(symptom, text) else ''}")


_BY_CODE = {cls.code: cls for cls in Error.__subclasses__()}


def from_rpc_error(error: Any) -> Error:
    """The gemmd exception for an error that gRPC raised."""
    code, details = error.code().name, error.details() or ""
    if (code, details) == _ENDING:
        return Unavailable("the daemon is shutting down")
    raised = _BY_CODE.get(code, Unknown)(
        _printable(_in_words_of_numpy(details)))
    if isinstance(raised, ResourceExhausted):
        for key, value in error.trailing_metadata() or ():
            # https://github.com/grpc/proposal/blob/master/A6-client-retries.md
            if key == "grpc-retry-pushback-ms" and value.isdigit():
                raised.retry_after = int(value) / 1000
    return raised


def _from_call(error: Any, is_closed: bool, peer: Peer) -> Error:
    raised = from_rpc_error(error)
    if is_closed and isinstance(raised, Cancelled):
        return Cancelled("the client was closed")
    if isinstance(raised, Unavailable) and raised.message.startswith(
            _UNCONNECTED):
        return Unavailable(peer.unconnected(raised.message))
    return raised


@contextlib.contextmanager
def named(target: str, timeout: Optional[float]) -> Iterator[None]:
    """Says of a time-out inside who has not answered: gRPC does not."""
    try:
        yield
    except DeadlineExceeded:
        raise DeadlineExceeded(f"no daemon serves at {target} within "
                               f"{timeout} seconds") from None


def unpicklable(value: Any, instead: str) -> InvalidArgument:
    """Of what another process cannot use."""
    return InvalidArgument(
        f"{type(value).__name__}: is not pickled, as its connection is of this "
        f"process; allowed: {instead}")


@contextlib.contextmanager
def translated(is_closed: Callable[[], bool], peer: Peer) -> Iterator[None]:
    """Turns what gRPC raises inside, of calls to `peer`, into gemmd.Error.

    A closed channel raises classes of several kinds; `is_closed` tells.
    """
    try:
        yield
    except Error:
        raise
    except grpc.RpcError as error:
        # gRPC's future raises itself, from a frame that has it: that would keep
        # what the call was to send until the collector runs.
        error.__traceback__ = None
        raise _from_call(error, is_closed(), peer) from None
    except (ValueError, grpc.aio.UsageError) as error:
        if is_closed():
            raise FailedPrecondition("the client is closed") from None
        raise InvalidArgument(str(error)) from None
