"""The catalogue of a library: one SQLite file that holds the truth.

Knows nothing about FAISS, BM25 or locks: `Library` puts them together.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from localrag.errors import LibraryDamagedError, LibraryError
from localrag.library.catalogue.guarded import (
    GuardedConnection,
    Mode,
    connect,
    database_errors,
    log_of,
    operational_errors,
    read_header,
    rewriting,
    transaction,
)
from localrag.library.catalogue.migrations import expect_known, is_current, migrate
from localrag.library.catalogue.reads import Snapshot
from localrag.library.catalogue.store import CatalogueStore
from localrag.library.catalogue.sweeping import SweepMark, logged_pages, sweep
from localrag.library.catalogue.writes import Transaction
from localrag.library.folder.filesystem import in_our_words, not_writable, unusable
from localrag.library.folder.gate import no_library

BUSY_TIMEOUT = 30.0
"""Seconds that SQLite waits for another connection's short locks (checkpoint, recovery)."""

_READING = ("query_only = ON",)
_WRITING = (
    # Both count for a new file only. Of the vectors of 512 dimensions, seven fill a page of 8 kB;
    # one of 4 kB holds three and is a quarter empty.
    "page_size = 8192",
    "auto_vacuum = INCREMENTAL",
    "journal_mode = WAL",
    "synchronous = FULL",  # what was reported as added survives a power cut, not only a kill
    "foreign_keys = ON",
    "secure_delete = ON",
    "wal_autocheckpoint = 0",  # `settle` folds the log in, and sweeps what it touched
)

_LONGEST_LOG = 64 << 20
"""Bytes of the write-ahead log from which on it is folded in during a long change."""

_NOT_DAMAGE = frozenset(
    (
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    )
)
"""What SQLite says of disk, rights and other processes. Anything else lies in the file: a table
that is not there, text that is no UTF-8."""


