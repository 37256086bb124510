"""What was read of one file: as the library holds it, or read now and not added."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

from localrag.documents.chunking import Chunker
from localrag.documents.files import Parse, read_bytes, storable_path
from localrag.documents.worker import storable
from localrag.errors import ParsingError, UsageError
from localrag.indexing.originals import existing, is_elsewhere
from localrag.indexing.passages import LANGUAGE_SAMPLE
from localrag.library.library import Library
from localrag.library.records import SourceRecord
from localrag.types import Chunk, Document


@dataclass(frozen=True, slots=True)
class Reading:
    """A document with its passages; `chunks` is None where they could not be cut.

    `origin` says where it is from: from the file itself, or from the library, whose file is there
    still, was changed since, or is gone.
    """

    document: Document
    language: str
    chunks: tuple[Chunk, ...] | None
    origin: Literal["file", "library", "changed", "gone"]


def from_library(library: Library, source: str) -> Reading | None:
    """What the library holds of a file, without reading it again; None where it is not in it.

    `source` is its path, or the end of it where only one has that end and there is no such file
    here. Raises UsageError where several have it.
    """
    record = find(library, source)
    document = library.document(record.document_id) if record else None
    if record is None or document is None:
        return None
    about = library.document_record(document.id)
    return Reading(
        replace(document, source=record.state.path),
        about.language if about else "",
        tuple(library.document_chunks(document.id)),
        origin(library, record),
    )


def from_file(
    path: Path, parse: Parse, chunker: Chunker | None, detect_language: Callable[[str], str]
) -> Reading:
    """Read a file as an `add` would. Raises a ParsingError, UsageError where there is none."""
    if not os.path.lexists(path):
        raise UsageError(
            "{source} is neither in the library nor a file here.",
            hint="See what is in the library with `localrag status --documents`.",
            source=str(path),
        )
    document = replace(storable(parse(path, read_bytes(path))), source=storable_path(path))
    return Reading(
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
    found = [one for one in library.sources() if PurePath(one.state.path).parts[-len(end) :] == end]
    if len({one.document_id for one in found}) > 1:
        raise UsageError(
            "{count} files of the library end in {source}, such as {one} and {other}.",
            hint="Give more of the path.",
            count=len(found),
            source=source,
            one=found[0].state.path,
            other=found[-1].state.path,
        )
    return found[0] if found else None


def origin(library: Library, record: SourceRecord) -> Literal["library", "changed", "gone"]:
    """Whether the file still is what the library has read."""
    path = Path(record.state.path)
    if is_elsewhere(path):
        return "gone"  # as far as anybody here can say
    there, file = existing(library, path), library.file_of(record.state.path)
    # It lies in that file, such as a mail.
    if there != path and library.file_of(str(there)).is_file():
        holder = library.source(str(there))
        return origin(library, holder) if holder else "library"
    try:
        now = file.stat()
        if (now.st_size, now.st_mtime_ns) == (record.state.size, record.state.mtime_ns):
            return "library"
        data = read_bytes(file)
    except FileNotFoundError:
        return "gone"
    except (OSError, ParsingError):  # it lies there as something else, or for somebody else
        return "changed"
    same = hashlib.sha256(data).hexdigest() == record.document_id
    return "library" if same else "changed"
