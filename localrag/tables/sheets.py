"""Rows of sheets: the tables of documents with typed columns, in an SQL database in memory.

What was read of a document has its tables as lines of cells (`documents.tables`). Here a column
gets its type from its cells, rows that add up others are left out, and tables with the same columns
become one. Nothing is guessed: what cannot be read as its column is empty there, and counted.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import PurePosixPath, PureWindowsPath
from typing import TypeVar

from localrag.documents.tables import CELL_BREAK, cells
from localrag.errors import UsageError
from localrag.models.llms.base import check_stopped
from localrag.tables.records import ColumnKind
from localrag.tables.values import (
    amount_in,
    currency_named,
    date_in,
    date_order,
    decimal_comma,
    is_empty,
)
from localrag.types import Document

TYPED = 0.9
"""The share of the cells of a column that have its type; the others are counted as unread."""
COUNTED = 0.7
"""The share of cells with a number in front, "12,345 (2nd)", from which a column has it beside."""
MOST_ROWS = 1_048_576
"""Of sheets that are read as one: as many as a sheet of Excel can have."""
MOST_COLUMNS = 200
_SPARSE = 4
"""Columns for each cell that a row has on average, from `_FEW_COLUMNS` on: a header of hundreds of
names above rows of one cell would take thousands of times the memory of its text."""
_FEW_COLUMNS = 32
MOST_TABLES = 2000
"""Of a document; the others are counted, see `RawTable.unread`."""
_SHARED = 0.6
"""The share of columns that sheets have in common which are read as one."""
_SHARING = 16
"""Groups of tables that the name of a column leads to, and that a table is compared with."""
_STEP = 4096
"""Rows or cells that are read between two looks at whether to stop: a few milliseconds."""

T = TypeVar("T")

_TOTAL = re.compile(
    r"(?:grand |sub-?)?totals?\b.{0,20}|sum|(?:in )?all|overall|altogether|averages?|mean"
    r"|(?:总|合|小|共|累)计.{0,6}|总[和数额].{0,4}|合[计数].{0,4}|平均.{0,4}",
    re.IGNORECASE,
)
"""The first words of a row that adds up others: "Total", "合计"."""
_NAME = re.compile(r"[^\w]+")
_SIGNS = {"£": "GBP", "€": "EUR", "$": "USD", "￥": "CNY", "¥": "CNY", "%": "percent", "#": "no"}
_BEGINS_WITH_NUMBER = re.compile(r"\s*+([-+−]?[$£€¥]?\s*+\d[\d,]{0,63}(?:\.\d+)?)(?![\d:/–-])")
"""A number in front of other signs: "12,345 (2nd)", not "3-1" nor "12:30"."""


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A typed column. `name` is as the sheet has it, `key` what a query calls it.

    `unit` is a currency or "%" that all cells share. `unread` counts cells that have not its type,
    `mixed` the currencies where there are several. `of` names the column that a number was taken
    from, where its cells have more.
    """

    name: str
    key: str
    kind: ColumnKind
    unit: str = ""
    unread: int = 0
    mixed: tuple[str, ...] = ()
    of: str = ""
    values: tuple[str, ...] = ()
    """Its different texts, where they are few."""


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """Where a row stands: the file, its sheet or "", its number there, its offset in the text."""

    source: str
    sheet: str
    row: int
    start: int
    document_id: str = ""


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table as it was read: the names of its columns, and rows with their origins."""

    source: str
    sheet: str
    names: tuple[str, ...]
    rows: list[tuple[str, ...]]
    places: list[tuple[int, int]]
    """Of each row its number among the lines of the table, from 1, and its offset in the text."""
    totals: int = 0
    """Rows left out because they add up others."""
    document_id: str = ""
    unread: int = 0
    """Tables of its document beyond MOST_TABLES, which were not read."""


@dataclass(slots=True, eq=False)
class Dataset:
    """Typed columns and rows, of one sheet or of several with the same columns.

    `row` of the database is the number of a row, from 1; see `origin`.
    """

    sources: tuple[str, ...]
    sheets: tuple[str, ...]
    columns: tuple[SheetColumn, ...]
    rows: list[tuple[object, ...]]
    tables: tuple[RawTable, ...]
    totals: int = 0
    _connection: sqlite3.Connection | None = field(default=None, repr=False)

    def column(self, key: str) -> SheetColumn:
        """The column that a query calls `key`. Raises KeyError."""
        return next(column for column in self.columns if column.key == key)

    def empty_rows(self) -> dict[str, int]:
        """How many rows have nothing in a column, by its key; of columns filled in other rows."""
        counts = {
            column.key: sum(row[place] is None for row in self.rows)
            for place, column in enumerate(self.columns)
        }
        return {key: count for key, count in counts.items() if 0 < count < len(self.rows)}

    @property
    def documents(self) -> tuple[str, ...]:
        """The ids of the documents that the rows stand in."""
        return tuple(dict.fromkeys(table.document_id for table in self.tables))

    @property
    def unread_tables(self) -> dict[str, int]:
        """Of the files with more than MOST_TABLES tables, how many were not read."""
        return {table.source: table.unread for table in self.tables if table.unread}

    def origin(self, row: int) -> RowOrigin:
        """Where a row stands, by its number from 1."""
        left = row - 1
        for table in self.tables:
            if left < len(table.rows):
                number, start = table.places[left]
                return RowOrigin(table.source, table.sheet, number, start, table.document_id)
            left -= len(table.rows)
        raise IndexError(row)

    def connection(self) -> sqlite3.Connection:
        """The rows as table `data` in memory, which queries can only read."""
        if self._connection is None:
            self._connection = _database(self)
        return self._connection

    def close(self) -> None:
        """Let the database go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def raw_tables(
    document: Document, document_id: str = "", stopped: threading.Event | None = None
) -> list[RawTable]:
    """The tables of a document that have names and rows; a table that goes on is one.

    Raises StoppedError once `stopped` is set.
    """
    rest = _raw_tables(document, document_id, stopped)
    tables = list(islice(rest, MOST_TABLES))
    unread = sum(1 for _ in rest)
    return [replace(table, unread=unread) for table in tables] if unread else tables


