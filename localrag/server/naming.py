"""What files are called in all that leaves the server: names of the library's own, never paths.

A file goes by its name, and before it that of the mail that it is attached to. Where several have
it, as many folders go before it as tell them apart, but none that they all share and no
person's home; a number follows where that is not enough. Names are for showing: no path is
ever made of one.
"""

from __future__ import annotations

import posixpath
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePath
from typing import Any, TypeVar

from localrag.documents.formats.table import attaches, shown_name, slashed
from localrag.errors import (
    ForbiddenError,
    LibraryError,
    LibraryLockedError,
    LibraryUnreachableError,
    LocalragError,
)
from localrag.library.folder.gate import UPLOADS
from localrag.library.library import Library
from localrag.library.records import DocumentRecord, Problem
from localrag.rag.base import Piece
from localrag.tables.records import Cell, Row, Table
from localrag.tables.totals import totals
from localrag.types import Answer, Step

E = TypeVar("E", bound=LocalragError)

_HOME = re.compile(r"/(?:home|Users)/[^/]+|/root|[A-Za-z]:/Users/[^/]+")
_PATH = re.compile(
    r"(?<![\w./\\\]-])(?:file://)?(?:[A-Za-z]:[\\/]|\\\\|/(?=[^/\s]))"
    r"""(?:[^\s'"<>|:]|:(?![ \n])| )*"""
)
"""A whole path in a sentence, such as "/srv/my papers/a.pdf" in one that says where that is.

The sentence is as `_with_ends` gives it: a blank in it is part of a path, a line end is none.
"""
_CLAUSE = re.compile(r"""[^'"<>|:]+""")
"""What a path with blanks stays within, such as "cannot open /srv/my papers/a.pdf"."""
_OTHER_SPACE = re.compile(r"[^\S ]")
"""Space that is in no path, such as a tab."""

LONGEST_VALUE = 500
"""Code points of a value that an error tells: a client may send what fills a book."""

_DATABASE = re.compile(r"postgres(?:ql)?://[^#\n]*(#)?")
"""What stands before the name of a library in the URL of one in a database: "postgresql://db/x#".

Where no # follows it is no such URL, but matched too: else its rest is looked through again.
"""

_DATABASE_ERRORS = {
    LibraryLockedError: "Something else is being written to the library {library}.",
    LibraryUnreachableError: "The database of the library {library} cannot be reached.",
    ForbiddenError: "The database of the library {library} does not allow this.",
    LibraryError: "The database of the library {library} cannot do this.",
}
"""What is said of an error of a database, the more special ones first."""


