"""A sample of a page's lines, compared with what recognition reads where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pymupdf

from localrag.documents.formats.pdf.spans import text_of
from localrag.documents.ocr import Image, PageReader
from localrag.text.normalize import fold

_mupdf: Any = pymupdf  # its functions carry no types

LINES = 5
SAME = 0.6
"""Share of characters, in order, that a line has in common with what is read of it: honest text
has .9 and more, that of other fonts .3 and less."""
SURE = 0.85
"""Mean confidence with which a line is read that can speak against a text."""

_LEAST = 8
"""Characters of a line that is worth comparing."""
_MOST = 200
_CONTRAST = 32
"""Of 255: what differs less from its ground is not seen."""
_HEIGHT = 48
"""Pixels of a line with its margins."""
_LONGEST = 60
"""Heights of the longest line."""


def drawn(page: Any, scale: float, clip: Sequence[float] | None = None) -> Image:
    """A page, or a part of it, `scale` pixels to a point."""
    pixmap = page.get_pixmap(
        matrix=_mupdf.Matrix(scale, scale),
        colorspace=_mupdf.csRGB,
        alpha=False,
        clip=None if clip is None else _mupdf.Rect(clip),
    )
    pixels = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.stride)
    return pixels[:, : pixmap.width * 3].reshape(pixmap.height, pixmap.width, 3).copy()


def agrees(page: Any, lines: Sequence[dict[str, Any]], reader: PageReader) -> bool | None:
    """Whether the page shows what these lines of MuPDF say; None where that cannot be read."""
    strips = []
    texts = []
    for line in _spread(lines):
        strip = _strip(page, line)
        if strip is not None:
            strips.append(strip)
            texts.append(_plain("".join(map(text_of, line["spans"])))[:_MOST])
    if not strips:
        return None
    compared: list[tuple[int, float]] = []
    unsure: list[tuple[int, float]] = []
    for text, strip, (reading, confidence) in zip(
        texts, strips, _read(strips, reader), strict=True
    ):
        alike = SequenceMatcher(None, text, reading[:_MOST], autojunk=False).ratio()
        # Where nothing is, nothing is read; and what is the same was read right.
        sure = confidence >= SURE or alike >= SAME or np.ptp(strip) < _CONTRAST
        (compared if sure else unsure).append((len(text), alike))
    known = sum(size for size, _ in compared)
    if known <= sum(size for size, _ in unsure):
        return None
    return sum(size * alike for size, alike in compared) >= SAME * known


def _plain(text: str) -> str:
    return "".join(fold(text).split())


def _spread(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of the lines, from all over the page."""
    long = [line for line in lines if _length(line) >= _LEAST] or [
        line for line in lines if _length(line) > 1
    ]
    count = min(LINES, len(long))
    return [long[place * len(long) // count] for place in range(count)]


def _length(line: dict[str, Any]) -> int:
    return sum(len("".join(text_of(span).split())) for span in line["spans"])


def _strip(page: Any, line: dict[str, Any]) -> Image | None:
    """The picture of a line, its text running to the right; None for one that is not level."""
    direction = tuple(round(component, 1) + 0.0 for component in line["dir"])
    if direction not in _QUARTERS:
        return None
    quarters = _QUARTERS.index(direction) + page.rotation // 90
    box = _mupdf.Rect(line["bbox"]) * page.rotation_matrix
    height = box.width if quarters % 2 else box.height
    margin = 0.15 * height
    box = _mupdf.Rect(box.x0 - margin, box.y0 - margin, box.x1 + margin, box.y1 + margin)
    box &= page.rect
    height, width = (box.width, box.height) if quarters % 2 else (box.height, box.width)
    if box.is_empty or not height <= width <= _LONGEST * height:
        return None
    return np.rot90(drawn(page, _HEIGHT / height, box), quarters)


_QUARTERS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
"""Directions of text by the quarters that it is turned clockwise."""


def _read(strips: Sequence[Image], reader: PageReader) -> list[tuple[str, float]]:
    """What is read of each strip and how surely, all below each other in one picture."""
    margin = _HEIGHT // 2
    height = sum(strip.shape[0] + margin for strip in strips) + margin
    picture = np.full(
        (height, max(strip.shape[1] for strip in strips) + 2 * margin, 3), 255, np.uint8
    )
    top = margin
    bands = []
    for strip in strips:
        picture[top : top + strip.shape[0], margin : margin + strip.shape[1]] = strip
        bands.append((top, top + strip.shape[0]))
        top += strip.shape[0] + margin
    reading = reader.read(picture)
    readings = []
    for top, bottom in bands:
        within = [
            line for line in reading.lines if top <= (line.box[1] + line.box[3]) / 2 <= bottom
        ]
        text = "".join(_plain(line.text) for line in sorted(within, key=lambda line: line.box[0]))
        weights = [len(line.text) for line in within]
        sure = sum(line.confidence * w for line, w in zip(within, weights, strict=True))
        readings.append((text, sure / max(1, sum(weights))))
    return readings
