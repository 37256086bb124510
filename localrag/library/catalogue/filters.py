"""Which passages a search may find: a record of wishes, and the SQL that they become.

The wishes are about documents, so they are looked up in the catalogue before anything is
searched: the k best passages are then the k best of those allowed, not what is left of the k
best of all.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from localrag.documents.formats import table
from localrag.errors import UsageError
from localrag.languages import CODES, LanguageCode

_RELATIVE = re.compile(r"(?:~|\.\.?)[/\\]")
_LONGEST = 10_000
"""Code points of a pattern, of which SQLite takes 50,000 bytes."""
_MOST_SOURCES = 500
"""Of which each is a part of an expression; SQLite takes none that is nested a thousand deep."""
LAST_PAGE = (1 << 53) - 1
"""The last page that can be asked for: a number that every database and every client holds."""
_PATH = r"replace(s.path, '\', '/')"


class Glob(str):
    """A pattern for SQLite's GLOB, which other databases have under another name."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a passage must have to be found; all that is given must hold.

    Raises `UsageError` for a value that makes no sense. A filter that nothing
    satisfies is no error: nothing is found.

    >>> Filter(types=("pdf",), pages=(3, 10))
    """

    sources: tuple[str, ...] = ()
    """Files, one of which it must be in: a whole path, or its end: "report.pdf"."""
    types: tuple[str, ...] = ()
    """Formats, one of which it must be in, by their names in `documents.formats.table`."""
    path: str = ""
    """A pattern with `*`, `?` and `[...]` for the path, or for its end from the start of a name:
    "contracts/*.pdf". `*` stands for folders too."""
    language: LanguageCode | None = None
    """The language of the document; one with sentences of both has either."""
    since: date | None = None
    """Its document came into the library then or later: a moment, or a day of local time."""
    until: date | None = None
    """Its document came into the library then or before; a day counts to its end."""
    pages: tuple[int, int | None] | None = None
    """First and last page, None: to the end. It must stand on one of them at least in part.
    Files without pages have one page 1."""
    without: frozenset[str] = frozenset()
    """Ids of documents that it must not be in."""
    within: frozenset[str] | None = None
    """Paths as the library has them, one of which must hold it; see `by_names`. None: any."""

    def __post_init__(self) -> None:
        for file_type in self.types:
            if file_type not in table.names():
                raise UsageError(
                    "There is no file type {given}.",
                    hint="Choose from: {known}.",
                    given=file_type,
                    known=", ".join(table.names()),
                )
        if self.language not in (None, *CODES):
            raise UsageError(
                "Documents cannot be filtered by the language {given}.",
                hint="Choose from: {known}.",
                given=self.language,
                known=", ".join(CODES),
            )
        if not all(self.sources) or isinstance(self.sources, str):
            raise UsageError(
                "Files to search in must be given as a tuple of non-empty names.",
                hint="Name a file as `localrag status` lists it.",
            )
        if len(self.sources) > _MOST_SOURCES:
            raise UsageError(
                "{count} files are too many to search in; at most {most}.",
                hint="Use --path with a pattern, or search in all.",
                count=len(self.sources),
                most=_MOST_SOURCES,
            )
        if len(self.path) > _LONGEST:
            raise UsageError(
                "A pattern of {count} characters is too long; at most {most}.",
                hint="Use * for what may be anything.",
                count=len(self.path),
                most=_LONGEST,
            )
        if self.pages is not None:
            first, last = self.pages
            if not 1 <= first <= (LAST_PAGE if last is None else last) <= LAST_PAGE:
                raise UsageError(
                    "There are no pages from {first} to {last}.",
                    hint=(
                        "Pages are numbered from 1, and the first must not come after the "
                        "last: 3-10, 7 or 3-."
                    ),
                    first=first,
                    last="" if last is None else last,
                )
        for moment in (self.since, self.until):
            try:  # a time zone may lead out of the calendar, at either of its ends
                if moment is not None:
                    _from(moment)
                    _before(moment)
            except (OverflowError, ValueError, OSError) as error:
                raise UsageError(
                    "No document can have been added on {moment}.",
                    hint="Give a date such as 2026-07-31.",
                    moment=moment,
                ) from error
        for id_ in self.without:
            if not id_.isprintable():  # a database takes no NUL, not even in JSON
                raise UsageError("There is no document {name}.", hint="Leave it out.", name=id_)
        if self.since and self.until and _from(self.since) >= _before(self.until):
            raise UsageError(
                "No day lies both on or after {since} and on or before {until}.",
                hint="The first day must not be after the last.",
                since=self.since,
                until=self.until,
            )

    def by_names(self, names: Mapping[str, str]) -> Filter:
        """The same where files go by these names, which stand by their paths: never by a path.

        What the client of a server may say of `within` does not count: it would be a path.
        """
        if not (self.sources or self.path):
            return replace(self, within=None)
        condition, values = source_conditions(Filter(sources=self.sources, path=self.path))
        known = json.dumps(sorted(set(names.values())))
        query = f"SELECT s.path FROM (SELECT value AS path FROM json_each(?)) s WHERE {condition}"  # noqa: S608
        with closing(sqlite3.connect(":memory:")) as nowhere:
            matches = {name for (name,) in nowhere.execute(query, (known, *values))}
        within = frozenset(path for path, name in names.items() if name in matches)
        return replace(self, sources=(), path="", within=within)

    def anywhere(self) -> Filter:
        """The same for a process in another folder and another time zone.

        Paths are whole where the current folder counts, days are moments.
        """
        return replace(
            self,
            sources=tuple(map(_anywhere, self.sources)),
            path=_slashed(self.path),
            since=self.since and datetime.fromisoformat(_from(self.since)),
            until=self.until and datetime.fromisoformat(_before(self.until)) - timedelta(seconds=1),
        )


def source_conditions(wanted: Filter) -> tuple[str, list[object]]:
    """SQL and its values that hold for a row `s` of sources and its row `d` of documents."""
    parts: list[tuple[str, Sequence[object]]] = []
    if wanted.sources:
        names = [_slashed(source) for source in wanted.sources]
        whole = [_whole(name) for name in wanted.sources]
        end = f"substr({_PATH}, length({_PATH}) - length(?))"
        clause = f"({_PATH} IN (?, ?) OR {end} = '/' || ?)"
        values = [
            v for name, full in zip(names, whole, strict=True) for v in (name, full, name, name)
        ]
        parts.append((" OR ".join([clause] * len(names)), values))
    if wanted.types:
        parts.append(_of_types(wanted.types))
    if wanted.path:
        pattern = _slashed(wanted.path)
        either = [Glob(pattern), Glob(f"*/{pattern}")]
        parts.append((f"{_PATH} GLOB ? OR {_PATH} GLOB ?", either))
    if wanted.language:
        parts.append(("d.language IN (?, 'mixed')", [wanted.language]))
    if wanted.since:
        parts.append(("d.added_at >= ?", [_from(wanted.since)]))
    if wanted.until:
        parts.append(("d.added_at < ?", [_before(wanted.until)]))
    if wanted.without:
        out = json.dumps(sorted(wanted.without))
        parts.append(("d.id NOT IN (SELECT value FROM json_each(?))", [out]))
    if wanted.within is not None:
        paths = json.dumps(sorted(wanted.within))
        parts.append(("s.path IN (SELECT value FROM json_each(?))", [paths]))
    sql = " AND ".join(f"({condition})" for condition, _ in parts)
    return sql or "1 = 1", [value for _, values in parts for value in values]


def _of_types(types: Sequence[str]) -> tuple[str, list[object]]:
    """The suffixes of the types; text is whatever has no suffix of another."""

    def any_of(suffixes: Sequence[str]) -> str:
        return " OR ".join(["lower(s.path) GLOB ?"] * len(suffixes))

    own_suffixes, known = table.suffixes(types), table.suffixes()
    sql, values = any_of(own_suffixes), own_suffixes
    if table.TEXT.name in types:
        sql, values = f"{sql} OR NOT ({any_of(known)})", own_suffixes + known
    return sql, [Glob(f"*{suffix}") for suffix in values]


def page_conditions(wanted: Filter) -> tuple[str, list[object]]:
    """SQL and its values that hold for a row `c` of chunks."""
    if wanted.pages is None:
        return "1 = 1", []
    first, last = wanted.pages
    if last is None:
        return "c.last_page >= ?", [first]
    return "c.last_page >= ? AND c.first_page <= ?", [first, last]


def _anywhere(name: str) -> str:
    """A name or the end of a path as it is; whole, where it needs the current folder or a home."""
    is_end = _slashed(os.path.normpath(name)) == _slashed(name) and not name.startswith("~")
    return name if is_end else _whole(name)


def _whole(name: str) -> str:
    return _slashed(os.path.abspath(os.path.expanduser(name)))  # noqa: PTH100, PTH111


def _slashed(name: str) -> str:
    if _RELATIVE.match(name):
        name = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 - * is no path
    return name.replace("\\", "/")


def _from(moment: date) -> str:
    """The first second of a day or a moment, as the catalogue writes it."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _before(moment: date) -> str:
    """The first second after a day or a moment, as the catalogue writes it."""
    if not isinstance(moment, datetime):
        return _from(moment + timedelta(days=1))
    return _from(moment + timedelta(seconds=1))
