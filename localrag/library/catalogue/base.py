"""What the statements of a catalogue are run on: a connection to SQLite or to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


class Result(Protocol):
    """The rows of a statement."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Statements(Protocol):
    """Statements with `?` for each value; text is ordered by code points, numbers have 64 bits."""

    def execute(self, sql: str, parameters: Any = (), /) -> Result:
        """Run one statement."""


class Connection(Statements, Protocol):
    """The same, with what reading and writing a catalogue needs."""

    counted: tuple[object, Any] | None
    """Which chunks there were, and in which state of the library."""

    def of_everybody(self) -> AbstractContextManager[None]:
        """The statements in the block may be about what other people asked, but for the words."""

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object:
        """Run it for each row of values."""

    def rows(
        self,
        sql: str,
        *values: object,
        kinds: tuple[type, ...],
        ordered: bool = True,
        many: bool = False,
    ) -> Iterator[Row]:
        """The rows of a query, each value of the type that was stored there.

        `many` are not held in memory together. Raises LibraryDamagedError for other values.
        """

    def of_kinds(self, row: Row, kinds: tuple[type, ...]) -> Row:
        """A row of which each value is of the type that was stored there.

        Raises LibraryDamagedError for others.
        """

    def columns(self, table: str) -> Sequence[str]:
        """The columns of a table, in the order in which a row is stored."""

    def table(self, name: str, columns: Sequence[str], where: str = "") -> Iterable[Row]:
        """All its rows, or those that `where`, a clause of our own, leaves; one after another."""

    def version(self) -> int:
        """The number of the newest migration."""


def quoted(names: Iterable[str]) -> str:
    """Names of our own schema for a statement."""
    return ", ".join(f'"{name}"' for name in names)


def delete_rows(sql: Statements, table: str, column: str, value: str | None) -> bool:
    """Drop the rows of a table with this value, or all for None; whether there were any."""
    only, values = ("1 = 1", ()) if value is None else (f"{column} = ?", (value,))
    count = f"SELECT count(1) FROM {table} WHERE {only}"  # noqa: S608 - our own names
    (there,) = sql.execute(count, values).fetchone()
    sql.execute(f"DELETE FROM {table} WHERE {only}", values)  # noqa: S608
    return bool(there)
