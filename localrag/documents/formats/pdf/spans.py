"""The spans of MuPDF, pieces of a line in one font, and the row that they make."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from localrag.documents.formats.pdf.layout import TextRow
from localrag.documents.lines import is_cjk, squeeze
from localrag.documents.positions import Piece
from localrag.text.normalize import clean

Span = dict[str, Any]
"""As MuPDF gives it: with its `text`, or, where places within it are asked for, with `chars`."""

_BOLD = 1 << 4


def text_of(span: Span) -> str:
    """The characters of a span."""
    if "text" in span:
        return str(span["text"])
    return "".join(character["c"] for character in span["chars"])


LAM = "\u0644"
"""The Arabic letter that is written as one glyph with an alef after it."""


def mend_ligatures(blocks: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Put the letters of Arabic ligatures into their order.

    MuPDF turns a line that runs to the left round character by character, also the letters that
    one glyph stands for: the later ones, which have no width of their own, come first.
    """
    for lines in blocks:
        for line in lines:
            for span in line["spans"]:
                characters, start = span["chars"], 0
                for end, character in enumerate(characters, start=1):
                    if not _has_no_width(character):
                        characters[start:end] = characters[start:end][::-1]
                        start = end


def _has_no_width(character: dict[str, Any]) -> bool:
    letter = unicodedata.bidirectional(character["c"]) == "AL"
    return letter and character["bbox"][2] - character["bbox"][0] < _NO_WIDTH


_NO_WIDTH = 0.01

_EVEN = 0.5
"""Points that a character may be off the place that even spreading gives it."""


def note_words(blocks: Sequence[Sequence[dict[str, Any]]], words: Sequence[Any]) -> None:
    """Give the spans of all lines their turn and their words, each with its box, for `row_of`.

    `words` are MuPDF's: four edges, the word, its block and its line. A line that they do not fit,
    or that runs aslant, gets none, so that nobody takes its places for sure.
    """
    words_by_line: dict[tuple[int, int], list[Any]] = {}
    for word in words:
        words_by_line.setdefault((word[5], word[6]), []).append(word)
    for block, lines in enumerate(blocks):
        for number, line in enumerate(lines):
            turn = _TURNS.get((round(line["dir"][0], 2), round(line["dir"][1], 2)))
            if turn is None:
                continue
            for span in line["spans"]:
                span["turn"], span["words"] = turn, []
                span["extent"] = _extent(span, turn, standing=bool(line["wmode"]))
            if line["spans"] and "text" in line["spans"][0]:
                _share_out(line["spans"], words_by_line.get((block, number), ()))


def _extent(span: Span, turn: int, *, standing: bool) -> tuple[float, float]:
    """Where a line of the span's characters begins and ends across its direction.

    Some fonts say that they are three times as high as their size: Noto Sans CJK does.
    """
    low, high = (span["bbox"][0], span["bbox"][2]) if turn % 2 else span["bbox"][1::2]
    size = span["size"]
    if high - low <= 1.6 * size or standing:  # glyphs of upright lines stand around the baseline
        return low, high
    x, y = (span["chars"][0] if span.get("chars") else span)["origin"]
    base, up = (x if turn % 2 else y), (1 if turn in (1, 2) else -1)
    ends = base + up * _ABOVE * size, base - up * _BELOW * size
    return max(low, min(ends)), min(high, max(ends))


_ABOVE, _BELOW = 0.95, 0.3
"""Of the size of a font: how far its characters reach from the baseline."""

_TURNS = {(1.0, 0.0): 0, (0.0, 1.0): 1, (-1.0, 0.0): 2, (0.0, -1.0): 3}


def _share_out(spans: Sequence[Span], words: Sequence[Any]) -> None:
    """Each word to the span in which it begins."""
    whole = "".join(map(text_of, spans))
    at = 0
    remaining = iter(spans)
    span = next(remaining)
    end = len(span["text"])
    shares: list[tuple[Span, Any]] = []
    for word in words:
        text = word[4]
        start = whole.find(text, at)
        if start < 0 or (start > at and not whole[at:start].isspace()):
            return
        while start >= end:
            span = next(remaining)
            end += len(span["text"])
        shares.append((span, word))
        at = start + len(text)
    for span, word in shares:
        span["words"].append(word)


