"""A catalogue that somebody else made: looked at as data that means harm, then copied by rows.

Nothing of its structure is kept. A file made to harm can still say what is untrue of a document;
it cannot bring tables, triggers, views or settings along.
"""

# ruff: noqa: S608 - what is put into a statement here are constants of this file

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np

from localrag.errors import LibraryDamagedError, LibraryError, LibraryMismatchError
from localrag.messages import tr
from localrag.stores.checking_rows import catalogue_findings
from localrag.stores.migrations import APPLICATION_ID, MIGRATIONS, is_current, migrate
from localrag.stores.opening import identity
from localrag.stores.reads import Snapshot
from localrag.stores.records import EmbeddingIdentity
from localrag.stores.writes import Transaction

TABLES = (
    "documents",
    "sources",
    "origins",
    "blocks",
    "pages",
    "headings",
    "chunks",
    "embeddings",
    "checksums",
)
"""What a library is made of, in an order in which nothing refers to what comes later."""

LEFT = ("meta", "removals", "staged_documents", "staged_chunks")
"""What belongs to the place where a library lies; of `meta`, three settings are taken over."""

_HEADER = b"SQLite format 3\x00"
_LENGTH_LIMIT = 256 << 20
"""Bytes of one value: a block of text has 64 KiB at most, a document's metadata little."""
_DIMENSION_LIMIT = 65_536
_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
_TYPES = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
_WRONG = (
    "SELECT count(*) FROM chunks c JOIN documents d ON d.number = c.document WHERE c.id < 0 OR "
    'c."start" < 0 OR c."end" < c."start" OR c."end" > d.length OR c.position < 0',
    "SELECT count(*) FROM pages p JOIN documents d ON d.number = p.document WHERE "
    'p."start" < 0 OR p."end" < p."start" OR p."end" > d.length',
    "SELECT count(*) FROM headings h JOIN documents d ON d.number = h.document WHERE "
    'h."start" < 0 OR h."start" > d.length',
    "SELECT count(*) FROM documents WHERE CASE WHEN json_valid(metadata) "
    "THEN json_type(metadata) != 'object' ELSE 1 END",
    "SELECT count(*) FROM documents WHERE length < 0 OR size < 0",
    "SELECT count(*) FROM chunks WHERE id NOT IN (SELECT chunk FROM embeddings)",
)
"""How many rows say what no document can be."""


class Stranger:
    """A catalogue that has just been unpacked to a file of its own; opened for reading only."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            header = file.read(20)
        # Bytes 18 and 19 say 1 where the file needs no write-ahead log beside it.
        if not header.startswith(_HEADER) or header[18:20] != b"\x01\x01":
            raise _foreign(tr("it is not written as an export writes it"))
        with _translated():
            self._sql = _connect(path, "mode=ro&immutable=1")
            try:
                self._expect_our_tables()
                if not is_current(self._sql, path.name):
                    self._sql.close()
                    with closing(_connect(path, "mode=rw")) as connection:
                        connection.execute("PRAGMA journal_mode = MEMORY")
                        migrate(connection)
                    self._sql = _connect(path, "mode=ro&immutable=1")
            except BaseException:
                self._sql.close()
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._sql.close()

    def checked(self) -> tuple[EmbeddingIdentity, int, int]:
        """Its embedding model, and how many documents and chunks it has.

        Raises LibraryDamagedError for whatever `localrag check` finds in a catalogue, and for
        values that no document can have.
        """
        with _translated():
            snapshot = Snapshot(self._sql)
            for finding in catalogue_findings(snapshot):
                raise _foreign(finding.text.rstrip(".。"))
            found = identity(snapshot)
            if found.dimension > _DIMENSION_LIMIT or any(
                self._sql.execute(query).fetchone()[0] for query in _WRONG
            ):
                raise _foreign(tr("it says what cannot be of a document"))
            return found, snapshot.counts().documents, snapshot.chunks()

    def copy_to(self, transaction: Transaction) -> None:
        """Copy every row, under a new epoch: what follows this catalogue begins anew."""
        with _translated():
            for table in TABLES:
                columns = transaction.sql.execute(f"PRAGMA table_info({table})").fetchall()
                types = [_TYPES[column[2]] for column in columns]
                names = ", ".join(f'"{column[1]}"' for column in columns)
                marks = ", ".join("?" * len(columns))
                rows = self._sql.execute(f"SELECT {names} FROM {table}")
                transaction.sql.executemany(
                    f"INSERT INTO {table}({names}) VALUES ({marks})", _typed(rows, types)
                )
            source = Snapshot(self._sql)
            transaction.set_embedding(identity(source))
            transaction.set_meta("generation", source.stamp()[1])
            transaction.set_meta("epoch", secrets.token_hex(8))

    def _expect_our_tables(self) -> None:
        (application,) = self._sql.execute("PRAGMA application_id").fetchone()
        (version,) = self._sql.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID or version < 1:
            raise _foreign(tr("it is a database of another program"))
        if version > len(MIGRATIONS):
            raise LibraryMismatchError(
                "The archive has schema {found}, but this version of localrag knows schemas up "
                "to {known}.",
                hint="Update localrag, or export the library with this version.",
                found=version,
                known=len(MIGRATIONS),
            )
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as ours:
            for step in MIGRATIONS[:version]:
                step(ours)
            if _schema(ours) != _schema(self._sql):
                raise _foreign(tr("its tables are not those of a library"))


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(path.absolute().as_posix())}?{mode}", uri=True, isolation_level=None
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH_LIMIT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _schema(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return sorted(
        connection.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master")
    )


def _typed(rows: Iterator[Sequence[object]], types: Sequence[type]) -> Iterator[Sequence[object]]:
    """The rows, each value of which is of its column's type; vectors are of numbers."""
    for row in rows:
        for value, kind in zip(row, types, strict=True):
            if type(value) is not kind:
                raise _foreign(tr("it says what cannot be of a document"))
            if isinstance(value, bytes) and not np.isfinite(np.frombuffer(value, "<f2")).all():
                raise _foreign(tr("it says what cannot be of a document"))
        yield row


@contextmanager
def _translated() -> Iterator[None]:
    """What SQLite says lies in the file, which nobody else uses, or with the disk."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_DISK:
            raise LibraryError(
                "The import cannot go on: {reason}.",
                hint="Check the free disk space and whether you may write to that folder.",
                reason=error,
            ) from error
        raise _foreign(error) from error


def _foreign(reason: object) -> LibraryDamagedError:
    return LibraryDamagedError(
        "The archive's catalogue cannot be taken over: {reason}.",
        hint="Copy it again from where it was made, or export the library anew.",
        reason=reason,
    )
