"""One page of a PDF: its blocks of text as displayed, whichever way the page is turned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pymupdf

from localrag.documents.formats.pdf.hidden import drop_hidden
from localrag.documents.formats.pdf.layout import Block, TextRow, merge_segments
from localrag.documents.formats.pdf.sample import agrees
from localrag.documents.formats.pdf.spans import LAM, mend_ligatures, note_words, row_of, text_of
from localrag.documents.formats.pdf.tables import find_tables, outside
from localrag.documents.formats.pdf.trust import Doubt, judge
from localrag.documents.lines import is_cjk
from localrag.documents.ocr import PageReader

Line = dict[str, Any]
"""As MuPDF gives it: with its `spans` and its `dir`, the cosine and sine of its direction."""

_FLAGS = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP

_BELOW = 1e5
"""Points: text at another angle (a stamp in the margin) comes last, far below the page."""


@dataclass(frozen=True, slots=True)
class PageBlocks:
    """The blocks of a page in the file's order, and what there is to say of them."""

    blocks: list[Block]
    hides: bool = False
    """Whether text was left out that no reader of the page sees."""
    doubt: Doubt | None = None
    """Why the text is not what the page shows, or may not be: the page is better recognised."""
    turn: int = 0
    """Degrees by which the page, as it is shown, is turned clockwise to be read."""


def page_text(page: Any, *, keep_hidden: bool, reader: PageReader | None = None) -> PageBlocks:
    """The text layer of a page.

    Where its text is in doubt, or lies unseen under a picture, `reader` reads a sample of its
    lines; without one the doubt stays, and text under a picture is believed.
    """
    content = page.get_textpage(flags=_FLAGS)
    blocks = _lines(content.extractDICT())
    right, down = _direction(blocks)
    tables = find_tables(page, right, down)
    words = content.extractWORDS()
    # Places of single characters take as long again as all the rest: only where words are long, as
    # in Chinese, where letters may stand in a wrong order, or where they are asked for.
    characters = {character for word in words for character in word[4]}
    if tables or LAM in characters or any(map(is_cjk, characters)):
        blocks = _lines(content.extractRAWDICT())
        if LAM in characters:
            mend_ligatures(blocks)
    note_words(blocks, words)
    hides = not keep_hidden and drop_hidden(page, blocks)
    doubt = _doubt(page, blocks, reader, unseen_too=not keep_hidden)
    if not any(map(str.isalnum, _all_text(blocks))):
        return PageBlocks([], hides, doubt)
    upright: list[Block] = []
    turned: list[Block] = []
    for lines in blocks:
        segments: list[TextRow] = []
        aside: list[TextRow] = []
        for line in lines:
            row = row_of([span for span in line["spans"] if outside(span, tables)], right, down)
            if row is None:
                continue
            if line["dir"][0] * right + line["dir"][1] * down > 0.9:
                segments.append(row)
            else:
                aside.append(replace(row, y0=row.y0 + _BELOW, y1=row.y1 + _BELOW))
        if segments:
            upright.append(Block(merge_segments(segments)))
        if aside:
            turned.append(Block(aside))
    ruled = [block for table in tables if (block := table.block(right, down)) is not None]
    turn = (TURNS.get((right, down), 0) - page.rotation) % 360
    return PageBlocks([*upright, *ruled, *turned], hides, doubt, turn)


TURNS = {(1.0, 0.0): 0, (0.0, -1.0): 90, (-1.0, 0.0): 180, (0.0, 1.0): 270}
"""Degrees by which text in a direction is turned clockwise to be upright."""


def _lines(content: dict[str, Any]) -> list[list[Line]]:
    """The lines of each block of text."""
    return [block["lines"] for block in content["blocks"] if block["type"] == 0]


def _doubt(
    page: Any, blocks: Sequence[Sequence[Line]], reader: PageReader | None, *, unseen_too: bool
) -> Doubt | None:
    """What speaks against the text, after a look at the page if there is a reader.

    `unseen_too` asks whether text that is not seen is the same as what is.
    """
    lines = [line for block in blocks for line in block]
    doubt = judge(_by_font(lines))
    if reader is None or (doubt is not None and doubt.certain):
        return doubt
    if doubt is None:
        unseen = [
            line for line in lines if all(span.get("alpha", 255) == 0 for span in line["spans"])
        ]
        if not unseen_too or 2 * _size(unseen) <= _size(lines):
            return None
        # Such is the layer of a scan that was recognised before, or what somebody put there.
        disagrees = agrees(page, unseen, reader) is False
        return Doubt("picture", 1.0, frozenset(_by_font(unseen))) if disagrees else None
    suspects = [
        line for line in lines if any(span["font"] in doubt.fonts for span in line["spans"])
    ]
    return None if agrees(page, suspects, reader) else doubt


def _all_text(blocks: Sequence[Sequence[Line]]) -> str:
    return "".join(text_of(span) for lines in blocks for line in lines for span in line["spans"])


def _by_font(lines: Sequence[Line]) -> dict[str, str]:
    """The text of each font, its pieces parted by newlines."""
    texts: dict[str, list[str]] = {}
    for line in lines:
        for span in line["spans"]:
            texts.setdefault(span["font"], []).append(text_of(span))
    return {font: "\n".join(pieces) for font, pieces in texts.items()}


def _size(lines: Sequence[Line]) -> int:
    return sum(len(text_of(span)) for line in lines for span in line["spans"])


def _direction(blocks: Sequence[Sequence[Line]]) -> tuple[float, float]:
    """The direction (cosine, sine) in which most characters of the page run."""
    votes: Counter[tuple[float, float]] = Counter()
    for lines in blocks:
        for line in lines:
            # Adding 0 makes 0 of -0.
            direction = (round(line["dir"][0], 1) + 0.0, round(line["dir"][1], 1) + 0.0)
            votes[direction] += sum(len(text_of(span)) for span in line["spans"])
    return max(votes, key=votes.__getitem__, default=(1.0, 0.0))
