"""The way into a library, wherever it is: the only place that tells the backends apart."""

from __future__ import annotations

from localrag.egress.databases import Database
from localrag.errors import LibraryNotFoundError
from localrag.library.backends.base import Backend
from localrag.library.backends.folder import FolderBackend
from localrag.library.location import Location


def backend_of(location: Location) -> type[Backend]:
    """The kind of backend that a library at `location` has, or would have."""
    if isinstance(location, Database):
        from localrag.library.backends.postgres.backend import PostgresBackend

        return PostgresBackend
    return FolderBackend


def open_backend(location: Location, *, create: bool = False) -> Backend:
    """What holds the library at `location`, or with `create` is to hold it.

    Raises LibraryNotFoundError without `create`, LibraryClosedError for a closed vault, and
    LibraryError.
    """
    return backend_of(location)(location, create=create)


def is_there(location: Location) -> bool:
    """Whether there is a library."""
    try:
        open_backend(location).close()
    except LibraryNotFoundError:
        return False
    return True
