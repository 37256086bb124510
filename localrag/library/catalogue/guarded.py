"""SQLite files that may come from anybody: opened so that they can say things and do nothing.

Knows nothing of tables. Whoever opens a file compares its schema before asking for a row.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast
from weakref import WeakSet

from localrag.errors import LibraryDamagedError, LibraryError
from localrag.library.catalogue.base import Row, quoted
from localrag.library.folder.gate import names_other_files
from localrag.library.folder.vaults import lacking
from localrag.system.files import open_in_place, open_plain

VALUE_LIMIT = 256 << 20
"""Bytes of one value: a block of text has 64 KiB at most, a document's metadata little."""

_STEPS, _STEPS_PER_BYTE = 5_000_000, 4
"""How many steps one statement may take. The longest in a sound file took .03 a byte."""

_STRIDE = 100_000
"""Steps from one look at the count to the next."""

_BYTES, _BYTES_PER_BYTE = 16 << 20, 4
"""How much one question may answer: nothing is stored twice, but a damaged page leads anywhere."""

_OF_PAGES = ("*** in database", "Tree ", "Page ", "Freelist")
"""How SQLite's complaints about pages begin, and those about rows do not."""

_CACHE_KIB = 128 << 10
"""Pages of an encrypted file that are kept as they are read: to read one is to decrypt it."""

_LARGE, _MOST_HOLES = 64 << 20, 10
"""From which size on at least a tenth of a file must be there."""

_HEADER = b"SQLite format 3\x00"
_LOG = (0x377F0682, 0x377F0683)

Mode = Literal["new", "write", "read", "immutable"]


if TYPE_CHECKING:
    _Connection = sqlite3.Connection
else:  # of SQLite's module, or of SQLCipher's, which has the same methods
    _Connection = object

CIPHER_PAGE = 8192


class GuardedConnection(_Connection):
    """A connection whose statements end, whatever the pages of the file refer to."""

    path: Path
    file: tuple[int, int] | None = None
    """Device and number of the file, while it is open."""
    proven: int | None = None
    """`PRAGMA schema_version` when the schema was last compared with ours."""
    seen: tuple[tuple[int, int], ...] = ()
    """Sizes and times of the files when it was opened, where they are read without locks."""
    counted: tuple[object, Any] | None = None
    """Which chunks there were, and in which state of the library."""
    _left: int | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement, which may take as many steps as a sound file can ask for."""
        if self._left is not None:
            self._left = _STEPS
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """Store rows: as many as the caller has, whatever the size of the file."""
        with self.unlimited():
            return super().executemany(sql, parameters)

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Let statements take as long as they take, for example VACUUM."""
        before, self._left = self._left, None
        try:
            yield
        finally:
            self._left = before

    def close(self) -> None:
        """Close the file; from here, others in this process may open it without SQLite."""
        super().close()
        with _opening:
            file, self.file = self.file, None
            if file in _in_place and all(connection.file != file for connection in _open):
                _in_place.pop(file).close()

    def __del__(self) -> None:
        """SQLite closes its own handle of a library that nobody has closed, and not this one."""
        if self.file is not None:
            self.close()

    def in_place(self) -> BinaryIO:
        """The file, to be read and written past SQLite; closed with the last connection to it."""
        with _opening:
            if self.file is None:
                raise sqlite3.ProgrammingError("the file of the connection is not known")
            if self.file not in _in_place:
                handle = open_in_place(self.path)
                status = os.fstat(handle.fileno())
                if (status.st_dev, status.st_ino) != self.file:
                    handle.close()
                    raise altered(self.path, LibraryError("another file has taken its place"))
                _in_place[self.file] = handle
            return _in_place[self.file]

    def limit(self) -> None:
        """Begin to count steps."""
        self._left = _STEPS
        self.set_progress_handler(self._count, _STRIDE)

    def rows(
        self,
        sql: str,
        *values: object,
        kinds: tuple[type, ...],
        ordered: bool = True,
        many: bool = False,  # noqa: ARG002 - rows come one by one here
    ) -> Iterator[Row]:
        """The rows of a query, each value of the type that was stored there.

        The first column ascends from row to row where they are `ordered`. Raises
        LibraryDamagedError for anything else: a page that is referred to twice would give its
        rows for ever.
        """
        last: Any = None
        wide = [place for place, kind in enumerate(kinds) if kind in (str, bytes)]
        size, most = 0, _BYTES
        for row in self.execute(sql, values):
            self.of_kinds(row, kinds)
            if ordered and last is not None and row[0] <= last:
                raise damaged_rows(LibraryError("duplicate rows"))
            last = row[0]
            for place in wide:
                size += len(row[place])
            if size > most:
                most = _BYTES + _BYTES_PER_BYTE * self._size()
                if size > most:
                    raise damaged_rows(
                        LibraryError(
                            "its pages refer to more data than a file of its size can hold"
                        )
                    )
            yield row

    def of_everybody(self) -> AbstractContextManager[None]:
        """As any: a file is one person's."""
        return nullcontext()

    @staticmethod
    def of_kinds(row: Row, kinds: tuple[type, ...]) -> Row:
        """The row. Raises LibraryDamagedError unless its values are of these types."""
        if tuple(map(type, row)) != kinds:
            raise damaged_rows(" ".join(type(value).__name__ for value in row))
        return row

    def columns(self, table: str) -> list[str]:
        """The columns of a table, in their order."""
        return [row[1] for row in self.execute(f"PRAGMA table_info({table})")]

    def table(self, name: str, columns: Sequence[str], where: str = "") -> Iterable[Row]:
        """All rows of a table, or those that a WHERE of our own leaves."""
        return self.execute(f"SELECT {quoted(columns)} FROM {name} {where}")  # noqa: S608 - names of our own schema

    def version(self) -> int:
        """The number of the newest migration that the file has had."""
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def _count(self) -> int:
        """Called by SQLite; other than 0 ends the statement."""
        if self._left is None:
            return 0
        self._left -= _STRIDE
        return int(self._left < 0 and -self._left > _STEPS_PER_BYTE * self._size())

    def _size(self) -> int:
        size = 0
        for path in (self.path, log_of(self.path)):
            with suppress(OSError):
                size += path.stat().st_size
        return size


