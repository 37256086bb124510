"""From the rows of a page, with their places, to paragraphs in reading order.

Knows no PDF library: coordinates are points, x to the right and y down.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from localrag.documents.lines import (
    CELL_BREAK,
    CJK,
    LIST_MARKER,
    TableHeader,
    ends_sentence,
    grouped,
    is_cjk,
    is_marker,
    join,
    join_all,
    numbered_heading,
    squeeze,
)
from localrag.documents.positions import Piece


@dataclass(slots=True)
class TextRow:
    """One visual row of text; `tabular` when its text is cells already joined.

    `size` is the font size in points; a space at the end of `text` was printed.
    """

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    tabular: bool = False
    pieces: Sequence[Piece] = ()
    """Where its words stand on the page, however the row was turned; () where that is not sure."""
    cells: tuple[str, ...] = ()
    columns: tuple[tuple[float, float], ...] = ()
    """Left and right edge of each of the cells."""
    table: TableHeader | None = None


def hull(boxes: Iterable[Sequence[float]]) -> tuple[float, float, float, float]:
    """The smallest box (x0, y0, x1, y1) around some."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


@dataclass(slots=True)
class Block:
    """Rows that stand together; `table` when they are the rows of a ruled table."""

    rows: list[TextRow]
    table: bool = False
    x0: float = field(init=False)
    y0: float = field(init=False)
    x1: float = field(init=False)
    y1: float = field(init=False)

    def __post_init__(self) -> None:
        boxes = ((row.x0, row.y0, row.x1, row.y1) for row in self.rows)
        self.x0, self.y0, self.x1, self.y1 = hull(boxes)


@dataclass(slots=True)
class Paragraph:
    """A mended paragraph, heading, list item or table row."""

    text: str
    size: float
    bold: bool
    rows: int
    tabular: bool
    pieces: Sequence[Piece]
    table: TableHeader | None = None


def merge_segments(segments: Sequence[TextRow]) -> list[TextRow]:
    """Put the segments of one block that share a baseline into one row each.

    Wide gaps (1.8 em and more somewhere in the row) mean cells, narrow ones
    spaces: justified text never stretches a space that far.
    """
    groups = grouped(segments, lambda group, segment: _is_beside(group[-1], segment))
    return [_merge_row(group) for group in groups]


def _is_beside(last: TextRow, segment: TextRow) -> bool:
    overlap = min(last.y1, segment.y1) - max(last.y0, segment.y0)
    lower = min(last.y1 - last.y0, segment.y1 - segment.y0)
    return segment.x0 >= last.x1 - 0.3 * last.size and overlap > 0.5 * lower


def _merge_row(group: Sequence[TextRow]) -> TextRow:
    if len(group) == 1:
        return group[0]
    size = max(row.size for row in group)
    gaps = [after.x0 - before.x1 for before, after in pairwise(group)]
    starts_list = is_marker(group[0].text)
    tabular = max(gaps[1:] if starts_list else gaps, default=0.0) >= 1.8 * size
    text = group[0].text
    cells, columns = [text], [(group[0].x0, group[0].x1)]
    for position, (gap, row) in enumerate(zip(gaps, group[1:], strict=True)):
        if tabular and gap >= 0.8 * size and not (starts_list and position == 0):
            text = f"{text.rstrip()}{CELL_BREAK}{row.text.lstrip()}"
            cells.append(row.text)
            columns.append((row.x0, row.x1))
            continue
        if gap > 0.15 * size:
            text = join(text.rstrip() + " ", row.text)
            cells[-1] = join(cells[-1].rstrip() + " ", row.text)
        else:
            text += row.text
            cells[-1] += row.text
        columns[-1] = (columns[-1][0], row.x1)
    box = hull((row.x0, row.y0, row.x1, row.y1) for row in group)
    pieces = [piece for row in group for piece in row.pieces]
    merged = TextRow(text, *box, size, all(row.bold for row in group), tabular, pieces)
    if tabular:
        merged.cells, merged.columns = tuple(map(squeeze, cells)), tuple(columns)
    return merged


# Running headers and footers

