"""Checksums of what is stored of a document: SQLite itself does not notice a flipped bit.

CRC-32 over rows as JSON: against damage, not against somebody who means harm. The content cannot
be derived from anything else in the library; passages and vectors can, from the content.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence

_CONTENT = (
    "SELECT id, title, added_at, size, length, language, metadata FROM documents WHERE number = ?",
    'SELECT position, number, "start", "end" FROM pages WHERE document = ? ORDER BY position',
    'SELECT position, "start", level, text FROM headings WHERE document = ? ORDER BY position',
    "SELECT block, text FROM blocks WHERE document = ? ORDER BY block",
)
_PATHS = ("SELECT path FROM sources WHERE document = ? ORDER BY path",)
_SOURCES = (
    *_PATHS,
    # No rows, and so the checksum that there was before, for what was added before there were any.
    "SELECT o.source, o.path FROM origins o JOIN sources s ON s.path = o.source "
    "WHERE s.document = ? ORDER BY o.source, o.path",
)
_PASSAGES = (
    "SELECT chunking FROM documents WHERE number = ?",
    "SELECT c.id, c.position, c.heading, c.first_page, c.last_page, c.start, c.end, "
    "hex(e.vector) FROM chunks c LEFT JOIN embeddings e ON e.chunk = c.id "
    "WHERE c.document = ? ORDER BY c.position",
)


def content_checksum(sql: sqlite3.Connection, number: int) -> int:
    """The checksum of a document's text, pages, headings, title and metadata."""
    return _checksums(sql, _CONTENT, number)


def passages_checksum(sql: sqlite3.Connection, number: int) -> int:
    """The checksum of a document's chunks and their vectors."""
    return _checksums(sql, _PASSAGES, number)


def sources_checksum(sql: sqlite3.Connection, number: int) -> int:
    """The checksum of the paths under which a document was added, and of what they led to."""
    return _checksums(sql, _SOURCES, number)


def store_checksums(sql: sqlite3.Connection, number: int) -> None:
    """Remember all checksums of a document as it stands now."""
    first_checksums(sql, number)
    store_sources_checksum(sql, number)


def first_checksums(sql: sqlite3.Connection, number: int) -> None:
    """All checksums of a document in a catalogue of schema 2, which knew no origins."""
    sql.execute(
        "INSERT OR REPLACE INTO checksums VALUES (?, ?, ?, ?)",
        (
            number,
            content_checksum(sql, number),
            passages_checksum(sql, number),
            _checksums(sql, _PATHS, number),
        ),
    )


def store_sources_checksum(sql: sqlite3.Connection, number: int) -> None:
    """Remember the paths of a document as they stand now."""
    sql.execute(
        "UPDATE checksums SET sources = ? WHERE document = ?",
        (sources_checksum(sql, number), number),
    )


def _checksums(sql: sqlite3.Connection, queries: Sequence[str], number: int) -> int:
    total = 0
    for query in queries:
        for row in sql.execute(query, (number,)):
            # Other types than text and numbers come from damage only, and differ then.
            line = json.dumps(row, ensure_ascii=False, default=repr)
            total = zlib.crc32(line.encode("utf-8", "surrogatepass"), total)
    return total
