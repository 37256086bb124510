"""Tables as lines of text: the cells of a row, and rows with the names of their columns.

Knows nothing about file formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest

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
    """A passage in which each cell stands behind the name of its column.

    Empty cells go, and lines that say the header, where rows say it.
    """
    if not columns:
        return text
    parts: list[str] = []
    done = 0
    for column in columns:
        lines = text[column.start : column.end].split("\n")
        rows = [line for line in lines if not _is_header(cells(line), column.names)]
        named = (row_text for row in rows or lines if (row_text := _named_row(row, column.names)))
        parts += text[done : column.start], "\n".join(named)
        done = column.end
    return "".join([*parts, text[done:]])


def shown_text(chunk: Chunk) -> str:
    """What a model reads of a passage: its text, with the header of its tables in each row."""
    return with_names(chunk.text, chunk.columns)


def named_rows(chunk: Chunk) -> Iterator[tuple[int, int, str]]:
    """Where the rows of named tables stand in a passage, and each as a model reads it."""
    for column in chunk.columns:
        start = column.start
        for row in chunk.text[column.start : column.end].split("\n"):
            if row.strip():
                yield start, start + len(row), _named_row(row, column.names)
            start += len(row) + 1


def _named_row(row: str, names: Sequence[str]) -> str:
    values = cells(row)
    if _is_header(values, names):
        return row
    pairs = zip_longest(names[: len(values)], values, fillvalue="")
    return CELL_BREAK.join(f"{name}: {value}" if name else value for name, value in pairs if value)


def _is_header(values: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a line says the header or a part of it, also again, as at the top of a page."""
    names = names[: len(values)]
    pairs = [pair for pair in zip_longest(values, names, fillvalue="") if pair[0]]
    if all(_says(value, name) and _same(value, name) for value, name in pairs):
        return bool(pairs)
    # Numbers may stand in a name by chance.
    words = any(c.isalpha() for value, _ in pairs for c in value)
    words = words or all(_YEAR.fullmatch(value) for value, _ in pairs)
    return len(pairs) > 1 and words and all(_says(value, name) for value, name in pairs)


def _same(value: str, name: str) -> bool:
    return value == name or name.endswith(CUT_SHORT)


def _says(value: str, name: str) -> bool:
    """Whether a name has all the words of a cell, one after another."""
    cut = name.endswith(CUT_SHORT) and value.startswith(name[:-1])
    return cut or f" {value} " in f" {name} "


# From the cells that a file has to rows of equal columns

REPEATED = 100
"""Code points of a merged cell that is repeated in each row and column that it spans."""


def spread(rows: Iterable[Iterable[tuple[str, int, int]]]) -> list[list[str]]:
    """Rows of cells, each (text, columns, rows that it spans), as rows where all columns stand.

    A merged cell is repeated, so that each row says all of it, but for one as wide as the table
    and for long texts. What is repeated is bounded by what there is.
    """
    grid = [list(row) for row in rows]
    widest = max((sum(max(1, across) for _, across, _ in row) for row in grid), default=0)
    room = 10_000 + 4 * sum(len(text) + 3 for row in grid for text, _, _ in row)
    below: dict[int, tuple[str, int]] = {}
    done: list[list[str]] = []

    def pass_over(placed: list[str]) -> None:
        nonlocal room
        while len(placed) in below and room > 0:
            text, left = below.pop(len(placed))
            if left > 1:
                below[len(placed)] = text, left - 1
            placed.append(text)
            room -= len(text) + 3

    for row in grid:
        placed: list[str] = []
        for text, across, down in row:
            pass_over(placed)
            again = text if across < widest and len(text) <= REPEATED else ""
            for column in range(max(1, across)):
                if column and room <= 0:
                    break
                if down > 1 and room > 0:
                    below[len(placed)] = again, down - 1
                placed.append(again if column else text)
                room -= (len(again) + 3) if column else 0
        pass_over(placed)
        done.append(placed)
    return done


# Which rows of a table name its columns

_MOST_TITLES = 5
_MOST_HEADER_ROWS = 3
_LONGEST_NAME = 80
_LONGEST_FORM = 12
"""Rows of a form, pairs of a name and a value side by side; a longer one is a list."""
_LONGEST_LABEL = 20
_SAMPLE = 200
"""Rows that are looked at to tell numbers from words."""

