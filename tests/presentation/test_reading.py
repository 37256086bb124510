"""Notes, problems and ways of reading in words."""

from __future__ import annotations

from typing import get_args

import pytest

from localrag.errors import EmptyFileError, ParsingError
from localrag.library.records import PageReading, Problem
from localrag.presentation.reading import (
    LONGEST,
    advice_text,
    note_text,
    page_ranges,
    pages_read,
    reason_text,
    recognised_text,
)
from localrag.types import PageNote, PageNoteKind


@pytest.mark.parametrize("kind", get_args(PageNoteKind))
def test_every_kind_is_said_in_both_languages_and_problems_say_what_to_do(
    kind: PageNoteKind,
) -> None:
    note = PageNote(kind)
    english, chinese = note_text(note, "en"), note_text(note, "zh")
    assert english != chinese
    problem = Problem("a.pdf", (3,), note)
    assert reason_text(problem, "en") == english
    assert bool(advice_text(problem, "en")) == note.problem
    assert (advice_text(problem, "zh") != advice_text(problem, "en")) == note.problem


def test_values_stand_behind_what_is_said() -> None:
    def said(kind: PageNoteKind, **values: str | int | float | bool) -> str:
        return note_text(PageNote(kind, values), "en")

    assert said("no text", blank=True) == "it is blank"
    assert not PageNote("no text", {"blank": True}).problem
    assert said("garbled", reason="unmapped").endswith(
        "(its fonts do not say which characters they show)"
    )
    assert said("damaged", reason="no xref") == "it is damaged and was left out (no xref)"
    assert said("left out", what="chart", count=3).endswith("(charts: 3)")
    assert said("left out", what="hieroglyphs", count=1).endswith("(hieroglyphs: 1)")
    assert said("hidden text", what="sheet").endswith("(sheets)")
    assert said("hidden text", count=2).endswith("(2)")
    assert said("doubtful", confidence=0.612).endswith("(61% sure on average)")
    assert said("turned", degrees=90).endswith("(90°)")
    assert said("cut short", limit=5000).endswith("(the limit is 5000)")


def test_values_that_nobody_meant_do_no_harm() -> None:
    for value in ("{x.__class__}", "{", "\x1b[2J", ("a", "b"), True, -1, float("nan"), 10**400):
        for name in ("reason", "what", "count", "confidence", "degrees", "limit"):
            assert "\x1b" not in note_text(PageNote("damaged", {name: value}), "en")
    long = note_text(PageNote("damaged", {"reason": "x" * 10**6}), "en")
    assert len(long) < LONGEST + 100


def test_pages_are_said_as_ranges() -> None:
    assert page_ranges([12, 3, 4, 5, 7, 6]) == "3-7, 12"
    assert page_ranges([1]) == "1"
    assert page_ranges([]) == ""


def test_the_name_goes_only_where_the_text_begins_with_it() -> None:
    error = EmptyFileError("{source} is empty: it contains no text.", source="/a/b.md")
    problem = Problem("/a/b.md", error=error)
    assert reason_text(problem, "en") == "b.md is empty: it contains no text"
    assert reason_text(problem, "en", beside_name=True) == "is empty: it contains no text"
    assert reason_text(problem, "zh", beside_name=True) == "是空文件：没有文字"
    gave_up = ParsingError(
        "Gave up on {source}: the process that was reading it crashed (exit code {code}).",
        source="/a/b.md",
        code=-9,
    )
    text = reason_text(Problem("/a/b.md", error=gave_up), "en", beside_name=True)
    assert text == "Gave up on b.md: the process that was reading it crashed (exit code -9)"


def test_pages_by_how_they_were_read() -> None:
    readings = [
        PageReading("a", 1, "ocr", 0.9),
        PageReading("a", 2, "mixed", 0.8),
        PageReading("a", 3, notes=(PageNote("no text"),)),
    ]
    assert pages_read(10, readings) == {"text": 8, "ocr": 1, "mixed": 1, "confidence": 0.85}
    assert recognised_text(readings, "en") == (
        "pages read by OCR: 1; pages read in part by OCR: 1; 85% sure on average"
    )
    assert recognised_text([], "en") == ""
