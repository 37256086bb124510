"""What an evaluation tells while it works, as values; `presentation.reports` says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from localrag.types import Note

Work = Literal["answers", "scores", "calibration", "drafts"]


@dataclass(frozen=True, slots=True)
class Estimated:
    """How long all of it will take where nothing of it has been paid for before."""

    questions: int
    configurations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Progressed:
    """So many steps are done; `left` in seconds, None while not known.

    `name` is the configuration whose answers are produced or scored, else "".
    """

    work: Work
    name: str
    done: int
    total: int
    left: float | None


Event = Estimated | Progressed | Note
Tell = Callable[[Event], None]


def unheard(_: Event) -> None:
    """Tell nobody."""
