"""The gate of every library that is opened: plain files and real folders, under our own names.

A folder may come from somebody else. What is not there cannot be followed, opened or deleted: a
link, a pipe, a device, or a second name of a file that lies elsewhere. Nothing is opened before
this has looked, and nothing is ever deleted whose name is not one of these. Other plain files and
folders (`.DS_Store`, `lost+found`) are left alone and never looked into.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from localrag.errors import (
    LibraryDamagedError,
    LibraryError,
    LibraryNotFoundError,
)
from localrag.library.folder.filesystem import (
    CATALOGUE,
    VAULT_CATALOGUE,
    VAULT_HEADER,
    catalogue_of,
    in_our_words,
)
from localrag.system import files

VECTORS = "vectors"
KEYWORDS = "keywords"
POINTER = "index.json"
"""In the folder of an index: names the files in use, and the state they were built to."""

EARLIER_VECTORS = "vectors.faiss"
"""The vector index of versions before 0.2: never read, and gone once there is one of ours."""

KV_FOLDER = "kv"
"""What a language model made of passages; derived, and gone when a document goes."""

UPLOADS = "uploads"
"""Files that were handed to the library; their names are their owners'."""

_CATALOGUES = (CATALOGUE, VAULT_CATALOGUE)
_OF_SQLITE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps of one file."""
SWEPT = f"{CATALOGUE}-swept"
"""Says which catalogue holds nothing that was removed."""

LOCK = "write.lock"
HOLDER = "write.lock.json"
KEY = "seal.key"
"""The key of a group, where a library was opened to one."""

SEGMENT = re.compile(r"[0-9a-f]{16}\.segment")
"""Files of the vector and the keyword index."""

_EARLIER_KEYWORDS = re.compile(r"bm25-[0-9a-f]{8}|reader-[0-9a-f]{8}")
"""Folders of the keyword index of earlier versions: never read, and gone with the first of ours."""

_IN_PLACE = (*(name + suffix for name in _CATALOGUES for suffix in _OF_SQLITE), LOCK)
"""Files that are written where they lie, so that another name of them would change too."""

_PARTS = re.compile(
    r"(?:vectors\.faiss|write\.lock\.json|seal\.key|vault\.json|catalogue\.sqlite(?:\.import|-swept))"
    r"\.[0-9a-f]{1,16}\.part"
)
_INDEX_PARTS = re.compile(rf"(?:index\.json|{SEGMENT.pattern})\.[0-9a-f]{{1,16}}\.part")
_STATES = re.compile(r"[0-9a-f]{40}\.kv|[0-9a-f]{40}\.kv\.[0-9a-f]{8}\.part|tmp[0-9a-z_]+\.new")
_INDEX = re.compile(rf"{re.escape(POINTER)}|{SEGMENT.pattern}|{_INDEX_PARTS.pattern}")
_PLAIN = (*_IN_PLACE, EARLIER_VECTORS, HOLDER, KEY, SWEPT, VAULT_HEADER)
_NAMES = (*_PLAIN, VECTORS, KEYWORDS, KV_FOLDER, UPLOADS)
_FILES = re.compile(rf"{'|'.join(map(re.escape, _PLAIN))}|{_PARTS.pattern}")
_FOLDERS = re.compile(f"{VECTORS}|{KEYWORDS}|{KV_FOLDER}|{UPLOADS}")
_ALL, _NONE = re.compile(".*", re.DOTALL), re.compile("(?!)")

_LAST = (CATALOGUE, VAULT_CATALOGUE, VAULT_HEADER)
"""What says that there is a library goes last of all, and the key after what it opens."""

_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")


def enter_library(directory: Path, *, create: bool = False) -> Path:
    """The one way into a library: its folder, looked at before anything in it is opened.

    Returns the folder with links in the way to it resolved. With `create`, makes an empty one
    where there is none. Raises LibraryError for a folder that localrag did not make so,
    LibraryNotFoundError without `create`, LibraryDamagedError where only what follows the
    catalogue is left.
    """
    directory = _resolved_folder(directory)
    path = catalogue_of(directory)
    there = path.is_file()
    if there and path.stat().st_size:
        return directory
    if path.name == CATALOGUE and (directory / VAULT_CATALOGUE).is_file() and not there:
        raise LibraryDamagedError(
            "{path} is missing: without it, this vault cannot be opened.",
            hint="Restore that file from a backup of the folder.",
            path=directory / VAULT_HEADER,
        )
    derived = (f"{VECTORS}/{POINTER}", EARLIER_VECTORS, f"{KEYWORDS}/{POINTER}")
    if any((directory / name).is_file() for name in derived):
        raise LibraryDamagedError(
            "{path} is missing or empty; it held all of the library's text.",
            hint="Restore the folder from a backup, or delete it and add the documents again.",
            path=path,
        )
    if there:
        return directory
    if directory.exists() and not directory.is_dir():
        raise LibraryError(
            "{directory} is a file; a library is a folder.",
            hint="Name a folder with --library.",
            directory=directory,
        )
    if not create:
        raise no_library(directory)
    # Another process may be creating the library right now: its lock is no foreign file.
    if directory.is_dir() and any(
        not entry.name.startswith((LOCK, *_CATALOGUES, VAULT_HEADER))
        for entry in directory.iterdir()
    ):
        raise LibraryError(
            "The folder {directory} contains other files but no library.",
            hint="Name an empty or new folder with --library.",
            directory=directory,
        )
    with in_our_words(directory):
        files.make_folder(directory)
        with suppress(FileExistsError):  # another process is creating it, too
            files.create_file(path).close()
    return directory


def no_library(directory: object) -> LibraryNotFoundError:
    """What a caller is told who names a folder without a library."""
    return LibraryNotFoundError(
        "There is no library in {directory}.",
        hint="Add documents first: localrag add PATH. Or name the folder with --library.",
        directory=str(directory),
    )


def _resolved_folder(directory: Path) -> Path:
    """The folder with links in the way to it resolved; one that is not there passes.

    Raises LibraryError for what localrag never makes.
    """
    real = Path(os.path.realpath(directory))
    folder = directory if real == directory.absolute() else real
    # Somebody's folder of other things may hold links; there is nothing in it to be opened.
    if any(os.path.lexists(folder / name) for name in _NAMES):
        with in_our_words(folder):
            _expect_our_own(folder)
    return folder


def _expect_our_own(directory: Path) -> None:
    _look(directory, "", _FILES, _FOLDERS)
    for name, known, folders in (
        (VECTORS, _INDEX, _NONE),
        (KEYWORDS, _INDEX, _EARLIER_KEYWORDS),
        (KV_FOLDER, _STATES, _NONE),
    ):
        for lower in _look(directory, name, known, folders):
            with suppress(PermissionError):  # what cannot be listed is not opened either
                _look(directory, f"{name}/{lower}", _NONE, _NONE)
    for lower in _look(directory, UPLOADS, _NONE, _NONE):
        raise _refusal(directory, f"{UPLOADS}/{lower}", _KINDS["folder"])
    for name in _IN_PLACE:
        if _names(directory / name) > 1:
            wrong = LibraryError("a file that has another name elsewhere (a hard link)")
            raise _refusal(directory, name, wrong)
    for name in _CATALOGUES:
        if names_other_files(directory / (journal := f"{name}-journal")):
            wrong = LibraryError("a journal that points to another file")
            raise _refusal(directory, journal, wrong)


def parts(directory: Path) -> list[Path]:
    """What processes left that were ended while they wrote a file of the library."""
    paths = [*_plain(directory, _PARTS), *other_catalogue(directory)]
    for name in (VECTORS, KEYWORDS):
        if files.is_real_folder(directory / name):
            paths += _plain(directory / name, _INDEX_PARTS)
    return paths


def sweep_parts(directory: Path) -> None:
    """Delete what such processes left; the caller may write."""
    for part in parts(directory):
        part.unlink(missing_ok=True)


def other_catalogue(directory: Path) -> list[Path]:
    """What is left of the other form of a library that was made a vault, or no vault any more."""
    is_vault = (directory / VAULT_HEADER).is_file()
    if not is_vault and not (directory / CATALOGUE).is_file():
        return []  # the header is missing: this is all there is
    names = [f"{VAULT_CATALOGUE}{suffix}" for suffix in _OF_SQLITE]
    if is_vault:
        names = [SWEPT, *(f"{CATALOGUE}{suffix}" for suffix in _OF_SQLITE)]
    return [path for path in map(directory.joinpath, names) if files.is_plain_file(path)]


def clear_derived(directory: Path) -> bool:
    """Delete all that follows from the catalogue; False where some of it is still in use."""
    gone = [clear_index(directory / name) for name in (VECTORS, KEYWORDS)]
    return all([*gone, clear_states(directory)])


def clear_index(folder: Path) -> bool:
    """Delete a derived index, and nothing else that may lie in its folder.

    False where some of it is still in use.
    """
    if files.is_real_folder(folder):
        (folder / POINTER).unlink(missing_ok=True)
    gone = clear_segments(folder)
    _remove_if_empty(folder)
    return gone


def clear_segments(folder: Path, keep: Collection[str] = ()) -> bool:
    """Delete files of a derived index but `keep`, those of earlier versions and parts too.

    False where one is still in use: Windows lets nobody delete what a reader has mapped.
    """
    paths = of_earlier_versions(folder)
    if files.is_real_folder(folder):
        paths += [*_plain(folder, SEGMENT), *_plain(folder, _INDEX_PARTS)]
    return _all_deleted(path for path in paths if path.name not in keep)


def of_earlier_versions(folder: Path) -> list[Path]:
    """What earlier versions have left of the index in this folder: never read."""
    if folder.name == VECTORS:
        return [file for file in (folder.parent / EARLIER_VECTORS,) if files.is_plain_file(file)]
    return list(_index_folders(folder)) if files.is_real_folder(folder) else []


def states(directory: Path) -> list[Path]:
    """The files of the language model's states."""
    folder = directory / KV_FOLDER
    return list(_plain(folder, _STATES)) if files.is_real_folder(folder) else []


