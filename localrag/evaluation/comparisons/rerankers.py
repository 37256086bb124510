"""Rerankers as variants of one question, graded by a reference answer where there is one.

A small model that is asked to write such a comparison mixes the variants up. It can say yes or no
to one passage or one answer at a time, and that is read from its probabilities where it has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.errors import ContextOverflowError
from localrag.evaluation.answer_metrics import f1
from localrag.evaluation.comparisons.base import ComparedQuestion, Output, Ranked, Variant
from localrag.languages import LanguageCode
from localrag.models.llms.base import LLM
from localrag.models.llms.choices import Chooser
from localrag.models.llms.structured import fits
from localrag.prompts import YES_NO, render
from localrag.rag.base import OnStep, unheard
from localrag.rag.citations import without_markers
from localrag.rag.grading import Grader, Reading
from localrag.rag.refusals import refuses
from localrag.rerankers.base import Reranking
from localrag.types import Answer, Message, ScoredChunk

REPLY_TOKENS = 24

Write = Callable[[str, Sequence[ScoredChunk]], Answer]
"""Question and passages, best first -> the answer written from them."""


@dataclass(frozen=True, slots=True)
class Graded:
    """One variant. `rank` is that of its first passage that holds the answer, from 1.

    `agrees` and `complete` are the probabilities that its answer agrees with the reference and
    has all of it; `overlap` is their F1. None: no such passage, no reply that could be read.
    """

    name: str
    rank: int | None
    agrees: float | None
    complete: float | None
    overlap: float

    @property
    def worth(self) -> float:
        """What variants are ranked by."""
        known = [share for share in (self.agrees, self.complete) if share is not None]
        return sum((*known, self.overlap)) / (len(known) + 1)


def reranked(
    name: str, reranking: Reranking | None, write: Write, k: int, on_step: OnStep = unheard
) -> Variant:
    """The variant that answers from the k passages that a reranker puts first.

    None keeps the order of the search. `on_step` hears what the reranker has done.
    """

    def answer(
        question: str, candidates: Sequence[ScoredChunk], earlier: Sequence[Output]
    ) -> Output:
        ranked, step = list(candidates[:k]), None
        if reranking:
            ranked, step = reranking.apply(question, candidates, k)
            on_step(step)
        before = {candidate.chunk.id: rank for rank, candidate in enumerate(candidates, start=1)}
        passages = tuple(Ranked(context, before[context.chunk.id]) for context in ranked)
        order = [placed.before for placed in passages]
        for way in earlier:
            if [placed.before for placed in way.passages] == order:
                twin = way.same_answer_as or way.name
                return Output(name, way.answer, 0.0, passages, step, twin)
        started = time.perf_counter()
        written = write(question, ranked)
        return Output(name, written, time.perf_counter() - started, passages, step)

    return Variant(name, answer)


class ReferenceJudge:
    """Grades each variant by the reference answer; nothing is graded twice."""

    def __init__(self, llm: LLM, chooser: Chooser) -> None:
        self._llm = llm
        self._chooser = chooser
        self._grader = Grader(chooser)

    def __call__(
        self, asked: ComparedQuestion, language: LanguageCode, ways: Sequence[Output]
    ) -> tuple[Graded, ...]:
        """A grade for each variant, none without a reference. Raises `ContextOverflowError`."""
        if not asked.reference:
            return ()
        holding: dict[int, bool] = {}
        agreed: dict[str, tuple[float | None, float | None]] = {}
        grades: list[Graded] = []
        for way in ways:
            # Each variant's markers count its own passages.
            answer = without_markers(way.answer.text).strip()
            rank = None
            for number, placed in enumerate(way.passages, start=1):
                if placed.before not in holding:
                    holding[placed.before] = self._holds(asked.question, placed.context, language)
                if holding[placed.before]:
                    rank = number
                    break
            if answer not in agreed:
                agreed[answer] = self.agreement(asked, answer, language)
            grades.append(Graded(way.name, rank, *agreed[answer], f1(answer, asked.reference)))
        return tuple(grades)

    def _holds(self, question: str, passage: ScoredChunk, language: LanguageCode) -> bool:
        """Whether the answer can be had from that passage alone."""
        grade = self._grader.relevance(question, Reading(language, (passage,)))
        return not grade.unread and grade.value >= 0.5

    def agreement(
        self, asked: ComparedQuestion, answer: str, language: LanguageCode
    ) -> tuple[float | None, float | None]:
        """Probabilities that an answer agrees with the reference, and that it has all of it.

        Raises `ContextOverflowError`.
        """
        refused = refuses(answer), refuses(asked.reference)
        if any(refused):
            return (1.0, 1.0) if all(refused) else (0.0, 0.0)
        fields = {"question": asked.question, "reference": asked.reference, "answer": answer}
        system = Message("system", render("compare_answer", language, **fields))
        agrees, complete = (
            self._yes([system, Message("user", render(task, language))], language)
            for task in ("compare_agrees", "compare_complete")
        )
        return agrees, complete

    def _yes(self, messages: Sequence[Message], language: LanguageCode) -> float | None:
        if not fits(self._llm, messages, REPLY_TOKENS):
            raise ContextOverflowError(
                "The comparison does not fit into the context window of {model}, which holds "
                "{window} tokens.",
                hint="Use a shorter reference answer, or a larger context window.",
                model=self._llm.name,
                window=self._llm.context_window,
            )
        choice = self._chooser.choose(messages, YES_NO[language])
        return choice[0] if choice.read else None
