"""Queries over typed rows, and what they give: SQL that is made here, or checked here.

`Query` is what a model fills in, held to the columns and values that are there; `sql_of` says it in
SQL. A query that a model wrote in SQL itself is run on a connection that can only read, within
bounds of time and rows.
"""

# ruff: noqa: S608 - names and texts are quoted here

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal, get_args

from localrag.tables.sheets import Dataset, SheetColumn
from localrag.text.normalize import fold

Compute = Literal[
    "list",  # the values of `of`
    "count",  # how many rows
    "count different",  # how many different values of `of`
    "sum",
    "average",
    "largest",  # `of` in the row whose `by` is largest
    "smallest",
    "most frequent",  # the value of `of` that stands in most rows
    "largest total",  # the value of `of` over whose rows the sum of `by` is largest
]
COMPUTES: tuple[Compute, ...] = get_args(Compute)
Sign = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "begins with", "empty", "not empty"]
WITHOUT_VALUE: tuple[Sign, ...] = ("empty", "not empty")

_NUMBERED = 4
"""Rows from which on it is no chance that their numbers rise: of three amounts a third do."""

SECONDS = 10.0
"""The longest time of one query."""
MOST_RESULTS = 1000
MOST_CHARACTERS = 4_000_000
"""Of all rows together, blobs as text."""
MOST_MEMORY = 512 << 20
"""Bytes by which the process may grow during a query: SQLite's own limit is for all connections."""
_STEPS = 1000
"""Steps of SQLite's machine between two looks at clock and memory: one may make 1 MB."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a row must have: `value` is a text, a number, or the key of another column.

    "empty" and "not empty" have no value: what is not paid yet has no date of payment.
    """

    key: str
    sign: Sign
    value: str | float = ""
    is_column: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What is computed, of which column, over which rows."""

    compute: Compute
    of: str
    by: str = ""
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query gave: its rows, or why it gave none."""

    sql: str
    rows: tuple[tuple[object, ...], ...] = ()
    error: str = ""
    cut_short: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing came, or only what stands for nothing."""
        return bool(self.error) or all(value in (None, "") for row in self.rows for value in row)


def sql_of(query: Query) -> str:
    """The query in SQL."""
    where = _where_of(query.where)
    of, by = _quoted(query.of), _quoted(query.by or query.of)
    also = f"{where} AND" if where else " WHERE"
    match query.compute:
        case "list":
            return f"SELECT {of} FROM data{also} {of} IS NOT NULL ORDER BY row"
        case "count":
            return f"SELECT COUNT(*) FROM data{where}"
        case "count different":
            return f"SELECT COUNT(DISTINCT {of}) FROM data{where}"
        case "sum":
            return f"SELECT SUM({of}) FROM data{where}"
        case "average":
            return f"SELECT AVG({of}) FROM data{where}"
        case "largest" | "smallest":
            extreme = "MAX" if query.compute == "largest" else "MIN"
            return (
                f"SELECT {of} FROM data{also} {by} = (SELECT {extreme}({by}) FROM data{where}) "
                "ORDER BY row"
            )
        case "most frequent":
            return (
                f"SELECT {of} FROM data{also} {of} IS NOT NULL GROUP BY {of} "
                "ORDER BY COUNT(*) DESC, MIN(row) LIMIT 1"
            )
        case "largest total":
            return (
                f"SELECT {of} FROM data{also} {of} IS NOT NULL GROUP BY {of} "
                f"ORDER BY SUM({by}) DESC, MIN(row) LIMIT 1"
            )


def condition_texts(conditions: Sequence[Condition]) -> str:
    """Conditions as a model is told them: "WHERE file LIKE '%fridge%'", "" for none."""
    return _where_of(conditions).strip().replace(" ESCAPE '\\'", "")


def _where_of(conditions: Sequence[Condition]) -> str:
    """The conditions as a clause with a blank before it, or "".

    Of two values that one column is to have a row has one: "both fridges" means either.
    """
    clauses: dict[str, list[str]] = {}
    for number, condition in enumerate(conditions):
        clauses.setdefault(group_of(condition, number), []).append(_condition(condition))
    parts = [some[0] if len(some) == 1 else f"({' OR '.join(some)})" for some in clauses.values()]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def group_of(condition: Condition, number: int) -> str:
    """Conditions of one group are joined by OR, groups by AND; `number` is the condition's own."""
    equal = condition.sign == "=" and not condition.is_column
    return condition.key if equal else f"{condition.key}\0{number}"


