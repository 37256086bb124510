"""What an `add` tells while it runs, and what it says at the end.

A path has exactly one outcome: Unchanged, Linked, Committed or Failed. Embedded counts chunks,
so that a bar over chunks is honest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from localrag.errors import ParsingError


@dataclass(frozen=True, slots=True)
class Found:
    """The walk is over: so many files will have an outcome."""

    files: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The library holds this file as it is."""

    source: str


@dataclass(frozen=True, slots=True)
class Linked:
    """The same bytes are in the library, or on their way in, under another path."""

    source: str
    document_id: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file was read and cut; its chunks wait to be embedded."""

    source: str
    pages: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """So many more chunks have their vectors."""

    chunks: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The document is in the library and stays there, whatever happens next.

    `replaced` when the path held another version before.
    """

    source: str
    document_id: str
    chunks: int
    replaced: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The file cannot be read; what the library held of it before stays."""

    source: str
    error: ParsingError


@dataclass(frozen=True, slots=True)
class Vanished:
    """The library holds this file of an added folder, but it is no longer there."""

    source: str


@dataclass(frozen=True, slots=True)
class Removed:
    """A vanished file was removed from the library."""

    source: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Vector and keyword index are up to date on disk; it took so many seconds."""

    seconds: float


Event = (
    Found
    | Unchanged
    | Linked
    | Parsed
    | Embedded
    | Committed
    | Failed
    | Vanished
    | Removed
    | Synced
)

Progress = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class AddReport:
    """What an `add` or a rebuild did.

    `skipped` are files of other kinds in added folders; `failed` could not be read. `seconds`
    gives the time by phase: read, parse, chunk, embed, store, index.
    """

    committed: tuple[Committed, ...] = ()
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
