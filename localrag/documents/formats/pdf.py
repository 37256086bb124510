"""PDF files, read with PyMuPDF.

Text is taken in the order a person reads it, whichever way the page is turned.
Text that no person sees is left out (`hidden.py`). Pictures are not read; pages
without text are named in the metadata.

The library's layout model and pymupdf4llm cost a hundred times as much as the
plain text with its places and read the same, so the order is worked out in
`layout.py`.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pymupdf

from localrag.documents.headings import font_levels, outline_levels
from localrag.documents.hidden import drop_hidden
from localrag.documents.layout import (
    Block,
    Row,
    drop_running_text,
    merge_segments,
    paragraphs,
    reading_order,
)
from localrag.documents.lines import CELL_BREAK, Line, build, join, squeeze, words
from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    EncryptedFileError,
    ImageOnlyFileError,
    UnsupportedFileError,
)
from localrag.text.normalize import clean
from localrag.types import Document

_FLAGS = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP
_BOLD = 1 << 4
_MOST_DRAWINGS = 3000

MOST_PAGES = 20_000
"""Pages of the longest file that is read: more is a mistake or meant to keep us busy."""

_NOT_A_TITLE = re.compile(
    r"untitled.*|microsoft (?:word|powerpoint|excel).*|.*\.\w{2,4}|无标题.*|文档\s*\d*|document\d*",
    re.IGNORECASE,
)

# MuPDF keeps one state for the whole process and is not safe to use from two threads.
_LOCK = threading.Lock()

# Its functions carry no types.
_mupdf: Any = pymupdf


class PdfParser:
    """PDF bytes -> Document, a Page for each page."""

    def __init__(
        self, tick: Callable[[], None] = lambda: None, *, hidden_text: bool = False
    ) -> None:
        """`tick` is called after each page; `hidden_text` takes what no reader sees too."""
        self._tick = tick
        self._hidden_text = hidden_text

    def parse(self, data: bytes, source: str) -> Document:
        """Parse a PDF; safe to call from several threads, one runs at a time.

        `metadata` may hold `pages_without_text` (scans among pages with text),
        `damaged_pages` and `hidden_text_pages`, page numbers joined by ", ";
        and `author`.

        Raises EncryptedFileError, EmptyFileError, CorruptFileError or
        ImageOnlyFileError.
        """
        if not data:
            raise EmptyFileError(
                "{source} is empty: it has no bytes.",
                hint="Copy or download the file again.",
                source=source,
            )
        with _LOCK:
            return _parse(data, source, self._tick, self._hidden_text)


def _corrupt(source: str, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        "{source} is damaged or not a PDF file ({reason}).",
        hint="Copy or download it again, or open it in a PDF reader and save it anew.",
        source=source,
        reason=squeeze(str(error)) or type(error).__name__,
    )


def _parse(data: bytes, source: str, tick: Callable[[], None], keep: bool) -> Document:
    _mupdf.TOOLS.mupdf_display_errors(False)
    _mupdf.TOOLS.mupdf_display_warnings(False)
    # MuPDF's own exceptions share no base class but Exception, here and below.
    try:
        document = _mupdf.open(stream=data, filetype="pdf")
    except Exception as error:
        raise _corrupt(source, error) from error
    try:
        if not document.is_pdf:  # MuPDF looks at the bytes and opens pictures and archives too
            raise CorruptFileError(
                "{source} is not a PDF file, whatever its name says.",
                hint="Find out what made it, and add a PDF, Markdown, HTML or text file.",
                source=source,
            )
        if document.needs_pass:
            raise EncryptedFileError(
                "{source} is protected with a password, so its text cannot be read.",
                hint=(
                    "Remove the password, for example with "
                    "`qpdf --decrypt --password=... in.pdf out.pdf`, and add the new file."
                ),
                source=source,
            )
        return _read(document, data, source, tick, keep)
    finally:
        document.close()


def _read(
    document: Any, data: bytes, source: str, tick: Callable[[], None], keep: bool
) -> Document:
    pages: list[list[Block]] = []
    damaged: list[int] = []
    hidden: list[int] = []
    reason: Exception | None = None
    try:
        count = document.page_count
        toc = document.get_toc(simple=True)
        info = dict(document.metadata or {})
    except Exception as error:
        raise _corrupt(source, error) from error
    if count > MOST_PAGES:
        raise UnsupportedFileError(
            "{source} has {pages} pages, more than the limit of {limit}.",
            hint="Split it into parts, for example with `qpdf --split-pages=500`.",
            source=source,
            pages=count,
            limit=MOST_PAGES,
        )
    for number in range(count):
        try:
            blocks, hides = _page_blocks(document[number], keep)
        except Exception as error:
            blocks, hides, reason = [], False, error
            damaged.append(number + 1)
        pages.append(blocks)
        if hides:
            hidden.append(number + 1)
        tick()
    if reason is not None and len(damaged) == count:
        raise _corrupt(source, reason) from reason
    kept = drop_running_text(pages)
    # A file whose every row repeats is still better than nothing, unless it is a scan.
    if not any(kept) and not _has_pictures(document):
        kept = pages
    if not any(kept):
        raise _no_text(document, source)
    vocabulary = words(row.text for blocks in kept for block in blocks for row in block.rows)
    found = [paragraphs(reading_order(blocks), vocabulary) for blocks in kept]
    levels = outline_levels(found, toc) or font_levels(found)
    lines = [
        [Line(paragraph.text, levels.get(id(paragraph), 0)) for paragraph in page] for page in found
    ]
    metadata = {}
    if author := squeeze(clean(info.get("author") or "")):
        metadata["author"] = author
    bare = [n for n, page in enumerate(lines, start=1) if not page and n not in damaged]
    if bare:
        metadata["pages_without_text"] = ", ".join(map(str, bare))
    if hidden:
        metadata["hidden_text_pages"] = ", ".join(map(str, hidden))
    if damaged:
        metadata["damaged_pages"] = ", ".join(map(str, damaged))
    title = squeeze(clean(info.get("title") or ""))
    return build(
        data,
        source,
        lines,
        title="" if _NOT_A_TITLE.fullmatch(title) else title,
        metadata=metadata,
    )


def _has_pictures(document: Any) -> bool:
    try:
        return any(document.get_page_images(number) for number in range(document.page_count))
    except Exception:
        return False  # a damaged list of pictures is as good as none


def _no_text(document: Any, source: str) -> EmptyFileError | ImageOnlyFileError:
    if _has_pictures(document):
        return ImageOnlyFileError(
            "{source} holds only pictures of text (a scan): none of its {pages} pages has text.",
            hint=(
                "Run text recognition first, for example "
                "`ocrmypdf -l chi_sim+eng in.pdf out.pdf`, and add the new file."
            ),
            source=source,
            pages=document.page_count,
        )
    return EmptyFileError(
        "{source} holds no text: its pages ({pages}) are blank or drawings only.",
        hint="Check in a PDF reader that it is the file you meant.",
        source=source,
        pages=document.page_count,
    )


# One page


def _page_blocks(page: Any, keep: bool) -> tuple[list[Block], bool]:
    """The blocks of a page as displayed, in the file's order, and whether it hides text."""
    tables = _tables(page)
    content = page.get_text("rawdict" if tables else "dict", flags=_FLAGS)
    blocks = [block["lines"] for block in content["blocks"] if block["type"] == 0]
    hides = not keep and drop_hidden(page, blocks)
    if not _is_readable(blocks):
        return [], hides
    right, down = _direction(blocks)
    upright: list[Block] = []
    turned: list[Block] = []
    for lines in blocks:
        segments: list[Row] = []
        aside: list[Row] = []
        for line in lines:
            spans = [span for span in line["spans"] if not tables or _outside(span, tables)]
            row = _row(spans, right, down)
            if row is not None:
                same = line["dir"][0] * right + line["dir"][1] * down > 0.9
                (segments if same else aside).append(row)
        if segments:
            upright.append(Block(merge_segments(segments)))
        if aside:
            turned.append(Block(aside))
    upright.extend(block for table in tables if (block := table.block()) is not None)
    # Text at another angle (a stamp in the margin) comes last, far below the page.
    for block in turned:
        upright.append(Block([_moved(row) for row in block.rows]))
    return upright, hides


