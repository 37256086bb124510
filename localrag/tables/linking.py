"""Conditions that the words of a question name: values of columns, files, and dates.

Linking the words of a question to the values of columns is how parsers to SQL begin (Wang et al.
2020, RAT-SQL).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from localrag.rag.months import of_file, says_when
from localrag.rag.question_words import Asked, Text
from localrag.tables.query import Compute, Condition, Query
from localrag.tables.sheets import Dataset, RawTable, SheetColumn, dataset_of, short_name
from localrag.tables.values import date_text
from localrag.text.figures import Month, figures, month_asked, months
from localrag.text.normalize import fold

_EXTREMES: tuple[Compute, ...] = ("largest", "smallest")
_NAMES = ("file", "sheet")
"""Columns that say where a row of several files stands."""
_WORD_OF_NAME = re.compile(r"[a-z]{4,}|[\u4e00-\u9fff]{2,}")
"""The words of a file's name: "autoclave" in "log-autoclave-a1"."""
LEAST_LOOKED_AT = 0.01
"""The share of what a model looks at in columns below which none is meant: 2 of 180 conditions that
others ask for are below it, and .69 of the other columns (`benchmarks/log/2026-11.md`, 2026-11-30).
"""
_NO_WORD_BEFORE, _NO_WORD_BEHIND = r"(?<!(?a:\w))", r"(?!(?a:\w))"
"""The edges of a Latin word, also amid Chinese: "4月份Teratai那几票"."""
_SHORTEST_NAME, _SHORTEST_START = 3, 4
"""Letters of a value that a question may name, and of the beginning of a longer one."""


def linked(question: str, dataset: Dataset) -> tuple[Condition, ...]:
    """The conditions that the words of a question name: values, or their beginning, and a date."""
    folded_question = fold(question)
    conditions: list[Condition] = []
    for column in dataset.columns:
        if column.kind != "text":
            continue
        if column.key in _NAMES:
            continue
        named = [value for value in column.values if _stands_in(fold(value), folded_question)]
        whole = [value for value in named if not any(value in other != value for other in named)]
        if len(whole) == 1:
            conditions.append(Condition(column.key, "=", whole[0]))
    conditions += _begun(folded_question, dataset.columns, conditions)
    dates = [figure for figure in figures(question) if figure.kind == "date"]
    prefix = date_text(dates[0]) if len(dates) == 1 else ""
    if prefix:
        conditions += _dated(prefix, dataset.columns)
    return tuple(conditions)


def _begun(
    question: str, columns: Sequence[SheetColumn], named: Sequence[Condition]
) -> list[Condition]:
    """The values that a word of a folded question begins, where it begins no other.

    "Teratai" of "Teratai Jaya", 禾粒 of 禾粒速冻. Of 26 values that 719 questions of others over
    sheets begin so 22 are asked for, and of those that stand there whole 92 of 107. Of the 17
    questions that get this hint 11 are told rightly and 2 wrongly, without it 9 and 2.
    """
    begun: dict[str, list[Condition]] = {}
    for column in columns:
        if column.kind == "text" and column.key not in _NAMES and not column.of:
            for value in column.values:
                if start := _start_in(fold(value), question):
                    begun.setdefault(start, []).append(Condition(column.key, "=", value))
    whole = [fold(str(condition.value)) for condition in named]
    those = [
        conditions[0]
        for start, conditions in begun.items()
        if len(conditions) == 1 and not any(start in value for value in whole)
    ]
    keys = [condition.key for condition in (*named, *those)]
    return [condition for condition in those if keys.count(condition.key) == 1]


def _start_in(value: str, question: str) -> str:
    """The longest beginning of a value that a question has, in Latin letters up to a blank."""
    if _stands_in(value, question):
        return ""
    value = value[: len(question) + 1]  # a cell may be a whole text
    if value.isascii():
        ends = [end for end, sign in enumerate(value) if sign == " " and end >= _SHORTEST_START]
    else:
        ends = list(range(1, len(value)))
    starts = (value[:end] for end in reversed(ends))
    return next((some for some in starts if _stands_in(some, question)), "")


def _column_of_days(dataset: Dataset) -> int | None:
    """The place of the only column of dates, if it says when something was."""
    days = [place for place, column in enumerate(dataset.columns) if column.kind == "date"]
    is_known = len(days) == 1 and says_when(dataset.columns[days[0]].name)
    return days[0] if is_known else None


def _months_in(dataset: Dataset) -> Iterator[Month]:
    """The months that stand in names of columns and in columns of few texts."""
    for column in dataset.columns:
        if column.key not in _NAMES:
            for text in (column.name, *column.values):
                yield from months(text)


def is_named(text: str, asked: Asked) -> bool:
    """Whether a text has a word that carries a question, or stands in the question as a whole."""
    has = Text(text, asked.tokenize).has
    return any(map(has, asked.words)) or _stands_whole(fold(text), asked.text.folded)


