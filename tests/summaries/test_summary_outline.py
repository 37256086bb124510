"""Documents in parts: along headings, evenly without them, and never more than asked for."""

from __future__ import annotations

import pytest

from localrag.languages import LANGUAGES
from localrag.retrieval.sections import PassageSpan
from localrag.summaries.outline import LEAST_LENGTH, MOST_PARTS, Part, parts


def passages(*headings: str, length: int = 1000) -> list[PassageSpan]:
    return [
        PassageSpan(at, at, heading, at * length, (at + 1) * length)
        for at, heading in enumerate(headings)
    ]


def test_a_document_is_cut_at_its_highest_headings() -> None:
    chapters = [f"Book > {chapter} > {n}" for chapter in ("Tea", "Soil", "Rain") for n in (1, 2, 3)]
    assert parts(passages(*chapters, length=2000), most=3) == [
        Part("Tea", 0, 2),
        Part("Soil", 3, 5),
        Part("Rain", 6, 8),
    ]


def test_neighbours_go_together_where_there_are_more_headings_than_parts() -> None:
    sections = parts(passages(*(f"Chapter {n}" for n in range(40))))
    assert len(sections) == MOST_PARTS
    assert sections[0].heading == "Chapter 0 – Chapter 3"
    assert [part.last - part.first for part in sections] == [3] * MOST_PARTS


def test_without_headings_the_parts_are_even() -> None:
    sections = parts(passages(*[""] * 100))
    assert [part.last - part.first + 1 for part in sections] == [10] * 10
    assert {part.heading for part in sections} == {""}


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 20_000])
def test_parts_hold_every_passage_once(count: int) -> None:
    headings = [f"A > {at // 3}" if at % 5 else "B" for at in range(count)]
    sections = parts(passages(*headings))
    assert [at for part in sections for at in range(part.first, part.last + 1)] == list(
        range(count)
    )
    assert 1 <= len(sections) <= MOST_PARTS


def test_short_documents_are_not_cut_small() -> None:
    assert parts([]) == []
    assert len(parts(passages("", "", length=LEAST_LENGTH // 3))) == 1
    assert len(parts(passages("", "", length=LEAST_LENGTH // 2), LANGUAGES["zh"].density)) == 2