def clear_states(directory: Path) -> bool:
    """Delete the states of the language model; False where one is still in use."""
    gone = _all_deleted(states(directory))
    _remove_if_empty(directory / KV_FOLDER)
    return gone


def uploads(directory: Path) -> list[Path]:
    """The files that were handed to the library, and what uploads left that were cut off."""
    folder = directory / UPLOADS
    return list(_plain(folder, _ALL)) if files.is_real_folder(folder) else []


def all_of_ours(directory: Path) -> Iterator[Path]:
    """The library's folder, and every file and folder in it that localrag made, folders first.

    Without files that have another name elsewhere: their modes belong to that, too.
    """
    yield directory
    yield from _of_one_name(directory, _FILES)
    for name, known in (
        (VECTORS, _INDEX),
        (KEYWORDS, _INDEX),
        (KV_FOLDER, _STATES),
        (UPLOADS, _ALL),
    ):
        folder = directory / name
        if not files.is_real_folder(folder):
            continue
        yield folder
        yield from _of_one_name(folder, known)
        for lower in _index_folders(folder):
            yield lower
            yield from _of_one_name(lower, _ALL)


def clear_library(directory: Path) -> bool:
    """Delete all that localrag made in a library's folder, the catalogue last of all.

    Without the lock, which the caller holds. False where some of it is still in use.
    """
    gone = [clear_derived(directory), _all_deleted(uploads(directory))]
    _remove_if_empty(directory / UPLOADS)
    if not all(gone):
        return False
    of_ours = (path for path in _plain(directory, _FILES) if path.name not in (LOCK, HOLDER))
    return _all_deleted(sorted(of_ours, key=lambda path: (path.name in _LAST, path.name)))


