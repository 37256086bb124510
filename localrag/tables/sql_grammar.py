"""The queries that a model may write over some rows, as a grammar that its tokens are held to.

A small model names columns that are not there ("WHERE month = '2025-02'" over a sheet of one
month), and takes values for what is asked from the rows that it was shown. Held to the names that
are there, and to what the question says, it writes queries that can be run and that agree (Scholak
et al. 2021, PICARD, arXiv 2109.05093). The notation is llama.cpp's GBNF.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localrag.tables.query import Compute
from localrag.tables.sheets import Dataset, SheetColumn
from localrag.tables.values import date_text
from localrag.text.figures import figures
from localrag.text.normalize import fold

_REPEATED, _FEW = 0.5, 5
"""The most different values for each filled row of a column of categories, and how many are always
few enough where some repeat: a row is known by the values of others, which a condition takes from
the question."""
_WORD = re.compile(r"[^\W_\u4e00-\u9fff]{3,}|[\u4e00-\u9fff]+")
"""What a text may be searched for: "fridges", "港区"; of Chinese every part of 2 to 6 signs."""
_DIGITS = re.compile(r"(?<![\w.,])\d+(?:\.\d+)?")
"""A number as a question has it: "60" of "over 60s", not of "K60"."""
_YEARS = range(1900, 2100)
"""Numbers that may be years as well: of "Easter 2025"."""
_HAN = re.compile(r"[\u4e00-\u9fff]")
_LONGEST_PART = 6
_ESCAPED = re.compile(r'[\x00-\x1f"\\\x7f]')
"""Signs that a literal cannot hold: `"`, `\\`, ends of lines."""

_RULES = r"""
where ::= " WHERE " condition (" AND " condition (" AND " condition)?)?
compared ::= " = " | " > " | " < " | " >= " | " <= " | " != "
day ::= [0-9] [0-9] [0-9] [0-9] "-" [01] [0-9] "-" [0-3] [0-9]
text ::= [^'%_\\\n]{1,60}
"""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What conditions take from a question: numbers, dates, parts of its text; None: any text.

    Any text is for a question in another script than the sheet, which it has to be translated into.
    """

    numbers: tuple[str, ...]
    months: tuple[str, ...]
    dates: tuple[str, ...]
    parts: tuple[str, ...] | None

    def named(self, values: Sequence[str]) -> list[str]:
        """The values that share a word with it."""
        if self.parts is None:
            return list(values)
        words = {part.lower() for part in self.parts}
        return [value for value in values if not words.isdisjoint(_parts(value))]


def grammar(
    question: str, dataset: Dataset, columns: Sequence[SheetColumn], computes: Sequence[Compute]
) -> str:
    """The grammar of queries that `computes` one of these over some columns; "" where none can."""
    keys = [column.key for column in columns]
    numbers = [column.key for column in columns if column.kind in ("number", "money")]
    measures = numbers + [column.key for column in columns if column.kind == "date"]
    asked = _asked(question, columns)
    queries = [query for name in computes for query in _queries(name, keys, numbers, measures)]
    conditions = [
        text for column in columns for text in _conditions(column, asked, numbers, dataset)
    ]
    if not queries:
        return ""
    where = ' " FROM data" where?' if conditions else ' " FROM data"'
    rules = [
        f'root ::= "SELECT " ({" | ".join(query.replace(" ROWS", where) for query in queries)})',
        f"column ::= {_either(keys)}",
        *([f"condition ::= {' | '.join(conditions)}"] if conditions else []),
        *([f"number ::= {_either(asked.numbers)}"] if asked.numbers else []),
        *([f"amount ::= {_either(numbers)}"] if numbers else []),
        *([f"measure ::= {_either(measures)}"] if measures else []),
    ]
    return "\n".join(rules) + (_RULES if conditions else "")


def _asked(question: str, columns: Sequence[SheetColumn]) -> _Asked:
    numbers: list[str] = []
    months: list[str] = []
    dates: list[str] = []
    rest = question.replace(",", "")
    for figure in figures(question):
        values = [value for value in figure.value if value is not None]
        if figure.kind == "date":
            year, month, *_ = (*figure.value, None)
            rest = rest.replace(question[figure.start : figure.end], " ")
            # A month of any year is "-02".
            dates.append(date_text(figure) or f"-{values[0]:02.0f}")
            months += [f"{month:.0f}"] if month else []
            numbers += [f"{year:.0f}"] if year else []
        elif figure.kind == "number":
            numbers += [f"{value:.15g}" for value in values]
            numbers += [f"{value / 100:.15g}" for value in values if "%" in figure.units]
            dates += [f"{value:.0f}" for value in values if value in _YEARS]
    numbers += _DIGITS.findall(rest)
    texts = [column.key for column in columns] + [v for column in columns for v in column.values]
    same_script = bool(_HAN.search(question)) == any(map(_HAN.search, texts))
    parts = tuple(_parts(question)) if same_script else None
    numbers, months, dates = (list(dict.fromkeys(some)) for some in (numbers, months, dates))
    return _Asked(tuple(numbers), tuple(months), tuple(dates), parts)


def _parts(text: str) -> list[str]:
    """Words of a text, in English without an ending "s" as well; of Chinese all parts."""
    parts: list[str] = []
    for word in _WORD.findall(fold(text)):
        if _HAN.match(word):
            parts += [
                word[start : start + length]
                for length in range(2, _LONGEST_PART + 1)
                for start in range(len(word) - length + 1)
            ]
        else:
            parts += [word, word.removesuffix("s")]
    return list(dict.fromkeys(parts))


def _queries(
    name: Compute, keys: Sequence[str], numbers: Sequence[str], measures: Sequence[str]
) -> Iterator[str]:
    """The forms of a query, as `tables.sql` reads them."""
    match name:
        case "list":
            yield "column ROWS"
        case "count":
            yield '"COUNT(*)" ROWS'
        case "count different":
            yield '"COUNT(DISTINCT " column ")" ROWS'
        case "sum" | "average":
            function = "SUM" if name == "sum" else "AVG"
            yield from [f'"{function}(" amount ")" ROWS'] * bool(numbers)
        case "largest" | "smallest":
            order = "DESC" if name == "largest" else "ASC"
            yield from [f'column ROWS " ORDER BY " measure " {order} LIMIT 1"'] * bool(measures)
        case "most frequent" | "largest total":
            total = '"COUNT(*)"' if name == "most frequent" else '"SUM(" amount ")"'
            for key in keys if numbers or name == "most frequent" else ():
                group = _literal(f" GROUP BY {key} ORDER BY ")
                yield f'{_literal(key)} ROWS {group} {total} " DESC LIMIT 1"'


def _conditions(
    column: SheetColumn, asked: _Asked, numbers: Sequence[str], dataset: Dataset
) -> Iterator[str]:
    key, place = column.key, dataset.columns.index(column)
    filled = [row[place] for row in dataset.rows if row[place] is not None]
    if 0 < len(filled) < len(dataset.rows):
        yield _literal(f"{key} IS NULL")
        yield _literal(f"{key} IS NOT NULL")
    if column.kind == "date":
        years = sorted({str(cell)[:4] for cell in filled})
        dates = [
            f"{year}{date}" for date in asked.dates for year in (years if date[0] == "-" else [""])
        ]
        if dates:
            yield f'{_literal(f"{key} LIKE ")} "\'" ({_either(dates)}) "%\'"'
        yield f'{_literal(key)} compared "\'" day "\'"'
        yield f'{_literal(f"{key} BETWEEN ")} "\'" day "\' AND \'" day "\'"'
    elif key in numbers:
        if asked.numbers:
            yield f"{_literal(key)} compared number"
        if asked.months and all(cell in range(1, 13) for cell in filled):
            yield f"{_literal(key)} compared ({_either(asked.months)})"
        named = [other for other in numbers if other != key and asked.named([other])]
        if named:
            yield f"{_literal(key)} compared ({_either(named)})"
    else:
        cells = fold("\n".join(map(str, filled)))
        parts = None if asked.parts is None else [part for part in asked.parts if part in cells]
        if parts or parts is None:
            part = f"({_either(parts)})" if parts else "text"
            yield f'{_literal(f"{key} LIKE ")} "\'%" {part} "%\'"'
        few = max(_REPEATED * len(filled), min(_FEW, len(filled) - 1))
        is_category = len(column.values) <= few
        values = column.values if is_category else asked.named(column.values)
        if values:
            texts = _either([f"""'{value.replace("'", "''")}'""" for value in values])
            yield f"{_literal(f'{key} = ')} ({texts})"
            yield f"{_literal(f'{key} != ')} ({texts})"
            yield f'{_literal(f"{key} IN (")} ({texts}) (", " ({texts}))* ")"'


def _either(texts: Sequence[str]) -> str:
    return " | ".join(map(_literal, texts))


def _literal(text: str) -> str:
    """A text as GBNF has it, which knows fewer escapes than JSON."""
    escaped = _ESCAPED.sub(lambda match: f"\\U{ord(match[0]):08X}", text)
    return f'"{escaped}"'
