"""A catalogue that somebody else made: looked at as data that means harm, then copied by rows.

Nothing of its structure is kept. A file made to harm can still say what is untrue of a document;
it cannot bring tables, triggers, views or settings along.
"""

# ruff: noqa: S608 - what is put into a statement here are constants of this file

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from localrag.errors import LibraryDamagedError, LibraryError, LibraryMismatchError, Reason
from localrag.library.catalogue.guarded import connect
from localrag.library.catalogue.integrity import FOREIGN, catalogue_findings
from localrag.library.catalogue.migrations import (
    APPLICATION_ID,
    MIGRATIONS,
    has_our_schema,
    is_current,
    migrate,
)
from localrag.library.catalogue.reads import Snapshot
from localrag.library.catalogue.writes import Transaction
from localrag.library.records import EmbeddingIdentity
from localrag.types import Finding

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
_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)


class ForeignCatalogue:
    """A catalogue that has just been unpacked to a file of its own; opened for reading only."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            header = file.read(20)
        # Bytes 18 and 19 say 1 where the file needs no write-ahead log beside it.
        if not header.startswith(_HEADER) or header[18:20] != b"\x01\x01":
            raise _foreign(Reason("it is not written as an export writes it"))
        with _translated():
            self._sql = connect(path, mode="immutable")
            try:
                self._expect_our_tables()
                if not is_current(self._sql, path.name):
                    self._sql.close()
                    with closing(connect(path, mode="write")) as connection:
                        connection.execute("PRAGMA journal_mode = MEMORY")
                        migrate(connection, path.name)
                    self._sql = connect(path, mode="immutable")
            except BaseException:
                self._sql.close()
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._sql.close()

    def checked(self, describe: Callable[[Finding], str]) -> tuple[EmbeddingIdentity, int, int]:
        """Its embedding model, and how many documents and chunks it has.

        Raises LibraryDamagedError for whatever `localrag check` finds in a catalogue, in the words
        of `describe`.
        """
        with _translated():
            snapshot = Snapshot(self._sql)
            for finding in catalogue_findings(snapshot):
                if finding.code != FOREIGN:
                    raise _foreign(describe(finding).rstrip(".。"))
            return snapshot.embedding(), snapshot.counts().documents, snapshot.chunks()

    def copy_to(self, transaction: Transaction) -> None:
        """Copy every row, under a new epoch: what follows this catalogue begins anew."""
        with _translated():
            for table in TABLES:
                columns = transaction.sql.execute(f"PRAGMA table_info({table})").fetchall()
                names = ", ".join(f'"{column[1]}"' for column in columns)
                marks = ", ".join("?" * len(columns))
                rows = self._sql.execute(f"SELECT {names} FROM {table}")
                transaction.sql.executemany(f"INSERT INTO {table}({names}) VALUES ({marks})", rows)
            source = Snapshot(self._sql)
            transaction.set_embedding(source.embedding())
            transaction.set_meta("generation", source.stamp()[1])
            transaction.set_meta("epoch", secrets.token_hex(8))

    def _expect_our_tables(self) -> None:
        (application,) = self._sql.execute("PRAGMA application_id").fetchone()
        (version,) = self._sql.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID or version < 1:
            raise _foreign(Reason("it is a database of another program"))
        if version > len(MIGRATIONS):
            raise LibraryMismatchError(
                "The archive has schema {found}, but this version of localrag knows schemas up "
                "to {known}.",
                hint="Update localrag, or export the library with this version.",
                found=version,
                known=len(MIGRATIONS),
            )
        if not has_our_schema(self._sql):
            raise _foreign(Reason("its tables are not those of a library"))


@contextmanager
def _translated() -> Iterator[None]:
    """What SQLite says lies in the file, which nobody else uses, or with the disk."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_DISK:
            raise cannot_go_on(error) from error
        raise _foreign(error) from error


def cannot_go_on(reason: object) -> LibraryError:
    """What a reader is told of a disk that is full or fails during an import."""
    return LibraryError(
        "The import cannot go on: {reason}.",
        hint="Check the free disk space and whether you may write to that folder.",
        reason=reason,
    )


def _foreign(reason: object) -> LibraryDamagedError:
    return LibraryDamagedError(
        "The archive's catalogue cannot be taken over: {reason}.",
        hint="Copy it again from where it was made, or export the library anew.",
        reason=reason,
    )