def folder_size(directory: Path) -> int:
    """Bytes of all files below; links count themselves, files that vanish meanwhile nothing."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


def _plain(folder: Path, known: re.Pattern[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if known.fullmatch(path.name) and files.is_plain_file(path):
            yield path


def _of_one_name(folder: Path, known: re.Pattern[str]) -> Iterator[Path]:
    return (path for path in _plain(folder, known) if _names(path) == 1)


def _index_folders(keywords: Path) -> Iterator[Path]:
    for path in sorted(keywords.iterdir()):
        if _EARLIER_KEYWORDS.fullmatch(path.name) and files.is_real_folder(path):
            yield path


def _all_deleted(paths: Iterable[Path]) -> bool:
    gone = True
    for path in paths:
        try:
            files.delete_tree(path)
        except OSError:
            gone = False
    return gone


def _remove_if_empty(folder: Path) -> None:
    if files.is_real_folder(folder) and not any(folder.iterdir()):
        folder.rmdir()


def _look(
    directory: Path, below: str, known: re.Pattern[str], folders: re.Pattern[str]
) -> list[str]:
    """The folders in `directory/below`, if there is that; raises for what must not be there.

    What is to be a file (`known`) or a folder is nothing else, and nothing at all leads away.
    """
    names = []
    place = directory / below
    for path in place.iterdir() if files.is_real_folder(place) else ():
        kind, name = _kind(path), path.name
        if kind == "folder" and not known.fullmatch(name):
            names.append(name)
        elif kind and (kind != "file" or folders.fullmatch(name)):
            raise _refusal(directory, f"{below}/{name}".lstrip("/"), _KINDS[kind])
    return names


_KINDS = {
    "file": LibraryError("a file"),
    "folder": LibraryError("a folder"),
    "link": LibraryError("a link"),
    "pipe": LibraryError("a pipe or a socket"),
    "device": LibraryError("a device"),
}


def _kind(path: Path) -> str:
    """What lies there, "" for nothing: another process may just have replaced it."""
    if files.is_plain_file(path):
        return "file"
    if files.is_real_folder(path):
        return "folder"
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return "pipe"
    return "device" if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else "link"


def _names(path: Path) -> int:
    try:
        return path.lstat().st_nlink
    except FileNotFoundError:
        return 0


def names_other_files(journal: Path) -> bool:
    """Whether a journal of SQLite ends in the name of another file, as ours never do.

    SQLite would play it back and then delete the file that it names, wherever that lies.
    """
    try:
        with files.open_plain(journal) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(_SUPER_JOURNAL)))
            return file.read() == _SUPER_JOURNAL
    except FileNotFoundError:
        return False


def _refusal(directory: Path, name: str, wrong: LibraryError) -> LibraryError:
    return LibraryError(
        "In the library {directory}, {name} is {wrong}, which localrag never creates. The "
        "library came from elsewhere or was tampered with.",
        hint="Do not use this folder as it is. Have the library exported where it was "
        "created (`localrag export`), then bring it in with `localrag import`.",
        directory=directory,
        name=name,
        wrong=wrong,
    )
