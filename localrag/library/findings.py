"""One thing that a check found, in the reader's language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from localrag.messages import tr


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a part of a library and how to repair it.

    `code` is the same in every language. `damage` is False for what mends itself.
    """

    part: Literal["catalogue", "vectors", "keywords", "files"]
    code: str
    text: str
    repair: str
    damage: bool = True


def repair_by_rebuild() -> str:
    """For what can be derived from what is sound."""
    return tr("Run `localrag rebuild`.")


def repair_from_backup() -> str:
    """For what is lost."""
    return tr("Restore the folder from a backup, or delete it and add the documents again.")