def _raw_tables(
    document: Document, document_id: str, stopped: threading.Event | None
) -> Iterator[RawTable]:
    text = document.text
    starts, labels = [], []
    offset = 0
    for page in document.pages:
        starts.append(offset)
        labels.append(page.label)
        offset += len(page.text) + 1
    pending: RawTable | None = None
    for span in document.tables:
        place = bisect_right(starts, span.start) - 1
        label = labels[place] if labels else ""
        lines = _until_stopped(text[span.start : span.end].split("\n"), stopped)
        rows, places, totals = _rows_of(lines, span.start, span.header, span.header_rows)
        names = _names(span.header, rows)
        table = RawTable(document.source, label, names, rows, places, totals, document_id)
        if pending and not span.header_rows and pending.names == names:
            pending.rows.extend(table.rows)
            pending.places.extend(table.places)
            pending = replace(pending, totals=pending.totals + table.totals)
            continue
        if pending:
            yield pending
        pending = table if len(names) > 1 and table.rows else None
    if pending:
        yield pending


def _rows_of(
    lines: Iterable[str], start: int, header: Sequence[str], header_rows: int
) -> tuple[list[tuple[str, ...]], list[tuple[int, int]], int]:
    rows: list[tuple[str, ...]] = []
    places: list[tuple[int, int]] = []
    totals = 0
    offset = start
    width = len(header)
    header = header or ("",)
    for number, line in enumerate(lines):
        at = offset
        offset += len(line) + 1
        if number < header_rows or not line:
            continue
        # Most rows are plain, and there may be a million of them.
        row = line.split(CELL_BREAK)
        if len(row) != width or "|  |" in line:
            row = cells(line)
        if row[0] == header[0] and row == list(header[: len(row)]):
            continue
        if _adds_up(row):
            totals += 1
            continue
        rows.append(tuple(row))
        places.append((number + 1, at))
    return rows, places, totals