_ROMAN = re.compile(r"[ivxl]+", re.IGNORECASE)
_OUTERMOST = 3
_LONGEST_RUNNING = 1000
"""Characters of a row in which numbers may count with the pages."""


def drop_running_text(pages: Sequence[list[Block]]) -> list[list[Block]]:
    """Remove headers, footers and page numbers: rows at a page's edge that repeat on most pages.

    Two rows are the same when their texts are, or differ only in a number that
    counts with the pages; a subtotal at the foot of each page stays. Rows
    printed larger than the text are headings, and table rows are never taken.
    A document of one page keeps everything, one of two all but page numbers.
    """
    printed = sum(1 for blocks in pages if blocks)
    sizes = [row.size for blocks in pages for block in blocks for row in block.rows]
    if printed < 2 or not sizes:
        return list(pages)
    largest = 1.15 * median(sizes)
    edges = [
        [(row, _running_keys(row, number)) for row in _edge_rows(blocks) if row.size <= largest]
        for number, blocks in enumerate(pages)
    ]
    seen = Counter(key for rows in edges for key in {key for _, keys in rows for key in keys})
    least = 2 if printed == 2 else max(3, int(0.45 * printed))
    running = {key for key, count in seen.items() if count >= least}
    if printed == 2:
        running = {key for key in running if _COUNTED in key}
    result: list[list[Block]] = []
    for blocks, rows in zip(pages, edges, strict=True):
        dropped = {id(row) for row, keys in rows if not running.isdisjoint(keys)}
        body = []
        for block in blocks:
            left = [row for row in block.rows if id(row) not in dropped]
            if left:
                body.append(block if len(left) == len(block.rows) else Block(left, block.table))
        result.append(body)
    return result


def _edge_rows(blocks: Iterable[Block]) -> list[TextRow]:
    rows = sorted(
        (row for block in blocks if not block.table for row in block.rows), key=lambda row: row.y0
    )
    return rows if len(rows) <= 2 * _OUTERMOST else rows[:_OUTERMOST] + rows[-_OUTERMOST:]


_COUNTED = "\0"


def _running_keys(row: TextRow, page: int) -> set[str]:
    """The row's text, and for each number in it the text with what it is ahead of the page."""
    text = "".join(row.text.split())
    if len(text) > _LONGEST_RUNNING:
        return {text}
    if _ROMAN.fullmatch(text):
        return {f"{_COUNTED}roman{_roman(text) - page}"}
    return {text} | {
        f"{text[: match.start()]}{_COUNTED}{int(match.group()) - page}{text[match.end() :]}"
        for match in re.finditer(r"(?<![\d.,])[0-9]{1,5}(?![\d.,]*\d)", text)
    }


def _roman(text: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10, "l": 50}[letter] for letter in text.lower()]
    following = [*values[1:], 0]
    return sum(-a if a < b else a for a, b in zip(values, following, strict=True))


# Reading order

_MOST_BLOCKS = 500
_DEEPEST_CUT = 20
_WIDE = 10.0
"""Times the font size, of rows with both ends in line: running text, not cells."""


def stacked(blocks: Iterable[Block]) -> list[Block]:
    """The blocks, with those joined that go on one below the other in a column of running text.

    Some files draw each row of their text as a block: only so a column of them is seen.
    """
    return [
        stack[0] if len(stack) == 1 else Block([row for block in stack for row in block.rows])
        for stack in grouped(blocks, lambda stack, block: _goes_on_below(stack[-1], block))
    ]


def _goes_on_below(block: Block, following: Block) -> bool:
    above, below = block.rows[-1], following.rows[0]
    if block.table or following.table or above.tabular or below.tabular:
        return False
    size = above.size
    return (
        abs(below.size - size) < 0.1 * size
        and min(above.x1 - above.x0, below.x1 - below.x0) > _WIDE * size
        and abs(below.x0 - above.x0) < 2.5 * size
        and abs(below.x1 - above.x1) < 1.5 * size
        and -0.3 * size < below.y0 - above.y1 <= 0.8 * size
    )


