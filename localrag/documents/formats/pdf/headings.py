"""Which paragraphs of a laid-out document are headings, and of which level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from localrag.documents.formats.pdf.layout import Paragraph
from localrag.documents.lines import ends_clause, numbered_heading, width
from localrag.text.normalize import clean

_MOST_ENTRIES = 1000
"""Entries of an outline that are looked for on one page."""

_DEEPEST = 12
"""Levels of an outline that are told apart."""


def outline_levels(
    pages: Sequence[Sequence[Paragraph]], outline: Sequence[Sequence[Any]]
) -> dict[int, int]:
    """Levels by `id` of paragraph, from the outline's entries (level, title, page).

    Empty if most entries are not found on the page that they point to.
    """
    levels: dict[int, int] = {}
    letters: dict[int, list[tuple[str, Paragraph]]] = {}
    tried: Counter[int] = Counter()
    entries = [(level, _letters(clean(title)), number) for level, title, number, *_ in outline]
    entries = [entry for entry in entries if entry[1] and 1 <= entry[2] <= len(pages)]
    for level, title, number in entries:
        if number not in letters:
            running = [line for line in pages[number - 1] if not line.tabular]
            letters[number] = [(_letters(line.text), line) for line in running]
        tried[number] += 1
        if tried[number] > _MOST_ENTRIES:
            continue
        for text, paragraph in letters[number]:
            if id(paragraph) in levels or len(text) > 2 * len(title) + 12:
                continue
            if text and (text.endswith(title) or (len(text) > 3 and title.endswith(text))):
                levels[id(paragraph)] = min(level, _DEEPEST)
                break
    return levels if entries and len(levels) >= 0.5 * len(entries) else {}


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def font_levels(pages: Sequence[Sequence[Paragraph]]) -> dict[int, int]:
    """Levels by `id` of paragraph from size, weight and chapter numbers."""
    sizes: Counter[float] = Counter()
    bold: Counter[bool] = Counter()
    running = [p for page in pages for p in page if not p.tabular]
    for paragraph in running:
        sizes[round(2 * paragraph.size) / 2] += len(paragraph.text)
        bold[paragraph.bold] += len(paragraph.text)
    if not sizes:
        return {}
    body = sizes.most_common(1)[0][0]
    body_bold = bold[True] > bold[False]
    styled: list[tuple[float, Paragraph]] = []
    numbered: list[tuple[int, Paragraph]] = []
    for paragraph in running:
        if not _may_be_heading(paragraph):
            continue
        if paragraph.size >= 1.12 * body:
            styled.append((paragraph.size, paragraph))
        elif paragraph.bold and not body_bold and paragraph.size >= 0.93 * body:
            styled.append((body, paragraph))
        elif level := numbered_heading(paragraph.text):
            numbered.append((level, paragraph))
    levels: dict[int, int] = {}
    level, last = 0, float("inf")
    for size, paragraph in sorted(styled, key=lambda pair: -pair[0]):
        if size < last / 1.06:
            level, last = level + 1, size
        levels[id(paragraph)] = level
    for kind in {numbered_heading(paragraph.text) for _, paragraph in styled} - {0}:
        # Chapters are equals, even where one of them was printed a little larger.
        same = [p for _, p in styled if numbered_heading(p.text) == kind]
        usual = Counter(levels[id(p)] for p in same).most_common(1)[0][0]
        levels.update((id(p), usual) for p in same)
    levels.update((id(paragraph), level + kind) for kind, paragraph in numbered)
    used = sorted(set(levels.values()))
    return {key: min(used.index(value) + 1, 6) for key, value in levels.items()}


def _may_be_heading(paragraph: Paragraph) -> bool:
    text = paragraph.text
    return (
        paragraph.rows <= 3
        and width(text) <= 160
        and any(c.isalpha() for c in text)
        and not text.startswith(("•", "-", "–", "●"))
        and not ends_clause(text)
    )
