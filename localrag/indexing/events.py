"""What an `add` and a `watch` tell while they run, and what an `add` says at the end.

A path has exactly one outcome: Unchanged, Linked, Committed or Failed. Embedded counts chunks,
so that a bar over chunks is honest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from localrag.errors import ParsingError


class IndexingEvent(msgspec.Struct, frozen=True):
    """One thing that happened."""


class FilesFound(IndexingEvent, frozen=True):
    """So many files, or so many more inside one of them, will have an outcome."""

    files: int


class Unchanged(IndexingEvent, frozen=True):
    """The library holds this file as it is."""

    source: str


class Linked(IndexingEvent, frozen=True):
    """The same bytes are in the library, or on their way in, under another path."""

    source: str
    document_id: str


class PageRecognised(IndexingEvent, frozen=True):
    """A page of a file was read by recognition, which takes seconds: so many of them are done.

    Or so many pictures on pages of text, where `pages` is 0.
    """

    source: str
    page: int
    pages: int


class Parsed(IndexingEvent, frozen=True):
    """A file was read and cut; its chunks wait to be embedded."""

    source: str
    pages: int
    chunks: int


class Embedded(IndexingEvent, frozen=True):
    """So many more chunks have their vectors."""

    chunks: int


class Committed(IndexingEvent, frozen=True):
    """The document is in the library and stays there, whatever happens next.

    `replaced` when the path held another version before.
    """

    source: str
    document_id: str
    chunks: int
    replaced: bool


class ReadAgain(IndexingEvent, frozen=True):
    """A document that an older version had read is in the library as it is read now.

    So many of its chunks were `embedded`; the others say what they said before.
    """

    source: str
    document_id: str
    chunks: int
    embedded: int


class Kept(IndexingEvent, frozen=True):
    """An older version had read this document, and its file is gone or has changed: it stays."""

    source: str


class Failed(IndexingEvent, frozen=True):
    """The file cannot be read; what the library held of it before stays.

    Not `tried` where it failed before and has not changed since.
    """

    source: str
    error: ParsingError
    tried: bool = True


class Vanished(IndexingEvent, frozen=True):
    """The library holds this file of an added folder, but it is no longer there."""

    source: str


class Removed(IndexingEvent, frozen=True):
    """A vanished file, or one that its mail no longer holds, was removed from the library."""

    source: str


class Synced(IndexingEvent, frozen=True):
    """Vector and keyword index are up to date on disk; it took so many seconds."""

    seconds: float


class Watching(IndexingEvent, frozen=True):
    """Folders are being watched, with so many files in them that can be read."""

    folders: tuple[str, ...]
    files: int


class Polled(IndexingEvent, frozen=True):
    """Changes are found by looking every so many seconds only, below a folder or everywhere ("").

    "limit": the system lets nobody watch so many folders; "events": it tells of none.
    """

    source: str
    why: Literal["network-drive", "limit", "events"]
    seconds: float
    reason: str = ""


class Away(IndexingEvent, frozen=True):
    """A watched folder cannot be looked at now, or its drive is gone; nothing is removed."""

    source: str
    why: Literal["missing", "empty", "unreadable"]
    reason: str = ""


class Back(IndexingEvent, frozen=True):
    """A watched folder that was away is there again."""

    source: str


class Withheld(IndexingEvent, frozen=True):
    """So many of the files that the library holds of a folder are gone at once; they stay in it."""

    source: str
    gone: int
    files: int


class Restless(IndexingEvent, frozen=True):
    """A file is still being written; the next look takes it."""

    source: str


class Waiting(IndexingEvent, frozen=True):
    """Another process holds the library for writing."""

    holder: str


Progress = Callable[[IndexingEvent], None]


@dataclass(frozen=True, slots=True)
class AddReport:
    """What an `add` or a rebuild did.

    `skipped` are files of other kinds in added folders, and links that lead out of them; `failed`
    could not be read, folders that could not be opened included. `seconds` gives the time by
    phase: read, parse, chunk, embed, store, index.
    """

    committed: tuple[Committed, ...] = ()
    read_again: tuple[ReadAgain, ...] = ()
    kept: tuple[str, ...] = ()
    linked: tuple[Linked, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()
    skipped: tuple[ParsingError, ...] = ()
    vanished: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def chunks(self) -> int:
        """Chunks that were added."""
        return sum(document.chunks for document in self.committed)
