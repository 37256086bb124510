"""The catalogue of a library in PostgreSQL: one schema for many libraries, which share nothing.

Stock PostgreSQL 15 and newer; no extension is needed. Every transaction names its library by the
schema in which that library's partitions lie, and nothing else is in its search path but what
PostgreSQL brings; so it holds behind a pooler too, which hands each transaction another connection.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from localrag.egress.databases import Database, door
from localrag.errors import (
    ForbiddenError,
    LibraryDamagedError,
    LibraryError,
    LibraryNotFoundError,
    LibraryUnreachableError,
)
from localrag.library.acting import SERVER, Role, acting, covers, users_began
from localrag.library.backends.postgres import dialect, policies
from localrag.library.backends.postgres.connection import PostgresConnection, idle, said
from localrag.library.backends.postgres.dialect import SCHEMA
from localrag.library.catalogue.base import Row
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.catalogue.migrations import expect_no_newer
from localrag.library.catalogue.reads import Snapshot
from localrag.library.catalogue.store import CatalogueStore
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
CREATING: Turn = 0x4C54

_OLDEST_CLIENT = 160000
"""libpq 16, the first that can be told how not to log in."""
_HERE = "scram-sha-256"
"""How a server on this machine may ask who is there, which shows no certificate.

Whoever has its port while it is down would be told a password in clear, or what MD5 makes of it.
And it would take what is added: a server has to prove that it knows the password, if there is one.
"""
_OTHERWISE = "scram-sha-256,none"
"""Where there is none, too: of a server that knows the account otherwise (peer, trust)."""
_NEVER = {"!gss": 160000, "!sspi": 160000, "!oauth": 180000}
"""Ways to log in by which libpq would ask further servers, and since when it knows them."""

_DROP_PATIENCE = "5s"
"""How long a drop waits for writers: those of a connection that was just closed are soon gone."""

_LOCKS = "max_locks_per_transaction"
"""A setting of the server, which its hint names where all locks are taken."""

_NAMED = 12
"""Libraries that are named where another was meant."""

SAFE = "SET LOCAL search_path TO pg_catalog, pg_temp"
"""How every transaction begins: what others have made in `public`, or in a schema of this account's
name, is no operator or function of ours, however well it fits. A connection that a pooler hands on
keeps no setting, so it is said each time."""

HEARD = (
    f"{SAFE}; SET LOCAL tcp_keepalives_idle = 10; SET LOCAL tcp_keepalives_interval = 5; "
    "SET LOCAL tcp_keepalives_count = 3; SET LOCAL tcp_user_timeout = 25000"
)
"""Within half a minute the server ends a transaction whose node it hears no more, as when that has
lost its power; else what it holds back from others would stay held for hours."""

_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SAFE}"
_QUESTION = f"BEGIN READ ONLY; {SAFE}"
_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED; {HEARD}"

_FOREIGN = (
    "SELECT n.nspname::text, n.nspowner::regrole::text FROM pg_namespace n, pg_roles me, "
    "pg_database d WHERE n.nspname = '" + SCHEMA + "' AND me.rolname = current_user "
    "AND d.datname = current_database() AND NOT pg_has_role(n.nspowner, d.datdba, 'USAGE') "
    "AND NOT CASE WHEN me.rolsuper THEN n.nspowner = me.oid "
    "ELSE pg_has_role(me.oid, n.nspowner, 'USAGE') END"
)
"""The schema with its owner, where that is neither this account, nor a role that it has, nor the
owner of the database: who makes it in advance owns it. A superuser has every role."""
_FOREIGN_TO_OWNER = f"{_FOREIGN} AND (me.rolsuper OR pg_has_role(me.oid, d.datdba, 'USAGE'))"
"""The same for who owns the database, or a superuser: others use what a keeper of theirs has made,
whom they cannot tell from a stranger."""

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.version(number integer NOT NULL)",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.libraries("
    "number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    'name text COLLATE "C" NOT NULL UNIQUE, '
    "identity uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE)",
)


class PostgresCatalogue(CatalogueStore):
    """Connections to the database of a library, each for one reader or writer at a time.

    The server sees to its own files. What was removed is beyond every statement at once; when its
    bytes go from tables, logs and backups is the server's affair.
    """

    follow = FOLLOWED

    def __init__(self, database: Database) -> None:
        self.database = database
        self._number: int | None = None
        self._serving = self._knew = self._has_users = self._owns = False
        self._identity: str | None = None
        """What `identity` was at first."""
        self._used = threading.local()
        self._forgotten = 0

    def serve(self) -> None:
        """From now on, where the database has users, every statement about rows is for somebody."""
        self._serving, self._knew = True, self._has_users

    @property
    def tells_apart(self) -> bool:
        """Whether that is so by now, as far as the last transaction knew."""
        return self._serving and self._has_users

    # What there is

    def needs_migration(self) -> bool:
        """Whether the tables are missing or older than this program, or the library is not there.

        Raises LibraryMismatchError where they are newer.
        """
        if (row := self._row(_FOREIGN_TO_OWNER)) is not None:  # its triggers would run as we do
            raise foreign_schema(str(self.database), *map(str, row))
        version = self._version()
        expect_no_newer(version, dialect.version(), str(self.database))
        if version == dialect.version():
            self._expect_references()
        is_there = self.identity() is not None
        self._expect_own_schemas()
        return version < dialect.version() or not is_there

    def _expect_references(self) -> None:
        """Raise LibraryDamagedError where a table has lost what makes rows go with their document.

        As it does in every library, where somebody drops one with CASCADE.
        """
        row = self._row(
            "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 "
            "AND connamespace = CAST(? AS regnamespace) "
            "AND conrelid IN (SELECT oid FROM pg_class WHERE relkind = 'p')",
            SCHEMA,
        )
        wanted = sum(len(table.references) for table in dialect.tables().values())
        if row is None or row[0] < wanted:
            raise altered_tables(str(self.database), LibraryError("foreign keys are missing"))

    def _expect_own_schemas(self) -> None:
        """Raise LibraryError where the library's schema is somebody's who may not act for all.

        Its owner could drop the tables in it, and with them what keeps all libraries true.
        """
        if self._number is not None:
            query = (
                "SELECT n.nspname::text, n.nspowner::regrole::text FROM pg_namespace n, "
                "pg_namespace ours WHERE n.nspname = ? AND ours.nspname = ? "
                "AND NOT pg_has_role(n.nspowner, ours.nspowner, 'USAGE')"
            )
            if (row := self._row(query, dialect.home(self._number), SCHEMA)) is not None:
                raise foreign_schema(str(self.database), *map(str, row))

    def _version(self) -> int:
        row = self._row(f"SELECT max(number) FROM {SCHEMA}.version")
        return int(row[0] or 0) if row else 0

    def identity(self) -> str | None:
        """What tells this library from any other, also from one of its name made later."""
        row = self._row(
            f"SELECT number, identity::text FROM {SCHEMA}.libraries WHERE name = ?",
            self.database.library,
        )
        self._number = int(row[0]) if row else None
        self._identity = self._identity or (str(row[1]) if row else None)
        return str(row[1]) if row else None

    def _row(self, query: str, *values: object) -> Row | None:
        """The first row; None where there is none, and before the first library."""
        with self.translated(), self._pooled_connection(_QUESTION) as connection:
            from psycopg.errors import UndefinedTable

            try:
                row: Row | None = connection.execute(query, values).fetchone()
            except UndefinedTable:
                row = None
            connection.inner.execute("COMMIT")
            return row

    def expect(self) -> str:
        """The same. Raises LibraryNotFoundError where there is no such library."""
        identity = self.identity()
        if identity is None:
            raise no_library(self.database.library, self.database, self.names())
        return identity

    def names(self) -> list[str]:
        """The first libraries by name, as far as whoever asks may know of them.

        That is the account that owns the tables, or any where nobody is told apart; no user, and
        no server that has some.
        """
        if acting.get() is not None:
            return []
        row = self._row(
            f"SELECT array_agg(name ORDER BY name) FROM (SELECT name FROM {SCHEMA}.libraries "
            f"WHERE NOT ({policies.USED}) OR {policies.OWNER} ORDER BY name LIMIT {_NAMED}) AS few"
        )
        return list(row[0] or ()) if row else []

    def has_libraries(self) -> bool:
        """Whether there is any in the database."""
        row = self._row(f"SELECT EXISTS (SELECT 1 FROM {SCHEMA}.libraries)")
        return row is not None and bool(row[0])

    @property
    def number(self) -> int:
        """The number of the library. Raises LibraryNotFoundError."""
        if self._number is None:
            self.expect()
        assert self._number is not None  # noqa: S101 - it was just found
        return self._number

    def migrate(self) -> None:
        """Create or update the tables, and the partitions of this library."""
        with self.translated(), self.session() as inner, heard(inner):
            self.create_alone(inner)
            inner.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            if (row := inner.execute(_FOREIGN).fetchone()) is not None:
                raise foreign_schema(str(self.database), *map(str, row))
            for statement in _CREATE:
                inner.execute(statement)
            (version,) = inner.execute(
                f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.version"
            ).fetchone() or (0,)
            if version < dialect.version():
                for statement in (*dialect.definitions(), *dialect.jobs()):
                    inner.execute(statement)
                inner.execute(f"DELETE FROM {SCHEMA}.version")
                inner.execute(f"INSERT INTO {SCHEMA}.version VALUES (%s)", [dialect.version()])
            known = inner.execute(f"SELECT number FROM {SCHEMA}.libraries").fetchall()
            added = self._add(inner)
            secured = inner.execute(policies.USED).fetchone() == (True,)
            if secured and version < dialect.version():
                for statement in policies.functions():
                    inner.execute(statement)
                policies.protect(inner)
            for (number,) in [*known, *([(added,)] if added else [])]:
                if version < dialect.version() or number == added:
                    for statement in dialect.partitions(number):
                        inner.execute(statement)
                    if secured:
                        policies.protect(inner, number)
            if added:
                inner.cursor().executemany(
                    f"INSERT INTO {dialect.home(added)}.meta(key, value) VALUES (%s, %s)",
                    dialect.first_settings(),
                )

    def _add(self, inner: psycopg.Connection[Row]) -> int | None:
        """The number of the library, now with a schema; None where it is there already.

        A schema that is there is somebody else's, who could drop what lies in it: the next number.
        """
        from psycopg.errors import DuplicateSchema, UniqueViolation

        while True:
            with suppress(DuplicateSchema, UniqueViolation), inner.transaction():
                row = inner.execute(
                    f"INSERT INTO {SCHEMA}.libraries(name) VALUES (%s) ON CONFLICT DO NOTHING "
                    "RETURNING number",
                    [self.database.library],
                ).fetchone()
                if row is not None:
                    inner.execute(f"CREATE SCHEMA {dialect.home(row[0])}")
                return int(row[0]) if row else None

    def create_alone(self, inner: psycopg.Connection[Row]) -> None:
        """Wait until nobody else makes or drops tables, until the end of the transaction."""
        inner.execute("SELECT pg_advisory_xact_lock(%s, 0)", [CREATING])

    def drop(self) -> None:
        """Take the library away, unless somebody uses it or has put something into it by now."""
        from psycopg.errors import LockNotAvailable

        with self.translated(), self.session() as inner, suppress(LockNotAvailable):
            with heard(inner):
                self._wait_for(inner, WRITING, CHANGING)
                home = dialect.home(self.number)
                rows = f"SELECT 1 FROM {home}.documents UNION ALL SELECT 1 FROM {home}.unread"
                if inner.execute(f"{rows} LIMIT 1").fetchone():
                    return
                self._take_away(inner)
            self._number = None

    def delete(self) -> None:
        """Take the library away with all that it holds; the caller holds the right to write.

        Raises LibraryError where its tables stay in use, and takes nothing away then.
        """
        from psycopg.errors import LockNotAvailable

        with self.translated(), self.session() as inner:
            try:
                with heard(inner):
                    self._wait_for(inner, CHANGING)
                    self._take_away(inner)
                    self._expect_right()
            except LockNotAvailable as error:
                raise LibraryError(
                    "The library {library} is in use and was not deleted.",
                    hint="Try again once searches, copies and backups of it have ended.",
                    library=str(self.database),
                ) from error
        self._number = None

    def _wait_for(self, inner: psycopg.Connection[Row], *turns: Turn) -> None:
        inner.execute(f"SET LOCAL lock_timeout = '{_DROP_PATIENCE}'")
        for turn in turns:
            inner.execute("SELECT pg_advisory_xact_lock(%s, %s)", [turn, self.number])

    def _take_away(self, inner: psycopg.Connection[Row]) -> None:
        self.create_alone(inner)
        for statement in dialect.without(self.number):
            inner.execute(statement)
        if inner.execute(policies.USED).fetchone() == (True,):
            # That somebody asked stays known, what they asked does not.
            clear = f"UPDATE {SCHEMA}.audit SET words = NULL WHERE library = %s"
            inner.execute(clear, [self.number])
        inner.execute(f"DELETE FROM {SCHEMA}.libraries WHERE number = %s", [self.number])

    def size(self) -> int:
        """Bytes of its partitions, with their indexes."""
        row = self._row(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relkind = 'r'",
            dialect.home(self.number),
        )
        return int(row[0]) if row else 0

    # Transactions

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """One consistent state of the library, untouched by a writer who is busy meanwhile."""
        with self.translated(), self._transaction("reader", _READ) as connection:
            connection.state = connection.state or Snapshot(connection)
            yield connection.state

    @contextmanager
    def write(self, *, own: bool = False) -> Iterator[Transaction]:
        """One change, visible whole when the block ends and not at all if it raises.

        One at a time in each library: the statements see what the one before has committed.
        """
        wanted: Role = "reader" if own else "editor"
        with self.translated(), self._transaction("writer", _WRITE, wanted) as connection:
            # What is only to be done is sent on without waiting for each answer.
            with connection.inner.pipeline():
                yield Transaction(connection)
            self._expect_right()

    @contextmanager
    def chore(self) -> Iterator[psycopg.Connection[Row]]:
        """A transaction of whoever acts that changes nothing of the library, and waits for nobody.

        Raises as `read`.
        """
        with self.translated(), self._transaction("chore", _WRITE) as connection:
            yield connection.inner

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

    def copy_to(self, path: Path) -> None:
        """Write one committed state to a new catalogue in the file `path`."""
        with closing(SqliteCatalogue(path)) as copy:
            copy.migrate()
            with self.read() as snapshot, copy.write() as transaction:
                transaction.copy_from(snapshot)

    @contextmanager
    def _transaction(
        self, use: Literal["reader", "writer", "chore"], begin: str, wanted: Role = "reader"
    ) -> Iterator[PostgresConnection]:
        """A connection of this thread in a transaction of whoever acts; within it, the same one.

        Raises LibraryNotFoundError for a user without a role in this library, LibraryError for one
        with less than `wanted`, or where nobody acts and somebody must. For who has only read it
        does so at its end, too: a right that was taken away meanwhile is none to what was read.
        """
        connections: dict[object, PostgresConnection] = self._used.__dict__.setdefault("held", {})
        mine = use, acting.get()
        if mine in connections:
            yield connections[mine]
            return
        steps = [f"SET LOCAL search_path TO pg_catalog, {dialect.home(self.number)}, pg_temp"]
        if use == "writer":
            steps.append(f"SELECT pg_advisory_xact_lock({CHANGING}, {self.number})")
        while True:
            role = self._role()
            enter, ask = [*self._enter(role)], self._ask(role)
            with self._pooled_connection("; ".join((begin, *enter, *steps, ask))) as connection:
                if not self._is_admitted(connection, role, wanted):
                    continue
                connection.is_member = role == policies.MEMBER
                connections[mine] = connection
                try:
                    yield connection
                    if use == "reader" and role == policies.MEMBER:
                        again = "; ".join(("COMMIT", "BEGIN", SAFE, *enter, ask, "COMMIT"))
                        (connection.began,) = said(connection.inner.execute(again))
                        self._is_admitted(connection, role, wanted)
                    else:
                        connection.inner.execute("COMMIT")
                finally:
                    del connections[mine]
                    connection.state = None
            return

    def _role(self) -> str | None:
        """Which role of the database whoever acts is to take; None for none."""
        who = acting.get()
        if not self._has_users:
            return None
        if isinstance(who, str):
            return policies.MEMBER
        if who is SERVER and (self._serving or not self._owns):
            return policies.SERVER
        if who is None and self._serving:
            if self._knew:
                raise RuntimeError("a server asks a library for nobody")
            raise users_began()
        if not self._owns:
            raise LibraryError(
                "The database {database} has users, and this account does not own its tables.",
                hint="Ask a server that serves the library, or name the owner in the URL: "
                "postgresql://OWNER@HOST/DATABASE#NAME.",
                database=str(self.database),
            )
        return None

    def _enter(self, role: str | None) -> Iterator[str]:
        """What makes a transaction one of that role: until its end, so a pooler keeps nothing."""
        if role is not None:
            yield f"SET LOCAL ROLE {role}"
        if role == policies.MEMBER:
            from psycopg.sql import Literal as Text

            yield f"SELECT set_config('{policies.USER}', {Text(acting.get()).as_string()}, true)"

    def _ask(self, role: str | None) -> str:
        """What tells whether to go on, in the same round trip."""
        if role == policies.MEMBER:
            return f"SELECT {SCHEMA}.role({self.number})"
        return "SELECT" if role else policies.STATE

    def _is_admitted(self, connection: PostgresConnection, role: str | None, wanted: Role) -> bool:
        """Whether the transaction may go on; False where another role is to be taken."""
        if role is None:
            self._has_users, self._owns = connection.began
            return self._role() is None
        if role == policies.MEMBER:
            (library_role,) = connection.began
            if not covers(library_role, wanted):
                connection.inner.execute("ROLLBACK")  # it is kept: a refusal costs no connection
            if library_role is None:
                raise no_library(self.database.library, self.database)
            if not covers(library_role, wanted):
                raise ForbiddenError(
                    "{user} may read the library {library}, but not change it.",
                    hint="Its owner can let you: localrag grant USER editor.",
                    user=str(acting.get()),
                    library=self.database.library,
                )
        return True

    @contextmanager
    def session(self, *begin: str) -> Iterator[psycopg.Connection[Row]]:
        """A connection for other things than the rows of the library.

        Each statement counts at once, unless those of `begin` begin a transaction. One that names
        a function or an operator belongs into a transaction that begins as `SAFE` says.
        """
        with self._pooled_connection("; ".join(begin) or "SELECT") as connection:
            yield connection.inner

    @contextmanager
    def _pooled_connection(self, begin: str = "SELECT") -> Iterator[PostgresConnection]:
        """One that waits, or a new one, after `begin`; what is not committed then is not done."""
        age = self._forgotten
        connection = self._begin(begin)
        try:
            yield connection
        finally:
            if age == self._forgotten and _is_idle(connection.inner):
                idle.keep(connection)
            else:
                connection.inner.close()

    def _begin(self, begin: str) -> PostgresConnection:
        import psycopg
        from psycopg import errors

        while True:
            waiting = idle.take(self.database)
            connection = waiting or PostgresConnection(self.connect(), self.database)
            try:
                connection.began = next(iter(said(connection.inner.execute(begin))), None)
            except psycopg.Error as error:
                account = connection.inner.info.user if not connection.inner.closed else ""
                connection.inner.close()
                if waiting is not None and isinstance(error, psycopg.OperationalError):
                    continue  # the server has closed it meanwhile
                refused = errors.InsufficientPrivilege, errors.InvalidParameterValue
                if "SET LOCAL ROLE" in begin and isinstance(error, refused):
                    raise policies.no_roles(self.database, account) from error
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
                hint="Install it: pip install 'psycopg[binary]'",
                version=client // 10000,
            )
        with door(self.database) as options:
            never = ",".join(name for name, since in _NEVER.items() if client >= since)
            options["require_auth"] = never
            if self.database.is_local:
                options["require_auth"] = _HERE if _has_password(options) else _OTHERWISE
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
        self._forgotten += 1
        idle.close(self.database)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what the client says into errors that a person understands."""
        import_client()
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self._error_of(error) from error

    def _error_of(self, error: psycopg.Error) -> LibraryError:
        from psycopg import InterfaceError, OperationalError, errors

        # libpq says the same for each address and way of connecting, each on lines of its own.
        first = (error.diag.message_primary or str(error)).strip().partition("\n")[0]
        reason = " ".join(first.split()).rstrip(".:") or type(error).__name__
        values = {"database": str(self.database), "reason": reason}
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return ForbiddenError(
                "The database {database} does not allow this: {reason}.",
                hint="Ask its administrator for the right, or use another account.",
                **values,
            )
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
            if self._identity != self.identity():  # deleted meanwhile, and perhaps made anew
                return no_library(self.database.library, self.database)
            return altered_tables(**values)
        if _LOCKS in (error.diag.message_hint or ""):
            return LibraryError(
                "The database {database} holds more libraries than it has locks for: {reason}.",
                hint="Its administrator can raise max_locks_per_transaction and start it again: "
                "one for every 8 libraries. Nothing was changed.",
                **values,
            )
        if isinstance(error, errors.DiskFull | errors.OutOfMemory):
            return LibraryError(
                "The database {database} has no room left: {reason}.",
                hint="Its administrator can make room; what was committed before is kept.",
                **values,
            )
        if isinstance(error, OperationalError) and f'"{_HERE}" failed' in str(error):
            return LibraryUnreachableError(
                "The database {database} cannot be reached: {reason}.",
                hint="The server did not ask with scram-sha-256 for the password that is in "
                "PGPASSWORD or ~/.pgpass: another program may be in its place. If it knows the "
                "account otherwise (peer, trust), take the password away.",
                **values,
            )
        if isinstance(error, OperationalError) and "CONNECT" in str(error):
            return LibraryUnreachableError(
                "The database {database} cannot be reached: {reason}.",
                hint="Where a database has users, each account that a server uses is named to it. "
                'Its owner runs: GRANT CONNECT ON DATABASE "{name}" TO "{account}"',
                name=self.database.name,
                account=self.database.user or "ACCOUNT",
                **values,
            )
        if isinstance(error, OperationalError | InterfaceError):
            return LibraryUnreachableError(
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


@contextmanager
def heard(inner: psycopg.Connection[Row]) -> Iterator[None]:
    """A transaction of the tables' owner, which ends with its node as those of libraries do."""
    with inner.transaction():
        inner.execute(HEARD)
        yield


def foreign_schema(database: str, schema: str, owner: str) -> LibraryError:
    """What is said where tables would lie in a schema of somebody else's."""
    return LibraryError(
        "The schema {schema} of the database {database} belongs to the account {account}, which "
        "could drop the tables of the libraries.",
        hint="If it was not meant to be there, an administrator of the database drops it: "
        "DROP SCHEMA {schema}. Else: ALTER SCHEMA {schema} OWNER TO the owner of the tables.",
        schema=schema,
        database=database,
        account=owner,
    )


def altered_tables(database: str, reason: object) -> LibraryDamagedError:
    """What is said where the tables are not those of a library."""
    return LibraryDamagedError(
        "The tables of the library {database} are not as localrag makes them: {reason}.",
        hint="Restore the database from a backup.",
        database=database,
        reason=reason,
    )


def no_library(name: str, database: Database, others: Sequence[str] = ()) -> LibraryNotFoundError:
    """What is said of a library that is not there, or of which somebody is not to know.

    `others` are those there, for who may know them.
    """
    return LibraryNotFoundError(
        "There is no library {name} in the database {database}.",
        hint="There are: {names}. Name one of them after # in the URL, or add documents first: "
        "localrag add PATH."
        if others
        else "Add documents first: localrag add PATH. Or name another after # in the URL.",
        name=name,
        database=str(database),
        names=", ".join(others),
    )


def import_client() -> None:
    """Raise LibraryError where PostgreSQL's client is not installed."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise LibraryError(
            "Libraries in PostgreSQL need its client, which is not installed.",
            hint="Install it: pip install 'psycopg[binary]'; without a network, from a "
            "bundle that was created with --extra postgres.",
        ) from error
    # What it ignores while a connection ends is warned of on stderr; our own error says why.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def _has_password(options: Mapping[str, str]) -> bool:
    """Whether libpq has one for this server: PGPASSWORD, or a line of the password file.

    It looks for it before it reads how to connect; as that is nonsense, it goes nowhere.
    """
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import PGconn

    unused = PGconn.connect_start(make_conninfo(**{**options, "require_auth": "?"}).encode())
    try:
        return bool(unused.password)
    finally:
        unused.finish()


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
