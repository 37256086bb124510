"""Where a span of a document's text stands: in the words of its format, and on its page.

Reads what lies around the span, never the whole of a long document.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from localrag.documents.positions import Layout, decode, rectangles
from localrag.library.catalogue.base import Row
from localrag.library.catalogue.guarded import damaged_rows
from localrag.library.catalogue.reads import Snapshot
from localrag.library.records import OnPage, PageSpan
from localrag.types import Place, Unit

_COUNTED = 200_000
"""Code points below a heading, or the beginning, in which paragraphs are counted."""

_ROWS = 1_000_000
"""Code points below a row with a mark in which rows are counted."""


def place_of(snapshot: Snapshot, document_id: str, offset: int) -> Place | None:
    """Where a code point of a document stands; None for an unknown document."""
    found = _first(
        snapshot,
        'SELECT d.number, d.unit, p.position, p.number, p."start", p.label FROM documents d '
        'JOIN pages p ON p.document = d.number WHERE d.id = ? AND p."start" <= ? '
        "ORDER BY p.position DESC LIMIT 1",
        *(document_id, offset),
        kinds=(int, str, int, int, int, str),
    )
    if found is None:
        return None
    number, unit, position, page, start, label = found
    try:
        place = Place(offset, msgspec.convert(unit, Unit), page, label)
    except msgspec.ValidationError as error:
        raise damaged_rows(error) from error
    if place.unit in ("page", "slide"):
        return place
    row = _row(snapshot, document_id, (number, position, start), offset)
    if row is not None or place.unit == "sheet":
        return replace(place, row=row)
    heading = _first(
        snapshot,
        'SELECT "start", text FROM headings WHERE document = ? AND "start" BETWEEN ? AND ? '
        'ORDER BY "start" DESC LIMIT 1',
        *(number, start if place.unit == "chapter" else 0, offset),
        kinds=(int, str),
    )
    begin, text = heading or (start, "")
    above = _lines(snapshot, document_id, begin, offset, _COUNTED)
    # The heading's own line is no paragraph.
    paragraph = None if above is None else above + (heading is None)
    return replace(place, heading=text, paragraph=paragraph or None)


def page_of(
    snapshot: Snapshot, document_id: str, *, number: int | None = None, offset: int = 0
) -> PageSpan | None:
    """The page of that number, else the one on which a code point stands; None for none."""
    found = _first(
        snapshot,
        'SELECT p.position, p.number, p.label, p."start", p."end" FROM documents d '
        "JOIN pages p ON p.document = d.number WHERE d.id = ? "
        'AND CASE WHEN ? THEN p.number = ? ELSE p."start" <= ? END '
        "ORDER BY p.position DESC LIMIT 1",
        *(document_id, number is not None, number, offset),
        kinds=(int, int, str, int, int),
    )
    return PageSpan(*found[1:]) if found else None


def rectangles_of(snapshot: Snapshot, document_id: str, start: int, end: int) -> tuple[OnPage, ...]:
    """Where the code points `start:end` stand, for each page that has some of them."""
    pages = snapshot.sql.rows(
        'SELECT p.position, p.number, p."start", p."end", coalesce(l.layout, x\'\') '
        "FROM documents d JOIN pages p ON p.document = d.number LEFT JOIN layouts l "
        "ON l.document = d.number AND l.position = p.position "
        'WHERE d.id = ? AND p."start" < ? AND p."end" > ? ORDER BY p.position',
        *(document_id, end, start),
        kinds=(int, int, int, int, bytes),
    )
    found = []
    for _, number, first, last, stored in pages:
        begin, finish = max(start, first), min(end, last)
        span = begin - first, finish - first
        layout = _decoded(stored, *span, last - first) if stored else Layout(0.0, 0.0, ())
        text = snapshot.text(document_id, begin, finish)
        boxes = rectangles(layout, begin - first, text)
        found.append(OnPage(number, layout.width, layout.height, boxes))
    return tuple(found)


def tables_within(snapshot: Snapshot, document_id: str, start: int, end: int) -> int:
    """How many tables begin among code points `start:end` of a document."""
    (count,) = snapshot.sql.execute(
        "SELECT count(1) FROM tables t JOIN documents d ON d.number = t.document "
        'WHERE d.id = ? AND t."start" >= ? AND t."start" < ?',
        (document_id, start, end),
    ).fetchone()
    return int(count)


def _row(
    snapshot: Snapshot, document_id: str, page: tuple[int, int, int], offset: int
) -> int | None:
    """The row of a sheet, from 1, in which a code point stands; None beside its rows."""
    number, position, start = page
    stored = _first(
        snapshot,
        'SELECT l.layout, p."end" FROM layouts l JOIN pages p ON p.document = l.document '
        "AND p.position = l.position WHERE l.document = ? AND l.position = ? AND EXISTS "
        '(SELECT 1 FROM tables t WHERE t.document = l.document AND t."start" <= ? '
        'AND t."end" >= ?)',
        *(number, position, offset, offset),
        kinds=(bytes, int),
    )
    if stored is None:
        return None
    layout, end = stored
    at = offset - start
    mark = next(iter(_decoded(layout, at, at + 1, end - start).marks), None)
    if mark is None or mark.start > at:
        return None
    below = _lines(snapshot, document_id, start + mark.start, offset, _ROWS)
    return None if below is None else int(mark.top) + below + 1


def _lines(snapshot: Snapshot, document_id: str, start: int, offset: int, most: int) -> int | None:
    """How many lines end between two places; None where they are too far apart to look."""
    if offset - start > most:
        return None
    return snapshot.text(document_id, start, offset).count("\n")


def _decoded(stored: bytes, start: int, end: int, length: int) -> Layout:
    """The marks for `start:end` of a page with `length` code points."""
    try:
        return decode(stored, start, end, length=length)
    except ValueError as error:
        raise damaged_rows(error) from error


def _first(snapshot: Snapshot, query: str, *values: object, kinds: tuple[type, ...]) -> Row | None:
    return next(snapshot.sql.rows(query, *values, kinds=kinds), None)
