"""Where text stands on a page: a rectangle for each piece of it, kept in a few bytes.

A citation can be drawn on the image of its page without looking for its words again. Knows no
file format. What is decoded may come from somebody else's library: it is checked and bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, NamedTuple

import msgspec

STEPS = 4
"""Lengths are kept in quarters of their unit."""

LARGEST = 10_000_000
"""Bytes of an unpacked layout: a sheet with all its rows takes 9 MB, a page of text 3 kB."""

MOST = 2**20
"""Marks of a layout: a sheet has no more rows."""

_FARTHEST = 2**40
_WIDE_GAP = 2.0
"""Heights of a line: pieces farther apart than this get rectangles of their own."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, as `Mark` has them."""


class Mark(NamedTuple):
    """Code points `start:end` of a text stand in this rectangle, evenly spread over it.

    From the upper left corner of the page as it is shown, in points (1/72 inch); of a picture in
    pixels; of a sheet in cells, so that `top` counts its rows from 0. `turn` says where the text
    runs, in quarters: 0 to the right, 1 down, 2 to the left, 3 up.
    """

    start: int
    end: int
    left: float
    top: float
    right: float
    bottom: float
    turn: int = 0

    def moved(self, by: int) -> Mark:
        """The mark in a text that has `by` code points more before it."""
        return Mark(self[0] + by, self[1] + by, *self[2:])


class Piece(NamedTuple):
    """A run of text without spaces and its rectangle, as `Mark`, before its line is put together.

    Its characters are equally wide, or they are a word.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    turn: int = 0


def turned(box: Sequence[float], quarters: int, width: float, height: float) -> Box:
    """A rectangle after its page of `width` by `height` was turned clockwise."""
    left, top, right, bottom = box
    for _ in range(quarters % 4):
        left, top, right, bottom = height - bottom, left, height - top, right
        width, height = height, width
    return left, top, right, bottom


def place(text: str, pieces: Iterable[Piece], cell_break: str = "|") -> tuple[Mark, ...]:
    """The marks of a line that was put together from these pieces; none if they do not fit.

    Between pieces there may be spaces and the signs between cells; a hyphen at the end of a piece
    may have gone.
    """
    marks = []
    at = 0
    for piece, left, top, right, bottom, turn in pieces:
        while text.startswith(" ", at):
            at += 1
        length = len(piece)
        while not text.startswith(piece, at):
            if text.startswith(cell_break, at):
                at += len(cell_break)
                while text.startswith(" ", at):
                    at += 1
            elif length == len(piece) and length > 1 and piece[-1] in "-\u2010":
                piece = piece[:-1]
            else:
                return ()
        marks.append(Mark(at, at + len(piece), left, top, right, bottom, turn))
        at += len(piece)
    return tuple(marks) if not text[at:].strip(f" {cell_break}") else ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The marks of a page in the order of its text; the unit of all lengths is that of `Mark`."""

    width: float
    height: float
    marks: tuple[Mark, ...]

    def encode(self) -> bytes:
        """The layout in few bytes, b"" where even these are too many or a mark is none."""
        try:
            stored = self._in_steps()
        except (ValueError, OverflowError):  # a length that is no number, or not finite
            return b""
        if len(stored.gaps) > MOST or not _fits(stored, _FARTHEST):
            return b""
        packed = msgspec.msgpack.encode(stored)
        return zlib.compress(packed) if len(packed) <= LARGEST else b""

    def _in_steps(self) -> _Stored:
        stored = _Stored(round(self.width * STEPS), round(self.height * STEPS))
        end = along = bottom = 0
        last: object = None
        for mark in self.marks:
            start, finish, *box, turn = mark
            a0, b0, a1, b1 = (round(edge * STEPS) for edge in _in_line(box, turn))
            if last != (turn, b0, b1):
                last = turn, b0, b1
                stored.lines.append(0)
                stored.turns.append(turn)
                stored.tops.append(b0 - bottom)
                stored.heights.append(b1 - b0)
                bottom = b1
            stored.lines[-1] += 1
            stored.gaps.append(start - end)
            stored.counts.append(finish - start)
            stored.lefts.append(a0 - along)
            stored.widths.append(a1 - a0)
            end, along = finish, a1
        return stored


_Numbers = Annotated[list[int], msgspec.Meta(max_length=MOST)]


