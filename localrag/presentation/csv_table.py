"""The results of an evaluation as a table for a spreadsheet: one row a question and run.

Texts come from documents and models. A spreadsheet computes a cell that begins with = + - @ or
a tab, and what it computes may call programs and addresses; such a cell gets an apostrophe in
front, which spreadsheets take as "this is text" (OWASP, "CSV Injection"). Where ; or a tab is what
stands between cells, as for Excel in much of Europe, a text is several: each gets its own.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable

from localrag.evaluation.results import Report
from localrag.presentation.reports import with_old_names
from localrag.printable import as_text

_SIGNS = frozenset("=+-@＝＋－＠")
_DASH = re.compile(
    r"\s*[-+](?:\s+[^\W\d_]+(?=[\s,.:]|\Z)[^(|!]*|\d[\d.,]*(?:\s[^\d+*/^&<>=(|!-]*)?)"
)
"""A part of a text that begins with a sign and computes nothing: "- oil", "-5 °C at night"; not
"- A1", "-5 +6"."""
_BREAKS = frozenset("\t\r\n")
_SEPARATOR = re.compile(r"([;\t\r\n])")  # see annex;=1+1


def cell(value: str | float | bool | None) -> str | float:
    """A value as a cell: numbers stay numbers, texts are never computed."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return float(value)
    first, *others = _SEPARATOR.split(value)
    parts = [f"'{first}" if _first_sign(first) in _SIGNS else first, *map(_within, others)]
    text = as_text("".join(parts))
    return f"'{text}" if value[:1] in _BREAKS else text


def _within(part: str) -> str:
    """A part behind a separator."""
    return f"'{part}" if _first_sign(part) in _SIGNS and not _DASH.fullmatch(part) else part


def _first_sign(part: str) -> str:
    # Some programs take away quotes, blanks and what is not seen before they look.
    seen = (sign for sign in part if sign != '"' and unicodedata.category(sign)[0] not in "ZC")
    return next(seen, "")


def csv_bytes(rows: Iterable[Iterable[str | float | bool | None]]) -> bytes:
    """Rows in UTF-8 with a mark, without which Excel takes Chinese for Latin letters."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows(map(cell, row) for row in rows)
    return file.getvalue().encode("utf-8-sig")


def csv_table(report: Report) -> bytes:
    """The table, as bytes of a file.

    Columns: run, id, question, answerable, reference, answer, refused, seconds, sources of the
    passages (one a line, with the page), and each metric, empty where it is not defined.
    One that was renamed has a last column of its former name until the next release.
    """
    rows: list[dict[str, str | float | bool | None]] = [
        {
            "run": run.name,
            "id": row.sample.id,
            "question": row.sample.question,
            "answerable": row.sample.answerable,
            "reference": " / ".join(row.sample.references),
            "answer": row.response.answer,
            "refused": row.refused,
            "seconds": row.response.seconds,
            "sources": "\n".join(
                f"{context.source} {context.first_page or ''}".strip()
                for context in row.response.contexts or ()
            ),
        }
        | with_old_names({metric: score.value for metric, score in row.scores.items()})
        for run in report.runs
        for row in run.scored
    ]
    return csv_bytes([list(rows[0]), *(row.values() for row in rows)])
