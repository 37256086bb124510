"""Where what follows from a catalogue lies: in the library, or in this user's cache.

In the library where it is this user's own, or a group's whose key the user has accepted. What is
made of somebody else's library goes into the cache, so that nobody's files are fought over, and
so that a medium that can only be read is quick from the second search on.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from localrag.library.folder.locking import WriteLock
from localrag.library.folder.sharing import seal_of
from localrag.system.files import delete_tree, make_folder
from localrag.system.seals import Seal

_LIFE = 90 * 86400.0
"""Seconds after which what is kept of a library that is not used any more goes."""

_NAME = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder for indexes, the right to write there, and the seal on them."""

    folder: Path
    lock: WriteLock
    seal: Seal
    turn: threading.RLock

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """Whether the caller may write; another thread that brings its index up is waited for."""
        with self.turn, self.lock.try_hold() as mine:
            yield mine


class Places:
    """The two places for what follows from the catalogue in `directory`."""

    def __init__(self, directory: Path, lock: WriteLock, *, read_only: bool) -> None:
        self.seal, self.shared = seal_of(directory)
        self.library = Place(directory, lock, self.seal, threading.RLock())
        self.kept_in_library = not read_only and (self.shared or _is_ours(directory))
        self.of_others = not read_only and not self.kept_in_library

    @cached_property
    def cache(self) -> Place:
        """The place for what is not kept in the library."""
        folder = cache_folder(os.fsencode(os.path.realpath(self.library.folder)))
        return Place(folder, WriteLock(folder), self.seal, self.library.turn)


def _is_ours(directory: Path) -> bool:
    if sys.platform == "win32":
        return True
    try:  # root too: its files would shut the owner out, who could lead it elsewhere by links
        return os.geteuid() == directory.stat().st_uid
    except OSError:
        return False


def cache_folder(identity: bytes) -> Path:
    """A folder of this user for what follows from a library that is not kept there itself."""
    folder = cache_path(identity)
    with suppress(OSError):  # a home that cannot be written: it stays in memory
        make_folder(folder)
        os.utime(folder)
        for other in folder.parent.iterdir():
            if _NAME.fullmatch(other.name) and time.time() - other.lstat().st_mtime > _LIFE:
                delete_tree(other)
    return folder


def cache_path(identity: bytes) -> Path:
    """Where that folder is, or would be."""
    from platformdirs import user_cache_path

    name = hashlib.sha256(identity).hexdigest()[:40]
    return user_cache_path("localrag", appauthor=False) / "derived" / name
