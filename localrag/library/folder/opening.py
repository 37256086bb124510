"""The one way into the folder of a library, and where there may be a new one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from localrag.errors import LibraryDamagedError, LibraryError, LibraryNotFoundError
from localrag.library.folder.filesystem import CATALOGUE, in_our_words
from localrag.library.folder.gate import KEYWORDS, POINTER, VECTORS, enter
from localrag.system.files import create_file, make_folder


def enter_library(directory: Path, *, create: bool) -> Path:
    """The one way into a library: its folder, looked at before anything in it is opened.

    Returns the folder with links in the way to it resolved. With `create`, makes an empty one
    where there is none. Raises LibraryError for a folder that localrag did not make so,
    LibraryNotFoundError without `create`, LibraryDamagedError where only what follows the
    catalogue is left.
    """
    directory = enter(directory)
    path = directory / CATALOGUE
    there = path.is_file()
    if there and path.stat().st_size:
        return directory
    if any((directory / name).is_file() for name in (VECTORS, f"{KEYWORDS}/{POINTER}")):
        raise LibraryDamagedError(
            "{path} is missing or empty; it held all of the library's text.",
            hint="Restore the folder from a backup, or delete it and add the documents again.",
            path=path,
        )
    if not there:
        may_create(directory, create=create)
        with in_our_words(directory):
            make_folder(directory)
            with suppress(FileExistsError):  # another process is creating it, too
                create_file(path).close()
    return directory


def require_library(directory: Path) -> Path:
    """The folder of a library that there is, looked at like any that is opened."""
    return enter_library(directory, create=False)


def may_create(directory: Path, *, create: bool) -> None:
    """Raise where there is no library and none may be made."""
    if directory.exists() and not directory.is_dir():
        raise LibraryError(
            "{directory} is a file; a library is a folder.",
            hint="Name a folder with --library.",
            directory=directory,
        )
    # Another process may be creating the library right now: its lock is no foreign file.
    foreign = directory.is_dir() and any(
        not entry.name.startswith(("write.lock", CATALOGUE)) for entry in directory.iterdir()
    )
    if foreign and create:
        raise LibraryError(
            "The folder {directory} contains other files but no library.",
            hint="Name an empty or new folder with --library.",
            directory=directory,
        )
    if not create:
        raise no_library(directory)


def no_library(directory: Path) -> LibraryNotFoundError:
    """What a caller is told who names a folder without a library."""
    return LibraryNotFoundError(
        "There is no library in {directory}.",
        hint="Add documents first: localrag add PATH. Or name the folder with --library.",
        directory=directory,
    )