def _moved(row: Row) -> Row:
    return Row(row.text, row.x0, row.y0 + 1e5, row.x1, row.y1 + 1e5, row.size, row.bold)


def _text(span: dict[str, Any]) -> str:
    if "text" in span:
        return str(span["text"])
    return "".join(character["c"] for character in span["chars"])


def _is_readable(blocks: Iterable[list[dict[str, Any]]]) -> bool:
    """False for no text, and for fonts whose codes say nothing about their characters."""
    text = "".join(_text(span) for lines in blocks for line in lines for span in line["spans"])
    text = "".join(text.split())
    unknown = sum(1 for c in text if c == "\ufffd" or "\ue000" <= c <= "\uf8ff")
    return any(c.isalnum() for c in text) and unknown < 0.5 * len(text)


def _direction(blocks: Iterable[list[dict[str, Any]]]) -> tuple[float, float]:
    """The direction (cosine, sine) in which most characters of the page run."""
    votes: Counter[tuple[float, float]] = Counter()
    for lines in blocks:
        for line in lines:
            direction = (round(line["dir"][0], 1), round(line["dir"][1], 1))
            votes[direction] += sum(len(_text(span)) for span in line["spans"])
    return votes.most_common(1)[0][0]


def _row(spans: Sequence[dict[str, Any]], right: float, down: float) -> Row | None:
    """The spans of one line as a Row, turned so that the text runs to the right."""
    raw = "".join(_text(span) for span in spans)
    if raw.endswith("\u00ad"):
        raw = raw[:-1] + "-"  # `clean` drops soft hyphens, and `join` must see this one
    text = squeeze(clean(raw))
    if not text:
        return None
    inked = [span for span in spans if _text(span).strip()] or list(spans)
    corners = [
        (x * right + y * down, y * right - x * down)
        for x0, y0, x1, y1 in (span["bbox"] for span in inked)
        for x, y in ((x0, y0), (x1, y0), (x0, y1), (x1, y1))
    ]
    sizes: Counter[float] = Counter()
    for span in inked:
        sizes[round(span["size"], 1)] += len(_text(span).strip())
    return Row(
        text=text + (" " if raw[-1].isspace() else ""),
        x0=min(x for x, _ in corners),
        y0=min(y for _, y in corners),
        x1=max(x for x, _ in corners),
        y1=max(y for _, y in corners),
        size=max(sizes.most_common(1)[0][0], 1.0),
        bold=all(_is_bold(span) for span in inked),
    )


