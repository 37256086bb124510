"""A span of a document is named in the words of its format, and found on its page."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openpyxl
import pymupdf
import pytest
from library_fixtures import Where, add, document, open_library

from localrag.documents import positions
from localrag.documents.files import parse_file
from localrag.errors import LibraryDamagedError
from localrag.library.catalogue import places
from localrag.library.library import Library
from localrag.presentation.places import place_text
from localrag.types import Document, Page, Place


def parsed(library: Library, name: str, data: bytes) -> Document:
    result = replace(parse_file(Path(name), data), source=name)
    add(library, result)
    return result


def place_at(library: Library, origin: Document, text: str) -> Place:
    place = library.place(origin.id, origin.text.index(text))
    assert place is not None
    assert origin.text[place.start :].startswith(text)
    return place


@pytest.fixture
def library(where: Where) -> Iterator[Library]:
    with open_library(where("library")) as new_library:
        yield new_library


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Plan"
    sheet["A1"] = "see the other sheet"
    sales = book.create_sheet("Sales")
    sales.append([])
    sales["B3"], sales["C3"] = "Region", "Sold"
    for row in range(4, 2500):
        if row != 7:
            sales[f"B{row}"], sales[f"C{row}"] = f"region {row}.", row
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


@pytest.mark.parametrize("row", [3, 4, 6, 8, 1001, 1002, 2001, 2499])
def test_a_row_of_a_sheet_has_the_number_that_its_program_shows(library: Library, row: int) -> None:
    sheet = parsed(library, "sales.xlsx", workbook())
    place = place_at(library, sheet, "Region" if row == 3 else f"region {row}.")
    assert (place.unit, place.number, place.label, place.row) == ("sheet", 2, "Sales", row)
    assert place_text(place) == f"sheet Sales, row {row}"


def test_the_name_of_a_sheet_is_no_row(library: Library) -> None:
    sheet = parsed(library, "sales.xlsx", workbook())
    assert place_at(library, sheet, "Sales").row is None


def test_rows_of_a_csv_file_count_empty_ones(library: Library) -> None:
    table = parsed(library, "prices.csv", b"item,price\ntea,3\n\n\ncake,4\n")
    assert place_text(place_at(library, table, "tea")) == "row 2"
    assert place_text(place_at(library, table, "cake")) == "row 5"


def test_text_without_pages_is_named_by_heading_and_paragraph(library: Library) -> None:
    text = "Before all.\n\nAnd more.\n\n# Harbour\n\nThe ferry.\n\nThe soup.\n\n## Winter\n\nIce.\n"
    note = parsed(library, "island.md", text.encode())
    for start, words in {
        "Before": "para. 1",
        "And": "para. 2",
        "Harbour": "Harbour",
        "The ferry": "Harbour, para. 1",
        "soup": "Harbour, para. 2",
        "Ice": "Winter, para. 1",
    }.items():
        assert place_text(place_at(library, note, start)) == words


def test_paragraphs_are_not_counted_through_a_long_text(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = parsed(library, "log.txt", b"\n\n".join(b"entry %d." % n for n in range(500)))
    assert place_at(library, log, "entry 400.").paragraph == 401
    monkeypatch.setattr(places, "_COUNTED", 1000)
    assert place_at(library, log, "entry 400.").paragraph is None


def test_chapters_of_a_book_are_named_by_their_own_headings(library: Library) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as book:
        book.writestr(
            "META-INF/container.xml",
            '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>',
        )
        items = "".join(f'<item id="i{n}" href="{n}.xhtml"/>' for n in (1, 2))
        refs = "".join(f'<itemref idref="i{n}"/>' for n in (1, 2))
        book.writestr(
            "c.opf", f"<package><manifest>{items}</manifest><spine>{refs}</spine></package>"
        )
        book.writestr("1.xhtml", "<html><body><h1>Loomings</h1><p>Call me.</p></body></html>")
        book.writestr("2.xhtml", "<html><body><p>Without a title.</p></body></html>")
    novel = parsed(library, "whale.epub", file.getvalue())
    assert place_text(place_at(library, novel, "Call me")) == "Loomings, para. 1"
    assert place_text(place_at(library, novel, "Without")) == "section 2, para. 1"


def pdf() -> bytes:
    file = pymupdf.open()
    for text in ("The first page says this.", "And the second goes on. It ends here."):
        file.new_page().insert_text((72, 100), text, fontsize=11)
    return bytes(file.tobytes())


def test_pages_and_rectangles_of_a_pdf(library: Library) -> None:
    paper = parsed(library, "two.pdf", pdf())
    assert place_text(place_at(library, paper, "goes on")) == "p. 2"
    start = paper.text.index("It ends")
    (area,) = library.rectangles(paper.id, start, start + 13)
    assert (area.page, round(area.width), round(area.height)) == (2, 595, 842)
    ((left, top, right, bottom),) = area.rectangles
    assert 180 < left < right < 260
    assert 85 < top < 100 < bottom < 110


def test_a_span_over_two_pages_has_rectangles_on_both(library: Library) -> None:
    paper = parsed(library, "two.pdf", pdf())
    areas = library.rectangles(paper.id, paper.text.index("says"), paper.text.index(" goes"))
    assert [area.page for area in areas] == [1, 2]
    assert [len(area.rectangles) for area in areas] == [1, 1]


def test_without_positions_nothing_is_marked(library: Library) -> None:
    note = parsed(library, "plain.txt", b"Nothing here has a place.")
    (area,) = library.rectangles(note.id, 0, 7)
    assert (area.page, area.rectangles) == (1, ())
    assert library.rectangles("of no document", 0, 7) == ()
    assert library.place("of no document", 0) is None


def test_foreign_bytes_for_positions_are_damage(library: Library) -> None:
    paper = document("some text")
    (page,) = paper.pages
    paper = replace(paper, pages=(replace(page, layout=b"foreign"),))
    add(library, paper)
    with pytest.raises(LibraryDamagedError):
        library.rectangles(paper.id, 0, 4)


def test_positions_beyond_the_text_are_damage(library: Library) -> None:
    marks = (positions.Mark(500, 510, 0, 0, 9, 9),)
    layout = positions.Layout(10, 10, marks).encode()
    paper = replace(document("some text"), pages=(Page(1, "some text", layout=layout),))
    add(library, paper)
    with pytest.raises(LibraryDamagedError, match="not a layout"):
        library.rectangles(paper.id, 0, 9)
