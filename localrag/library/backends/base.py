"""The contract of a backend: what holds the truth of a library, and does its own way.

Whatever holds it, what is derived from it lies in a folder of this machine, and is the same.
`opening.open_backend` alone chooses one; whoever has it asks what it does, not which it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from localrag.library.backends.uploads import Uploads
from localrag.library.catalogue.store import CatalogueStore
from localrag.library.derived import DerivedVectors
from localrag.library.folder.locking import Holder, OnWait, WriteLock
from localrag.library.folder.vaults import Vault
from localrag.library.location import Location

if TYPE_CHECKING:
    from localrag.library.backends.postgres.queue import Jobs
    from localrag.library.backends.postgres.users import Users

Left = Literal["", "others", "cache"]
"""What a deleted library leaves: nothing; what others put into its folder; files of this user's
cache that are in use."""


class Lock(Protocol):
    """The right to write to a library; see `WriteLock`."""

    def hold(self, timeout: float, on_wait: OnWait | None = None) -> AbstractContextManager[None]:
        """Hold it, waiting up to `timeout` seconds. Raises LibraryLockedError."""

    def try_hold(self) -> AbstractContextManager[bool]:
        """Hold it if nobody else does; else yield False."""

    def current_holder(self) -> Holder | None:
        """Who is writing now, or None."""


class Backend(ABC):
    """One library, opened, before its indexes. May be used from several threads."""

    has_nodes: ClassVar[bool] = False
    """Whether many may use it, on several machines, each with a folder that follows it."""
    erases: ClassVar[bool] = True
    """Whether removing is to leave no byte of what was removed, rather than only to hide it."""

    vectors: ClassVar[type[DerivedVectors]] = DerivedVectors
    """The dense leg of such a library."""

    location: Location
    folder: Path
    """Holds the indexes and the language model's states, and the truth if nothing else does."""
    catalogue: CatalogueStore
    lock: Lock
    """The right to write to the library."""
    files: WriteLock
    """The right to write to `folder`."""
    uploads: Uploads
    read_only = False
    vault: Vault | None = None
    """What opens the library, where it is a vault."""
    jobs: Jobs | None = None
    """Work that waits for a node, where there are nodes."""

    @abstractmethod
    def __init__(self, location: Location, *, create: bool = False) -> None:
        """Open it; see `opening.open_backend`."""

    @classmethod
    def users(cls, location: Location) -> Users | None:  # noqa: ARG003
        """Who may use the library at `location`, and those beside it; None where nobody is told."""
        return None

    @classmethod
    def has_others(cls, location: Location) -> bool:  # noqa: ARG003
        """Whether the place where that library would be holds any."""
        return False

    @property
    def cache_salt(self) -> str:
        """What tells the prompts of this library from another's, where each has readers of its own.

        Two libraries may have the same passage: how soon a model has read it must not tell a
        reader of one that the other was asked about it.
        """
        return ""

    def close(self) -> None:
        """Close all that is open; what is asked later opens it anew."""
        self.catalogue.close()

    def upgrade_elsewhere(self) -> bool:
        """Go on with an upgraded copy of an older catalogue, if that can only be read."""
        return False

    def expect_there(self, identity: object) -> None:  # noqa: B027 - not for all
        """See before a change that it is still the library of this `catalogue.identity`.

        Raises LibraryError, or leaves that to the transaction.
        """

    @abstractmethod
    def delete(self) -> None:
        """Delete the library; the caller may write. Raises LibraryError where it is in use."""

    @abstractmethod
    def unmake(self) -> None:
        """Undo the making of a library, unless somebody has put something into it."""

    def leave_cache(self) -> bool:
        """Delete what this user's cache holds of a library that is no more; False if in use."""
        return True

    def left(self) -> Left:
        """What `delete` left, after another try, without the right to write."""
        return "" if self.leave_cache() else "cache"
