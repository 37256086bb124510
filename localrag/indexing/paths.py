"""What is known of paths: which file a path leads to, whether it is as it was, what is gone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from localrag.documents.files import whereabouts
from localrag.library.records import FileState
from localrag.system.files import storable_name, storable_path

RACY_NS = 2_000_000_000
"""The coarsest clock of a file system in use (FAT): a younger file may still change unnoticed."""

_LINKS = 64
"""Paths that a chain of links is followed over; the system itself gives up at forty."""


def storable_ns(state: os.stat_result) -> int:
    """The modification time, in what SQLite can hold: a wrong clock may say the year 2400."""
    return max(-(2**63), min(state.st_mtime_ns, 2**63 - 1))


def is_as_read(state: FileState, size: int, mtime_ns: int) -> bool:
    """Whether a file is surely what it was when its bytes were last hashed."""
    same = (state.size, state.mtime_ns) == (size, mtime_ns)
    return same and mtime_ns + RACY_NS < state.checked_ns


def state_of(path: str) -> tuple[os.stat_result, bool]:
    """What the system says of a file, and whether it is a link that leads there: one question."""
    status = os.lstat(path)
    # Windows says of a file that lies elsewhere (in a cloud) what is here of it.
    if stat.S_ISREG(status.st_mode) and not getattr(status, "st_reparse_tag", 0):
        return status, False
    return os.stat(path), stat.S_ISLNK(status.st_mode)  # noqa: PTH116 - of many


def origins(path: Path) -> tuple[str, ...]:
    """Where a file lies now, and each path that the links on the way there lead over."""
    start, real = os.path.abspath(path), os.path.realpath(path)  # noqa: PTH100
    names = {real}
    todo = [start] if real != start else []
    while todo and len(names) < _LINKS:
        current = Path(todo.pop())
        for place in (current, *current.parents):
            try:
                target = os.readlink(place)  # noqa: PTH115 - as it is written
            except (OSError, ValueError):
                continue  # no link
            led = os.path.abspath(place.parent / target / current.relative_to(place))  # noqa: PTH100
            if led not in names:
                names.add(led)
                todo.append(led)
    return tuple(sorted(storable_path(Path(name)) for name in names))


class Origins:
    """`origins`, of many files in few folders and as it was when the folder was first met."""

    def __init__(self) -> None:
        self._straight: dict[str, bool] = {}

    def __call__(self, absolute: str, *, link: bool) -> tuple[str, ...]:
        """Where a file lies now, and each path that the links on the way there lead over.

        `link` says whether the file itself is one.
        """
        folder = os.path.dirname(absolute)  # noqa: PTH120 - of many
        if folder not in self._straight:
            self._straight[folder] = os.path.realpath(folder) == folder
        if self._straight[folder] and not link:
            return (storable_name(absolute),)
        return origins(Path(absolute))


def holds_something(folder: str | Path) -> bool:
    """Whether a folder is there with anything in it, as far as the system says."""
    with suppress(OSError), os.scandir(folder) as entries:
        return any(entries)
    return False


def lay_in_empty(source: str) -> bool:
    """Whether nothing is left in the nearest folder of a path that is there.

    That is what a drive leaves behind which is not mounted.
    """
    folder = next((parent for parent in Path(source).parents if os.path.isdir(parent)), None)  # noqa: PTH112
    return folder is not None and not holds_something(folder)


def gone_from(paths: Sequence[Path], missing: Iterable[str]) -> list[str]:
    """Those of the `missing` sources below added folders that are surely no longer there."""
    folders = {storable_path(path) for path in paths if path.is_dir()}
    return sorted(
        source
        for source in missing
        if not folders.isdisjoint(map(str, Path(source).parents))
        and whereabouts(Path(source)) is None
    )
