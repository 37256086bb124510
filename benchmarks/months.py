"""Rows and tables of another month than the one that a question names: what is set aside?

    python benchmarks/months.py benchmarks/probes/months.jsonl

Cases by people who knew neither the rule nor its patterns, a JSON object a line: `file`, `columns`,
`rows`, a `question`, and `answers`, the numbers of the rows that are needed, none where the table
has no answer. What is set aside and answers is lost. Each line of the table leaves one pattern out;
without the rule nothing is set aside and nothing lost. No model is read.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from localrag.documents.tables import CELL_BREAK, named_rows
from localrag.rag import months
from localrag.tables.linking import are_of_other_months
from localrag.tables.sheets import RawTable, dataset_of
from localrag.text import figures
from localrag.types import Chunk, Columns, ScoredChunk

NOTHING, ANYTHING = re.compile(r"(?!)"), re.compile(r".*")
VARIANTS: dict[str, tuple[tuple[Any, str, object], ...]] = {
    "as it is": (),
    "no month by itself": ((figures, "_BARE_MONTHS", ()),),
    "nothing opens before": ((figures, "_BEFORE_OPEN", NOTHING),),
    "nothing opens behind": ((figures, "_BEHIND_OPEN", NOTHING),),
    "no days in digits": ((figures, "_NUMERIC_DAY", NOTHING),),
    "any column says when": ((months, "_DAY_COLUMN", ANYTHING),),
}


class Case(msgspec.Struct):
    """A table and a question; `answers` are numbers of rows from 1."""

    file: str
    columns: list[str]
    rows: list[list[str | None]]
    question: str
    answers: list[int]


def main() -> None:
    """Print what each variant sets aside, and what of that answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path)
    cases = msgspec.json.Decoder(Case).decode_lines(parser.parse_args().cases.read_bytes())
    print("| | month | other rows | answers lost | without answer | lost | sheets | lost |")
    print("|---|---|---|---|---|---|---|---|")
    for name, replacements in VARIANTS.items():
        with ExitStack() as stack:
            for place, attribute, value in replacements:
                stack.enter_context(patch.object(place, attribute, value))
            print(f"| {name} | {' | '.join(counts(cases))} |")


def counts(cases: Sequence[Case]) -> list[str]:
    """Of questions that name one month what is set aside: "23/211" of those there are."""
    named = [(case, month) for case in cases if (month := figures.month_asked(case.question))]
    other_rows, answering_rows = list[bool](), list[bool]()
    passages: dict[bool, list[bool]] = {False: [], True: []}
    sheets: dict[bool, list[bool]] = {False: [], True: []}
    for case, month in named:
        passage = passage_of(case)
        rows = [text for _, _, text in named_rows(passage.chunk)]
        for number, text in enumerate(rows, 1):
            some = answering_rows if number in case.answers else other_rows
            some.append(months.is_of_another(month, text))
        has_answer = bool(case.answers)
        passages[has_answer].append(months.are_of_others(month, passage))
        places = [(row, 0) for row in range(1, len(case.rows) + 1)]
        raw = RawTable(case.file, "", tuple(case.columns), texts(case), places)
        sheets[has_answer].append(are_of_other_months(case.question, dataset_of([raw])))
    shares = (other_rows, answering_rows, passages[False], passages[True], *sheets.values())
    return [str(len(named)), *(f"{sum(some)}/{len(some)}" for some in shares)]


def texts(case: Case) -> list[tuple[str, ...]]:
    """The cells of each row, as many as there are columns."""
    width = len(case.columns)
    return [tuple([*(cell or "" for cell in row), *[""] * width][:width]) for row in case.rows]


def passage_of(case: Case) -> ScoredChunk:
    """The table as a passage of its file."""
    head, *lines = map(CELL_BREAK.join, [case.columns, *texts(case)])
    text = "\n".join([head, *lines])
    columns = (Columns(len(head) + 1, len(text), tuple(case.columns)),)
    return ScoredChunk(Chunk(1, "d", 0, text, "", 1, 1, 0, len(text), columns), 1.0, case.file)


if __name__ == "__main__":
    main()
