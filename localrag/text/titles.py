"""How long the title of a document may be.

Files say what they are called in as many words as they like, and the title stands in the card and
above each passage in a prompt: one without a bound would take the window of a model.
"""

from __future__ import annotations

LONGEST_TITLE = 300
"""Code points: ten times an ordinary title, and little beside a passage."""

_CUT = "…"


def bounded_title(title: str) -> str:
    """The title, cut at a word where it is longer than `LONGEST_TITLE`."""
    if len(title) <= LONGEST_TITLE:
        return title
    space = title.rfind(" ", LONGEST_TITLE // 2, LONGEST_TITLE)
    return title[: LONGEST_TITLE - 1 if space < 0 else space].rstrip() + _CUT