def _adds_up(row: Sequence[str]) -> bool:
    """Whether a row adds up others: its first words say so, and numbers follow."""
    first = next((cell for cell in row if cell), "")
    if not _TOTAL.fullmatch(first):
        return False
    return any(amount_in(cell) for cell in row if cell != first)


def _names(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    width = max([len(header), *(len(row) for row in rows[:200])])
    return tuple((header[place] if place < len(header) else "") or "" for place in range(width))


def _until_stopped(items: Iterable[T], stopped: threading.Event | None) -> Iterator[T]:
    for number, item in enumerate(items):
        if stopped is not None and not number % _STEP:
            check_stopped(stopped)
        yield item


def datasets(tables: Iterable[RawTable], stopped: threading.Event | None = None) -> list[Dataset]:
    """The tables as typed rows: those that share their columns together, as one.

    Raises StoppedError once `stopped` is set.
    """
    groups: list[list[RawTable]] = []
    names_of: list[frozenset[str]] = []
    same: dict[frozenset[str], int] = {}
    having: defaultdict[str, list[int]] = defaultdict(list)
    for table in tables:
        names = frozenset(filter(None, table.names))
        number = same.get(names)
        if number is None:
            weights = Counter[int]()
            for name in names:
                for sharing in having[name]:
                    weights[sharing] += _SHARING // len(having[name])  # a rare name tells more
            likely = (group for group, _ in weights.most_common(_SHARING))
            alike = (group for group in likely if _alike(names, names_of[group]))
            number = min(alike, default=len(groups))
        if number == len(groups):
            groups.append([])
            names_of.append(names)
            if len(names) > 1:
                same[names] = number
            for name in names:
                if len(having[name]) < _SHARING:
                    having[name].append(number)
        groups[number].append(table)
    return [dataset_of(group, stopped) for group in groups]


def expect_few_rows(dataset: Dataset) -> None:
    """Raises UsageError for more rows than a query is run over."""
    if len(dataset.rows) > MOST_ROWS:
        raise UsageError(
            "The sheets with the columns of {source} have more than {most} rows together.",
            hint="Name fewer files with --in.",
            source=short_name(dataset.sources[0]),
            most=MOST_ROWS,
        )


def _alike(names: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(names & other)
    return shared >= 2 and shared >= _SHARED * max(len(names), len(other))


def dataset_of(group: Sequence[RawTable], stopped: threading.Event | None = None) -> Dataset:
    """Tables with the same columns as one; of several, the file and the sheet are columns.

    Raises StoppedError once `stopped` is set.
    """
    places = [
        {name: place for place, name in enumerate(_told_apart(table.names))} for table in group
    ]
    names = dict.fromkeys(name for places_of in places for name in places_of)
    count = sum(len(table.rows) for table in group)
    filled = sum(len(row) for table in group for row in table.rows)
    most = min(MOST_COLUMNS, max(_FEW_COLUMNS, _SPARSE * filled // max(1, count)))
    sources = tuple(dict.fromkeys(table.source for table in group))
    sheets = tuple(dict.fromkeys(table.sheet for table in group))
    added: dict[str, list[str]] = {}  # names, also where they are numbers: "2025.csv"
    if len(sources) > 1:
        added["file"] = [short_name(table.source) for table in group for _ in table.rows]
    if len(sheets) > 1:
        added["sheet"] = [table.sheet for table in group for _ in table.rows]
    keys: set[str] = {"data", "row", "rowid"}
    columns: list[SheetColumn] = []
    typed: list[list[object]] = []
    for name in islice(names, most):
        texts = [
            row[place] if place is not None and place < len(row) else ""
            for table, places_of in zip(group, places, strict=True)
            for place in [places_of.get(name)]
            for row in _until_stopped(table.rows, stopped)
        ]
        for column, values in _typed_columns(name, texts, keys, stopped):
            columns.append(column)
            typed.append(values)
    for name, texts in added.items():
        few = tuple(dict.fromkeys(texts))
        columns.append(SheetColumn(name, key_of(name, keys), "text", values=few))
        typed.append(list(texts))
    rows = list(zip(*typed, strict=True)) if typed else []
    return Dataset(
        sources, sheets, tuple(columns), rows, tuple(group), sum(table.totals for table in group)
    )


def _told_apart(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: the second "Year" is "Year 2", one without a name "column 3"."""
    counts = Counter[str]()
    distinct_names = []
    for place, name in enumerate(names, 1):
        name = name or f"column {place}"
        counts[name] += 1
        distinct_names.append(name if counts[name] == 1 else f"{name} {counts[name]}")
    return distinct_names


def short_name(source: str) -> str:
    """The name of a file on one line, without its folders and its suffix."""
    path = PureWindowsPath(source) if "\\" in source else PurePosixPath(source)
    return " ".join(path.stem.split())


def file_name(source: str) -> str:
    """The name of a file or a folder on one line, without what it lies in.

    With line ends of its own it could write lines of a prompt.
    """
    return " ".join(source.replace("\\", "/").rpartition("/")[2].split())


def key_of(name: str, taken: set[str]) -> str:
    """What a query calls a column: words and digits, and no key twice.

    Signs become words, since "£/pkt" and "Pkts" are not the same.
    """
    for sign, word in _SIGNS.items():
        name = name.replace(sign, f" {word} ")
    key = _NAME.sub("_", name).strip("_") or "column"
    key = f"c_{key}" if key[0].isdigit() or key.upper() in _KEYWORDS else key
    unique_key, number = key, 2
    while unique_key.lower() in taken:
        unique_key, number = f"{key}_{number}", number + 1
    taken.add(unique_key.lower())
    return unique_key


_WORDS = (
    "ALL AND AS ASC BETWEEN BY CASE CHECK COLUMN CREATE CROSS CURRENT DEFAULT DELETE DESC DISTINCT "
    "DROP ELSE END ESCAPE EXCEPT EXISTS FOREIGN FROM FULL GROUP HAVING IN INDEX INNER INSERT INTO "
    "INTERSECT IS ISNULL JOIN LEFT LIKE LIMIT MATCH NATURAL NOT NOTNULL NULL OF OFFSET ON OR ORDER "
    "OUTER OVER PLAN PRIMARY RANGE RECURSIVE REFERENCES REPLACE RIGHT ROW ROWS SELECT SET TABLE "
    "THEN TO TRANSACTION TRIGGER UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WINDOW WITH"
)
_KEYWORDS = frozenset(_WORDS.split())
"""Names that SQLite reads as something else."""


def _typed_columns(
    name: str, texts: Sequence[str], keys: set[str], stopped: threading.Event | None
) -> Iterator[tuple[SheetColumn, list[object]]]:
    counts = Counter(texts)
    filled = Counter(
        {
            text: count
            for text, count in _until_stopped(counts.items(), stopped)
            if not is_empty(text)
        }
    )
    sample = list(islice(filled, _SAMPLE))
    key = key_of(name, keys)
    comma = decimal_comma(sample)
    # A column of words is none of numbers, however long it is.
    likely = sum(amount_in(text, comma=comma) is not None for text in sample)
    numbers: dict[str, tuple[float, str]] = {}
    if sample and 2 * likely >= len(sample):
        for text in _until_stopped(filled, stopped):
            if (amount := amount_in(text, comma=comma)) is not None:
                numbers[text] = amount
    total = filled.total()
    read = sum(filled[text] for text in numbers)
    if total and read >= TYPED * total and not _are_codes(sample):
        signs = {unit for _, unit in numbers.values() if unit}
        unit = next(iter(signs)) if len(signs) == 1 else "" if signs else currency_named(name)
        kind: ColumnKind = "money" if unit not in ("", "%", "‰") or len(signs) > 1 else "number"
        amounts = {text: number for text, (number, _) in numbers.items()}
        mixed = tuple(sorted(signs)) if len(signs) > 1 else ()
        yield (
            SheetColumn(name, key, kind, unit, total - read, mixed),
            [amounts.get(text) for text in texts],
        )
        if mixed:
            other = key_of(f"{name} currency", keys)
            of_rows: list[object] = [
                numbers[text][1] if text in numbers else None for text in texts
            ]
            yield SheetColumn(f"{name} currency", other, "text", of=name, values=mixed), of_rows
        return
    order = date_order(filled)
    likely = sum(date_in(text, order) is not None for text in sample)
    if sample and 2 * likely >= len(sample):
        days = {text: date_in(text, order) for text in _until_stopped(filled, stopped)}
        dated = sum(count for text, count in filled.items() if days[text] is not None)
        if dated >= TYPED * total:
            yield (
                SheetColumn(name, key, "date", unread=total - dated),
                [days.get(text) for text in texts],
            )
            return
    few = tuple(filled) if len(filled) <= _FEW_VALUES else ()
    yield SheetColumn(name, key, "text", values=few), [text or None for text in texts]
    begun = sum(_BEGINS_WITH_NUMBER.match(text) is not None for text in sample)
    if sample and begun >= COUNTED * len(sample):
        beside = key_of(f"{name} number", keys)
        yield (
            SheetColumn(f"{name} (number)", beside, "number", of=name),
            [
                float(re.sub(r"[^\d.+-]", "", match[1].replace("−", "-")))
                if (match := _BEGINS_WITH_NUMBER.match(text or ""))
                else None
                for text in _until_stopped(texts, stopped)
            ],
        )


_FEW_VALUES = 60
_SAMPLE = 2000
"""Different cells that decide what a column may be."""


def _are_codes(texts: Sequence[str]) -> bool:
    """Whether numbers are names: "007", telephone numbers."""
    padded = sum(len(text) > 1 and text[0] == "0" and text.isdigit() for text in texts)
    long = sum(text.isdigit() and len(text) > 9 for text in texts)
    return 2 * (padded + long) > len(texts)


def _database(dataset: Dataset) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA temp_store = MEMORY")  # sorting writes no cell in clear on a disk
    kinds = {"number": "REAL", "money": "REAL"}
    parts = [
        f'"{column.key}" {kinds.get(column.kind, "TEXT COLLATE NOCASE")}'
        for column in dataset.columns
    ]
    connection.execute(f"CREATE TABLE data({', '.join(['row INTEGER PRIMARY KEY', *parts])})")
    marks = ", ".join("?" * (1 + len(parts)))
    connection.execute("BEGIN")
    connection.executemany(
        f"INSERT INTO data VALUES ({marks})",  # noqa: S608 - question marks
        ((number, *row) for number, row in enumerate(dataset.rows, 1)),
    )
    connection.execute("COMMIT")
    connection.execute("PRAGMA query_only = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.set_authorizer(_only_reads)
    return connection


_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_FUNCTIONS = frozenset(
    {"abs", "avg", "ceil", "ceiling", "coalesce", "count", "date", "datetime", "floor", "ifnull"}
    | {"iif", "julianday", "length", "like", "lower", "ltrim", "max", "min", "nullif", "replace"}
    | {"round", "rtrim", "strftime", "substr", "substring", "sum", "time", "total", "trim", "upper"}
)
"""What a query over rows may call: nothing that makes a long text of short ones, such as `printf`,
which takes memory and time that no handler bounds."""
_LONGEST = 1 << 20
"""Bytes of a text or row that a query makes or reads."""


def _only_reads(action: int, _: str | None, name: str | None, *__: object) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = (name or "").lower() in _FUNCTIONS
    else:
        allowed = action in _ALLOWED
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
