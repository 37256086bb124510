"""The schema of the catalogue, as numbered steps that are applied on open.

`PRAGMA user_version` counts the steps a file has had; `PRAGMA application_id` tells our files
from other SQLite files.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache

from localrag.errors import LibraryDamagedError, LibraryError, LibraryMismatchError
from localrag.library.catalogue.checksums import first_checksums
from localrag.library.catalogue.guarded import altered, transaction

APPLICATION_ID = 0x4C524147  # "LRAG"


def m001_create_tables(connection: sqlite3.Connection) -> None:
    """Documents with their text, chunks, embeddings, and the settings they were made with.

    The text of a document is kept once, cut into blocks of equal length, so that a passage is
    read without reading the rest of a long file. A removal keeps the bare id of the chunk, so
    that a derived index that is behind learns what to forget.
    """
    for statement in (
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        """CREATE TABLE documents(
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            added_at TEXT NOT NULL,
            size INTEGER NOT NULL,
            length INTEGER NOT NULL,
            language TEXT NOT NULL,
            metadata TEXT NOT NULL,
            chunking TEXT NOT NULL)""",
        """CREATE TABLE sources(
            path TEXT PRIMARY KEY,
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            checked_ns INTEGER NOT NULL) WITHOUT ROWID""",
        "CREATE INDEX sources_by_document ON sources(document)",
        """CREATE TABLE blocks(
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            block INTEGER NOT NULL,
            text TEXT NOT NULL,
            UNIQUE(document, block))""",
        """CREATE TABLE pages(
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            number INTEGER NOT NULL,
            "start" INTEGER NOT NULL,
            "end" INTEGER NOT NULL,
            PRIMARY KEY(document, position)) WITHOUT ROWID""",
        """CREATE TABLE headings(
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            "start" INTEGER NOT NULL,
            level INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY(document, position)) WITHOUT ROWID""",
        """CREATE TABLE chunks(
            id INTEGER PRIMARY KEY,
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            heading TEXT NOT NULL,
            first_page INTEGER NOT NULL,
            last_page INTEGER NOT NULL,
            "start" INTEGER NOT NULL,
            "end" INTEGER NOT NULL,
            generation INTEGER NOT NULL)""",
        "CREATE UNIQUE INDEX chunks_by_document ON chunks(document, position)",
        "CREATE INDEX chunks_by_generation ON chunks(generation)",
        """CREATE TABLE embeddings(
            chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
            vector BLOB NOT NULL)""",
        "CREATE TABLE removals(chunk INTEGER NOT NULL, generation INTEGER NOT NULL)",
        "CREATE INDEX removals_by_generation ON removals(generation)",
        """CREATE TABLE staged_documents(
            document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE)""",
        """CREATE TABLE staged_chunks(
            id INTEGER PRIMARY KEY,
            document INTEGER NOT NULL REFERENCES staged_documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            heading TEXT NOT NULL,
            first_page INTEGER NOT NULL,
            last_page INTEGER NOT NULL,
            "start" INTEGER NOT NULL,
            "end" INTEGER NOT NULL,
            vector BLOB NOT NULL)""",
        "CREATE INDEX staged_chunks_by_document ON staged_chunks(document)",
    ):
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)", [("generation", 0), ("epoch", secrets.token_hex(8))]
    )
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def m002_add_checksums(connection: sqlite3.Connection) -> None:
    """Checksums of what is stored of each document, as it stands."""
    connection.execute(
        """CREATE TABLE checksums(
            document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
            content INTEGER NOT NULL,
            passages INTEGER NOT NULL,
            sources INTEGER NOT NULL)"""
    )
    for (number,) in connection.execute("SELECT number FROM documents").fetchall():
        first_checksums(connection, number)


def m003_add_origins(connection: sqlite3.Connection) -> None:
    """Where the bytes of a source lay when they were read: a path may lead over links that change.

    What older versions added has no row here: what it led to then is not known.
    """
    connection.execute(
        """CREATE TABLE origins(
            source TEXT NOT NULL REFERENCES sources ON DELETE CASCADE,
            path TEXT NOT NULL,
            PRIMARY KEY(source, path)) WITHOUT ROWID"""
    )


def m004_add_reading(connection: sqlite3.Connection) -> None:
    """How each page was read, where its text stands, tables, what was not read, kept answers.

    What older versions added has `reader` 0: a rebuild reads it again where the file is there.
    """
    for statement in (
        "ALTER TABLE documents ADD COLUMN unit TEXT NOT NULL DEFAULT 'page'",
        "ALTER TABLE documents ADD COLUMN reader INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE pages ADD COLUMN label TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE pages ADD COLUMN how TEXT NOT NULL DEFAULT 'text'",
        "ALTER TABLE pages ADD COLUMN confidence INTEGER NOT NULL DEFAULT -1",
        "ALTER TABLE pages ADD COLUMN notes TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE chunks ADD COLUMN columns TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE staged_chunks ADD COLUMN columns TEXT NOT NULL DEFAULT '[]'",
        """CREATE TABLE layouts(
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            layout BLOB NOT NULL,
            UNIQUE(document, position))""",
        """CREATE TABLE tables(
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            "start" INTEGER NOT NULL,
            "end" INTEGER NOT NULL,
            header TEXT NOT NULL,
            header_rows INTEGER NOT NULL,
            PRIMARY KEY(document, position)) WITHOUT ROWID""",
        """CREATE TABLE unread(
            path TEXT PRIMARY KEY,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            checked_ns INTEGER NOT NULL,
            reader INTEGER NOT NULL,
            kind TEXT NOT NULL,
            message TEXT NOT NULL,
            hint TEXT NOT NULL,
            "values" TEXT NOT NULL) WITHOUT ROWID""",
        """CREATE TABLE answers(
            number INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL,
            question TEXT NOT NULL,
            asked_at TEXT NOT NULL,
            record TEXT NOT NULL)""",
        # By id: a document that is gone takes the answers along, and not this row alone.
        """CREATE TABLE answer_documents(
            answer INTEGER NOT NULL REFERENCES answers ON DELETE CASCADE,
            document TEXT NOT NULL,
            PRIMARY KEY(answer, document)) WITHOUT ROWID""",
    ):
        connection.execute(statement)


def m005_number_chunks(connection: sqlite3.Connection) -> None:
    """Chunks and vectors in the order in which they came, not in that of their ids.

    An id is as good as random: by it, every addition wrote all over the file, and SQLite keeps the
    key of a row that is gone in the pages above it. A number tells nothing. Which chunks there are
    is written down: how many, and the sum of their ids.
    """
    # A schema is compared to the letter: what is renamed goes, and the new tables stand as they
    # are written here.
    for statement in (
        "DROP INDEX chunks_by_document",
        "DROP INDEX chunks_by_generation",
        "DROP INDEX staged_chunks_by_document",
        "ALTER TABLE embeddings RENAME TO older_embeddings",
        "ALTER TABLE chunks RENAME TO older_chunks",
        "ALTER TABLE staged_chunks RENAME TO older_staged_chunks",
        """CREATE TABLE chunks(
            number INTEGER PRIMARY KEY,
            id INTEGER NOT NULL UNIQUE,
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            heading TEXT NOT NULL,
            first_page INTEGER NOT NULL,
            last_page INTEGER NOT NULL,
            "start" INTEGER NOT NULL,
            "end" INTEGER NOT NULL,
            generation INTEGER NOT NULL,
            columns TEXT NOT NULL)""",
        """CREATE TABLE embeddings(
            chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
            vector BLOB NOT NULL)""",
        """CREATE TABLE staged_chunks(
            number INTEGER PRIMARY KEY,
            id INTEGER NOT NULL,
            document INTEGER NOT NULL REFERENCES staged_documents ON DELETE CASCADE,
            position INTEGER NOT NULL,
            heading TEXT NOT NULL,
            first_page INTEGER NOT NULL,
            last_page INTEGER NOT NULL,
            "start" INTEGER NOT NULL,
            "end" INTEGER NOT NULL,
            columns TEXT NOT NULL,
            vector BLOB NOT NULL)""",
        "INSERT INTO chunks(id, document, position, heading, first_page, last_page, "
        '"start", "end", generation, columns) SELECT id, document, position, heading, first_page, '
        'last_page, "start", "end", generation, columns FROM older_chunks '
        "ORDER BY generation, document, position",
        "INSERT INTO embeddings SELECT c.number, e.vector FROM chunks c "
        "JOIN older_embeddings e ON e.chunk = c.id ORDER BY c.number",
        "INSERT INTO staged_chunks(id, document, position, heading, first_page, last_page, "
        '"start", "end", columns, vector) SELECT id, document, position, heading, first_page, '
        'last_page, "start", "end", columns, vector FROM older_staged_chunks '
        "ORDER BY document, position",
        "DROP TABLE older_embeddings",
        "DROP TABLE older_chunks",
        "DROP TABLE older_staged_chunks",
        "CREATE UNIQUE INDEX chunks_by_document ON chunks(document, position)",
        "CREATE INDEX chunks_by_generation ON chunks(generation)",
        "CREATE INDEX staged_chunks_by_document ON staged_chunks(document)",
    ):
        connection.execute(statement)
    count, high, low = connection.execute(
        "SELECT count(1), coalesce(sum(id >> 32), 0), coalesce(sum(id & 4294967295), 0) FROM chunks"
    ).fetchone()
    total = ((high << 32) + low) % (1 << 64)
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('chunks', ?)", (f"{count} {total}",))


def m006_add_askers(connection: sqlite3.Connection) -> None:
    """Whose a kept answer is: the name of a user, or "" where there are none."""
    connection.execute("ALTER TABLE answers ADD COLUMN asker TEXT NOT NULL DEFAULT ''")


def m007_add_cells(connection: sqlite3.Connection) -> None:
    """What documents answer to the questions of tables, gone with their documents."""
    connection.execute(
        """CREATE TABLE cells(
            document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            "key" TEXT NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY(document, "key"))"""
    )


def m008_add_saved_tables(connection: sqlite3.Connection) -> None:
    """Tables that are kept by a name: what they ask, and of which documents."""
    connection.execute(
        """CREATE TABLE saved_tables(
            name TEXT NOT NULL PRIMARY KEY,
            patterns TEXT NOT NULL,
            record TEXT NOT NULL)"""
    )


Step = Callable[[sqlite3.Connection], None]

MIGRATIONS: tuple[Step, ...] = (
    m001_create_tables,
    m002_add_checksums,
    m003_add_origins,
    m004_add_reading,
    m005_number_chunks,
    m006_add_askers,
    m007_add_cells,
    m008_add_saved_tables,
)


def expect_known(version: int, application: int, path: object) -> None:
    """Raise for a file that is newer than this program, or another program's."""
    if application not in (0, APPLICATION_ID):
        raise LibraryDamagedError(
            "{path} is a database of another program, not the catalogue of a library.",
            hint="Name another folder with --library.",
            path=path,
        )
    expect_no_newer(version, len(MIGRATIONS), path)


