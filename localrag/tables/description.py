"""Rows of sheets as a model reads them, and queries as a person does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from localrag.languages import LANGUAGES, LanguageCode
from localrag.printable import as_name, filled
from localrag.prompts import template
from localrag.tables.query import Condition, Query, group_of
from localrag.tables.sheets import Dataset, SheetColumn, file_name
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
    folded_question = fold(question)

    def touches(column: SheetColumn) -> int:
        texts = (column.name, *column.values)
        return sum(len(text) for text in texts if len(text) > 1 and fold(text) in folded_question)

    best = sorted(columns, key=lambda column: -touches(column))[:_MOST_SHOWN]
    return tuple(column for column in columns if column in best)


def described(
    dataset: Dataset, columns: Sequence[SheetColumn], empty_rows: Mapping[str, int] = {}
) -> str:
    """A dataset as a model reads it: columns with types and values, and the first rows.

    `empty_rows` says in how many a column has nothing, by its key.
    """
    lines = [column_line(column, empty_rows.get(column.key, 0)) for column in columns]
    places = [dataset.columns.index(column) for column in columns]
    sample = [
        " | ".join(_cut("" if row[place] is None else str(row[place])) for place in places)
        for row in dataset.rows[:_SAMPLE_ROWS]
    ]
    heads = " | ".join(column.key for column in columns)
    names = [file_name(source) for source in dataset.sources[:6]]
    together = ", ".join(names) + ", all in one table" * (len(names) > 1)
    return "\n".join(
        [f"data of {together}", *lines, f"{len(dataset.rows)} rows:", heads, *sample, "…"]
    )


def column_line(column: SheetColumn, empty: int = 0) -> str:
    """A column as a model reads it; `empty` says in how many rows it has nothing."""
    kind = {"money": "REAL", "number": "REAL", "date": "TEXT, dates as YYYY-MM-DD"}.get(
        column.kind, "TEXT"
    )
    note = f" ({column.unit})" if column.unit else ""
    values = [_cut(value) for value in column.values[:_SHOWN_VALUES]]
    value_list = f": {', '.join(values)}" if values and column.kind == "text" else ""
    more = ", …" if len(column.values) > _SHOWN_VALUES and value_list else ""
    nulls = f"; NULL in {empty} rows" if empty else ""
    return f"- {column.key} {kind}{note}{value_list}{more}{nulls}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


def query_text(
    dataset: Dataset, query: Query, language: LanguageCode, beside: Sequence[str] = ()
) -> str:
    """A query in words: "the sum of “Cost”, where “Work” = Repair"; `beside` are more columns."""
    words = dict(line.split(": ", 1) for line in template("query_words", language).splitlines())
    of = LANGUAGES[language].comma.join(dataset.column(key).name for key in (query.of, *beside))
    by = dataset.column(query.by or query.of).name
    computed = filled(words[query.compute], {"column": of, "by": by})
    if not query.where:
        return filled(words["all rows"], {"words": computed})
    groups: dict[str, list[str]] = {}
    for number, condition in enumerate(query.where):
        text = _condition_text(dataset, condition, words)
        groups.setdefault(group_of(condition, number), []).append(text)
    space = LANGUAGES[language].space
    either = [f"{space}{words['or']}{space}".join(group) for group in groups.values()]
    if len(groups) > 1:
        either = [
            f"({text})" if text not in group else text
            for text, group in zip(either, groups.values(), strict=True)
        ]
    listed = f"{space}{words['and']}{space}".join(either)
    return filled(words["where"], {"words": computed, "conditions": listed})


def copied_words(dataset: Dataset, query: Query, beside: Sequence[str] = ()) -> Iterator[str]:
    """The names of columns and the values that may be in `query_text`, as they are written there.

    The columns of documents that were asked have questions of the model for their names.
    """
    if dataset.tables:
        keys = [
            query.of,
            *beside,
            query.by or query.of,
            *(condition.key for condition in query.where),
        ]
        keys += [str(condition.value) for condition in query.where if condition.is_column]
        yield from (as_name(dataset.column(key).name) for key in keys)
    values = (condition.value for condition in query.where if not condition.is_column)
    yield from (as_name(value) for value in values if isinstance(value, str))


def _condition_text(dataset: Dataset, condition: Condition, words: Mapping[str, str]) -> str:
    value = condition.value
    if condition.is_column:
        value = f"“{dataset.column(str(value)).name}”"
    elif isinstance(value, float):
        value = f"{value:.0f}" if value == int(value) else f"{value:.12g}"  # it may be a year
    form = words.get(condition.sign, f"“{{column}}” {condition.sign} {{value}}")
    return filled(form, {"column": dataset.column(condition.key).name, "value": value})
