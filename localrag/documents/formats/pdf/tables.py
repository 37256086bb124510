"""Ruled tables of a PDF page: the places of their cells, and the characters that fall into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from localrag.documents.formats.pdf.layout import Block, hull
from localrag.documents.formats.pdf.spans import Span, row_of, text_of
from localrag.documents.lines import CELL_BREAK, join, squeeze
from localrag.text.normalize import clean

_MOST_DRAWINGS = 3000


class Table:
    """The cells of a ruled table, and the spans that fall into them."""

    def __init__(self, box: Sequence[float], rows: Sequence[Sequence[Sequence[float] | None]]):
        self._box = tuple(box)
        self._cells = {
            (i, j): cell for i, row in enumerate(rows) for j, cell in enumerate(row) if cell
        }
        self._widths = [len(row) for row in rows]
        self.spans: dict[tuple[int, int], list[Span]] = {}
        self._last = (0, 0)  # neighbouring characters mostly share a cell

    def cell_at(self, x: float, y: float) -> tuple[int, int] | None:
        """Row and column of the cell nearest to a point in the table, None for one outside."""
        x0, y0, x1, y1 = self._box
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            return None

        def away(place: tuple[int, int]) -> float:
            left, top, right, bottom = self._cells[place]
            return max(left - x, 0, x - right) + max(top - y, 0, y - bottom)

        if self._last not in self._cells or away(self._last) > 0:
            inside = (
                place
                for place, (left, top, right, bottom) in self._cells.items()
                if left <= x <= right and top <= y <= bottom
            )
            self._last = next(inside, None) or min(self._cells, key=away, default=(0, 0))
        return self._last

    def block(self, right: float, down: float) -> Block | None:
        """The table as a block, a row for each of its rows; None if it holds no text.

        `right` and `down` are the direction of its text, as in `row_of`.
        """
        rows = []
        for i, width in enumerate(self._widths):
            cells = [self.spans.get((i, j), []) for j in range(width)]
            row = row_of([span for cell in cells for span in cell], right, down)
            if row is not None:
                texts = [_cell_text(cell, right, down) for cell in cells]
                while texts and not texts[-1]:
                    texts.pop()
                row.text, row.tabular = CELL_BREAK.join(texts), True
                rows.append(row)
        return Block(rows, table=True) if rows else None


def _cell_text(spans: Sequence[Span], right: float, down: float) -> str:
    text, bottom = "", None
    for span in spans:
        piece = clean(text_of(span))
        x0, y0, x1, y1 = span["bbox"]
        top, end = sorted((y0 * right - x0 * down, y1 * right - x1 * down))
        if bottom is None or top < bottom - 0.3 * span["size"]:
            text += piece
        else:
            text = join(text, piece)
        bottom = end
    return squeeze(text)


def outside(span: Span, tables: Sequence[Table]) -> bool:
    """Hand the characters of a span that lie in a table to their cells; True if any stay."""
    if not tables:
        return True
    placed = [(_place(character["bbox"], tables), character) for character in span["chars"]]
    stay = [character for place, character in placed if place is None]
    for place, group in groupby((pair for pair in placed if pair[0]), key=itemgetter(0)):
        characters = [character for _, character in group]
        number, cell = place
        piece = {**span, "chars": characters, "bbox": hull(c["bbox"] for c in characters)}
        tables[number].spans.setdefault(cell, []).append(piece)
    if 0 < len(stay) < len(placed):
        span["bbox"] = hull(character["bbox"] for character in stay)
    span["chars"] = stay
    return bool(stay)


def _place(box: Sequence[float], tables: Sequence[Table]) -> tuple[int, tuple[int, int]] | None:
    """Number of the table and cell in which the middle of a box lies."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    cells = ((number, table.cell_at(x, y)) for number, table in enumerate(tables))
    return next(((number, cell) for number, cell in cells if cell is not None), None)


def find_tables(page: Any, right: float, down: float) -> list[Table]:
    """Tables with rules around their cells, whose text runs in this direction (cosine, sine).

    The finder takes 25 to 60 ms, the text of a page 2: it runs only where the
    page draws at least two rules each way. Its own text of the cells misplaces
    punctuation, so only the places of the cells are used.
    """
    turned = _TURNS.get((right, down))
    if turned is None:
        return []
    drawings = page.get_cdrawings()
    sideways = right == 0
    if not 2 <= len(drawings) <= _MOST_DRAWINGS or not _suggest_grid(drawings, sideways):
        return []
    shown = page.rotation
    page.set_rotation(0)  # text has its places on the page as it was drawn
    try:
        found = page.find_tables(use_layout=False).tables
    finally:
        page.set_rotation(shown)
    return [
        Table(table.bbox, turned([row.cells for row in table.rows]))
        for table in found
        if table.row_count > 1 and table.col_count > 1
    ]


_Cells = Sequence[Sequence[Sequence[float] | None]]
_TURNS: dict[tuple[float, float], Callable[[_Cells], _Cells]] = {
    (1.0, 0.0): lambda rows: rows,
    (0.0, -1.0): lambda rows: list(zip(*reversed(rows), strict=True)),
    (-1.0, 0.0): lambda rows: [row[::-1] for row in reversed(rows)],
    (0.0, 1.0): lambda rows: list(zip(*rows, strict=True))[::-1],
}
"""What makes rows of the cells of a table whose text runs in this direction."""


def _suggest_grid(drawings: Iterable[dict[str, Any]], sideways: bool) -> bool:
    across = along = 0
    for drawing in drawings:
        for item in drawing["items"]:
            if item[0] == "l":
                wide = abs(item[1][0] - item[2][0])
                high = abs(item[1][1] - item[2][1])
            elif item[0] == "re":
                wide, high = abs(item[1][2] - item[1][0]), abs(item[1][3] - item[1][1])
            else:
                continue
            if sideways:
                wide, high = high, wide
            # A rectangle that is no rule draws the four sides of a cell.
            box = wide > 10 and high > 8
            across += 2 if box else int(wide > 30 and high < 3)
            along += 2 if box else int(high > 8 and wide < 3)
    return across > 2 and along > 1
