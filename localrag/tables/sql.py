"""SQL as a model wrote it: held to the rows that are there, and read as a `Query` where it is one.

Parsed by sqlglot. What the database itself would not allow is its affair (`tables.sheets`).
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from localrag.languages import any_of
from localrag.tables.linking import begins_word
from localrag.tables.query import Compute, Condition, Query, Sign
from localrag.tables.sheets import Dataset
from localrag.text.normalize import fold

if TYPE_CHECKING:
    from sqlglot import exp

_SELECT = re.compile(r"\bselect\b.*?(?=;|```|\n\s*\n|\Z)", re.IGNORECASE | re.DOTALL)
"""The first query in a reply: "SELECT ... " up to a semicolon or the end of its block."""
_FROM = re.compile(r"\bFROM\s+(?:\"[^\"]*\"|`[^`]*`|[^\s(),;]+)", re.IGNORECASE)
"""The table of a query, of which there is one whatever a model calls it: "FROM log-2025"."""
_LONGEST = 2000
"""Characters of a query that is parsed."""
_ENDS_TERM = re.compile(r"\s*[^\w\s]")
"""The hyphen of "Out of service - lamp"."""
_DENIAL = re.compile(any_of(lambda language: language.denial), re.IGNORECASE)


def sql_in(reply: str, dataset: Dataset) -> str:
    """The query in a model's reply, with names and texts as the rows have them, or "".

    There is one table, whatever the model calls it. A text that differs from a value by case alone,
    or stands in one alone, is that value, one that several begin with is any of these, and no text
    at all is an empty cell.
    """
    query = _parsed(reply)
    if query is None:
        return ""
    from sqlglot import exp

    keys = {column.key.lower(): column.key for column in dataset.columns}
    aliases = {alias.alias.lower() for alias in query.find_all(exp.Alias, exp.TableAlias)}
    texts = _texts(dataset)
    for column in list(query.find_all(exp.Column)):
        name = column.name.lower()
        if name in keys:
            column.this.set("this", keys[name])
            column.this.set("quoted", True)
        elif column.this.args.get("quoted") and name not in aliases | {"data", "row"}:
            # SQLite takes a name that is not there for a text, but not behind that of its table.
            is_text = fold(column.name) in texts
            column.replace(
                exp.Literal.string(column.name)
                if is_text
                else exp.column(column.name, table="data", quoted=True)
            )
    for text in list(query.find_all(exp.Literal)):
        if not text.is_string:
            continue
        meant = _meant_texts(text.name, texts)
        if len(meant) == 1:
            text.set("this", meant[0])
        elif meant and isinstance(text.parent, exp.EQ):
            among = [exp.Literal.string(value) for value in meant]
            text.parent.replace(exp.In(this=text.parent.this, expressions=among))
        elif not text.name and isinstance(text.parent, exp.EQ | exp.NEQ):
            empty = exp.Is(this=text.parent.this, expression=exp.null())
            text.parent.replace(empty if isinstance(text.parent, exp.EQ) else exp.not_(empty))
    return query.sql(dialect="sqlite")


def query_of(sql: str, dataset: Dataset) -> Query | None:
    """The `Query` that some SQL is; None for what a `Query` does not say."""
    select = _parsed(sql)
    from sqlglot import exp

    if not isinstance(select, exp.Select):
        return None
    if any(select.args.get(part) for part in ("joins", "having", "windows", "offset", "with_")):
        return None
    source = select.find(exp.From)
    if source is None or not isinstance(source.this, exp.Table):
        return None
    keys = {column.key.lower(): column.key for column in dataset.columns}
    try:
        select = _ordered(select)
        where = select.args.get("where")
        conditions = list(_conditions(where.this, keys)) if where else []
        texts = [column.key for column in dataset.columns if column.kind == "text"]
        computed = _computed(select, keys, next(iter(texts), dataset.columns[0].key))
        counted = select.expressions[0].unalias()
        if isinstance(counted, exp.Count) and isinstance(counted.this, exp.Column):
            conditions.append(Condition(_key(counted.this, keys), "not empty"))
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    if computed is None:
        return None
    compute, of, by = computed
    return Query(compute, of, by, tuple(dict.fromkeys(conditions)))


def _parsed(reply: str) -> exp.Query | None:
    match = _SELECT.search(reply[:_LONGEST])
    if match is None:
        return None
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it cannot say is no query

    sql = match[0].strip()
    for text in (sql, _FROM.sub("FROM data", sql)):  # "FROM costs-2025" is no name in SQL
        try:
            query = parse_one(text, read="sqlite")
        except (SqlglotError, RecursionError):
            continue
        if not isinstance(query, exp.Query):
            return None
        for table in query.find_all(exp.Table):
            table.set("this", exp.to_identifier("data"))
        return query
    return None


def _ordered(select: exp.Select) -> exp.Select:
    """The row whose value is the largest of all, as the first in that order."""
    from sqlglot import exp

    where = select.args.get("where")
    if not where or select.args.get("order"):
        return select
    clauses = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    for clause in clauses:
        inner = clause.expression if isinstance(clause, exp.EQ) else None
        if isinstance(inner, exp.Subquery) and len(inner.this.expressions) == 1:
            value = inner.this.expressions[0]
            if _is_extreme(value) and value.this == clause.this:
                others = [other for other in clauses if other is not clause]
                within = inner.this.args.get("where")
                if within and others and within != exp.Where(this=exp.and_(*others)):
                    raise ValueError(clause)  # the largest of some rows, among others
                result = select.copy()
                result.set("where", within.copy() if within else None)
                if others and not within:
                    result = result.where(*others)
                first = exp.Ordered(this=clause.this.copy(), desc=isinstance(value, exp.Max))
                return result.order_by(first).limit(1)
    return select


def _is_extreme(value: exp.Expr) -> bool:
    """Whether it is the largest or smallest of a column."""
    from sqlglot import exp

    return isinstance(value, exp.Max | exp.Min) and not value.expressions


def _computed(
    select: exp.Select, keys: dict[str, str], name: str
) -> tuple[Compute, str, str] | None:
    """What is computed, `of` and `by` what; of several columns the first, of all `name`.

    Raises KeyError for a name that is not there, TypeError or ValueError for what is no name.
    """
    from sqlglot import exp

    values = [value.unalias() for value in select.expressions]
    values = [exp.column(name) if isinstance(value, exp.Star) else value for value in values]
    value = values[0]
    extremes = [other for other in values if other.find(exp.AggFunc, exp.Anonymous)]
    beside = [other for other in values if isinstance(other, exp.Column)]
    if extremes and beside and not select.args.get("group"):
        if len(extremes) > 1 or not _is_extreme(extremes[0]):
            raise ValueError(select)
        # SQLite: a column beside MAX is that of the row which has the largest.
        largest = isinstance(extremes[0], exp.Max)
        by = _key(extremes[0].this, keys)
        return "largest" if largest else "smallest", _key(beside[0], keys), by
    grouped, ordered, limit = (select.args.get(part) for part in ("group", "order", "limit"))
    if isinstance(value, exp.AggFunc):
        if grouped or ordered:
            return None
        return _aggregate(value, keys)
    of = _key(value, keys)
    if not ordered:
        return None if grouped or limit else ("list", of, of)
    first = ordered.expressions[0]
    is_first = isinstance(limit, exp.Limit) and limit.expression == exp.Literal.number(1)
    if not is_first or len(ordered.expressions) != 1:
        return None if grouped or limit else ("list", of, of)
    descends = bool(first.args.get("desc"))
    aliases = [value for value in select.expressions if isinstance(value, exp.Alias)]
    key = first.this
    if isinstance(key, exp.Column) and not key.table:  # SQLite looks for a name's alias first
        named = (alias.this for alias in aliases if alias.alias.lower() == key.name.lower())
        key = next(named, key)
    if not grouped:
        by = _key(key, keys)
        return "largest" if descends else "smallest", of, by
    if [_key(column, keys) for column in grouped.expressions] != [of] or not descends:
        return None
    if isinstance(key, exp.Count):
        counts_rows = isinstance(key.this, exp.Star | exp.Literal) or key.this == value
        return ("most frequent", of, of) if counts_rows and not key.expressions else None
    if isinstance(key, exp.Sum):
        return "largest total", of, _key(key.this, keys)
    return None


def _aggregate(value: exp.AggFunc, keys: dict[str, str]) -> tuple[Compute, str, str] | None:
    from sqlglot import exp

    if isinstance(value, exp.Count):
        if value.expressions:
            return None
        if isinstance(value.this, exp.Distinct):
            if len(value.this.expressions) != 1:
                return None
            of = _key(value.this.expressions[0], keys)
            return "count different", of, of
        if not isinstance(value.this, exp.Star | exp.Column):
            return None
        first = next(iter(keys.values()))
        return "count", first, first
    names: dict[type[exp.AggFunc], Compute] = {
        exp.Sum: "sum",
        exp.Avg: "average",
        exp.Max: "largest",
        exp.Min: "smallest",
    }
    compute = names.get(type(value))
    if compute is None or value.expressions:  # MAX of two columns is none of rows
        return None
    of = _key(value.this, keys)
    return compute, of, of


def _conditions(clause: exp.Expr, keys: dict[str, str]) -> Iterator[Condition]:
    """Raises as `_computed`."""
    from sqlglot import exp

    if isinstance(clause, exp.Paren):
        yield from _conditions(clause.this, keys)
    elif isinstance(clause, exp.And):
        yield from _conditions(clause.left, keys)
        yield from _conditions(clause.right, keys)
    elif isinstance(clause, exp.Or):  # of one column's values, as `Query` has them
        either = [*_conditions(clause.left, keys), *_conditions(clause.right, keys)]
        if len({condition.key for condition in either}) > 1 or any(
            condition.sign != "=" or condition.is_column for condition in either
        ):
            raise ValueError(clause)
        yield from either
    elif isinstance(clause, exp.In):
        yield from (
            Condition(_key(clause.this, keys), "=", _value(value)) for value in clause.expressions
        )
        if not clause.expressions:
            raise ValueError(clause)
    elif isinstance(clause, exp.Between):
        key = _key(clause.this, keys)
        yield Condition(key, ">=", _value(clause.args["low"]))
        yield Condition(key, "<=", _value(clause.args["high"]))
    elif isinstance(clause, exp.Is) and isinstance(clause.expression, exp.Null):
        yield Condition(_key(clause.this, keys), "empty")
    elif (
        isinstance(clause, exp.Not)
        and isinstance(clause.this, exp.Is)
        and isinstance(clause.this.expression, exp.Null)
    ):
        yield Condition(_key(clause.this.this, keys), "not empty")
    elif isinstance(clause, exp.Like):
        yield _like(_key(clause.this, keys), str(_value(clause.expression)))
    else:
        yield _compared(clause, keys)


def _compared(clause: exp.Expr, keys: dict[str, str]) -> Condition:
    from sqlglot import exp

    signs: dict[type[exp.Expr], Sign] = {
        exp.EQ: "=",
        exp.NEQ: "!=",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
    }
    sign = signs.get(type(clause))
    if sign is None:
        raise ValueError(clause)
    key = _key(clause.this, keys)
    if isinstance(clause.expression, exp.Column):
        return Condition(key, sign, _key(clause.expression, keys), is_column=True)
    return Condition(key, sign, _value(clause.expression))


def _like(key: str, pattern: str) -> Condition:
    """Raises ValueError for a pattern with other places of `%` than before and after."""
    text = pattern.strip("%")
    if not text or "%" in text or "_" in text:
        raise ValueError(pattern)
    if pattern.startswith("%"):
        return Condition(key, "contains", text)
    return Condition(key, "begins with" if pattern.endswith("%") else "=", text)


def _key(value: exp.Expr, keys: dict[str, str]) -> str:
    from sqlglot import exp

    if not isinstance(value, exp.Column):
        raise TypeError(value)
    return keys[value.name.lower()]


def _value(value: exp.Expr) -> str | float:
    from sqlglot import exp

    if isinstance(value, exp.Neg):
        return -float(_value(value.this))
    if not isinstance(value, exp.Literal):
        raise TypeError(value)
    if value.is_string:
        return str(value.this)
    number = float(value.this)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _meant_texts(given: str, texts: dict[str, str]) -> list[str]:
    """The texts of a sheet that are meant: the same, those that begin so, or the one around it.

    A sign has to follow where several begin with it: "out of service", of "Out of service - lamp",
    and not "Oak", of "Oak Road 3". What denies it is not around it: 合格, of 不合格, or
    "paid", of "unpaid".
    """
    folded = fold(given).strip()
    if not folded or "%" in given or folded in texts:
        return [texts[folded]] if folded in texts else []
    around = [key for key in texts if begins_word(folded, key) and _denies(key) == _denies(folded)]
    begun = [
        key for key in around if key.startswith(folded) and _ENDS_TERM.match(key[len(folded) :])
    ]
    if len(around) == 1 and len(folded) > 2:
        begun = around
    return [texts[key] for key in begun]


def _denies(text: str) -> bool:
    return _DENIAL.search(text) is not None


def _texts(dataset: Dataset) -> dict[str, str]:
    """The texts of few-valued columns, folded -> as they stand."""
    return {
        fold(value): value
        for column in dataset.columns
        if column.kind == "text"
        for value in column.values
    }
