"""Where a daemon is: addresses that gRPC would take for others. Without a port
it adds one, and of a port that is too great it takes the lower bits."""

import re
from typing import Any

from .arguments import check_text
from .errors import InvalidArgument

# sun_path holds 108 bytes, the last one zero.
_MOST_UNIX_PATH = 107
# What these name is gRPC's to check.
_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix-abstract:")


def check_target(target: Any) -> str:
    """`target`, which names a daemon, or an error; "" of None and ""."""
    text = check_text(target, "target")
    wrong = text and _wrong(text)
    if wrong:
        raise InvalidArgument(
            f"target: {text!r} {wrong}; allowed: HOST:PORT, [IPV6]:PORT, "
            "unix:/PATH")
    return text


def _wrong(target: str) -> str:
    """What is wrong with it; "": nothing."""
    if target.startswith("unix:"):
        return _wrong_path(target[len("unix:"):])
    return "" if target.startswith(_SCHEMES) else _wrong_host(target)


def _wrong_path(path: str) -> str:
    size = len(path.encode())
    if not size:
        return "has no path"
    if re.match("//[^/]", path):
        return "has two slashes before its path"
    return "" if size <= _MOST_UNIX_PATH else (
        f"has a path of {size} bytes, and a Unix socket's has at most "
        f"{_MOST_UNIX_PATH}")


def _wrong_host(target: str) -> str:
    if "://" in target:
        return "has a scheme that is none of gRPC's"
    host, colon, port = target.rpartition(":")
    bracketed = target.startswith("[")
    if not colon or bracketed and not host.endswith("]"):
        return "has no port"
    if host in ("", "[]"):
        return "has no host"
    if not bracketed and ":" in host:
        return "has an IPv6 address without brackets"
    if re.search(r"\s", host):
        return "holds a blank"
    if not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        return f"has the port {port!r}, which is no number from 1 to 65535"
    return ""
