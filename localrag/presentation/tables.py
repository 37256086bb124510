"""Tables in words and as files: cells, totals, statements of completeness, exports.

Texts come from documents. A spreadsheet computes a cell that begins with = + - @ or a tab, so no
text of a cell does in an export (`presentation.csv_table.cell`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from localrag.documents.formats.table import shown_name
from localrag.errors import UsageError
from localrag.messages import tr
from localrag.presentation.csv_table import csv_bytes
from localrag.presentation.durations import duration
from localrag.presentation.markdown import plain_line
from localrag.presentation.pages import render
from localrag.presentation.places import cited_as
from localrag.presentation.records import picked, plain
from localrag.presentation.steps import state_text
from localrag.printable import as_json, as_name
from localrag.tables.records import (
    Begun,
    Cell,
    Column,
    Completeness,
    SavedTable,
    Table,
    Total,
    Value,
)
from localrag.tables.values import separated

SUFFIXES = (".csv", ".html", ".json", ".md", ".xlsx")
_REASONS = {
    "no value": "the reply has not the kind of its column",
    "not cited": "no sentence of the document supports the reply",
    "not borne out": "the model is not sure that the document says so",
    "not in the quotation": "the figure does not stand in the quotation",
    "private": "a private document, which a model on another machine may not read",
    "failed": "the model failed: {reason}",
}
_TIMES = {
    "minute": "{number} {number:minute|minutes}",
    "hour": "{number} {number:hour|hours}",
    "day": "{number} {number:day|days}",
    "week": "{number} {number:week|weeks}",
    "month": "{number} {number:month|months}",
    "year": "{number} {number:year|years}",
}


def reason_text(cell: Cell) -> str:
    """Why a cell is doubtful or was not read, or ""."""
    if not cell.reason:
        return ""
    known = cell.reason if cell.reason in _REASONS else "failed"
    return tr(_REASONS[known], reason=cell.reason)


def begun_text(event: Begun) -> str:
    """How much there is to do."""
    return tr(
        "{documents} {documents:document|documents}, {columns} {columns:question|questions}: "
        "{cells} {cells:cell|cells} to read, about {time}."
        if event.to_read
        else "{documents} {documents:document|documents}, {columns} {columns:question|questions}: "
        "every cell has been read before.",
        documents=event.documents,
        columns=event.columns,
        cells=event.to_read,
        time=duration(max(1.0, event.seconds)),
    )


def value_text(value: Value) -> str:
    """A value for a reader: amounts with separators, yes and no in the reader's language."""
    if value.kind == "yes/no":
        return tr("yes") if value.text == "yes" else tr("no")
    if value.kind in ("number", "money") and value.number is not None:
        return amount_text(value.number, value.unit)
    return value.text


def amount_text(number: float, unit: str) -> str:
    """A number with separators of thousands, and its unit."""
    if unit in _TIMES:
        return tr(_TIMES[unit], number=int(number) if number == int(number) else number)
    text = separated(number)
    return f"{text}{unit}" if unit in ("", "%", "‰") else f"{unit} {text}"


def cell_text(cell: Cell, column: Column) -> str:
    """What stands in the grid: the value, or the state where there is none."""
    if cell.state in ("not stated", "not read"):
        return f"({state_text(cell.state)})"
    typed = cell.value is not None and column.kind not in (None, "text")
    text = value_text(cell.value) if typed and cell.value else cell.text
    return f"{text} ({state_text(cell.state)})" if cell.state == "doubtful" else text


def evidence_text(cell: Cell) -> str:
    """Where it stands and in which words, or ""."""
    return "; ".join(f"{cited_as(citation)}: “{citation.quote}”" for citation in cell.citations[:1])


def completeness_text(state: Completeness) -> str:
    """How many documents were read, and what is left open."""
    read = state.documents - state.not_read
    parts = [tr("{read} of {count} read", read=read, count=state.documents)]
    if state.not_stated:
        parts.append(tr("{count} not stated", count=state.not_stated))
    if state.doubtful:
        parts.append(tr("{count} doubtful", count=state.doubtful))
    parts.append(tr("none undecided") if state.final else tr("not final"))
    return tr("; ").join(parts)


