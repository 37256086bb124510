"""Rows of another month than the one that a question is about.

Sheets are alike from month to month, and so are the rows of a log: "cold room on 21 April" is
answered from the row of 21 May as surely as from its own, by the search and by the model. Of 46
questions of others that name a month the row that answers never has one date alone that is of
another month, and 240 of 632 other rows have (`benchmarks/probes/lookups.jsonl`;
`benchmarks/log/2026-11.md`, 2026-11-30, "another month").
"""

from __future__ import annotations

from localrag.documents.cards import own_date
from localrag.documents.chunking import whole_text
from localrag.documents.formats.table import shown_name
from localrag.documents.tables import named_rows
from localrag.text.figures import Month, months
from localrag.types import ScoredChunk


def is_of_another(month: Month | None, row: str) -> bool:
    """Whether a row has a single date, and that of another month, where one is asked for.

    What has two may be valid from the one to the other.
    """
    dates = months(row) if month else []
    return month is not None and len(dates) == 1 and not month.may_be(dates[0])


def are_of_others(month: Month | None, passage: ScoredChunk) -> bool:
    """Whether a passage is rows of other months alone, where one is asked for.

    By the dates of its rows, or that of its file where they have none.
    """
    if month is None or not passage.chunk.columns:
        return False
    named = months(whole_text(passage.chunk)) + of_file(passage.chunk.title, passage.source)
    if any(map(month.may_be, named)):
        return False
    rows = [months(text) for _, _, text in named_rows(passage.chunk)]
    return bool(named) and all(len(dates) < 2 for dates in rows)


def of_file(title: str, source: str) -> list[Month]:
    """The months that a document's title and its file's name give."""
    own = own_date(title, source)
    day = f"{own}-01" if len(own) == len("2024-11") else own
    return months(f"{title}\n{shown_name(source).replace('_', ' ')}\n{day}")