def _is_bold(span: dict[str, Any]) -> bool:
    name = str(span["font"]).lower()
    return bool(span["flags"] & _BOLD) or any(word in name for word in ("bold", "heavy", "black"))


# Ruled tables


class _Table:
    """The cells of a ruled table, and the characters that fall into them."""

    def __init__(self, box: Sequence[float], rows: Sequence[Sequence[Sequence[float] | None]]):
        self.box = tuple(box)
        self.rows = rows
        self.spans: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.last = (0, 0)  # neighbouring characters mostly share a cell

    def take(self, x: float, y: float) -> list[dict[str, Any]] | None:
        """The spans of the cell nearest to a point inside the table, None for a point outside."""
        x0, y0, x1, y1 = self.box
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            return None
        last = self.rows[self.last[0]][self.last[1]]
        if last is None or not (last[0] <= x <= last[2] and last[1] <= y <= last[3]):
            self.last = self._nearest(x, y)
        return self.spans.setdefault(self.last, [])

    def _nearest(self, x: float, y: float) -> tuple[int, int]:
        best, place = float("inf"), (0, 0)
        for i, cells in enumerate(self.rows):
            for j, cell in enumerate(cells):
                if cell is None:
                    continue
                if cell[0] <= x <= cell[2] and cell[1] <= y <= cell[3]:
                    return i, j
                away = max(cell[0] - x, 0, x - cell[2]) + max(cell[1] - y, 0, y - cell[3])
                if away < best:
                    best, place = away, (i, j)
        return place

    def block(self) -> Block | None:
        """The table as a block, a row for each of its rows; None if it holds no text."""
        rows = []
        for i, cells in enumerate(self.rows):
            texts = [_cell_text(self.spans.get((i, j), [])) for j in range(len(cells))]
            while texts and not texts[-1]:
                texts.pop()
            spans = [span for j in range(len(cells)) for span in self.spans.get((i, j), [])]
            row = _row(spans, 1.0, 0.0)
            if row is not None:
                row.text, row.tabular = CELL_BREAK.join(texts), True
                rows.append(row)
        return Block(rows, table=True) if rows else None


def _cell_text(spans: Sequence[dict[str, Any]]) -> str:
    text, bottom = "", None
    for span in spans:
        piece = clean(_text(span))
        if bottom is None or span["bbox"][1] < bottom - 0.3 * span["size"]:
            text += piece
        else:
            text = join(text, piece)
        bottom = span["bbox"][3]
    return squeeze(text)


def _outside(span: dict[str, Any], tables: Sequence[_Table]) -> bool:
    """Hand the characters of a span that lie in a table to their cells; True if any stay."""
    stay = []
    taken: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []
    for character in span["chars"]:
        x0, y0, x1, y1 = character["bbox"]
        place = None
        for table in tables:
            place = table.take((x0 + x1) / 2, (y0 + y1) / 2)
            if place is not None:
                break
        if place is None:
            stay.append(character)
        elif taken and taken[-1][0] is place:
            taken[-1][1].append(character)
        else:
            taken.append((place, [character]))
    for place, characters in taken:
        place.append({**span, "chars": characters, "bbox": _hull(characters)})
    if stay and taken:
        span["bbox"] = _hull(stay)
    span["chars"] = stay
    return bool(stay)


def _hull(characters: Sequence[dict[str, Any]]) -> tuple[float, float, float, float]:
    boxes = [character["bbox"] for character in characters]
    return (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def _tables(page: Any) -> list[_Table]:
    """Tables with rules around their cells.

    The finder takes 25 to 60 ms, the text of a page 2: it runs only where the
    page draws at least two rules each way. Its own text of the cells misplaces
    punctuation, so only the places of the cells are used.
    """
    if page.rotation:
        return []
    drawings = page.get_cdrawings()
    if not 2 <= len(drawings) <= _MOST_DRAWINGS or not _suggest_grid(drawings):
        return []
    tables = []
    for found in page.find_tables(use_layout=False).tables:
        if found.row_count > 1 and found.col_count > 1:
            tables.append(_Table(found.bbox, [row.cells for row in found.rows]))
    return tables


def _suggest_grid(drawings: Iterable[dict[str, Any]]) -> bool:
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
            # A rectangle that is no rule draws the four sides of a cell.
            box = wide > 10 and high > 8
            across += 2 if box else int(wide > 30 and high < 3)
            along += 2 if box else int(high > 8 and wide < 3)
    return across > 2 and along > 1
