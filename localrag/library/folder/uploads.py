"""Files that were handed to a library, which keeps them in its folder `uploads`.

Such a file counts from the transaction on that adds it: one that is no source of the catalogue is
what an upload or a removal left that was cut off, and goes with the next that is done.

A library may have been moved since, and people have folders called `uploads` of their own. So a
file is that of the source whose path is its own; where there is none, that of a source of its name
with its bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from localrag.library.folder.gate import UPLOADS, uploads
from localrag.library.records import SourceRecord
from localrag.system.files import is_plain_file, open_plain, storable_path

_LONGEST = 180
"""Bytes of a name, which leaves room for a number and for what is written beside it."""

# What Windows refuses or reads as something else, refused everywhere: a library travels. Signs
# that turn the direction of writing would show another name.
_FORBIDDEN = re.compile(
    r'[\x00-\x1f\x7f-\x9f<>:"|?*\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]'
)
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?")


def safe_name(given: str) -> str:
    """One component of a path that every system takes, with the ending of `given`."""
    last = re.split(r"[/\\]", given)[-1]
    name = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", last)).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending) > 16:
        stem, ending = name, ""
    ending = dot + ending if ending else ""
    stem = _cut(stem.rstrip(" ."), _LONGEST - len(ending.encode())) or "file"
    name = stem + ending
    return f"_{name}" if _DEVICE.fullmatch(name) else name


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode("utf-8", "ignore").rstrip(" .")


def is_safe(name: str) -> bool:
    """Whether a name is one that a file is kept by."""
    return safe_name(name) == name


def free_place(directory: Path, name: str, others: Iterable[str] = ()) -> Path:
    """Where a file of that name goes: `name (2)` where there is one already, or among `others`."""
    folder, original = directory / UPLOADS, Path(name)
    used_names = {path.name.casefold() for path in folder.iterdir()} if folder.is_dir() else set()
    used_names.update(map(str.casefold, others))
    number = 1
    while name.casefold() in used_names:
        number += 1
        name = f"{original.stem} ({number}){original.suffix}"
    return folder / name


def upload_of(
    directory: Path, source: str, find: Callable[[str], SourceRecord | None]
) -> Path | None:
    """The file in `uploads` that is this source's, if there is one; `find` looks a path up."""
    folder, name = _last_two(source)
    path = directory / UPLOADS / name
    if folder != UPLOADS or not is_safe(name) or not is_plain_file(path):
        return None
    here = storable_path(path)
    record = find(here) or find(source)
    if record is None or record.state.path != source:
        return None
    return path if source == here or _holder(path, [record]) else None


def file_of(directory: Path, source: str, find: Callable[[str], SourceRecord | None]) -> Path:
    """Where the file of a source lies now: an upload moves with its library."""
    try:
        return upload_of(directory, source, find) or Path(source)
    except OSError:  # what cannot be read may be anybody's
        return Path(source)


def uploaded(sources: Iterable[str]) -> set[str]:
    """The names of sources in folders called `uploads`: the library's own, or others."""
    return {name for folder, name in map(_last_two, sources) if folder == UPLOADS}


def sweep_uploads(directory: Path, sources: Iterable[SourceRecord]) -> None:
    """Delete uploads that are no source's; the caller may write."""
    known: defaultdict[str, list[SourceRecord]] = defaultdict(list)
    for record in sources:
        for name in uploaded([record.state.path]):
            known[name].append(record)
    for path in uploads(directory):
        here, named = storable_path(path), known[path.name]
        if any(record.state.path == here for record in named):
            continue
        holder = _holder(path, named)
        if holder is None:
            # Else it may be theirs, edited since its library was moved.
            if all(os.path.lexists(record.state.path) for record in named):
                path.unlink(missing_ok=True)
        else:
            _keep_time(path, holder.state.mtime_ns)


def _holder(path: Path, records: Iterable[SourceRecord]) -> SourceRecord | None:
    """Which of the records is about the file: by its size and time, or else by its bytes."""
    try:
        status = path.stat()
        alike = [record for record in records if record.state.size == status.st_size]
        for record in alike:
            if record.state.mtime_ns == status.st_mtime_ns:
                return record
        if not alike:
            return None
        with open_plain(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:  # removed this moment
        return None
    return next((record for record in alike if record.document_id == digest), None)


def _keep_time(path: Path, mtime_ns: int) -> None:
    """Give a file that was copied the time of its record, so that it is hashed only once."""
    with suppress(OSError, OverflowError):  # a time that no file here can have
        if path.stat().st_mtime_ns != mtime_ns:
            os.utime(path, ns=(mtime_ns, mtime_ns))


def _last_two(source: str) -> tuple[str, str]:
    folders, _, name = source.replace("\\", "/").rpartition("/")
    return folders.rpartition("/")[2], name
