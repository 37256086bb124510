"""What the ways to answer have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from localrag.errors import UsageError
from localrag.languages import CODES
from localrag.models.embeddings.base import Embedder
from localrag.models.llms.base import LLM, CostMeter, Options
from localrag.prompts import render
from localrag.prompts.own import Wording
from localrag.rag.citations import Attributor, PlaceOf, Tokenize
from localrag.rag.months import are_of_others
from localrag.rag.question_words import Asked
from localrag.rag.statements import classified, tidy
from localrag.rag.versions import CardOf, newest_first
from localrag.rerankers.base import Reranking
from localrag.text.language import answer_language
from localrag.types import (
    Answer,
    Card,
    NotFound,
    ScoredChunk,
    SelfRAGMetrics,
    Statement,
    Step,
)

PROMPT_OVERHEAD = 256
"""Tokens kept free for the rules, the task and the chat template."""

LONGEST_QUESTION = 8000
"""Code points: what the window of a small model holds beside a few passages."""

Retrieve = Callable[[str, int], list[ScoredChunk]]
"""Question and k -> the k best passages, best first."""

Piece = Statement | Step | Answer
"""Of an answer: what is new of a statement as it is written, a step as soon as it is done, and last
the answer."""

OnStep = Callable[[Step], None]
"""Hears each step of a run as soon as it is done."""
Reword = Callable[[str, OnStep], list[str]]
"""A question -> other wordings of it; the step that it takes is told."""


def unheard(_: Step) -> None:
    """Tell nobody."""


Parts = tuple[str, ...]
"""The parts of a question that asks for several things."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """What every way to answer works with; `k` passages are read."""

    retrieve: Retrieve
    llm: LLM
    tokenize: Tokenize
    embedder: Embedder
    place_of: PlaceOf
    k: int
    generation: Options
    wording: Wording = field(default_factory=Wording)
    reranking: Reranking | None = None
    card_of: CardOf = lambda _: Card("", "")
    """What the document of a passage is, with its date as far as that is known."""
    reword: Reword = lambda *_: []
    """Other wordings of a question, for a second search."""
    meter: CostMeter | None = None
    """What tells how long the model takes; None where nobody knows."""
    parts: MutableMapping[str, Parts] = field(default_factory=dict)
    """What questions were taken apart into."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set once nobody waits for the answer: what may take long without the model looks at it."""
    _asked: dict[str, Asked] = field(default_factory=dict, init=False, repr=False)
    _wordings: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False)

    def asked(self, question: str) -> Asked:
        """A question, or a part of one, that is taken apart once for all passages."""
        return self._asked.setdefault(question, Asked(question, self.tokenize))

    def find(self, question: str) -> Generator[Step, None, list[ScoredChunk]]:
        """The k best passages, best first; rows of other months than the one asked for are last."""
        reranking = self.reranking
        depth = max(self.k, reranking.candidates) if reranking else self.k
        chunks, seconds = timed(partial(self.retrieve, question, depth))
        yield Step("retrieve", {"passages": len(chunks)}, None, seconds)
        if reranking:
            chunks, step = reranking.apply(question, chunks, self.k)
            yield step
        asked = self.asked(question)
        chunks = newest_first(chunks, asked, self.card_of)
        return sorted(chunks, key=partial(are_of_others, asked.month))

    def reworded(self, question: str) -> Generator[Step, None, list[str]]:
        """Other wordings of a question, asked for once; none where the model has none."""
        if question not in self._wordings:
            steps: list[Step] = []
            self._wordings[question] = self.reword(question, steps.append)
            yield from steps
        return self._wordings[question]

    def room(self, question: str) -> int:
        """Tokens that passages may take together, beside question and answer."""
        other_tokens = (
            self.generation.max_tokens + PROMPT_OVERHEAD + self.llm.count_tokens(question)
        )
        return self.llm.context_window - other_tokens

    def fitting(
        self, chunks: Sequence[ScoredChunk], room: int, passage: Callable[[int, ScoredChunk], str]
    ) -> list[ScoredChunk]:
        """The chunks that fit, in their order; `passage` is what a prompt says of the nth of them.

        One for which there is no room is passed over, so that it hides none of those behind it.
        """
        fitting: list[ScoredChunk] = []
        for chunk in chunks:
            tokens = self.llm.count_tokens(passage(len(fitting) + 1, chunk))
            if tokens <= room:
                fitting.append(chunk)
                room -= tokens
        return fitting

    def attributor(self, chunks: Sequence[ScoredChunk]) -> Attributor:
        """What finds citations among these."""
        return Attributor(chunks, self.tokenize, self.place_of, self.embedder)


def finished(
    question: str,
    statements: Iterable[Statement],
    contexts: Sequence[ScoredChunk] = (),
    *,
    grounded: bool = False,
    metrics: SelfRAGMetrics | None = None,
    missing: Sequence[str] = (),
) -> Answer:
    """What the pieces of an answer end with; `pipeline.recorded` fills in trace and time.

    `missing` are parts of the question that the documents do not hold.
    """
    return Answer(
        question=question,
        statements=classified(tidy(statements)),
        language=answer_language(question),
        grounded=grounded,
        contexts=tuple(contexts),
        trace=(),
        seconds=0.0,
        metrics=metrics,
        not_found=tuple(map(NotFound, missing)),
    )


def source_documents(answer: Answer) -> set[str]:
    """The documents that the words of an answer may come from.

    Those that it cites, or are closest to what it lacks; where a sentence cites nothing, all that
    were read for it; and all that it was computed or put together from. What the documents do not
    say comes from the question.
    """
    closest = (missing.closest for missing in answer.not_found if missing.closest is not None)
    cited = {citation.chunk_id for citation in (*answer.citations, *closest)}
    refuses = answer.text.strip() in [render("refusal", code) for code in CODES]
    all_cite = refuses or all(
        statement.citations for statement in answer.statements if statement.kind != "missing"
    )
    return {
        context.chunk.document_id
        for context in answer.contexts
        if not all_cite or context.chunk.id in cited
    }.union(answer.documents, answer.basis.documents if answer.basis else ())


def check_question(question: str) -> None:
    """Raises `UsageError` for an empty question, and one that no model could take in."""
    if not question.strip():
        raise UsageError("The question is empty.", hint="Ask something, in quotes.")
    if len(question) > LONGEST_QUESTION:
        raise UsageError(
            "The question is too long: {count} characters, of at most {most}.",
            hint="Ask in fewer words; a text to ask about can be added to the library.",
            count=len(question),
            most=LONGEST_QUESTION,
        )


def answer_of(pieces: Iterator[Piece], on_step: OnStep = unheard) -> Answer:
    """The answer at the end of the pieces; `on_step` hears the steps before it."""
    with closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            if isinstance(piece, Answer):
                return piece
            if isinstance(piece, Step):
                on_step(piece)
    raise AssertionError("a stream ends with its answer")


T = TypeVar("T")


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """A call's result and its seconds."""
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started
