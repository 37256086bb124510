"""Reading the catalogue: one state of it, as `Catalogue.read` gives it."""

# ruff: noqa: S608 - what is put into a statement here are constants of this file

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from localrag.errors import LibraryError, ParsingError, parsing_error
from localrag.library.catalogue.base import Connection, Row
from localrag.library.catalogue.filters import Filter, page_conditions, source_conditions
from localrag.library.catalogue.guarded import damaged_rows
from localrag.library.records import (
    ID_SUMS,
    ChunkIds,
    ChunkSet,
    Counts,
    DocumentRecord,
    EmbeddingIdentity,
    FileState,
    PageReading,
    Removals,
    SourceRecord,
    Stamp,
    UnreadFile,
)
from localrag.text.titles import bounded_title
from localrag.types import (
    READER,
    Chunk,
    Columns,
    Document,
    Heading,
    How,
    Page,
    PageNote,
    PageNoteKind,
    TableSpan,
    Unit,
)

BLOCK = 16_384
"""Code points of a document's text in one row."""

PER_MILLE = 1000
"""What the confidence of a page is stored in."""

BATCH = 500
"""Rows or ids that travel together."""

FORGOTTEN = "forgotten"
"""The setting that says up to which generation removals are no longer known."""

PURGE_DUE = "purge due"
"""The setting that stands while something removed may still be in a file."""

CHUNKS = "chunks"
"""The setting that says which chunks there are: how many, and the sum of their ids."""

HISTORY = "history"
"""The setting that stands where answers are to be kept."""

SETTINGS: dict[str, type] = {
    "generation": int,
    "epoch": str,
    "embedding": str,
    "embedding_name": str,
    "dimension": int,
    CHUNKS: str,
    FORGOTTEN: int,
    PURGE_DUE: int,
    HISTORY: int,
    "staging": str,
}
"""All settings of a library, and what they are; another one is a new migration."""

_ALL_SETTINGS = f"SELECT key, value FROM meta WHERE key IN ({','.join('?' * len(SETTINGS))})"
_SETTING_LIMIT = 10_000
BEYOND = 1 << 53
"""No number that is counted here is as large."""
_WIDEST = 65_536  # dimensions of a vector

_CHUNK = """c.id, d.id, c.position, c.heading, c.first_page, c.last_page, c."start", c."end",
    c.document, c.columns, d.title"""
_CHUNK_KINDS = (int, str, int, str, int, int, int, int, int, str, str)

_SKIPPED = (
    f"(CASE WHEN asked.since > b.block * {BLOCK} THEN asked.since - b.block * {BLOCK} ELSE 0 END)"
)
"""How many code points of a block come before what is asked for."""
_LONGEST = (1 << 31) - 1
"""Code points of a text that can be asked for."""


