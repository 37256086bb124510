"""Pictures of text: opened within bounds, read by recognition, and put into lines as a page is."""

from __future__ import annotations

import hashlib
import io
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from localrag.documents.formats.archive import ZipArchive
from localrag.documents.formats.pdf.layout import (
    Block,
    TextRow,
    first_word,
    hull,
    merge_segments,
    paragraphs,
    reading_order,
)
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, PageLines, grouped, is_cjk, squeeze, words
from localrag.documents.ocr import (
    MOST_PIXELS,
    Box,
    Image,
    OcrLine,
    PictureReading,
    Turn,
    page_reader,
)
from localrag.documents.positions import Piece, place
from localrag.errors import ModelError
from localrag.text.normalize import clean
from localrag.types import PageNote

if TYPE_CHECKING:
    from PIL import Image as Pillow

LARGEST = 150_000_000
"""Pixels of a picture that is opened at all: a plan of A0 at 300 dpi has 140 million."""
DOUBTFUL = 0.85
"""Mean confidence of a page below which it is named as doubtful."""
LEAST = 4
"""Letters and digits that a picture inside a document holds at least: less is a mistake."""
MOST, LONGEST = 500, 1200.0
"""Pictures inside one document that are looked at, and seconds of processor time for them."""
_SMALLEST = 20, 4000
"""Pixels of the shorter side, and in all, of a picture that can hold text."""

_EM = 0.92
"""Of the height of the box around a line: the size of its font."""
_BODY = 10.0
"""Points to which the usual size of print in a picture of unknown scale is set."""
_SAME_SIZE, _OF_FEW, _FEW = (1.4, 1.25), (1.7, 1.5), 4
"""How many times smaller and larger the box of a line may be, and that of a few characters, than
is usual for its font: lines without ascenders are low."""
_BELOW = 1e5
_FORMATS = ("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP")
"""What is opened, whatever a file is named: Pillow hands EPS to Ghostscript, WMF to Windows."""
_ORIENTATION, _ON_ITS_SIDE = 0x0112, 5
"""The tag of EXIF, and the first of its values for pictures that lie on their side."""


class PictureError(ValueError):
    """A picture that cannot be opened, or is too large to be: the message says why."""


@contextmanager
def opened(data: bytes) -> Iterator[Pillow.Image]:
    """A picture whose header was read and no pixel yet.

    Raises PictureError, also for what comes of the picture inside the block.
    """
    import PIL.Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `LARGEST` decides what is too large
            with PIL.Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
                yield picture
    except (OSError, SyntaxError, ValueError, EOFError, ArithmeticError, LookupError) as error:
        raise PictureError(squeeze(str(error)) or type(error).__name__) from error
    except PIL.Image.DecompressionBombError as error:
        raise PictureError(squeeze(str(error))) from error


def pixels(picture: Pillow.Image) -> tuple[Image, tuple[int, int]]:
    """The picture as a person sees it: turned as its camera says, on white, within `MOST_PIXELS`.

    And its width and height without that bound. Raises PictureError for more than `LARGEST`
    pixels, before any of them is read.
    """
    import PIL.Image
    from PIL import ImageOps

    width, height = picture.size
    if width * height > LARGEST:
        raise PictureError(f"{width} x {height} pixels, more than {LARGEST // 10**6} million")
    scale = min(1.0, math.sqrt(MOST_PIXELS / (width * height)))
    size = max(1, int(width * scale)), max(1, int(height * scale))
    if scale < 1:
        picture.draft("RGB", size)  # a JPEG is then decoded smaller
    image = ImageOps.exif_transpose(picture)
    if picture.getexif().get(_ORIENTATION, 1) >= _ON_ITS_SIDE:
        width, height = height, width
    if image.mode.startswith(("I", "F")):  # 16 bits and more a pixel
        values = np.asarray(image, dtype=np.float32)
        spread = float(np.ptp(values)) or 1.0
        image = PIL.Image.fromarray(((values - values.min()) * (255 / spread)).astype(np.uint8))
    if image.width * image.height > MOST_PIXELS:
        # Palettes and single bits cannot be averaged.
        image = image.convert({"1": "L", "P": "RGBA"}.get(image.mode, image.mode))
        longest = max(size)
        image.thumbnail((longest, longest), PIL.Image.Resampling.BOX)
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = PIL.Image.new("RGBA", image.size, "white")
        image = PIL.Image.alpha_composite(ground, image)
    return np.asarray(image.convert("RGB"), dtype=np.uint8), (width, height)


