"""What people have that no table is made for: said clearly, and nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "library"))
from counting import instructions
from library_fixtures import add, document, open_library
from scripted_llm import ScriptedLLM

from localrag.engine import compute_in
from localrag.errors import LibraryError, StoppedError, UsageError
from localrag.library.library import Library
from localrag.library.records import NotKept
from localrag.messages import spoken, spoken_to
from localrag.presentation.computed import basis_lines, computed_json, computed_lines
from localrag.presentation.tables import SUFFIXES, exported, total_lines
from localrag.tables import query, sheets
from localrag.tables.documents import Work, cell_key, fill, select
from localrag.tables.formulation import MOST_QUERIES, compute
from localrag.tables.query import Query, run, sql_of
from localrag.tables.records import Begun, CellDone, Column, Reply, Table
from localrag.tables.sheets import Dataset, RawTable, datasets, raw_tables
from localrag.text.tokenize import Tokenizer
from localrag.types import Basis, Citation, Document, Page, TableSpan

COSTS = Column("What does it cost?", "money")


def sheet(source: str, rows: Sequence[Sequence[str]]) -> Document:
    text = "\n".join(" | ".join(row) for row in rows)
    span = TableSpan(0, len(text), tuple(rows[0]))
    return Document(source, source, source, (Page(1, text),), tables=(span,))


def dataset(*documents: Document) -> Dataset:
    (data,) = datasets(table for entry in documents for table in raw_tables(entry))
    return data


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with open_library(tmp_path / "library") as new_library:
        for name, price in (("a", "EUR 10"), ("b", "GBP 20"), ("c", "EUR 12")):
            add(new_library, document(f"It costs {price}.", source=f"/offers/{name}.txt"))
        yield new_library


def table_of(
    library: Library, ask: Callable[[Column, str], Reply], column: Column = COSTS
) -> tuple[list[object], Table]:
    keys = (cell_key(column.question, column.kind, "model", ""),)
    work = Work(select(library, []).documents, (column,), keys)
    *events, last = fill(library, work, ask, lambda: False)
    assert isinstance(last, Table)
    return events, last


def price(_: Column, source: str) -> Reply:
    text = {"a": "EUR 10", "b": "GBP 20", "c": "EUR 12"}[Path(source).stem]
    citation = Citation(1, 1, source, 1, f"It costs {text}.")
    return Reply(f"It costs {text}.", stated=True, citations=(citation,), seconds=1.0)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT printf('%.*c', 200000000, 'x') FROM data",
        "SELECT hex(zeroblob(100000000)) FROM data",
        "SELECT group_concat(Item, Item) FROM data",
        "SELECT instr(Item, Item) FROM data",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        f"SELECT {'replace(' * 9}Item{', 1, 1111111111)' * 9} FROM data",
    ],
)
def test_a_query_makes_nothing_large(sql: str) -> None:
    data = sheets.dataset_of([sheets.RawTable("/a.csv", "", ("Item",), [("111",)], [(1, 1)])])
    assert run(data, sql).error not in (None, "", "interrupted"), "refused, and not given up"


def test_long_rows_are_cut_short_together() -> None:
    rows = [("x" * 50_000,)] * 100
    data = sheets.dataset_of(
        [sheets.RawTable("/a.csv", "", ("Item",), rows, [(n, n) for n in range(100)])]
    )
    result = run(data, "SELECT Item FROM data")
    assert result.cut_short
    assert 70 < len(result.rows) < 90


def test_a_cell_that_may_not_be_read_says_so_at_once(library: Library) -> None:
    documents = select(library, []).documents
    keys = (cell_key(COSTS.question, COSTS.kind, "model", ""),)
    work = Work(documents, (COSTS,), keys, frozenset({documents[1].id}))
    beginning, *cells, table = fill(library, work, price, lambda: False)
    assert isinstance(beginning, Begun)
    assert beginning.to_read == 2
    states = [(cell.cell.state, cell.cell.reason, cell.left) for cell in cells]  # type: ignore[union-attr]
    assert states == [("found", "", 1), ("not read", "private", 1), ("found", "", 0)]
    assert isinstance(table, Table)
    assert table.rows[1].cells[0].reason == "private"


def test_amounts_in_two_currencies_are_never_added_up(library: Library) -> None:
    _, table = table_of(library, price)
    assert table.totals[0].sums == {"EUR": 22.0, "GBP": 20.0}
    assert "different units are not added up" in total_lines(table.columns[0], table.totals[0])


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 308])
@pytest.mark.parametrize(
    ("column", "said"),
    [
        (COSTS, "It costs EUR {}."),
        (Column("How long does it take?", "number"), "It takes {} days."),
    ],
)
def test_an_endless_number_is_doubtful_and_the_table_is_whole(
    library: Library, column: Column, said: str, digits: str
) -> None:
    def reply(_: Column, source: str) -> Reply:
        text = said.format("10" if Path(source).stem == "a" else digits)
        return Reply(text, stated=True, citations=(Citation(1, 1, source, 1, text),))

    for _ in range(2):  # the second time from what was kept
        _, table = table_of(library, reply, column)
        assert [row.cells[0].state for row in table.rows][:2] == ["found", "doubtful"]
        assert list(table.totals[0].sums.values()) == [10.0]
        assert total_lines(table.columns[0], table.totals[0])
        assert all(exported(table, Path(f"t{suffix}")) for suffix in SUFFIXES)


def test_a_document_counts_once_whatever_it_says_and_wherever_it_lies(library: Library) -> None:
    text = "Count me twice. It costs EUR 12."
    for source in ("/offers/c.txt", "/copies/c.txt"):
        add(library, document(text, source=source))
    _, table = table_of(library, price)
    assert len(table.rows) == 3
    assert table.totals[0].sums["EUR"] == 22.0


def test_a_full_disk_costs_no_cell(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise LibraryError("No space left on device.")

    monkeypatch.setattr(library, "keep_cells", full)
    events, table = table_of(library, price)
    assert any(isinstance(event, NotKept) for event in events)
    assert table.totals[0].completeness.final
    monkeypatch.undo()
    events, _ = table_of(library, price)
    assert not any(event.kept for event in events if isinstance(event, CellDone))


def test_a_path_that_was_removed_stands_in_no_kept_cell(library: Library) -> None:
    add(library, document("It costs EUR 10.", source="/aside/GONEx.txt"))  # the same as a.txt
    library_cells = [record.sources[0] for record in select(library, []).documents]
    assert "/aside/GONEx.txt" in library_cells

    def ask(column: Column, source: str) -> Reply:
        return price(column, "a" if "GONE" in source else source)

    table_of(library, ask)
    library.remove(sources=["/aside/GONEx.txt"])
    files = [path for path in Path(library.directory).rglob("*") if path.is_file()]
    assert all(b"GONEx" not in path.read_bytes() for path in files)
    _, table = table_of(library, ask)
    (cell,) = next(row.cells for row in table.rows if row.source == "/offers/a.txt")
    assert cell.citations[0].source == "/offers/a.txt"


KILLED = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {library!r}]
from library_fixtures import open_library
from localrag.tables.documents import Work, cell_key, fill, select
from localrag.tables.records import CellDone, Column, Reply
column = Column("What?")
with open_library(Path(sys.argv[1])) as library:
    work = Work(select(library, []).documents, (column,), (cell_key("What?", None, "m", ""),))
    def ask(column, source):
        return Reply(f"It is {{source}}.", stated=True, seconds=1.0)
    for event in fill(library, work, ask, lambda: False):
        if isinstance(event, CellDone) and event.row == 2:
            print("read", flush=True)
            sys.stdin.read()
"""


