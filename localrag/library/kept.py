"""What a model made of documents, kept with them until they change or go, record by record.

A run that was killed goes on where it was. What cannot be kept is told, and made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import msgspec

from localrag.errors import LibraryError
from localrag.library.folder.locking import PATIENCE
from localrag.library.records import NotKept

if TYPE_CHECKING:
    from localrag.library.library import Library

T = TypeVar("T")

BETWEEN = 1.0
"""Seconds that a record waits for another process that writes, before it waits for the next one."""


class Keeper:
    """Keeps records by document and key as they are made; those that had to wait with the next."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._waiting: dict[tuple[str, str], str] = {}

    def add(self, at: tuple[str, str], record: object) -> None:
        """Have a record kept by the next `keep`."""
        self._waiting[at] = msgspec.json.encode(record).decode()

    def keep(self, timeout: float = BETWEEN) -> Iterator[NotKept]:
        """Keep what waits; or say that it cannot be, after so many seconds."""
        if not self._waiting:
            return
        try:
            self._library.keep_cells(self._waiting, timeout)
            self._waiting = {}
        except LibraryError as error:
            yield NotKept(error)

    def finish(self) -> Iterator[NotKept]:
        """Keep what waits still, with the patience that the end has."""
        return self.keep(PATIENCE)


def key_of(*identity: object) -> str:
    """What a record is found by, beside its document: a hash that does not say of what."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def record_of(kept: str, kind: type[T]) -> T | None:
    """A record that was kept; None for one of another version, or damaged: it is made again."""
    try:
        return msgspec.json.decode(kept, type=kind)
    except msgspec.MsgspecError:
        return None
