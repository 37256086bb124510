"""Files that could not be read: what an `add` knew of them, and what it learns.

One that failed before and has not changed since is not tried again, unless it was given up for
the time that it took: that says as much of the machine.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from localrag.documents.files import whereabouts
from localrag.errors import (
    OldFormatError,
    ParsingError,
    PassedOverError,
    SlowFileError,
    UnsupportedFileError,
)
from localrag.indexing.events import Committed, IndexingEvent, Linked, Unchanged
from localrag.library.records import FileState, UnreadFile
from localrag.system.files import storable_path
from localrag.types import READER


class Failures:
    """The files below what is added that could not be read."""

    def __init__(self, before: Iterable[UnreadFile] = (), named: Iterable[str] = ()) -> None:
        """`before` is what the library remembers; what is `named` is tried again."""
        self._before = {file.state.path: file for file in before}
        self._named = frozenset(named)
        self._files: dict[str, UnreadFile] = {}
        self._new: list[UnreadFile] = []

    def known(self, source: str) -> UnreadFile | None:
        """The last attempt to read a file, if another would come to the same."""
        file = self._before.get(source)
        return file if file and file.reader == READER and source not in self._named else None

    def inside(self, source: str) -> list[UnreadFile]:
        """The files inside a file that could not be read."""
        folder = source + os.sep
        return [file for path, file in self._before.items() if path.startswith(folder)]

    def tries_inside(self, source: str) -> bool:
        """Whether another attempt at what is inside a file may come to something else."""
        return any(
            "count" not in file.error.values
            and (
                source in self._named
                or file.reader not in (0, READER)
                or isinstance(file.error, SlowFileError)
            )
            for file in self.inside(source)
        )

    def add(self, file: UnreadFile) -> None:
        """Take note of a file that could not be read."""
        path = file.state.path
        self._files[path] = file
        if not _is_same(self._before.get(path), file):
            self._new.append(file)

    def skip(self, skipped: Iterable[ParsingError]) -> None:
        """Take note of what was passed over: of files of other types, how many in each folder."""
        others: Counter[tuple[str, str]] = Counter()
        samples: dict[tuple[str, str], ParsingError] = {}
        for error in skipped:
            path = Path(storable_path(Path(str(error.values.get("source", "")))))
            if isinstance(error, UnsupportedFileError):
                kind = str(path.parent), path.suffix.lower()
                others[kind] += 1
                samples[kind] = error
            else:
                self.add(UnreadFile(FileState(str(path), 0, 0, 0), error))
        for (folder, suffix), count in others.items():
            path = Path(folder) / f"*{suffix}"
            error = samples[folder, suffix]
            values = error.values | {"source": str(path), "count": count}
            summary = type(error)(error.message, hint=error.hint, **values)
            self.add(UnreadFile(FileState(str(path), 0, 0, 0), summary))

    def new(self) -> list[UnreadFile]:
        """What the library does not remember yet; each once."""
        new, self._new = self._new, []
        return new

    def obsolete(
        self, events: Mapping[type[IndexingEvent], Sequence[Any]], added: Iterable[Path]
    ) -> list[str]:
        """What the library need no longer remember: files that were read by now, or are gone."""
        new = {event.source for kind in (Committed, Linked) for event in events.get(kind, ())}
        read = new | {event.source for event in events.get(Unchanged, ())}
        roots = {Path(storable_path(path)) for path in added}
        return [
            path
            for path, file in self._before.items()
            if path not in self._files
            and (
                path in read
                or not new.isdisjoint(map(str, Path(path).parents))  # what it lies in
                or (not roots.isdisjoint((Path(path), *Path(path).parents)) and _is_gone(file))
            )
        ]


def refused(error: ParsingError) -> UnreadFile | None:
    """A folder or file on the way that could not be opened; None for what need not be read."""
    if isinstance(error, UnsupportedFileError | PassedOverError):
        return None
    path = storable_path(Path(str(error.values.get("source", ""))))
    return UnreadFile(FileState(path, 0, 0, 0), error)


def below(paths: Iterable[Path], files: Iterable[UnreadFile]) -> list[UnreadFile]:
    """Those of the files that lie at or below the paths."""
    roots = {Path(storable_path(path)) for path in paths}
    return [
        file
        for file in files
        if not roots.isdisjoint((Path(file.state.path), *Path(file.state.path).parents))
    ]


def is_lacking(file: UnreadFile) -> bool:
    """Whether it should have been read: no files of other types, no links passed over."""
    return "count" not in file.error.values and not isinstance(file.error, PassedOverError)


def failed(state: FileState, error: ParsingError) -> UnreadFile:
    """What there is to remember of a file that was tried in vain."""
    again = isinstance(error, OldFormatError | SlowFileError)
    return UnreadFile(state, error, 0 if again else READER)


def _is_same(earlier: UnreadFile | None, other: UnreadFile) -> bool:
    """Whether two attempts came to the same, so that the later need not be kept."""
    if earlier is None:
        return False
    same = (earlier.state.size, earlier.state.mtime_ns) == (other.state.size, other.state.mtime_ns)
    tried = other.reader == 0 or earlier.state.checked_ns == other.state.checked_ns
    same_error = type(earlier.error) is type(other.error) and str(earlier.error) == str(other.error)
    return same and tried and same_error and earlier.reader == other.reader


def _is_gone(file: UnreadFile) -> bool:
    """Whether there is nothing left at its path; what lies in a file goes with that file."""
    met_on_the_way = not (file.state.size or file.state.mtime_ns)  # nothing of it was read
    if met_on_the_way or Path(file.state.path).is_dir():
        return True  # else it would have been met again
    return whereabouts(Path(file.state.path)) is None