def test_who_is_killed_has_lost_one_cell_at_most(library: Library) -> None:
    tests = Path(__file__).resolve().parents[1]
    script = KILLED.format(tests=str(tests), library=str(tests / "library"))
    place = Path(library.directory)
    library.close()
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"read\n"
    process.kill()
    process.communicate()
    with open_library(place) as again:
        key = cell_key("What?", None, "m", "")
        cells = again.kept_cells([record.id for record in again.documents()], [key])
        assert len(cells) == 2


def test_a_sheet_of_a_million_rows_is_added_up() -> None:
    rows = ["Item | Cost GBP", *(f"item {n % 50} | {n % 100}" for n in range(1_000_000))]
    text = "\n".join(rows)
    span = TableSpan(0, len(text), ("Item", "Cost GBP"))
    data = dataset(Document("d", "big.csv", "big.csv", (Page(1, text),), tables=(span,)))
    assert len(data.rows) == 1_000_000
    assert run(data, sql_of(Query("sum", "Cost_GBP"))).rows == ((49_500_000.0,),)
    data.close()


def test_more_rows_than_can_be_held_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MOST_ROWS", 3)
    rows = [("Item", "Price"), ("a", "1"), ("b", "2")]
    sheets.expect_few_rows(dataset(sheet("x.csv", rows)))
    data = dataset(sheet("x.csv", rows), sheet("y.csv", rows))
    with pytest.raises(UsageError, match="columns of x have more than 3 rows"):
        sheets.expect_few_rows(data)


