"""Places in words, in both languages."""

from __future__ import annotations

import pytest

from localrag.presentation.places import cited_as, passage_place, place_text
from localrag.types import Chunk, Citation, Place, ScoredChunk

PLACES = [
    (Place(0, number=3), None, "p. 3", "第 3 页"),
    (Place(0, number=3), 4, "p. 3-4", "第 3-4 页"),
    (Place(0, "slide", 7), None, "slide 7", "第 7 张幻灯片"),
    (Place(0, "sheet", 2, "销售"), None, "sheet 销售", "工作表“销售”"),
    (Place(0, "sheet", 2, "Sales", 12), None, "sheet Sales, row 12", "工作表“Sales”第 12 行"),
    (Place(0, "sheet", 2), None, "sheet 2", "工作表“2”"),
    (Place(0, "chapter", 5), None, "section 5", "第 5 部分"),
    (Place(0, "chapter", 5, heading="Ice", paragraph=2), None, "Ice, para. 2", "“Ice”第 2 段"),
    (Place(0, "text", heading="港口", paragraph=1), None, "港口, para. 1", "“港口”第 1 段"),
    (Place(0, "text", paragraph=9), None, "para. 9", "第 9 段"),
    (Place(0, "text", row=9), None, "row 9", "第 9 行"),
    (Place(0, "text", heading="Harbour"), None, "Harbour", "Harbour"),
    (Place(0, "text"), None, "", ""),
]


@pytest.mark.parametrize(("place", "last", "english", "chinese"), PLACES)
def test_each_kind_of_place(
    place: Place, last: int | None, english: str, chinese: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place_text(place, last) == english
    monkeypatch.setattr("localrag.messages.interface_language", lambda: "zh")
    assert place_text(place, last) == chinese


def test_what_is_cited_is_named_with_its_file() -> None:
    assert cited_as(Citation(1, 1, "/a/tea.pdf", 3, "q", Place(9, number=3))) == "tea.pdf, p. 3"
    assert cited_as(Citation(1, 1, "C:\\a\\tea.pdf", 3, "q")) == "tea.pdf, p. 3"
    assert cited_as(Citation(1, 1, "a/tea.txt", 1, "q", Place(0, "text"))) == "a/tea.txt"


def test_a_passage_has_the_pages_on_which_it_begins_and_ends() -> None:
    chunk = Chunk(1, "d", 0, "text", "Above", 3, 4, 10, 14)
    assert passage_place(ScoredChunk(chunk, 1.0, "tea.pdf")) == "p. 3-4"
    below = Place(10, "text", heading="Above", paragraph=2)
    hit = ScoredChunk(chunk, 1.0, "tea.md", place=below)
    assert passage_place(hit) == "Above, para. 2"
    assert passage_place(hit, heading=False) == "para. 2"
    assert cited_as(hit) == "tea.md, Above, para. 2"
