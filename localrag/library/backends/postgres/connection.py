"""One connection to PostgreSQL that understands what the catalogue says to SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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


class PostgresConnection:
    """Statements about one library, within the transaction that its catalogue has begun."""

    def __init__(self, inner: psycopg.Connection[Row]) -> None:
        self.inner = inner
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
