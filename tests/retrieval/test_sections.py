"""What is read around a hit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localrag.retrieval.sections import Outline, PassageSpan, sections, widened
from localrag.types import Chunk, Columns, ScoredChunk

TEXT = "".join(f"{number:>3} " + "x" * 95 + "\n" for number in range(12))
HEADINGS = ["", "1", "1", "1", "2", "2", "3", "3", "3", "3", "4", "4"]
CHUNKS = [
    Chunk(
        100 + n, "d", n, TEXT[100 * n : 100 * n + 99], heading, n + 1, n + 1, 100 * n, 100 * n + 99
    )
    for n, heading in enumerate(HEADINGS)
]
OUTLINE = Outline([PassageSpan(c.id, c.position, c.heading, c.start, c.end) for c in CHUNKS])


def hit(position: int, score: float = 1.0) -> ScoredChunk:
    return ScoredChunk(CHUNKS[position], score, "d.txt")


def read(
    *hits: ScoredChunk, k: int = 5, outline: Outline = OUTLINE, **options: object
) -> list[str]:
    passages = widened(
        hits,
        k,
        lambda _: outline,
        lambda _, first, last: CHUNKS[first : last + 1],
        lambda _, start, end: TEXT[start:end],
        limit=450,
        **options,  # type: ignore[arg-type]
    )
    for section in passages:
        assert section.chunk.text == TEXT[section.chunk.start : section.chunk.end]
    return [f"{s.chunk.start // 100}-{s.chunk.end // 100}" for s in passages]


def test_sections_are_parted_at_headings_and_never_too_long() -> None:
    parts = sections(OUTLINE, 450)
    assert parts == [range(4), range(4, 6), range(6, 10), range(10, 12)]
    assert sections(OUTLINE, 10_000) == [range(12)]
    assert sections(OUTLINE, 1) == [range(n, n + 1) for n in range(12)]
    assert sections(Outline([]), 450) == []


def test_chinese_text_is_counted_as_the_model_reads_it() -> None:
    assert len(sections(Outline(OUTLINE.passages, 2.5), 450)) == 12


def test_a_hit_is_read_with_its_section_and_keeps_what_it_is() -> None:
    (section,) = widened(
        [hit(7, 0.5)],
        5,
        lambda _: OUTLINE,
        lambda _, first, last: CHUNKS[first : last + 1],
        lambda _, start, end: TEXT[start:end],
        limit=450,
    )
    assert (section.chunk.id, section.score, section.chunk.position) == (107, 0.5, 7)
    assert (section.chunk.first_page, section.chunk.last_page) == (7, 10)
    assert section.chunk.heading == "3"


def test_two_hits_of_a_section_are_read_once() -> None:
    assert read(hit(7), hit(8), hit(1)) == ["6-9", "0-3"]
    assert read(hit(7), hit(1), hit(4), k=2) == ["6-9", "0-3"]


def test_what_is_not_allowed_is_not_read() -> None:
    assert read(hit(7), allowed=lambda number: number in (107, 108, 101)) == ["7-8"]


def test_a_hit_that_was_removed_meanwhile_stays_as_it_is() -> None:
    assert read(hit(7), outline=Outline([])) == ["7-7"]


@pytest.mark.parametrize("position", [6, 7])
def test_columns_of_tables_stand_where_their_rows_do(
    position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    column_chunk = replace(CHUNKS[7], columns=(Columns(0, 99, ("A",)),))
    monkeypatch.setattr("test_sections.CHUNKS", [*CHUNKS[:7], column_chunk, *CHUNKS[8:]])
    (section,) = widened(
        [hit(position)],
        5,
        lambda _: OUTLINE,
        lambda _, first, last: CHUNKS[first : last + 1],
        lambda _, start, end: TEXT[start:end],
        limit=450,
    )
    assert section.chunk.columns == (Columns(100, 199, ("A",)),)
