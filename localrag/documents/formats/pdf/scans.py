"""Pages of a PDF that are pictures of text, and pictures of text on other pages: recognition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
import pymupdf

from localrag.documents.formats.pdf.layout import Block, hull
from localrag.documents.formats.pdf.page import PageBlocks
from localrag.documents.formats.pdf.sample import drawn
from localrag.documents.formats.pdf.trust import Doubt
from localrag.documents.ocr import Image, PageReader, bounded, page_reader
from localrag.documents.pictures import DOUBTFUL, LEAST, blocks, notes, within
from localrag.types import How, PageNote

_SMALLEST = (48.0, 14.0)
"""Points, wide and high, that a picture has at least that is looked at: logos and icons have less
than `_SHARE` of the page, too."""
_SHARE = 0.02

_mupdf: Any = pymupdf


@dataclass(frozen=True, slots=True)
class PageRead:
    """The blocks of a page, and how it was read: as `types.Page` has it."""

    blocks: list[Block]
    how: How = "text"
    confidence: float | None = None
    notes: tuple[PageNote, ...] = ()

    looked: bool = False
    """Whether recognition was at work, which takes seconds, even if it found nothing."""


@dataclass(slots=True)
class Scans:
    """The recognition of one file, page after page."""

    ocr: bool
    _known: set[int] = field(default_factory=set)
    """Pictures that were read already: what stands on every page is read once."""

    @property
    def reader(self) -> PageReader | None:
        """What compares text with the page, if that is wanted."""
        return page_reader() if self.ocr else None

    def read(self, page: Any, text: PageBlocks) -> PageRead:
        """A page on which this text was found: as it is, or with what its pictures say.

        Places are those on the page as it is shown for a page that was read as a whole ("ocr"),
        else those on the page before it is turned.
        """
        if text.doubt is not None:
            return self._doubtful(page, text, text.doubt)
        text_blocks = text.blocks
        if text_blocks:
            return self._pictures(page, text_blocks) if self.ocr else PageRead(text_blocks)
        if not page.get_bboxlog():
            return PageRead([], notes=(PageNote("no text"),))
        if not self.ocr:
            pictures = page.get_image_info()
            kind = PageNote("not recognised") if pictures else PageNote("no text")
            return PageRead([], notes=(kind,))
        return recognise(page)

    def _doubtful(self, page: Any, text: PageBlocks, doubt: Doubt) -> PageRead:
        """A page whose text is not to be trusted: as recognition reads it, where it is sure."""
        values = {"reason": doubt.reason, "share": round(doubt.share, 2)}
        if self.ocr:
            seen = recognise(page)
            # What stands for no characters is no text to keep, however badly the page is read.
            if seen.blocks and (doubt.certain or (seen.confidence or 0.0) >= DOUBTFUL):
                return replace(seen, notes=(PageNote("garbled", values), *seen.notes))
        text_blocks = [] if doubt.certain else text.blocks
        return PageRead(text_blocks, notes=(PageNote("untrusted", values),), looked=self.ocr)

    def _pictures(self, page: Any, text_blocks: list[Block]) -> PageRead:
        boxes = self._worth_a_look(page)
        if not boxes:
            return PageRead(text_blocks)
        page.set_rotation(0)  # text has its places as on the page before it is turned
        size = median([row.size for block in text_blocks for row in block.rows])
        added: list[Block] = []
        count, total = 0, 0.0
        for box in boxes:
            scale = bounded(box[2] - box[0], box[3] - box[1])
            image = drawn(page, scale, box)
            _paint_over(image, text_blocks, scale, box)
            reading = page_reader().read(image)
            if sum(c.isalnum() for line in reading.lines for c in line.text) < LEAST:
                continue
            if reading.confidence < DOUBTFUL:  # the grain of a photograph
                continue
            added += within(blocks(reading, 1 / scale, box[0], box[1]), size)
            letters = sum(len(line.text) for line in reading.lines)
            count, total = count + letters, total + letters * reading.confidence
        if not added:
            return PageRead(text_blocks, looked=True)
        return PageRead([*text_blocks, *added], "mixed", round(total / count, 4), looked=True)

    def _worth_a_look(self, page: Any) -> list[tuple[float, float, float, float]]:
        """Where pictures are that are large enough to hold text, those put together that touch."""
        crop = page.cropbox if page.rotation else page.rect
        area = _SHARE * abs(page.rect.width * page.rect.height)
        boxes: list[tuple[float, float, float, float]] = []
        for picture in page.get_image_info(xrefs=True):
            xref = picture["xref"]
            if xref and xref in self._known:
                continue
            self._known.add(xref)
            box = _mupdf.Rect(picture["bbox"])
            if page.rotation:
                box = box * page.derotation_matrix
            box = (box & _mupdf.Rect(0, 0, crop.width, crop.height)).normalize()
            if box.is_empty:
                continue
            region = (box.x0, box.y0, box.x1, box.y1)
            for other in [other for other in boxes if _touch(region, other)]:
                boxes.remove(other)
                region = hull([region, other])
            boxes.append(region)
        return [
            (x0, y0, x1, y1)
            for x0, y0, x1, y1 in boxes
            if x1 - x0 >= _SMALLEST[0] and y1 - y0 >= _SMALLEST[1] and (x1 - x0) * (y1 - y0) >= area
        ]


def recognise(page: Any) -> PageRead:
    """A page as recognition reads it, whatever text it says it has."""
    rect = page.rect
    scale = bounded(rect.width, rect.height)
    reading = page_reader().read(drawn(page, scale))
    page_blocks = blocks(reading, 1 / scale)
    if not page_blocks:
        return PageRead([], notes=(PageNote("no text"),), looked=True)
    return PageRead(page_blocks, "ocr", round(reading.confidence, 4), notes(reading), looked=True)


def _paint_over(
    image: Image, text_blocks: Sequence[Block], scale: float, box: Sequence[float]
) -> None:
    """Take the text of the page out of a picture that it stands on: it has been read."""
    for row in (row for block in text_blocks for row in block.rows):
        x0, x1 = (int((x - box[0]) * scale) for x in (row.x0 - 1, row.x1 + 1))
        y0, y1 = (int((y - box[1]) * scale) for y in (row.y0 - 1, row.y1 + 1))
        part = image[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
        if part.size:
            edge = np.concatenate([part[0], part[-1]])
            part[:] = np.median(edge, axis=0).astype(np.uint8)


def _touch(box: Sequence[float], other: Sequence[float]) -> bool:
    return (
        box[0] <= other[2] + 2
        and other[0] <= box[2] + 2
        and box[1] <= other[3] + 2
        and other[1] <= box[3] + 2
    )