class _PlainConnection(GuardedConnection, sqlite3.Connection):
    """To a file of SQLite."""


@cache
def _of_sqlcipher() -> Any:
    """The module of SQLCipher and the class of guarded connections to its files.

    Raises LibraryError where it is not installed.
    """
    try:
        from sqlcipher3 import dbapi2
    except ImportError as error:
        raise lacking("sqlcipher3") from error

    class EncryptedConnection(GuardedConnection, dbapi2.Connection):  # type: ignore[misc]
        """To a file of SQLCipher."""

    with closing(dbapi2.connect(":memory:")) as anywhere:
        for pragma in (
            "cipher_log_level = NONE",  # it would tell standard error of a wrong key
            # For every file, so that VACUUM writes what it reads. The fastest of those that are
            # sound, where the processor has SHA instructions.
            f"cipher_default_page_size = {CIPHER_PAGE}",
            "cipher_default_hmac_algorithm = HMAC_SHA256",
        ):
            anywhere.execute(f"PRAGMA {pragma}")
        ((stored,),) = anywhere.execute(
            "SELECT count(*) FROM pragma_compile_options WHERE compile_options = 'TEMP_STORE=2'"
        )
        if not stored:  # then temporary tables would lie on disk as they are
            raise LibraryError("This build of SQLCipher would write unencrypted temporary files.")
    return dbapi2, EncryptedConnection


def database_errors(*, encrypted: bool) -> tuple[type[Exception], ...]:
    """What SQLite raises; of an encrypted file SQLCipher, which has classes of its own."""
    return (_of_sqlcipher()[0] if encrypted else sqlite3).DatabaseError, sqlite3.DatabaseError


def operational_errors(*, encrypted: bool) -> tuple[type[Exception], ...]:
    """Those of them that may be of the disk, of rights, and of other processes."""
    return (_of_sqlcipher()[0] if encrypted else sqlite3).OperationalError, sqlite3.OperationalError


# POSIX drops all locks that a process has on a file as soon as it closes any handle of it. SQLite
# knows of its own handles alone: another that is closed would let some other process take our
# library for unused, and delete the log that we go on writing to.
_open: WeakSet[GuardedConnection] = WeakSet()
_in_place: dict[tuple[int, int], BinaryIO] = {}
_opening = threading.RLock()


