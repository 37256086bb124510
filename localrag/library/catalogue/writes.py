"""Changing the catalogue: one transaction, as `Catalogue.write` gives it."""

# ruff: noqa: S608 - what is put into a statement here are constants of this file

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from localrag.errors import LibraryError, ParsingError, parsing_error
from localrag.library.catalogue.base import Connection, Row, quoted
from localrag.library.catalogue.checksums import (
    PASSAGES,
    SOURCES,
    store_checksum,
    store_checksums,
)
from localrag.library.catalogue.guarded import GuardedConnection, damaged_rows
from localrag.library.catalogue.history import forget_answers_from
from localrag.library.catalogue.reads import (
    BEYOND,
    BLOCK,
    CHUNKS,
    FORGOTTEN,
    HISTORY,
    LONGEST_ERROR,
    PER_MILLE,
    PURGE_DUE,
    Snapshot,
)
from localrag.library.records import (
    ID_SUMS,
    ChunkSet,
    EmbeddingIdentity,
    FileState,
    NewDocument,
    UnreadFile,
)
from localrag.types import PAGE_BREAK, READER, Chunk

COPIED = (
    *("documents", "sources", "origins", "blocks", "pages", "layouts", "headings", "tables"),
    *("chunks", "embeddings", "checksums"),
)
"""What a library is made of, in an order in which nothing refers to what comes later. The other
tables belong to the place where it lies, or to who asks there; of `meta`, three settings are taken
over."""

OWN = ("unread", "answers", "answer_documents", "cells", "saved_tables")
"""What belongs to the place where a library lies and to who asks there, and moves with it."""

_NOBODYS = {
    "answers": "WHERE asker = ''",
    "answer_documents": "WHERE answer IN (SELECT number FROM answers WHERE asker = '')",
}
"""Which of these rows are no user's, where some are."""

_ATTRIBUTES = ("id", "position", "heading", "first_page", "last_page", "start", "end")
_FIELDS = (*_ATTRIBUTES, "columns")
_attributes = attrgetter(*_ATTRIBUTES)


def _columns(chunk: Chunk) -> Row:
    """What is stored of a chunk, besides the document that it belongs to."""
    return (*_attributes(chunk), _json(chunk.columns))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_LONGEST_VALUE = 4096
"""Code points of one value of an error that is kept: no path is longer."""

_READ = ("blocks", "pages", "layouts", "headings", "tables")
"""The tables that hold what was read of a document."""

_ROUNDS = 10
"""How often rows may be dropped because of dropped rows; references are three deep."""