def total_lines(column: Column, total: Total) -> list[str]:
    """What follows from a column, a line each; the statement of completeness comes last."""
    lines = []
    count = total.completeness.found
    if column.kind in ("number", "money"):
        for unit, amount in total.sums.items():
            low, high = total.least[unit], total.most[unit]
            lines.append(
                tr(
                    "sum {sum}; smallest {least} ({least_in}); largest {most} ({most_in})",
                    sum=amount_text(amount, unit),
                    least=value_text(low[0]),
                    least_in=shown_name(low[1]),
                    most=value_text(high[0]),
                    most_in=shown_name(high[1]),
                )
            )
        if len(total.sums) > 1:
            lines.append(tr("different units are not added up"))
    elif column.kind == "date" and "date" in total.least:
        low, high = total.least["date"], total.most["date"]
        lines.append(
            tr(
                "earliest {least} ({least_in}); latest {most} ({most_in})",
                least=low[0].text,
                least_in=shown_name(low[1]),
                most=high[0].text,
                most_in=shown_name(high[1]),
            )
        )
    elif column.kind == "one of":
        lines += (f"{choice} {total.counts.get(choice, 0)}" for choice in column.choices)
        lines = [tr("; ").join(lines)]
    elif column.kind == "yes/no":
        yes = total.counts.get("yes", 0)
        lines.append(tr("yes {yes} of {count}", yes=yes, count=count))
    lines.append(completeness_text(total.completeness))
    return lines


def table_json(table: Table) -> dict[str, Any]:
    """The table as plain data: what `--json` and a file of that suffix hold."""
    return {
        "columns": [_column_json(column) for column in table.columns],
        "rows": [
            picked(row, "source", "title", "document_id")
            | {"cells": [_cell_json(cell) for cell in row.cells]}
            for row in table.rows
        ],
        "totals": [
            {
                "completeness": plain(total.completeness) | {"final": total.completeness.final},
                "sums": total.sums,
                "smallest": _extremes(total.least),
                "largest": _extremes(total.most),
                "counts": total.counts,
            }
            for total in table.totals
        ],
        "seconds": round(table.seconds, 3),
    }


def _column_json(column: Column) -> dict[str, Any]:
    choices = {"choices": list(column.choices)} if column.choices else {}
    return {"question": column.question, "kind": column.kind or "text", **choices}


def saved_json(saved: SavedTable) -> dict[str, Any]:
    """A saved table as plain data; the kind of a column is null where its cells decide."""
    return {
        **picked(saved, "name", "patterns", "words", "types"),
        "columns": [_column_json(column) | {"kind": column.kind} for column in saved.columns],
    }


def saved_lines(saved: SavedTable) -> list[str]:
    """A saved table in words: its name and documents, and each question below."""
    chosen = [*saved.patterns, *saved.types, *([f"“{saved.words}”"] if saved.words else [])]
    head = f"{saved.name}: {tr(', ').join(chosen) or tr('all documents')}"
    return [head, *(f"  {column_text(column)}" for column in saved.columns)]


def column_text(column: Column) -> str:
    """A column as it can be typed again."""
    kind = " | ".join(column.choices) or column.kind or ""
    return f"{kind}: {column.question}" if kind else column.question


def _extremes(extremes: dict[str, tuple[Value, str]]) -> dict[str, dict[str, Any]]:
    return {
        unit: {"value": value.text, "source": source} for unit, (value, source) in extremes.items()
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        **picked(cell, "state", "value", "text"),
        "confidence": None if cell.confidence is None else round(cell.confidence, 4),
        "reason": cell.reason,
        "citations": [
            picked(cited, "source", "page", "quote", "place") for cited in cell.citations
        ],
    }


