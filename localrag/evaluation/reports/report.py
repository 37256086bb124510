"""What an evaluation came to."""

from __future__ import annotations

from dataclasses import dataclass

from localrag.evaluation.judging.calibration import Trust
from localrag.evaluation.runs import EvaluatedRun
from localrag.evaluation.scoring import JUDGED


@dataclass(frozen=True, slots=True)
class Report:
    """All of an evaluation. `judge` "" where only metrics without a judge were wanted.

    `trust` None: the judge was not calibrated. `own_work`: runs whose answers the judge's own
    model wrote. `judge_seconds` is the model's time, paid now or in an earlier run.
    """

    dataset: str
    judge: str
    trust: Trust | None
    runs: tuple[EvaluatedRun, ...]
    own_work: tuple[str, ...] = ()
    judge_seconds: float = 0.0

    def untrusted(self) -> tuple[str, ...]:
        """Metrics of the runs on which the judge does not clearly beat chance."""
        if self.trust is None:
            return ()
        names = [summary.name for summary in self.runs[0].summaries()]
        return tuple(
            name
            for name in names
            if name in JUDGED and (found := self.trust.of(name)) and not found.trusted
        )
