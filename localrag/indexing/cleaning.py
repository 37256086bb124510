"""What a parser or a file system may hand over and a database cannot hold."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from localrag.types import Document, Heading, Page

_LINKS = 64
"""Paths that a chain of links is followed over; the system itself gives up at forty."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def storable(document: Document, source: str) -> Document:
    """The document with U+FFFD for lone surrogates, which are no text; offsets stay."""
    return replace(
        document,
        source=source,
        title=_clean(document.title),
        pages=tuple(Page(page.number, _clean(page.text)) for page in document.pages),
        headings=tuple(
            Heading(heading.start, heading.level, _clean(heading.text))
            for heading in document.headings
        ),
        metadata={_clean(name): _clean(value) for name, value in document.metadata.items()},
    )


def storable_path(path: Path) -> str:
    """The absolute path; bytes of a name that are no UTF-8 are written as hexadecimal escapes."""
    absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves ".." in
    return os.fsencode(absolute).decode("utf-8", "backslashreplace")


def origins(path: Path) -> tuple[str, ...]:
    """Where a file lies now, and each path that the links on the way there lead over."""
    start, real = os.path.abspath(path), os.path.realpath(path)  # noqa: PTH100
    found = {real}
    todo = [start] if real != start else []
    while todo and len(found) < _LINKS:
        one = Path(todo.pop())
        for place in (one, *one.parents):
            try:
                target = os.readlink(place)  # noqa: PTH115 - as it is written
            except (OSError, ValueError):
                continue  # no link
            led = os.path.abspath(place.parent / target / one.relative_to(place))  # noqa: PTH100
            if led not in found:
                found.add(led)
                todo.append(led)
    return tuple(sorted(storable_path(Path(one)) for one in found))


def _clean(text: str) -> str:
    return _LONE_SURROGATE.sub("\ufffd", text)
