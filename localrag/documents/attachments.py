"""Files inside a file get paths below its own: each name one component, safe on every system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from localrag.documents.formats.table import Attachment
from localrag.documents.lines import squeeze
from localrag.text.normalize import clean

_UNNAMED = "attachment"
_LONGEST = 120
"""Code points of a name: 255 bytes is what file systems have."""
_LONGEST_SUFFIX = 12

_NOT_IN_NAMES = re.compile(r'[<>:"|?*\0]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)\s*(?:\.|\Z)", re.IGNORECASE)


def named(attached: Iterable[Attachment]) -> Iterator[tuple[str, Attachment]]:
    """Each with its name: equal ones, small and capital letters being one, get a number."""
    counts: dict[str, int] = {}
    for attachment in attached:
        name = safe_name(attachment.name)
        while (count := counts.get(name.casefold(), 0)) > 0:
            counts[name.casefold()] = count + 1
            stem, suffix = _parted(name)
            name = f"{stem} ({count + 1}){suffix}"
        counts[name.casefold()] = 1
        yield name, attachment


def safe_name(name: str) -> str:
    """One component of a path: no way out of a folder, no device, nothing unseen, not too long."""
    pieces = re.split(r"[/\\]", squeeze(clean(name)))
    last = next((piece for piece in map(_trimmed, reversed(pieces)) if piece), _UNNAMED)
    stem, suffix = _parted(_NOT_IN_NAMES.sub("_", last))
    safe = _trimmed(stem[: _LONGEST - len(suffix)]) + suffix
    return f"_{safe}" if _DEVICE.match(safe) else safe


def _trimmed(name: str) -> str:
    return name.strip(" .")


def _parted(name: str) -> tuple[str, str]:
    stem, dot, suffix = name.rpartition(".")
    return (stem, dot + suffix) if stem and len(suffix) < _LONGEST_SUFFIX else (name, "")
