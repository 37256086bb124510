"""Small records that only the holder of a key can have written, as JSON, and files known again."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from localrag.system.seals import Seal


class DamagedIndexError(Exception):
    """A derived index on disk cannot be trusted: it is to be built anew from the catalogue."""


class ForeignIndexError(DamagedIndexError):
    """It was not made under this account: by somebody else, or by an earlier version."""


class Identity(NamedTuple):
    """By which a file that was checked once is known again: its number, size and times in ns."""

    inode: int
    size: int
    modified: int
    changed: int

    @staticmethod
    def of(status: os.stat_result) -> Identity:
        """That of a file."""
        return Identity(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def sealed(fields: dict[str, Any], seal: Seal) -> bytes:
    """The fields in ASCII, with the name of the key and the seal over all of them."""
    fields = fields | {"key": seal.name}
    return _content(fields | {"seal": seal.of(_content(fields)).hex()})


def unsealed(content: bytes, seal: Seal) -> dict[str, Any]:
    """The fields that `sealed` wrote with the same key.

    Raises DamagedIndexError for what is no such record or was altered, ForeignIndexError for one
    of another key.
    """
    try:
        fields = json.loads(content)
        if not isinstance(fields, dict):
            raise DamagedIndexError("the file has another format")
        if fields.get("key", seal.name) != seal.name:
            raise ForeignIndexError("it was not made under this account")
        mac = fields.pop("seal", None)
        written = _content(fields)
    except (ValueError, RecursionError) as error:  # what can be read may still be too deep to write
        raise DamagedIndexError("the file is cut short or not ours") from error
    if not isinstance(mac, str) or not seal.fits(_bytes(mac), written):
        raise DamagedIndexError("the seal does not match")
    return fields


def _content(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode("ascii")


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return b""
