"""Tables: their rows a line each, the names of their columns, and what a passage says of them."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pymupdf
import pytest

from localrag.documents.chunking import SentenceChunker, passage_text
from localrag.documents.files import parse_file
from localrag.documents.lines import table_lines
from localrag.documents.tables import cells, spread, with_names
from localrag.types import Columns, Document

PROBES = Path(__file__).parents[2] / "benchmarks" / "probes"


def read(name: str, data: str | bytes) -> Document:
    return parse_file(Path(name), data.encode() if isinstance(data, str) else data)


def tables(document: Document) -> list[tuple[tuple[str, ...], list[str]]]:
    """The header of each table, and the rows below it."""
    return [
        (table.header, document.text[table.start : table.end].split("\n")[table.header_rows :])
        for table in document.tables
    ]


def header(*rows: str) -> tuple[str, ...]:
    """The names that the cells of a table decide on."""
    lines = table_lines([row.split("|") for row in rows])
    return next((line.table.names for line in lines if line.table is not None), ())


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (["Item|Price", "Tea|3.50", "Milk|$1,200"], ("Item", "Price")),
        (["品名|单价|数量", "茶|3.5元|12", "奶|－|8"], ("品名", "单价", "数量")),
        (["Region|2022|2023", "North|4.1|4.4", "South|5|n/a"], ("Region", "2022", "2023")),
        (["Task|2023年|2024年", "roof|planned|done"], ("Task", "2023年", "2024年")),
        (["Name|City|Job", "Anna|Rome|baker", "Ben|Oslo|smith"], ("Name", "City", "Job")),
        # Two lines of a header, merged or left empty.
        (
            ["Region|2023|2023|Sum", "Region|Q1|Q2|Sum", "North|5|6|11"],
            ("Region", "2023 Q1", "2023 Q2", "Sum"),
        ),
        (
            ["|2023||2024|", "|Q1|Q2|Q1|Q2", "a|1|2|3|4"],
            ("", "2023 Q1", "2023 Q2", "2024 Q1", "2024 Q2"),
        ),
        # What tells numbers from names in a header is what stands below.
        (["Zone|20GP|40HQ", "West|1550|2680", "East|1450|2530"], ("Zone", "20GP", "40HQ")),
        (["部门|1月|2月", "客服|12|15", "保洁|8|9"], ("部门", "1月", "2月")),
        (["部门|1月|2月|3月", "客服|12|15|", "保洁|8|休|"], ("部门", "1月", "2月", "3月")),
        (["Tea|20 kg", "Milk|40 kg"], ()),
        (["Allowance|25 days", "Taken|12", "Left|13"], ()),
        (["姓名|韩雪|出生年月|1993年6月", "民族|汉|学历|大专", "住址|建设路15号|电话|139"], ()),
        # Remarks above names that need nothing above them.
        (
            ["March||Unit: GBP|", "Item|Price|Sold|Note", "Tea|3.50|12|new", "Milk|4|7|"],
            ("Item", "Price", "Sold", "Note"),
        ),
        (
            ["工资表||", "制表：张三||单位：元|", "姓名|部门|应发|实发", "李四|客服|5200|4800"],
            ("姓名", "部门", "应发", "实发"),
        ),
        (
            ["|Home||Abroad|", "Item|Sold|Sent|Sold|Sent", "Tea|3|12|4|6", "Milk|1|2|3|4"],
            ("Item", "Home Sold", "Home Sent", "Abroad Sold", "Abroad Sent"),
        ),
        (
            ["|Revenue||Cost|", "Month|Plan|Real|Budget|Spent", "Jan|1|2|3|4", "Feb|2|3|4|5"],
            ("Month", "Revenue Plan", "Revenue Real", "Cost Budget", "Cost Spent"),
        ),
        # Names of words are no remarks above the first row, nor is a row with amounts one of names.
        (
            ["Item||Qty|Rest", "Tea|Anna|20 kg|30 kg", "Milk|Ben|40|50", "Rice|Cy|41|52"],
            ("Item", "", "Qty", "Rest"),
        ),
        (["|Basic|Pro", "Support|email|phone", "Hosting|shared|own"], ("", "Basic", "Pro")),
        (
            ["Name||Address||Contact|", "Anna|Smith|12 High St|Leeds|a@x.org|evenings"],
            ("Name", "", "Address", "", "Contact"),
        ),
        # A title above is no row.
        (["Sales of the year", "Item|Price", "Tea|3.50", "Milk|4"], ("Item", "Price")),
        # Nothing says that these name columns.
        (["Tea|3.50", "Milk|4"], ()),
        (["Napoleon|1769|1821", "Goethe|1749|1832"], ()),
        (["Name|Anna", "City|Rome", "Job|baker"], ()),
        (["姓名|张三|性别|男", "籍贯|苏州|民族|汉"], ()),
        (["Name:|Anna|x", "City:|Rome|y"], ()),
        (["only", "one", "column"], ()),
        (["A|B"], ()),
    ],
)
def test_headers(rows: list[str], names: tuple[str, ...]) -> None:
    assert header(*rows) == names


def test_of_sheets_that_others_wrote_most_are_named_rightly() -> None:
    """Their first rows, by somebody who knew none of the rules: 45 in each language."""
    right = Counter[str]()
    for line in (PROBES / "headers.jsonl").read_text("utf-8").splitlines():
        sheet = json.loads(line)
        names, given = sheet["names"], list(header(*map("|".join, sheet["rows"])))
        for some in (names, given):
            while some and not some[-1]:
                some.pop()
        right[sheet["language"]] += given == names
    assert right == {"en": 42, "zh": 42}


def test_titles_and_notes_are_no_rows_and_bars_within_cells_part_nothing() -> None:
    note = "Figures are those of the auditors and may yet change in parts."
    rows = [["Sales"], ["Item", "Price"], ["tea | milk", "3"], ["a", "", "b"], [note]]
    lines = table_lines(rows)
    assert [(line.text, line.table is not None) for line in lines] == [
        ("Sales", False),
        ("Item | Price", True),
        ("tea|milk | 3", True),
        ("a |  | b", True),
        (note, False),
    ]
    assert cells(lines[3].text) == cells("a | | b") == ["a", "", "b"]
    assert cells("| | b |") == ["", "", "b", ""]


def test_of_the_remarks_above_a_table_each_is_kept() -> None:
    remark = ["Kept by", "Anna", "", "Seen by", "Anna", ""]
    rows = [remark, ["No", "Item", "Price", "Sold", "Left", "Note"]]
    rows.append(["1", "Tea", "3.50", "12", "3", "new"])
    lines = table_lines(rows)
    assert [(line.text, line.table is not None) for line in lines] == [
        ("Kept by | Anna | Seen by | Anna", False),
        ("No | Item | Price | Sold | Left | Note", True),
        ("1 | Tea | 3.50 | 12 | 3 | new", True),
    ]
    named = table_lines(rows, header_rows=1)[0].table
    assert named is not None, "where the file says so, the first row names the columns"
    assert named.names[:2] == ("Kept by", "Anna")


def test_merged_cells_say_themselves_in_each_row_and_column() -> None:
    assert spread([[("a", 1, 2), ("b", 2, 1)], [("c", 1, 1), ("d", 1, 1)]]) == [
        ["a", "b", "b"],
        ["a", "c", "d"],
    ]
    assert spread([[("title", 3, 1)], [("a", 1, 1), ("b", 1, 1), ("c", 1, 1)]])[0] == [
        "title",
        "",
        "",
    ]
    assert spread([[("x" * 101, 1, 2), ("b", 1, 1)], [("c", 1, 1)]])[1] == ["", "c"]


def test_a_row_whose_numbers_stand_in_the_names_is_a_row() -> None:
    columns = (Columns(0, 100, ("Year 1", "Year 2")),)
    assert with_names("Year 1 | Year 2\n1 | 2", columns) == "Year 1: 1 | Year 2: 2"
    columns = (Columns(0, 100, ("2023 Q1", "2024 Q1")),)
    assert with_names("2023 | 2024\nQ1 | Q1\n7 | 8", columns) == "2023 Q1: 7 | 2024 Q1: 8"


def test_cells_that_claim_to_span_everything_cost_what_they_hold() -> None:
    wide = "".join(
        '<tr><td colspan="1000" rowspan="65534">x<td colspan="1000">y' for _ in range(2000)
    )
    document = read("a.html", f"<table>{wide}</table>")
    assert len(document.text) < 20 * len(wide)


HTML = """
<h1>Shop</h1><table><caption>Prices</caption>
<thead><tr><th rowspan=2>Item<th colspan=2>2023</tr><tr><th>Q1<th>Q2</thead>
<tr><td rowspan=2>Tea<td>3.50<td></tr><tr><td>3.60<td>3.70</tr>
<tr style="display:none"><td>hidden<td>1<td>2</tr></table>
<table><tr><td><b>City</b><td><b>Mayor</b></tr><tr><td>Rome<td>Anna</tr><tr><td>Oslo<td>Ben</tr></table>
<table><tr><td>Name<td>Anna</tr><tr><td>City<td>Rome</tr></table>
"""


def test_html() -> None:
    document = read("a.html", HTML)
    assert tables(document) == [
        (("Item", "2023 Q1", "2023 Q2"), ["Tea | 3.50", "Tea | 3.60 | 3.70"]),
        (("City", "Mayor"), ["Rome | Anna", "Oslo | Ben"]),
        ((), ["Name | Anna", "City | Rome"]),
    ]
    (chunk,) = SentenceChunker(lambda texts: [len(text) // 4 for text in texts], 400).chunk(
        document
    )
    assert passage_text(chunk).split("\n")[1:4] == [
        "Prices",
        "Item: Tea | 2023 Q1: 3.50",
        "Item: Tea | 2023 Q1: 3.60 | 2023 Q2: 3.70",
    ]


def test_tables_that_only_place_things_in_html() -> None:
    inner = "<table><tr><th>Item<th>Price</tr><tr><td>Tea<td>3</tr></table>"
    document = read("a.html", f"<table><tr><td><p>Dear all,</p>{inner}<p>Yours</p></tr></table>")
    assert document.text == "Dear all,\nItem | Price\nTea | 3\nYours"
    assert tables(document) == [(("Item", "Price"), ["Tea | 3"])]


def test_markdown_and_csv() -> None:
    document = read("a.md", "# Shop\n\n| Item | Note |\n| - | - |\n| Tea | `a | b` |\n| Milk | |\n")
    assert [names for names, _ in tables(document)] == [("Item", "Note")]
    document = read("a.csv", "name;city\nAnna;Rome\nBen;Oslo\n")
    assert tables(document) == [(("name", "city"), ["Anna | Rome", "Ben | Oslo"])]
    assert tables(read("b.csv", "1;2\n3;4\n")) == [((), ["1 | 2", "3 | 4"])]


# PDF

COLUMN = 120


def page_of_rows(
    document: pymupdf.Document,
    rows: list[list[str]],
    *,
    top: float = 100,
    ruled: bool = True,
    merged: tuple[tuple[int, int], ...] = (),
    before: str = "",
) -> None:
    """A page with one table; a cell in `merged` has no rule to the one above it."""
    page = document.new_page(width=600, height=800)
    if before:
        page.insert_text((50, 60), before, fontsize=10)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            box = (50 + COLUMN * j, top + 20 * i, 50 + COLUMN * (j + 1), top + 20 * (i + 1))
            page.insert_text((box[0] + 4, box[3] - 6), cell, fontsize=9)
            if ruled:
                for a, b in (
                    ((0, 1), (0, 3)),
                    ((2, 1), (2, 3)),
                    ((0, 3), (2, 3)),
                    ((0, 1), (2, 1)),
                ):
                    if not (a == (0, 1) and b == (2, 1) and (i, j) in merged) and not (
                        a == (0, 3) and b == (2, 3) and (i + 1, j) in merged
                    ):
                        page.draw_line((box[a[0]], box[a[1]]), (box[b[0]], box[b[1]]), width=0.5)


def pdf(*pages: dict[str, object]) -> Document:
    document = pymupdf.open()
    for page in pages:
        page_of_rows(document, **page)  # type: ignore[arg-type]
    return read("a.pdf", document.tobytes())


HEAD = ["Alloy", "Composition", "Density"]
ALLOYS = [[f"TA{n}", f"Ti-{n}Al", f"4,{n:03}.5"] for n in range(8)]


def test_ruled_tables_of_a_pdf_with_merged_cells() -> None:
    rows = [HEAD, ["TA1", "Ti", "4.5"], ["", "Ti-2Al", "4.6"], ["TA3", "Ti", "330,435.30"]]
    document = pdf({"rows": rows, "merged": ((2, 0),), "before": "Table 1: alloys"})
    assert tables(document) == [
        (tuple(HEAD), ["TA1 | Ti | 4.5", "TA1 | Ti-2Al | 4.6", "TA3 | Ti | 330,435.30"])
    ]


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("ruled", [True, False])
def test_tables_that_go_on_over_pages_are_one(again: bool, ruled: bool) -> None:
    parts = [[HEAD, *ALLOYS[:4]], [*([HEAD] if again else []), *ALLOYS[4:]]]
    document = pdf(*({"rows": rows, "ruled": ruled} for rows in parts))
    (table,) = document.tables
    assert (table.header, table.header_rows) == (tuple(HEAD), 1)
    chunks = SentenceChunker(lambda texts: [len(text) for text in texts], 160).chunk(document)
    words = "\n".join(map(passage_text, chunks))
    assert "Alloy: TA7 | Composition: Ti-7Al | Density: 4,007.5" in words
    assert "Alloy: Alloy" not in words


def test_another_table_on_the_next_page_has_its_own_header() -> None:
    other = [["Ship", "Harbour", "Crew"], ["Anna", "Rome", "12"], ["Ben", "Oslo", "9"]]
    document = pdf({"rows": [HEAD, *ALLOYS]}, {"rows": other})
    assert [names for names, _ in tables(document)] == [tuple(HEAD), tuple(other[0])]


def test_aligned_words_that_are_no_table() -> None:
    rows = [["Anna", "Rome", "baker"], ["Ben", "Oslo", "smith"]]
    assert pdf({"rows": rows, "ruled": False}).tables == ()


def test_cells_are_those_of_another_reader() -> None:
    pdfplumber = pytest.importorskip("pdfplumber")
    document = pymupdf.open()
    page_of_rows(document, [HEAD, *ALLOYS, ["", "1,234.50 (a)", "－0.5%"]], merged=((9, 0),))
    data = document.tobytes()
    with pdfplumber.open(io.BytesIO(data)) as other:
        (table,) = other.pages[0].extract_tables()
    rows = read("a.pdf", data).text.split("\n")
    for row, reference_row in zip(rows, table, strict=True):
        filled_cells = [cell for cell in reference_row if cell]
        assert (
            cells(row)[-len(filled_cells) :] == filled_cells
        )  # before them stands what was merged
