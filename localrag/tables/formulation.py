"""A question as a query, twice: filled in as a form, and written in SQL, each without the other.

The form is held to the columns and values that are there (a JSON schema, which becomes a grammar).
What both give is the answer; where they differ, nothing is sure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from localrag.errors import BackendError
from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.base import LLM, Options
from localrag.models.llms.structured import object_schema
from localrag.prompts import render, with_examples
from localrag.tables.query import (
    COMPUTES,
    Compute,
    Condition,
    Query,
    QueryResult,
    Sign,
    agree,
    condition_texts,
    counted_rows,
    mixed_currencies,
    nearest_text,
    run,
    sql_in,
    sql_of,
)
from localrag.tables.sheets import Dataset, SheetColumn
from localrag.tables.values import date_text
from localrag.text.figures import figures
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
_NAMES = ("file", "sheet")
"""Columns that say where a row of several files stands."""
_WORD_OF_NAME = re.compile(r"[a-z]{4,}|[\u4e00-\u9fff]{2,}")
"""The words of a file's name: "autoclave" in "log-autoclave-a1"."""
_SHORTEST_NAME = 3
"""Letters of a value that a question may name."""

Doubt = str
"""Why an answer is not sure: "differ", "no query", "nothing", "currencies"."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a question over rows came to.

    `sure`: both formulations agree. `form` and `sql` are what each gave, `query` is the form.
    `rows` are the numbers of the rows that were counted. `doubt` says why it is not sure.
    """

    question: str
    query: Query | None
    form: QueryResult
    sql: QueryResult
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


def compute(
    question: str, dataset: Dataset, llm: LLM, computes: Sequence[Compute] = COMPUTES
) -> Computed:
    """The answer to a question over the rows of a dataset, by a form that `computes` one of these.

    Raises what the model raises.
    """
    language = answer_language(question)
    columns = relevant(question, dataset.columns)
    query = _filled(question, dataset, columns, llm, language, computes)
    written = _written(question, dataset, columns, llm, language)
    form = run(dataset, sql_of(query)) if query else QueryResult("", error="no query")
    sql = run(dataset, written) if written else QueryResult("", error="no query")
    if query and not agree(form, sql):
        # Of three readings two may agree: the third has the conditions that the question names.
        third = replace(query, where=linked(question, dataset, query.where))
        result = run(dataset, sql_of(third))
        if third.where != query.where and agree(result, sql):
            query, form = third, result
        elif third.where and third.where == linked(question, dataset) and agree(result, form):
            sql = result  # nothing in it is the form's
    currencies = mixed_currencies(dataset, query) if query else ()
    rows = tuple(counted_rows(dataset, query)) if query else ()
    doubt = ""
    if form.error or sql.error:
        doubt = "no query"
    elif currencies:
        doubt = "currencies"
    elif form.is_empty or sql.is_empty or (query and _ends_before(query, dataset)):
        doubt = "nothing"
    elif not agree(form, sql):
        doubt = "differ"
    return Computed(question, query, form, sql, rows, doubt, currencies)


def _ends_before(query: Query, dataset: Dataset) -> bool:
    """Whether no row at all is of the time that is asked for: then a count of 0 says nothing."""
    dates = {column.key for column in dataset.columns if column.kind == "date"}
    of_time = tuple(condition for condition in query.where if condition.key in dates)
    return bool(of_time) and not counted_rows(dataset, replace(query, where=of_time))


def computed_by(question: str, query: Query, dataset: Dataset) -> Computed:
    """What a query gives that leaves nothing to formulate."""
    result = run(dataset, sql_of(query))
    currencies = mixed_currencies(dataset, query)
    doubt = "currencies" if currencies else "no query" if result.error else ""
    if not doubt and result.is_empty:
        doubt = "nothing"
    rows = tuple(counted_rows(dataset, query))
    return Computed(question, query, result, result, rows, doubt, currencies)


def linked(
    question: str, dataset: Dataset, given: Sequence[Condition] = ()
) -> tuple[Condition, ...]:
    """The conditions that the words of a question name: values of columns, and a date.

    Of those that are `given` the ones about numbers and between columns stay. Linking the words of
    a question to the values of columns is how parsers to SQL begin (Wang et al. 2020, RAT-SQL).
    """
    asked = fold(question)
    conditions = [
        condition
        for condition in given
        if condition.is_column or isinstance(condition.value, float)
    ]
    for column in dataset.columns:
        if column.kind != "text":
            continue
        if column.key in _NAMES:
            conditions += _named_files(asked, column)
            continue
        named = [value for value in column.values if _stands_in(fold(value), asked)]
        whole = [value for value in named if not any(value in other != value for other in named)]
        if len(whole) == 1:
            conditions.append(Condition(column.key, "=", whole[0]))
    dates = [figure for figure in figures(question) if figure.kind == "date"]
    prefix = date_text(dates[0]) if len(dates) == 1 else ""
    if prefix:
        conditions += _dated(prefix, dataset.columns)
    return tuple(conditions)


