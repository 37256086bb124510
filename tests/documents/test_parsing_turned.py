"""PDF pages whose text runs sideways: turned by the page, by what is drawn, or by both."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest

from localrag.documents.files import parse_file
from localrag.types import PageNote

CELLS = [
    ["Alloy", "Nominal composition", "Price"],
    ["TA15", "aluminium, vanadium,\nmolybdenum", "330,435.30"],
    ["TC4\n(annealed)", "", "12,000.00"],
]
EXPECTED = [
    "Table 1: Alloys",
    "Alloy | Nominal composition | Price",
    "TA15 | aluminium, vanadium, molybdenum | 330,435.30",
    "TC4 (annealed) | | 12,000.00",
    "All prices without tax.",
]


def landscape(rotation: int) -> pymupdf.Document:
    """A page that shows a table upright, though it was drawn to be turned by `rotation`."""
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.set_rotation(rotation)
    back = page.derotation_matrix

    def write(x: float, y: float, text: str) -> None:
        page.insert_text(pymupdf.Point(x, y) * back, text, rotate=rotation, fontsize=10)

    write(60, 80, EXPECTED[0])
    for i, texts in enumerate(CELLS):
        for j, text in enumerate(texts):
            left, top = 60 + 140 * j, 100 + 40 * i
            page.draw_rect(pymupdf.Rect(left, top, left + 140, top + 40) * back)
            for n, line in enumerate(text.split("\n")):
                write(left + 6, top + 15 + 13 * n, line)
    write(60, 250, EXPECTED[-1])
    page.set_cropbox(pymupdf.Rect(20, 30, 575, 812))
    return document


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("shown_upright", [True, False])
def test_sideways_tables_are_read_in_their_rows(rotation: int, shown_upright: bool) -> None:
    document = landscape(rotation)
    if not shown_upright:
        document[0].set_rotation(0)
    paper = parse_file(Path("made.pdf"), document.tobytes())
    assert paper.text.split("\n") == EXPECTED
    turned = [] if shown_upright or not rotation else [PageNote("turned", {"degrees": rotation})]
    assert list(paper.pages[0].notes) == turned


def test_reading_a_table_leaves_the_page_as_it_was() -> None:
    from localrag.documents.formats.pdf.page import page_text

    page = landscape(90)[0]
    page.set_rotation(180)
    page_text(page, keep_hidden=False)
    assert page.rotation == 180
