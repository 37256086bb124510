"""The spans of MuPDF, pieces of a line in one font, and the row that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from localrag.documents.formats.pdf.layout import Row
from localrag.documents.lines import squeeze
from localrag.text.normalize import clean

Span = dict[str, Any]
"""As MuPDF gives it: with its `text`, or, where places within it are asked for, with `chars`."""

_BOLD = 1 << 4


def text_of(span: Span) -> str:
    """The characters of a span."""
    if "text" in span:
        return str(span["text"])
    return "".join(character["c"] for character in span["chars"])


def row_of(spans: Sequence[Span], right: float = 1.0, down: float = 0.0) -> Row | None:
    """The spans of one line as a Row, turned so that the text runs to the right."""
    raw = "".join(map(text_of, spans))
    if raw.endswith("\u00ad"):
        raw = raw[:-1] + "-"  # `clean` drops soft hyphens, and `join` must see this one
    text = squeeze(clean(raw))
    if not text:
        return None
    inked = [span for span in spans if text_of(span).strip()] or spans
    corners = [
        (x * right + y * down, y * right - x * down)
        for x0, y0, x1, y1 in (span["bbox"] for span in inked)
        for x, y in ((x0, y0), (x1, y0), (x0, y1), (x1, y1))
    ]
    across, along = zip(*corners, strict=True)
    sizes: Counter[float] = Counter()
    for span in inked:
        sizes[round(span["size"], 1)] += len(text_of(span).strip())
    return Row(
        text=text + (" " if raw[-1].isspace() else ""),
        x0=min(across),
        y0=min(along),
        x1=max(across),
        y1=max(along),
        size=max(sizes.most_common(1)[0][0], 1.0),
        bold=all(map(_is_bold, inked)),
    )


def _is_bold(span: Span) -> bool:
    name = str(span["font"]).lower()
    return bool(span["flags"] & _BOLD) or any(word in name for word in ("bold", "heavy", "black"))
