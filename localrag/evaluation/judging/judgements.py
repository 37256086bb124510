"""What a judge finds, as values; `presentation.reports` says it in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = bool | None
"""Yes or no; None where it could not be read."""
Unread = Literal["reply", "too long"]
"""Why there is no verdict: the reply says neither yes nor no; the text leaves no room for one."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict, with the `probability` of yes where there are logits.

    `reason` is the model's own sentence on why it found against a statement, where it was asked.
    """

    verdict: Verdict
    probability: float | None = None
    reason: str = ""
    unread: Unread | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement, a passage or a citation with what the judge found."""

    text: str
    judgement: Judgement