class _Stored(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Whole steps and code points, each counted from where the one before ended.

    For each line: its marks, turn, top and height; for each mark: code points before it and in it,
    space before it and width. Equal things stand together, which packs best.
    """

    width: int
    height: int
    lines: _Numbers = []
    turns: _Numbers = []
    tops: _Numbers = []
    heights: _Numbers = []
    gaps: _Numbers = []
    counts: _Numbers = []
    lefts: _Numbers = []
    widths: _Numbers = []


def decode(
    stored: bytes, start: int = 0, end: int = _FARTHEST, *, length: int = _FARTHEST
) -> Layout:
    """The layout that `encode` made, of a page with `length` code points.

    Of its marks only those for `start:end`: from the last one that begins at `start` or before.
    Raises ValueError where the bytes are none.
    """
    unpacking = zlib.decompressobj()
    try:
        packed = unpacking.decompress(stored, LARGEST)
        if not unpacking.eof:
            raise ValueError("not a layout: it is cut off, or too large")
        record = msgspec.msgpack.decode(packed, type=_Stored)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"not a layout: {error}") from error
    if not _fits(record, length):
        raise ValueError("not a layout: its numbers do not fit together")
    marks = tuple(_marks(record, start, end))
    return Layout(record.width / STEPS, record.height / STEPS, marks)


def _fits(record: _Stored, length: int) -> bool:
    """Whether the numbers are those of marks one after another in `length` code points."""
    numbers = len(record.gaps)
    return (
        {len(record.lines)} == {len(record.turns), len(record.tops), len(record.heights)}
        and {numbers} == {len(record.counts), len(record.lefts), len(record.widths)}
        and min(chain(record.lines, record.counts), default=1) >= 1
        and sum(record.lines) == numbers
        and min(chain(record.gaps, record.heights, record.widths, [record.width, record.height]))
        >= 0
        and {0, 1, 2, 3}.issuperset(record.turns)
        and sum(record.gaps) + sum(record.counts) <= length
        and max(map(abs, chain(record.tops, record.lefts)), default=0) <= _FARTHEST
        and max(chain(record.heights, record.widths, [record.width, record.height])) <= _FARTHEST
    )


def _marks(record: _Stored, first: int, last: int) -> Iterator[Mark]:
    """The marks for `first:last`; of those before only numbers are looked at."""
    runs = zip(record.gaps, record.counts, record.lefts, record.widths, strict=True)
    mark: tuple[int, int, int, int, int, int, int] | None = None
    end = along = bottom = 0
    for count, turn, top, height in zip(
        record.lines, record.turns, record.tops, record.heights, strict=True
    ):
        top, bottom = bottom + top, bottom + top + height
        for gap, length, left, width in islice(runs, count):
            start = end + gap
            if mark is not None and (start > first or start >= last):
                yield _mark(*mark)
            if start >= last:
                return
            left, along, end = along + left, along + left + width, start + length
            mark = start, end, left, top, along, bottom, turn
    if mark is not None:
        yield _mark(*mark)


def _mark(start: int, end: int, a0: int, b0: int, a1: int, b1: int, turn: int) -> Mark:
    box = _on_page((a0 / STEPS, b0 / STEPS, a1 / STEPS, b1 / STEPS), turn)
    return Mark(start, end, *box, turn)


def rectangles(layout: Layout, start: int, text: str) -> tuple[Box, ...]:
    """Where the code points from `start` of a page's text stand, a rectangle for each visual line.

    `text` is what stands there. Empty where the place of any of it is not known for sure.
    """
    end = start + len(text)
    boxes: list[tuple[Box, int]] = []
    at = start
    for mark in layout.marks:
        if mark.end <= start:
            continue
        if mark.start >= end:
            break
        if not _blank(text[at - start : max(mark.start, at) - start]):
            return ()
        box = _part(mark, start, end)
        if boxes and (joined := _joined(boxes[-1], box, mark.turn)) is not None:
            boxes[-1] = joined, mark.turn
        else:
            boxes.append((box, mark.turn))
        at = mark.end
    return tuple(box for box, _ in boxes) if _blank(text[max(at - start, 0) :]) else ()


def _blank(text: str) -> bool:
    """Whether nothing is printed for it: spaces, and what parts the cells of a row."""
    return not text.replace("|", "").strip()


def _part(mark: Mark, start: int, end: int) -> Box:
    """The rectangle of as much of a mark as lies in `start:end`."""
    left, top, right, bottom = _in_line(mark[2:6], mark.turn)
    width = (right - left) / (mark.end - mark.start)
    first = left + width * max(start - mark.start, 0)
    last = right - width * max(mark.end - end, 0)
    return _on_page((first, top, last, bottom), mark.turn)


def _joined(before: tuple[Box, int], box: Box, turn: int) -> Box | None:
    """Both as one rectangle, if they stand side by side in one line."""
    if before[1] != turn:
        return None
    a0, b0, a1, b1 = _in_line(before[0], turn)
    c0, d0, c1, d1 = _in_line(box, turn)
    low = min(b1 - b0, d1 - d0)
    apart = max(c0 - a1, a0 - c1)
    if min(b1, d1) - max(b0, d0) < 0.7 * low or apart > _WIDE_GAP * low:
        return None
    return _on_page((min(a0, c0), min(b0, d0), max(a1, c1), max(b1, d1)), turn)


def _in_line(box: Sequence[float], turn: int) -> Box:
    """A rectangle along its line: start, upper side, end and lower side, as a reader turns it."""
    left, top, right, bottom = box
    if turn == 1:
        return top, -right, bottom, -left
    if turn == 2:
        return -right, -bottom, -left, -top
    if turn == 3:
        return -bottom, left, -top, right
    return left, top, right, bottom


def _on_page(box: Sequence[float], turn: int) -> Box:
    """What `_in_line` was made from."""
    return _in_line(box, -turn % 4)
