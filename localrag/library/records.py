"""Records that the library on disk hands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.errors import LibraryError, ParsingError
from localrag.types import Chunk, Document, How, PageNote

Stamp = tuple[str, int]
"""(epoch, generation): the state of the catalogue that a derived index was built to."""

NEVER: Stamp = ("", 0)
"""The stamp of an index that was not built yet."""

ChunkIds = NDArray[np.int64]
"""Ids of chunks, sorted, each once; shape (n,)."""

ID_SUMS = 1 << 64


class ChunkSet(NamedTuple):
    """How many chunks there are, and the sum of their ids modulo `ID_SUMS`.

    Ids follow from what a chunk says and where. Two libraries that were one once, a restored
    catalogue and a copy, say, may come to the same stamp by other changes.
    """

    size: int
    ids: int


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """Which vector space a library lives in; `name` is what a person calls the model."""

    fingerprint: str
    name: str
    dimension: int


@dataclass(frozen=True, slots=True)
class FileState:
    """A source as it was when last read: `size` in bytes, times in ns since the epoch.

    `checked_ns` is when it was read: a file whose `mtime_ns` is not clearly older may have
    changed again within the same tick of the file system's clock. `origins` are the paths at
    which its bytes lay whenever they were read, and the links that led there; none: not known.
    """

    path: str
    size: int
    mtime_ns: int
    checked_ns: int
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A path under which a document was added."""

    state: FileState
    document_id: str


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that could not be read, as it was then, and why.

    `reader` is the version of reading (`types.READER`) that tried; 0 where another attempt may
    do better although the file has not changed. Files of a type that is not read have one record
    for each folder and suffix, with the path `folder/*.suffix` and their `count` in `error`.
    """

    state: FileState
    error: ParsingError
    reader: int = 0


@dataclass(frozen=True, slots=True)
class PageReading:
    """How a page was read, of one of which there is something to say."""

    document_id: str
    number: int
    how: How = "text"
    confidence: float | None = None
    notes: tuple[PageNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Pages of a file that were not read or not read well, or a file that was not read.

    A `note` says what of the pages, an `error` of the file. `pages` is empty for what has none,
    `document_id` for a file that was not read.
    """

    source: str
    pages: tuple[int, ...] = ()
    note: PageNote | None = None
    error: ParsingError | None = None
    document_id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class NewDocument:
    """A document with all that is stored of it: `vectors` has shape (len(chunks), dimension).

    `states` are the files that hold it, `size` is in bytes, `chunking` identifies the chunker.
    """

    document: Document
    states: Sequence[FileState]
    size: int
    language: str
    chunking: str
    chunks: Sequence[Chunk]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document of the library, without its text. `size` is in bytes, `length` in code points."""

    id: str
    title: str
    sources: tuple[str, ...]
    added_at: str
    size: int
    language: str
    metadata: Mapping[str, str]
    pages: int
    chunks: int
    length: int
    chunking: str


@dataclass(frozen=True, slots=True)
class PageSpan:
    """A page of a document: code points `start:end` of its text."""

    number: int
    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class OnPage:
    """Where a span stands on a page of `width` by `height`: left, top, right and bottom each.

    From the upper left corner of the page as it is shown, in points (1/72 inch), of a picture in
    pixels. No rectangles: it is not known for sure.
    """

    page: int
    width: float
    height: float
    rectangles: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class KeptConversation:
    """A kept conversation, known by its first question; times in ISO 8601, UTC."""

    key: str
    title: str
    answers: int
    began: str
    last: str


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A question as it was asked, when, and its answer as whoever keeps it writes answers down."""

    question: str
    asked_at: str
    record: str


@dataclass(frozen=True, slots=True)
class Removals:
    """How far the removals of a library are: `due` while some of one may still be in a file."""

    epoch: str
    generation: int
    due: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """How much the library holds; `size` is the sum of the documents' bytes."""

    documents: int
    sources: int
    pages: int
    chunks: int
    size: int


Lacking = Literal["", "extension", "version", "index"]
"""What an index of pgvector needs and is not there: pgvector in the database, a newer one, or the
index itself, which the next change builds."""


@dataclass(frozen=True, slots=True)
class DerivedStatus:
    """A derived index: `behind` counts the generations it has yet to catch up with."""

    name: str
    present: bool
    behind: int
    size: int
    where: Literal["node", "database"] = "node"
    """Whether it lies on the disk of this computer, or in the library's database."""
    lacking: Lacking = ""
    """Why it does not lie in the database, where it should."""


@dataclass(frozen=True, slots=True)
class LibraryStatus:
    """What `localrag status` shows; read without opening any index or model."""

    location: str
    counts: Counts
    embedding: EmbeddingIdentity
    chunkings: Mapping[str, int]
    """Documents by the fingerprint of the chunking that cut them."""
    outdated: int
    """Documents that an older version has read, and that a rebuild would read again."""
    generation: int
    schema: int
    size_on_disk: int
    derived: tuple[DerivedStatus, ...]
    writer: str
    """Who holds the library for writing, or ""."""
    shared: bool = False
    """Whether it was opened to a group whose key this user has accepted."""
    without_modes: str = ""
    """The kind of file system, where everybody who can read the drive can read the library."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What `remove` did: sources forgotten, and documents that no source held any more."""

    sources: tuple[str, ...]
    documents: tuple[str, ...]
    chunks: int
    purged: bool
    """False where removed text stays in a file for now, because a reader keeps the write-ahead log
    busy, or because of `fault`. Whatever opens the library next tries again."""
    unread: tuple[str, ...] = ()
    """Files that could not be read, which are forgotten too."""
    fault: LibraryError | None = None
    """What kept the files from being written anew, such as a full disk."""


@dataclass(frozen=True, slots=True)
class NotKept:
    """Records cannot be kept, with the error that says why: the next run makes them again."""

    error: LibraryError
