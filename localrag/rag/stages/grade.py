"""Grade passages: how far each alone holds what is asked."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial

from localrag.models.llms.probes import Pointer
from localrag.rag.base import timed
from localrag.rag.pipeline import AnswerRun
from localrag.rag.question_words import FewerWords
from localrag.rag.reading import not_read
from localrag.rag.relevance import graded, is_tied
from localrag.types import ScoredChunk, Step

FOR_THE_ANSWER = 0.5
"""Share of a time budget that is not spent on grading passages."""


@dataclass(frozen=True, slots=True)
class SelfRAGOptions:
    """How to answer; see `SelfRAGSettings` for what each means to a person."""

    min_retrieval: float
    min_relevance: float
    min_best_relevance: float
    min_support: float
    min_partial_support: float
    good_utility: float
    enough: float
    early_stop: bool
    strict: bool


@dataclass(slots=True)
class GradedPassages:
    """The passages of a run and their grades so far."""

    run: AnswerRun
    options: SelfRAGOptions
    passages: Sequence[ScoredChunk]
    read: int = 0
    """How many of the passages found are graded, or will not be."""
    best: float = 0.0
    relevant: list[ScoredChunk] = field(default_factory=list)
    pointers: dict[int, Pointer] = field(default_factory=dict)
    """Where the model looked in passages, by the ids of their chunks."""

    @property
    def ungraded(self) -> Sequence[ScoredChunk]:
        """Passages found that are still to be graded."""
        return self.passages[self.read :]

    @property
    def answerable(self) -> bool:
        """Whether the best passage is relevant enough to answer from."""
        return self.best >= self.options.min_best_relevance

    def grade(self, *, stop: bool) -> Generator[Step, None, None]:
        """Grade those not graded yet, in the order of the search.

        With `stop`, one that is clearly enough is tried before the others are read.
        Raises `GenerationError` from the model.
        """
        options, passages, run = self.options, self.passages, self.run
        fewer = FewerWords(run.tools.asked(run.question), passages)
        grades: list[tuple[float, ScoredChunk]] = []
        while self.ungraded:
            if self.read and not run.budget.allows("relevance", reserve=FOR_THE_ANSWER):
                yield run.step("budget", skipped="passages", count=len(self.ungraded))
                self.read = len(self.passages)
                break
            chunk = self.ungraded[0]
            self.read += 1
            if fewer.in_passage(self.read):
                yield not_read(self.read)
                continue
            value = yield from self._relevance(self.read)
            grades.append((value, chunk))
            enough = value > max(options.enough, self.options.min_best_relevance)
            if stop and enough and not is_tied(passages, self.read):
                break
        grades.sort(key=lambda grade: -grade[0])
        if grades:
            self.best = max(self.best, grades[0][0])
        # Behind those of before: their numbers are cited.
        self.relevant += [chunk for value, chunk in grades if value >= options.min_relevance]
        if self.relevant and not self.answerable:
            yield run.step("answerable", self.best, answer=False)

    def _relevance(self, number: int) -> Generator[Step, None, float]:
        """How far a passage, from 1, alone holds what is asked."""
        run, least = self.run, self.options.min_best_relevance
        words, passage = run.tools.asked(run.question), self.passages[number - 1]
        ask = partial(graded, run.grader, words, run.language, [passage], least)
        grade, seconds = timed(ask)
        if grade.pointer:
            self.pointers[passage.chunk.id] = grade.pointer
        relevant = grade.value >= self.options.min_relevance
        yield run.graded("relevance", grade, seconds, passage=number, relevant=relevant)
        return grade.value
