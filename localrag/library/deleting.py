"""A whole library taken away: its folder, or its tables and what this user's cache holds of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

from localrag.errors import LibraryError
from localrag.library.acting import acting_as_server
from localrag.library.computed import clear_computed
from localrag.library.folder.filesystem import in_our_words
from localrag.library.folder.gate import LOCK, clear_library
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.home import Home, home_of
from localrag.library.location import Location

Left = Literal["", "others", "cache"]
"""What is left: nothing; what others put into the folder; files of the cache that are in use."""


def delete_library(
    location: Location, *, timeout: float = PATIENCE, on_wait: OnWait | None = None
) -> Left:
    """Delete a library with all that it holds, waiting up to `timeout` seconds for the right to.

    Raises LibraryNotFoundError, LibraryLockedError that names who writes, and LibraryError where
    it is in use otherwise.
    """
    home = home_of(location)
    try:
        with home.lock.hold(timeout, on_wait):
            with suppress(LibraryError), acting_as_server(), home.catalogue.read() as snapshot:
                clear_computed(snapshot.removals())
            if home.is_folder:
                _delete_folder(home)
            else:
                _delete_tables(home)
    finally:
        home.catalogue.close()
    if not home.is_folder:
        return "" if home.leave_cache() else "cache"
    return _left_in(home.folder)


def _delete_tables(home: Home) -> None:
    from localrag.library.catalogue.postgres.catalogue import PostgresCatalogue

    if isinstance(home.catalogue, PostgresCatalogue):
        home.catalogue.delete()


def _delete_folder(home: Home) -> None:
    with in_our_words(home.folder):
        home.catalogue.close()
        if not clear_library(home.folder):
            raise LibraryError(
                "The library {directory} is in use: some of its files could not be deleted.",
                hint="End what has it open, such as `localrag serve`, and run this again.",
                directory=home.folder,
            )
        if os.name != "nt":  # who waits for the file that goes tries again with a new one
            (home.folder / LOCK).unlink(missing_ok=True)


def _left_in(folder: Path) -> Left:
    with suppress(OSError):  # Windows, while another process holds it
        (folder / LOCK).unlink(missing_ok=True)
    if any(folder.iterdir()):
        return "others"
    with suppress(OSError):  # an empty folder in one that cannot be written
        folder.rmdir()
    return ""