def check_suffix(path: Path) -> None:
    """Raises UsageError for a file that no table can be written to."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            "A table cannot be saved as {path}.",
            hint="Give a name that ends in one of: {known}.",
            path=path,
            known=", ".join(SUFFIXES),
        )


def exported(table: Table, path: Path) -> str | bytes:
    """The table as a file of that suffix. Raises UsageError for a suffix that is not known."""
    check_suffix(path)
    match path.suffix.lower():
        case ".csv":
            return csv_bytes([heads(table), *_rows(table)])
        case ".html":
            return _html(table)
        case ".json":
            return as_json(table_json(table), indent=2)
        case ".md":
            return _markdown(table)
        case _:
            return _xlsx(table)


def heads(table: Table) -> list[str]:
    """The first row of an export: each question, and behind it state, source and quotation."""
    names = [tr("File")]
    for column in table.columns:
        names += column.question, tr("state"), tr("source"), tr("quoted words")
    return names


def _rows(table: Table) -> Iterator[list[str | float | None]]:
    for row in table.rows:
        cells: list[str | float | None] = [row.source]
        for column, cell in zip(table.columns, row.cells, strict=True):
            value = cell.value
            number = value.number if value and column.kind in ("number", "money") else None
            typed = value is not None and column.kind not in (None, "text")
            text = value_text(value) if typed and value else cell.text
            cited = cell.citations[0] if cell.citations else None
            cells += (
                number if number is not None else text,
                state_text(cell.state),
                cited_as(cited) if cited else "",
                cited.quote if cited else "",
            )
        yield cells
    for number, (column, total) in enumerate(zip(table.columns, table.totals, strict=True)):
        line: list[str | float | None] = [""] * (1 + 4 * len(table.columns))
        line[0] = tr("total") if not number else ""
        line[1 + 4 * number] = tr("; ").join(total_lines(column, total))
        yield line


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [line([tr("File"), *(plain_line(column.question) for column in table.columns)])]
    lines.append("|" + "---|" * (1 + len(table.columns)))
    notes: list[str] = []
    for row in table.rows:
        cells = [plain_line(row.source)]
        for column, cell in zip(table.columns, row.cells, strict=True):
            content = plain_line(cell_text(cell, column))
            if evidence := evidence_text(cell):
                notes.append(evidence)
                content += f" [^{len(notes)}]"
            cells.append(content)
        lines.append(line(cells))
    lines.append("")
    for column, total in zip(table.columns, table.totals, strict=True):
        totals = tr("; ").join(total_lines(column, total))
        lines.append(f"- {plain_line(column.question)} {plain_line(totals)}")
    lines.append("")
    lines += (f"[^{number}]: {plain_line(text)}" for number, text in enumerate(notes, 1))
    return "\n".join(lines) + "\n"


def _html(table: Table) -> str:
    return render(
        "answers.html",
        title=tr("Table"),
        heads=[tr("File"), *(column.question for column in table.columns)],
        rows=[
            [
                (row.source, ""),
                *(
                    (cell_text(cell, column), evidence_text(cell))
                    for column, cell in zip(table.columns, row.cells, strict=True)
                ),
            ]
            for row in table.rows
        ],
        totals=[
            (column.question, total_lines(column, total))
            for column, total in zip(table.columns, table.totals, strict=True)
        ],
    )


def _xlsx(table: Table) -> bytes:
    import xlsxwriter

    file = io.BytesIO()
    # Texts are written as texts: nothing that a document says becomes a formula or a link.
    book = xlsxwriter.Workbook(file, {"in_memory": True})
    sheet = book.add_worksheet(tr("Table"))
    wrap = book.add_format({"text_wrap": True})
    bold = book.add_format({"text_wrap": True, "bold": True})
    for place, name in enumerate(heads(table)):
        sheet.write_string(0, place, name, bold)
    for number, row in enumerate(_rows(table), 1):
        for place, value in enumerate(row):
            if isinstance(value, float):
                sheet.write_number(number, place, value)
            elif value:
                sheet.write_string(number, place, as_name(value), wrap)
    sheet.freeze_panes(1, 1)
    sheet.set_column(0, 4 * len(table.columns), 28)
    book.close()
    return file.getvalue()
