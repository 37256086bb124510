"""Tables by name: what is asked of which documents, kept in the library and asked of it again.

A cell is found by the content of its document, so a table that was saved lives: whatever comes or
changes is what is left to ask.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from localrag.errors import LibraryDamagedError, UsageError
from localrag.library.library import Library
from localrag.tables.documents import check_columns
from localrag.tables.records import Column, SavedTable

LONGEST_NAME = 100
"""Code points of a table's name."""


class _SavedTable(msgspec.Struct, forbid_unknown_fields=True):
    """What is kept of a table besides its name and patterns."""

    columns: tuple[Column, ...]
    words: str = ""
    types: tuple[str, ...] = ()
    paths: bool = False


def save_table(library: Library, saved: SavedTable) -> None:
    """Keep a table, in place of an older one of its name.

    Raises UsageError for a name that is empty, too long or not to be shown, and as `check_columns`.
    """
    check_columns(saved.columns)
    if not saved.name.strip() or len(saved.name) > LONGEST_NAME or not saved.name.isprintable():
        raise UsageError(
            "A table cannot be saved as {name}.",
            hint="Give a name of up to {most} characters.",
            name=repr(saved.name[: LONGEST_NAME + 1]),
            most=LONGEST_NAME,
        )
    record = _SavedTable(saved.columns, saved.words, saved.types, saved.paths)
    library.save_table(saved.name, saved.patterns, msgspec.json.encode(record).decode())


def saved_tables(library: Library) -> list[SavedTable]:
    """All of them, by name."""
    return [
        _saved(library, name, patterns, record)
        for name, (patterns, record) in library.saved_tables().items()
    ]


def saved_table(library: Library, name: str) -> SavedTable:
    """The one of that name. Raises UsageError where there is none."""
    tables = library.saved_tables()
    if name not in tables:
        raise _unknown(name, tables)
    return _saved(library, name, *tables[name])


def forget_table(library: Library, name: str) -> None:
    """Forget the one of that name. Raises UsageError where there is none."""
    if not library.forget_table(name):
        raise _unknown(name, library.saved_tables())


def _saved(library: Library, name: str, patterns: tuple[str, ...], record: str) -> SavedTable:
    try:
        read = msgspec.json.decode(record, type=_SavedTable)
    except msgspec.MsgspecError as error:
        raise LibraryDamagedError(
            "The saved table {name} of the library {directory} cannot be read: {reason}.",
            hint="Remove it with `localrag tables remove`, and save it again.",
            name=name,
            directory=str(library.location),
            reason=error,
        ) from error
    return SavedTable(name, patterns, read.columns, read.words, read.types, read.paths)


def _unknown(name: str, known: Iterable[str]) -> UsageError:
    names = list(known)
    return UsageError(
        "There is no saved table {name}.",
        hint="There are: {known}." if names else "Save one with `localrag table --save`.",
        name=name,
        known=", ".join(names[:20]),
    )
