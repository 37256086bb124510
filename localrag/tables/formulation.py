"""A question as a query, twice: filled in as a form, and written in SQL, each without the other.

The form is held to the columns and values that are there (a JSON schema, which becomes a grammar).
What both give is the answer; where they differ, nothing is sure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from localrag.models.llms.base import LLM, Options
from localrag.prompts import PromptLanguage, render, template
from localrag.tables.query import (
    Compute,
    Condition,
    Query,
    Result,
    Sign,
    agree,
    counted_rows,
    mixed_currencies,
    nearest_text,
    run,
    sql_in,
    sql_of,
)
from localrag.tables.sheets import Dataset, SheetColumn
from localrag.text.language import answer_language
from localrag.text.normalize import fold
from localrag.types import Message

_SAMPLE_ROWS = 3
_LONGEST_CELL = 40
_SHOWN_VALUES = 8
_MOST_SHOWN = 30
"""Columns that a model is shown; of more, those whose names and values touch the question."""
_ENUMERATED = 40
_LONGEST_ENUMERATED = 60
_REPLY = 200

Doubt = str
"""Why an answer is not sure: "differ", "no query", "nothing", "currencies", "unread"."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a question over rows came to.

    `sure`: both formulations agree. `form` and `sql` are what each gave, `query` is the form.
    `rows` are the numbers of the rows that were counted. `doubt` says why it is not sure.
    """

    question: str
    query: Query | None
    form: Result
    sql: Result
    rows: tuple[int, ...]
    doubt: Doubt = ""
    currencies: tuple[str, ...] = ()

    @property
    def sure(self) -> bool:
        """Whether both formulations gave the same."""
        return not self.doubt

    @property
    def values(self) -> tuple[tuple[object, ...], ...]:
        """The answer, as the form gave it."""
        return self.form.rows


def compute(question: str, dataset: Dataset, llm: LLM) -> Computed:
    """The answer to a question over the rows of a dataset. Raises what the model raises."""
    language = answer_language(question)
    columns = relevant(question, dataset.columns)
    query = _filled(question, dataset, columns, llm, language)
    written = _written(question, dataset, columns, llm, language)
    form = run(dataset, sql_of(query)) if query else Result("", error="no query")
    sql = run(dataset, written) if written else Result("", error="no query")
    currencies = mixed_currencies(dataset, query) if query else ()
    rows = tuple(counted_rows(dataset, query)) if query else ()
    doubt = ""
    if form.error or sql.error:
        doubt = "no query"
    elif currencies:
        doubt = "currencies"
    elif form.is_empty or sql.is_empty:
        doubt = "nothing"
    elif not agree(form, sql):
        doubt = "differ"
    return Computed(question, query, form, sql, rows, doubt, currencies)


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


def described(dataset: Dataset, columns: Sequence[SheetColumn]) -> str:
    """A dataset as a model reads it: columns with types and values, and the first rows."""
    lines = []
    for column in columns:
        kind = {"money": "REAL", "number": "REAL", "date": "TEXT, as 2026-01-31"}.get(
            column.kind, "TEXT"
        )
        note = f" ({column.unit})" if column.unit else ""
        values = [_cut(value) for value in column.values[:_SHOWN_VALUES]]
        shown = f": {', '.join(values)}" if values and column.kind == "text" else ""
        more = ", …" if len(column.values) > _SHOWN_VALUES and shown else ""
        lines.append(f"- {column.key} {kind}{note}{shown}{more}")
    places = [dataset.columns.index(column) for column in columns]
    sample = [
        " | ".join(_cut("" if row[place] is None else str(row[place])) for place in places)
        for row in dataset.rows[:_SAMPLE_ROWS]
    ]
    heads = " | ".join(column.key for column in columns)
    names = [source.replace("\\", "/").rpartition("/")[2] for source in dataset.sources[:6]]
    return "\n".join(
        [f"data of {', '.join(names)}", *lines, f"{len(dataset.rows)} rows:", heads, *sample, "…"]
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


def _asked(
    task: str, question: str, described: str, language: PromptLanguage
) -> tuple[list[Message], int]:
    messages = [Message("system", render(task, language))]
    if task == "table_query":  # of a form a model has seen less than of SQL
        lines = iter(template("table_query_examples", language).splitlines())
        for example, form in zip(lines, lines, strict=True):
            messages += [Message("user", example), Message("assistant", form)]
    kept = len(messages)
    label = {"en": "Question", "zh": "问题"}[language]
    return [*messages, Message("user", f"{described}\n\n{label}: {question.strip()}")], kept


def _written(
    question: str,
    dataset: Dataset,
    columns: Sequence[SheetColumn],
    llm: LLM,
    language: PromptLanguage,
) -> str:
    messages, keep = _asked("table_sql", question, described(dataset, columns), language)
    reply = llm.complete(messages, Options(max_tokens=_REPLY, keep=keep)).text
    return sql_in(reply, dataset)


def _filled(
    question: str,
    dataset: Dataset,
    columns: Sequence[SheetColumn],
    llm: LLM,
    language: PromptLanguage,
) -> Query | None:
    messages, keep = _asked("table_query", question, described(dataset, columns), language)
    options = Options(max_tokens=_REPLY, schema=form_schema(columns), keep=keep)
    return query_in(llm.complete(messages, options).text, columns)


def form_schema(columns: Sequence[SheetColumn]) -> Mapping[str, object]:
    """The form of a query over these columns: a JSON schema."""
    keys = [column.key for column in columns]
    numeric = [column.key for column in columns if column.kind in ("number", "money")]
    conditions = [shape for column in columns for shape in _condition_shapes(column, numeric)]
    return {
        "type": "object",
        "properties": {
            "where": {"type": "array", "maxItems": 3, "items": {"anyOf": conditions}},
            "compute": {"enum": list(get_args(Compute))},
            "of": {"enum": keys},
            "by": {"enum": keys},
        },
        "required": ["where", "compute", "of", "by"],
        "additionalProperties": False,
    }


def _condition_shapes(column: SheetColumn, numeric: Sequence[str]) -> list[dict[str, object]]:
    def shape(signs: Sequence[str], name: str, value: dict[str, object]) -> dict[str, object]:
        return {
            "type": "object",
            "properties": {
                "column": {"const": column.key},
                "is": {"enum": list(signs)},
                name: value,
            },
            "required": ["column", "is", name],
            "additionalProperties": False,
        }

    compared = ["=", "<", "<=", ">", ">=", "!="]
    if column.kind in ("number", "money"):
        shapes = [shape(compared, "value", {"type": "number"})]
        others = [key for key in numeric if key != column.key]
        if others:
            shapes.append(shape(compared, "column2", {"enum": others}))
        return shapes
    if column.kind == "date":
        return [shape(["begins with", "<", "<=", ">", ">="], "value", {"type": "string"})]
    short = all(len(value) <= _LONGEST_ENUMERATED for value in column.values)
    if column.values and len(column.values) <= _ENUMERATED and short:
        return [
            shape(["=", "!="], "value", {"enum": list(column.values)}),
            shape(["contains"], "value", {"type": "string"}),
        ]
    return [shape(["=", "contains", "!="], "value", {"type": "string"})]


def query_in(reply: str, columns: Sequence[SheetColumn]) -> Query | None:
    """The form that a model filled in; None for what is none."""
    try:
        form = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    by_key = {column.key: column for column in columns}
    try:
        conditions = tuple(_condition_in(one, by_key) for one in form["where"])
        computed, of, by = form["compute"], form["of"], form["by"]
    except (KeyError, TypeError, ValueError):
        return None
    if computed not in get_args(Compute) or not {of, by} <= by_key.keys():
        return None
    if computed in ("sum", "average") and by_key[of].kind not in ("number", "money"):
        return None
    if computed == "largest total" and by_key[by].kind not in ("number", "money"):
        return None
    return Query(computed, of, by, tuple(dict.fromkeys(conditions)))


def _condition_in(form: Mapping[str, object], columns: Mapping[str, SheetColumn]) -> Condition:
    """Raises KeyError and ValueError for what is none."""
    column, sign = columns[str(form["column"])], form["is"]
    if sign not in get_args(Sign):
        raise ValueError(sign)
    if "column2" in form:
        return Condition(column.key, sign, columns[str(form["column2"])].key, is_column=True)  # type: ignore[arg-type]
    value = form["value"]
    if column.kind in ("number", "money"):
        return Condition(column.key, sign, float(str(value)))  # type: ignore[arg-type]
    text = str(value)
    if column.kind == "text" and sign in ("=", "!="):
        text = nearest_text(text, {fold(each): each for each in column.values}) or text
    return Condition(column.key, sign, text)  # type: ignore[arg-type]