def _condition(condition: Condition) -> str:
    key = _quoted(condition.key)
    if condition.sign in WITHOUT_VALUE:
        return f"{key} IS {'NOT ' * (condition.sign == 'not empty')}NULL"
    if condition.is_column:
        return f"{key} {condition.sign} {_quoted(str(condition.value))}"
    value = condition.value
    if condition.sign in ("contains", "begins with"):
        text = re.sub(r"([\\%_])", r"\\\1", str(value))
        pattern = f"%{text}%" if condition.sign == "contains" else f"{text}%"
        return f"{key} LIKE {_literal(pattern)} ESCAPE '\\'"
    return f"{key} {condition.sign} {_literal(value)}"


def _quoted(key: str) -> str:
    return '"' + key.replace('"', '""') + '"'


def _literal(value: str | float) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(int(value)) if value == int(value) else repr(value)


def run(dataset: Dataset, sql: str) -> QueryResult:
    """What a query gives; a query that is wrong, or takes too long, gives its error."""
    import psutil

    connection = dataset.connection()
    memory = psutil.Process().memory_info
    until, most = time.monotonic() + SECONDS, memory().rss + MOST_MEMORY
    connection.set_progress_handler(lambda: time.monotonic() > until or memory().rss > most, _STEPS)
    rows: list[tuple[object, ...]] = []
    cut_short, length = False, 0
    try:
        for values in connection.execute(sql):
            row = tuple(str(v, errors="replace") if isinstance(v, bytes) else v for v in values)
            length += sum(len(value) for value in row if isinstance(value, str))
            if len(rows) == MOST_RESULTS or length > MOST_CHARACTERS:
                cut_short = True
                break
            rows.append(row)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError) as error:
        return QueryResult(sql, error=str(error))
    finally:
        connection.set_progress_handler(None, 0)
    return QueryResult(sql, tuple(rows), cut_short=cut_short)


def answers(result: QueryResult) -> frozenset[str]:
    """The different values that a result has, as they are compared."""
    return frozenset(_norm(row[0]) for row in result.rows)


def _norm(value: object) -> str:
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return f"{float(value):.6g}"
    return fold(str(value or "")).strip()


def counted_rows(dataset: Dataset, query: Query) -> list[int]:
    """The numbers of the rows that a query is about, from 1."""
    needed = query.of if query.compute != "count" else ""
    also = f"{_where_of(query.where) or ' WHERE 1 = 1'}" + (
        f" AND {_quoted(needed)} IS NOT NULL" if needed else ""
    )
    if query.compute in ("largest", "smallest"):
        inner = sql_of(query).replace(f"SELECT {_quoted(query.of)} FROM", "SELECT row FROM", 1)
        result = run(dataset, inner)
    else:
        result = run(dataset, f"SELECT row FROM data{also} ORDER BY row")
    return [int(str(row[0])) for row in result.rows]


def adds_up_numbers_of_rows(dataset: Dataset, query: Query) -> bool:
    """Whether a query adds up what only tells rows apart: job numbers, years, ranks.

    Those are whole numbers in the first column of a sheet, each larger than the one before, or each
    smaller. The 250 tables of WikiTableQuestions have 55 such columns (Year, #, No., Rank, ...),
    and none of 2,055 questions asks for the sum or the average of one.
    """
    if query.compute not in ("sum", "average", "largest total"):
        return False
    added = query.by or query.of if query.compute == "largest total" else query.of
    place = next(p for p, c in enumerate(dataset.columns) if c.key not in ("file", "sheet"))
    first = dataset.columns[place]
    if first.key != added or first.kind != "number" or first.unit:
        return False
    rest = iter(dataset.rows)
    tables = [[row[place] for row in islice(rest, len(table.rows))] for table in dataset.tables]
    return max(map(len, tables), default=0) >= _NUMBERED and all(map(_are_numbers_of_rows, tables))


def _are_numbers_of_rows(values: Sequence[object]) -> bool:
    numbers = [v for v in values if isinstance(v, int | float) and not v % 1]
    steps = {math.copysign(1.0, after - before) for before, after in pairwise(numbers)}
    return len(numbers) == len(values) == len(set(numbers)) and len(steps) <= 1


def mixed_currencies(dataset: Dataset, query: Query) -> tuple[str, ...]:
    """The currencies that a query would add up or compare, where there are several."""
    if query.compute not in ("sum", "average", "largest", "smallest", "largest total"):
        return ()
    key = query.of if query.compute in ("sum", "average") else query.by or query.of
    column = _column(dataset, key)
    if column is None or not column.mixed:
        return ()
    beside = next((c for c in dataset.columns if c.of == column.name and c.kind == "text"), None)
    if beside is None:
        return column.mixed
    rows = run(dataset, f"SELECT DISTINCT {_quoted(beside.key)} FROM data{_where_of(query.where)}")
    there = sorted(str(row[0]) for row in rows.rows if row[0])
    return tuple(there) if len(there) > 1 else ()


def _column(dataset: Dataset, key: str) -> SheetColumn | None:
    return next((column for column in dataset.columns if column.key == key), None)
