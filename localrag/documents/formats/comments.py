"""Comments that people left in an Office file: a line each, marked as what it is."""

from __future__ import annotations

from localrag.documents.lines import squeeze
from localrag.text.normalize import clean


def comment(text: str, author: str = "", time: str = "", where: str = "") -> str:
    """A comment on one line, with who wrote it, when, and on what; "" if it says nothing."""
    content = squeeze(clean(text))
    by = squeeze(clean(author))
    when = squeeze(clean(time))[:19]  # without fractions of a second, and the zone
    about = [f"comment on {where}" if where else "comment"]
    about += [f"author: {by}"] if by else []
    about += [f"time: {when}"] if when else []
    return f"[{', '.join(about)}] {content}" if content else ""