def test_a_formula_without_a_result_is_not_counted_and_said() -> None:
    rows = [("Item", "Price"), *((f"item {n}", str(n)) for n in range(19)), ("x", "=SUM(B2:B9)")]
    data = dataset(sheet("p.csv", rows))
    llm = ScriptedLLM(["SELECT SUM(Price) FROM data"] * MOST_QUERIES)
    computation = compute("What do they cost together?", data, llm)
    assert computation.values == ((171.0,),)
    assert any(
        "1 cell of “Price” could not be read" in line for line in computed_lines(data, computation)
    )


def test_headers_that_are_empty_or_alike_are_told_apart() -> None:
    rows = [("Item", "Cost", "Cost", ""), ("a", "1", "2", "x"), ("b", "3", "4", "y")]
    data = dataset(sheet("m.csv", rows))
    assert [column.name for column in data.columns] == ["Item", "Cost", "Cost 2", "column 4"]
    assert [column.key for column in data.columns] == ["Item", "Cost", "Cost_2", "column_4"]
    assert run(data, sql_of(Query("sum", "Cost_2"))).rows == ((6.0,),)


def test_a_wide_header_over_short_rows_takes_no_more_memory_than_its_text() -> None:
    names = ["Item", "Cost", *(f"n{number}" for number in range(2000))]
    table = RawTable("w.csv", "", tuple(names), [("a", "1")] * 5000, [(1, 0)] * 5000)
    tracemalloc.start()
    data = sheets.dataset_of([table])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
    assert run(data, sql_of(Query("sum", "Cost"))).rows == ((5000.0,),)
    assert len(data.columns) == 32
    whole = RawTable("w.csv", "", tuple(names), [tuple("1" * 300)], [(1, 0)])
    assert len(sheets.dataset_of([whole]).columns) == sheets.MOST_COLUMNS


