"""A library in a database, for many people and nodes: this user's cache has a folder for it."""

from __future__ import annotations

from contextlib import closing

from localrag.egress.databases import Database
from localrag.library.backends.base import Backend
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.backends.postgres.files import DatabaseUploads
from localrag.library.backends.postgres.lock import PostgresLock
from localrag.library.backends.postgres.queue import Jobs
from localrag.library.backends.postgres.users import Users
from localrag.library.backends.postgres.vectors import VectorsOfDatabase
from localrag.library.folder.locking import WriteLock
from localrag.library.folder.places import cache_folder
from localrag.system.files import delete_tree


class PostgresBackend(Backend):
    """Its tables, and a folder in the cache for that library alone."""

    has_nodes = True
    erases = False
    vectors = VectorsOfDatabase
    catalogue: PostgresCatalogue

    def __init__(self, database: Database, *, create: bool = False) -> None:
        self.location = database
        self.catalogue = catalogue = PostgresCatalogue(database)
        try:
            if create and catalogue.identity() is None:
                catalogue.migrate()
            identity = catalogue.expect()
        except BaseException:
            catalogue.close()
            raise
        # Not the URL alone: a library of the same name, made later, is another one.
        self.folder = cache_folder(f"{database}\0{identity}".encode())
        self.files = WriteLock(self.folder)
        self.lock = PostgresLock(catalogue, self.files)
        self.uploads = DatabaseUploads(self.folder, catalogue)
        self.jobs = Jobs(catalogue)

    @classmethod
    def users(cls, database: Database) -> Users:  # type: ignore[override]
        """Those of the database."""
        return Users(database)

    @classmethod
    def has_others(cls, database: Database) -> bool:  # type: ignore[override]
        """Whether there are libraries in the database."""
        with closing(PostgresCatalogue(database)) as catalogue:
            return catalogue.has_libraries()

    @property
    def cache_salt(self) -> str:
        """What nobody guesses, and all nodes with the same URL make alike."""
        return self.folder.name

    def delete(self) -> None:
        """Delete its tables. Raises LibraryError where they stay in use."""
        self.catalogue.delete()

    def unmake(self) -> None:
        """Take its tables away, unless somebody uses them or has put something into them."""
        self.catalogue.drop()
        self.catalogue.close()

    def leave_cache(self) -> bool:
        """Delete the folder; False where some of it is in use."""
        try:
            delete_tree(self.folder)
        except OSError:
            return False
        return True
