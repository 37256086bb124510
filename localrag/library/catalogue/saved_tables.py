"""Tables that are kept by a name: which documents they have and what they ask, no answers.

Of `patterns` this module knows that they name documents: one that is the name of a file goes with
it.
What else belongs to a table is a record that the caller can read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import msgspec

from localrag.library.catalogue.base import Connection, delete_rows
from localrag.library.catalogue.guarded import damaged_rows
from localrag.library.catalogue.reads import Snapshot

_KIND = re.compile(r"/\*(?:\.[^/]*)?\Z")
"""The end of a pattern for all files of a kind, such as "ports/*.txt"."""

Definition = tuple[tuple[str, ...], str]
"""Patterns and record."""


def saved_tables(snapshot: Snapshot) -> dict[str, Definition]:
    """All of them, by name."""
    rows = snapshot.sql.rows(
        "SELECT name, patterns, record FROM saved_tables ORDER BY name", kinds=(str, str, str)
    )
    return {name: (_decoded(patterns), record) for name, patterns, record in rows}


def _decoded(patterns: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(patterns, type=tuple[str, ...])
    except msgspec.MsgspecError as error:
        raise damaged_rows(patterns[:100]) from error


def save_table(sql: Connection, name: str, patterns: Iterable[str], record: str) -> None:
    """Keep a table in place of an older one of that name."""
    sql.execute("DELETE FROM saved_tables WHERE name = ?", (name,))
    packed = json.dumps(list(patterns), ensure_ascii=False)
    sql.execute("INSERT INTO saved_tables VALUES (?, ?, ?)", (name, packed, record))


def forget_table(sql: Connection, name: str | None = None) -> bool:
    """Drop a table, or all; whether there was one."""
    return delete_rows(sql, "saved_tables", "name", name)


def forget_files(sql: Connection, snapshot: Snapshot, gone: Iterable[str]) -> None:
    """Drop patterns that name one of these files alone, and tables of which no pattern is left."""
    tables = saved_tables(snapshot)
    if not tables:
        return
    there = set(snapshot.paths())
    gone = [path for path in gone if path not in there]
    for name, (patterns, record) in tables.items():
        left = [
            pattern for pattern in patterns if not _names(pattern, gone) or _names(pattern, there)
        ]
        if len(left) == len(patterns):
            continue
        if left:
            save_table(sql, name, left, record)
        else:
            forget_table(sql, name)


def normalised(pattern: str) -> str:
    """A pattern as paths are compared with it: `./ports/elm.txt/` is `ports/elm.txt`."""
    return pattern.replace("\\", "/").removeprefix("./").rstrip("/")


def _names(pattern: str, paths: Iterable[str]) -> bool:
    """Whether it is one of these paths, or the end of one, letter by letter.

    Also where it has a sign that stands for others: a file may be called `What is tea?.txt`. But
    `*.txt` is no name: files of a folder that are not read go by it together.
    """
    end = f"/{normalised(pattern)}".replace("//", "/")
    return not _KIND.search(end) and any(
        f"/{path}".replace("\\", "/").endswith(end) for path in paths
    )
