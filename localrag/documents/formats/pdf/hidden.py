"""Text of a PDF page that no reader of the page sees, but a language model would.

Invisible text over a picture stays: that is how OCR programs make a scan searchable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.documents.formats.pdf.spans import Span, text_of

SMALLEST = 2.0
"""Points: print of less cannot be read; footnotes and labels have five and more."""

_THICKEST_LINE = 24.0
"""Points: a line of text stands on a stroke of so many."""

_NEARLY_WHITE = 0xF4
"""Of 255, in each channel."""


def drop_hidden(page: Any, blocks: Sequence[Sequence[dict[str, Any]]]) -> bool:
    """Take the hidden spans out of the lines of `blocks`; whether there was text in them."""
    has_hidden = False
    drawn = cache(lambda: _Drawn(page))
    for lines in blocks:
        for line in lines:
            spans = []
            for span in line["spans"]:
                if not _is_hidden(span, drawn):
                    spans.append(span)
                elif text_of(span).strip():
                    has_hidden = True
            line["spans"] = spans
    return has_hidden


def _is_hidden(span: Span, drawn: Callable[[], _Drawn]) -> bool:
    tiny = bool(span["size"] < SMALLEST)
    if span.get("alpha", 255) == 0:  # invisible
        return not drawn().mostly_pictures and (tiny or not drawn().below(span, _PICTURES))
    return tiny or (_is_white(span["color"]) and not drawn().below(span, _GROUNDS))


_PICTURES = ("fill-image", "fill-imgmask")
_GROUNDS = (*_PICTURES, "fill-path", "fill-shade", "stroke-path")


def _is_white(color: int) -> bool:
    return min(color >> 16 & 255, color >> 8 & 255, color & 255) >= _NEARLY_WHITE


def _is_bar(box: Sequence[float]) -> bool:
    """Whether a stroke may be a thick line, behind a caption for example, and is no frame."""
    x0, y0, x1, y1 = box
    return min(x1 - x0, y1 - y0) <= _THICKEST_LINE


class _Drawn:
    """What is drawn on a page: a map may hold a hundred thousand areas, and as many labels."""

    def __init__(self, page: Any) -> None:
        log = [
            entry for entry in page.get_bboxlog() if entry[0] != "stroke-path" or _is_bar(entry[1])
        ]
        self._boxes: dict[tuple[str, ...], NDArray[np.float64]] = {
            kinds: np.array([box for kind, box in log if kind in kinds], float).reshape(-1, 4)
            for kinds in (_PICTURES, _GROUNDS)
        }
        x0, y0, x1, y1 = self._boxes[_PICTURES].T
        area = (np.maximum(x1 - x0, 0.0) * np.maximum(y1 - y0, 0.0)).sum()
        self.mostly_pictures = bool(area >= 0.5 * abs(page.rect.width * page.rect.height))
        """Whether pictures take half of the page, as on a scan."""

    def below(self, span: Span, kinds: tuple[str, ...]) -> bool:
        """Whether something of these kinds is drawn where the middle of the span is."""
        left, top, right, bottom = span["bbox"]
        x, y = (left + right) / 2, (top + bottom) / 2
        x0, y0, x1, y1 = self._boxes[kinds].T
        return bool(((x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)).any())
