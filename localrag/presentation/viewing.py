"""What there is to say of a page that is shown: what is marked on it, and why it has no image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.indexing.viewing import PageView

BEFORE, BEHIND = "▶", "◀"
"""Around words that are marked in a text."""


def not_found() -> str:
    """That words to be marked are not there."""
    return tr("These words do not stand on the page, so nothing is marked.")


def marking(view: PageView) -> Iterator[str]:
    """Why words that were to be marked are not, or not all."""
    if not view.spans:
        yield not_found()
    elif view.image is not None and not view.marked:
        yield tr(
            "Where these words stand on the page is not known for sure, so not all are marked."
        )


def no_image(view: PageView) -> str:
    """Why there is none."""
    if view.fault is not None:
        return spoken(view.fault)
    if view.is_drawn:
        return tr("There is no image: the original is needed for it.")
    return tr("There is no image: only pages of PDF files and pictures can be drawn.")
