"""Where a library is at home: in a folder, or in a database with a folder here that follows it."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from localrag.egress.databases import Database
from localrag.errors import LibraryNotFoundError
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.catalogue.store import CatalogueStore
from localrag.library.folder.filesystem import catalogue_of, is_read_only
from localrag.library.folder.gate import enter_library
from localrag.library.folder.locking import Holder, OnWait, WriteLock
from localrag.library.folder.places import cache_folder
from localrag.library.folder.vaults import Vault, sqlite_key, vault_of
from localrag.library.location import Location
from localrag.system.files import delete_tree

if TYPE_CHECKING:
    from localrag.library.catalogue.postgres.queue import Jobs


class Lock(Protocol):
    """The right to write to a library; see `WriteLock`."""

    def hold(self, timeout: float, on_wait: OnWait | None = None) -> AbstractContextManager[None]:
        """Hold it, waiting up to `timeout` seconds. Raises LibraryLockedError."""
        ...

    def try_hold(self) -> AbstractContextManager[bool]:
        """Hold it if nobody else does; else yield False."""
        ...

    def current_holder(self) -> Holder | None:
        """Who is writing now, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Home:
    """What a library is made of before its indexes: `folder` holds these, and more in a folder."""

    location: Location
    folder: Path
    catalogue: CatalogueStore
    lock: Lock
    files: WriteLock
    """The right to write to `folder`, which is `lock` where the library is in it."""
    read_only: bool
    vault: Vault | None = None
    """What opens it, of one that is a vault."""
    jobs: Jobs | None = None
    """Work that waits for a node, where there may be several."""

    @property
    def is_folder(self) -> bool:
        """Whether all of it is in the folder."""
        return isinstance(self.location, Path)

    def leave_cache(self) -> bool:
        """Delete what this user's cache holds of a library that was in a database.

        False where some of it is in use.
        """
        try:
            delete_tree(self.folder)
        except OSError:
            return False
        return True


def home_of(location: Location, *, create: bool = False) -> Home:
    """The way into a library, for whoever opens it. See `enter_library` for a folder.

    Of one in a database, what is derived lies in this user's cache, in a folder for that library
    alone. Raises LibraryNotFoundError without `create`, LibraryClosedError for a closed vault.
    """
    if isinstance(location, Database):
        return _in_database(location, create=create)
    folder = enter_library(location, create=create)
    vault, read_only = vault_of(folder), is_read_only(folder)
    lock = WriteLock(folder)
    key = sqlite_key(folder, "catalogue")
    catalogue = SqliteCatalogue(catalogue_of(folder), read_only=read_only, key=key)
    return Home(folder, folder, catalogue, lock, lock, read_only, vault)


def is_there(location: Location) -> bool:
    """Whether there is a library."""
    try:
        home_of(location).catalogue.close()
    except LibraryNotFoundError:
        return False
    return True


def has_others(location: Location) -> bool:
    """Whether there are libraries in its database; no folder has any beside its own."""
    if not isinstance(location, Database):
        return False
    from localrag.library.catalogue.postgres.catalogue import PostgresCatalogue

    with closing(PostgresCatalogue(location)) as catalogue:
        return catalogue.has_libraries()


def _in_database(database: Database, *, create: bool) -> Home:
    from localrag.library.catalogue.postgres.catalogue import PostgresCatalogue
    from localrag.library.catalogue.postgres.lock import PostgresLock
    from localrag.library.catalogue.postgres.queue import Jobs

    catalogue = PostgresCatalogue(database)
    try:
        if create and catalogue.identity() is None:
            catalogue.migrate()
        identity = catalogue.expect()
    except BaseException:
        catalogue.close()
        raise
    # Not the URL alone: a library of the same name, made later, is another one.
    folder = cache_folder(f"{database}\0{identity}".encode())
    files = WriteLock(folder)
    lock = PostgresLock(catalogue, files)
    return Home(database, folder, catalogue, lock, files, False, jobs=Jobs(catalogue))