class Transaction(Snapshot):
    """Changes that become visible together; its reads see them already."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._generation = 0

    def meta(self, key: str) -> str | int | None:
        """A setting as it is by now."""
        self._settings = None
        return super().meta(key)

    def count_chunks(self) -> None:
        """Write down which chunks there are, from all of them."""
        self._keep_count(self._chunk_set())

    def _change_count(self, ids: Iterable[int], sign: int) -> None:
        """Write down that chunks with these ids have come (1) or gone (-1)."""
        some = list(ids)
        size, total = self.chunk_set()
        self._keep_count(
            ChunkSet(max(0, size + sign * len(some)), (total + sign * sum(some)) % ID_SUMS)
        )

    def _keep_count(self, chunks: ChunkSet) -> None:
        self.set_meta(CHUNKS, f"{chunks.size} {chunks.ids}")

    def _forget_chunks(self, number: int) -> None:
        """Keep the ids of a document's chunks for the indexes, and count them out."""
        rows = self.sql.rows(
            "SELECT id FROM chunks WHERE document = ?", number, kinds=(int,), ordered=False
        )
        ids = [chunk for (chunk,) in rows]
        generation = self._next_generation()
        self._insert("removals", ("chunk", "generation"), ((chunk, generation) for chunk in ids))
        self._change_count(ids, -1)

    def _next_generation(self) -> int:
        """The generation of this transaction, counted up at its first change of chunks."""
        if not self._generation:
            self._generation = self.stamp()[1] + 1
            self.set_meta("generation", self._generation)
        return self._generation

    def _insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        marks = ", ".join("?" * len(columns))
        self.sql.executemany(f"INSERT INTO {table}({quoted(columns)}) VALUES ({marks})", rows)

    def _last(self, table: str) -> int:
        """The largest number of its rows, 0 without any; the next ones follow."""
        last = int(self.sql.execute(f"SELECT coalesce(max(number), 0) FROM {table}").fetchone()[0])
        if last >= BEYOND:
            raise damaged_rows(last)
        return last

    def set_meta(self, key: str, value: str | int) -> None:
        """Keep a setting of the library."""
        self.forget_meta(key)
        self.sql.execute("INSERT INTO meta VALUES (?, ?)", (key, value))

    def forget_meta(self, key: str) -> None:
        """Drop a setting of the library; absent is fine."""
        self.sql.execute("DELETE FROM meta WHERE key = ?", (key,))

    def set_embedding(self, embedding: EmbeddingIdentity) -> None:
        """Say which vector space the library lives in."""
        self.set_meta("embedding", embedding.fingerprint)
        self.set_meta("embedding_name", embedding.name)
        self.set_meta("dimension", embedding.dimension)

    def add_document(self, new: NewDocument) -> None:
        """Store a parsed document with its chunks and their vectors, and what holds it.

        A path that held another version shows this one from now on.
        """
        if not self.has_document(new.document.id):
            self._store(new)
        for state in new.states:
            self.set_source(state, new.document.id)

    def replace_document(self, new: NewDocument) -> None:
        """Put what another reading of the same bytes gave in the place of what there is.

        Paths stay as they are. Copies of the former text stay on disk until `Library.purge`.
        """
        number = self._number(new.document.id)
        if number is None:
            return
        self.set_meta(PURGE_DUE, 1)
        forget_answers_from(self.sql, new.document.id)
        self._forget_chunks(number)
        for table in (*_READ, "chunks", "staged_documents", "cells"):
            self.sql.execute(f"DELETE FROM {table} WHERE document = ?", (number,))
        row = _document_row(new)
        changes = ", ".join(f"{column} = ?" for column in row)
        self.sql.execute(
            f"UPDATE documents SET {changes} WHERE number = ?", (*row.values(), number)
        )
        self._store_reading(number, new)

    def _store(self, new: NewDocument) -> None:
        added_at = datetime.now(UTC).isoformat(timespec="seconds")
        number = self._last("documents") + 1
        row = {"number": number, "id": new.document.id, "added_at": added_at, **_document_row(new)}
        self._insert("documents", tuple(row), [tuple(row.values())])
        self._store_reading(number, new)

    def _store_reading(self, number: int, new: NewDocument) -> None:
        """Text, pages, chunks and vectors of a document."""
        document = new.document
        text = document.text
        self.sql.executemany(
            "INSERT INTO blocks VALUES (?, ?, ?)",
            (
                (number, block, text[start : start + BLOCK])
                for block, start in enumerate(range(0, len(text), BLOCK))
            ),
        )
        start = 0
        for position, page in enumerate(document.pages):
            end = start + len(page.text)
            sure = -1 if page.confidence is None else round(PER_MILLE * page.confidence)
            self.sql.execute(
                "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(number, position, page.number, start, end),
                    *(page.label, page.how, sure, _json(page.notes)),
                ),
            )
            if page.layout:
                self.sql.execute(
                    "INSERT INTO layouts VALUES (?, ?, ?)", (number, position, page.layout)
                )
            start = end + len(PAGE_BREAK)
        self.sql.executemany(
            "INSERT INTO headings VALUES (?, ?, ?, ?, ?)",
            (
                (number, position, heading.start, heading.level, heading.text)
                for position, heading in enumerate(document.headings)
            ),
        )
        self.sql.executemany(
            "INSERT INTO tables VALUES (?, ?, ?, ?, ?, ?)",
            (
                (number, position, table.start, table.end, _json(table.header), table.header_rows)
                for position, table in enumerate(document.tables)
            ),
        )
        self._store_chunks(number, new.chunks, new.vectors)
        store_checksums(self.sql, number)

    def _store_chunks(
        self, number: int, chunks: Sequence[Chunk], vectors: NDArray[np.float32]
    ) -> None:
        """Chunks of a document with their vectors, shape (n, dimension), under new numbers."""
        generation = self._next_generation()
        last = self._last("chunks")
        numbers = range(last + 1, last + 1 + len(chunks))
        rows = (
            (row, *_columns(chunk), number, generation)
            for row, chunk in zip(numbers, chunks, strict=True)
        )
        self._insert("chunks", ("number", *_FIELDS, "document", "generation"), rows)
        self._insert("embeddings", ("chunk", "vector"), zip(numbers, _packed(vectors), strict=True))
        self._change_count((chunk.id for chunk in chunks), 1)

    def set_source(self, state: FileState, document_id: str) -> bool:
        """Say that this file holds that document; a document it held before may go.

        False, and nothing is changed, where that document is not there.
        """
        before, number = self.source(state.path), self._number(document_id)
        if number is None:
            return False
        known_by = self.sources_of({document_id, before.document_id if before else document_id})
        times = state.size, state.mtime_ns, state.checked_ns
        if before is None:
            self.sql.execute(
                "INSERT INTO sources VALUES (?, ?, ?, ?, ?)", (state.path, number, *times)
            )
        else:
            self.sql.execute(
                "UPDATE sources SET document = ?, size = ?, mtime_ns = ?, checked_ns = ? "
                "WHERE path = ?",
                (number, *times, state.path),
            )
        if before is not None and before.document_id != document_id:
            self.sql.execute("DELETE FROM origins WHERE source = ?", (state.path,))
        # Those of earlier readings stay: the same bytes lay there too.
        self.sql.executemany(
            "INSERT INTO origins SELECT path, ? FROM sources WHERE path = ? ON CONFLICT DO NOTHING",
            ((origin, state.path) for origin in state.origins),
        )
        self._store_sources_checksum(document_id)
        if before is not None and before.document_id != document_id:
            self._drop_unless_held(before.document_id)
        self._index_renamed(known_by)
        return True

    def remove_source(self, path: str) -> bool:
        """Forget a path, and its document where no other path holds it: then True."""
        before = self.source(path)
        known_by = self.sources_of({before.document_id} if before else ())
        self.sql.execute("DELETE FROM sources WHERE path = ?", (path,))
        gone = before is not None and self._drop_unless_held(before.document_id)
        self._index_renamed(known_by)
        return gone

    def _index_renamed(self, known_by: Mapping[str, str]) -> None:
        """Have the passages indexed anew of documents whose first path is another one now."""
        now = self.sources_of(known_by)
        for document_id, path in known_by.items():
            number = self._number(document_id)
            if number is None or now.get(document_id) == path:
                continue
            self.set_meta(PURGE_DUE, 1)  # the old name stands in the index until then
            chunks = self.document_chunks(document_id)
            vectors = self.document_vectors(document_id)
            self._forget_chunks(number)
            self.sql.execute("DELETE FROM chunks WHERE document = ?", (number,))
            rows = np.array([vectors[chunk.id] for chunk in chunks], dtype=np.float32)
            self._store_chunks(number, chunks, rows)
            store_checksum(self.sql, "passages", PASSAGES, number)

    def set_unread(self, files: Iterable[UnreadFile]) -> None:
        """Remember files that could not be read."""
        files = {file.state.path: file for file in files}.values()
        self.sql.executemany(
            "DELETE FROM unread WHERE path = ?", ((file.state.path,) for file in files)
        )
        self.sql.executemany(
            "INSERT INTO unread VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    *(file.state.path, file.state.size, file.state.mtime_ns, file.state.checked_ns),
                    *(file.reader, *_error_columns(file)),
                )
                for file in files
            ),
        )

    def forget_unread(self, paths: Iterable[str]) -> None:
        """Forget files that could not be read, and leave nothing of them on disk."""
        for path in paths:
            self.sql.execute("DELETE FROM unread WHERE path = ?", (path,))
            self.set_meta(PURGE_DUE, 1)

    def remove_document(self, document_id: str) -> None:
        """Forget a document with all its sources, text, chunks, vectors and kept answers.

        Copies of them stay on disk until `Library.purge`, which is due from now on.
        """
        self.set_meta(PURGE_DUE, 1)
        forget_answers_from(self.sql, document_id)
        number = self._number(document_id)
        if number is not None:
            self._forget_chunks(number)
            self.sql.execute("DELETE FROM documents WHERE number = ?", (number,))

    def forget_removals(self, keep: int = 0) -> None:
        """Drop the ids of removed chunks, but for those of the newest generations.

        An index on disk that is older begins anew.
        """
        oldest = max(int(self.meta(FORGOTTEN) or 0), self.stamp()[1] - keep)
        self.sql.execute("DELETE FROM removals WHERE generation <= ?", (oldest,))
        self.set_meta(FORGOTTEN, oldest)

    def _drop_unless_held(self, document_id: str) -> bool:
        row = self.sql.execute(
            "SELECT 1 FROM sources s JOIN documents d ON d.number = s.document WHERE d.id = ?",
            (document_id,),
        ).fetchone()
        if row is None:
            self.remove_document(document_id)
        else:
            self._store_sources_checksum(document_id)
        return row is None

    def _store_sources_checksum(self, document_id: str) -> None:
        number = self._number(document_id)
        if number is not None:
            store_checksum(self.sql, "sources", SOURCES, number)

    def drop_left_over(self) -> None:
        """Drop rows of what is gone: an index that does not name a row hides it from a removal."""
        if isinstance(self.sql, GuardedConnection) and (
            self.sql.execute("PRAGMA foreign_key_check").fetchone() is not None
        ):
            self.mend()

    def mend(self) -> None:
        """Write SQLite's own indexes anew, and drop rows that belong to nothing.

        Raises LibraryDamagedError where such rows stay. A server looks after its own.
        """
        if not isinstance(self.sql, GuardedConnection):
            return
        self.sql.execute("REINDEX")
        # A few rounds: what belonged to a dropped row goes with the next.
        for _ in range(_ROUNDS):
            orphans = self.sql.execute("PRAGMA foreign_key_check").fetchall()
            if not orphans:
                self.count_chunks()
                return
            for table, parent in {(row[0], row[2]) for row in orphans}:
                ((_, _, _, column, *_),) = self.sql.execute(f"PRAGMA foreign_key_list({table})")
                columns = self.sql.execute(f"PRAGMA table_info({parent})").fetchall()
                (key,) = (name for _, name, *_, primary in columns if primary)
                self.sql.execute(
                    f"DELETE FROM {table} WHERE {column} NOT IN (SELECT {key} FROM {parent})"
                )
        raise damaged_rows(LibraryError("rows that belong to no document"))

    def copy_from(self, source: Snapshot, *, whole: bool = False) -> None:
        """Copy every row of another catalogue, under a new epoch: what follows begins anew.

        With `whole`, what belongs to who asks there comes along: the move of a library. Not what
        users asked: one of the same name elsewhere is somebody else.
        Nothing of its structure is kept: it may say what is untrue of a document, but cannot bring
        tables, triggers, views or settings along.
        """
        for table in (*COPIED, *(OWN if whole else ())):
            columns = self.sql.columns(table)
            self._insert(table, columns, source.sql.table(table, columns, _NOBODYS.get(table, "")))
        if whole and source.meta(HISTORY):
            self.set_meta(HISTORY, 1)
        self.set_embedding(source.embedding())
        self.count_chunks()
        # Never back: what was removed here is known by its generation.
        self.set_meta("generation", max(self.stamp()[1] + 1, source.stamp()[1]))
        self.set_meta("epoch", secrets.token_hex(8))

    # A rebuild: chunks and vectors are staged document by document, then change places at once

    def begin_staging(self, plan: str) -> None:
        """Start a rebuild, or go on with one that was cut off and had the same plan."""
        if self.meta("staging") != plan:
            self.drop_staging()
            self.set_meta("staging", plan)

    def drop_staging(self) -> None:
        """Forget a rebuild that has not been finished."""
        self.sql.execute("DELETE FROM staged_documents")
        self.forget_meta("staging")

    def stage(
        self, document_id: str, chunks: Iterable[Chunk], vectors: NDArray[np.float32]
    ) -> None:
        """Keep the new chunks and vectors, shape (n, d), of a document for the change."""
        number = self._number(document_id)
        self.sql.execute("INSERT INTO staged_documents VALUES (?)", (number,))
        last = self._last("staged_chunks")
        rows = (
            (last + number_within, *_columns(chunk), number, vector)
            for number_within, (chunk, vector) in enumerate(
                zip(chunks, _packed(vectors), strict=True), 1
            )
        )
        self._insert("staged_chunks", ("number", *_FIELDS, "document", "vector"), rows)

    def swap_staged(self, embedding: EmbeddingIdentity, chunking: str) -> None:
        """Put all staged chunks in the place of the old ones, under a new epoch."""
        generation = self._next_generation()
        self.sql.execute("DELETE FROM chunks")
        self.sql.execute("DELETE FROM embeddings")  # those without a chunk: left by damage
        self.sql.execute("DELETE FROM removals")  # a new epoch: every index starts afresh
        self.set_meta(FORGOTTEN, generation)  # and has to: what it holds may be removed by now
        self.sql.execute(
            f"INSERT INTO chunks(number, {quoted(_FIELDS)}, document, generation) "
            f"SELECT number, {quoted(_FIELDS)}, document, ? FROM staged_chunks",
            (generation,),
        )
        self.sql.execute("INSERT INTO embeddings SELECT number, vector FROM staged_chunks")
        self.count_chunks()
        self.sql.execute("UPDATE documents SET chunking = ?", (chunking,))
        for (number,) in self.sql.execute("SELECT number FROM documents").fetchall():
            store_checksum(self.sql, "passages", PASSAGES, number)
        self.drop_staging()
        self.set_embedding(embedding)
        self.set_meta("epoch", secrets.token_hex(8))


