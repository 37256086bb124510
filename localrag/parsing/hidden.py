"""Text of a PDF page that no reader of the page sees, but a language model would.

Invisible text over a picture stays: that is how OCR programs make a scan searchable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SMALLEST = 2.0
"""Points: print of less cannot be read; footnotes and labels have five and more."""

_NEARLY_WHITE = 0xF4
"""Of 255, in each channel."""


def drop_hidden(page: Any, blocks: Sequence[Sequence[dict[str, Any]]]) -> bool:
    """Take the hidden spans out of the lines of `blocks`; whether there was text in them."""
    found, scan = False, None
    backgrounds: list[tuple[str, tuple[float, ...]]] | None = None
    for lines in blocks:
        for line in lines:
            kept = []
            for span in line["spans"]:
                white = _is_white(span["color"])
                invisible = span.get("alpha", 255) == 0
                if (white or invisible) and backgrounds is None:
                    backgrounds = [(kind, tuple(box)) for kind, box in page.get_bboxlog()]
                drawn = backgrounds or ()
                if scan is None and invisible:
                    scan = _is_mostly_pictures(page, drawn)
                if (
                    (span["size"] < SMALLEST and not (invisible and scan))
                    or (invisible and not scan and not _lies_on(span, drawn, _PICTURES))
                    or (white and not invisible and not _lies_on(span, drawn, _GROUNDS))
                ):
                    found = found or bool(_has_text(span))
                else:
                    kept.append(span)
            line["spans"] = kept
    return found


_PICTURES = ("fill-image", "fill-imgmask")
_GROUNDS = (*_PICTURES, "fill-path", "fill-shade")


def _is_white(color: int) -> bool:
    return min(color >> 16 & 255, color >> 8 & 255, color & 255) >= _NEARLY_WHITE


def _is_mostly_pictures(page: Any, drawn: Sequence[tuple[str, tuple[float, ...]]]) -> bool:
    """Whether pictures take half of the page, as on a scan."""
    boxes = [box for kind, box in drawn if kind in _PICTURES]
    area = sum(max(0.0, x1 - x0) * max(0.0, y1 - y0) for x0, y0, x1, y1 in boxes)
    return bool(area >= 0.5 * abs(page.rect.width * page.rect.height))


def _lies_on(
    span: dict[str, Any], drawn: Sequence[tuple[str, tuple[float, ...]]], kinds: Sequence[str]
) -> bool:
    """Whether something of these kinds is drawn where the middle of the span is."""
    x0, y0, x1, y1 = span["bbox"]
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    return any(
        kind in kinds and box[0] <= x <= box[2] and box[1] <= y <= box[3] for kind, box in drawn
    )


def _has_text(span: dict[str, Any]) -> bool:
    if "text" in span:
        return bool(str(span["text"]).strip())
    return any(str(character["c"]).strip() for character in span["chars"])
