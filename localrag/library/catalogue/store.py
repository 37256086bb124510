"""The contract of a catalogue: what holds the truth of a library, in a file or in a database.

What is asked of it and changed in it stands once, in `reads` and `writes`, in statements that
SQLite and PostgreSQL both know (`postgres.dialect` has the few words that differ). A catalogue
gives them a connection and a transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

from localrag.library.catalogue.reads import Snapshot
from localrag.library.catalogue.sweeping import SweepMark
from localrag.library.catalogue.writes import Transaction


class CatalogueStore(ABC):
    """Connections to the truth of one library. May be used from several threads.

    What is no abstract method here need not be done where a server sees to its own files, or where
    there is none.
    """

    follow = 0
    """How many of the newest generations keep the ids of what was removed, after a purge too, for
    nodes that follow; 0 where nobody else does."""

    @property
    def has_log(self) -> bool:
        """Whether somebody is writing, or ended before what they wrote was folded in."""
        return False

    @property
    def swept(self) -> bool:
        """Whether nothing of what was removed before lies where it was stored."""
        return True

    def keep(self, mark: SweepMark) -> None:  # noqa: B027
        """Mark what `settle` leaves, so that the next change knows it again."""

    def begin(self) -> None:  # noqa: B027
        """See what is there before a change; the caller may write."""

    def settle(self, *, patience: float = 0.0) -> bool:  # noqa: ARG002
        """See to what a change leaves behind; False where readers are in the way.

        That is so where they are for longer than `patience` seconds.
        """
        return True

    @abstractmethod
    def needs_migration(self) -> bool:
        """Whether it is new or older than this program. Raises for what is foreign or newer."""

    @abstractmethod
    def migrate(self) -> None:
        """Create or update the tables; the caller may write."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Snapshot]:
        """One consistent state of the library, untouched by a writer who is busy meanwhile."""

    def serve(self) -> None:  # noqa: B027
        """From now on people ask through a server; see `acting`."""

    @property
    def tells_apart(self) -> bool:
        """Whether a server is to say for whom each statement is, as far as is known by now."""
        return False

    @abstractmethod
    def write(self, *, own: bool = False) -> AbstractContextManager[Transaction]:
        """One change, visible whole when the block ends and not at all if it raises.

        `own`: of what belongs to who asks, as kept answers do; any reader may change that.
        """

    def purge(self) -> bool:
        """Leave as little of what was removed as lies in its hands; False to try again later."""
        return True

    @abstractmethod
    def copy_to(self, path: Path) -> None:
        """Write one committed state to a new catalogue in the file `path`."""

    @abstractmethod
    def identity(self) -> object:
        """What tells it from another that took its place; None where there is none."""

    def size(self) -> int:
        """Bytes that it takes outside the library's folder."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Close all connections; what is asked later opens it anew."""
