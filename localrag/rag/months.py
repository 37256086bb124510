"""Rows of another month than the one that a question is about.

Sheets are alike from month to month, and so are the rows of a log: "cold room on 21 April" is
answered from the row of 21 May as surely as from its own, by the search and by the model. Of 180
questions of others 136 name one month so that it is known: of the rows that do not answer them 62
of 421 are set aside by this, of those that do none of 131; of tables without an answer 18 of 44, of
the others none of 92. Each pattern is there because without it answers are lost, or less is set
aside (`python benchmarks/months.py benchmarks/probes/months.jsonl`).
"""

from __future__ import annotations

import re

from localrag.documents.cards import own_date
from localrag.documents.chunking import whole_text
from localrag.documents.formats.table import shown_name
from localrag.documents.tables import CELL_BREAK, named_rows
from localrag.languages import any_of
from localrag.text.figures import Month, any_is_open, months
from localrag.types import ScoredChunk

_DAY_COLUMN = re.compile(any_of(lambda language: language.documents.day_column), re.IGNORECASE)

_BEFORE_DIGITS = re.compile(r"(?<=[^\W\d])(?=\d)")
"""Between a word and the digits behind it: "march25". Of 257 questions of others over sheets of
several files 75 are given the right one alone, 68 without this, and none another one
(`tests/tables/test_answering.py`)."""


def says_when(column: str) -> bool:
    """Whether a column by its name says when something was, and not from or until when it holds."""
    return _DAY_COLUMN.fullmatch(column.strip()) is not None


def is_of_another(month: Month | None, row: str) -> bool:
    """Whether a row is of another month than the one that is asked for: by its only date.

    What has two may be valid from the one to the other.
    """
    day = _day_of(row) if month else None
    return month is not None and day is not None and not month.may_be(day)


def _day_of(row: str) -> Month | None:
    """The month of the day that a row is of, by the names of its columns; None where none is."""
    cells = [cell.partition(": ") for cell in row.split(CELL_BREAK)]
    dates = [(name, month) for name, _, value in cells for month in months(value)]
    is_one = len(dates) == 1 and says_when(dates[0][0])
    return dates[0][1] if is_one and not any_is_open(row) else None


def are_of_others(month: Month | None, passage: ScoredChunk) -> bool:
    """Whether a passage is rows of other months alone, where one is asked for.

    By the days of all of them, or by the month of their file where no column says when.
    """
    if month is None or not passage.chunk.columns:
        return False
    names = of_file(passage.chunk.title, passage.source)
    if any(map(month.may_be, months(whole_text(passage.chunk)) + names)):
        return False
    dated = [text for _, _, text in named_rows(passage.chunk) if months(text)]
    if dated:
        return all(map(_day_of, dated))
    columns = (name for column in passage.chunk.columns for name in column.names)
    return bool(names) and not any(map(says_when, columns))


def of_file(title: str, source: str) -> list[Month]:
    """The months that a document's title and its file's name give."""
    own = own_date(title, source)
    day = f"{own}-01" if len(own) == len("2024-11") else own
    name = _BEFORE_DIGITS.sub(" ", shown_name(source).replace("_", " "))
    return months(f"{title}\n{name}\n{day}")
