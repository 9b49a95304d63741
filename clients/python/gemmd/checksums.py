"""The Checksum that ends a message (gemmd/v1/checksum.proto)."""

import importlib
from typing import Any

from . import errors

METADATA = (("gemmd-checksums", "crc32c"),)
# Of a serialised Checksum: field 2047, of 32 bits.
BYTES = 6
_TAG = b"\xfd\x7f"


class Checksums:
    """By google-crc32c; MissingPackage where that is not installed."""

    def __init__(self) -> None:
        try:
            crc32c: Any = importlib.import_module("google_crc32c")
        except ImportError:
            raise _missing("google-crc32c is not installed") from None
        if crc32c.implementation != "c":
            # It would take a second for some megabytes.
            raise _missing("google-crc32c is here without its extension in C")
        self._value = crc32c.value
        self._extend = crc32c.extend

    def sealed(self, message: bytes) -> bytes:
        """It and its Checksum."""
        return message + _encoded(self._value(message))

    def opened(self, message: bytes) -> memoryview:
        """What comes before the Checksum. DataLoss unless it is that one's."""
        last = message[-BYTES:]
        if len(last) < BYTES or not last.startswith(_TAG):
            raise errors.DataLoss(
                f"a message of {len(message)} bytes does not end with a "
                "Checksum, as the metadata gemmd-checksums says: it was "
                "damaged on its way, or its sender added none")
        # The package takes no part of a message without a copy. But what goes
        # on with the same bytes has another sum if it had one before.
        named = int.from_bytes(last[len(_TAG):], "little")
        if self._value(message) != self._extend(named, last):
            found = self._value(message[:-BYTES])
            raise errors.DataLoss(
                f"a message of {len(message)} bytes was damaged on its way: "
                f"the CRC-32C of what came is {found:08x}, and its Checksum "
                f"says {named:08x}")
        return memoryview(message)[:-BYTES]


def _encoded(crc: int) -> bytes:
    return _TAG + crc.to_bytes(4, "little")


def _missing(what: str) -> errors.MissingPackage:
    return errors.MissingPackage(
        f"checksums: {what}; run pip install "
        "'google-crc32c>=1.7.1', which gemmd[checksums] needs")
