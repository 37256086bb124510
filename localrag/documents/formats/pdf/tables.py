"""Ruled tables of a PDF page: the places of their cells, and the characters that fall into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from localrag.documents.formats.pdf.layout import Block, TextRow, hull
from localrag.documents.formats.pdf.spans import Span, row_of, text_of
from localrag.documents.lines import TableHeader, grouped, join, squeeze, without_empty_end
from localrag.documents.tables import (
    REPEATED,
    header_rows_of,
    names_numbers,
    names_of,
    notes_of,
    titles_of,
    with_cells,
)
from localrag.text.normalize import clean

_MOST_RULES = 3000
"""Lines and boxes of a page on which tables are looked for: the finder takes 5 s for these."""


class RuledTable:
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
        along = int(right == 0)  # the axis of the page on which rows lie
        columns = self._columns(along)
        texts = {place: _cell_text(spans, right, down) for place, spans in self.spans.items()}
        above: list[tuple[int, int] | None] = []
        for i, width in enumerate(self._widths):
            owners = self._owners(i, columns, above, along)
            above = owners
            row = row_of(
                [span for j in range(width) for span in self.spans.get((i, j), [])], right, down
            )
            if row is None:
                continue
            alone = len(set(owners)) == 1
            cells: list[str] = []
            spans: list[Span] = []
            for j, owner in enumerate(owners):
                text = texts.get(owner, "") if owner else ""
                again = owner != (i, j)
                cells.append("" if again and (alone or len(text) > REPEATED) else text)
                spans += self.spans[owner] if cells[-1] and owner else ()
            spoken = row_of(spans, right, down)
            row.pieces = spoken.pieces if spoken is not None else ()
            row.cells = tuple(without_empty_end(cells))
            row.text, row.tabular, row.columns = with_cells(row.cells), True, columns
            rows.append(row)
        return Block(rows, table=True) if rows else None

    def _columns(self, along: int) -> tuple[tuple[float, float], ...]:
        """The edges of each column: those of its narrowest cell."""
        narrowest: dict[int, tuple[float, float]] = {}
        for (_, j), cell in self._cells.items():
            left, right = cell[along], cell[along + 2]
            known = narrowest.get(j)
            if known is None or right - left < known[1] - known[0]:
                narrowest[j] = left, right
        return tuple(narrowest.get(j, (0.0, 0.0)) for j in range(max(self._widths, default=0)))

    def _owners(
        self,
        i: int,
        columns: Sequence[tuple[float, float]],
        above: Sequence[tuple[int, int] | None],
        along: int,
    ) -> list[tuple[int, int] | None]:
        """For each cell of a row the one that covers it: itself, or one merged over it."""
        own = [cell for j in range(self._widths[i]) if (cell := self._cells.get((i, j)))]
        top, bottom = min(
            ((cell[1 - along], cell[3 - along]) for cell in own),
            key=lambda edges: edges[1] - edges[0],
            default=(0.0, 0.0),
        )
        across = (top + bottom) / 2
        owners: list[tuple[int, int] | None] = []
        for j in range(self._widths[i]):
            middle = sum(columns[j]) / 2
            x, y = (across, middle) if along else (middle, across)
            near = [(i, j), *owners[-1:], *above[j : j + 1]]
            owners.append(
                next((table for table in near if table and self._holds(table, x, y)), None)
            )
        return owners

    def _holds(self, place: tuple[int, int], x: float, y: float) -> bool:
        cell = self._cells.get(place)
        return cell is not None and cell[0] <= x <= cell[2] and cell[1] <= y <= cell[3]


def _cell_text(spans: Sequence[Span], right: float, down: float) -> str:
    text, bottom, before = "", None, 0.0
    for span in spans:
        piece = clean(text_of(span))
        x0, y0, x1, y1 = span["bbox"]
        top, end = sorted((y0 * right - x0 * down, y1 * right - x1 * down))
        start, after = sorted((x0 * right + y0 * down, x1 * right + y1 * down))
        if bottom is None or top < bottom - 0.3 * span["size"]:
            # A table within the cell, or the sign of a list.
            apart = bottom is not None and start > before + 0.4 * span["size"]
            text += f" {piece}" if apart else piece
        else:
            text = join(text, piece)
        bottom, before = end, after
    return squeeze(text)


def outside(span: Span, tables: Sequence[RuledTable]) -> bool:
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


def _place(
    box: Sequence[float], tables: Sequence[RuledTable]
) -> tuple[int, tuple[int, int]] | None:
    """Number of the table and cell in which the middle of a box lies."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    cells = ((number, table.cell_at(x, y)) for number, table in enumerate(tables))
    return next(((number, cell) for number, cell in cells if cell is not None), None)