class Pictures:
    """The pictures in a file that is an archive, at most `MOST` of them and for `LONGEST`."""

    def __init__(self, file: SourceFile, archive: ZipArchive) -> None:
        self._file, self._archive = file, archive
        self._count, self._seconds = 0, 0.0

    def on(self, page: PageLines, names: Iterable[str]) -> PageLines:
        """The page with the text of its pictures, members of those names, at its end.

        What holds no text, is damaged or too large adds nothing. What was not looked at, or could
        not be read, is counted in a note.
        """
        if not self._file.options.ocr:
            return page
        added: list[Line] = []
        count, total, missed = 0, 0.0, 0
        for name in names:
            try:
                lines, confidence = self._lines(name)
            except ModelError:
                raise
            except Exception:  # whatever a picture leads to: what is written there stays
                missed += 1
                continue
            letters = sum(len(line.text) for line in lines)
            count, total = count + letters, total + letters * confidence
            added += lines
        if missed:
            note = PageNote("left out", {"what": "pictures", "count": missed})
            page = replace(page, notes=(*page.notes, note))
        if not added:
            return page
        lines = [*page.lines, *added]
        return replace(page, lines=lines, how="mixed", confidence=round(total / count, 4))

    def _lines(self, name: str) -> tuple[list[Line], float]:
        """The lines of a picture, without their places, and how sure they are.

        Raises PictureError where too many were looked at before.
        """
        data = self._archive.read(name) or b""
        digest = hashlib.sha256(data).digest()
        if digest in _read:
            return _read[digest]
        if self._count >= MOST or self._seconds > LONGEST:
            raise PictureError("too many")
        began = time.process_time()
        try:
            reading = _recognised_lines(data)
        finally:
            self._count += 1
            self._seconds += time.process_time() - began
            self._file.page_done(self._count, recognised=True)
        if len(_read) >= _MOST_KEPT:
            _read.clear()
        _read[digest] = reading
        return reading


def stored(archive: ZipArchive, folder: str) -> list[str]:
    """The names of the pictures in a folder of an archive."""
    names = sorted(set(archive.names()))
    return [name for name in names if name.startswith(folder) and name.lower().endswith(_SUFFIXES)]


_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
_MOST_KEPT = 100
_read: dict[bytes, tuple[list[Line], float]] = {}
"""What pictures say, by their hash: a logo stands on every slide."""


def _recognised_lines(data: bytes) -> tuple[list[Line], float]:
    """The lines of a picture, without their places, and how sure they are."""
    try:
        with opened(data) as picture:
            width, height = picture.size
            if min(width, height) < _SMALLEST[0] or width * height < _SMALLEST[1]:
                return [], 0.0
            image, _ = pixels(picture)
    except PictureError:
        return [], 0.0
    reading = page_reader().read(image)
    letters = sum(c.isalnum() for line in reading.lines for c in line.text)
    if letters < LEAST or reading.confidence < DOUBTFUL:
        return [], 0.0
    return [Line(line.text) for line in page_lines(reading)], reading.confidence


def notes(reading: PictureReading) -> tuple[PageNote, ...]:
    """What there is to say of a page that was read by recognition."""
    if not reading.lines:
        return ()
    page_notes = []
    if reading.turn:
        page_notes.append(PageNote("turned", {"degrees": reading.turn}))
    if reading.confidence < DOUBTFUL:
        page_notes.append(PageNote("doubtful", {"confidence": round(reading.confidence, 3)}))
    return tuple(page_notes)


def page_lines(reading: PictureReading, unit: float = 1.0) -> list[Line]:
    """The lines of a picture in reading order, put together into paragraphs.

    Their marks have `unit` to a pixel.
    """
    sizes = [_height(line) * _EM for line in reading.lines]
    if not sizes:
        return []
    placed = blocks(reading, _BODY / max(1.0, median(sizes)), unit=unit)
    known = words(row.text for block in placed for row in block.rows)
    segments = paragraphs(reading_order(placed), known)
    return [Line(segment.text, marks=place(segment.text, segment.pieces)) for segment in segments]


