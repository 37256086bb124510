"""Self-RAG: retrieve if needed, grade each passage, answer, grade the answer, take the best.

After Asai et al. 2023 (https://arxiv.org/abs/2310.11511), with a plain instruct model: what
the paper reads from special tokens is read from the probabilities of the allowed answers.
Every passage stands first in the prompts about it, so that it is read once for its
relevance, its answer and the checks of that answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from localrag.documents.chunking import passage_text
from localrag.errors import UsageError
from localrag.models.embeddings.base import Embedder
from localrag.models.llms.base import LLM, Options
from localrag.prompts import PromptLanguage, render
from localrag.prompts.own import Wording
from localrag.rag.base import OnStep, Retrieve, timed, unheard
from localrag.rag.budget import Budget
from localrag.rag.citations import Attributor, CitedStream, PageOf, Tokenize, without_markers
from localrag.rag.grading import UNREAD_UTILITY, Grade, Grader, Reading
from localrag.rag.refusals import refuses
from localrag.rerankers.base import Reranking
from localrag.text.language import answer_language
from localrag.text.sentences import split_sentences
from localrag.types import (
    Answer,
    Citation,
    Message,
    Plain,
    Rating,
    ScoredChunk,
    SelfRAGMetrics,
    Step,
    StepKind,
    SupportedSentence,
)

POINTS: dict[Rating, int] = {"fully supported": 3, "partially supported": 1, "no support": 0}
PROMPT_OVERHEAD = 256
"""Tokens kept free for the rules, the task and the chat template."""

FOR_THE_ANSWER = 0.5
"""Share of a time budget that is not spent on grading passages."""

FOR_THE_CHECKS = 0.2
"""Share of a time budget that is not spent on writing."""

_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


@dataclass(frozen=True, slots=True)
class SelfRAGOptions:
    """How to answer; see `SelfRAGSettings` for what each means to a person."""

    k: int
    min_retrieval: float
    min_relevance: float
    min_best_relevance: float
    min_best_relevance_strict: float
    min_support: float
    min_partial_support: float
    good_utility: float
    early_stop: bool
    strict: bool
    budget_seconds: float
    generation: Options
    wording: Wording = field(default_factory=Wording)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer from some of the relevant passages, with its grades."""

    text: str
    citations: tuple[Citation, ...]
    sentences: tuple[SupportedSentence, ...]
    rating: Rating
    support: float
    utility: float

    @property
    def score(self) -> float:
        """Support x 5 + utility; an answer without support is worth nothing."""
        points = POINTS[self.rating]
        return points * 5 + self.utility if points else 0.0


@dataclass(slots=True)
class _Run:
    """What one question has led to so far."""

    question: str
    language: PromptLanguage
    budget: Budget
    on_step: OnStep
    trace: list[Step] = field(default_factory=list)
    needed: bool = True
    found: Sequence[ScoredChunk] = ()
    relevant: Sequence[ScoredChunk] = ()
    answerable: bool = False
    candidates: list[Candidate] = field(default_factory=list)

    def step(
        self, kind: StepKind, score: float | None = None, seconds: float = 0.0, **values: Plain
    ) -> None:
        """Note a decision, and tell it at once."""
        step = Step(kind, values, score, seconds)
        self.trace.append(step)
        self.budget.took(kind, seconds)
        self.on_step(step)

    def graded(self, kind: StepKind, grade: Grade, seconds: float, **values: Plain) -> None:
        """Note a grade, and whether it could be read."""
        unread = {"unread": True} if grade.unread else {}
        self.step(kind, grade.value, seconds, **values, **unread)


