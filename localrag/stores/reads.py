"""Reading the catalogue: one state of it, as `Catalogue.read` gives it."""

# ruff: noqa: S608 - what is put into a statement here are constants of this file

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.errors import LibraryDamagedError
from localrag.stores.base import ChunkIds
from localrag.stores.filters import Filter, page_conditions, source_conditions
from localrag.stores.records import Counts, DocumentRecord, FileState, SourceRecord, Stamp
from localrag.types import Chunk, Document, Heading, Page

BLOCK = 16_384
"""Code points of a document's text in one row."""

BATCH = 500
"""Rows or ids that travel together."""

FORGOTTEN = "forgotten"
"""The setting that says up to which generation removals are no longer known."""

PURGE_DUE = "purge due"
"""The setting that stands while something removed may still be in a file."""

_CHUNK = """c.id, d.id, c.position, c.heading, c.first_page, c.last_page, c."start", c."end",
    c.document"""


class Snapshot:
    """Questions to one consistent state of the library."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection

    @property
    def sql(self) -> sqlite3.Connection:
        """The connection, for a check that looks below the records."""
        return self._sql

    # Settings and sizes

    def meta(self, key: str) -> str | int | None:
        """A setting of the library, or None."""
        row = self._sql.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def stamp(self) -> Stamp:
        """(epoch, generation): what a derived index compares itself with."""
        return str(self.meta("epoch")), int(self.meta("generation") or 0)

    def base(self, stamp: Stamp) -> int | None:
        """From which generation an index of that state can follow; None: it must begin anew."""
        epoch, newest = self.stamp()
        oldest = int(self.meta(FORGOTTEN) or 0)
        same_line = stamp[0] == epoch and oldest <= stamp[1] <= newest
        return stamp[1] if same_line else None

    def schema(self) -> int:
        """The number of the newest migration that the file has had."""
        return int(self._sql.execute("PRAGMA user_version").fetchone()[0])

    def counts(self) -> Counts:
        """How much there is."""
        documents, size = self._sql.execute(
            "SELECT count(*), coalesce(sum(size), 0) FROM documents"
        ).fetchone()
        return Counts(documents, self._count("sources"), self._count("pages"), self.chunks(), size)

    def chunks(self) -> int:
        """Number of chunks."""
        return self._count("chunks")

    def chunkings(self) -> dict[str, int]:
        """Documents by the fingerprint of the chunking that cut them."""
        return dict(self._sql.execute("SELECT chunking, count(*) FROM documents GROUP BY chunking"))

    def _count(self, table: str) -> int:
        return int(self._sql.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    # Documents and sources

    def documents(self) -> list[DocumentRecord]:
        """All documents in the order they were added."""
        return self._documents("")

    def has_document(self, document_id: str) -> bool:
        """Whether there is a document of this id."""
        found = self._sql.execute("SELECT 1 FROM documents WHERE id = ?", (document_id,))
        return found.fetchone() is not None

    def document_record(self, document_id: str) -> DocumentRecord | None:
        """One document without its text, or None."""
        return next(iter(self._documents("WHERE d.id = ?", document_id)), None)

    def _documents(self, where: str, *values: str) -> list[DocumentRecord]:
        sources: dict[int, list[str]] = {}
        for number, path in self._sql.execute(
            "SELECT s.document, s.path FROM sources s JOIN documents d ON d.number = s.document "
            f"{where} ORDER BY s.path",
            values,
        ):
            sources.setdefault(number, []).append(path)
        rows = self._sql.execute(
            "SELECT d.number, d.id, d.title, d.added_at, d.size, d.language, d.metadata, d.length, "
            "d.chunking, (SELECT count(*) FROM pages p WHERE p.document = d.number), "
            "(SELECT count(*) FROM chunks c WHERE c.document = d.number) "
            f"FROM documents d {where} ORDER BY d.number",
            values,
        )
        return [
            DocumentRecord(
                id=row[1],
                title=row[2],
                sources=tuple(sources.get(row[0], ())),
                added_at=row[3],
                size=row[4],
                language=row[5],
                metadata=_metadata(row[6]),
                length=row[7],
                chunking=row[8],
                pages=row[9],
                chunks=row[10],
            )
            for row in rows
        ]

    def document(self, document_id: str) -> Document | None:
        """A document as it was parsed, or None; `source` is the first of its paths."""
        row = self._sql.execute(
            "SELECT number, title, metadata FROM documents WHERE id = ?", (document_id,)
        ).fetchone()
        if row is None:
            return None
        number, title, metadata = row
        source = self._sql.execute(
            "SELECT path FROM sources WHERE document = ? ORDER BY path LIMIT 1", (number,)
        ).fetchone()
        text = self._text(number)
        pages = self._sql.execute(
            'SELECT number, "start", "end" FROM pages WHERE document = ? ORDER BY position',
            (number,),
        )
        headings = self._sql.execute(
            'SELECT "start", level, text FROM headings WHERE document = ? ORDER BY position',
            (number,),
        )
        try:
            cut = tuple(Page(page, text[start:end]) for page, start, end in pages)
        except TypeError as error:
            raise _damaged_rows(error) from error
        return Document(
            id=document_id,
            source=source[0] if source else "",
            title=title,
            pages=cut,
            headings=tuple(Heading(*heading) for heading in headings),
            metadata=_metadata(metadata),
        )

    def page_spans(self, document_id: str) -> list[tuple[int, int, int]]:
        """(page number, start, end) of each page, in code points of the document's text."""
        return self._sql.execute(
            'SELECT p.number, p."start", p."end" FROM pages p '
            "JOIN documents d ON d.number = p.document WHERE d.id = ? ORDER BY p.position",
            (document_id,),
        ).fetchall()

    def text(self, document_id: str, start: int, end: int) -> str:
        """Code points `start:end` of a document's text; "" for an unknown document."""
        row = self._sql.execute(
            "SELECT number FROM documents WHERE id = ?", (document_id,)
        ).fetchone()
        return self._span(row[0], start, end) if row else ""

    def source(self, path: str) -> SourceRecord | None:
        """What is known of a path, or None."""
        return next(iter(self._sources("WHERE s.path = ?", path)), None)

    def sources(self) -> list[SourceRecord]:
        """All paths under which documents were added, sorted."""
        return self._sources("ORDER BY s.path")

    def _sources(self, clause: str, *values: str) -> list[SourceRecord]:
        origins: dict[str, list[str]] = {}
        for source, path in self._sql.execute(
            f"SELECT o.source, o.path FROM origins o JOIN sources s ON s.path = o.source {clause}",
            values,
        ):
            origins.setdefault(source, []).append(path)
        rows = self._sql.execute(
            "SELECT s.path, s.size, s.mtime_ns, s.checked_ns, d.id FROM sources s "
            f"JOIN documents d ON d.number = s.document {clause}",
            values,
        )
        return [
            SourceRecord(
                FileState(path, size, mtime, checked, tuple(sorted(origins.get(path, ())))), owner
            )
            for path, size, mtime, checked, owner in rows
        ]

    # Chunks

    def chunks_by_id(self, ids: Iterable[int]) -> dict[int, Chunk]:
        """The chunks with these ids; unknown and removed ones are left out."""
        wanted = list(ids)
        found: dict[int, Chunk] = {}
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            marks = ",".join("?" * len(some))
            rows = self._sql.execute(
                f"SELECT {_CHUNK} FROM chunks c JOIN documents d ON d.number = c.document "
                f"WHERE c.id IN ({marks})",
                some,
            ).fetchall()
            found.update((row[0], self._chunk(row)) for row in rows)
        return {chunk_id: found[chunk_id] for chunk_id in wanted if chunk_id in found}

    def chunk_ids(self, wanted: Filter) -> ChunkIds:
        """The chunks that a filter allows."""
        held, held_values = source_conditions(wanted)
        paged, page_values = page_conditions(wanted)
        rows = self._sql.execute(
            "SELECT c.id FROM chunks c WHERE c.document IN "
            "(SELECT d.number FROM documents d JOIN sources s ON s.document = d.number "
            f"WHERE {held}) AND {paged}",
            (*held_values, *page_values),
        )
        # Sorted here: SQLite would sort rows it can take ready from an index.
        return np.sort(np.fromiter((row[0] for row in rows), dtype=np.int64))

    def document_chunks(self, document_id: str) -> list[Chunk]:
        """All chunks of a document, in order."""
        rows = self._sql.execute(
            f"SELECT {_CHUNK} FROM chunks c JOIN documents d ON d.number = c.document "
            "WHERE d.id = ? ORDER BY c.position",
            (document_id,),
        ).fetchall()
        text = self._text(rows[0][8]) if rows else ""
        return [self._chunk(row, text) for row in rows]

    def sources_of(
        self, document_ids: Iterable[str], wanted: Filter | None = None
    ) -> dict[str, str]:
        """The first path of each document, of those that the filter allows."""
        found: dict[str, str] = {}
        condition, values = source_conditions(wanted or Filter())
        for document_id in set(document_ids):
            row = self._sql.execute(
                "SELECT min(s.path) FROM sources s JOIN documents d ON d.number = s.document "
                f"WHERE d.id = ? AND {condition}",
                (document_id, *values),
            ).fetchone()
            if row[0] is not None:
                found[document_id] = row[0]
        return found

    def _chunk(self, row: Sequence[object], text: str | None = None) -> Chunk:
        identity, document_id, position, heading, first, last, start, end, number = row
        assert isinstance(start, int)  # noqa: S101 - the schema says so; mypy cannot know
        assert isinstance(end, int)  # noqa: S101
        span = self._span(number, start, end) if text is None else text[start:end]
        return Chunk(
            identity,  # type: ignore[arg-type]
            document_id,  # type: ignore[arg-type]
            position,  # type: ignore[arg-type]
            span,
            heading,  # type: ignore[arg-type]
            first,  # type: ignore[arg-type]
            last,  # type: ignore[arg-type]
            start,
            end,
        )

    def _text(self, number: object) -> str:
        rows = self._sql.execute(
            "SELECT text FROM blocks WHERE document = ? ORDER BY block", (number,)
        )
        return "".join(row[0] for row in rows)

    def _span(self, number: object, start: int, end: int) -> str:
        first = start // BLOCK
        rows = self._sql.execute(
            "SELECT text FROM blocks WHERE document = ? AND block BETWEEN ? AND ? ORDER BY block",
            (number, first, max(start, end - 1) // BLOCK),
        )
        return "".join(row[0] for row in rows)[start - first * BLOCK : end - first * BLOCK]

    # What derived indexes follow

    def removed_since(self, generation: int) -> list[int]:
        """Ids of chunks that went away after `generation`; some may have come back."""
        rows = self._sql.execute(
            "SELECT DISTINCT chunk FROM removals WHERE generation > ?", (generation,)
        )
        return [row[0] for row in rows]

    def added_ids_since(self, generation: int) -> list[int]:
        """Ids of the chunks that are there and came after `generation`."""
        rows = self._sql.execute(
            "SELECT id FROM chunks WHERE generation > ? ORDER BY id", (generation,)
        )
        return [row[0] for row in rows]

    def embeddings_since(
        self, generation: int, dimension: int
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Batches of ids and vectors, shape (n, dimension) float32, that came after it."""
        cursor = self._sql.execute(
            "SELECT c.id, e.vector FROM chunks c JOIN embeddings e ON e.chunk = c.id "
            "WHERE c.generation > ? ORDER BY c.id",
            (generation,),
        )
        while rows := cursor.fetchmany(4 * BATCH):
            if any(len(row[1]) != 2 * dimension for row in rows):
                raise _damaged_rows("vector")
            packed = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f2")
            yield [row[0] for row in rows], packed.reshape(-1, dimension).astype(np.float32)

    def packed_embeddings(self) -> Iterator[tuple[list[int], list[bytes]]]:
        """Batches of ids and vectors as they are stored, of all chunks that have one."""
        cursor = self._sql.execute(
            "SELECT c.id, e.vector FROM chunks c JOIN embeddings e ON e.chunk = c.id ORDER BY c.id"
        )
        while rows := cursor.fetchmany(4 * BATCH):
            yield [row[0] for row in rows], [bytes(row[1]) for row in rows]

    def chunks_since(self, generation: int) -> Iterator[Chunk]:
        """The chunks that came after it, document by document."""
        numbers = self._sql.execute(
            "SELECT DISTINCT document FROM chunks WHERE generation > ? ORDER BY document",
            (generation,),
        ).fetchall()
        for (number,) in numbers:
            text = self._text(number)
            rows = self._sql.execute(
                f"SELECT {_CHUNK} FROM chunks c JOIN documents d ON d.number = c.document "
                "WHERE c.document = ? AND c.generation > ? ORDER BY c.position",
                (number, generation),
            ).fetchall()
            for row in rows:
                yield self._chunk(row, text)

    # A rebuild under way

    def unstaged(self) -> list[str]:
        """Ids of the documents that a rebuild has still to cut and embed."""
        rows = self._sql.execute(
            "SELECT id FROM documents WHERE number NOT IN "
            "(SELECT document FROM staged_documents) ORDER BY number"
        )
        return [row[0] for row in rows]


def _metadata(stored: object) -> dict[str, str]:
    try:
        found = dict(json.loads(str(stored)))
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged_rows(error) from error
    return {str(name): str(value) for name, value in found.items()}


def _damaged_rows(reason: object) -> LibraryDamagedError:
    return LibraryDamagedError(
        "The catalogue of the library holds what cannot have been stored: {reason}.",
        hint="Run `localrag check` to see what is damaged and how to repair it.",
        reason=reason,
    )