def _named_files(asked: str, column: SheetColumn) -> list[Condition]:
    """The files or tabs that a word of the question singles out: "fridges", of five logs two.

    Of such words the longest counts; a date is not one, see `_dated`.
    """
    names = [fold(value) for value in column.values]
    words = {word for name in names for word in _WORD_OF_NAME.findall(name)}
    telling = [
        word
        for word in words
        if _begins_word(word, asked) and 0 < sum(word in name for name in names) < len(names)
    ]
    if not telling:
        return []
    return [Condition(column.key, "contains", max(telling, key=lambda word: (len(word), word)))]


def _begins_word(word: str, asked: str) -> bool:
    """Whether a word of the question begins with it, as a plural does; in Chinese, holds it."""
    if not word.isascii():
        return word in asked
    return re.search(rf"(?<!\w){re.escape(word)}", asked) is not None


def _stands_in(value: str, asked: str) -> bool:
    """Whether a value stands in the question as words of its own: "Oak", not in "Oakmere"."""
    if len(value) < (_SHORTEST_NAME if value.isascii() else 2):
        return False
    if not value.isascii():
        return value in asked
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", asked) is not None


def _dated(prefix: str, columns: Sequence[SheetColumn]) -> Iterator[Condition]:
    """The rows of a date: by the only column of dates, else by the files that it tells apart."""
    days = [column for column in columns if column.kind == "date"]
    if len(days) == 1:
        yield Condition(days[0].key, "begins with", prefix)
        return
    for column in columns:
        having = sum(prefix in value for value in column.values)
        if column.key in _NAMES and 0 < having < len(column.values):
            yield Condition(column.key, "contains", prefix)


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
        kind = {"money": "REAL", "number": "REAL", "date": "TEXT, dates as YYYY-MM-DD"}.get(
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
    task: str, question: str, dataset: Dataset, described: str, language: LanguageCode
) -> list[Message]:
    label = LANGUAGES[language].words.question_label
    named = condition_texts(linked(question, dataset))
    told = f"-- {named}\n\n" if named else ""
    text = f"{described}\n\n{told}{label}: {question.strip()}"
    if task == "table_query":  # of a form a model has seen less than of SQL
        return with_examples(task, language, text)
    return [Message("system", render(task, language)), Message("user", text)]


def _written(
    question: str,
    dataset: Dataset,
    columns: Sequence[SheetColumn],
    llm: LLM,
    language: LanguageCode,
) -> str:
    messages = _asked("table_sql", question, dataset, described(dataset, columns), language)
    reply = llm.complete(messages, Options(max_tokens=_REPLY, keep=len(messages) - 1)).text
    return sql_in(reply, dataset)


def _filled(
    question: str,
    dataset: Dataset,
    columns: Sequence[SheetColumn],
    llm: LLM,
    language: LanguageCode,
    computes: Sequence[Compute],
) -> Query | None:
    messages = _asked("table_query", question, dataset, described(dataset, columns), language)
    options = Options(
        max_tokens=_REPLY, schema=form_schema(columns, computes), keep=len(messages) - 1
    )
    try:
        return query_in(llm.complete(messages, options).text, columns)
    except BackendError:  # of the form alone: a backend that fails does so at the SQL, too
        return None


def form_schema(
    columns: Sequence[SheetColumn], computes: Sequence[Compute] = COMPUTES
) -> Mapping[str, object]:
    """The form of a query over these columns: a JSON schema."""
    keys = [column.key for column in columns]
    numeric = [column.key for column in columns if column.kind in ("number", "money")]
    conditions = [shape for column in columns for shape in _condition_shapes(column, numeric)]
    return object_schema(
        where={"type": "array", "maxItems": 3, "items": {"anyOf": conditions}},
        compute={"enum": list(computes)},
        of={"enum": keys},
        by={"enum": keys},
    )


def _condition_shapes(column: SheetColumn, numeric: Sequence[str]) -> list[Mapping[str, object]]:
    def shape(signs: Sequence[str], name: str, value: dict[str, object]) -> Mapping[str, object]:
        properties: dict[str, Mapping[str, object]] = {"is": {"enum": list(signs)}, name: value}
        return object_schema(column={"const": column.key}, **properties)

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
        conditions = tuple(_condition_in(condition, by_key) for condition in form["where"])
        computed, of, by = form["compute"], form["of"], form["by"]
    except (KeyError, TypeError, ValueError):
        return None
    if computed not in COMPUTES or not {of, by} <= by_key.keys():
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
        text = nearest_text(text, {fold(stored): stored for stored in column.values}) or text
    return Condition(column.key, sign, text)  # type: ignore[arg-type]