class SelfRAG:
    """Answers from the passages that it finds relevant, and checks what it wrote.

    The most relevant passage answers alone, which costs no further reading. Where that answer
    is not fully supported and useful, all relevant passages answer together, then the others
    one by one, until an answer is. Without such an answer the best one wins, by
    support x 5 + utility.
    """

    def __init__(
        self,
        retrieve: Retrieve,
        llm: LLM,
        grader: Grader,
        tokenize: Tokenize,
        embedder: Embedder,
        page_of: PageOf,
        options: SelfRAGOptions,
        reranking: Reranking | None = None,
    ) -> None:
        self._retrieve = retrieve
        self._llm = llm
        self._grader = grader
        self._tokenize = tokenize
        self._embedder = embedder
        self._page_of = page_of
        self._options = options
        self._reranking = reranking

    def stream(self, question: str, on_step: OnStep = unheard) -> Iterator[str | Answer]:
        """Pieces of the answer, and last of all the finished `Answer`.

        An answer from documents comes in one piece, once it has been graded. `on_step` hears
        each decision as it is made. Raises `UsageError` for an empty question,
        `GenerationError` from the model.
        """
        if not question.strip():
            raise UsageError("The question is empty.", hint="Ask something, in quotes.")
        started = time.perf_counter()
        budget = Budget(self._options.budget_seconds)
        run = _Run(question, answer_language(question), budget, on_step)
        self._decide(run)
        if run.needed:
            self._find(run)
            self._grade_passages(run)
            for candidate in self._candidates(run):
                run.candidates.append(candidate)
                if self._options.early_stop and self._good(candidate):
                    break
        # The first of equals: it has the more relevant passages.
        best = max(run.candidates, key=lambda each: (each.score, each.support), default=None)
        if best is not None and best.score > 0:
            if len(run.candidates) > 1:
                run.step("choose", best.score, answer=run.candidates.index(best) + 1)
            yield best.text
            yield self._answer(run, started, best.text, best)
            return
        pieces: list[str] = []
        for piece in self._without_documents(run):
            pieces.append(piece)
            yield piece
        yield self._answer(run, started, "".join(pieces).strip(), None)

    # -- before an answer -----------------------------------------------------------

    def _decide(self, run: _Run) -> None:
        if self._options.strict:
            run.step("retrieval decision", strict=True)
            return
        grade, seconds = timed(partial(self._grader.needs_documents, run.question, run.language))
        run.needed = grade.value >= self._options.min_retrieval
        run.graded("retrieval decision", grade, seconds, needed=run.needed)

    def _find(self, run: _Run) -> None:
        k, reranking = self._options.k, self._reranking
        depth = max(k, reranking.candidates) if reranking else k
        run.found, seconds = timed(partial(self._retrieve, run.question, depth))
        run.step("retrieve", seconds=seconds, passages=len(run.found))
        if reranking:
            run.found, step = reranking.apply(run.question, run.found, k)
            run.trace.append(step)
            run.on_step(step)
        room = self._room(run.question)
        fitting = [each for each in run.found if self._tokens(each) <= room]
        if too_long := len(run.found) - len(fitting):
            run.step("retrieve", too_long=too_long)
        run.found = fitting

    def _grade_passages(self, run: _Run) -> None:
        graded: list[tuple[float, ScoredChunk]] = []
        for number, passage in enumerate(run.found, start=1):
            if graded and not run.budget.allows("relevance", reserve=FOR_THE_ANSWER):
                run.step("budget", skipped="passages", count=len(run.found) - number + 1)
                break
            reading = Reading(run.language, (passage,))
            grade, seconds = timed(partial(self._grader.relevance, run.question, reading))
            relevant = grade.value >= self._options.min_relevance
            run.graded("relevance", grade, seconds, passage=number, relevant=relevant)
            graded.append((grade.value, passage))
        graded.sort(key=lambda each: -each[0])
        run.relevant = [each for value, each in graded if value >= self._options.min_relevance]
        if run.relevant:
            strict, options = self._options.strict, self._options
            least = options.min_best_relevance_strict if strict else options.min_best_relevance
            run.answerable = graded[0][0] >= least
            if not run.answerable:
                run.step("answerable", graded[0][0], answer=False)

    # -- answers --------------------------------------------------------------------

    def _candidates(self, run: _Run) -> Iterator[Candidate]:
        """Answers from the relevant passages, the likeliest to be the best one first."""
        if not run.answerable:
            return
        attributor = Attributor(run.relevant, self._tokenize, self._page_of, self._embedder)
        readings = self._readings(run)
        for number, reading in enumerate(readings):
            others = len(reading.passages) - 1
            if number and not run.budget.allows("answer", after=("relevance", others)):
                run.step("budget", skipped="answers", count=len(readings) - number)
                return
            candidate, seconds = timed(partial(self._candidate, run, reading, attributor))
            run.budget.took("answer", seconds)
            yield candidate

    def _readings(self, run: _Run) -> list[Reading]:
        singles = [Reading(run.language, (passage,)) for passage in run.relevant]
        room = self._room(run.question)
        together: list[ScoredChunk] = []
        for passage in run.relevant:
            room -= self._tokens(passage)
            if room < 0:
                break
            together.append(passage)
        if len(together) < 2:
            return singles
        joint = Reading(run.language, tuple(together))
        return [singles[0], joint, *singles[1:]]

    def _candidate(self, run: _Run, reading: Reading, attributor: Attributor) -> Candidate:
        written = self._write(run, reading)
        # Another passage may say the same: what was read is what is cited.
        numbers = [1 + run.relevant.index(passage) for passage in reading.passages]
        refusal = render("refusal", run.language)
        cited = CitedStream(attributor.only(numbers), run.question, refusal)
        text = "".join([*cited.feed(written), *cited.finish()]).strip()
        if not _says_something(text) or refuses(text):
            return Candidate("", (), (), "no support", 0.0, 1.0)
        citations = cited.citations
        if not citations:
            # Words differ, as across languages: the passage that it was written from is named.
            number = attributor.closest(numbers, text)
            citations = (attributor.cite(number, text),)
            text = f"{text} [{number}]"
        sentences = self._check(run, reading, text)
        support = sum(each.share for each in sentences) / max(1, len(sentences))
        rating = self._rating(support)
        if rating == "fully supported" and any(each.rating == "no support" for each in sentences):
            rating = "partially supported"
        if not sentences:
            rating = "partially supported"  # no time was left to grade it
        if sentences:
            run.step("support", support, rating=rating)
        utility = self._utility(run, reading, text)
        return Candidate(text, citations, sentences, rating, support, utility)

    def _write(self, run: _Run, reading: Reading) -> str:
        wording, question = self._options.wording, run.question.strip()
        task = wording.render("write_from_passages", run.language, question=question)
        started = time.perf_counter()
        pieces: list[str] = []
        cut_short = False
        options = replace(self._options.generation, keep=1)
        with closing(self._llm.stream(reading.messages(task), options)) as stream:  # type: ignore[type-var]
            for piece in stream:
                pieces.append(piece)
                if run.budget.is_down_to(FOR_THE_CHECKS):
                    cut_short = True
                    break
        # A server whose template opens the thought sends only its end.
        text = "".join(pieces).rpartition("</think>")[2].strip()
        if cut_short and not text.endswith(_SENTENCE_ENDS):
            whole = split_sentences(text)[:-1]
            text = text[: whole[-1].end] if whole else ""
        seconds = time.perf_counter() - started
        run.step("write", seconds=seconds, passages=len(reading.passages), cut_short=cut_short)
        return text

    def _check(self, run: _Run, reading: Reading, text: str) -> tuple[SupportedSentence, ...]:
        graded: list[SupportedSentence] = []
        spans = [
            span for span in split_sentences(text) if _says_something(text[span.start : span.end])
        ]
        for number, span in enumerate(spans):
            statement = without_markers(text[span.start : span.end]).strip()
            if not run.budget.allows("support of a sentence"):
                run.step("budget", skipped="sentences", count=len(spans) - number)
                break
            grade, seconds = timed(partial(self._grader.support, run.question, statement, reading))
            rating = self._rating(grade.value)
            run.graded("support of a sentence", grade, seconds, rating=rating)
            graded.append(SupportedSentence(span.start, span.end, rating, grade.value))
        return tuple(graded)

    def _rating(self, probability: float) -> Rating:
        if probability >= self._options.min_support:
            return "fully supported"
        if probability >= self._options.min_partial_support:
            return "partially supported"
        return "no support"

    def _utility(self, run: _Run, reading: Reading, text: str) -> float:
        if not run.budget.allows("utility", like="support of a sentence"):
            run.step("budget", UNREAD_UTILITY, skipped="utility")
            return UNREAD_UTILITY
        answer = without_markers(text)
        grade, seconds = timed(partial(self._grader.utility, run.question, answer, reading))
        run.graded("utility", grade, seconds)
        return grade.value

    def _good(self, candidate: Candidate) -> bool:
        """Whether no other answer needs to be tried."""
        supported = candidate.rating == "fully supported"
        return supported and candidate.utility >= self._options.good_utility

    def _without_documents(self, run: _Run) -> Iterator[str]:
        """What is said where the documents are not needed, or do not hold the answer."""
        if run.budget.is_down_to(0.0):
            run.step("budget", skipped="answer")
            yield render("out_of_time", run.language)
            return
        if self._options.strict:
            yield render("refusal", run.language)
            return
        started = time.perf_counter()
        messages = [
            Message("system", self._options.wording.render("without_documents", run.language)),
            Message("user", run.question.strip()),
        ]
        # There is nothing to cite: whatever marker the model writes is invented.
        nothing = Attributor((), self._tokenize, self._page_of, self._embedder)
        cited = CitedStream(nothing, run.question, "")
        cut_short = False
        with closing(self._llm.stream(messages, self._options.generation)) as stream:  # type: ignore[type-var]
            for piece in stream:
                yield from cited.feed(piece)
                if run.budget.is_down_to(0.0):
                    cut_short = True
                    break
        yield from cited.finish()
        seconds = time.perf_counter() - started
        run.step("write", seconds=seconds, passages=0, cut_short=cut_short)

    # -- helpers --------------------------------------------------------------------

    def _answer(self, run: _Run, started: float, text: str, best: Candidate | None) -> Answer:
        return Answer(
            question=run.question,
            text=text,
            language=run.language,
            grounded=best is not None,
            citations=best.citations if best else (),
            contexts=tuple(run.relevant if best else run.found[: self._options.k]),
            trace=tuple(run.trace),
            seconds=time.perf_counter() - started,
            support=best.sentences if best else (),
            metrics=SelfRAGMetrics(
                retrieval_needed=run.needed,
                documents_retrieved=len(run.found),
                relevant_documents=len(run.relevant),
                response_support_ratings=tuple(each.rating for each in run.candidates),
                utility_ratings=tuple(each.utility for each in run.candidates),
                best_score=max((each.score for each in run.candidates), default=0.0),
                used_retrieval=best is not None,
            ),
        )

    def _room(self, question: str) -> int:
        """Tokens that passages may take together."""
        return (
            self._llm.context_window
            - self._options.generation.max_tokens
            - PROMPT_OVERHEAD
            - self._llm.count_tokens(question)
        )

    def _tokens(self, passage: ScoredChunk) -> int:
        return self._llm.count_tokens(passage_text(passage.chunk))


def _says_something(text: str) -> bool:
    """Whether there is a letter or a digit beside the markers."""
    return any(character.isalnum() for character in without_markers(text))
