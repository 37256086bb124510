"""Checksums of what is stored of a document: SQLite itself does not notice a flipped bit.

CRC-32 over rows as JSON: against damage, not against somebody who means harm. The content cannot
be derived from anything else in the library; passages and vectors can, from the content.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence

CONTENT = (
    "SELECT id, title, added_at, size, length, language, metadata FROM documents WHERE number = ?",
    'SELECT position, number, "start", "end" FROM pages WHERE document = ? ORDER BY position',
    'SELECT position, "start", level, text FROM headings WHERE document = ? ORDER BY position',
    "SELECT block, text FROM blocks WHERE document = ? ORDER BY block",
)
"""A document's text, pages, headings, title and metadata."""

_PATHS = ("SELECT path FROM sources WHERE document = ? ORDER BY path",)
SOURCES = (
    *_PATHS,
    # No rows, and so the checksum that there was before, for what was added before there were any.
    "SELECT o.source, o.path FROM origins o JOIN sources s ON s.path = o.source "
    "WHERE s.document = ? ORDER BY o.source, o.path",
)
"""The paths under which a document was added, and what they led to."""

PASSAGES = (
    "SELECT chunking FROM documents WHERE number = ?",
    "SELECT c.id, c.position, c.heading, c.first_page, c.last_page, c.start, c.end, "
    "hex(e.vector) FROM chunks c LEFT JOIN embeddings e ON e.chunk = c.id "
    "WHERE c.document = ? ORDER BY c.position",
)
"""A document's chunks and their vectors."""


def store_checksums(sql: sqlite3.Connection, number: int) -> None:
    """Remember all checksums of a document as it stands now."""
    first_checksums(sql, number)
    store_checksum(sql, "sources", SOURCES, number)


def first_checksums(sql: sqlite3.Connection, number: int) -> None:
    """All checksums of a document in a catalogue of schema 2, which knew no origins."""
    sql.execute(
        "INSERT OR REPLACE INTO checksums VALUES (?, ?, ?, ?)",
        (
            number,
            *(checksum(sql, what, number) for what in (CONTENT, PASSAGES, _PATHS)),
        ),
    )


def store_checksum(sql: sqlite3.Connection, column: str, what: Sequence[str], number: int) -> None:
    """Remember one of a document's checksums as it stands now."""
    sql.execute(
        f"UPDATE checksums SET {column} = ? WHERE document = ?",
        (checksum(sql, what, number), number),
    )


def checksum(sql: sqlite3.Connection, what: Sequence[str], number: int) -> int:
    """The checksum of a document's `CONTENT`, `PASSAGES` or `SOURCES`."""
    total = 0
    for query in what:
        for row in sql.execute(query, (number,)):
            # Other types than text and numbers come from damage only, and differ then.
            line = json.dumps(row, ensure_ascii=False, default=repr)
            total = zlib.crc32(line.encode("utf-8", "surrogatepass"), total)
    return total