def expect_no_newer(version: int, known: int, path: object) -> None:
    """Raise for a schema that is newer than the one this program knows."""
    if version > known:
        raise LibraryMismatchError(
            "{path} has schema version {found}, but this version of localrag supports "
            "versions up to {known}.",
            hint="Update localrag, or use the version that wrote the library.",
            path=path,
            found=version,
            known=known,
        )


def is_current(connection: sqlite3.Connection, path: object) -> bool:
    """Whether no step is missing.

    Raises for a file that is newer than this program, or foreign, or whose schema is not what the
    steps make of an empty file, or a table of which has no pages: a trigger, a view, a table or an
    index more, or another word in one of them, is not ours.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (encoding,) = connection.execute("PRAGMA encoding").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    rows = connection.execute(
        "SELECT rootpage, type, name, tbl_name, sql FROM sqlite_master LIMIT 1000"
    ).fetchall()
    roots = {row[0] for row in rows if type(row[0]) is int and 1 < row[0] <= pages}
    ours = (
        0 <= version <= len(MIGRATIONS)
        and application == (APPLICATION_ID if version else 0)
        and encoding == "UTF-8"
        and len(roots) == len(rows)
        and {row[1:] for row in rows} == _schema(MIGRATIONS[:version])
    )
    expect_known(version, application if ours or application else -1, path)
    if not ours:
        raise altered(path, LibraryError("its tables are not those of a library"))
    return bool(version == len(MIGRATIONS))


@cache
def _schema(steps: tuple[Step, ...]) -> frozenset[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for step in steps:
            step(fresh)
        return frozenset(
            fresh.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        )


def migrate(connection: sqlite3.Connection, path: object) -> None:
    """Apply the missing steps, all in one transaction."""
    with transaction(connection, "IMMEDIATE"):
        is_current(connection, path)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for step in MIGRATIONS[version:]:
            step(connection)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