def is_value(condition: Condition, dataset: Dataset) -> bool:
    """Whether it is about the rows that have a text, as "Harriet Pugh"."""
    is_text = not condition.is_column and isinstance(condition.value, str) and condition.value
    return bool(is_text) and dataset.column(condition.key).kind == "text"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a question may mean of a dataset, by its words and by where the model looks.

    `looked_at` are shares of columns by key, as `plan.looked_at` has them.
    """

    asked: Asked
    dataset: Dataset
    looked_at: Callable[[], Mapping[str, float]]

    def has(self, condition: Condition) -> bool:
        """Whether a condition may be meant: the question has its words, or its column is seen.

        A date says by itself of which column it is, and so do two columns that are compared.
        """
        if condition.is_column or self.dataset.column(condition.key).kind == "date":
            return True
        value = condition.value
        if is_named(value if isinstance(value, str) else f"{value:.15g}", self.asked):
            return True
        return self.looked_at().get(condition.key, 1.0) >= LEAST_LOOKED_AT

    def query(self, compute: Compute) -> Query | None:
        """The query that linking gives by itself: of columns most looked at, over rows named.

        None of lists and counts, which hang on conditions, and where nothing is known. By itself it
        is right for 144 of 232 sums and extremes of others. Of 86 of these most of what the starter
        writes told 58 rightly and 11 wrongly, with it 57 and 4
        (`benchmarks/log/2026-11.md`, 2026-11-30, "a query that nobody writes").
        """
        if compute in ("list", "count", "count different") or not (shares := self.looked_at()):
            return None
        where = linked(self.asked.question, self.dataset)
        used = {*_NAMES, *(condition.key for condition in where)}
        free = [
            column
            for column in self.dataset.columns
            if column.key not in used and shares.get(column.key, 0.0) >= LEAST_LOOKED_AT
        ]
        free.sort(key=lambda column: -shares[column.key])
        texts = [column.key for column in free if column.kind == "text"]
        kinds = ("number", "money", "date") if compute in _EXTREMES else ("number", "money")
        measures = [column.key for column in free if column.kind in kinds]
        if compute in ("sum", "average"):
            return Query(compute, measures[0], where=where) if measures else None
        if compute == "most frequent":
            return Query(compute, texts[0], where=where) if texts else None
        return Query(compute, texts[0], measures[0], where) if texts and measures else None


def of_named_files(question: str, dataset: Dataset) -> Dataset:
    """The rows of the files or tabs that words of the question single out, else all.

    "fridges", of five logs two. Words for different ones, as in "from January to March", single out
    nothing. Of tables of other months than the one that is asked for none is meant.
    """
    dataset = _of_the_month(question, dataset)
    folded_question = fold(question)
    names = [fold(f"{short_name(table.source)} {table.sheet}") for table in dataset.tables]
    words = {word for name in names for word in _WORD_OF_NAME.findall(name)}
    named = [
        {place for place, name in enumerate(names) if word in name}
        for word in words
        if begins_word(word, folded_question)
    ]
    fewest = min(named, key=len, default=set())
    if not 0 < len(fewest) < len(names) or not all(fewest <= places for places in named):
        return dataset
    return dataset_of([dataset.tables[place] for place in sorted(fewest)])


def _of_the_month(question: str, dataset: Dataset) -> Dataset:
    """The rows of the files or tabs with the name of the month that a question is about, else all.

    Where each has one month for its name, and no row of the others is dated in the one asked for:
    a payroll may be paid in the month behind, and a statement named by the day of its issue.
    """
    month, day = month_asked(question), _column_of_days(dataset)
    if month is None or len(dataset.tables) < 2:
        return dataset
    kept: list[RawTable] = []
    kept_rows: list[tuple[object, ...]] = []
    first = 0
    for table in dataset.tables:
        named = of_file(table.sheet, table.source)
        if len({some.numbers for some in named}) != 1:
            return dataset
        rows = dataset.rows[first : first + len(table.rows)]
        first += len(rows)
        begun = {str(row[day])[:7] for row in rows if row[day]} if day is not None else set()
        if any(map(month.may_be, named)):
            kept.append(table)
            kept_rows += rows
        elif any(month.may_be(some) for text in begun for some in months(f"{text}-01")):
            return dataset
    if not 0 < len(kept) < len(dataset.tables):
        return dataset
    narrowed = dataset_of(kept)
    # By themselves "03/02/2025" is no date, and "1,125" another number.
    places = {column.key: place for place, column in enumerate(dataset.columns)}
    is_alike = all(
        column.key in _NAMES
        or column.of
        or (
            column.key in places
            and [row[place] for row in narrowed.rows]
            == [row[places[column.key]] for row in kept_rows]
        )
        for place, column in enumerate(narrowed.columns)
    )
    return narrowed if is_alike else dataset


def are_of_other_months(question: str, dataset: Dataset) -> bool:
    """Whether rows have other months than the one that a question is about: "April" of two others.

    By the only column of days, if that says when it was, or by the names of their files where there
    is none; not where anything else names that month.
    """
    month = month_asked(question)
    days = [n for n, column in enumerate(dataset.columns) if column.kind == "date"]
    if month is None or any(not says_when(dataset.columns[place].name) for place in days):
        return False
    named = [some for table in dataset.tables for some in of_file(table.sheet, table.source)]
    texts = list(_months_in(dataset))
    dates = {str(row[place])[:7] for row in dataset.rows for place in days if row[place]}
    dated = [some for date in dates for some in months(f"{date}-01")]
    if len(days) > 1 or any(map(month.may_be, [*named, *texts, *dated])):
        return False
    if days:
        return bool(dated)
    return bool(named) and not texts and not any(says_when(c.name) for c in dataset.columns)


def begins_word(word: str, text: str) -> bool:
    """Whether a word of a text begins with it, as a plural does; in Chinese, whether it stands."""
    if not word.isascii():
        return word in text
    return re.search(rf"{_NO_WORD_BEFORE}{re.escape(word)}", text) is not None


def _stands_in(value: str, question: str) -> bool:
    """Whether a value stands in the question as words of its own: "Oak", not in "Oakmere"."""
    shortest = _SHORTEST_NAME if value.isascii() else 2
    return len(value) >= shortest and _stands_whole(value, question)


def _stands_whole(value: str, question: str) -> bool:
    if not value or value not in question:
        return False
    pattern = rf"{_NO_WORD_BEFORE}{re.escape(value)}{_NO_WORD_BEHIND}"
    return not value.isascii() or re.search(pattern, question) is not None


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
