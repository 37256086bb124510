"""The contract of a catalogue: what holds the truth of a library, in a file or in a database.

What is asked of it and changed in it stands once, in `reads` and `writes`, in statements that
SQLite and PostgreSQL both know (`postgres.dialect` has the few words that differ). A catalogue
gives them a connection and a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from localrag.library.catalogue.reads import Snapshot
    from localrag.library.catalogue.writes import Transaction

Row = tuple[Any, ...]


class Result(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Statements(Protocol):
    """Statements with `?` for each value; text is ordered by code points, numbers have 64 bits."""

    def execute(self, sql: str, parameters: Any = (), /) -> Result:
        """Run one statement."""
        ...


class Connection(Statements, Protocol):
    """The same, with what reading and writing a catalogue needs."""

    counted: tuple[object, Any] | None
    """Which chunks there were, and in which state of the library."""

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object:
        """Run it for each row of values."""
        ...

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
        ...

    def columns(self, table: str) -> Sequence[str]:
        """The columns of a table, in the order in which a row is stored."""
        ...

    def table(self, name: str, columns: Sequence[str]) -> Iterable[Row]:
        """All its rows, which are not held in memory together."""
        ...

    def version(self) -> int:
        """The number of the newest migration."""
        ...


class CatalogueStore(Protocol):
    """Connections to the truth of one library. May be used from several threads."""

    follow: int
    """How many of the newest generations keep the ids of what was removed, after a purge too, for
    nodes that follow; 0 where nobody else does."""

    def needs_migration(self) -> bool:
        """Whether it is new or older than this program. Raises for what is foreign or newer."""
        ...

    def migrate(self) -> None:
        """Create or update the tables; the caller may write."""
        ...

    def read(self) -> AbstractContextManager[Snapshot]:
        """One consistent state of the library, untouched by a writer who is busy meanwhile."""
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """One change, visible whole when the block ends and not at all if it raises."""
        ...

    def purge(self) -> bool:
        """Leave as little of what was removed as lies in its hands; False to try again later."""
        ...

    def copy_to(self, path: Path) -> None:
        """Write one committed state to a new catalogue in the file `path`."""
        ...

    def identity(self) -> object:
        """What tells it from another that took its place; None where there is none."""
        ...

    def size(self) -> int:
        """Bytes that it takes outside the library's folder."""
        ...

    def close(self) -> None:
        """Close all connections; what is asked later opens it anew."""
        ...
