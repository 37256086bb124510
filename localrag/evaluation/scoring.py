"""One question, its answer and its contexts -> every metric that is defined for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localrag.evaluation import answer_metrics
from localrag.evaluation.dataset import Sample
from localrag.evaluation.judging import metrics as judged_metrics
from localrag.evaluation.metric import Case, JudgeEvidence, Metric, Response, Score
from localrag.rag.citations import without_markers
from localrag.rag.refusals import refuses

if TYPE_CHECKING:
    from localrag.evaluation.judging.judge import Judge
    from localrag.models.embeddings.base import Embedder

METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (*judged_metrics.METRICS, *answer_metrics.METRICS)
}
"""Every metric by its name, in the order of reports."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One question with everything that is known about it."""

    sample: Sample
    response: Response
    scores: Mapping[str, Score]
    evidence: JudgeEvidence
    refused: bool

    def value(self, metric: str) -> float | None:
        """Of a metric, None where it was not wanted or has none here."""
        score = self.scores.get(metric)
        return score.value if score else None


class Scorer:
    """Scores samples with a judge, or without one where it is None.

    `embedder` compares questions for answer relevancy. `metrics` are the names of those wanted,
    None for all. What is `withheld` the judge does not see: its metrics are undefined there.
    """

    def __init__(
        self,
        judge: Judge | None,
        embedder: Embedder | None,
        metrics: Iterable[str] | None = None,
        withheld: Callable[[Sample, Response], bool] = lambda *_: False,
    ) -> None:
        names = METRICS if metrics is None else set(metrics)
        self._withheld = withheld
        self._judge = judge
        self._embedder = embedder
        self._metrics = [metric for name, metric in METRICS.items() if name in names]

    def score(self, sample: Sample, response: Response) -> Scored:
        """All wanted metrics of one response. Raises `GenerationError` from the judge."""
        # An answer without a word is none.
        refused = refuses(without_markers(response.answer)) or not response.answer.strip()
        judge = None if self._withheld(sample, response) else self._judge
        case = Case(sample, response, refused, judge, self._embedder)
        # Those that read the contexts follow each other: what the model has read of them is kept.
        together = sorted(self._metrics, key=lambda metric: "contexts" not in metric.needs)
        scores = {metric.name: metric.score(case) for metric in together}
        return Scored(
            sample=sample,
            response=response,
            scores={metric.name: scores[metric.name] for metric in self._metrics},
            evidence=case.evidence,
            refused=refused,
        )
