"""A library that its owner has opened to a group, on purpose, with a key that the group can read.

What the members derive from it is sealed with that key, which each of them accepts once; for
whoever has not, it counts as made by others, and is made anew. Without a group, modes are the
owner's alone.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from localrag.errors import LibraryError, UsageError
from localrag.library.folder import gate
from localrag.library.folder.filesystem import in_our_words
from localrag.library.folder.gate import enter_library
from localrag.library.folder.locking import PATIENCE, WriteLock
from localrag.library.folder.vaults import vault_of
from localrag.system import seals
from localrag.system.files import create_file
from localrag.system.seals import Seal

_GROUP = stat.S_ISGID | stat.S_IRWXG


def seal_of(directory: Path) -> tuple[Seal, bool]:
    """What seals a library's indexes, and whether that is a group's key.

    A vault's own key, whoever has opened it. Raises LibraryClosedError.
    """
    if (vault := vault_of(directory)) is not None:
        return vault.seal, False
    key = seals.read_key(directory / gate.KEY)
    if key is not None and seals.is_accepted(key):
        return Seal(key), True
    return seals.own_seal(), False


def share(directory: Path, group: str) -> None:
    """Open a library to a group: its members may read and change it, and nobody else.

    Raises UsageError for an unknown group, LibraryError where the files are not the caller's.
    """
    if sys.platform == "win32":
        raise _no_groups()
    import grp

    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError:
        raise UsageError(
            "There is no group {name} on this machine.",
            hint="List your groups with `id`; an administrator can create one with `groupadd`.",
            name=group,
        ) from None
    directory = enter_library(directory)
    with WriteLock(directory).hold(PATIENCE), in_our_words(directory):
        gate.clear_derived(directory)  # another key has sealed it: it is made anew
        for path in gate.all_of_ours(directory):
            os.chown(path, -1, number, follow_symlinks=False)
            path.chmod(0o2770 if path.is_dir() else 0o660)
        # Never one that is there: it may be a second name of somebody's own.
        (directory / gate.KEY).unlink(missing_ok=True)
        with create_file(directory / gate.KEY) as file:
            file.write(secrets.token_bytes(seals.KEY_BYTES))
    accept(directory)


def unshare(directory: Path) -> None:
    """Close a library to everybody but its owner."""
    if sys.platform == "win32":
        raise _no_groups()
    directory = enter_library(directory)
    with WriteLock(directory).hold(PATIENCE), in_our_words(directory):
        (directory / gate.KEY).unlink(missing_ok=True)
        _close(directory)
        gate.clear_derived(directory)  # another key has sealed it: it is made anew


def accept(directory: Path) -> str:
    """Trust what the members of a library's group derive from it; returns the name of its key."""
    directory = enter_library(directory)
    key = seals.read_key(directory / gate.KEY)
    if key is None:
        raise UsageError(
            "The library {directory} has no group key, or you are not allowed to read it.",
            hint="Its owner can share it with `localrag share GROUP`.",
            directory=directory,
        )
    with in_our_words(directory):
        seals.accept(key)
    return Seal(key).name


def close_to_others(directory: Path) -> None:
    """Take the rights of others from a library that was made with them (by localrag 0.1).

    A library that was opened to a group stays open to it. The caller may write.
    """
    if sys.platform == "win32":
        return
    status = directory.stat()
    open_to_others = stat.S_IMODE(status.st_mode) & 0o077
    if open_to_others and status.st_mode & _GROUP != _GROUP and status.st_uid == os.geteuid():
        with suppress(OSError):  # a file system without modes
            _close(directory)


def _close(directory: Path) -> None:
    for path in gate.all_of_ours(directory):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _no_groups() -> LibraryError:
    return LibraryError(
        "Windows does not share folders through groups of this kind.",
        hint="Give others access in the folder's properties.",
    )
