"""Runs the stages of an answer one after the other, and records what they did, once."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from localrag.languages import LanguageCode
from localrag.models.llms.base import CostMeter
from localrag.rag.base import Parts, Piece, Toolkit, check_question
from localrag.rag.both_sides import ConflictReporter
from localrag.rag.budget import Budget, seconds_spent
from localrag.rag.citations import Attributor
from localrag.rag.faithfulness import Unsupported
from localrag.rag.grading import Grade, Grader
from localrag.rag.pointing import PointedSentence
from localrag.rag.reading import Evidence, PassageReader
from localrag.rag.statements import Statements
from localrag.rag.verdicts import Echo
from localrag.text.language import answer_language
from localrag.types import (
    Answer,
    Plain,
    ScoredChunk,
    SelfRAGMetrics,
    Statement,
    Step,
    StepKind,
)

Pieces = Generator[Statement | Step, None, None]
"""What a stage yields: what is new of a statement as it is written, and a step once it is done."""


@dataclass(slots=True)
class Trace:
    """The steps of an answer so far, and since when its time counts."""

    steps: list[Step] = field(default_factory=list)
    started: float = field(default_factory=lambda: time.perf_counter())
    first: int = 0
    """How many steps were done before the pipeline began."""
    meter: CostMeter | None = None
    """What tells what the model took for this answer, once that is known."""

    def begin(self) -> None:
        """Count the time from now on: loading a model is no part of an answer's."""
        self.started, self.first = time.perf_counter(), len(self.steps)


@dataclass(slots=True)
class AnswerRun:
    """What one question has come to so far: each stage reads it and fills in its own part."""

    question: str
    tools: Toolkit
    grader: Grader
    unsupported: Unsupported
    budget: Budget
    trace: Trace
    needed: bool = True
    """Whether documents are."""
    passages: Sequence[ScoredChunk] = ()
    reader: PassageReader | None = None
    evidence: Evidence | None = None
    missing: Parts = ()
    """Parts of the question that the documents do not hold."""
    conflicts: ConflictReporter | None = None
    pointed: tuple[PointedSentence, ...] = ()
    """The likeliest sentences that answer, where the model shows where it looks."""
    statements: Statements = ()
    contexts: Sequence[ScoredChunk] | None = None
    """Passages that the answer gives, where these are not all."""
    grounded: bool | None = None
    """None: it is judged by the statements."""
    metrics: SelfRAGMetrics | None = None
    answer: Answer = field(init=False)
    _attributor: Attributor | None = field(default=None, init=False, repr=False)

    @property
    def language(self) -> LanguageCode:
        """That of the answer."""
        return answer_language(self.question)

    @property
    def attributor(self) -> Attributor:
        """What finds citations among the passages, once these are all there."""
        self._attributor = self._attributor or self.tools.attributor(self.passages)
        return self._attributor

    @property
    def echo(self) -> Echo | None:
        """What the question says already, for a model that guesses."""
        return Echo(self.question, self.tools.tokenize) if self.grader.is_probed else None

    def step(
        self, kind: StepKind, score: float | None = None, seconds: float = 0.0, **values: Plain
    ) -> Step:
        """A decision, whose time counts for what the budget still allows."""
        self.budget.took(kind, seconds)
        return Step(kind, values, score, seconds)

    def graded(self, kind: StepKind, grade: Grade, seconds: float, **values: Plain) -> Step:
        """A grade, what follows from it, and whether it could be read."""
        unread = {"unread": True} if grade.unread else {}
        details = grade.told() if kind == "relevance" else unread
        return self.step(kind, grade.value, seconds, **values, **details)

    def through(self, stages: Sequence[AnswerStage]) -> Pieces:
        """What the stages yield; the last sets the answer."""
        for stage in stages:
            yield from stage(self)


AnswerStage = Callable[[AnswerRun], Pieces]
"""Takes a run one step further."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Answers a question from the library by stages, in `budget` seconds; 0: no limit."""

    tools: Toolkit
    grader: Grader
    stages: Sequence[AnswerStage]
    unsupported: Unsupported = "mark"
    budget: float = 0.0

    def stream(self, question: str) -> Iterator[Piece]:
        """Statements as they grow and steps as they come, and last of all the finished `Answer`.

        What is written joined is `Answer.text`, the steps are `Answer.trace`. Closing the iterator
        stops the model. Raises `UsageError` for an empty question, `GenerationError` from the
        model.
        """
        return recorded(question, lambda trace: self.pieces(question, trace))

    def pieces(self, question: str, trace: Trace) -> Iterator[Piece]:
        """The same for a trace that somebody else records, whose time begins now."""
        trace.begin()
        trace.meter = self.tools.meter
        budget = Budget(self.budget)
        run = AnswerRun(question, self.tools, self.grader, self.unsupported, budget, trace)
        yield from run.through(self.stages)
        yield run.answer


def recorded(question: str, pieces_of: Callable[[Trace], Iterator[Piece]]) -> Iterator[Piece]:
    """The pieces, with trace and time of their answer filled in from what came first.

    Raises `UsageError` for an empty question.
    """
    check_question(question)
    trace = Trace()
    with closing(pieces_of(trace)) as pieces:  # type: ignore[type-var]
        for piece in pieces:
            if isinstance(piece, Answer):
                if trace.meter is not None:
                    trace.steps.append(Step("cost", seconds_spent(trace.meter), None, 0.0))
                    yield trace.steps[-1]
                seconds = piece.seconds or time.perf_counter() - trace.started
                piece = replace(piece, trace=tuple(trace.steps), seconds=seconds)
            elif isinstance(piece, Step):
                trace.steps.append(piece)
            yield piece
