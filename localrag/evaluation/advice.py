"""From scores to the likely cause of a bad answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from localrag.evaluation.results import EvaluatedRun
from localrag.evaluation.scoring import Scored

LOW = 0.5
"""Retrieval metrics and relevancy below this are bad."""
UNFAITHFUL = 0.75
"""Faithfulness below this is bad: one of four statements made up is one too many."""

Cause = Literal[
    "invented", "retrieval missed", "retrieval noisy", "refused", "unfaithful", "irrelevant"
]

METRIC_OF: dict[Cause, str] = {
    "invented": "refusal",
    "retrieval missed": "context_recall",
    "retrieval noisy": "context_precision",
    "refused": "refusal",
    "unfaithful": "faithfulness",
    "irrelevant": "answer_relevancy",
}
"""The metric that shows whether what was tried against a cause has helped."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The metric of a bad case in another run over the same question: `after` where it is."""

    run: str
    metric: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class BadCase:
    """A question that went wrong; `trials` are what the other runs made of it."""

    scored: Scored
    cause: Cause
    badness: float
    trials: tuple[Trial, ...] = ()


def cause_of(scored: Scored) -> Cause | None:
    """The likely cause, nearest the beginning of the pipeline; None where nothing is bad."""
    if scored.sample.answerable is False:
        return None if scored.refused else "invented"
    recall, page = scored.value("context_recall"), scored.value("page_reciprocal_rank")
    missed = (recall is not None and recall < LOW) or (recall is None and page == 0.0)
    if missed:
        return "retrieval missed"
    if scored.refused:
        # Without a word on whether there is an answer, a refusal may be right.
        known = scored.sample.answerable or recall is not None or page is not None
        return "refused" if known else None
    precision = scored.value("context_precision")
    if precision is not None and precision < LOW:
        return "retrieval noisy"
    faithful = scored.value("faithfulness")
    if faithful is not None and faithful < UNFAITHFUL:
        return "unfaithful"
    relevant = scored.value("answer_relevancy")
    return "irrelevant" if relevant is not None and relevant < LOW else None


def bad_cases(run: EvaluatedRun, others: Sequence[EvaluatedRun] = ()) -> list[BadCase]:
    """All that went wrong, worst first; `others` are runs over the same questions."""
    cases: list[BadCase] = []
    for place, scored in enumerate(run.scored):
        cause = cause_of(scored)
        if cause is None:
            continue
        metric = METRIC_OF[cause]
        if cause == "retrieval missed" and scored.value(metric) is None:
            metric = "page_reciprocal_rank"
        before = scored.value(metric)
        trials = tuple(
            Trial(other.name, metric, before, after)
            for other in others
            if before is not None and (after := other.scored[place].value(metric)) is not None
        )
        cases.append(BadCase(scored, cause, _badness(scored, cause), trials))
    return sorted(cases, key=lambda case: -case.badness)


def _badness(scored: Scored, cause: Cause) -> float:
    """How far the scores that exist are from 1 on average; an invented answer is the worst."""
    if cause in ("invented", "refused"):
        return 1.0 if cause == "invented" else 0.9
    names = ("context_recall", "context_precision", "faithfulness", "answer_relevancy")
    known = [value for name in names if (value := scored.value(name)) is not None]
    return 1 - sum(known) / len(known) if known else 0.5
