"""The statements of the catalogue, which are SQLite's, in the words of PostgreSQL.

Few words differ, and each of them stands here. The tables are made from those that the migrations
make in SQLite, so that there is one schema: every table gets a column `library` and is partitioned
by it, and the partitions of one library lie in a schema of its own, under the tables' names. A
statement that names a table can so only mean that library's rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache

from localrag.library.catalogue.base import quoted
from localrag.library.catalogue.filters import Glob
from localrag.library.catalogue.migrations import MIGRATIONS

SCHEMA = "localrag"
"""Where the partitioned tables lie, with the list of libraries."""

_OWN = 2
"""Changes of what only a database has: files of uploads, jobs, and what users may do with them."""

NEAREST = "nearest"
"""The table of a library with the vectors that pgvector searches, where it does."""

_TYPES = {"INTEGER": "bigint", "TEXT": 'text COLLATE "C"', "BLOB": "bytea", "": 'text COLLATE "C"'}
"""By code points, as SQLite orders texts. What has no type (the value of a setting) is a text."""

_WORDS = (
    (re.compile("%"), "%%"),
    (re.compile(r"\bjson_each\(\?\)"), "json_array_elements_text(CAST(? AS json))"),
    (re.compile(r"\bhex\(([\w.]+)\)"), r"upper(encode(\1, 'hex'))"),
    (re.compile(r"\bGLOB\b"), "~"),
    (re.compile(r"\bx''"), "CAST('' AS bytea)"),
    (re.compile(r"\?"), "%s"),
)

_INTO = re.compile(r"(INSERT INTO (\w+)) (VALUES|SELECT)\b")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as SQLite has it: columns with their definitions, keys, references, indexes."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]
    references: tuple[tuple[str, str], ...]
    """A column, and the table whose key it holds."""
    indexes: tuple[tuple[bool, tuple[str, ...]], ...]
    """Whether unique, and the columns."""


_TEXT, _NUMBER, _BYTES = (f"{_TYPES[kind]} NOT NULL" for kind in ("TEXT", "INTEGER", "BLOB"))

FILES = Relation(
    "files",
    {"source": _TEXT, "part": _NUMBER, "data": _BYTES},
    ("source", "part"),
    (("source", "sources"),),
    (),
)
"""The bytes of what was uploaded, which a library in a folder keeps as files: gone with the path
under which it was added."""


def version() -> int:
    """The number of the schema: each migration counts, and each change of what it has beside."""
    return len(MIGRATIONS) + _OWN


@cache
def tables() -> dict[str, Relation]:
    """All tables of a catalogue by name, those that are referred to first."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for step in MIGRATIONS:
            step(fresh)
        names = fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        made = {name: _table(fresh, name) for (name,) in names.fetchall()}
        return made | {FILES.name: FILES}


