"""What a client trusts and how it proves who it is: files, by the same names
in every client, as argument (ca_file), in the environment (GEMMD_CA_FILE) and
in the file of $GEMMD_CONFIG ("ca-file = PATH"). The first of these counts."""

import ipaddress
import os
import re
import ssl
import threading
import time
from typing import Any, NamedTuple, Optional

import grpc

from .errors import InvalidArgument

_NAMES = ("ca_file", "certificate_file", "key_file", "token_file")
_TOKEN_LASTS_S = 10.0


class Security(NamedTuple):
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    token_file: str = ""

    @property
    def tls(self) -> bool:
        return bool(self.ca_file or self.certificate_file)


def _read(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise InvalidArgument(
            f"{name} is {path}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidArgument(f"{name} is {path!r}: {error}") from None
    if not content:
        raise InvalidArgument(f"{name} is {path}, which is empty")
    return content


def _configured(path: str) -> dict[str, str]:
    values = {}
    lines = _read("GEMMD_CONFIG", path).decode(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, value = (part.strip() for part in line.partition("="))
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        if name.replace("-", "_") not in _NAMES or "_" in name or not value:
            raise InvalidArgument(
                f"GEMMD_CONFIG is {path}, whose line {number} is wrong; "
                "allowed: ca-file, certificate-file, key-file or token-file = "
                "PATH")
        values[name.replace("-", "_")] = value
    return values


def _path(value: Any, name: str) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        raise InvalidArgument(f"{name}: {value!r} is no path; allowed: str, "
                              "os.PathLike") from None


def resolve(**given: Any) -> Security:
    """What was given, else what the environment says."""
    config = os.environ.get("GEMMD_CONFIG")
    values = _configured(config) if config else {}
    for name in _NAMES:
        value = given[name]
        if value is None:
            value = os.environ.get(f"GEMMD_{name.upper()}") or None
        elif not value:
            raise InvalidArgument(f"{name} is {value!r}; allowed: a path, None")
        if value is not None:
            values[name] = _path(value, name)
    return Security(**values)


def _is_this_machine(target: str) -> bool:
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    if re.search("[,%]", target):  # To gRPC %2C is a comma, too.
        return False
    host = re.sub(r"^(dns:///|dns:|ipv4:|ipv6:)", "", target)
    match = re.match(r"\[([^\]]*)\]|([^:]*)", host)
    name = (match[1] or match[2] or "") if match else ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check(security: Security, target: str, tls: bool) -> None:
    if bool(security.certificate_file) != bool(security.key_file):
        raise InvalidArgument("certificate_file and key_file go together")
    if security.token_file and not tls and not _is_this_machine(target):
        raise InvalidArgument(
            f"the token of token_file is not sent to {target} in plaintext; "
            "allowed: TLS, by ca_file, or a daemon of this machine (unix:, "
            "127.0.0.1, [::1], localhost)")


def _check_certificates(security: Security) -> None:
    """gRPC says of files that are wrong that there is no address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("DEFAULT@SECLEVEL=0")  # How strong, gRPC decides.
    try:
        if security.ca_file and security.ca_file != "system":
            context.load_verify_locations(security.ca_file)
    except OSError as error:
        raise InvalidArgument(
            f"ca_file is {security.ca_file}, which holds no certificates in "
            f"PEM: {error}") from None
    try:
        if security.certificate_file:
            # Nobody is asked for the password of a key.
            context.load_cert_chain(security.certificate_file,
                                    security.key_file, password="")
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"certificate_file is {security.certificate_file} and key_file "
            f"{security.key_file}, which are not in PEM, encrypted, or do not "
            f"go together: {error}") from None


def credentials(security: Security) -> Any:
    """None: plaintext."""
    if not security.tls:
        return None
    roots = None
    if security.ca_file and security.ca_file != "system":
        roots = _read("ca_file", security.ca_file)
    key = chain = None
    if security.certificate_file:
        key = _read("key_file", security.key_file)
        chain = _read("certificate_file", security.certificate_file)
    _check_certificates(security)
    return grpc.ssl_channel_credentials(roots, key, chain)


class Authorization:
    """The metadata of every call: read from the token's file again every ten
    seconds, and as it was when that could last be read. Thread-safe."""

    def __init__(self, token_file: str) -> None:
        self._file = token_file
        self._lock = threading.Lock()
        self._value = self._read() if token_file else ""
        self._tried = time.monotonic()

    def _read(self) -> str:
        token = _read("token_file", self._file).strip()
        if not re.fullmatch(rb"[!-~]+", token):
            raise InvalidArgument(
                f"token_file is {self._file}, which holds no token: one line "
                "of visible characters")
        return f"Bearer {token.decode('ascii')}"

    def metadata(self) -> tuple[tuple[str, str], ...]:
        if not self._file:
            return ()
        with self._lock:
            if time.monotonic() - self._tried >= _TOKEN_LASTS_S:
                try:
                    self._value = self._read()
                except InvalidArgument:
                    pass
                self._tried = time.monotonic()
            return (("authorization", self._value),)


class Connection(NamedTuple):
    """How a client connects: None is plaintext."""

    credentials: Any
    authorization: Authorization
    options: tuple[tuple[str, Any], ...]

    @property
    def tls(self) -> bool:
        return self.credentials is not None

    def channel(self, library: Any, target: str,
                options: tuple[tuple[str, Any], ...]) -> Any:
        """Of `library`, grpc or grpc.aio."""
        options = options + self.options
        if self.credentials is None:
            return library.insecure_channel(target, options=options)
        return library.secure_channel(target, self.credentials,
                                      options=options)


def connection(target: str, given_credentials: Any,
               **files: Optional[str]) -> Connection:
    if not isinstance(given_credentials, (grpc.ChannelCredentials,
                                          type(None))):
        raise InvalidArgument(
            f"credentials: {type(given_credentials).__name__}; allowed: "
            "grpc.ChannelCredentials, None")
    security = resolve(**files)
    tls = given_credentials is not None or security.tls
    check(security, target, tls)
    return Connection(
        given_credentials or credentials(security),
        Authorization(security.token_file),
        # What is meant for this machine passes by no proxy.
        (("grpc.enable_http_proxy", 0),) if _is_this_machine(target) else ())
