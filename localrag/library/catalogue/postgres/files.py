"""The bytes of what was uploaded to a library in a database, so that every node can show it.

They lie in pieces beside the path under which the file was added, and go with that path.
"""

from __future__ import annotations

from typing import BinaryIO

from localrag.library.catalogue.base import Connection, Statements

PIECE = 4 * 2**20
"""Bytes of a row: the server holds several copies of one while it is sent."""


def keep_file(sql: Statements, source: str, file: BinaryIO) -> None:
    """Keep what can be read of a file for a path that is in the library."""
    for part, data in enumerate(iter(lambda: file.read(PIECE), b"")):
        sql.execute("INSERT INTO files VALUES (?, ?, ?)", (source, part, data))


def kept_file(sql: Connection, source: str) -> bytes | None:
    """The bytes that are kept for a path; None where there are none."""
    query = "SELECT data FROM files WHERE source = ? ORDER BY part"
    return b"".join(row[0] for row in sql.rows(query, source, kinds=(bytes,), many=True)) or None


def kept_files(sql: Connection) -> list[str]:
    """The paths of which the bytes are kept."""
    query = "SELECT source FROM files WHERE part = 0 ORDER BY source"
    return [row[0] for row in sql.rows(query, kinds=(str,))]


def keeps_file(sql: Statements, source: str) -> bool:
    """Whether the bytes of a path are kept."""
    query = "SELECT 1 FROM files WHERE source = ? AND part = 0"
    return sql.execute(query, (source,)).fetchone() is not None