_NUMBER = re.compile(
    r"[-+−–±≤≥<>~≈约(（]*[¥￥$€£]?\s*\d[\d\s.,，:/–—~-]*(?:[eE][-+]?\d+)?\s*[)）]?\s*[%‰°℃+]?"
    r"(?:\s*[A-Za-zµμΩ²³/]{1,4}|\s*[元万亿千克吨个件年月日天人次页项]{1,2})?"
)
_DATE = re.compile(
    r"\d{4}\s*[-/.年]\s*\d{1,2}(?:\s*[-/.月]\s*\d{1,2}日?|\s*月)?(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?"
)
_NOTHING = re.compile(r"[-—–/\\*.…]*|n/?a|无|null|none", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d\s*年?")
_BAR_WITHIN = re.compile(r"(?:^|(?<!\s)\s+)\|(?=\s|$)\s*")
"""A bar with the blanks around it, from the first of them on: " | " in "a | b"."""
_COLON = re.compile(r"[:：]$")


def titles_of(rows: Sequence[Sequence[str]], *, remarks: bool = True) -> int:
    """How many of the first rows stand above a table: its title and remarks, no rows of it.

    No `remarks` where it is known that the first rows name the columns.
    """
    number = 0
    while number < min(len(rows), _MOST_TITLES):
        row, below = rows[number], rows[number + 1 : number + 2 + _SAMPLE]
        if not (_is_title(row) or (remarks and _is_remark(row, below))):
            break
        number += 1
    return number if any(len(_distinct(row)) > 1 for row in rows[number:]) else 0


def _is_title(row: Sequence[str]) -> bool:
    """Whether it says one thing, and not of some of the columns."""
    filled = [column for column, cell in enumerate(row) if cell]
    some = filled[0] > 0 and (len(filled) > 1 or _YEAR.fullmatch(row[filled[0]]) is not None)
    return len(_distinct(row)) == 1 and not some


def _is_remark(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a row stands above names that need nothing above them, such as "Kept by: Anna".

    Those below stand above numbers, as many as there are columns, each another one. A cell that
    spans columns is no remark, nor is a row that begins above the second, as groups of columns do,
    or fills more than two thirds of them, half where nothing is left out between its cells.
    """
    width = max((len(other) for other in below), default=0)
    spans = any(cell and cell == other for cell, other in pairwise(row))
    places = [place for place, cell in enumerate(row) if cell]
    most = width / 2 if len(places) == len(row) or places[-1] < len(places) else 2 * width / 3
    if not row[0] or spans or len(places) > most or not below or not names_numbers(below):
        return False
    names = names_of(below[: header_rows_of(below)])
    return len(names) == width and all(names) and len(set(names)) == width


def header_rows_of(
    rows: Sequence[Sequence[str]], *, styled: bool = False, named: bool = False
) -> int:
    """How many of the first rows name the columns; 0 where nothing speaks for it.

    Words above numbers do, and years above them; `styled`, a first row set off from the others,
    such as in bold; and short, distinct words above more than two columns that are no form.
    `named` says that files of this kind begin with names.
    """
    width = len({column for row in rows for column, cell in enumerate(row) if cell})
    if len(rows) < 2 or width < 2 or not _are_names(rows[0], rows[1 : 1 + _SAMPLE]):
        return 0
    counted = names_numbers(rows)
    if not counted and not named:
        if any(map(_YEAR.fullmatch, rows[0])):
            return 0
        if any(_COLON.search(cell) for row in rows[1 : 1 + _SAMPLE] for cell in row[:1]):
            return 0
        if not styled and (width == 2 or _is_form(rows, width)):
            return 0
    number = 1
    while number < min(_MOST_HEADER_ROWS, len(rows) - 1):
        above, row = rows[number - 1], rows[number]
        merged = any(a and a == b for a, b in pairwise(above))
        filled = any(b and not a for a, b in zip_longest(above, row, fillvalue=""))
        under = merged or (filled and counted)
        below = rows[number + 1 : number + 1 + _SAMPLE]
        # "Tea" beside "20 kg" and "30 kg" is a row; months below years are names.
        is_row = row[0] not in ("", above[0]) and any(map(_is_amount, row))
        if not under or is_row or not _are_names(row, below) or not names_numbers(rows[number:]):
            break
        number += 1
    names = [name for name in names_of(rows[:number]) if name]
    apart = [a for a, b in zip_longest(names, names[1:]) if a != b]
    distinct = len(set(apart)) >= max(2, 0.7 * len(apart))
    return number if distinct and 2 * len(names) >= width else 0


def names_numbers(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has words above a column of numbers, or years above columns."""
    first, body = rows[0], rows[1 : 1 + _SAMPLE]
    counted = 0
    for column, name in enumerate(first):
        values = _values(body, column)
        if not name or not values:
            continue
        if _YEAR.fullmatch(name):
            if sum(1 for cell in values if _YEAR.fullmatch(cell)) < 0.4 * len(values):
                return True
        elif not _is_number(name):
            if sum(map(_is_number, values)) >= 0.6 * len(values):
                return True
        elif _names_plain_numbers(name, values):
            counted += 1
    return counted > 1


def _values(rows: Sequence[Sequence[str]], column: int) -> list[str]:
    """The cells of a column that say something."""
    cells_of = (row[column] for row in rows if column < len(row))
    return [cell for cell in cells_of if not _NOTHING.fullmatch(cell)]


def _names_plain_numbers(name: str, values: Sequence[str]) -> bool:
    """Whether a number has letters and those below have none: "20GP" above 1550, "3月" above 12."""
    numbers = [value for value in values if _is_number(value)]
    are_plain = 2 * len(numbers) >= len(values) and not any(map(_has_letters, numbers))
    return _has_letters(name) and are_plain


def _is_amount(cell: str) -> bool:
    """Whether it is a number and no year."""
    return _is_number(cell) and not _YEAR.fullmatch(cell)


def _has_letters(cell: str) -> bool:
    return any(map(str.isalpha, cell))


def names_of(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The names of the columns, from the rows that say them; a name is not said twice."""
    width = max(map(len, rows), default=0)
    above = [_filled_on(row, below) for row, below in zip_longest(rows, rows[1:])]
    return tuple(
        " ".join(dict.fromkeys(row[column] for row in above if column < len(row) and row[column]))
        for column in range(width)
    )


def _filled_on(row: Sequence[str], below: Sequence[str] | None) -> list[str]:
    """A name that stands above several columns, at the first of them, for all of them."""
    filled = list(row)
    if below is not None:
        for column in range(1, len(below)):
            if column >= len(filled):
                filled.append("")
            under_one = column < len(row) and row[column]
            if not under_one and below[column] and below[column - 1]:
                filled[column] = filled[column - 1]
    return filled


def _are_names(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the cells of a row could name the columns of the rows below it.

    Short, and no numbers but years, and such as have letters above those that have none. One of
    these alone may be an amount: "Tea" and "20 kg" above "Milk" and "40".
    """
    numbers = [column for column, cell in enumerate(row) if _is_amount(cell)]
    if any(len(cell) > _LONGEST_NAME for cell in row):
        return False
    if not all(_names_plain_numbers(row[column], _values(below, column)) for column in numbers):
        return False
    return not numbers or names_numbers([row, *below])


def _is_form(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether names and values may stand in turn: every other column is short words, all new."""
    if width % 2 or len(rows) > _LONGEST_FORM:
        return False
    labels = [cell for row in rows for cell in row[::2] if cell]
    return len(set(labels)) == len(labels) and not any(
        len(label) > _LONGEST_LABEL or any(c.isdigit() for c in label) for label in labels
    )


def _is_number(cell: str) -> bool:
    return len(cell) < 40 and bool(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell))


def with_cells(row: Sequence[str]) -> str:
    """A row as one line; a bar of its own within a cell loses the blanks around it."""
    return CELL_BREAK.join(_BAR_WITHIN.sub("|", cell) if "|" in cell else cell for cell in row)


def notes_of(rows: Sequence[Sequence[str]]) -> int:
    """How many of the last rows are notes below a table: one long text each."""
    number = 0
    for row in reversed(rows):
        texts = _distinct(row)
        if len(texts) != 1 or len(texts.pop()) <= _LONGEST_NAME // 2:
            break
        number += 1
    return number


def _distinct(row: Sequence[str]) -> set[str]:
    return {cell for cell in row if cell}