def reading_order(blocks: Sequence[Block], depth: int = 0) -> list[Block]:
    """Order the blocks of a page: columns from left to right, inside them from top to bottom.

    A recursive XY-cut that tries columns first: bands of the page that share a
    gutter are read column by column, others from top to bottom. Overlapping
    blocks stay in the order in which the file draws them. `depth` counts the
    columns that the blocks already lie in.
    """
    if len(blocks) < 2:
        return list(blocks)
    if len(blocks) > _MOST_BLOCKS or depth > _DEEPEST_CUT:  # labels of a drawing
        return sorted(blocks, key=lambda block: (round(block.y1 / 3), block.x0))
    ordered: list[Block] = []
    group: list[Block] = []
    for band in _bands(blocks):
        if group and _gutter([*group, *band]) is None:
            ordered.extend(_by_columns(group, depth))
            group = []
        group.extend(band)
    ordered.extend(_by_columns(group, depth))
    return ordered


def _bands(blocks: Sequence[Block]) -> list[list[Block]]:
    """Groups of blocks that overlap vertically, from top to bottom; inside, the file's order."""
    places = sorted(range(len(blocks)), key=lambda place: blocks[place].y0)
    bands: list[list[int]] = []
    bottom = float("-inf")
    for place in places:
        # Ascenders and descenders of neighbouring rows touch: a point of overlap is none.
        if blocks[place].y0 >= bottom - 1.5 or not bands:
            bands.append([])
        bands[-1].append(place)
        bottom = max(bottom, blocks[place].y1)
    return [[blocks[place] for place in sorted(band)] for band in bands]


def _by_columns(group: list[Block], depth: int) -> list[Block]:
    gutter = _gutter(group)
    if gutter is None:
        if len(group) > 1 and all(len(block.rows) == 1 for block in group):
            return sorted(group, key=lambda block: (round(block.y1 / 3), block.x0))
        return group
    left = [block for block in group if block.x1 <= gutter]
    right = [block for block in group if block.x1 > gutter]
    return reading_order(left, depth + 1) + reading_order(right, depth + 1)


def _gutter(blocks: Sequence[Block]) -> float | None:
    """The left edge of the widest vertical white space that parts the blocks into columns."""
    spans: list[tuple[float, float]] = []
    for block in sorted(blocks, key=lambda block: block.x0):
        if spans and block.x0 <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], block.x1))
        else:
            spans.append((block.x0, block.x1))
    best: tuple[float, float] | None = None
    for before, after in pairwise(spans):
        gap, edge = after[0] - before[1], before[1]
        if gap >= 6 and (best is None or gap > best[0]) and _are_columns(blocks, edge):
            best = (gap, edge)
    return best[1] if best else None


def _are_columns(blocks: Sequence[Block], edge: float) -> bool:
    """Whether the blocks left and right of `edge` are columns of text, not cells of rows."""
    left = [block for block in blocks if block.x1 <= edge]
    right = [block for block in blocks if block.x1 > edge]
    top = max(min(block.y0 for block in left), min(block.y0 for block in right))
    bottom = min(max(block.y1 for block in left), max(block.y1 for block in right))
    heights = [
        max(block.y1 for block in side) - min(block.y0 for block in side) for side in (left, right)
    ]
    if bottom - top < 0.5 * min(heights):
        return False
    for side in (left, right):
        if all(len(row.text.strip()) <= 3 for block in side for row in block.rows):
            return False  # bullets or line numbers
    if max(len(block.rows) for block in blocks) > 2:
        return True
    baselines = [row.y1 for block in right for row in block.rows]
    rows = [row.y1 for block in left for row in block.rows]
    aligned = sum(1 for y in rows if any(abs(y - other) < 3 for other in baselines))
    return aligned < 0.7 * min(len(rows), len(baselines))


# Paragraphs


def paragraphs(blocks: Sequence[Block], vocabulary: Collection[str]) -> list[Paragraph]:
    """Mend the rows of ordered blocks into paragraphs; `vocabulary` as in `lines.join`."""
    groups: list[tuple[list[TextRow], bool]] = []
    before: Block | None = None
    edge = 0.0  # of the column of the row before
    for block in blocks:
        block_edge = _right_edge(block, blocks)
        for row in block.rows:
            rows, tabular = groups[-1] if groups else ([], True)
            shared = block if before is block else None
            if not (tabular or block.table) and _continues(rows, row, edge, shared):
                rows.append(row)
            else:
                groups.append(([row], block.table or row.tabular))
            before, edge = block, block_edge
    candidates = [_paragraph(rows, tabular, vocabulary) for rows, tabular in groups]
    return [paragraph for paragraph in candidates if paragraph.text]