def some_tables(count: int, width: int) -> list[RawTable]:
    """Tables that share half of their names, and are not alike."""
    half = range(width // 2)
    return [
        RawTable(
            f"{number}.csv",
            "",
            (*(f"c{place}" for place in half), *(f"{number} {place}" for place in half)),
            [("x", str(number))],
            [(1, 0)],
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("width", [4, 40])
def test_the_work_for_tables_grows_with_their_number(width: int) -> None:
    def work(count: int) -> int:
        tables = some_tables(count, width)
        datasets_made = list[Dataset]()
        steps = instructions(lambda: datasets_made.extend(datasets(tables)))
        assert len(datasets_made) == count
        return steps

    work(10)  # from Python 3.12 on, instructions are counted from the second time on
    few = work(100)
    assert few
    assert work(400) < 5 * few


def test_of_a_document_so_many_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MOST_TABLES", 3)
    tables = raw_tables(many_tables(5))
    assert [table.names for table in tables] == [("a0", "b0"), ("a1", "b1"), ("a2", "b2")]
    assert tables[2].rows == [("x", "2")]


def test_tables_with_most_names_in_common_are_one_however_many_there_are() -> None:
    tables = some_tables(200, 40)
    again = [replace(table, names=(*table.names[:-1], "other")) for table in tables]
    merged = datasets([*tables, *again, *tables])
    assert [len(dataset.tables) for dataset in merged] == [3] * 200


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="files without a name are seen there"
)
def test_sorting_writes_no_cell_on_a_disk() -> None:
    rows = [(f"{number:06} " + "x" * 1000,) for number in range(20_000)]
    data = sheets.dataset_of([RawTable("a.csv", "", ("Name",), rows, [(1, 0)] * len(rows))])
    files = set[str]()
    cells = data.connection()
    for order in (
        "SELECT DISTINCT Name || 'y' FROM data",
        "SELECT Name FROM data ORDER BY Name || 'y'",
    ):
        for _ in cells.execute(order):
            links = list(Path("/proc/self/fd").iterdir())
            files |= {str(link.readlink()) for link in links if link.is_symlink()}
            break
    assert not [name for name in files if "etilqs" in name]


def long_cells(count: int) -> Dataset:
    rows = [(f"{number} " + "x" * 1000, str(number)) for number in range(count)]
    return sheets.dataset_of([RawTable("a.csv", "", ("Name", "Note"), rows, [(1, 0)] * count)])


def test_a_query_that_takes_too_much_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MOST_MEMORY", 50 << 20)
    monkeypatch.setattr(query, "SECONDS", 3600.0)
    wide = "a.Name || b.Name || c.Name"
    result = run(long_cells(100), f"SELECT COUNT(DISTINCT {wide}) FROM data a, data b, data c")
    assert result.error == "interrupted"


def test_bytes_are_counted_as_characters_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MOST_CHARACTERS", 10_000)
    for name in ("Name", "CAST(Name AS BLOB)"):
        result = run(long_cells(100), f"SELECT {name} FROM data")
        assert (result.cut_short, len(result.rows)) == (True, 9)
        assert str(result.rows[0][0]).startswith("0 xxx")  # JSON has no bytes


class StopAt(threading.Event):
    """Set from the look of this number on, from 1; counts how often it was looked at."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, self.looks = number, 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks >= self.number


def test_a_stop_ends_the_typing_of_many_rows_at_any_place() -> None:
    first = date(1990, 1, 1)
    rows = [
        (f"n{number}", f"{number / 7:.4f}", str(first + timedelta(number)))
        for number in range(2 * sheets._STEP)
    ]
    sheet_document = sheet("m.csv", [("Item", "Cost", "Day"), *rows])
    never = StopAt(10**9)
    tables = raw_tables(sheet_document, stopped=never)
    reading, never.looks = never.looks, 0
    (data,) = datasets(tables, never)
    assert [column.kind for column in data.columns] == ["text", "number", "date"]
    assert reading >= 2
    assert never.looks == 2 * (2 + 3 + 3)  # of a column its cells, which are filled, which typed
    for number in (1, reading):
        with pytest.raises(StoppedError):
            raw_tables(sheet_document, stopped=StopAt(number))
    for number in range(1, never.looks + 1):
        stop = StopAt(number)
        with pytest.raises(StoppedError):
            datasets(tables, stop)
        assert stop.looks == number  # nothing is done after it


def many_tables(count: int) -> Document:
    text = "\n".join(f"a{n} | b{n}\nx | {n}" for n in range(count))
    spans = tuple(TableSpan(14 * n, 14 * n + 13, (f"a{n}", f"b{n}")) for n in range(count))
    return Document("d", "/in/report.html", "d", (Page(1, text),), tables=spans)


def test_tables_that_were_not_read_are_counted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MOST_TABLES", 3)
    assert datasets(raw_tables(many_tables(3)))[0].unread_tables == {}
    sets = datasets(raw_tables(many_tables(5)))
    assert [entry.unread_tables for entry in sets] == 3 * [{"/in/report.html": 2}]
    computation = compute("How many are there?", sets[0], ScriptedLLM(["no query"] * MOST_QUERIES))
    notice = "2 tables of report.html were not read: the limit is 2000 for each document"
    assert notice in list(computed_lines(sets[0], computation))
    assert notice not in list(computed_lines(datasets(raw_tables(many_tables(3)))[0], computation))
    assert computed_json(sets[0], computation)["unread_tables"] == {"/in/report.html": 2}
    basis = Basis(("report.html",), 1, 1, unread_tables={"report.html": 1})
    with spoken_to("zh"):
        assert any("report.html 中有 1 个表格未读取" in line for line in basis_lines(basis))


def test_where_no_table_fits_those_that_were_not_read_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sheets, "MOST_TABLES", 3)
    model: Any = SimpleNamespace(chooser=None)  # which is not asked where no word is shared
    for count, notice in ((5, "2 more were not read"), (3, "Name the file whose rows are meant.")):
        data = datasets(raw_tables(many_tables(count)))
        with pytest.raises(UsageError, match="None of 3 tables fits") as error:
            compute_in("How many zebras?", data, model, Tokenizer())
        assert notice in spoken(error.value, "en")