class SqliteCatalogue(CatalogueStore):
    """Connections to `catalogue.sqlite`, each for one reader or writer at a time.

    Those that nobody uses wait for the next. Whoever reads or writes has the schema compared with
    ours first, in the same transaction: a file that came from elsewhere may hold triggers and
    views, or a log that brings them.
    """

    def __init__(self, path: Path, *, read_only: bool = False, key: str = "") -> None:
        """`read_only` makes no file beside the catalogue, not even SQLite's log.

        `key` is that of an encrypted one.
        """
        self.path = path
        self._key = key
        self._read_only = read_only
        self._mark: SweepMark | None = None
        self._swept = False
        self._used = threading.local()
        self._idle: list[GuardedConnection] = []
        self._forgotten = 0
        self._guard = threading.Lock()

    def keep(self, mark: SweepMark) -> None:
        """Have `settle` mark the file as swept; without, each purge writes it anew.

        Not an encrypted one: only SQLCipher writes its pages, and a page of it tells nobody
        anything who has not the key.
        """
        if not self._key:
            self._mark = mark

    def needs_migration(self) -> bool:
        """Whether the file is new or older than this program.

        Raises for what is foreign, newer, or altered: the first two stay as they are to the byte.
        """
        with self._translated():
            with in_our_words(self.path.parent):
                there = self.path.exists() and not self._key
                header = read_header(self.path) if there else None
            if header is not None:
                expect_known(*header, self.path)
            with self._connection("reader") as connection:
                return not is_current(connection, self.path)

    def migrate(self) -> None:
        """Create or update the tables; the caller holds the write lock."""
        with self._translated(), self._connection("writer") as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            migrate(connection, self.path)
            if pages <= 1:  # a new file: all that was ever in it is in the log
                self._vouch()

    def upgrade_elsewhere(self, folder: Path) -> None:
        """Go on with an upgraded copy in `folder`, because the file itself can only be read."""
        copy = folder / self.path.name
        self.copy_to(copy)
        self.close()
        self.path, self._read_only = copy, False
        self.migrate()

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """One consistent state of the library, untouched by a writer who is busy meanwhile."""
        with self._translated(), self._connection("reader") as connection:
            if connection.in_transaction:  # a read within a read sees the same state
                yield Snapshot(connection)
                return
            before = self._file_states()
            try:
                with transaction(connection):
                    self._prove(connection)
                    yield Snapshot(connection)
            finally:
                self._expect_unchanged(before)

    def begin(self) -> None:
        """See whether the file is as `settle` left it; the caller holds the write lock.

        Then SQLite's structures hold what they should, and nothing that was removed.
        """
        self._swept = self._mark is not None and self._mark.fits(self.path)

    @property
    def has_log(self) -> bool:
        """Whether somebody is writing, or ended before the log was folded in."""
        return _size(log_of(self.path)) > 0

    @property
    def swept(self) -> bool:
        """Whether what `begin` has seen of the file still holds."""
        return self._swept

    @contextmanager
    def write(self, *, own: bool = False) -> Iterator[Transaction]:  # noqa: ARG002
        """One change, visible whole when the block ends and not at all if it raises."""
        with (
            self._translated(),
            self._connection("writer") as connection,
        ):
            with transaction(connection, "IMMEDIATE"):
                self._prove(connection)
                yield Transaction(connection)
            if _size(log_of(self.path)) > _LONGEST_LOG:
                self.settle()

    def purge(self) -> bool:
        """Empty the write-ahead log, so that no removed text remains in any page.

        `secure_delete` alone is not enough: it overwrites what is deleted, but not the copies
        that stay behind when SQLite moves rows from page to page. Those are swept; a file that
        may hold some from before is written anew. False when a reader is still busy with an
        older state. Of an encrypted file such copies stay where they are, encrypted.
        """
        with self._translated(), self._connection("writer") as connection:
            if self._swept or self._key:
                with connection.unlimited():
                    # A script, as Python takes only the first step of a statement without columns.
                    connection.executescript("PRAGMA incremental_vacuum")
            else:
                with rewriting(connection):
                    connection.execute("VACUUM")
                self._vouch()  # every page of it is in the log
            return self.settle(patience=1.0) and (self._mark is None or self._swept)

    def settle(self, *, patience: float = 0.0) -> bool:
        """Fold the write-ahead log into the file, and sweep the pages that were in it.

        The caller holds the write lock. False where readers keep the log in use for longer than
        `patience` seconds: what is in it stays there.
        """
        with (
            self._translated(),
            in_our_words(self.path.parent),
            self._connection("writer") as connection,
        ):
            log = log_of(self.path)
            if not _size(log):
                return True
            connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            try:
                if self._swept and not self._fold(connection, log):
                    return False
                (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
            return not busy

    def _fold(self, connection: GuardedConnection, log: Path) -> bool:
        """Bring the file to the state of the log, sweep it, and mark it: the log is still there.

        False where a reader of an older state keeps a part of the log out of the file: what is in
        the file then is still named by the log, and swept when all of it is.
        """
        self.begin()  # not where somebody has folded the log in who does not sweep
        before = _state(log)
        (busy, logged, folded) = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        whole = not busy and logged == folded
        with transaction(connection, "IMMEDIATE"):
            # Whoever changes the file without our lock has no page of theirs overwritten.
            self._swept = (
                self._swept
                and _state(log) == before
                and (not whole or sweep(connection.in_place(), logged_pages(log)))
            )
            if self._swept:
                self._vouch()
        return whole

    def _vouch(self) -> None:
        """Mark the file: what may have been left in it by rows is in the pages of the log alone."""
        if self._mark is not None:
            self._mark.set(self.path)
            self._swept = True

    def copy_to(self, path: Path) -> None:
        """Write one committed state to the new file `path`, without pages that are free.

        By VACUUM INTO and not by the backup API, which copies free pages too, and in them what
        was removed. Goes where the catalogue can only be read, too.
        """
        with self._translated(), closing(self._connect()) as connection:
            before = self._file_states()
            connection.execute("PRAGMA query_only = OFF")  # it would hold for the new file too
            with rewriting(connection):
                connection.execute("VACUUM INTO ?", (str(path.absolute()),))
            self._expect_unchanged(before)

    def identity(self) -> tuple[int, int] | None:
        """Device and number of the file; None where there is none."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Close all connections; the last process to do so folds the write-ahead log in.

        What a thread still uses is closed once it is done, and what is asked later opens the file
        anew. So this is also how a process forgets the pages that SQLite holds in memory.
        """
        with self._guard:
            self._forgotten += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self, use: Literal["reader", "writer"]) -> Iterator[GuardedConnection]:
        """A connection for this thread; within such a use, the same one."""
        mine: GuardedConnection | None = getattr(self._used, use, None)
        if mine is not None:
            yield mine
            return
        if use == "writer" and self._read_only:
            raise not_writable(self.path.parent)
        age = self._forgotten
        connection = self._take_connection()
        setattr(self._used, use, connection)
        try:
            yield connection
        finally:
            setattr(self._used, use, None)
            with self._guard:
                keep = age == self._forgotten and not connection.in_transaction
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _take_connection(self) -> GuardedConnection:
        """One that waits, or a new one: as many as are ever used at once."""
        seen = self._file_states()
        while True:
            with self._guard:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
                connection.seen = seen
                return connection
            if connection.seen == seen:
                return connection
            connection.close()  # reads without locks, and the file has changed since

    def _file_states(self) -> tuple[tuple[int, int], ...]:
        """What tells whether a catalogue that is read without locks has been changed."""
        if not self._read_only:
            return ()
        states = [path.stat() for path in (self.path, log_of(self.path)) if path.exists()]
        return tuple((state.st_size, state.st_mtime_ns) for state in states)

    def _expect_unchanged(self, before: tuple[tuple[int, int], ...]) -> None:
        if self._file_states() != before:
            raise LibraryError(
                "The catalogue {path} was changed by another program while it was being read.",
                hint="Run the same command again.",
                path=self.path,
            )

    def _prove(self, connection: GuardedConnection) -> None:
        """Raise unless the schema is ours, as this transaction sees it."""
        (state,) = connection.execute("PRAGMA schema_version").fetchone()
        if state != connection.proven:
            is_current(connection, self.path)
            connection.proven = state

    def _connect(self) -> GuardedConnection:
        mode: Mode = "new"
        if self._read_only:
            # Immutable: no locks and no files of its own. What stands in a log needs both.
            log = log_of(self.path)
            mode = "read" if log.exists() and log.stat().st_size else "immutable"
        with in_our_words(self.path.parent):
            connection = connect(self.path, mode=mode, timeout=BUSY_TIMEOUT, key=self._key)
        try:
            with transaction(connection):
                self._prove(connection)  # before anything is written
            for pragma in _READING if self._read_only else _WRITING:
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's complaints about the file into errors that a person understands."""
        encrypted = bool(self._key)
        failures: tuple[type[Exception], ...] = (
            *database_errors(encrypted=encrypted),
            UnicodeDecodeError,
        )
        try:
            yield
        except operational_errors(encrypted=encrypted) as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _NOT_DAMAGE:
                raise self._damaged(error) from error
            if self._read_only:  # an open log, say, that came along without its index
                raise LibraryError(
                    "The catalogue {path} cannot be read without writing next to it, which "
                    "is not possible: {reason}.",
                    hint="Copy the folder to a disk of your own and open the library there.",
                    path=self.path,
                    reason=error,
                ) from error
            if not self.path.exists():  # deleted while it was open
                raise no_library(self.path.parent) from error
            raise unusable(self.path.parent, error) from error
        except failures as error:
            raise self._damaged(error) from error  # even SQLite's complaint may be no UTF-8

    def _damaged(self, error: Exception) -> LibraryDamagedError:
        reason: object = error
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            reason = LibraryError("its pages refer to more data than a file of its size can hold")
        return LibraryDamagedError(
            "The catalogue {path} is damaged: {reason}.",
            hint="Restore the folder from a backup, or delete it and add the documents again.",
            path=self.path,
            reason=reason,
        )


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
