"""The catalogue of a library in PostgreSQL: one schema for many libraries, which share nothing.

Stock PostgreSQL 15 and newer; no extension is needed. Every transaction names its library by the
schema in which that library's partitions lie, and nothing else is in its search path; so it holds
behind a pooler too, which hands each transaction another connection.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from localrag.egress.databases import Database, door
from localrag.errors import (
    LibraryDamagedError,
    LibraryError,
    LibraryMismatchError,
    LibraryNotFoundError,
)
from localrag.library.catalogue.base import Row
from localrag.library.catalogue.catalogue import Catalogue
from localrag.library.catalogue.migrations import MIGRATIONS
from localrag.library.catalogue.postgres import dialect
from localrag.library.catalogue.postgres.connection import PostgresConnection
from localrag.library.catalogue.postgres.dialect import SCHEMA
from localrag.library.catalogue.reads import Snapshot
from localrag.library.catalogue.writes import Transaction

if TYPE_CHECKING:
    import psycopg

OLDEST = 150000
"""PostgreSQL 15, as it numbers itself."""

FOLLOWED = 1000
"""Generations of which other nodes can still learn what was removed."""

Turn = Literal[0x4C52, 0x4C53, 0x4C54]
"""First half of the number of an advisory lock, so that nobody else's is meant."""
WRITING: Turn = 0x4C52
CHANGING: Turn = 0x4C53
_CREATING: Turn = 0x4C54

_OLDEST_CLIENT = 160000
"""libpq 16, the first that can be told how not to log in."""
_NEVER = {"!gss": 160000, "!sspi": 160000, "!oauth": 180000}
"""Ways to log in by which libpq would ask further servers, and since when it knows them."""

_DROP_PATIENCE = "5s"
"""How long a drop waits for writers: those of a connection that was just closed are soon gone."""

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"

_CREATE = (
    f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.version(number integer NOT NULL)",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.libraries("
    "number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    'name text COLLATE "C" NOT NULL UNIQUE, '
    "identity uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE)",
)


