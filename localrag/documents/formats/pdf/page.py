"""One page of a PDF: its blocks of text as displayed, whichever way the page is turned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pymupdf

from localrag.documents.formats.pdf.hidden import drop_hidden
from localrag.documents.formats.pdf.layout import Block, Row, merge_segments
from localrag.documents.formats.pdf.spans import note_words, row_of, text_of
from localrag.documents.formats.pdf.tables import find_tables, outside
from localrag.documents.lines import is_cjk

_FLAGS = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP

_BELOW = 1e5
"""Points: text at another angle (a stamp in the margin) comes last, far below the page."""


def page_blocks(page: Any, *, keep_hidden: bool) -> tuple[list[Block], bool]:
    """The blocks of a page in the file's order, and whether it hid text, which is left out."""
    tables = find_tables(page)
    blocks = _text(page, by_character=bool(tables))
    hides = not keep_hidden and drop_hidden(page, blocks)
    if not _is_readable(blocks):
        return [], hides
    right, down = _direction(blocks)
    upright: list[Block] = []
    turned: list[Block] = []
    for lines in blocks:
        segments: list[Row] = []
        aside: list[Row] = []
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
    ruled = [block for table in tables if (block := table.block()) is not None]
    return [*upright, *ruled, *turned], hides


def _text(page: Any, *, by_character: bool) -> list[list[dict[str, Any]]]:
    """The lines of each block, with the places of their words.

    Places of single characters take as long again as all the rest: only where words are long,
    as in Chinese, or where they are asked for.
    """
    content = page.get_textpage(flags=_FLAGS)
    words = content.extractWORDS()
    by_character = by_character or any(map(is_cjk, {c for word in words for c in word[4]}))
    found = content.extractRAWDICT() if by_character else content.extractDICT()
    blocks = [block["lines"] for block in found["blocks"] if block["type"] == 0]
    note_words(blocks, words)
    return blocks


def _is_readable(blocks: Sequence[Sequence[dict[str, Any]]]) -> bool:
    """False for no text, and for fonts whose codes say nothing about their characters."""
    text = "".join(text_of(span) for lines in blocks for line in lines for span in line["spans"])
    text = "".join(text.split())
    unknown = sum(1 for c in text if c == "\ufffd" or "\ue000" <= c <= "\uf8ff")
    return any(c.isalnum() for c in text) and unknown < 0.5 * len(text)


def _direction(blocks: Sequence[Sequence[dict[str, Any]]]) -> tuple[float, float]:
    """The direction (cosine, sine) in which most characters of the page run."""
    votes: Counter[tuple[float, float]] = Counter()
    for lines in blocks:
        for line in lines:
            direction = (round(line["dir"][0], 1), round(line["dir"][1], 1))
            votes[direction] += sum(len(text_of(span)) for span in line["spans"])
    return votes.most_common(1)[0][0]