class Snapshot:
    """Questions to one consistent state of the library."""

    def __init__(self, connection: Connection) -> None:
        self.sql = connection  # also for a check that looks below the records
        self._settings: dict[str, object] | None = None

    # Settings and sizes

    def meta(self, key: str) -> str | int | None:
        """A setting of the library, or None; all are asked for with the first."""
        if self._settings is None:
            self._settings = dict(self.sql.execute(_ALL_SETTINGS, (*SETTINGS,)))
        if key not in self._settings:
            return None
        (value,) = self.sql.of_kinds((self._settings[key],), (SETTINGS[key],))
        if isinstance(value, str) and len(value) > _SETTING_LIMIT:
            raise damaged_rows(key)
        return value  # type: ignore[no-any-return]

    def stamp(self) -> Stamp:
        """(epoch, generation): what a derived index compares itself with."""
        generation = int(self.meta("generation") or 0)
        if not 0 <= generation < BEYOND:
            raise damaged_rows("generation")
        return str(self.meta("epoch")), generation

    def base(self, stamp: Stamp) -> int | None:
        """From which generation an index of that state can follow; None: it must begin anew."""
        epoch, newest = self.stamp()
        oldest = int(self.meta(FORGOTTEN) or 0)
        same_line = stamp[0] == epoch and oldest <= stamp[1] <= newest
        return stamp[1] if same_line else None

    def removals(self) -> Removals:
        """What differs after each removal, and after the purge that ends it."""
        epoch, generation = self.stamp()
        due = self.meta(PURGE_DUE) is not None
        if not due:
            newest = "SELECT coalesce(max(generation), 0) FROM removals"
            (last,) = self.sql.of_kinds(self.sql.execute(newest).fetchone(), (int,))
            generation = max(last, int(self.meta(FORGOTTEN) or 0))
        return Removals(epoch, generation, due)

    def embedding(self) -> EmbeddingIdentity:
        """Which vector space the library lives in."""
        fingerprint, name, width = map(self.meta, ("embedding", "embedding_name", "dimension"))
        if fingerprint is None or not isinstance(width, int) or not 0 < width <= _WIDEST:
            raise damaged_rows("embedding")
        return EmbeddingIdentity(str(fingerprint), str(name), width)

    def schema(self) -> int:
        """The number of the newest migration that the file has had."""
        return self.sql.version()

    def counts(self) -> Counts:
        """How much there is."""
        documents, size = self.sql.execute(
            "SELECT count(1), CAST(coalesce(sum(size), 0) AS BIGINT) FROM documents"
        ).fetchone()
        if type(size) is not int:
            raise damaged_rows(size)
        return Counts(
            documents, self._count("sources"), self._count("pages"), self.chunk_set().size, size
        )

    def is_empty(self) -> bool:
        """Whether there is no document at all."""
        return self.sql.execute("SELECT 1 FROM documents LIMIT 1").fetchone() is None

    def has_rows(self) -> bool:
        """Whether there is more to go through than one text: a second document, or a table."""
        rows = self.sql.execute(
            "SELECT EXISTS (SELECT 1 FROM documents LIMIT 1 OFFSET 1)"
            " OR EXISTS (SELECT 1 FROM tables LIMIT 1)"
        )
        return bool(rows.fetchone()[0])

    def holds_nothing(self) -> bool:
        """Whether there is no document, and nothing that belongs to the place either."""
        rows = self.sql.execute("SELECT 1 FROM unread UNION ALL SELECT 1 FROM answers LIMIT 1")
        return self.is_empty() and rows.fetchone() is None

    def chunk_set(self) -> ChunkSet:
        """Which chunks there are, as each change has written it down."""
        size, _, ids = str(self.meta(CHUNKS)).partition(" ")
        if size.isdecimal() and ids.isdecimal():
            return ChunkSet(int(size), int(ids))
        return self.counted_chunks()

    def counted_chunks(self) -> ChunkSet:
        """The same from all of them; counted once for each state of the library."""
        stamp, known = self.stamp(), self.sql.counted
        if known is None or known[0] != stamp:
            known = self.sql.counted = (stamp, self._chunk_set())
        return known[1]

    def _chunk_set(self) -> ChunkSet:
        # In two halves: SQLite's sum is an error where it passes 64 bits.
        count, high, low = self.sql.execute(
            "SELECT count(1), CAST(coalesce(sum(id >> 32), 0) AS BIGINT), "
            "CAST(coalesce(sum(id & 4294967295), 0) AS BIGINT) FROM chunks"
        ).fetchone()
        return ChunkSet(count, ((high << 32) + low) % ID_SUMS)

    def chunkings(self) -> dict[str, int]:
        """Documents by the fingerprint of the chunking that cut them."""
        query = "SELECT number, chunking FROM documents ORDER BY number"
        rows = self.sql.rows(query, kinds=(int, str))
        return dict(sorted(Counter(chunking for _, chunking in rows).items()))

    def _count(self, table: str) -> int:
        # count(*) walks the pages by itself, where no limit of steps counts.
        return int(self.sql.execute(f"SELECT count(1) FROM {table}").fetchone()[0])

    # Documents and sources

    def documents(self) -> list[DocumentRecord]:
        """All documents in the order they were added."""
        return self._documents("")

    def listed(
        self,
        most: int,
        *,
        before: int | None = None,
        words: str = "",
        paths: Collection[str] = (),
        among: Collection[str] | None = None,
    ) -> tuple[list[DocumentRecord], int | None]:
        """Up to `most` documents, the newest first, and what `before` is for those that follow.

        `words` stand in the title, whatever their case, or one of its paths is among `paths`;
        `among` are ids. None follow: None.
        """
        sought = words.lower()
        rows = self.sql.rows(
            "SELECT d.number, d.title, CASE WHEN EXISTS (SELECT 1 FROM sources s WHERE "
            "s.document = d.number AND s.path IN (SELECT value FROM json_each(?))) "
            "THEN 1 ELSE 0 END FROM documents d WHERE d.number < ? "
            "AND (? = 1 OR d.id IN (SELECT value FROM json_each(?))) "
            "ORDER BY d.number DESC LIMIT ?",
            json.dumps(sorted(paths)),
            *(BEYOND if before is None else before, int(among is None)),
            json.dumps(sorted(among or ())),
            BEYOND if words else most + 1,
            kinds=(int, str, int),
            ordered=False,
        )
        # Compared here: the databases know no capitals beyond ASCII.
        met = (number for number, title, named in rows if named or sought in title.lower())
        numbers = [*islice(met, most + 1)]
        listing = json.dumps(numbers[:most])
        some = "WHERE d.number IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
        documents = self._documents(some, listing)
        return documents[::-1], numbers[most - 1] if len(numbers) > most else None

    def has_document(self, document_id: str) -> bool:
        """Whether there is a document of this id."""
        return self._number(document_id) is not None

    def document_record(self, document_id: str) -> DocumentRecord | None:
        """One document without its text, or None."""
        return next(iter(self._documents("WHERE d.id = ?", document_id)), None)

    def _documents(self, where: str, *values: str) -> list[DocumentRecord]:
        sources: dict[int, list[str]] = {}
        for path, number in self.sql.rows(
            "SELECT s.path, s.document FROM sources s JOIN documents d ON d.number = s.document "
            f"{where} ORDER BY s.path",
            *values,
            kinds=(str, int),
        ):
            sources.setdefault(number, []).append(path)
        rows = self.sql.rows(
            "SELECT d.number, d.id, d.title, d.added_at, d.size, d.language, d.metadata, "
            "(SELECT count(*) FROM pages p WHERE p.document = d.number), "
            "(SELECT count(*) FROM chunks c WHERE c.document = d.number), d.length, d.chunking "
            f"FROM documents d {where} ORDER BY d.number",
            *values,
            kinds=(int, str, str, str, int, str, str, int, int, int, str),
        )
        return [
            DocumentRecord(
                identity,
                bounded_title(title),
                tuple(sources.get(number, ())),
                *(added_at, size, language),
                _metadata(metadata),
                *counts,
            )
            for number, identity, title, added_at, size, language, metadata, *counts in rows
        ]

    def document(self, document_id: str) -> Document | None:
        """A document as it was parsed, or None; `source` is the first of its paths."""
        row = self.first(
            "SELECT number, title, metadata, unit FROM documents WHERE id = ?",
            document_id,
            kinds=(int, str, str, str),
        )
        if row is None:
            return None
        number, title, metadata, unit = row
        text = self._text(number)
        headings = self.sql.rows(
            'SELECT position, "start", level, text FROM headings WHERE document = ? '
            "ORDER BY position",
            number,
            kinds=(int, int, int, str),
        )
        tables = self.sql.rows(
            'SELECT position, "start", "end", header, header_rows FROM tables WHERE document = ? '
            "ORDER BY position",
            number,
            kinds=(int, int, int, str, int),
        )
        return Document(
            id=document_id,
            source=self.sources_of([document_id]).get(document_id, ""),
            title=bounded_title(title),
            pages=tuple(self._pages(number, text, _older_notes(_metadata(metadata)))),
            headings=tuple(Heading(*heading) for _, *heading in headings),
            metadata=_metadata(metadata),
            tables=tuple(
                TableSpan(start, end, _decoded(header, tuple[str, ...]), rows)
                for _, start, end, header, rows in tables
            ),
            unit=_decoded(unit, Unit, plain=True),
        )

    def _pages(
        self, number: int, text: str, older: Mapping[int, tuple[PageNote, ...]]
    ) -> Iterator[Page]:
        layouts: dict[int, bytes] = dict(
            self.sql.rows(
                "SELECT position, layout FROM layouts WHERE document = ? ORDER BY position",
                number,
                kinds=(int, bytes),
            )
        )
        rows = self.sql.rows(
            'SELECT position, number, "start", "end", label, how, confidence, notes FROM pages '
            "WHERE document = ? ORDER BY position",
            number,
            kinds=(int, int, int, int, str, str, int, str),
        )
        for position, page, start, end, label, how, confidence, notes in rows:
            if not 0 <= start <= end <= len(text):
                raise damaged_rows(f"{start}:{end}")
            yield Page(
                number=page,
                text=text[start:end],
                label=label,
                how=_decoded(how, How, plain=True),
                confidence=None if confidence < 0 else confidence / PER_MILLE,
                notes=_decoded(notes, tuple[PageNote, ...]) + older.get(page, ()),
                layout=layouts.get(position, b""),
            )

    def readings(self, among: Collection[str] | None = None) -> list[PageReading]:
        """The pages that have notes or were recognised, document by document, of some or of all.

        What older versions said in the metadata comes as notes too.
        """
        only, ids = "1 = 1", tuple[str, ...]()
        if among is not None:
            only, ids = "d.id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(among)),)
        # Not by position: what the file claims of its order is not believed.
        rows = self.sql.rows(
            "SELECT d.id, p.number, p.how, p.confidence, p.notes FROM pages p "
            "JOIN documents d ON d.number = p.document "
            f"WHERE (p.notes != '[]' OR p.how != 'text') AND {only} "
            "ORDER BY p.document, p.position",
            *ids,
            kinds=(str, int, str, int, str),
            ordered=False,
        )
        readings = [
            PageReading(
                *(document, page, _decoded(how, How, plain=True)),
                None if confidence < 0 else confidence / PER_MILLE,
                _decoded(notes, tuple[PageNote, ...]),
            )
            for document, page, how, confidence, notes in rows
        ]
        older = self.sql.rows(
            "SELECT d.number, d.id, d.metadata FROM documents d "
            f"WHERE d.metadata LIKE '%pages%' AND {only} ORDER BY d.number",
            *ids,
            kinds=(int, str, str),
        )
        for _, document, metadata in older:
            for page, page_notes in _older_notes(_metadata(metadata)).items():
                readings.append(PageReading(document, page, notes=page_notes))
        return readings

    def units(self, document_ids: Iterable[str]) -> dict[str, Unit]:
        """What the format of each document calls its pages."""
        rows = self.sql.rows(
            "SELECT id, unit FROM documents WHERE id IN (SELECT value FROM json_each(?)) "
            "ORDER BY id",
            json.dumps(sorted(document_ids)),
            kinds=(str, str),
        )
        return {document_id: _decoded(unit, Unit, plain=True) for document_id, unit in rows}

    def unread(self) -> list[UnreadFile]:
        """The files that could not be read, sorted by path."""
        rows = self.sql.rows(
            'SELECT path, size, mtime_ns, checked_ns, reader, kind, message, hint, "values" '
            "FROM unread ORDER BY path",
            kinds=(str, int, int, int, int, str, str, str, str),
        )
        return [_unread_file(FileState(*row[:4]), row[4], row[5:]) for row in rows]

    def page_spans(self, document_id: str) -> list[tuple[int, int, int]]:
        """(page number, start, end) of each page, in code points of the document's text."""
        rows = self.sql.rows(
            'SELECT p.position, p.number, p."start", p."end" FROM pages p '
            "JOIN documents d ON d.number = p.document WHERE d.id = ? ORDER BY p.position",
            document_id,
            kinds=(int, int, int, int),
        )
        return [(number, start, end) for _, number, start, end in rows]

    def text(self, document_id: str, start: int, end: int) -> str:
        """Code points `start:end` of a document's text; "" for an unknown document."""
        number = self._number(document_id)
        return "" if number is None else self.spans([(number, start, end)])[0]

    def spans(self, asked: Sequence[tuple[int, int, int]]) -> list[str]:
        """Code points `start:end` of documents, by their numbers: (document, start, end) each.

        In one statement, which gives what was asked for and not the blocks that it lies in.
        """
        texts = [""] * len(asked)
        rows = self.rows_of_places(
            f"SELECT asked.place, b.block, substr(b.text, CAST({_SKIPPED} + 1 AS INTEGER), "
            f"CAST(asked.until - b.block * {BLOCK} - {_SKIPPED} AS INTEGER)) "
            "FROM asked JOIN blocks b ON b.document = asked.document "
            f"AND b.block BETWEEN asked.since / {BLOCK} AND (asked.until - 1) / {BLOCK} "
            "ORDER BY asked.place, b.block",
            {
                place: (number, start, min(end, _LONGEST))
                for place, (number, start, end) in enumerate(asked)
                if start < end
            },
            kinds=(int, int, str),
            ordered=False,
        )
        for place, _, text in rows:
            texts[place] += text
        return texts

    def rows_of_places(
        self,
        query: str,
        asked: Mapping[int, tuple[object, int, int]],
        *,
        kinds: tuple[type, ...],
        ordered: bool = True,
    ) -> Iterator[Row]:
        """The rows of a query about `asked`: for each place a document and two numbers."""
        places = [*asked]
        for first in range(0, len(places), BATCH):
            some = places[first : first + BATCH]
            yield from self.sql.rows(
                "WITH asked(place, document, since, until) AS "
                f"(VALUES {', '.join(['(?, ?, ?, ?)'] * len(some))}) {query}",
                *(value for place in some for value in (place, *asked[place])),
                kinds=kinds,
                ordered=ordered,
            )

    def source(self, path: str) -> SourceRecord | None:
        """What is known of a path, or None."""
        return next(iter(self._sources("WHERE s.path = ?", path)), None)

    def sources(self, below: Iterable[str] | None = None) -> list[SourceRecord]:
        """All paths under which documents were added, or those at and below some; sorted."""
        if below is None:
            return self._sources("ORDER BY s.path")
        records: dict[str, SourceRecord] = {}
        for path in below:
            folder = path if path.endswith(os.sep) else path + os.sep
            within = folder[: -len(os.sep)] + chr(ord(os.sep) + 1)
            for clause, values in (
                ("WHERE s.path = ?", (path,)),
                ("WHERE s.path >= ? AND s.path < ? ORDER BY s.path", (folder, within)),
            ):
                records.update(
                    (source.state.path, source) for source in self._sources(clause, *values)
                )
        return [records[path] for path in sorted(records)]

    def paths(self) -> list[str]:
        """All paths that the catalogue names, also of files that could not be read; sorted."""
        query = "SELECT path FROM sources UNION SELECT path FROM unread ORDER BY path"
        return [path for (path,) in self.sql.rows(query, kinds=(str,))]

    def _sources(self, clause: str, *values: str) -> list[SourceRecord]:
        # Of most the bytes lay at the path itself and nowhere else.
        origins: dict[str, list[str]] = {}
        for source, path in self.sql.rows(
            "SELECT o.source, o.path FROM sources s JOIN origins o "
            f"ON o.source = s.path AND o.path != s.path {clause}",
            *values,
            kinds=(str, str),
            ordered=False,
        ):
            origins.setdefault(source, []).append(path)
        rows = self.sql.rows(
            "SELECT s.path, s.size, s.mtime_ns, s.checked_ns, d.id, CASE WHEN EXISTS "
            "(SELECT 1 FROM origins o WHERE o.source = s.path AND o.path = s.path) "
            "THEN 1 ELSE 0 END "
            f"FROM sources s JOIN documents d ON d.number = s.document {clause}",
            *values,
            kinds=(str, int, int, int, str, int),
        )
        records = []
        for path, size, mtime, checked, owner, itself in rows:
            led = (path,) if itself else ()
            if path in origins:
                led = tuple(sorted((*led, *origins[path])))
            records.append(SourceRecord(FileState(path, size, mtime, checked, led), owner))
        return records

    # Chunks

    def chunks_by_id(self, ids: Iterable[int]) -> dict[int, Chunk]:
        """The chunks with these ids; unknown and removed ones are left out."""
        chunk_ids = list(ids)
        chunks: dict[int, Chunk] = {}
        for start in range(0, len(chunk_ids), BATCH):
            some = chunk_ids[start : start + BATCH]
            rows = self._chunks("c.id", f"c.id IN ({','.join('?' * len(some))})", *some)
            texts = self.spans([(row[8], row[6], row[7]) for row in rows])
            chunks.update(
                (row[0], _chunk(row, text)) for row, text in zip(rows, texts, strict=True)
            )
        return {chunk_id: chunks[chunk_id] for chunk_id in chunk_ids if chunk_id in chunks}

    def chunk_ids(self, wanted: Filter) -> ChunkIds:
        """The chunks that a filter allows."""
        condition, source_values = source_conditions(wanted)
        paged, page_values = page_conditions(wanted)
        rows = self.sql.rows(
            "SELECT c.id FROM chunks c WHERE c.document IN "
            "(SELECT d.number FROM documents d JOIN sources s ON s.document = d.number "
            f"WHERE {condition}) AND {paged}",
            *(*source_values, *page_values),
            kinds=(int,),
            ordered=False,
        )
        # Sorted here: SQLite would sort rows it can take ready from an index.
        return np.sort(np.fromiter((row[0] for row in rows), dtype=np.int64))

    def chunk_ids_of(self, document_ids: Iterable[str]) -> ChunkIds:
        """The chunks of some documents, sorted by id."""
        rows = self.sql.rows(
            "SELECT c.id FROM chunks c JOIN documents d ON d.number = c.document "
            "WHERE d.id IN (SELECT value FROM json_each(?))",
            json.dumps(sorted(set(document_ids))),
            kinds=(int,),
            ordered=False,
        )
        return np.sort(np.fromiter((row[0] for row in rows), dtype=np.int64))

    def spread_chunks(self, count: int) -> list[int]:
        """The ids of about so many chunks from all over the library, or of all if it has fewer."""
        (first, last) = self.sql.execute(
            "SELECT (SELECT min(number) FROM chunks), (SELECT max(number) FROM chunks)"
        ).fetchone()
        if first is None:
            return []
        step = max(1, -(-(last - first + 1) // count))
        rows = self.sql.rows(
            "SELECT DISTINCT (SELECT c.id FROM chunks c WHERE c.number >= CAST(value AS BIGINT) "
            "ORDER BY c.number LIMIT 1) FROM json_each(?)",
            json.dumps(list(range(first, last + 1, step))),
            kinds=(int,),
            ordered=False,
        )
        return [chunk for (chunk,) in rows]

    def document_chunks(self, document_id: str) -> list[Chunk]:
        """All chunks of a document, in order."""
        rows = self._chunks("c.position", "d.id = ?", document_id)
        text = self._text(rows[0][8]) if rows else ""
        return [_chunk(row, text[row[6] : row[7]]) for row in rows]

    def with_tables(self) -> set[str]:
        """The ids of the documents that hold tables."""
        rows = self.sql.rows(
            "SELECT DISTINCT d.id FROM tables t JOIN documents d ON d.number = t.document",
            kinds=(str,),
            ordered=False,
        )
        return {document for (document,) in rows}

    def chunks_between(self, document_id: str, first: int, last: int) -> list[Chunk]:
        """The chunks of a document at positions `first` to `last`, both included, in order."""
        where = "d.id = ? AND c.position BETWEEN ? AND ?"
        rows = self._chunks("c.position", where, document_id, max(first, 0), last)
        texts = self.spans([(row[8], row[6], row[7]) for row in rows])
        return [_chunk(row, text) for row, text in zip(rows, texts, strict=True)]

    def outline(self, document_id: str) -> tuple[str, list[tuple[int, int, str, int, int]]]:
        """The language of a document, and (id, position, heading, start, end) of its chunks."""
        rows = self.sql.rows(
            'SELECT c.position, c.id, c.heading, c."start", c."end", d.language FROM chunks c '
            "JOIN documents d ON d.number = c.document WHERE d.id = ? ORDER BY c.position",
            document_id,
            kinds=(int, int, str, int, int, str),
        )
        language, passages = "", []
        for position, chunk, heading, start, end, language in rows:  # noqa: B007 - one document's
            passages.append((chunk, position, heading, start, end))
        return language, passages

    def sources_of(
        self, document_ids: Iterable[str], wanted: Filter | None = None
    ) -> dict[str, str]:
        """The first path of each document, of those that the filter allows."""
        condition, values = source_conditions(wanted or Filter())
        rows = self.sql.rows(
            "SELECT d.id, min(s.path) FROM documents d JOIN sources s ON s.document = d.number "
            f"WHERE d.id IN (SELECT value FROM json_each(?)) AND {condition} "
            "GROUP BY d.id ORDER BY d.id",
            json.dumps(sorted(set(document_ids))),
            *values,
            kinds=(str, str),
        )
        return dict(rows)

    def _chunks(self, order: str, where: str, *values: object) -> list[Row]:
        rows = self.sql.rows(
            f"SELECT {order}, {_CHUNK} FROM chunks c JOIN documents d ON d.number = c.document "
            f"WHERE {where} ORDER BY {order}",
            *values,
            kinds=(int, *_CHUNK_KINDS),
        )
        chunk_rows = [row[1:] for row in rows]
        for *_, start, end, _, _, _ in chunk_rows:
            if not 0 <= start <= end < BEYOND:
                raise damaged_rows(f"{start}:{end}")
        return chunk_rows

    def _number(self, document_id: str) -> int | None:
        row = self.first("SELECT number FROM documents WHERE id = ?", document_id, kinds=(int,))
        return row[0] if row else None

    def _text(self, number: int) -> str:
        """The text of a document."""
        rows = self.sql.rows(
            "SELECT block, text FROM blocks WHERE document = ? ORDER BY block",
            number,
            kinds=(int, str),
        )
        return "".join(text for _, text in rows)

    def first(self, query: str, *values: object, kinds: tuple[type, ...]) -> Row | None:
        """The first row of a query, its values of these types; None where there is none."""
        return next(self.sql.rows(query, *values, kinds=kinds), None)

    # What derived indexes follow

    def removed_since(self, generation: int) -> list[int]:
        """Ids of chunks that went away after `generation`; some may have come back."""
        rows = self.sql.rows(
            "SELECT DISTINCT chunk FROM removals WHERE generation > ? ORDER BY chunk",
            generation,
            kinds=(int,),
        )
        return [row[0] for row in rows]

    def added_ids_since(self, generation: int) -> list[int]:
        """Ids of the chunks that are there and came after `generation`."""
        rows = self.sql.rows(
            f"SELECT c.number, c.id FROM {_since(generation)}",
            generation,
            kinds=(int, int),
        )
        return [row[1] for row in rows]

    def embeddings_since(self, generation: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Ids and vectors, shape (dimension,) float32, that came after it."""
        for ids, vectors in self.packed_embeddings(generation):
            yield from zip(ids, self._unpacked(vectors).astype(np.float32), strict=True)

    def vectors_by_id(self, ids: ChunkIds) -> tuple[ChunkIds, NDArray[np.float16]]:
        """Those of the ids that are there, and the vectors as stored, shape (n, dimension)."""
        rows = list(
            self.sql.rows(
                "SELECT c.id, e.vector FROM chunks c JOIN embeddings e ON e.chunk = c.number "
                "WHERE c.id IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) ORDER BY c.id",
                json.dumps(ids.tolist()),
                kinds=(int, bytes),
            )
        )
        known_ids = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
        return known_ids, self._unpacked([row[1] for row in rows])

    def all_vectors(self) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Ids, and the vectors as stored, shape (n, dimension), in the order of their coming."""
        ids: list[int] = []
        vectors: list[bytes] = []
        for some, packed in self.packed_embeddings():
            ids += some
            vectors += packed
        # In bytes: what an array of NumPy's own has held, if it is small, NumPy keeps when it goes.
        return np.array(ids, dtype=np.int64), self._unpacked(vectors)

    def _unpacked(self, vectors: Sequence[bytes]) -> NDArray[np.float16]:
        dimension = self.embedding().dimension
        if any(len(vector) != 2 * dimension for vector in vectors):
            raise damaged_rows("vector")
        packed = np.frombuffer(b"".join(vectors), dtype="<f2").reshape(-1, dimension)
        if not np.isfinite(packed).all():
            raise damaged_rows("vector")
        return packed

    def packed_embeddings(self, generation: int = -1) -> Iterator[tuple[list[int], list[bytes]]]:
        """Batches of ids and vectors as they are stored, of chunks that came after it."""
        rows = self.sql.rows(
            "SELECT c.number, c.id, e.vector FROM "
            + _since(generation, "JOIN embeddings e ON e.chunk = c.number"),
            generation,
            kinds=(int, int, bytes),
            many=True,
        )
        while some := list(islice(rows, 4 * BATCH)):
            yield [row[1] for row in some], [row[2] for row in some]

    def chunks_since(self, generation: int) -> Iterator[Chunk]:
        """The chunks that came after it, document by document."""
        numbers = self.sql.rows(
            # The signs keep SQLite from walking an index of all documents.
            "SELECT DISTINCT +document FROM chunks WHERE generation > ? ORDER BY +document",
            generation,
            kinds=(int,),
        )
        for (number,) in list(numbers):
            text = self._text(number)
            where = "c.document = ? AND c.generation > ?"
            for row in self._chunks("c.position", where, number, generation):
                yield _chunk(row, text[row[6] : row[7]])

    def document_vectors(self, document_id: str) -> dict[int, NDArray[np.float32]]:
        """The vector of each chunk of a document, shape (dimension,), by the chunk's id."""
        rows = self.sql.rows(
            "SELECT c.id, e.vector FROM chunks c JOIN embeddings e ON e.chunk = c.number "
            "JOIN documents d ON d.number = c.document WHERE d.id = ? ORDER BY c.id",
            document_id,
            kinds=(int, bytes),
        )
        vectors: dict[int, bytes] = dict(rows)
        if {len(vector) for vector in vectors.values()} - {2 * self.embedding().dimension}:
            raise damaged_rows("vector")
        return {
            chunk: np.frombuffer(vector, dtype="<f2").astype(np.float32)
            for chunk, vector in vectors.items()
        }

    # A rebuild under way

    def outdated(self) -> list[str]:
        """Ids of the documents that an older version has read (`types.READER`)."""
        rows = self.sql.rows(
            "SELECT number, id FROM documents WHERE reader < ? ORDER BY number",
            READER,
            kinds=(int, str),
        )
        return [row[1] for row in rows]

    def unstaged(self) -> list[str]:
        """Ids of the documents that a rebuild has still to cut and embed."""
        rows = self.sql.rows(
            "SELECT number, id FROM documents WHERE number NOT IN "
            "(SELECT document FROM staged_documents) ORDER BY number",
            kinds=(int, str),
        )
        return [row[1] for row in rows]


def _chunk(row: Row, text: str) -> Chunk:
    """A row of `_chunks` with its text."""
    identity, document_id, position, heading, first, last, start, end, _, columns, title = row
    names = _decoded(columns, tuple[Columns, ...]) if columns != "[]" else ()
    title = bounded_title(title)
    return Chunk(
        identity, document_id, position, text, heading, first, last, start, end, names, title
    )


def _since(generation: int, more: str = "") -> str:
    """Chunks that came after a generation, by number."""
    if generation < 0:  # the table itself, by the sign: an index may hide some, by damage
        return f"chunks c {more} WHERE +c.generation > ? ORDER BY c.number"
    # Numbers ascend with generations: nothing needs to be sorted.
    return f"chunks c {more} WHERE c.generation > ? ORDER BY c.generation, c.number"


_OLDER_NOTES: dict[str, PageNoteKind] = {
    "pages_without_text": "no text",
    "damaged_pages": "damaged",
    "hidden_text_pages": "hidden text",
}
"""What versions before 0.2 wrote into the metadata: page numbers, joined by ", "."""

LONGEST_ERROR = 65_536
"""Characters of an error that is kept, with its values."""


def _older_notes(metadata: Mapping[str, str]) -> dict[int, tuple[PageNote, ...]]:
    notes: defaultdict[int, tuple[PageNote, ...]] = defaultdict(tuple)
    for name, kind in _OLDER_NOTES.items():
        for page in re.findall(r"\b[0-9]{1,9}\b", metadata.get(name, "")):
            notes[int(page)] += (PageNote(kind),)
    return notes


def _unread_file(state: FileState, reader: int, error: tuple[str, str, str, str]) -> UnreadFile:
    """A file that could not be read; tried again where the row is none of ours."""
    kind, message, hint, stored = error
    with suppress(ValueError, msgspec.MsgspecError, RecursionError):
        if sum(map(len, error)) <= LONGEST_ERROR:
            values = msgspec.json.decode(stored, type=dict[str, str | int | float])
            return UnreadFile(state, parsing_error(kind, message, hint, values), reader)
    unknown = LibraryError("the entry in the library is damaged")
    return UnreadFile(
        state,
        ParsingError("{source} cannot be read: {reason}.", source=state.path, reason=unknown),
    )


def _metadata(stored: str) -> dict[str, str]:
    metadata: dict[str, str] = _decoded(stored, dict[str, str])
    return metadata


def _decoded(stored: str, kind: Any, *, plain: bool = False) -> Any:
    """What a column holds as JSON, or as it is, if it is of that kind."""
    try:
        return msgspec.convert(stored, kind) if plain else msgspec.json.decode(stored, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise damaged_rows(error) from error
