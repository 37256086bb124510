"""Harm done to a catalogue: statements that localrag never runs, and files that SQLite trusts."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing, suppress
from pathlib import Path

FOR_EVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
KEEPING = (
    "CREATE TABLE kept(a); CREATE TRIGGER keep BEFORE DELETE ON blocks BEGIN "
    "INSERT INTO kept VALUES (old.text); END",
    "CREATE TRIGGER keep AFTER DELETE ON blocks BEGIN "
    "INSERT OR REPLACE INTO meta VALUES ('k' || old.rowid, old.text); END",
    "CREATE TRIGGER keep BEFORE DELETE ON documents BEGIN SELECT RAISE(IGNORE); END",
)
"""Triggers by which a removal removes nothing, or not all."""

SCHEMAS = (
    *KEEPING,
    # what refuses, what never ends
    "CREATE TRIGGER stay BEFORE DELETE ON blocks BEGIN SELECT RAISE(ABORT, 'no'); END",
    "CREATE TRIGGER again AFTER INSERT ON meta BEGIN "
    f"INSERT OR REPLACE INTO meta {FOR_EVER} SELECT 'k' || i, 1 FROM n; END",
    f"ALTER TABLE meta RENAME TO m; CREATE VIEW meta AS {FOR_EVER} SELECT i AS key, i AS value "
    "FROM n WHERE i < 0",
    f"ALTER TABLE documents RENAME TO d; CREATE VIEW documents AS {FOR_EVER} SELECT d.* FROM d, n",
    f"ALTER TABLE chunks RENAME TO c; CREATE VIEW chunks AS {FOR_EVER} SELECT c.* FROM c, n",
    f"CREATE VIEW more AS {FOR_EVER} SELECT i FROM n",
    # tables and indexes
    "CREATE TABLE more(a)",
    "CREATE INDEX more ON chunks(heading)",
    "CREATE UNIQUE INDEX more ON sources(path)",
    "CREATE INDEX more ON blocks(length(text))",
    "CREATE INDEX more ON sources(path) WHERE size > 3",
    "ANALYZE sources",
    "DROP INDEX chunks_by_generation",
    "DROP TABLE checksums",
    "ALTER TABLE documents ADD COLUMN more TEXT DEFAULT 'x'",
    "ALTER TABLE chunks ADD COLUMN more GENERATED ALWAYS AS (heading || heading) VIRTUAL",
    "ALTER TABLE documents RENAME COLUMN title TO heading",
    "CREATE VIRTUAL TABLE more USING fts5(a)",
    # the schema's own table
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM "
    "sqlite_master WHERE name = 'chunks') WHERE name = 'staged_chunks'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM "
    "sqlite_master WHERE name = 'documents') WHERE name = 'removals'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'title TEXT NOT "
    "NULL', 'title TEXT NOT NULL CHECK(1)') WHERE name = 'documents'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = CAST(sql AS BLOB)",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 1 WHERE name = 'blocks'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 99999999",
    "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'pages'",
    "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES('table', 'sqlite_schema', "
    "'sqlite_schema', 2, 'CREATE TABLE sqlite_schema(a)')",
)
"""Schemas that are not ours: triggers that keep, views that never end, tables over each other."""

SETTINGS = (
    "INSERT OR REPLACE INTO meta VALUES ('purge due', 1)",
    "INSERT OR REPLACE INTO meta VALUES ('purge due', zeroblob(9))",
    "INSERT OR REPLACE INTO meta VALUES ('generation', 9223372036854775807)",
    "INSERT OR REPLACE INTO meta VALUES ('generation', -5)",
    "INSERT OR REPLACE INTO meta VALUES ('generation', 'x')",
    "INSERT OR REPLACE INTO meta VALUES ('epoch', x'00ff')",
    "INSERT OR REPLACE INTO meta VALUES ('epoch', hex(zeroblob(1000000)))",
    "INSERT OR REPLACE INTO meta VALUES ('dimension', 1000000000)",
    "INSERT OR REPLACE INTO meta VALUES ('dimension', 0.5)",
    "INSERT OR REPLACE INTO meta VALUES ('embedding_name', char(27) || '[2J')",
    "INSERT OR REPLACE INTO meta VALUES ('embedding', x'ff')",
    "INSERT OR REPLACE INTO meta VALUES ('forgotten', 'x')",
    "INSERT OR REPLACE INTO meta VALUES ('staging', 'x')",
    "INSERT OR REPLACE INTO meta VALUES ('allow_network', 1)",
    "DELETE FROM meta",
    *(f"PRAGMA user_version = {version}" for version in (0, 1, 99, -1, 2147483647)),
    "PRAGMA application_id = 7",
    "PRAGMA application_id = 0",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM",
    "PRAGMA default_cache_size = 2000000000",
    "PRAGMA foreign_keys = OFF; DELETE FROM documents",
    "INSERT INTO removals VALUES (1, 1), (zeroblob(100), 'x')",
)
"""What belongs to our tables, or to the file, and says something else."""

STATEMENTS = SCHEMAS + SETTINGS
VALUES = (
    *("zeroblob(100)", "x'ff'", "1e300", "-1", "9223372036854775807", "-9223372036854775808"),
    *("'x'", "''", "0.5", "hex(zeroblob(3000000))", "char(27, 10, 8238)", "'{\"a\": 1'"),
    *("replace(hex(zeroblob(50000)), '0', '[')", "x'eda080'", "CAST(x'eda080ff' AS TEXT)"),
)
"""Values, in SQL, that no document has."""


def connected(path: Path) -> sqlite3.Connection:
    """A connection for doing harm, which itself ends where an earlier harm is endless."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.set_progress_handler(lambda: 1, 10_000_000)
    return connection


def make_endless(path: Path, table: str, *, depth: int = 12, width: int = 300) -> None:
    """Put pages above a table's rows that all lead to the same one below."""
    with closing(connected(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = connection.execute(query, (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    start, pages = (root - 1) * size, len(data) // size
    data += data[start : start + size]  # the rows, elsewhere
    for level in range(depth):
        below = pages + level + 1
        page = bytearray(size)
        width = min(width, (size - 12) // 7 - 1)
        page[0:12] = struct.pack(">BHHHBI", 5, 0, width, size - 5 * width, 0, below)
        for cell in range(width):
            place = size - 5 * (cell + 1)
            page[12 + 2 * cell : 14 + 2 * cell] = struct.pack(">H", place)
            page[place : place + 5] = struct.pack(">IB", below, 1)
        data += page
    data[start : start + size] = data[-size:]
    del data[-size:]
    data[28:32] = struct.pack(">I", len(data) // size)
    path.write_bytes(data)


def make_deleting(path: Path, victim: Path) -> None:
    """Lay a journal beside a database that has SQLite delete `victim` when it plays it back."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder, "a")
        shutil.copy(path, scratch)
        with suppress(sqlite3.Error):
            with closing(connected(scratch)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
            with closing(connected(scratch)) as connection:
                connection.execute("PRAGMA cache_size = 1")
                connection.execute("BEGIN")
                connection.execute("CREATE TABLE more(a)")
                connection.execute("INSERT INTO more SELECT zeroblob(3000) FROM chunks, chunks b")
                shutil.copy(scratch, path)
                begun = scratch.with_name("a-journal").read_bytes()
                connection.execute("ROLLBACK")
                name = os.fsencode(victim)
                end = struct.pack(">I", 0x40000000 // 4096 + 1) + name
                end += struct.pack(">II", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7")
                path.with_name(f"{path.name}-journal").write_bytes(begun + end)
