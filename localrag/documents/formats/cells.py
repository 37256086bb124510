"""The cells of a spreadsheet, by row and column: a cell costs what it holds, wherever it stands."""

from __future__ import annotations

import datetime
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from localrag.documents.formats.numbers import plain
from localrag.documents.lines import CELL_BREAK, grouped, squeeze, without_empty_end
from localrag.text.normalize import clean

MOST_CELLS = 3_000_000
"""Cells with a value that are read of one file."""
MOST_MERGED = 5_000_000
"""Cells that are looked at in one sheet to repeat merged ones."""
MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
Row = tuple[int, list[str]]
"""The number of a row, from 0, and its cells."""
Rows = list[Row]
"""Rows that stand together."""
Range = tuple[int, int, int, int]
"""First row and column, last row and column, all from 0."""


@dataclass(slots=True)
class Sheet:
    """What a sheet shows."""

    name: str
    tables: list[Rows] = field(default_factory=list)
    """Rows that stand together; a row with one value alone is a title or a text."""
    remarks: list[str] = field(default_factory=list)
    """Titles of charts, texts of shapes, and comments, a line each."""
    hidden: dict[str, int] = field(default_factory=dict)
    """How many rows or columns with values were left out, or "sheet"."""
    formulas: int = 0
    """How many have no result in the file."""
    cut_short: bool = False


def tables(rows: dict[int, dict[int, str]], hidden: Collection[int] = ()) -> list[Rows]:
    """The tables of a sheet, from top to bottom; columns that are empty in all rows are left out.

    An empty row ends a table where the next one has other columns, or begins with words alone; an
    empty column does where other rows stand on its other side. A `hidden` row is no empty one.
    """

    def belongs(group: list[int], number: int) -> bool:
        return _touches(rows, group[-1], number, hidden) or _goes_on(rows, group, number)

    sheet_tables = []
    for group in grouped(sorted(rows), belongs):
        for columns in _side_by_side(rows, group):
            every = ((row, [rows[row].get(column, "") for column in columns]) for row in group)
            sheet_tables += _without_titles([row for row in every if any(row[1])])
    return sheet_tables


def _touches(
    rows: dict[int, dict[int, str]], above: int, number: int, hidden: Collection[int]
) -> bool:
    """Whether a row follows the one above, and has cells below it."""
    following = above + 1
    while following in hidden:
        following += 1
    if number != following:
        return False
    upper, lower = rows[above], rows[number]
    return min(lower) <= max(upper) and min(upper) <= max(lower)


def _goes_on(rows: dict[int, dict[int, str]], group: list[int], number: int) -> bool:
    first, last = rows[group[0]], rows[group[-1]]
    row = rows[number]
    extent = min(row), max(row)
    same = extent in ((min(first), max(first)), (min(last), max(last)))
    return len(row) > 1 and same and any(_is_number(cell) for cell in row.values())


def _is_number(text: str) -> bool:
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def _side_by_side(rows: dict[int, dict[int, str]], group: list[int]) -> list[list[int]]:
    """The used columns of each of the tables that stand beside one another."""
    extents: dict[int, tuple[int, int]] = {}
    for row in group:
        for column in rows[row]:
            extents[column] = (extents.get(column, (row, row))[0], row)
    joined: list[list[int]] = []
    for part in grouped(sorted(extents), lambda part, column: column == part[-1] + 1):
        alone = len(part) == 1 or (joined and len(joined[-1]) == 1)
        if joined and (alone or _reach(extents, joined[-1]) == _reach(extents, part)):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def _reach(extents: dict[int, tuple[int, int]], columns: list[int]) -> tuple[int, int]:
    return (
        min(extents[column][0] for column in columns),
        max(extents[column][1] for column in columns),
    )


def _without_titles(table: Rows) -> list[Rows]:
    """The table, and before it each row above it that has one value, as one of its own."""
    above = 0
    while above < len(table) and sum(map(bool, table[above][1])) == 1:
        above += 1
    titles = [[(number, list(filter(None, cells)))] for number, cells in table[:above]]
    return titles + ([table[above:]] if above < len(table) else [])


def repeat_merged(rows: dict[int, dict[int, str]], merged: list[Range]) -> None:
    """Let each cell of merged ones say what the first does, where others stand beside them.

    A title that is merged over a row of its own stands once.
    """
    left = MOST_MERGED
    widest = max((max(cells) for cells in rows.values()), default=0)
    for top, start, bottom, end in merged:
        value = rows.get(top, {}).get(start)
        if not value:
            continue
        for row in range(top, bottom + 1):
            cells = rows.get(row)
            left -= 1 + len(cells or ())
            if left < 0:
                return
            if cells is None or (row == top and all(start <= column <= end for column in cells)):
                continue
            for column in range(start, min(end, widest) + 1):
                left -= 1
                cells.setdefault(column, value)


def filled(rows: list[list[str]], merged: list[Range]) -> list[list[str]]:
    """The rows of a table in a text or on a slide, where merged cells say themselves in each."""
    cells = {
        number: {column: text for column, text in enumerate(row) if text}
        for number, row in enumerate(rows)
        if any(row)
    }
    repeat_merged(cells, merged)
    return [
        [cells.get(number, {}).get(column, "") for column in range(len(row))]
        for number, row in enumerate(rows)
    ]


def leave_out(
    rows: dict[int, dict[int, str]], hidden: Collection[int], columns: Sequence[tuple[int, int]]
) -> dict[str, int]:
    """Take out hidden rows, and columns from first to last; how many of each had values."""
    used = sorted({column for cells in rows.values() for column in cells}) if columns else []
    gone: set[int] = set()
    for first, last in columns:
        start, end = bisect_left(used, first), bisect_right(used, last)
        gone.update(used[start:end])
        del used[start:end]
    for cells in rows.values() if gone else ():
        for column in gone & cells.keys():
            del cells[column]
    for number in [row for row, cells in rows.items() if row in hidden or not cells]:
        del rows[number]
    counts = {"rows": len(hidden), "columns": len(gone)}
    return {what: count for what, count in counts.items() if count}


def cell_text(value: object) -> str:
    """A cell as a reader of the sheet sees it: whole numbers without a point, dates as ISO."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return plain(value)
    if isinstance(value, datetime.datetime):
        return value.strftime(
            "%Y-%m-%d" if value.time() == datetime.time() else "%Y-%m-%d %H:%M:%S"
        )
    return squeeze(clean(str(value)).replace("\n", " "))


def row_text(cells: list[str]) -> str:
    """A row on one line; empty cells hold their place, those at the end do not."""
    return CELL_BREAK.join(without_empty_end(cells))
