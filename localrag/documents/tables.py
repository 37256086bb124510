"""Tables as lines of text: the cells of a row, and rows with the names of their columns.

Knows nothing about file formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from localrag.types import Chunk, Columns

CELL_BREAK = " | "
"""What stands between two cells of a table row."""

BAR = re.compile(r"(?:(?<=\s)|^)\|(?=\s|$)", re.MULTILINE)
"""The sign between two cells, wherever blanks were taken from the ends of a row."""

CUT_SHORT = "…"
"""Ends the name of a column that is longer than passages have room for."""


def cells(row: str) -> list[str]:
    """The cells of a row, also of a part of one."""
    return [cell.strip() for cell in BAR.split(row)]


def with_names(text: str, columns: Sequence[Columns]) -> str:
    """A passage in which each cell stands behind the name of its column; empty cells go."""
    if not columns:
        return text
    parts: list[str] = []
    done = 0
    for each in columns:
        rows = text[each.start : each.end].split("\n")
        named = (shown for row in rows if (shown := _named(row, each.names)))
        parts += text[done : each.start], "\n".join(named)
        done = each.end
    return "".join([*parts, text[done:]])


def shown_text(chunk: Chunk) -> str:
    """What a model reads of a passage: its text, with the header of its tables in each row."""
    return with_names(chunk.text, chunk.columns)


def named_rows(chunk: Chunk) -> Iterator[tuple[int, int, str]]:
    """Where the rows of named tables stand in a passage, and each as a model reads it."""
    for each in chunk.columns:
        start = each.start
        for row in chunk.text[each.start : each.end].split("\n"):
            if row.strip():
                yield start, start + len(row), _named(row, each.names)
            start += len(row) + 1


def _named(row: str, names: Sequence[str]) -> str:
    values = cells(row)
    if _repeats_header(values, names):
        return row
    pairs = zip_longest(names, values, fillvalue="")
    return CELL_BREAK.join(f"{name}: {value}" if name else value for name, value in pairs if value)


def _repeats_header(values: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a row says the header again, as at the top of a page; or a line of it does."""
    pairs = [pair for pair in zip_longest(values, names, fillvalue="") if pair[0]]
    return bool(pairs) and all(
        value in name or (name.endswith(CUT_SHORT) and value.startswith(name[:-1]))
        for value, name in pairs
    )
