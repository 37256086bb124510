"""What a language model said of a library's documents, kept for evaluations, and gone with them.

It lies in this user's cache: a folder that somebody hands over holds no file that would be opened
here. Its name says up to which removal it was made; who opens the library deletes what is older.
"""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from localrag.library.acting import acting_as_server
from localrag.library.backends.base import Backend
from localrag.library.backends.opening import open_backend
from localrag.library.folder.places import cache_folder, cache_path
from localrag.library.location import Location
from localrag.library.records import Removals

_EARLIER = "calls.sqlite*"
"""What earlier versions kept of all libraries, for ever."""
_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Of the files that SQLite keeps."""


def computed_file(removals: Removals) -> Path:
    """The SQLite file for what is computed with a library that is in this state."""
    return cache_folder(_identity(removals.epoch)) / _name(removals)


def computed_key(backend: Backend) -> str:
    """The key of such files, of a vault; "" for other libraries."""
    return backend.vault.sqlite_key("computed") if backend.vault else ""


def computed_with(location: Location) -> tuple[Path, str]:
    """The file of the library there, and its key. Raises LibraryError."""
    with (
        closing(open_backend(location)) as backend,
        acting_as_server(),
        backend.catalogue.read() as snapshot,
    ):
        return computed_file(snapshot.removals()), computed_key(backend)


def clear_computed(removals: Removals, *, keep: bool = False) -> bool:
    """Delete what was computed; with `keep` only what is older. False where some is in use."""
    folder, gone = cache_path(_identity(removals.epoch)), True
    names = {f"{_name(removals)}{suffix}" for suffix in _SUFFIXES if keep and not removals.due}
    paths = list(folder.glob("calls-*.sqlite*"))
    if not keep:
        paths += (folder.parents[1] / "evaluation").glob(_EARLIER)
    for path in paths:
        if path.name not in names:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                gone = False
    if not names:
        with suppress(OSError):
            folder.rmdir()
    return gone


def _identity(epoch: str) -> bytes:
    return f"computed\0{epoch}".encode()


def _name(removals: Removals) -> str:
    return f"calls-{removals.generation}.sqlite"
