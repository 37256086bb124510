"""What an evaluation came to: scores of each configuration, and what they differ in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from localrag.evaluation.judging.calibration import Trust
from localrag.evaluation.scoring import METRICS, Scored
from localrag.evaluation.statistics import mean_interval, paired_difference

FEWEST_QUESTIONS = 6
"""Of five differences or fewer, all in one run's favour, chance alone makes one in 16 or more."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over a run: `mean` and its 95% `interval` over the `scored` questions.

    Both None where none was scored. `unreadable` questions have no score because a verdict
    could not be read, `undefined` ones because the metric means nothing there.
    """

    name: str
    mean: float | None
    interval: tuple[float, float] | None
    unreadable: int
    undefined: int
    scored: int


@dataclass(frozen=True, slots=True)
class EvaluatedRun:
    """One configuration with all its questions, in the order of the data set."""

    name: str
    scored: tuple[Scored, ...]

    def summaries(self) -> tuple[Summary, ...]:
        """Every metric that is wanted, in the order of reports."""
        names = [name for name in METRICS if self.scored and name in self.scored[0].scores]
        return tuple(summarise(name, self.scored) for name in names)


@dataclass(frozen=True, slots=True)
class Difference:
    """`better` is ahead of `worse` in a metric by `mean`, over the questions that both score.

    Where the 95% `interval` of the paired difference includes 0 the two are not ranked, and
    never by fewer than `FEWEST_QUESTIONS`: a bootstrap of so few knows nothing of chance.
    """

    metric: str
    better: str
    worse: str
    mean: float
    interval: tuple[float, float]
    questions: int

    @property
    def ranked(self) -> bool:
        """Whether the difference is more than chance would make."""
        return self.interval[0] > 0 and self.questions >= FEWEST_QUESTIONS


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
        return tuple(name for name in names if (trust := self.trust.of(name)) and not trust.trusted)


def summarise(metric: str, scored: Iterable[Scored]) -> Summary:
    """Mean and interval of a metric over the questions that have a score."""
    scores = [answer.scores[metric] for answer in scored]
    values = np.array([score.value for score in scores if score.value is not None])
    return Summary(
        name=metric,
        mean=float(values.mean()) if len(values) else None,
        interval=mean_interval(values) if len(values) else None,
        scored=len(values),
        unreadable=sum(score.state == "unreadable" for score in scores),
        undefined=sum(score.state == "undefined" for score in scores),
    )


def differences(runs: Sequence[EvaluatedRun]) -> list[Difference]:
    """Every pair of runs in every metric that both have a score for, the better one first.

    Over the questions that both score: a bootstrap of the paired differences (Efron and
    Tibshirani, 1993, chapter 8) is not disturbed by hard questions being hard for all. The
    intervals of all pairs in a metric hold together with 95%.
    """
    gaps: list[Difference] = []
    comparisons = len(runs) * (len(runs) - 1) // 2
    for place, run in enumerate(runs):
        for other in runs[place + 1 :]:
            for metric in METRICS:
                pairs = [
                    (left, right)
                    for first, second in zip(run.scored, other.scored, strict=True)
                    if (left := first.value(metric)) is not None
                    and (right := second.value(metric)) is not None
                ]
                if not pairs:
                    continue
                mean, low, high = paired_difference(
                    *zip(*pairs, strict=True), comparisons=comparisons
                )
                better, worse = run.name, other.name
                if mean < 0:
                    better, worse, mean, low, high = worse, better, -mean, -high, -low
                gaps.append(Difference(metric, better, worse, mean, (low, high), len(pairs)))
    return gaps