def find_tables(page: Any, right: float, down: float) -> list[RuledTable]:
    """Tables with rules around their cells, whose text runs in this direction (cosine, sine).

    The finder takes 25 to 60 ms, the text of a page 2: it runs only where the
    page draws at least two rules each way. Its own text of the cells misplaces
    punctuation, so only the places of the cells are used.
    """
    turned = _TURNS.get((right, down))
    if turned is None:
        return []
    drawings = page.get_cdrawings()
    rules = sum(len(drawing["items"]) for drawing in drawings)
    if rules > _MOST_RULES or not _suggest_grid(drawings, sideways=right == 0):
        return []
    rotation = page.rotation
    page.set_rotation(0)  # text has its places on the page as it was drawn
    try:
        candidates = page.find_tables(use_layout=False).tables
    finally:
        page.set_rotation(rotation)
    return [
        RuledTable(table.bbox, turned([row.cells for row in table.rows]))
        for table in candidates
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


# The names of columns

_APART = 3.0
"""Points by which the edges of a column may differ from page to page."""
_BETWEEN = 2
"""Rows of text, such as a page's footer, that may stand between two parts of a table."""


@dataclass(slots=True)
class _TablePart:
    """Rows that stand together and have the same columns; `gap` rows of text are before them."""

    rows: list[TextRow]
    ruled: bool
    page: int
    gap: int

    def holds(self, row: TextRow) -> bool:
        """Whether a row has its cells where those of the last row are."""
        return len(row.cells) > 2 and _aligned(self.rows[-1].columns, row.columns)

    def goes_on(self, other: _TablePart) -> bool:
        """Whether the other part goes on with this table: on the next page, or after a remark."""
        mine, others = self.rows[-1].columns, other.rows[0].columns
        if self.ruled != other.ruled or len(mine) != len(others) or other.gap > _BETWEEN:
            return False
        if self.ruled:
            same = all(
                abs(a - b) <= _APART
                for column, two in zip(mine, others, strict=True)
                for a, b in zip(column, two, strict=True)
            )
            if not same or other.page != self.page + 1:
                return False
        elif not _aligned(mine, others):
            return False
        # Another header begins another table.
        rows = [row.cells for row in other.rows]
        return rows[0] == self.rows[0].cells or not names_numbers(rows)


def name_columns(pages: Sequence[Sequence[Block]]) -> None:
    """Give the rows of tables their header, on pages of blocks in reading order.

    A table that goes on on the next page keeps its header, whether that says it again or not. Rows
    without rules are a table where at least three cells stand one below another, words above
    numbers.
    """
    for parts in grouped(_parts(pages), lambda table, part: table[-1].goes_on(part)):
        rows = [row for part in parts for row in part.rows]
        cells = [row.cells for row in rows]
        first = titles_of(cells)
        rows, cells = rows[first:], cells[first:]
        ruled = parts[0].ruled
        number = 0
        if ruled or (len(rows) > 1 and names_numbers(cells)):
            styled = bool(rows) and rows[0].bold and not all(row.bold for row in rows)
            number = header_rows_of(cells, styled=styled)
        if ruled or number:
            header = TableHeader(names_of(cells[:number]), number)
            for row in rows[: len(rows) - notes_of(cells)]:
                row.table = header


def _parts(pages: Sequence[Sequence[Block]]) -> Iterator[_TablePart]:
    gap = 0
    part: _TablePart | None = None
    for page, blocks in enumerate(pages):
        for block in blocks:
            if block.table:
                if part is not None:
                    yield part
                    part = None
                yield _TablePart(list(block.rows), True, page, gap)
                gap = 0
                continue
            for row in block.rows:
                if part is not None and part.page == page and part.holds(row):
                    part.rows.append(row)
                    continue
                if part is not None:
                    yield part
                    part, gap = None, 0
                if len(row.cells) > 2:
                    part = _TablePart([row], False, page, gap)
                else:
                    gap += 1
    if part is not None:
        yield part


def _aligned(upper: Sequence[tuple[float, float]], two: Sequence[tuple[float, float]]) -> bool:
    """Whether the cells of two rows stand one below another, each below one alone."""
    if len(upper) != len(two):
        return False
    return all(
        (a[0] < b[1] and b[0] < a[1]) == (i == j)
        for i, a in enumerate(upper)
        for j, b in enumerate(two[max(0, i - 1) : i + 2], max(0, i - 1))
    )


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