def _pieces(spans: Sequence[Span]) -> list[Piece]:
    """The pieces of a row, all that stand side by side equally high."""
    if any("turn" not in span for span in spans):
        return []
    pieces = []
    for span, (low, high) in zip(spans, _line_extents(spans), strict=True):
        turn = span["turn"]
        runs = _even_runs(span) if "chars" in span else _word_runs(span)
        for start, end, raw in runs:
            if text := clean(raw):
                box = (low, start, high, end) if turn % 2 else (start, low, end, high)
                pieces.append(Piece(text, *box, turn))
    return pieces


def _line_extents(spans: Sequence[Span]) -> Iterator[tuple[float, float]]:
    """The extent of the visual line that each span is in; a cell may hold several lines."""
    lines: list[list[float]] = []
    for span in spans:
        low, high = span["extent"]
        if lines and (text_of(span).isspace() or _overlap(lines[-1], low, high)):
            if not text_of(span).isspace():
                lines[-1][:] = min(lines[-1][0], low), max(lines[-1][1], high)
            lines.append(lines[-1])
        else:
            lines.append([low, high])
    return ((low, high) for low, high in lines)


def _overlap(line: Sequence[float], low: float, high: float) -> bool:
    return min(line[1], high) - max(line[0], low) > 0.7 * min(line[1] - line[0], high - low)


def _word_runs(span: Span) -> Iterator[tuple[float, float, str]]:
    low, high = (1, 3) if span["turn"] % 2 else (0, 2)
    for word in span["words"]:
        yield word[low], word[high], word[4]


def _even_runs(span: Span) -> Iterator[tuple[float, float, str]]:
    """Words, and runs of Chinese characters that are equally wide: both ends along the line."""
    low, high = (1, 3) if span["turn"] % 2 else (0, 2)
    backwards = span["turn"] > 1
    run: list[str] = []
    first = last = (0.0, 0.0)
    chinese = False
    step = due = 0.0
    for character in span["chars"]:
        c, box = character["c"], character["bbox"]
        ends = (box[low], box[high])
        wide = c >= "\u2e80" and is_cjk(c)
        if run and wide == chinese and not c.isspace():
            start = -ends[1] if backwards else ends[0]
            if not wide or (abs(start - due) < _EVEN and abs(ends[1] - ends[0] - step) < _EVEN):
                run.append(c)
                last = ends
                due += step
                continue
        if run:
            yield min(first[0], last[0]), max(first[1], last[1]), "".join(run)
            run = []
        if not c.isspace():
            run, chinese = [c], wide
            first = last = ends
            step = ends[1] - ends[0]
            due = -ends[0] if backwards else ends[1]
    if run:
        yield min(first[0], last[0]), max(first[1], last[1]), "".join(run)


def row_of(spans: Sequence[Span], right: float = 1.0, down: float = 0.0) -> TextRow | None:
    """The spans of one line as a Row, turned so that the text runs to the right."""
    raw = "".join(map(text_of, spans))
    if raw.endswith("\u00ad"):
        raw = raw[:-1] + "-"  # `clean` drops soft hyphens, and `join` must see this one
    text = squeeze(clean(raw))
    if not text:
        return None
    inked = [span for span in spans if text_of(span).strip()] or spans
    corners = [
        (x * right + y * down, y * right - x * down)
        for x0, y0, x1, y1 in (span["bbox"] for span in inked)
        for x, y in ((x0, y0), (x1, y0), (x0, y1), (x1, y1))
    ]
    across, along = zip(*corners, strict=True)
    sizes: Counter[float] = Counter()
    for span in inked:
        sizes[round(span["size"], 1)] += len(text_of(span).strip())
    return TextRow(
        text=text + (" " if raw[-1].isspace() else ""),
        x0=min(across),
        y0=min(along),
        x1=max(across),
        y1=max(along),
        size=max(sizes.most_common(1)[0][0], 1.0),
        bold=all(map(_is_bold, inked)),
        pieces=_pieces(spans),
    )


def _is_bold(span: Span) -> bool:
    name = str(span["font"]).lower()
    return bool(span["flags"] & _BOLD) or any(word in name for word in ("bold", "heavy", "black"))
