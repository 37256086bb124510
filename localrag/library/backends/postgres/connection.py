"""One connection to PostgreSQL that understands what the catalogue says to SQLite."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localrag.egress.databases import Database
from localrag.library.backends.postgres.dialect import tables, translated, value
from localrag.library.backends.postgres.policies import MEMBER, SERVER
from localrag.library.catalogue.base import Result, Row, quoted
from localrag.library.catalogue.guarded import damaged_rows
from localrag.library.catalogue.migrations import MIGRATIONS

if TYPE_CHECKING:
    import psycopg

    from localrag.library.catalogue.reads import Snapshot

_AT_ONCE = 2000
"""Rows that travel together where there are many."""

_MOST_IDLE = 16
_IDLE_SECONDS = 30.0
"""How many connections a process keeps that nobody uses, and for how long."""


class PostgresConnection:
    """Statements about one library, within the transaction that its catalogue has begun."""

    def __init__(self, inner: psycopg.Connection[Row], place: Database) -> None:
        self.inner = inner
        self.place = place
        """The library that it was used for last."""
        self.server = _server_of(place)
        self.since = 0.0
        """Since when it waits for its next use."""
        self.counted: tuple[object, Any] | None = None
        self.began: Any = None
        """What the last statement said with which its transaction began."""
        self.is_member = False
        """Whether it is a user's transaction."""
        self.state: Snapshot | None = None
        """What the transaction reads, and has read of the settings, where it only reads."""

    @contextmanager
    def of_everybody(self) -> Iterator[None]:
        """The statements in the block are about what anybody asked; not the words of it."""
        if not self.is_member:
            yield
            return
        self.inner.execute(f"SET LOCAL ROLE {SERVER}")
        yield  # where it raises, the transaction ends
        self.inner.execute(f"SET LOCAL ROLE {MEMBER}")

    def execute(self, sql: str, parameters: Any = (), /) -> Result:
        """Run one statement."""
        cursor = self.inner.cursor(binary=True)
        return cursor.execute(translated(sql), [*map(value, parameters)])

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object:
        """Run it for each row of values, without waiting for one before the next."""
        rows = [[*map(value, row)] for row in parameters]
        with self.inner.cursor() as cursor:
            if rows:
                cursor.executemany(translated(sql), rows)
        return None

    def rows(
        self,
        sql: str,
        *values: object,
        kinds: tuple[type, ...],
        ordered: bool = True,  # noqa: ARG002 - its own keys see to that
        many: bool = False,
    ) -> Iterator[Row]:
        """The rows of a query, each value of the type that was stored there."""
        for row in self._streamed(sql, values) if many else self.execute(sql, values):
            yield self.of_kinds(row, kinds)

    @staticmethod
    def of_kinds(row: Row, kinds: tuple[type, ...]) -> Row:
        """The row, with a number that is kept as text, as a setting is, as one."""
        if tuple(map(type, row)) == kinds:
            return row
        try:
            return tuple(
                kind(cell) if type(cell) is str else _expected(cell, kind)
                for cell, kind in zip(row, kinds, strict=True)
            )
        except ValueError:
            raise damaged_rows(" ".join(type(cell).__name__ for cell in row)) from None

    def _streamed(self, sql: str, values: Iterable[object] = ()) -> Iterator[Row]:
        with self.inner.cursor("many", binary=True) as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(translated(sql), [*map(value, values)])
            yield from cursor

    def table(self, name: str, columns: Sequence[str], where: str = "") -> Iterable[Row]:
        """All rows of a table, or those that a WHERE of our own leaves."""
        return self._streamed(f"SELECT {quoted(columns)} FROM {name} {where}")  # noqa: S608 - our own names

    def columns(self, table: str) -> Sequence[str]:
        """The columns of a table, without the library that all its rows belong to."""
        return list(tables()[table].columns)

    def version(self) -> int:
        """The number of the newest migration; a catalogue that is older was brought up to it."""
        return len(MIGRATIONS)


class IdleConnections:
    """Connections that wait for whoever needs one next, of all libraries of this process.

    A transaction leaves nothing on a connection, so that those of an account serve every library of
    a database: who asks many libraries in turn takes no more of them than at once.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: list[PostgresConnection] = []

    def take(self, place: Database) -> PostgresConnection | None:
        """One to that database, the last that was used for that library if there is any."""
        with self._guard:
            waiting = self._to(_server_of(place))
            if not waiting:
                return None
            connection = max(waiting, key=lambda known: (known.place == place, known.since))
            self._waiting.remove(connection)
        if connection.place != place:  # a copy of a library counts its states alike
            connection.place, connection.counted = place, None
        return connection

    def keep(self, connection: PostgresConnection) -> None:
        """Have it wait; those that have waited long are closed, and the oldest of too many."""
        connection.since = time.monotonic()
        with self._guard:
            self._waiting.append(connection)
            oldest = connection.since - _IDLE_SECONDS
            old = sum(waiting.since < oldest for waiting in self._waiting)
            count = max(old, len(self._waiting) - _MOST_IDLE)
            due, self._waiting = self._waiting[:count], self._waiting[count:]
        for connection in due:
            connection.inner.close()

    def close(self, place: Database) -> None:
        """Close those to that database, also of its other libraries."""
        with self._guard:
            due = self._to(_server_of(place))
            self._waiting = [waiting for waiting in self._waiting if waiting not in due]
        for connection in due:
            connection.inner.close()

    def forget(self) -> None:
        """Leave all to the process that opened them, whose copy this is; psycopg closes none."""
        self._guard, self._waiting = threading.Lock(), []

    def of(self, place: Database) -> list[PostgresConnection]:
        """Those that wait and were used last for that library."""
        with self._guard:
            return [waiting for waiting in self._waiting if waiting.place == place]

    def _to(self, server: Database) -> list[PostgresConnection]:
        return [waiting for waiting in self._waiting if waiting.server == server]


idle = IdleConnections()
if sys.platform != "win32":  # two processes on one connection would read each other's replies
    os.register_at_fork(after_in_child=idle.forget)


def _server_of(place: Database) -> Database:
    """What the connections of libraries have in common that may serve each other."""
    return replace(place, library="", audit=None)


def said(cursor: psycopg.Cursor[Row]) -> list[Row]:
    """The rows of the last statement that has any, of several that were sent in one go."""
    rows: list[Row] = []
    while True:
        if cursor.description is not None:
            rows = cursor.fetchall()
        if not cursor.nextset():
            return rows


def _expected(value: object, kind: type) -> object:
    if type(value) is not kind:
        raise ValueError(value)
    return value
