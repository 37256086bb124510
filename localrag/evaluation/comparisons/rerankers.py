"""One question, several rerankers, side by side: passages, ranks, answers, times.

Retrieval happens once, so that all differences are the rerankers'. Knows nothing about
how rerankers are made or how pages look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.evaluation.comparisons.rerankers_verdict import Graded, ReferenceJudge, grade, worded
from localrag.rag.base import OnStep, unheard
from localrag.rerankers.base import Reranking
from localrag.text.language import Language, answer_language
from localrag.types import Answer, ScoredChunk, Step

Write = Callable[[str, Sequence[ScoredChunk]], Answer]
"""Question and passages, best first -> the answer written from them."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A passage of one way: `before` is its rank in the search, from 1; its score is the way's."""

    context: ScoredChunk
    before: int


@dataclass(frozen=True, slots=True)
class Way:
    """What one reranker made of the passages, and the answer that came of it.

    `same_answer_as` names an earlier way with the same passages in the same order: its
    answer is this one's, and no time was spent on it again.
    """

    name: str
    passages: tuple[Placed, ...]
    answer: Answer
    rerank_seconds: float
    answer_seconds: float
    rerank: Step | None
    same_answer_as: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All ways for one question; `candidates` are the passages as the search ranked them.

    With a reference answer `grades` has one for each way, and `verdict` says them in words.
    """

    question: str
    language: Language
    reference: str
    candidates: tuple[ScoredChunk, ...]
    search_seconds: float
    ways: tuple[Way, ...]
    grades: tuple[Graded, ...]
    verdict: str
    verdict_seconds: float


def compare(
    question: str,
    retrieve: Callable[[str, int], list[ScoredChunk]],
    rerankings: Sequence[tuple[str, Reranking | None]],
    write: Write,
    *,
    k: int,
    judge: ReferenceJudge,
    reference: str = "",
    progress: Callable[[str], None] = lambda _: None,
    on_step: OnStep = unheard,
) -> Comparison:
    """Answer `question` once a way from the k passages that the way puts first.

    A way is a name with its reranking, None for the order of the search. `judge` grades
    them where there is a `reference` answer. `progress` hears the name of each way
    as it begins, `on_step` what each reranker has done.
    """
    depth = max([k, *(way.candidates for _, way in rerankings if way)])
    started = time.perf_counter()
    candidates = tuple(retrieve(question, depth))
    search_seconds = time.perf_counter() - started
    ways: list[Way] = []
    for name, reranking in rerankings:
        progress(name)
        way = _way(name, reranking, question, candidates, write, k, ways)
        if way.rerank is not None:
            on_step(way.rerank)
        ways.append(way)
    started = time.perf_counter()
    language = answer_language(question)
    grades: list[Graded] = []
    if reference:
        shown = [
            (way.name, [placed.context for placed in way.passages], way.answer.text) for way in ways
        ]
        grades = grade(question, language, reference, shown, judge)
    return Comparison(
        question=question,
        language=language,
        reference=reference,
        candidates=candidates,
        search_seconds=search_seconds,
        ways=tuple(ways),
        grades=tuple(grades),
        verdict=worded(grades, language) if grades else "",
        verdict_seconds=time.perf_counter() - started if reference else 0.0,
    )


def _way(
    name: str,
    reranking: Reranking | None,
    question: str,
    candidates: Sequence[ScoredChunk],
    write: Write,
    k: int,
    earlier: Sequence[Way],
) -> Way:
    step: Step | None = None
    ranked = list(candidates[:k])
    if reranking:
        ranked, step = reranking.apply(question, candidates, k)
    before = {candidate.chunk.id: rank for rank, candidate in enumerate(candidates, start=1)}
    order = [context.chunk.id for context in ranked]
    twin = next(
        (way for way in earlier if [one.context.chunk.id for one in way.passages] == order), None
    )
    started = time.perf_counter()
    answer = twin.answer if twin else write(question, ranked)
    return Way(
        name=name,
        passages=tuple(Placed(context, before[context.chunk.id]) for context in ranked),
        answer=answer,
        rerank_seconds=step.seconds if step else 0.0,
        answer_seconds=0.0 if twin else time.perf_counter() - started,
        rerank=step,
        same_answer_as=(twin.same_answer_as or twin.name) if twin else None,
    )
