"""Checksums of what is stored of a document: SQLite itself does not notice a flipped bit.

CRC-32 over rows as JSON: against damage, not against somebody who means harm. The content cannot
be derived from anything else in the library; passages and vectors can, from the content.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from localrag.library.catalogue.base import Statements

_TEXT = (
    "SELECT id, title, added_at, size, length, language, metadata FROM documents WHERE number = ?",
    'SELECT position, number, "start", "end" FROM pages WHERE document = ? ORDER BY position',
    'SELECT position, "start", level, text FROM headings WHERE document = ? ORDER BY position',
    "SELECT block, text FROM blocks WHERE document = ? ORDER BY block",
)
CONTENT = (
    *_TEXT,
    # No rows for what was added before there were such columns.
    "SELECT unit, reader FROM documents WHERE number = ? AND reader > 0",
    "SELECT position, label, how, confidence, notes FROM pages p WHERE document = ? AND "
    "(SELECT reader FROM documents WHERE number = p.document) > 0 ORDER BY position",
    "SELECT position, hex(layout) FROM layouts WHERE document = ? ORDER BY position",
    'SELECT position, "start", "end", header, header_rows FROM tables WHERE document = ? '
    "ORDER BY position",
)
"""A document's text, pages, headings, title and metadata, and how it was read."""

_PATHS = ("SELECT path FROM sources WHERE document = ? ORDER BY path",)
SOURCES = (
    *_PATHS,
    # No rows, and so the checksum that there was before, for what was added before there were any.
    "SELECT o.source, o.path FROM origins o JOIN sources s ON s.path = o.source "
    "WHERE s.document = ? ORDER BY o.source, o.path",
)
"""The paths under which a document was added, and what they led to."""


def _chunks(key: str) -> tuple[str, ...]:
    return (
        "SELECT chunking FROM documents WHERE number = ?",
        "SELECT c.id, c.position, c.heading, c.first_page, c.last_page, c.start, c.end, "
        f"hex(e.vector) FROM chunks c LEFT JOIN embeddings e ON e.chunk = c.{key} "
        "WHERE c.document = ? ORDER BY c.position",
    )


PASSAGES = (
    *_chunks("number"),
    "SELECT position, columns FROM chunks WHERE document = ? AND columns != '[]' ORDER BY position",
)
"""A document's chunks and their vectors."""


def store_checksums(sql: Statements, number: int) -> None:
    """Remember all checksums of a document as it stands now."""
    _store_all(sql, number, CONTENT, PASSAGES, SOURCES)


def first_checksums(sql: Statements, number: int) -> None:
    """All checksums of a document in a catalogue of schema 2."""
    _store_all(sql, number, _TEXT, _chunks("id"), _PATHS)


def _store_all(sql: Statements, number: int, *columns: Sequence[str]) -> None:
    sql.execute("DELETE FROM checksums WHERE document = ?", (number,))
    sql.execute(
        "INSERT INTO checksums VALUES (?, ?, ?, ?)",
        (number, *(checksum(sql, what, number) for what in columns)),
    )


def store_checksum(sql: Statements, column: str, what: Sequence[str], number: int) -> None:
    """Remember one of a document's checksums as it stands now."""
    sql.execute(
        f"UPDATE checksums SET {column} = ? WHERE document = ?",
        (checksum(sql, what, number), number),
    )


def checksum(sql: Statements, what: Sequence[str], number: int) -> int:
    """The checksum of a document's `CONTENT`, `PASSAGES` or `SOURCES`."""
    total = 0
    # All are asked before one is read: a server answers them in one go.
    for rows in [sql.execute(query, (number,)) for query in what]:
        for row in rows:
            # Other types than text and numbers come from damage only, and differ then.
            line = json.dumps(row, ensure_ascii=False, default=repr)
            total = zlib.crc32(line.encode("utf-8", "surrogatepass"), total)
    return total
