"""Plain text: paragraphs mended where the file is hard-wrapped, everything else left as it is.

Source code and whatever else is text keeps its lines and its indentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from localrag.documents.decoding import decode
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import (
    LIST_MARKER,
    Line,
    build,
    is_cjk,
    join_all,
    squeeze,
    width,
    words,
)
from localrag.text.normalize import clean
from localrag.types import Document, Unit

_NARROWEST, _WIDEST = 50, 110
"""Columns between which the longest line of a hard-wrapped file lies."""

_PROSE = frozenset(
    ("", ".txt", ".text", ".log", ".rst", ".tex", ".org", ".adoc", ".asciidoc", ".textile", ".wiki")
)
"""Suffixes of text in paragraphs; of any other suffix, a line is one that its writer made."""

_WIDEST_JSON = 500
_ESCAPED = re.compile(r"(?<!\\)(?:\\u(?!00[0-7])[0-9a-fA-F]{4})+")
_ITEM_END = re.compile(r'("(?:[^"\\]|\\.)*"?)|,\s*(?=["{\[])')

_CODE = re.compile(r"\s{4,}\S|\t|.*[{};]\s*$|\s*(?:#|//|>>>|\$ |</?\w)")
_ITEM = re.compile(rf"\s*(?:{LIST_MARKER.pattern}|\d{{1,3}}\.\s)")


def read(file: SourceFile) -> Document:
    """Read text in any usual encoding, one page per form feed; raises what `decode` raises."""
    text = decode(file).replace("\r\n", "\n").replace("\r", "\n")
    pages = [clean(page).split("\n") for page in text.split("\f")]
    if pages and not any(line.strip() for line in pages[-1]):
        pages.pop()
    path = PurePath(file.source)
    unit: Unit = "page" if len(pages) > 1 else "text"
    if path.suffix.lower() in _PROSE:
        lines = [[Line(paragraph) for paragraph in unwrap(page)] for page in pages]
        return build(file, lines, unit=unit)
    if text.lstrip().startswith(("{", "[")):
        pages = [_spelled_out(page) for page in pages]
    lines = [[Line(line.rstrip()) for line in page] for page in pages]
    return build(file, lines, clean(path.name), unit=unit)


def _spelled_out(lines: Sequence[str]) -> list[str]:
    """JSON with its characters for their escapes, an item a line where lines are long."""
    items: list[str] = []
    for line in lines:
        text = _ESCAPED.sub(lambda match: json.loads(f'"{match[0]}"'), line)
        if len(text) > _WIDEST_JSON:
            text = _ITEM_END.sub(lambda match: match[1] or ",\n", text)
        items += clean(text).split("\n")
    return items


def unwrap(lines: Sequence[str]) -> list[str]:
    """Join the lines of hard-wrapped paragraphs; blank lines go.

    A line was wrapped if the next line's first word would not have fitted on
    it. The file counts as hard-wrapped if that holds for half of its
    neighbouring lines, so verse, lists, tables and code stay as they are.
    """
    widest = 0 if max(map(len, lines), default=0) > _WIDEST else max(map(width, lines), default=0)
    mend = _NARROWEST <= widest <= _WIDEST
    if mend:
        pairs = [(a, b) for a, b in pairwise(lines) if a.strip() and b.strip()]
        wrapped = sum(1 for a, b in pairs if _is_wrapped(a, b, widest))
        mend = wrapped >= max(1, 0.5 * len(pairs))
    vocabulary = words(lines) if mend else frozenset()
    paragraphs: list[list[str]] = []
    before = ""
    for line in lines:
        if mend and paragraphs and before.strip() and _is_wrapped(before, line, widest):
            paragraphs[-1].append(line.strip())
        elif line.strip():
            paragraphs.append([line.rstrip() if _CODE.match(line) else line.strip()])
        before = line
    joined = (join_all(paragraph, vocabulary) for paragraph in paragraphs)
    return [line if _CODE.match(line) else squeeze(line) for line in joined]


def _is_wrapped(line: str, following: str, widest: int) -> bool:
    if not following.strip() or _ITEM.match(following):
        return False
    if _CODE.match(line) or (_CODE.match(following) and not _ITEM.match(line)):
        return False
    text = following.strip()
    word = 2 if is_cjk(text[0]) else width(text.split(maxsplit=1)[0]) + 1
    # A Chinese mark may not begin a line, so a line may end two characters early.
    slack = 4 if is_cjk(text[0]) or is_cjk(line.rstrip()[-1:] or " ") else 0
    return width(line.rstrip()) + word + slack > widest
