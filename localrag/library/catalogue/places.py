"""Where a span of a document's text stands: in the words of its format, and on its page.

Reads what lies around the span, never the whole of a long document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from localrag.documents.positions import Layout, decode, rectangles
from localrag.library.catalogue.filters import LAST_PAGE
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
    return places_of(snapshot, [(document_id, offset)])[0]


def places_of(snapshot: Snapshot, asked: Sequence[tuple[str, int]]) -> list[Place | None]:
    """The same of many: as many statements as one takes."""
    places: dict[int, _KnownPlace] = {}
    for row in snapshot.rows_of_places(
        'SELECT asked.place, d.number, d.unit, p.position, p.number, p."start", p.label FROM asked '
        "JOIN documents d ON d.id = asked.document JOIN pages p ON p.document = d.number "
        "AND p.position = (SELECT q.position FROM pages q WHERE q.document = d.number "
        'AND q."start" <= asked.until ORDER BY q.position DESC LIMIT 1) ORDER BY asked.place',
        {at: (document_id, 0, offset) for at, (document_id, offset) in enumerate(asked)},
        kinds=(int, int, str, int, int, int, str),
    ):
        at, number, unit, position, page, start, label = row
        try:
            place = Place(asked[at][1], msgspec.convert(unit, Unit), page, label)
        except msgspec.ValidationError as error:
            raise damaged_rows(error) from error
        places[at] = _KnownPlace(place, number, position, start)
    within = {
        at: passage for at, passage in places.items() if passage.place.unit not in ("page", "slide")
    }
    for at, row_number in _rows(snapshot, within).items():
        places[at] = places[at]._replace(place=replace(places[at].place, row=row_number))
    below = {
        at: passage
        for at, passage in within.items()
        if places[at].place.row is None and passage.place.unit != "sheet"
    }
    for at, place in _below_headings(snapshot, below).items():
        places[at] = places[at]._replace(place=place)
    return [places[at].place if at in places else None for at in range(len(asked))]


def page_of(
    snapshot: Snapshot, document_id: str, *, number: int | None = None, offset: int = 0
) -> PageSpan | None:
    """The page of that number, else the one on which a code point stands; None for none."""
    if number is not None and number > LAST_PAGE:
        return None
    row = snapshot.first(
        'SELECT p.position, p.number, p.label, p."start", p."end" FROM documents d '
        "JOIN pages p ON p.document = d.number WHERE d.id = ? "
        'AND CASE WHEN ? THEN p.number = ? ELSE p."start" <= ? END '
        "ORDER BY p.position DESC LIMIT 1",
        *(document_id, number is not None, number, offset),
        kinds=(int, int, str, int, int),
    )
    return PageSpan(*row[1:]) if row else None


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
    regions = []
    for _, number, first, last, stored in pages:
        begin, finish = max(start, first), min(end, last)
        span = begin - first, finish - first
        layout = _decoded(stored, *span, last - first) if stored else Layout(0.0, 0.0, ())
        text = snapshot.text(document_id, begin, finish)
        boxes = rectangles(layout, begin - first, text)
        regions.append(OnPage(number, layout.width, layout.height, boxes))
    return tuple(regions)


def tables_within(snapshot: Snapshot, document_id: str, start: int, end: int) -> int:
    """How many tables begin among code points `start:end` of a document."""
    (count,) = snapshot.sql.execute(
        "SELECT count(1) FROM tables t JOIN documents d ON d.number = t.document "
        'WHERE d.id = ? AND t."start" >= ? AND t."start" < ?',
        (document_id, start, end),
    ).fetchone()
    return int(count)


class _KnownPlace(NamedTuple):
    """A place, as far as it is known; number of its document; position and start of its page."""

    place: Place
    number: int
    position: int
    start: int


def _rows(snapshot: Snapshot, passages: Mapping[int, _KnownPlace]) -> dict[int, int]:
    """The rows of sheets, from 1, in which places stand; not of those beside a sheet's rows."""
    marks: dict[int, tuple[int, int]] = {}
    for at, stored, end in snapshot.rows_of_places(
        'SELECT asked.place, l.layout, p."end" FROM asked JOIN pages p '
        "ON p.document = asked.document AND p.position = asked.since JOIN layouts l "
        "ON l.document = p.document AND l.position = p.position WHERE EXISTS "
        '(SELECT 1 FROM tables t WHERE t.document = asked.document AND t."start" <= asked.until '
        'AND t."end" >= asked.until) ORDER BY asked.place',
        {
            at: (passage.number, passage.position, passage.place.start)
            for at, passage in passages.items()
        },
        kinds=(int, bytes, int),
    ):
        cell = passages[at]
        offset = cell.place.start - cell.start
        layout = _decoded(stored, offset, offset + 1, end - cell.start)
        mark = next(iter(layout.marks), None)
        if mark is not None and mark.start <= offset:
            marks[at] = cell.start + mark.start, int(mark.top)
    lines = _lines(snapshot, {at: (passages[at], start) for at, (start, _) in marks.items()}, _ROWS)
    return {at: marks[at][1] + below + 1 for at, below in lines.items()}


def _below_headings(snapshot: Snapshot, passages: Mapping[int, _KnownPlace]) -> dict[int, Place]:
    """The places with the heading above them, and their paragraphs below it."""
    headings = {
        at: (start, text)
        for at, start, text in snapshot.rows_of_places(
            'SELECT asked.place, h."start", h.text FROM asked JOIN headings h '
            "ON h.document = asked.document AND h.position = (SELECT g.position FROM headings g "
            'WHERE g.document = asked.document AND g."start" BETWEEN asked.since AND asked.until '
            'ORDER BY g."start" DESC LIMIT 1) ORDER BY asked.place',
            {
                at: (
                    passage.number,
                    passage.start if passage.place.unit == "chapter" else 0,
                    passage.place.start,
                )
                for at, passage in passages.items()
            },
            kinds=(int, int, str),
        )
    }
    begins = {at: headings.get(at, (passage.start, ""))[0] for at, passage in passages.items()}
    lines = _lines(
        snapshot, {at: (passage, begins[at]) for at, passage in passages.items()}, _COUNTED
    )
    return {
        at: replace(
            passage.place,
            heading=headings[at][1] if at in headings else "",
            # The heading's own line is no paragraph.
            paragraph=(lines[at] + (at not in headings) or None) if at in lines else None,
        )
        for at, passage in passages.items()
    }


def _lines(
    snapshot: Snapshot, passages: Mapping[int, tuple[_KnownPlace, int]], most: int
) -> dict[int, int]:
    """How many lines end between somewhere and each place; not where that is too far to look."""
    near = {
        at: (passage.number, start, passage.place.start)
        for at, (passage, start) in passages.items()
        if passage.place.start - start <= most
    }
    texts = snapshot.spans([*near.values()])
    return {at: text.count("\n") for at, text in zip(near, texts, strict=True)}


def _decoded(stored: bytes, start: int, end: int, length: int) -> Layout:
    """The marks for `start:end` of a page with `length` code points."""
    try:
        return decode(stored, start, end, length=length)
    except ValueError as error:
        raise damaged_rows(error) from error
