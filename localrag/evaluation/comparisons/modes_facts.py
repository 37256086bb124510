"""What a comparison of two ways measured, put together in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from localrag.evaluation.answer_metrics import f1
from localrag.evaluation.comparisons.modes import Compared, ModeComparison, Outcome
from localrag.evaluation.comparisons.modes_judge import CRITERIA, Criterion

Kind = Literal["factual", "no answer", "creative"]
KINDS: tuple[Kind, ...] = ("factual", "no answer", "creative")

Reason = Literal["honest", "found", "relevance", "accuracy", "completeness", "concision"]
REASONS: tuple[Reason, ...] = ("honest", "found", *CRITERIA)
"""Why an answer is better: it says what the documents lack, it has what they hold, or verdicts."""

_HONESTY: dict[Outcome, int] = {"refused": 2, "without documents": 1, "from documents": 0}
"""Where the documents lack the answer: saying so, marking what was written, or neither."""

_CHECKS = ("retrieval decision", "relevance", "support of a sentence", "utility")


@dataclass(frozen=True, slots=True)
class Tally:
    """How often each way was better, and how often neither."""

    wins: tuple[int, int]
    equal: int

    @property
    def count(self) -> int:
        """All together."""
        return sum(self.wins) + self.equal


@dataclass(frozen=True, slots=True)
class WayFacts:
    """One way. `answerable` and `unanswerable` count outcomes where it is known what is right.

    `seconds` is the mean; `f1` is the mean F1 against the reference answers of answerable
    questions, None without any.
    """

    seconds: float
    outcomes: dict[Outcome, int]
    answerable: dict[Outcome, int]
    unanswerable: dict[Outcome, int]
    f1: float | None


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """What Self-RAG decided, summed over the questions.

    `none_relevant` counts questions without a relevant passage, `rejected` those whose answers
    from documents all failed the checks; `check_share` is the share of the time spent on grades.
    """

    not_needed: int
    not_needed_wrongly: int
    passages: int
    relevant: int
    none_relevant: int
    none_relevant_rightly: int
    none_relevant_wrongly: int
    candidates: int
    rejected: int
    sentences: int
    unsupported: int
    check_share: float


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the analysis is written from; `better` holds question numbers, from 1, of each way.

    `unread` counts verdicts that could not be read or whose prompt was too long.
    """

    overall: Tally
    criteria: dict[Criterion, Tally]
    unread: int
    kinds: dict[Kind, Tally]
    ways: tuple[WayFacts, WayFacts]
    decisions: DecisionFacts
    better: tuple[tuple[int, ...], tuple[int, ...]]
    reasons: tuple[dict[Reason, int], dict[Reason, int]]


def better_way(compared: Compared) -> int | None:
    """The way whose answer is better, 0 or 1; None where they are equal.

    Where the documents lack the answer, saying so counts before all verdicts. Else the way
    with more criteria.
    """
    if compared.asked.answerable is False:
        first, second = (_HONESTY[compared.outcome(way)] for way in (0, 1))
        if first != second:
            return 0 if first > second else 1
    wins = Counter(verdict.better for verdict in compared.verdicts)
    return None if wins[0] == wins[1] else 0 if wins[0] > wins[1] else 1


def kind_of(compared: Compared, self_rag: int) -> Kind:
    """What was asked: by the reference where there is one, else as Self-RAG decided."""
    metrics = compared.answers[self_rag].metrics
    if compared.asked.answerable is not None:
        return "factual" if compared.asked.answerable else "no answer"
    return "factual" if metrics is None or metrics.retrieval_needed else "creative"


