"""Answers of both ways for tests of their comparison."""

from __future__ import annotations

from answers import answer

from localrag.evaluation.comparisons.base import Compared, ComparedQuestion, Comparison, Output
from localrag.evaluation.comparisons.pairs import CRITERIA, Verdict
from localrag.types import Answer, Citation, SelfRAGMetrics, Step, SupportedSentence

MODES = ("standard", "self-rag")
REFUSAL = "The documents do not contain the answer to this question."


def standard(text: str, *, grounded: bool = True, seconds: float = 2.0) -> Answer:
    citations = (Citation(1, 7, "mill.pdf", 3, "The mill has two floors."),) if grounded else ()
    return answer(text, citations, grounded=grounded, seconds=seconds)


def self_rag(
    text: str,
    *,
    needed: bool = True,
    relevant: int = 2,
    ratings: tuple[str, ...] = ("fully supported",),
    used: bool = True,
    seconds: float = 6.0,
) -> Answer:
    metrics = SelfRAGMetrics(
        retrieval_needed=needed,
        documents_retrieved=5 if needed else 0,
        relevant_documents=relevant if needed else 0,
        response_support_ratings=ratings if needed and relevant else (),  # type: ignore[arg-type]
        utility_ratings=(4.0,) * len(ratings),
        best_score=19.0 if used else 0.0,
        used_retrieval=used,
    )
    support = (SupportedSentence(0, len(text), "fully supported", 0.9),) if used else ()
    trace = (
        Step("retrieval decision", {"needed": True}, 0.9, 1.0),
        Step("relevance", {"passage": 1, "relevant": True}, 0.9, 2.0),
        Step("write", {"passages": 1}, None, 3.0),
    )
    citations = (Citation(1, 7, "mill.pdf", 3, "The mill has two floors."),) if used else ()
    return answer(
        text, citations, support, grounded=used, trace=trace, seconds=seconds, metrics=metrics
    )


def verdicts(*probabilities: float | None) -> tuple[Verdict, ...]:
    return tuple(
        Verdict(criterion, probability, "judge" if probability is not None else "unreadable")
        for criterion, probability in zip(CRITERIA, probabilities, strict=True)
    )


def compared(
    first: Answer,
    second: Answer,
    *probabilities: float | None,
    reference: str = "",
    answerable: bool | None = None,
    question: str = "How many floors does the mill have?",
    language: str = "en",
) -> Compared[Verdict]:
    entry = ComparedQuestion(question, reference, answerable)
    judgements = verdicts(*(probabilities or (0.5,) * 4))
    ways = tuple(way(answer) for answer in (first, second))
    return Compared(entry, language, ways, judgements, 0.5)  # type: ignore[arg-type]


def way(answer: Answer) -> Output:
    return Output(MODES[answer.metrics is not None], answer, answer.seconds)


def comparison(*questions: Compared[Verdict], asked: int | None = None) -> Comparison[Verdict]:
    modes = tuple(way.name for way in questions[0].ways)
    return Comparison(modes, "small", asked or len(questions), questions)
