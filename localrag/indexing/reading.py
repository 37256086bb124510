"""What was read of one file: as the library holds it, or read now and not added."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

from localrag.documents.cards import HEAD, card_of
from localrag.documents.chunking import Chunker
from localrag.documents.files import Parse, read_bytes
from localrag.documents.worker import storable
from localrag.errors import ParsingError, UsageError
from localrag.indexing.originals import existing, is_elsewhere
from localrag.indexing.passages import LANGUAGE_SAMPLE
from localrag.library.library import Library
from localrag.library.records import PageReading, SourceRecord
from localrag.system.files import storable_path
from localrag.types import PAGE_BREAK, Card, Chunk, Document, Page, Place

PART = 30_000
"""Code points of a page that are shown at once."""


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """A document with its passages; `chunks` is None where they could not be cut.

    `origin` says where it is from: from the file itself, or from the library, whose file is there
    still, was changed since, or is gone.
    """

    document: Document
    language: str
    chunks: tuple[Chunk, ...] | None
    origin: Literal["file", "library", "changed", "gone"]

    @property
    def card(self) -> Card:
        """What the document is."""
        return card_of(self.document.title, self.document.source, self.document.text[:HEAD])


@dataclass(frozen=True, slots=True)
class PagePart:
    """A page as it was read, or `PART` code points of one that is longer.

    `page.text` begins at code point `start` of the document, and `place` is that of the page;
    `tables` begin on it. What stands before and behind is found at these offsets, if any.
    """

    page: Page
    place: Place
    pages: int
    start: int
    tables: int
    before: int | None
    behind: int | None


def from_library(library: Library, source: str) -> DocumentReading | None:
    """What the library holds of a file, without reading it again; None where it is not in it.

    `source` is its path, or the end of it where only one has that end and there is no such file
    here. Raises UsageError where several have it.
    """
    record = find(library, source)
    document = library.document(record.document_id) if record else None
    if record is None or document is None:
        return None
    about = library.document_record(document.id)
    return DocumentReading(
        replace(document, source=record.state.path),
        about.language if about else "",
        tuple(library.document_chunks(document.id)),
        origin(library, record),
    )


def from_file(
    path: Path, parse: Parse, chunker: Chunker | None, detect_language: Callable[[str], str]
) -> DocumentReading:
    """Read a file as an `add` would. Raises a ParsingError, UsageError where there is none."""
    if not os.path.lexists(path):
        raise UsageError(
            "{source} is neither in the library nor a file here.",
            hint="See what is in the library with `localrag status --documents`.",
            source=str(path),
        )
    document = replace(storable(parse(path, read_bytes(path))), source=storable_path(path))
    return DocumentReading(
        document,
        detect_language(document.text[:LANGUAGE_SAMPLE]),
        None if chunker is None else tuple(chunker.chunk(document)),
        "file",
    )


def find(library: Library, source: str) -> SourceRecord | None:
    """A file of the library by its path, or the end of it where only one has that end.

    None where there is a file here of that name that is not in the library. Raises UsageError
    where several have the end.
    """
    path = Path(source).expanduser()
    named = library.source(storable_path(path)) or library.source(source)
    if named or os.path.lexists(path):
        return named
    end = PurePath(source).parts
    records = [
        record
        for record in library.sources()
        if PurePath(record.state.path).parts[-len(end) :] == end
    ]
    if len({record.document_id for record in records}) > 1:
        raise UsageError(
            "{count} files of the library end in {source}, such as {one} and {other}.",
            hint="Give more of the path.",
            count=len(records),
            source=source,
            one=records[0].state.path,
            other=records[-1].state.path,
        )
    return records[0] if records else None


def read_part(
    library: Library, document_id: str, *, number: int | None = None, offset: int = 0
) -> PagePart | None:
    """The page of that number, or what stands around a code point; None where there is none.

    A long page comes in parts. Reads no more of the document than that.
    """
    about = library.document_record(document_id)
    page = library.page(document_id, number=number, offset=offset)
    if about is None or page is None:
        return None
    at = min(
        max(page.start if number is not None else offset, page.start), max(page.start, page.end - 1)
    )
    start = at - (at - page.start) % PART
    end = min(start + PART, page.end)
    known = next(
        (reading for reading in library.readings([document_id]) if reading.number == page.number),
        None,
    )
    how = known or PageReading(document_id, page.number)
    behind = end if end < page.end else page.end + len(PAGE_BREAK)
    return PagePart(
        page=Page(
            page.number,
            library.text(document_id, start, end),
            page.label,
            how.how,
            how.confidence,
            how.notes,
        ),
        place=replace(
            library.place(document_id, page.start) or Place(page.start, number=page.number),
            row=None,
            heading="",
            paragraph=None,
        ),
        pages=about.pages,
        start=start,
        tables=library.tables_within(document_id, page.start, page.end),
        before=start - 1 if start else None,
        behind=behind if behind < about.length else None,
    )


def origin(library: Library, record: SourceRecord) -> Literal["library", "changed", "gone"]:
    """Whether the file still is what the library has read."""
    path = Path(record.state.path)
    if is_elsewhere(path):
        return "gone"  # as far as anybody here can say
    there, file = existing(library, path), library.file_of(record.state.path)
    is_upload = library.uploads.is_kept(str(there))
    # It lies in that file, such as a mail.
    if there != path and (is_upload or library.file_of(str(there)).is_file()):
        holder = library.source(str(there))
        return origin(library, holder) if holder else "library"
    if is_upload:
        return "library"
    try:
        now = file.stat()
        if (now.st_size, now.st_mtime_ns) == (record.state.size, record.state.mtime_ns):
            return "library"
        if now.st_size != record.state.size:
            return "changed"
        data = read_bytes(file)
    except FileNotFoundError:
        return "gone"
    except (OSError, ParsingError):  # it lies there as something else, or for somebody else
        return "changed"
    same = hashlib.sha256(data).hexdigest() == record.document_id
    return "library" if same else "changed"
