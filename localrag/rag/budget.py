"""A time budget: what still fits, judged by how long such a step took; and what was spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from localrag.models.llms.base import CostMeter
from localrag.types import Plain

Clock = Callable[[], float]


class Budget:
    """Seconds for one question; 0 means as long as it takes."""

    def __init__(self, seconds: float, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._seconds = seconds or math.inf
        self._longest: dict[str, float] = {}

    @property
    def seconds_left(self) -> float:
        """Seconds until the budget is spent; below 0 when it was overrun."""
        return self._seconds - (self._clock() - self._began)

    def took(self, step: str, seconds: float) -> None:
        """Remember how long a step took; the longest one counts."""
        self._longest[step] = max(seconds, self._longest.get(step, 0.0))

    def allows(
        self,
        step: str,
        *,
        like: str = "",
        after: tuple[str, int] = ("", 0),
        reserve: float = 0.0,
    ) -> bool:
        """Whether a step as long as before still fits, with a share `reserve` left for others.

        A step that was never taken is thought to be as long as the one that it is `like`;
        `after` names a step that comes before it so many times.
        """
        first, times = after
        estimate = self._longest.get(step, self._longest.get(like, 0.0))
        estimate += times * self._longest.get(first, 0.0)
        if math.isinf(self._seconds):
            return True
        return self.seconds_left - estimate > reserve * self._seconds

    def is_down_to(self, share: float) -> bool:
        """Whether no more than this share of the budget is left."""
        return not math.isinf(self._seconds) and self.seconds_left <= share * self._seconds


def seconds_spent(meter: CostMeter) -> dict[str, Plain]:
    """Seconds of reading and writing so far, and of reading that was spared (`kept`), if known."""
    use, pace = meter.use, meter.pace
    spent: dict[str, Plain] = {"read": round(use.reading, 1), "written": round(use.writing, 1)}
    return spent if pace is None else {**spent, "kept": round(use.kept / pace.prefill, 1)}
