"""One exception per gRPC code, all derived from gemmd.Error.

Where Python has a matching built-in exception the class derives from it too,
so that `except TimeoutError` or `except ValueError` work as expected.
"""

import grpc


class Error(Exception):
    """A request failed. `code` is the gRPC code's name, `message` the text."""

    code = "UNKNOWN"

    def __init__(self, message):
        super().__init__(message)
        self.message = message

    def __str__(self):
        return f"{self.code}: {self.message}"


class InvalidArgument(Error, ValueError):
    """The request is wrong; the text names the field and what is allowed.

    Raised locally too, for arrays that cannot be a matrix or do not match.
    """
    code = "INVALID_ARGUMENT"


class NotFound(Error, LookupError):
    """No tensor or kernel has that name (any more)."""
    code = "NOT_FOUND"


class DeadlineExceeded(Error, TimeoutError):
    """`timeout` seconds passed before the response was there."""
    code = "DEADLINE_EXCEEDED"


class Unavailable(Error, ConnectionError):
    """No daemon answers at the target, or it is shutting down."""
    code = "UNAVAILABLE"


class ResourceExhausted(Error):
    """A message, queue or memory limit is exceeded."""
    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    """The daemon lacks something, such as NVRTC for a kernel not cached."""
    code = "FAILED_PRECONDITION"


class Unimplemented(Error, NotImplementedError):
    """This daemon does not serve that combination."""
    code = "UNIMPLEMENTED"


class Internal(Error):
    """The daemon or its device failed."""
    code = "INTERNAL"


class Cancelled(Error):
    """The call was cancelled."""
    code = "CANCELLED"


class Unknown(Error):
    code = "UNKNOWN"


class AlreadyExists(Error):
    code = "ALREADY_EXISTS"


class PermissionDenied(Error, PermissionError):
    code = "PERMISSION_DENIED"


class Aborted(Error):
    code = "ABORTED"


class OutOfRange(Error):
    code = "OUT_OF_RANGE"


class DataLoss(Error):
    code = "DATA_LOSS"


class Unauthenticated(Error):
    code = "UNAUTHENTICATED"


_BY_CODE = {cls.code: cls for cls in Error.__subclasses__()}


def from_rpc_error(error: grpc.RpcError) -> Error:
    """The gemmd exception for an error that gRPC raised."""
    return _BY_CODE.get(error.code().name, Unknown)(error.details() or "")