def blocks(
    reading: PictureReading, scale: float, left: float = 0.0, top: float = 0.0, unit: float = 0.0
) -> list[Block]:
    """What was read of a picture as the blocks of a page, `scale` points to a pixel of it.

    Its upper left corner, turned upright, is at `left` and `top`. Pieces that stand side by side
    are one row, but for those of columns of running text. Where words stand (`TextRow.pieces`) is
    said for the picture as it was given, `unit` to a pixel, `scale` if that is 0.
    """
    upright, aside = _rows(reading.lines, reading.turn, scale, unit or scale, left, top)
    visual = [sorted(line, key=lambda row: row.x0) for line in _visual_lines(upright)]
    segments = [merged for line in visual for merged in _near(line)]
    columns = [stack for stack in _stacks(segments) if _is_running_text(stack)]
    in_column = {id(row) for stack in columns for row in stack}
    rows: list[TextRow] = []
    for line in _visual_lines([segment for segment in segments if id(segment) not in in_column]):
        rows += merge_segments(sorted(line, key=lambda row: row.x0))
    page_blocks = [
        Block(part) for stack in columns + _stacks(rows) for part in _parts(stack, upright)
    ]
    page_blocks.sort(key=lambda block: block.y0)
    return [*page_blocks, *([Block(aside)] if aside else [])]


def _height(line: OcrLine) -> float:
    (x0, y0), _, _, (x3, y3) = line.corners
    return math.hypot(x3 - x0, y3 - y0)


def _slope(line: OcrLine) -> float:
    (x0, y0), (x1, y1), _, _ = line.corners
    return math.atan2(y1 - y0, x1 - x0)


def _rows(
    lines: Sequence[OcrLine], turn: Turn, scale: float, unit: float, left: float, top: float
) -> tuple[list[TextRow], list[TextRow]]:
    """A row for each line, the page straightened; and those that run at another angle."""
    level = [line for line in lines if abs(_slope(line)) < math.pi / 4]
    weights = [(_slope(line), len(line.text)) for line in level]
    skew = median([slope for slope, count in weights for _ in range(min(count, 100))] or [0.0])
    cos, sin = math.cos(-skew), math.sin(-skew)
    straight = {id(line) for line in level}
    upright: list[TextRow] = []
    aside: list[TextRow] = []
    for line in lines:
        text = squeeze(clean(line.text))
        if not text:
            continue
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = line.corners
        x, y = (x0 + x1 + x2 + x3) / 4, (y0 + y1 + y2 + y3) / 4
        x, y = x * cos - y * sin, x * sin + y * cos
        width, height = math.hypot(x1 - x0, y1 - y0), _height(line)
        is_upright = id(line) in straight
        below = 0.0 if is_upright else _BELOW
        row = TextRow(
            text,
            left + (x - width / 2) * scale,
            top + (y - height / 2) * scale + below,
            left + (x + width / 2) * scale,
            top + (y + height / 2) * scale + below,
            max(1.0, height * _EM * scale),
            bold=False,
            pieces=_pieces(line, turn, unit, left, top),
        )
        (upright if is_upright else aside).append(row)
    _even_sizes(upright)
    return upright, aside