def _paragraph(rows: Sequence[TextRow], tabular: bool, vocabulary: Collection[str]) -> Paragraph:
    text = squeeze(join_all((row.text for row in rows), vocabulary))
    # Spaces between Chinese characters are accidents of the layout in running text, and a heading
    # may be spaced out; in other single rows ("name  date") they separate.
    if len(rows) > 1 or _SPACED_OUT.fullmatch(text):
        text = _BETWEEN_CHINESE.sub("", text)
    pieces = [piece for row in rows for piece in row.pieces]
    first = rows[0]
    return Paragraph(text, first.size, first.bold, len(rows), tabular, pieces, first.table)


_BETWEEN_CHINESE = re.compile(f"(?<=[{CJK}]) (?=[{CJK}])")
_SPACED_OUT = re.compile(f"[{CJK}](?: [{CJK}])+")


def _right_edge(block: Block, blocks: Sequence[Block]) -> float:
    """Where the column ends on the right: a short block alone does not show it."""
    if len(block.rows) > 2 or len(blocks) > _MOST_BLOCKS:
        return block.x1
    size = block.rows[0].size
    return max(
        other.x1
        for other in blocks
        if other is block
        or (
            not other.table
            and abs(other.rows[0].size - size) < 0.1 * size
            and other.x0 < block.x1
            and other.x1 > block.x0
            and other.x0 > block.x0 - 3 * size
        )
    )


def _continues(rows: Sequence[TextRow], row: TextRow, edge: float, block: Block | None) -> bool:
    """Whether `row` goes on with the paragraph of `rows`.

    `edge` is the right edge of the column of their last; `block` the block that
    holds it and `row`, None if they stand in two.
    """
    first, previous = rows[0], rows[-1]
    size = previous.size
    if row.tabular or abs(row.size - size) > 0.1 * size:
        return False
    closed = ends_sentence(previous.text)
    free = edge - previous.x1
    full = free < first_word(row) + 0.5 * size
    if is_marker(previous.text) and abs(row.y1 - previous.y1) < size:
        return True
    if row.bold != previous.bold and (closed or not full):
        return False
    in_list = LIST_MARKER.match(first.text) is not None
    if LIST_MARKER.match(row.text) and (closed or in_list or not full):
        return False
    if block is None:
        return full and not closed and _continues_in_next_block(first, previous, row, in_list)
    if row.y0 - previous.y1 > 1.2 * size:
        return False
    if not in_list and row.x0 > max(block.x0, previous.x0 - 0.2 * size) + 0.8 * size:
        centred = abs((row.x0 + row.x1) - (previous.x0 + previous.x1)) < size
        return centred and not closed
    if full:
        return True
    return not closed and free < 0.35 * (edge - block.x0)


def _continues_in_next_block(
    first: TextRow, previous: TextRow, row: TextRow, in_list: bool
) -> bool:
    size = previous.size
    if numbered_heading(row.text) or numbered_heading(first.text):
        return False
    if row.y0 < previous.y0 - size:  # the next column
        return row.text[:1].islower() or is_cjk(row.text[:1]) or previous.text.endswith("-")
    indent = row.x0 - previous.x0
    allowed = 2.5 * size if in_list and first is previous else 0.5 * size
    return row.y0 - previous.y1 <= 0.8 * size and -3 * size <= indent <= allowed


def first_word(row: TextRow) -> float:
    """The width in points that the row's first word would have taken on the row before."""
    if is_cjk(row.text[:1]):
        return 2.2 * row.size  # a character, and a mark that may not begin a row
    word = row.text.split(maxsplit=1)[0] if row.text.strip() else ""
    return (row.x1 - row.x0) * (len(word) + 1) / max(len(row.text), 1)
