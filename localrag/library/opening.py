"""Where a library may be, and which embedding model it belongs to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from localrag.errors import LibraryDamagedError, LibraryError, LibraryNotFoundError, UsageError
from localrag.library.catalogue.catalogue import Catalogue
from localrag.library.catalogue.reads import Snapshot
from localrag.library.gate import KEYWORDS, POINTER, VECTORS, enter
from localrag.library.locking import WriteLock
from localrag.library.media import CATALOGUE as CATALOGUE  # callers take it from here
from localrag.library.media import in_our_words
from localrag.library.records import EmbeddingIdentity
from localrag.system.files import create_file, make_folder

PATIENCE = 10.0
"""Seconds that a writer waits for another before it gives up, where the caller says nothing."""

WIDEST = 65_536
"""Dimensions of a vector."""


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
            "{path} is missing or empty; all texts of the library were in it.",
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
            "The folder {directory} holds other files and no library.",
            hint="Name an empty or a new folder with --library.",
            directory=directory,
        )
    if not create:
        raise LibraryNotFoundError(
            "There is no library in {directory}.",
            hint="Add documents first: localrag add PATH. Or name the folder with --library.",
            directory=directory,
        )


def bind(
    catalogue: Catalogue, lock: WriteLock, directory: Path, embedding: EmbeddingIdentity | None
) -> None:
    """Give a new library its embedding model."""
    if embedding is None:  # a process was killed while it created the library
        raise LibraryNotFoundError(
            "There is no library in {directory}.",
            hint="Add documents first: localrag add PATH. Or name the folder with --library.",
            directory=directory,
        )
    with lock.hold(PATIENCE), catalogue.write() as transaction:
        if transaction.meta("embedding") is None:
            transaction.set_embedding(embedding)


def identity(snapshot: Snapshot) -> EmbeddingIdentity:
    """Which vector space the library lives in. Raises LibraryDamagedError if it does not say."""
    fingerprint, name, dimension = map(snapshot.meta, ("embedding", "embedding_name", "dimension"))
    if fingerprint is None or not isinstance(dimension, int) or not 0 < dimension <= WIDEST:
        raise LibraryDamagedError(
            "The library does not say which embedding model it was built with.",
            hint="Restore the folder from a backup, or delete it and add the documents again.",
        )
    return EmbeddingIdentity(str(fingerprint), str(name), dimension)


def named(one: EmbeddingIdentity, other: EmbeddingIdentity) -> str:
    """The model's name, with its fingerprint where the names alone would not differ."""
    return one.name if one.name != other.name else f"{one.name} [{one.fingerprint[:12]}]"


def not_here(name: str) -> UsageError:
    """What a caller is told who names what the library does not hold."""
    return UsageError(
        "{name} is not in the library.",
        hint="See what is there with `localrag status`.",
        name=name,
    )
