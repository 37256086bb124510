"""Files that were handed to a library, which keeps them in its folder `uploads`.

Such a file counts from the transaction on that adds it: one that is no source of the catalogue is
what an upload or a removal left that was cut off, and goes with the next that is done.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import Path

from localrag.library.folder.gate import UPLOADS, uploads
from localrag.system.files import is_plain_file

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


def free_place(directory: Path, name: str, others: Iterable[str] = ()) -> Path:
    """Where a file of that name goes: `name (2)` where there is one already, or among `others`."""
    folder, given = directory / UPLOADS, Path(name)
    taken = {path.name.casefold() for path in folder.iterdir()} if folder.is_dir() else set()
    taken.update(map(str.casefold, others))
    number = 1
    while name.casefold() in taken:
        number += 1
        name = f"{given.stem} ({number}){given.suffix}"
    return folder / name


def file_of(directory: Path, source: str) -> Path:
    """Where the file of a source lies now: an upload moves with its library."""
    folder, name = _last_two(source)
    kept = directory / UPLOADS / name
    return (
        kept
        if folder == UPLOADS and safe_name(name) == name and is_plain_file(kept)
        else Path(source)
    )


def uploaded(sources: Iterable[str]) -> set[str]:
    """The names of the files in `uploads` that are sources."""
    return {name for folder, name in map(_last_two, sources) if folder == UPLOADS}


def sweep_uploads(directory: Path, sources: Collection[str]) -> None:
    """Delete uploads that no source names; the caller may write."""
    known = uploaded(sources)
    for path in uploads(directory):
        if path.name not in known:
            path.unlink(missing_ok=True)


def _last_two(source: str) -> tuple[str, str]:
    folders, _, name = source.replace("\\", "/").rpartition("/")
    return folders.rpartition("/")[2], name
