"""Rows of sheets as a model reads them: columns with types and values, and the first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localrag.tables.sheets import Dataset, SheetColumn
from localrag.text.normalize import fold

_SAMPLE_ROWS = 3
_LONGEST_CELL = 40
_SHOWN_VALUES = 8
_MOST_SHOWN = 30
"""Columns that a model is shown; of more, those whose names and values touch the question."""


def relevant(question: str, columns: Sequence[SheetColumn]) -> tuple[SheetColumn, ...]:
    """The columns that a model is shown, in their order."""
    if len(columns) <= _MOST_SHOWN:
        return tuple(columns)
    asked = fold(question)

    def touches(column: SheetColumn) -> int:
        texts = (column.name, *column.values)
        return sum(len(text) for text in texts if len(text) > 1 and fold(text) in asked)

    best = sorted(columns, key=lambda column: -touches(column))[:_MOST_SHOWN]
    return tuple(column for column in columns if column in best)


def described(
    dataset: Dataset, columns: Sequence[SheetColumn], empty_rows: Mapping[str, int] = {}
) -> str:
    """A dataset as a model reads it: columns with types and values, and the first rows.

    `empty_rows` says in how many a column has nothing, by its key.
    """
    lines = []
    for column in columns:
        kind = {"money": "REAL", "number": "REAL", "date": "TEXT, dates as YYYY-MM-DD"}.get(
            column.kind, "TEXT"
        )
        note = f" ({column.unit})" if column.unit else ""
        values = [_cut(value) for value in column.values[:_SHOWN_VALUES]]
        shown = f": {', '.join(values)}" if values and column.kind == "text" else ""
        more = ", …" if len(column.values) > _SHOWN_VALUES and shown else ""
        empty = empty_rows.get(column.key)
        nulls = f"; NULL in {empty} rows" if empty else ""
        lines.append(f"- {column.key} {kind}{note}{shown}{more}{nulls}")
    places = [dataset.columns.index(column) for column in columns]
    sample = [
        " | ".join(_cut("" if row[place] is None else str(row[place])) for place in places)
        for row in dataset.rows[:_SAMPLE_ROWS]
    ]
    heads = " | ".join(column.key for column in columns)
    names = [source.replace("\\", "/").rpartition("/")[2] for source in dataset.sources[:6]]
    together = ", ".join(names) + ", all in one table" * (len(names) > 1)
    return "\n".join(
        [f"data of {together}", *lines, f"{len(dataset.rows)} rows:", heads, *sample, "…"]
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