def jobs() -> Iterator[str]:
    """The table of jobs, which are taken by number and found by the library, as statements.

    One of each library runs at a time: an index sees to that.
    """
    yield (
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.jobs("
        "number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        f"library integer NOT NULL REFERENCES {SCHEMA}.libraries ON DELETE CASCADE, "
        "kind text NOT NULL, arguments jsonb NOT NULL, asked_by text NOT NULL, "
        "state text NOT NULL DEFAULT 'waiting' "
        "CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')), "
        "node text NOT NULL DEFAULT '', lease timestamptz, due timestamptz NOT NULL DEFAULT now(), "
        "attempts integer NOT NULL DEFAULT 0, progress jsonb NOT NULL DEFAULT '{}', "
        "declined jsonb NOT NULL DEFAULT '{}', fault jsonb, "
        "made timestamptz NOT NULL DEFAULT now(), began timestamptz, ended timestamptz)"
    )
    yield (
        f"CREATE UNIQUE INDEX IF NOT EXISTS jobs_running ON {SCHEMA}.jobs(library) "
        "WHERE state = 'running'"
    )
    yield f"CREATE INDEX IF NOT EXISTS jobs_by_library ON {SCHEMA}.jobs(library, number)"


def _table(fresh: sqlite3.Connection, name: str) -> Relation:
    columns, key = {}, {}
    for _, column, kind, _, default, place in fresh.execute(f"PRAGMA table_info({name})"):
        columns[column] = f"{_TYPES[kind]} NOT NULL" + (f" DEFAULT {default}" if default else "")
        if place:
            key[place] = column
    references = fresh.execute(f"PRAGMA foreign_key_list({name})").fetchall()
    indexes = []
    for _, index, unique, origin, _ in fresh.execute(f"PRAGMA index_list({name})").fetchall():
        if origin != "pk":
            within = fresh.execute(f"PRAGMA index_info({index})").fetchall()
            indexes.append((bool(unique), tuple(str(row[2]) for row in within)))
    return Relation(
        name,
        columns,
        tuple(key[place] for place in sorted(key)),
        tuple((str(row[3]), str(row[2])) for row in references),
        tuple(indexes),
    )


def first_settings() -> list[tuple[str, str]]:
    """What stands in `meta` of a new catalogue."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for step in MIGRATIONS:
            step(fresh)
        return [(key, str(value)) for key, value in fresh.execute("SELECT key, value FROM meta")]


def home(number: int) -> str:
    """The schema in which the partitions of a library lie."""
    return f"{SCHEMA}_{number}"


def definitions() -> Iterator[str]:
    """The partitioned tables, as statements; what is there already stays, with what it lacks added.

    The key ends with the library: within a partition the other columns are what is looked up.
    """
    for table in tables().values():
        name = f"{SCHEMA}.{table.name}"
        parts = [f'"{column}" {kind}' for column, kind in table.columns.items()]
        parts.append("library integer NOT NULL")
        if table.key:
            parts.append(f"PRIMARY KEY ({quoted((*table.key, 'library'))})")
        for column, parent in table.references:
            key = quoted((*tables()[parent].key, "library"))
            parts.append(
                f'FOREIGN KEY ("{column}", library) REFERENCES {SCHEMA}.{parent}({key}) '
                "ON DELETE CASCADE"
            )
        yield f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)}) PARTITION BY LIST (library)"
        for column, kind in table.columns.items():
            yield f'ALTER TABLE {name} ADD COLUMN IF NOT EXISTS "{column}" {kind}'
        for unique, columns in table.indexes:
            label = f"{table.name}_by_{'_'.join(columns)}"
            kind = "UNIQUE INDEX" if unique else "INDEX"
            column_list = quoted((*columns, "library") if unique else columns)
            yield f"CREATE {kind} IF NOT EXISTS {label} ON {name} ({column_list})"


def partitions(number: int) -> Iterator[str]:
    """The partitions of one library, as statements; those that are there stay."""
    yield f"CREATE SCHEMA IF NOT EXISTS {home(number)}"
    for name in tables():
        own = f"{home(number)}.{name}"
        parent = f"{SCHEMA}.{name}"
        yield f"CREATE TABLE IF NOT EXISTS {own} PARTITION OF {parent} FOR VALUES IN ({number})"
        yield f"ALTER TABLE {own} ALTER COLUMN library SET DEFAULT {number}"


def without_nearest(number: int) -> Iterator[str]:
    """What takes the vectors away that pgvector searches in a library, as statements."""
    yield f"DROP TRIGGER IF EXISTS keep_{NEAREST} ON {home(number)}.embeddings"
    yield f"DROP FUNCTION IF EXISTS {home(number)}.keep_{NEAREST}()"
    yield f"DROP TABLE IF EXISTS {home(number)}.{NEAREST}"


def without(number: int) -> Iterator[str]:
    """What takes the partitions of a library away, as statements.

    Never by CASCADE: that would take the parents' references along, which keep all libraries true.
    Detached is only what others refer to, as that locks what it refers to in all libraries: where
    everything was, a server with its default settings ran out of locks at about 120 libraries.
    """
    yield from without_nearest(number)
    parents = {parent for table in tables().values() for _, parent in table.references}
    for name in reversed(tables()):
        own = f"{home(number)}.{name}"
        if name in parents:
            yield f"ALTER TABLE {SCHEMA}.{name} DETACH PARTITION {own}"
        yield f"DROP TABLE {own}"
    yield f"DROP SCHEMA {home(number)}"


@cache
def translated(sql: str) -> str:
    """A statement of `reads` or `writes` for PostgreSQL, with `%s` for each value."""
    for word, other in _WORDS:
        sql = word.sub(other, sql)
    # A column that came with an upgrade stands behind `library` there.
    return _INTO.sub(lambda m: f"{m[1]}({quoted(tables()[m[2]].columns)}) {m[3]}", sql)


def value(given: object) -> object:
    """A value as PostgreSQL takes it: a pattern as a regular expression, no NUL in a text."""
    if isinstance(given, Glob):
        return _expression(given.partition("\0")[0])  # as far as SQLite reads it
    return given.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(given, str) else given


def _expression(pattern: str) -> str:
    """What SQLite's GLOB means, as a regular expression: `*`, `?`, `[...]`, `[^...]`."""
    parts, place = [], 0
    while place < len(pattern):
        sign = pattern[place]
        # A bracket that comes first in a set belongs to it.
        negated = pattern.startswith("[^", place)
        end = pattern.find("]", place + 2 + negated) if sign == "[" else -1
        if end > 0:
            inner = _members(pattern[place + 1 + negated : end])
            parts.append(f"[{'^' if negated else ''}{inner}]")
            place = end
        elif sign == "[":
            return "$."  # a set without an end matches nothing
        else:
            parts.append({"*": ".*", "?": "."}.get(sign) or _literal(sign))
        place += 1
    return f"^(?:{''.join(parts)})$"


def _members(inner: str) -> str:
    """What stands in a set: signs, and ranges from one that stands before it as a sign, too.

    A range that runs backwards has nothing in it, which a regular expression cannot say.
    """
    expression, first, place = "", "", 0
    while place < len(inner):
        sign, last = inner[place], inner[place + 1 : place + 2]
        if sign == "-" and first and last:
            expression += f"{_literal(first)}-{_literal(last)}" if first <= last else ""
            first, place = "", place + 2
        else:
            expression += _literal(sign)
            # No range begins with a bracket, which stands in a set as its first sign alone.
            first, place = sign.replace("]", ""), place + 1
    return expression


def _literal(sign: str) -> str:
    return re.sub(r"(\W)", r"\\\1", sign)