def _document_row(new: NewDocument) -> dict[str, str | int]:
    """What its row says of a document that was read."""
    document = new.document
    return {
        "title": document.title,
        "size": new.size,
        "length": len(document.text),
        "language": new.language,
        "metadata": json.dumps(dict(document.metadata), ensure_ascii=False),
        "chunking": new.chunking,
        "unit": document.unit,
        "reader": READER,
    }


def _error_columns(file: UnreadFile) -> tuple[str, str, str, str]:
    """An error as its row has it, so that `Snapshot.unread` reads it: it came of a hostile file."""
    error = file.error
    values = _json({name: _plain(value) for name, value in error.values.items()})
    try:
        parsing_error("", error.message, error.hint, error.values)
        if len(error.message) + len(error.hint) + len(values) <= LONGEST_ERROR:
            return type(error).__name__, error.message, error.hint, values
    except ValueError:
        pass
    values = _json({"source": file.state.path, "reason": _plain(error.message[:500])})
    return ParsingError.__name__, "{source} cannot be read: {reason}.", "", values


def _plain(value: object) -> str | int | float:
    if type(value) in (int, float) and abs(value) < BEYOND:  # type: ignore[arg-type]
        return value  # type: ignore[return-value]
    return str(value)[:_LONGEST_VALUE].encode("utf-8", "backslashreplace").decode()


def _packed(vectors: NDArray[np.float32]) -> list[bytes]:
    """Each row as little-endian float16: half the disk, and 1e-3 of a cosine at most."""
    return [row.tobytes() for row in np.asarray(vectors).astype("<f2")]
