"""One question, several rerankers, side by side: passages, ranks, answers, times.

Retrieval happens once, so that all differences are the rerankers'. Knows nothing about
how rerankers are made or how pages look.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from localrag.errors import ContextOverflowError
from localrag.llms.base import LLM, Message, Options
from localrag.prompts import render
from localrag.rerankers.base import Reranking
from localrag.text.language import Language, answer_language
from localrag.types import Answer, ScoredChunk

VERDICT_TOKENS = 480
_SHORTEST_PASSAGE = 120
"""Characters; below this a passage says too little to be worth comparing."""

_MARKERS = re.compile(r" ?\[\d+\]")

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
    remark: str
    same_answer_as: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All ways for one question; `candidates` are the passages as the search ranked them."""

    question: str
    language: Language
    reference: str
    candidates: tuple[ScoredChunk, ...]
    search_seconds: float
    ways: tuple[Way, ...]
    verdict: str
    verdict_seconds: float


def compare(
    question: str,
    retrieve: Callable[[str, int], list[ScoredChunk]],
    rerankings: Sequence[tuple[str, Reranking | None]],
    write: Write,
    *,
    k: int,
    judge: LLM,
    reference: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Answer `question` once a way from the k passages that the way puts first.

    A way is a name with its reranking, None for the order of the search. `judge` writes a
    comparison where there is a `reference` answer. `progress` hears the name of each way
    as it begins.
    """
    depth = max([k, *(way.candidates for _, way in rerankings if way)])
    started = time.perf_counter()
    candidates = tuple(retrieve(question, depth))
    search_seconds = time.perf_counter() - started
    ways: list[Way] = []
    for name, reranking in rerankings:
        progress(name)
        ways.append(_way(name, reranking, question, candidates, write, k, ways))
    started = time.perf_counter()
    language = answer_language(question)
    verdict = _verdict(question, language, reference, ways, judge) if reference else ""
    return Comparison(
        question=question,
        language=language,
        reference=reference,
        candidates=candidates,
        search_seconds=search_seconds,
        ways=tuple(ways),
        verdict=verdict,
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
    remark, rerank_seconds = "", 0.0
    ranked = list(candidates[:k])
    if reranking:
        ranked, step = reranking.apply(question, candidates, k)
        remark, rerank_seconds = step.decision, step.seconds
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
        rerank_seconds=rerank_seconds,
        answer_seconds=0.0 if twin else time.perf_counter() - started,
        remark=remark,
        same_answer_as=(twin.same_answer_as or twin.name) if twin else None,
    )


def _verdict(
    question: str, language: Language, reference: str, ways: Sequence[Way], judge: LLM
) -> str:
    """The judge's comparison; passages are shortened until they fit its window."""
    options = Options(max_tokens=VERDICT_TOKENS)
    for messages in _prompts(question, language, reference, ways):
        needed = judge.count_prompt_tokens(messages) + VERDICT_TOKENS
        if needed <= judge.context_window:
            return judge.complete(messages, options).text.strip()
    raise ContextOverflowError(
        "The comparison does not fit into the context window of {model}, which holds {window} "
        "tokens.",
        hint="Use a shorter reference answer, fewer passages (-k), or a larger context window.",
        model=judge.name,
        window=judge.context_window,
    )


def _prompts(
    question: str, language: Language, reference: str, ways: Sequence[Way]
) -> Iterator[list[Message]]:
    """The judge's prompt with ever shorter passages."""
    shown: dict[int, ScoredChunk] = {}
    for way in ways:
        shown |= {placed.context.chunk.id: placed.context for placed in way.passages}
    number = {chunk_id: n for n, chunk_id in enumerate(shown, start=1)}
    answers = "\n\n".join(_answered(way, number, language) for way in ways)
    length = max((len(context.chunk.text) for context in shown.values()), default=0)
    while True:
        passages = "\n\n".join(
            f"[{number[chunk_id]}] {_beginning(context.chunk.text, length)}"
            for chunk_id, context in shown.items()
        )
        yield [
            Message(
                "user",
                render(
                    "compare",
                    language,
                    passages=passages,
                    question=question,
                    reference=reference,
                    answers=answers,
                ),
            )
        ]
        if length <= _SHORTEST_PASSAGE:
            return
        length = max(_SHORTEST_PASSAGE, length * 2 // 3)


def _answered(way: Way, number: dict[int, int], language: Language) -> str:
    passages = ", ".join(str(number[placed.context.chunk.id]) for placed in way.passages)
    # A way's own markers count its own passages: beside these numbers they would mislead.
    text = _MARKERS.sub("", way.answer.text).strip()
    if language == "zh":
        return f"方式“{way.name}”\n资料顺序：{passages}\n回答：{text}"
    return f'Way "{way.name}"\nOrder of passages: {passages}\nAnswer: {text}'


def _beginning(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
