"""Modes as variants: how they are asked, and what comparing two of them measured, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from localrag.evaluation.answer_metrics import f1
from localrag.evaluation.comparisons.base import Compared, Comparison, Outcome, Output, Variant
from localrag.evaluation.comparisons.pairs import CRITERIA, Criterion, Verdict
from localrag.types import Answer

SELF_RAG = "self-rag"

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
class VariantFacts:
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
    ways: tuple[VariantFacts, ...]
    decisions: DecisionFacts
    better: tuple[tuple[int, ...], ...]
    reasons: tuple[dict[Reason, int], ...]


def in_mode(name: str, write: Callable[[str, str], Answer]) -> Variant:
    """The variant that answers in that mode; `write` gets mode and question."""

    def answer(question: str, *_: object) -> Output:
        written = write(name, question)
        return Output(name, written, written.seconds)

    return Variant(name, answer)


def better_way(compared: Compared[Verdict]) -> int | None:
    """The way whose answer is better, 0 or 1; None where they are equal.

    Where the documents lack the answer, saying so counts before all verdicts. Else the way
    with more criteria.
    """
    if compared.asked.answerable is False:
        first, second = (_HONESTY[way.outcome] for way in compared.ways)
        if first != second:
            return 0 if first > second else 1
    wins = Counter(verdict.better for verdict in compared.found)
    return None if wins[0] == wins[1] else 0 if wins[0] > wins[1] else 1


def kind_of(compared: Compared[Verdict], self_rag: int) -> Kind:
    """What was asked: by the reference where there is one, else as Self-RAG decided."""
    metrics = compared.ways[self_rag].answer.metrics
    if compared.asked.answerable is not None:
        return "factual" if compared.asked.answerable else "no answer"
    return "factual" if metrics is None or metrics.retrieval_needed else "creative"


def gather(comparison: Comparison[Verdict]) -> Facts:
    """Add up a comparison of two modes, one of which is Self-RAG."""
    self_rag = comparison.variants.index(SELF_RAG)
    questions = comparison.questions
    better = [better_way(question) for question in questions]
    judged = list(zip(questions, better, strict=True))
    verdicts = [verdict for question in questions for verdict in question.found]
    return Facts(
        overall=_tally(better),
        criteria={
            criterion: _tally(
                verdict.better
                for verdict in verdicts
                if verdict.criterion == criterion and verdict.probability is not None
            )
            for criterion in CRITERIA
        },
        unread=sum(verdict.probability is None for verdict in verdicts),
        kinds={
            kind: _tally(way for question, way in judged if kind_of(question, self_rag) == kind)
            for kind in KINDS
        },
        ways=tuple(_way(questions, way) for way in (0, 1)),
        decisions=_decisions(questions, self_rag),
        better=tuple(
            tuple(number for number, way_chosen in enumerate(better, start=1) if way_chosen == way)
            for way in (0, 1)
        ),
        reasons=tuple(
            _reasons([question for question, best in judged if best == way], way) for way in (0, 1)
        ),
    )


def _tally(better: Iterable[int | None]) -> Tally:
    counts = Counter(better)
    return Tally((counts[0], counts[1]), counts[None])


def _way(questions: Sequence[Compared[Verdict]], way: int) -> VariantFacts:
    def outcomes(*answerable: bool | None) -> dict[Outcome, int]:
        counts = Counter(
            question.ways[way].outcome
            for question in questions
            if question.asked.answerable in answerable
        )
        return {outcome: counts[outcome] for outcome in _HONESTY}

    shares = [
        f1(question.ways[way].answer.text, question.asked.reference)
        for question in questions
        if question.asked.reference and question.asked.answerable
    ]
    return VariantFacts(
        seconds=fmean(question.ways[way].seconds for question in questions),
        outcomes=outcomes(True, False, None),
        answerable=outcomes(True),
        unanswerable=outcomes(False),
        f1=fmean(shares) if shares else None,
    )


def _reasons(questions: Iterable[Compared[Verdict]], way: int) -> dict[Reason, int]:
    """Why that way was better at these questions."""
    reasons: Counter[Reason] = Counter()
    for question in questions:
        mine, other = question.ways[way].outcome, question.ways[1 - way].outcome
        if question.asked.answerable is False and _HONESTY[mine] > _HONESTY[other]:
            reasons["honest"] += 1
        elif question.asked.answerable and mine == "from documents" != other:
            reasons["found"] += 1
        else:
            reasons.update(verdict.criterion for verdict in question.found if verdict.better == way)
    return {reason: reasons[reason] for reason in REASONS}


def _decisions(questions: Sequence[Compared[Verdict]], self_rag: int) -> DecisionFacts:
    answers = [question.ways[self_rag].answer for question in questions]
    seconds = sum(answer.seconds for answer in answers)
    checks = sum(
        step.seconds for answer in answers for step in answer.trace if step.kind in _CHECKS
    )
    ratings = [sentence.rating for answer in answers for sentence in answer.support]
    decided = [
        (question.asked.answerable, answer.metrics)
        for question, answer in zip(questions, answers, strict=True)
        if answer.metrics
    ]
    without = [known for known, metrics in decided if not metrics.retrieval_needed]
    searched = [(known, metrics) for known, metrics in decided if metrics.retrieval_needed]
    irrelevant = [known for known, metrics in searched if not metrics.relevant_documents]
    return DecisionFacts(
        not_needed=len(without),
        not_needed_wrongly=without.count(True),
        passages=sum(metrics.documents_retrieved for _, metrics in decided),
        relevant=sum(metrics.relevant_documents for _, metrics in decided),
        none_relevant=len(irrelevant),
        none_relevant_rightly=irrelevant.count(False),
        none_relevant_wrongly=irrelevant.count(True),
        candidates=sum(len(metrics.response_support_ratings) for _, metrics in decided),
        rejected=sum(
            bool(metrics.relevant_documents) and not metrics.used_retrieval
            for _, metrics in searched
        ),
        sentences=len(ratings),
        unsupported=ratings.count("no support"),
        check_share=checks / seconds if seconds else 0.0,
    )
