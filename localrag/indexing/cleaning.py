"""Paths as a database can hold them, and where a file lies."""

from __future__ import annotations

import os
from pathlib import Path

_LINKS = 64
"""Paths that a chain of links is followed over; the system itself gives up at forty."""


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