def gather(comparison: ModeComparison, self_rag: int) -> Facts:
    """Add up a comparison with at least one question; `self_rag` is the place of that way."""
    questions = comparison.questions
    better = [better_way(one) for one in questions]
    return Facts(
        overall=_tally(better),
        criteria={
            criterion: _tally(
                verdict.better
                for one in questions
                for verdict in one.verdicts
                if verdict.criterion == criterion and verdict.probability is not None
            )
            for criterion in CRITERIA
        },
        unread=sum(verdict.probability is None for one in questions for verdict in one.verdicts),
        kinds={
            kind: _tally(
                way
                for one, way in zip(questions, better, strict=True)
                if kind_of(one, self_rag) == kind
            )
            for kind in KINDS
        },
        ways=(_way(questions, 0), _way(questions, 1)),
        decisions=_decisions(questions, self_rag),
        better=(_numbers(better, 0), _numbers(better, 1)),
        reasons=(_reasons(questions, better, 0), _reasons(questions, better, 1)),
    )


def _tally(better: Iterable[int | None]) -> Tally:
    counts = Counter(better)
    return Tally((counts[0], counts[1]), counts[None])


def _numbers(better: Iterable[int | None], way: int) -> tuple[int, ...]:
    return tuple(number for number, one in enumerate(better, start=1) if one == way)


def _way(questions: Iterable[Compared], way: int) -> WayFacts:
    questions = list(questions)
    shares = [
        f1(one.answers[way].text, one.asked.reference)
        for one in questions
        if one.asked.reference and one.asked.answerable
    ]
    return WayFacts(
        seconds=fmean(one.answers[way].seconds for one in questions),
        outcomes=_outcomes(questions, way),
        answerable=_outcomes((one for one in questions if one.asked.answerable), way),
        unanswerable=_outcomes((one for one in questions if one.asked.answerable is False), way),
        f1=fmean(shares) if shares else None,
    )


def _outcomes(questions: Iterable[Compared], way: int) -> dict[Outcome, int]:
    counts = Counter(one.outcome(way) for one in questions)
    return {outcome: counts[outcome] for outcome in _HONESTY}


def _reasons(
    questions: Iterable[Compared], better: Iterable[int | None], way: int
) -> dict[Reason, int]:
    reasons: Counter[Reason] = Counter()
    for one, best in zip(questions, better, strict=True):
        if best != way:
            continue
        mine, other = one.outcome(way), one.outcome(1 - way)
        if one.asked.answerable is False and _HONESTY[mine] > _HONESTY[other]:
            reasons["honest"] += 1
        elif one.asked.answerable and mine == "from documents" != other:
            reasons["found"] += 1
        else:
            reasons.update(each.criterion for each in one.verdicts if each.better == way)
    return {reason: reasons[reason] for reason in REASONS}


def _decisions(questions: Iterable[Compared], self_rag: int) -> DecisionFacts:
    counts: Counter[str] = Counter()
    checks = seconds = 0.0
    for one in questions:
        answer, answerable = one.answers[self_rag], one.asked.answerable
        seconds += answer.seconds
        checks += sum(step.seconds for step in answer.trace if step.kind in _CHECKS)
        counts["sentences"] += len(answer.support)
        counts["unsupported"] += sum(each.rating == "no support" for each in answer.support)
        metrics = answer.metrics
        if metrics is None:
            continue
        counts["passages"] += metrics.documents_retrieved
        counts["relevant"] += metrics.relevant_documents
        counts["candidates"] += len(metrics.response_support_ratings)
        if not metrics.retrieval_needed:
            counts["not_needed"] += 1
            counts["not_needed_wrongly"] += answerable is True
        elif not metrics.relevant_documents:
            counts["none_relevant"] += 1
            counts["none_relevant_rightly"] += answerable is False
            counts["none_relevant_wrongly"] += answerable is True
        elif not metrics.used_retrieval:
            counts["rejected"] += 1
    return DecisionFacts(
        not_needed=counts["not_needed"],
        not_needed_wrongly=counts["not_needed_wrongly"],
        passages=counts["passages"],
        relevant=counts["relevant"],
        none_relevant=counts["none_relevant"],
        none_relevant_rightly=counts["none_relevant_rightly"],
        none_relevant_wrongly=counts["none_relevant_wrongly"],
        candidates=counts["candidates"],
        rejected=counts["rejected"],
        sentences=counts["sentences"],
        unsupported=counts["unsupported"],
        check_share=checks / seconds if seconds else 0.0,
    )
