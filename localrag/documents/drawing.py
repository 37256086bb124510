"""A page as an image with places on it marked: drawn where files are read, as they may be hostile.

The marker is that of a felt pen: it colours what is light, and on a dark ground what is dark.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image

from localrag.documents.formats.table import ParseOptions, SourceFile, format_of
from localrag.documents.ocr import Image
from localrag.documents.positions import Box
from localrag.errors import UnsupportedFileError

LARGEST = 8 * 2**20
"""Bytes of an image: a scan in colour, 1400 pixels wide, has five."""
_WIDTHS = 16, 4000
_LIGHT, _DARK = (255, 226, 90), (120, 96, 0)
_IS_DARK = 110
_SAME = 1.0
"""How far the sizes of a page may be apart for places on it to be believed."""


def draw(
    path: Path, data: bytes, page: int, width: int, boxes: Sequence[Box], size: tuple[float, float]
) -> tuple[bytes, bool]:
    """A PNG of a page, from 1, at most `width` pixels wide, and whether all `boxes` are marked.

    `boxes` are as `positions.rectangles` gives them, on a page of `size`: nothing is marked on
    one of another size. Raises a ParsingError for what cannot be drawn.
    """
    known = format_of(path)
    if known is None or not known.is_drawn or page < 1:
        raise UnsupportedFileError(
            "{source} has no pages that can be drawn.",
            hint="Its text is what there is to show.",
            source=str(path),
        )
    width = max(_WIDTHS[0], min(width, _WIDTHS[1]))
    file = SourceFile(str(path), data, ParseOptions())
    pixels, drawn = known.draw(file, page, width)
    image = PIL.Image.fromarray(pixels)
    if image.width > width:
        height = max(1, round(image.height * width / image.width))
        image = image.resize((width, height), PIL.Image.Resampling.LANCZOS)
    pixels = np.array(image)  # what a reader gives may be its own
    fits = all(abs(a - b) <= _SAME for a, b in zip(size, drawn, strict=True))
    marked = bool(boxes) and fits and _mark(pixels, boxes, size)
    return _png(PIL.Image.fromarray(pixels)), marked


def _mark(pixels: Image, boxes: Sequence[Box], size: tuple[float, float]) -> bool:
    """Colour the boxes, each pixel once; whether each of them has some on the page."""
    height, width = pixels.shape[:2]
    light = np.zeros((height, width), dtype=bool)
    dark = np.zeros_like(light)
    each_seen = True
    for left, top, right, bottom in boxes:
        x0, x1 = (_within(x * width / size[0], width) for x in (left, right))
        y0, y1 = (_within(y * height / size[1], height) for y in (top, bottom))
        part = pixels[y0:y1, x0:x1]
        each_seen &= part.size > 0
        if part.size:
            (dark if part.mean() < _IS_DARK else light)[y0:y1, x0:x1] = True
    dark &= ~light
    pixels[light] = pixels[light].astype(np.uint16) * _LIGHT // 255
    pixels[dark] = 255 - (255 - pixels[dark].astype(np.uint16)) * (255 - np.array(_DARK)) // 255
    return each_seen


def _within(place: float, most: int) -> int:
    return round(max(0.0, min(place, most))) if math.isfinite(place) else 0


def _png(image: PIL.Image.Image) -> bytes:
    """The image as PNG, smaller where it would have more than `LARGEST` bytes."""
    while True:
        stream = io.BytesIO()
        image.save(stream, "PNG", compress_level=4)
        if stream.tell() <= LARGEST:
            return stream.getvalue()
        image = image.reduce(2)