def _pieces(line: OcrLine, turn: Turn, unit: float, left: float, top: float) -> list[Piece]:
    """Words, and Chinese characters that stand together, in the picture as it was given."""
    quarters = (round(_slope(line) / (math.pi / 2)) - turn // 90) % 4
    pieces: list[Piece] = []
    last = -1
    for start, end, box in line.words:
        text = clean(line.text[start:end]).strip()
        stands = _scaled(box, unit, left, top)
        chinese = all(map(is_cjk, text))
        if pieces and chinese and start == last and all(map(is_cjk, pieces[-1].text)):
            before = pieces.pop()
            text, stands = before.text + text, hull([before[1:5], stands])
        pieces.append(Piece(text, *stands, quarters))
        last = end
    return [piece for piece in pieces if piece.text]


def _scaled(box: Box, unit: float, left: float, top: float) -> Box:
    x0, y0, x1, y1 = box
    return left + x0 * unit, top + y0 * unit, left + x1 * unit, top + y1 * unit


def _even_sizes(rows: Sequence[TextRow]) -> None:
    """The box around a line tells the size of its font to a quarter: what is near is the same."""
    left = list(rows)
    while left:
        usual = median([row.size for row in left for _ in range(min(len(row.text), 100))])
        other = []
        for row in left:
            # A few characters may all be low, or of a kind that hangs.
            less, more = _SAME_SIZE if len(row.text) > _FEW else _OF_FEW
            if usual / less <= row.size <= usual * more:
                row.size = round(usual, 1)
            else:
                other.append(row)
        left = other


def _visual_lines(rows: Sequence[TextRow]) -> list[list[TextRow]]:
    """Rows that stand side by side, from top to bottom."""
    lines: list[list[TextRow]] = []
    for row in sorted(rows, key=lambda row: row.y0 + row.y1):
        for line in lines[-4:]:
            y0, y1 = (median(bounds) for bounds in ([r.y0 for r in line], [r.y1 for r in line]))
            shared = min(y1, row.y1) - max(y0, row.y0)
            if shared > 0.5 * min(y1 - y0, row.y1 - row.y0) and not any(
                min(r.x1, row.x1) - max(r.x0, row.x0) > 0.5 * row.size for r in line
            ):
                line.append(row)
                break
        else:
            lines.append([row])
    return lines


def _near(line: Sequence[TextRow]) -> list[TextRow]:
    """The rows of a visual line, those put together that hardly a space parts."""
    groups = grouped(line, lambda group, row: row.x0 - group[-1].x1 < 0.8 * row.size)
    return [segment for group in groups for segment in merge_segments(group)]


def _stacks(rows: Sequence[TextRow]) -> list[list[TextRow]]:
    """Rows that stand closely below each other, and have no other beside them there."""
    ordered = sorted(rows, key=lambda row: row.y0)
    below: dict[int, list[int]] = {}
    above: dict[int, list[int]] = {}
    for i, row in enumerate(ordered):
        for j in range(i + 1, len(ordered)):
            other = ordered[j]
            if other.y0 - row.y1 > 1.2 * row.size:
                break
            shared = min(row.x1, other.x1) - max(row.x0, other.x0)
            if (
                shared > 0.3 * min(row.x1 - row.x0, other.x1 - other.x0)
                and other.y0 + other.y1 - row.y0 - row.y1 > row.size
            ):
                below.setdefault(i, []).append(j)
                above.setdefault(j, []).append(i)
    next_of = {}
    for i, indices in below.items():
        # Of rows that stand below each other the nearest counts.
        nearest = min(indices, key=lambda j: ordered[j].y0)
        beside = [j for j in indices if ordered[j].y0 < ordered[nearest].y1 - 0.5 * ordered[j].size]
        last = max(above[nearest], key=lambda k: ordered[k].y1)
        besides = [
            k for k in above[nearest] if ordered[k].y1 > ordered[last].y0 + 0.5 * ordered[k].size
        ]
        fits = abs(ordered[i].size - ordered[nearest].size) <= 0.1 * ordered[i].size
        if beside == [nearest] and besides == [i] and fits:
            next_of[i] = nearest
    stacks = []
    heads = set(range(len(ordered))) - set(next_of.values())
    for head in sorted(heads):
        stack = [ordered[head]]
        place = head
        while (place := next_of.get(place, -1)) >= 0:
            stack.append(ordered[place])
        stacks.append(stack)
    return stacks


def _parts(stack: Sequence[TextRow], page: Sequence[TextRow]) -> list[list[TextRow]]:
    """A stack, parted after rows on which the next word would have had room.

    How far rows may go shows in what stands above and below in the same column.
    """
    left, _, right, _ = hull((row.x0, row.y0, row.x1, row.y1) for row in stack)
    next_column = min((row.x0 for row in page if row.x0 >= right), default=math.inf)
    same = (row.x1 for row in page if abs(row.x0 - left) < 3 * row.size and row.x1 < next_column)
    edge = max(right, *same, right)
    return grouped(stack, lambda part, row: edge - part[-1].x1 <= first_word(row) + 0.8 * row.size)


def _is_running_text(stack: Sequence[TextRow]) -> bool:
    """Whether rows fill a column, as those of paragraphs do and cells of a table do not."""
    if len(stack) < 3 or any(row.tabular for row in stack):
        return False
    left, _, right, _ = hull((row.x0, row.y0, row.x1, row.y1) for row in stack)
    widths = [row.x1 - row.x0 for row in stack]
    full = sum(1 for width in widths if width > 0.7 * (right - left))
    return median(widths) > 8 * stack[0].size and full > 0.5 * len(stack)


def within(picture_blocks: Sequence[Block], size: float) -> list[Block]:
    """The blocks of a picture on a page of text, in print no larger than the page's.

    So no label becomes a heading.
    """
    return [
        Block([replace(row, size=min(row.size, size)) for row in block.rows], block.table)
        for block in picture_blocks
    ]
