"""A library in a folder: its catalogue is a file of SQLite there, and so is all else."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from localrag.errors import LibraryError
from localrag.library.backends.base import Backend, Left
from localrag.library.backends.uploads import uploads_in
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.catalogue.guarded import connect, database_errors
from localrag.library.folder.filesystem import (
    catalogue_of,
    in_our_words,
    in_use,
    is_read_only,
)
from localrag.library.folder.gate import LOCK, SWEPT, UPLOADS, clear_library, enter_library
from localrag.library.folder.locking import WriteLock
from localrag.library.folder.uploads import sweep_uploads
from localrag.library.folder.vaults import sqlite_key, vault_of
from localrag.system.files import scratch_folder


class FolderBackend(Backend):
    """All of a library in one folder; see `enter_library`."""

    catalogue: SqliteCatalogue

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        with in_our_words(directory):
            self._made = not directory.exists()
            self.location = self.folder = folder = enter_library(directory, create=create)
            self.vault, self.read_only = vault_of(folder), is_read_only(folder)
            path, key = catalogue_of(folder), sqlite_key(folder, "catalogue")
        self.lock = self.files = WriteLock(folder)
        self.catalogue = SqliteCatalogue(path, read_only=self.read_only, key=key)
        self.uploads = uploads_in(folder, self.catalogue, self.vault)
        self._copy = ExitStack()

    def close(self) -> None:
        """Close the catalogue, and delete the copy that was upgraded, if there is one."""
        super().close()
        self._copy.close()

    def upgrade_elsewhere(self) -> bool:
        """Go on with an upgraded copy of an older catalogue, if that can only be read."""
        if not self.read_only or not self.catalogue.path.exists():
            return False
        copy = scratch_folder(encrypted=self.vault is not None)
        self.catalogue.upgrade_elsewhere(self._copy.enter_context(copy))
        return True

    def expect_there(self, identity: object) -> None:
        """Raise LibraryError where another library has taken its place: a vault, or none."""
        if identity not in (None, self.catalogue.identity()):
            raise LibraryError(
                "The library {directory} was replaced while it was open; nothing was written.",
                hint="Run this again, or restart the server.",
                directory=str(self.location),
            )

    def delete(self) -> None:
        """Delete all that localrag made in the folder, except, on Windows, the lock's own file."""
        with in_our_words(self.folder):
            self.catalogue.close()
            if not clear_library(self.folder):
                raise in_use(self.folder)
            if os.name != "nt":  # who waits for the file that goes tries again with a new one
                (self.folder / LOCK).unlink(missing_ok=True)

    def left(self) -> Left:
        """What others put into the folder, or nothing, not even the folder."""
        with suppress(OSError):  # Windows, while another process holds it
            (self.folder / LOCK).unlink(missing_ok=True)
        if any(self.folder.iterdir()):
            return "others"
        with suppress(OSError):  # an empty folder in one that cannot be written
            self.folder.rmdir()
        return ""

    def unmake(self) -> None:
        """Take away what opening it has made, unless somebody else uses it by now."""
        unmake_folder(self.folder, made=self._made)


def unmake_folder(directory: Path, *, made: bool) -> None:
    """Take away the empty library that an import began, unless somebody else uses it by now."""
    if not directory.is_dir():
        return
    catalogue, lock = catalogue_of(directory), directory / LOCK
    key = sqlite_key(directory, "catalogue")
    with WriteLock(directory).try_hold() as is_locked:
        if not is_locked or (catalogue.exists() and not _is_unused(catalogue, key)):
            return
        sweep_uploads(directory, ())
        with suppress(OSError):
            (directory / UPLOADS).rmdir()
        with suppress(OSError):  # Windows: opened by somebody this very moment
            catalogue.unlink(missing_ok=True)
            (directory / SWEPT).unlink(missing_ok=True)
            if os.name != "nt":  # who waits for the file that goes tries again with a new one
                lock.unlink(missing_ok=True)
    with suppress(OSError):  # not empty
        if os.name == "nt":  # there, only once it is free; refused while another holds it
            lock.unlink(missing_ok=True)
        if made:
            directory.rmdir()


def _is_unused(catalogue: Path, key: str) -> bool:
    """Whether it holds no documents and no process has it open, waiting to write, say."""
    try:
        with closing(connect(catalogue, mode="write", timeout=0.2, key=key)) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if "documents" in tables and any(connection.execute("SELECT 1 FROM documents LIMIT 1")):
                return False
            # Only the one connection that is left may end write-ahead logging.
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            return bool(mode == "delete")
    except database_errors(encrypted=bool(key)):
        return False