class Naming:
    """The names of one library's files. May be used from several threads.

    Made once for all, and again when a path turns up that is new: a name stays until another file
    of that name is met.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._names: Mapping[str, str] = {}
        self._places: Mapping[str, str] = {}
        self._making = threading.Lock()

    def of(self, path: str) -> str:
        """What the file at a path of the catalogue is called."""
        if path not in self._names:
            with self._making:
                if path not in self._names:
                    self._names = own_names(self._library.paths())
        return self._names.get(path) or shown_name(path)

    def located(self, path: str) -> str:
        """Its own name, below the folders that not all files share and that may be told."""
        if path not in self._places:
            with self._making:
                if path not in self._places:
                    self._places = below_shared(self._library.paths())
        return self._places.get(path) or shown_name(path)

    def containing(self, words: str) -> list[str]:
        """The paths of files that have these words in their names, whatever their case."""
        sought = words.lower()
        return [path for path in self._library.paths() if sought in self.of(path).lower()]

    def document(self, record: DocumentRecord) -> DocumentRecord:
        """A document with names for paths."""
        return replace(record, sources=tuple(map(self.of, record.sources)))

    def problem(self, problem: Problem) -> Problem:
        """A problem with names for paths, also in its reason."""
        note, error = problem.note, problem.error
        return replace(
            problem,
            source=self.of(problem.source),
            note=note and replace(note, values=_without_paths(note.values)),
            error=error and without_paths(error),
        )

    def forget(self) -> None:
        """Keep no name in memory, such as one of a file that was removed."""
        self._names, self._places = {}, {}


def below_shared(paths: Iterable[str]) -> dict[str, str]:
    """Of each path what may be told of it: the file's own name, and folders not shared by all.

    Files that lie in several places share little; of those in each place the last folder is told
    that they have in common, and none above it.
    """
    parts = {path: slashed(path).split("/") for path in paths}
    folders = {path: names[:-1] for path, names in parts.items()}
    places: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for path, names in folders.items():
        home = _HOME.match("/".join(names))
        depth = home[0].count("/") + 1 if home else 2
        places[tuple(names[:depth]) if UPLOADS not in names else (UPLOADS,)].append(path)
    several = len(places.keys() - {(UPLOADS,)}) > 1
    shown_names = {}
    for some in places.values():
        shared = _count_shared_folders(folders[path] for path in some) - several
        for path in some:
            top = min(_top(folders[path], shared), len(folders[path]))
            shown_names[path] = "/".join(parts[path][top:])
    return shown_names


def _count_shared_folders(folders: Iterable[list[str]]) -> int:
    """How many folders all of these have in common, but for uploads."""
    others = [path for path in folders if UPLOADS not in path]
    ends = zip(min(others), max(others), strict=False) if others else ()
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))


def named_table(table: Table, name_of: Callable[[Row], str]) -> Table:
    """A table of documents with names for the paths of its rows and of what these cite."""

    def named(cell: Cell, name: str) -> Cell:
        cited = tuple(replace(citation, source=name) for citation in cell.citations)
        return replace(cell, citations=cited)

    rows = []
    for row in table.rows:
        name = name_of(row)
        cells = tuple(named(cell, name) for cell in row.cells)
        rows.append(replace(row, source=name, cells=cells))
    return replace(table, rows=tuple(rows), totals=totals(rows, len(table.columns)))


def own_names(paths: Iterable[str]) -> dict[str, str]:
    """A name for each path, no two alike."""
    within: dict[str, str] = {}
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        folder, _, name = slashed(path).rpartition("/")
        if folder not in within:
            within[folder] = shown_name(folder) + "/" if attaches(folder) else ""
        alike[within[folder] + name].append(path)
    names: dict[str, str] = {}
    for name, several in alike.items():
        names |= {several[0]: name} if len(several) == 1 else _tell_apart(name, several)
    return _number_duplicates(names)


def _tell_apart(name: str, paths: Sequence[str]) -> dict[str, str]:
    """Names for files that all have this one, as far as folders tell them apart."""
    parts = {path: slashed(path).split("/") for path in paths}
    folders = {path: segments[: -1 - name.count("/")] for path, segments in parts.items()}
    shared = _count_shared_folders(folders.values())
    top = {path: _top(folder, shared) for path, folder in folders.items()}
    names: dict[str, str] = {}
    alike = {name: list(paths)}
    while alike:
        longer: defaultdict[str, list[str]] = defaultdict(list)
        for known, several in alike.items():
            for path in several:
                first = len(parts[path]) - 1 - known.count("/")
                if len(several) == 1 or first <= top[path]:  # nothing more of it is told
                    names[path] = known
                else:
                    longer["/".join(parts[path][first - 1 :])].append(path)
        alike = longer
    return names


def _top(folders: list[str], shared: int) -> int:
    """The first part of a path that is told: below what all share, and of an upload that it is."""
    if UPLOADS in folders:
        return len(folders) - 1 - folders[::-1].index(UPLOADS)
    home = _HOME.match("/".join(folders))
    return max(1, shared, home[0].count("/") + 1 if home else 0)  # never a drive or an account


def _number_duplicates(names: dict[str, str]) -> dict[str, str]:
    """With a number in what is still alike, which never is the name of another."""
    names_in_use, next_number = set(names.values()), dict[str, int]()
    for path, name in names.items():
        if name not in next_number:
            next_number[name] = 2
            continue
        stem, suffix = posixpath.splitext(name)
        # From 2 again for each of them, thousands of files of one name would take minutes.
        while (numbered := f"{stem} ({next_number[name]}){suffix}") in names_in_use:
            next_number[name] += 1
        names[path] = numbered
        names_in_use.add(numbered)
    return names


def without_paths(error: E) -> E:
    """An error that names files where its values are paths, or texts with paths in them.

    Of a library in a database it names the library: not account, host, database, other processes,
    nor what the database said itself, which has these too.
    """
    template: LocalragError = error
    in_database = next(
        (value for value in error.values.values() if _is_in_database(str(value))), None
    )
    if in_database is not None and any(map(_is_private, error.values, error.values.values())):
        kind = next((kind for kind in _DATABASE_ERRORS if isinstance(error, kind)), LibraryError)
        template = LibraryError(
            _DATABASE_ERRORS[kind],
            hint="Try again in a while; you can still search meanwhile."
            if kind is LibraryLockedError
            else "Try again soon; the log of the server says more.",
            library=in_database,
        )
    values = {name: _shortened(value) for name, value in _without_paths(template.values).items()}
    return type(error)(template.message, hint=template.hint, **values)


def _is_in_database(text: str) -> bool:
    url = _DATABASE.match(text)
    return url is not None and url[1] is not None


def _shortened(value: object) -> object:
    """A value without its middle where it is longer than `LONGEST_VALUE`.

    After paths have become names, never before: the end of a path says what its name is, and that
    of a URL that it is one of a database. A reason often says at its end where something is.
    """
    if value is None or isinstance(value, LocalragError | int | float):
        return value
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    half = LONGEST_VALUE // 2
    return value if len(text) <= LONGEST_VALUE else f"{text[:half]}…{text[-half:]}"


def _is_private(name: str, value: object) -> bool:
    said_by_it = name == "reason" and not isinstance(value, LocalragError)
    return said_by_it or name in ("account", "host", "pid", "command")


def told(piece: Piece) -> Piece:
    """A piece of an answer whose steps name files too, where one says why it has failed."""
    if isinstance(piece, Answer):
        return replace(piece, trace=tuple(map(_step, piece.trace)))
    return _step(piece) if isinstance(piece, Step) else piece


def _step(step: Step) -> Step:
    reason = step.values.get("failed")
    return step if reason is None else replace(step, values=_without_paths(step.values))


def _without_paths(values: Mapping[str, object]) -> dict[str, Any]:
    return {name: _name_value(value) for name, value in values.items()}


def _name_value(value: object) -> object:
    if isinstance(value, LocalragError):
        return without_paths(value)
    if value is None or isinstance(value, int | float):  # a template may ask for its digits
        return value
    text = _DATABASE.sub(lambda url: "" if url[1] else url[0], str(value))
    is_path = isinstance(value, PurePath) or ": " not in text  # else a reason follows
    named = shown_name(text) if is_path else text
    if named == text:
        named = _with_names(text)
    return value if named == str(value) else named


def _with_names(text: str) -> str:
    """A text with names for the paths in it."""
    parts, end = list[str](), 0
    for path in _PATH.finditer(_with_ends(text)):
        whole = text[path.start() : path.end()].removeprefix("file://")
        parts += text[end : path.start()], shown_name(whole)
        end = path.end()
    return "".join((*parts, text[end:]))


def _with_ends(text: str) -> str:
    """A text of the same length where a line end, and no other, is a blank that ends a path.

    A blank is part of a path where a further folder follows in its clause. What follows is looked
    for once in a clause, not at each of its blanks: a client may send a great many.
    """

    def with_end(clause: re.Match[str]) -> str:
        last = max(clause[0].rfind("/"), clause[0].rfind("\\")) + 1
        return clause[0][:last] + clause[0][last:].replace(" ", "\n")

    return _CLAUSE.sub(with_end, _OTHER_SPACE.sub("\t", text))
