"""What an evaluation tells while it works, as values; `presentation.evaluation` says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True, slots=True)
class Withheld:
    """So many answers are not shown to a judge on another machine."""

    answers: int


@dataclass(frozen=True, slots=True)
class NotRead:
    """A document could not be read; the library is without it."""

    source: str


@dataclass(frozen=True, slots=True)
class CutOtherwise:
    """The library was cut with other settings than those that are evaluated."""


@dataclass(frozen=True, slots=True)
class IndexDamaged:
    """A derived index is being built anew."""

    path: Path


Event = Estimated | Progressed | Withheld | NotRead | CutOtherwise | IndexDamaged | Note
Tell = Callable[[Event], None]


def unheard(_: Event) -> None:
    """Tell nobody."""