class PostgresCatalogue:
    """Connections to the database of a library, each for one reader or writer at a time."""

    follow = FOLLOWED
    has_log = False
    swept = True

    def __init__(self, database: Database) -> None:
        self.database = database
        self._number: int | None = None
        self._used = threading.local()
        self._idle: list[PostgresConnection] = []
        self._forgotten = 0
        self._guard = threading.Lock()

    # What there is

    def needs_migration(self) -> bool:
        """Whether the tables are missing or older than this program, or the library is not there.

        Raises LibraryMismatchError where they are newer.
        """
        version = self._version()
        if version > len(MIGRATIONS):
            raise LibraryMismatchError(
                "{path} has schema version {found}, but this version of localrag supports "
                "versions up to {known}.",
                hint="Update localrag, or use the version that wrote the library.",
                path=str(self.database),
                found=version,
                known=len(MIGRATIONS),
            )
        if version == len(MIGRATIONS):
            self._expect_references()
        return version < len(MIGRATIONS) or self.identity() is None

    def _expect_references(self) -> None:
        """Raise LibraryDamagedError where a table has lost what makes rows go with their document.

        As it does in every library, where somebody drops one with CASCADE.
        """
        with self.translated(), self.session() as inner:
            row = inner.execute(
                "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 "
                "AND connamespace = %s::regnamespace",
                [SCHEMA],
            ).fetchone()
        wanted = sum(len(table.references) for table in dialect.tables().values())
        if row is None or row[0] < wanted:
            raise LibraryDamagedError(
                "The tables of the library {database} are not as localrag makes them: {reason}.",
                hint="Restore the database from a backup.",
                database=str(self.database),
                reason=LibraryError("foreign keys are missing"),
            )

    def _version(self) -> int:
        with self.translated(), self.session() as inner:
            if inner.execute(f"SELECT to_regclass('{SCHEMA}.version')").fetchone() == (None,):
                return 0
            row = inner.execute(f"SELECT max(number) FROM {SCHEMA}.version").fetchone()
        return int(row[0] or 0) if row else 0

    def identity(self) -> str | None:
        """What tells this library from any other, also from one of its name made later."""
        with self.translated(), self.session() as inner:
            if inner.execute(f"SELECT to_regclass('{SCHEMA}.libraries')").fetchone() == (None,):
                return None
            row = inner.execute(
                f"SELECT number, identity::text FROM {SCHEMA}.libraries WHERE name = %s",
                [self.database.library],
            ).fetchone()
        self._number = int(row[0]) if row else None
        return str(row[1]) if row else None

    def expect(self) -> str:
        """The same. Raises LibraryNotFoundError where there is no such library."""
        identity = self.identity()
        if identity is None:
            raise LibraryNotFoundError(
                "There is no library {name} in the database {database}.",
                hint="Add documents first: localrag add PATH. Or name another after # in the URL.",
                name=self.database.library,
                database=str(self.database),
            )
        return identity

    @property
    def number(self) -> int:
        """The number of the library. Raises LibraryNotFoundError."""
        if self._number is None:
            self.expect()
        assert self._number is not None  # noqa: S101 - it was just found
        return self._number

    def migrate(self) -> None:
        """Create or update the tables, and the partitions of this library."""
        with self.translated(), self.session() as inner, inner.transaction():
            inner.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_CREATING])
            for statement in _CREATE:
                inner.execute(statement)
            (version,) = inner.execute(
                f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.version"
            ).fetchone() or (0,)
            if version < len(MIGRATIONS):
                for statement in dialect.definitions():
                    inner.execute(statement)
                inner.execute(f"DELETE FROM {SCHEMA}.version")
                inner.execute(f"INSERT INTO {SCHEMA}.version VALUES (%s)", [len(MIGRATIONS)])
            known = inner.execute(f"SELECT number FROM {SCHEMA}.libraries").fetchall()
            added = inner.execute(
                f"INSERT INTO {SCHEMA}.libraries(name) VALUES (%s) ON CONFLICT DO NOTHING "
                "RETURNING number",
                [self.database.library],
            ).fetchone()
            for (number,) in [*known, *([added] if added else [])]:
                if version < len(MIGRATIONS) or (number,) == added:
                    for statement in dialect.partitions(number):
                        inner.execute(statement)
            if added:
                inner.cursor().executemany(
                    f"INSERT INTO {dialect.home(added[0])}.meta(key, value) VALUES (%s, %s)",
                    dialect.first_settings(),
                )

    def drop(self) -> None:
        """Take the library away, unless somebody writes to it or has by now."""
        number = self.number
        with self.translated(), self.session() as inner:
            from psycopg.errors import LockNotAvailable

            try:
                with inner.transaction():
                    self._drop(inner, number)
            except LockNotAvailable:
                return
        self._number = None

    def _drop(self, inner: psycopg.Connection[Row], number: int) -> None:
        inner.execute(f"SET LOCAL lock_timeout = '{_DROP_PATIENCE}'")
        for turn in (WRITING, CHANGING):
            inner.execute("SELECT pg_advisory_xact_lock(%s, %s)", [turn, number])
        inner.execute("SET LOCAL lock_timeout = 0")
        home = dialect.home(number)
        rows = f"SELECT 1 FROM {home}.documents UNION ALL SELECT 1 FROM {home}.unread LIMIT 1"
        if inner.execute(rows).fetchone():
            return
        inner.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_CREATING])
        for statement in dialect.without(number):
            inner.execute(statement)
        inner.execute(f"DELETE FROM {SCHEMA}.libraries WHERE number = %s", [number])

    def size(self) -> int:
        """Bytes of its partitions, with their indexes."""
        with self.translated(), self.session() as inner:
            row = inner.execute(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = %s AND c.relkind = 'r'",
                [dialect.home(self.number)],
            ).fetchone()
        return int(row[0]) if row else 0

    # Transactions

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """One consistent state of the library, untouched by a writer who is busy meanwhile."""
        with self.translated(), self._begun("reader", _READ) as connection:
            yield Snapshot(connection)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """One change, visible whole when the block ends and not at all if it raises.

        One at a time in each library: the statements see what the one before has committed.
        """
        with self.translated(), self._begun("writer", _WRITE) as connection:
            turn = [CHANGING, self.number]
            connection.inner.execute("SELECT pg_advisory_xact_lock(%s, %s)", turn)
            # What is only to be done is sent on without waiting for each answer.
            with connection.inner.pipeline():
                yield Transaction(connection)
            self._expect_right()

    @contextmanager
    def right(self, held_by: psycopg.Connection[Row]) -> Iterator[None]:
        """What this thread writes meanwhile counts only while that connection lives."""
        self._used.right = held_by
        try:
            yield
        finally:
            self._used.right = None

    def _expect_right(self) -> None:
        """Raise LibraryError where the server has given this thread's right to somebody else."""
        import psycopg

        held_by: psycopg.Connection[Row] | None = getattr(self._used, "right", None)
        if held_by is None:
            return
        try:
            held_by.execute("SELECT 1")
        except psycopg.Error as error:
            raise LibraryError(
                "The right to write to the library {library} was lost: its connection ended.",
                hint="Run the same command again; what was committed before is kept.",
                library=str(self.database),
            ) from error

    def begin(self) -> None:
        """Nothing: the server sees to its own files."""

    def settle(self) -> bool:
        """Nothing, likewise."""
        return True

    def purge(self) -> bool:
        """Nothing: what was removed is beyond every statement at once.

        When its bytes go from tables, logs and backups is the server's own affair.
        """
        return True

    def copy_to(self, path: Path) -> None:
        """Write one committed state to a new catalogue in the file `path`."""
        with closing(Catalogue(path)) as copy:
            copy.migrate()
            with self.read() as snapshot, copy.write() as transaction:
                transaction.copy_from(snapshot)

    @contextmanager
    def _begun(self, use: Literal["reader", "writer"], begin: str) -> Iterator[PostgresConnection]:
        """A connection of this thread in a transaction; within such a use, the same one."""
        mine: PostgresConnection | None = getattr(self._used, use, None)
        if mine is not None:
            yield mine
            return
        path = f"SET LOCAL search_path TO {dialect.home(self.number)}"
        with self._taken(f"{begin}; {path}") as connection:
            setattr(self._used, use, connection)
            try:
                yield connection
                connection.inner.execute("COMMIT")
            finally:
                setattr(self._used, use, None)

    @contextmanager
    def session(self, begin: str = "SELECT") -> Iterator[psycopg.Connection[Row]]:
        """A connection for other things than the rows of the library.

        Each statement counts at once, unless `begin` is one that begins a transaction.
        """
        with self._taken(begin) as connection:
            yield connection.inner

    @contextmanager
    def _taken(self, begin: str) -> Iterator[PostgresConnection]:
        """One that waits, or a new one, after `begin`; what is not committed then is not done."""
        age = self._forgotten
        connection = self._begin(begin)
        try:
            yield connection
        finally:
            with self._guard:
                keep = age == self._forgotten and _is_idle(connection.inner)
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.inner.close()

    def _begin(self, begin: str) -> PostgresConnection:
        import psycopg

        while True:
            with self._guard:
                waiting = self._idle.pop() if self._idle else None
            connection = waiting or PostgresConnection(self.connect())
            try:
                connection.inner.execute(begin)
            except psycopg.OperationalError:
                connection.inner.close()
                if waiting is None:  # else the server has closed it meanwhile
                    raise
            else:
                return connection

    def connect(self) -> psycopg.Connection[Row]:
        """A new connection. Raises LibraryError where there is none to be had."""
        import_client()
        import psycopg
        from psycopg.conninfo import make_conninfo

        client = psycopg.pq.version()
        if client < _OLDEST_CLIENT:
            raise LibraryError(
                "PostgreSQL's client libpq {version} is too old; localrag needs 16 or newer.",
                hint="Install it: pip install 'localrag-offline[postgres]'",
                version=client // 10000,
            )
        with door(self.database) as options:
            options["require_auth"] = ",".join(
                name for name, since in _NEVER.items() if client >= since
            )
            inner: psycopg.Connection[Row] = psycopg.connect(
                make_conninfo(**options),
                autocommit=True,
                application_name=_name(),
                # A pooler that hands out each transaction knows nothing of those before it.
                prepare_threshold=None,
            )
        version = inner.info.server_version
        encoding = inner.info.parameter_status("server_encoding")
        if version < OLDEST or encoding != "UTF8":
            inner.close()
            raise LibraryError(
                "The database {database} is PostgreSQL {version} in {encoding}; localrag needs "
                "PostgreSQL 15 or newer in UTF8.",
                hint="Create a database with `createdb --encoding UTF8` on a newer server.",
                database=str(self.database),
                version=version // 10000,
                encoding=encoding or "?",
            )
        return inner

    def close(self) -> None:
        """Close all connections; what is asked later opens new ones."""
        with self._guard:
            self._forgotten += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.inner.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what the client says into errors that a person understands."""
        import_client()
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self._spoken(error) from error

    def _spoken(self, error: psycopg.Error) -> LibraryError:
        from psycopg import InterfaceError, OperationalError, errors

        # libpq says the same for each address and way of connecting, each on lines of its own.
        first = (error.diag.message_primary or str(error)).strip().partition("\n")[0]
        reason = " ".join(first.split()).rstrip(".:") or type(error).__name__
        values = {"database": str(self.database), "reason": reason}
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return LibraryError(
                "The database {database} does not allow this: {reason}.",
                hint="Ask its administrator for the right, or use another account.",
                **values,
            )
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
            return LibraryDamagedError(
                "The tables of the library {database} are not as localrag makes them: {reason}.",
                hint="Restore the database from a backup.",
                **values,
            )
        if isinstance(error, errors.DiskFull | errors.OutOfMemory):
            return LibraryError(
                "The database {database} has no room left: {reason}.",
                hint="Its administrator can make room; what was committed before is kept.",
                **values,
            )
        if isinstance(error, OperationalError | InterfaceError):
            return LibraryError(
                "The database {database} cannot be reached: {reason}.",
                hint="Check the URL, the account, and whether the server is running. A password "
                "is taken from ~/.pgpass or PGPASSWORD.",
                **values,
            )
        return LibraryError(
            "The database {database} cannot do this: {reason}.",
            hint="See the log of the server.",
            **values,
        )


def import_client() -> None:
    """Raise LibraryError where PostgreSQL's client is not installed."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise LibraryError(
            "Libraries in PostgreSQL need its client, which is not installed.",
            hint="Install it: pip install 'localrag-offline[postgres]'",
        ) from error
    # What it ignores while a connection ends is warned of on stderr; our own error says why.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def _is_idle(inner: psycopg.Connection[Row]) -> bool:
    from psycopg.pq import TransactionStatus

    return not inner.closed and inner.info.transaction_status == TransactionStatus.IDLE


def _name() -> str:
    """How this process is called in the server's list of connections, for who waits for it."""
    program, command = [*map(str, sys.argv[:2]), "", ""][:2]
    path = Path(program)
    ours = "localrag" in (path.stem, path.parent.name) and re.fullmatch("[a-z][a-z-]*", command)
    # The arguments of other programs are none of the server's business.
    command = f"{path.name} {command}" if ours else path.name
    return f"{os.getpid()}|{socket.gethostname()[:24]}|{command[:24]}"
