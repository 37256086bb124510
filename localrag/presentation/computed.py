"""What was computed over rows of sheets: in words, as SQL, with the rows that were counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from localrag.documents.formats.table import shown_name
from localrag.messages import tr
from localrag.presentation.records import picked
from localrag.presentation.tables import amount_text
from localrag.tables.description import query_text
from localrag.tables.formulation import Computed, computed_by_file
from localrag.tables.query import Query, QueryResult
from localrag.tables.sheets import MOST_TABLES, Dataset
from localrag.text.language import answer_language
from localrag.types import Basis

SHOWN = 20
"""Values and rows that are listed on a screen."""

_DOUBTS = {
    "differ": "Not sure: two readings of the question give different answers.",
    "currencies": "Not sure: the rows have amounts in {currencies}, which are not added up.",
    "nothing": "Not sure: no row fits, by one reading of the question at least.",
    "not meant": "Not sure: the query is about a column that the question hardly means.",
    "no query": "Not sure: the question could not be turned into a query twice.",
}


def answer_text(dataset: Dataset, computed: Computed, result: QueryResult | None = None) -> str:
    """The values of the answer, or of one of the two results."""
    result = result or computed.result
    if result.error:
        return tr("no result")
    unit = _unit(dataset, computed.query) if result is computed.result else ""
    columns = computed.columns(dataset) if result is computed.result else []
    if columns:
        count = len(computed.rows)
        rows = [_row_text(dataset, row, columns) for row in computed.rows[:SHOWN]]
    else:
        count = len(result.rows)
        rows = [
            ", ".join(_value_text(value, unit) for value in row if value is not None)
            for row in result.rows[:SHOWN]
        ]
    more = count - SHOWN
    if more > 0:
        rows.append(tr("and {count} more", count=more))
    return "; ".join(row for row in rows if row) or tr("no result")


def _row_text(dataset: Dataset, row: int, columns: Sequence[int]) -> str:
    values = dataset.rows[row - 1]
    return " | ".join(
        f"{dataset.columns[place].name}: {_value_text(values[place], dataset.columns[place].unit)}"
        for place in columns
        if values[place] is not None
    )


def _value_text(value: object, unit: str) -> str:
    if isinstance(value, int | float):
        return amount_text(float(value), unit)
    return str(value)


def _unit(dataset: Dataset, query: Query | None) -> str:
    if query is None or query.compute in ("count", "count different"):
        return ""
    return dataset.column(query.of).unit


def computed_lines(dataset: Dataset, computed: Computed) -> Iterator[str]:
    """The answer, or both where they differ; how it was computed, and over which rows."""
    if computed.sure:
        yield answer_text(dataset, computed)
        for name, of_file in computed_by_file(computed, dataset).items():
            yield f"- {name}: {answer_text(dataset, of_file)}"
    else:
        yield doubt_text(computed)
        yield tr("First reading: {answer}", answer=answer_text(dataset, computed))
        yield tr("Second reading: {answer}", answer=answer_text(dataset, computed, computed.other))
    if computed.query is not None:
        words = query_text(
            dataset, computed.query, answer_language(computed.question), computed.beside
        )
        yield tr("Computed: {words}.", words=words)
    for sql in dict.fromkeys((computed.result.sql, computed.other.sql)):
        if sql:
            yield f"SQL: {sql}"
    yield counted_text(dataset, computed)
    yield from left_out_lines(dataset, computed)


def doubt_text(computed: Computed) -> str:
    """Why the answer is not sure."""
    return tr(_DOUBTS[computed.doubt or "no query"], currencies=computed.currencies)


def counted_text(dataset: Dataset, computed: Computed) -> str:
    """Which rows of which sheets were counted."""
    count, total = len(computed.rows), len(dataset.rows)
    files = tuple(shown_name(source) for source in dataset.sources)
    text = tr("{count} of {total} rows counted, in {files}", count=count, total=total, files=files)
    if not count:
        return text
    row_names = []
    for row in computed.rows[:SHOWN]:
        origin = dataset.origin(row)
        name = shown_name(origin.source) if len(dataset.sources) > 1 else origin.sheet
        row_names.append(f"{name} {origin.row}".strip())
    more = "" if count <= SHOWN else ", …"
    return tr("{text}: rows {rows}", text=text, rows=", ".join(row_names) + more)


def left_out_lines(dataset: Dataset, computed: Computed) -> Iterator[str]:
    """What is not among the rows or not of its type."""
    yield from _unread_lines(dataset.totals, dataset.unread_tables)
    keys = set()
    if query := computed.query:
        keys = {query.of, query.by, *(condition.key for condition in query.where)}
    for column in dataset.columns:
        if column.key in keys and column.unread:
            yield tr(
                "{count} {count:cell|cells} of “{column}” could not be read as its type and "
                "{count:is|are} not counted",
                count=column.unread,
                column=column.name,
            )


def _unread_lines(totals: int, unread: Mapping[str, int]) -> Iterator[str]:
    if totals:
        yield tr(
            "{count} {count:row|rows} with totals left out, so that nothing is counted twice",
            count=totals,
        )
    for source, count in unread.items():
        yield tr(
            "{count} {count:table|tables} of {file} {count:was|were} not read: the limit is {most} "
            "for each document",
            count=count,
            file=shown_name(source),
            most=MOST_TABLES,
        )


def basis_lines(basis: Basis) -> Iterator[str]:
    """How an answer to a question about all was computed, so that it can be checked and changed."""
    for sql in dict.fromkeys((basis.sql, basis.other_sql)):
        if sql:
            yield f"SQL: {sql}"
    yield from _unread_lines(basis.totals_left_out, basis.unread_tables)
    if basis.questions:
        yield tr("Other documents or questions: `localrag table`.")
    else:
        yield tr("Other sheets: `localrag compute --in FILE`.")


def computed_json(dataset: Dataset, computed: Computed) -> dict[str, Any]:
    """The same as plain data; `columns` are those of the answer where it has more than one."""
    columns = computed.columns(dataset)
    values = [list(row) for row in computed.values]
    if columns:
        values = [[dataset.rows[row - 1][place] for place in columns] for row in computed.rows]
    return {
        **picked(computed, "question", "sure", "doubt"),
        "answer": values if computed.sure else None,
        "columns": [dataset.columns[place].name for place in columns],
        "unit": _unit(dataset, computed.query),
        "readings": [
            picked(result, "sql", "rows", "error") for result in (computed.result, computed.other)
        ],
        "by_file": {
            name: [list(row) for row in of_file.values]
            for name, of_file in computed_by_file(computed, dataset).items()
        },
        "files": list(dataset.sources),
        "rows": len(dataset.rows),
        "counted": [picked(dataset.origin(row), "source", "sheet", "row") for row in computed.rows],
        "totals_left_out": dataset.totals,
        "unread_tables": dataset.unread_tables,
    }