def connect(
    path: Path,
    *,
    mode: Mode = "new",
    timeout: float = 0.0,
    key: str = "",
) -> GuardedConnection:
    """Open a file for one of four uses; "new" makes it where it is missing.

    With a key, 64 hexadecimal digits, the file is SQLCipher's, whose module has no limits of its
    own: whoever made it had the key. "immutable" takes no lock and makes no file. Raises
    LibraryDamagedError before SQLite sees a journal that would make it delete files elsewhere,
    LibraryError where SQLCipher is not installed, and what `database_errors` names.
    """
    journal = path.with_name(f"{path.name}-journal")
    if names_other_files(journal):
        raise altered(journal, LibraryError("it refers to files outside the library"))
    options = {"write": "rw", "read": "ro", "immutable": "ro&immutable=1"}
    where: Path | str = path.absolute()
    if mode != "new":
        where = f"{path.absolute().as_uri()}?mode={options[mode]}"
    module, factory = _of_sqlcipher() if key else (sqlite3, _PlainConnection)
    with _opening:
        connection = module.connect(
            where,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
            uri=mode != "new",
            factory=factory,
        )
        connection.path = path
        with suppress(OSError):
            status = path.stat()
            connection.file = status.st_dev, status.st_ino
            _open.add(connection)
    try:
        if key:
            connection.execute(f"PRAGMA key = \"x'{key}'\"")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        for limit, most in (
            ()
            if key
            else (
                (sqlite3.SQLITE_LIMIT_LENGTH, VALUE_LIMIT),
                (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
                (sqlite3.SQLITE_LIMIT_COLUMN, 100),
                (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
                (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 10),  # a cascade counts as one
            )
        ):
            connection.setlimit(limit, most)
        if sys.version_info >= (3, 12) and not key:  # whose module has none of these
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW, False)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.limit()
    except BaseException:
        connection.close()
        raise
    return cast(GuardedConnection, connection)


def open_database(path: Path, *, timeout: float, key: str = "") -> sqlite3.Connection:
    """Open or make a file of localrag's own that is no catalogue; encrypted where there is a key.

    `timeout` is in seconds. Several threads may use it in turn.
    """
    module = _of_sqlcipher()[0] if key else sqlite3
    connection: sqlite3.Connection = module.connect(
        path, timeout=timeout, check_same_thread=False, isolation_level=None
    )
    if key:
        connection.execute(f"PRAGMA key = \"x'{key}'\"")
    return connection


@contextmanager
def rewriting(connection: GuardedConnection) -> Iterator[None]:
    """For VACUUM, which copies whatever the pages refer to, to another file at first.

    Raises where a page is referred to twice. Rows that cannot have been stored, which the check
    names too, do not count.
    """
    rows = connection.execute("PRAGMA quick_check(1)")
    if any(str(row[0]).startswith(_OF_PAGES) for row in rows):
        raise sqlite3.DatabaseError("database disk image is malformed")
    attached = sqlite3.SQLITE_LIMIT_ATTACHED
    before = connection.setlimit(attached, 1) if hasattr(connection, "setlimit") else None
    try:
        with connection.unlimited():
            yield
    finally:
        if before is not None:
            connection.setlimit(attached, before)


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "DEFERRED") -> Iterator[None]:
    """What is done in the block counts when it ends, and not at all if it raises."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def log_of(path: Path) -> Path:
    """Where SQLite's write-ahead log for a file lies."""
    return path.with_name(f"{path.name}-wal")


def read_header(path: Path) -> tuple[int, int] | None:
    """The version and the application that a file names, without SQLite, which might change it.

    Of what stands in a write-ahead log, the newest version counts. None for no database, and for
    one that this process has open already and so has looked at.
    """
    with _opening:
        there = path.stat()
        if any(connection.file == (there.st_dev, there.st_ino) for connection in _open):
            return None
        with open_plain(path) as file:
            _expect_little_empty(path, file)
            page = file.read(100)
    if len(page) < 100 or not page.startswith(_HEADER):
        return None
    header = _header(page)
    try:
        log = open_plain(log_of(path))
    except FileNotFoundError:
        return header
    with log:
        _expect_little_empty(log_of(path), log)
        start = log.read(32)
        size = int.from_bytes(start[8:12], "big")
        if len(start) < 32 or int.from_bytes(start[:4], "big") not in _LOG or size < 512:
            return header
        while len(frame := log.read(24)) == 24:
            # SQLite, too, reads up to the first frame that is not of this log. A file may claim
            # to be longer than any disk.
            if frame[8:16] != start[16:24] or not any(frame[:4]):
                break
            page = log.read(100)
            if len(page) < 100:  # cut off while it was written: SQLite leaves it out, too
                break
            if frame[:4] == b"\0\0\0\1":
                header = max(header, _header(page))
            log.seek(size - len(page), os.SEEK_CUR)
    return header


def _header(page: bytes) -> tuple[int, int]:
    return int.from_bytes(page[60:64], "big"), int.from_bytes(page[68:72], "big")


def _expect_little_empty(path: Path, file: BinaryIO) -> None:
    """Raise for a file that is nearly all holes; the file stands at its beginning then.

    Its size says nothing of how much its pages can hold, which is what statements are measured by.
    """
    size = file.seek(0, os.SEEK_END)
    data_size = size
    if sys.platform != "win32" and size > _LARGE:
        data_size = place = 0
        while place < size and data_size * _MOST_HOLES < size:
            try:
                begin = os.lseek(file.fileno(), place, os.SEEK_DATA)
                place = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            except OSError:  # nothing but holes from here
                break
            data_size += place - begin
    file.seek(0)
    if data_size * _MOST_HOLES < size:
        raise altered(path, LibraryError("it is nearly empty for its size"))


def altered(path: object, reason: LibraryError) -> LibraryDamagedError:
    """What a reader is told of a file that localrag has not written like this."""
    return LibraryDamagedError(
        "{path} is not as localrag creates it: {reason}.",
        hint="This library came from elsewhere or was altered. Ask for an export of it "
        "(`localrag export`) and bring that in with `localrag import`.",
        path=path,
        reason=reason,
    )


def damaged_rows(reason: object) -> LibraryDamagedError:
    """What a reader is told of a row that cannot have been stored."""
    return LibraryDamagedError(
        "The library's catalogue contains values that localrag cannot have stored: {reason}.",
        hint="Run `localrag check` to see what is damaged and how to repair it.",
        reason=reason,
    )
