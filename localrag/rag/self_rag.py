"""Self-RAG: retrieve if needed, grade each passage, answer, grade the answer, take the best.

After Asai et al. 2023 (https://arxiv.org/abs/2310.11511), with a plain instruct model: what
the paper reads from special tokens is read from the probabilities of the allowed answers.
Every passage stands first in the prompts about it, so that it is read once for its
relevance, its answer and the checks of that answer.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from localrag.documents.chunking import passage_text
from localrag.languages import LanguageCode
from localrag.models.llms.base import Options
from localrag.prompts import render
from localrag.rag.base import Piece, Pipeline, Toolkit, finished, timed
from localrag.rag.both_sides import ConflictReporter
from localrag.rag.budget import Budget
from localrag.rag.citations import Attributor, CitedStream, with_citation
from localrag.rag.faithfulness import Passages, Unsupported, statement_of
from localrag.rag.grading import UNREAD_UTILITY, Grade, Grader, Reading
from localrag.rag.question_words import FewerWords
from localrag.rag.reading import not_read
from localrag.rag.refusals import not_from_documents, refuses
from localrag.rag.relevance import graded, is_close, is_tied
from localrag.rag.statements import (
    Statements,
    cut,
    own_sentence,
    tidy,
    without_unsupported,
    words,
)
from localrag.rag.verdicts import borne_out
from localrag.text.language import answer_language
from localrag.text.sentences import split_sentences
from localrag.types import (
    Answer,
    Message,
    Plain,
    Rating,
    ScoredChunk,
    SelfRAGMetrics,
    Statement,
    Step,
    StepKind,
    citations_of,
)

POINTS: dict[Rating, int] = {"fully supported": 3, "partially supported": 1, "no support": 0}

SURELY_NOT = 0.01
"""Probability of a request for facts below which it is a greeting, a poem or a sum: none about
documents came below, so what is only similar in them does not count."""

FOR_THE_ANSWER = 0.5
"""Share of a time budget that is not spent on grading passages."""

FOR_THE_CHECKS = 0.2
"""Share of a time budget that is not spent on writing."""

_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")

Steps = Generator[Step, None, None]
"""Steps as they are done."""


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
    budget_seconds: float
    strict: bool
    unsupported: Unsupported


@dataclass(frozen=True, slots=True)
class DraftAnswer:
    """An answer from some of the relevant passages, by their numbers from 1, with its grades."""

    statements: Statements
    rating: Rating
    utility: float
    numbers: tuple[int, ...] = ()

    @property
    def support(self) -> float:
        """The mean share of support of its rated statements."""
        rated = [each.share for each in self.statements if each.rating is not None]
        return sum(rated) / max(1, len(rated))

    @property
    def score(self) -> float:
        """Support x 5 + utility; an answer without support is worth nothing."""
        points = POINTS[self.rating]
        return points * 5 + self.utility if points else 0.0


@dataclass(slots=True)
class _State:
    """What one question has led to so far."""

    question: str
    language: LanguageCode
    budget: Budget
    needed: bool = True
    found: Sequence[ScoredChunk] = ()
    read: int = 0
    """How many of the passages found are graded, or will not be."""
    best: float = 0.0
    relevant: list[ScoredChunk] = field(default_factory=list)
    cut_short: bool = False
    unchecked: bool = False
    drafts: list[DraftAnswer] = field(default_factory=list)

    @property
    def ungraded(self) -> Sequence[ScoredChunk]:
        """Passages found that are still to be graded."""
        return self.found[self.read :]

    def step(
        self, kind: StepKind, score: float | None = None, seconds: float = 0.0, **values: Plain
    ) -> Step:
        """A decision, whose time counts for what the budget still allows."""
        self.budget.took(kind, seconds)
        return Step(kind, values, score, seconds)

    def graded(self, kind: StepKind, grade: Grade, seconds: float, **values: Plain) -> Step:
        """A grade, what follows from it, and whether it could be read."""
        unread = {"unread": True} if grade.unread else {}
        told = grade.told() if kind == "relevance" else unread
        return self.step(kind, grade.value, seconds, **values, **told)


class SelfRAG(Pipeline):
    """Answers from the passages that it finds relevant, and checks what it wrote.

    Passages are graded until one is clearly enough, and the most relevant one answers alone, which
    costs no further reading. Where that answer is not fully supported and useful, the rest are
    graded, all relevant passages answer together, then the others one by one, until an answer is.
    Without such an answer the best one wins, by support x 5 + utility; with `strict`, none
    of which a sentence was left unchecked. An answer from documents comes in one piece, once it
    has been graded.
    """

    def __init__(self, tools: Toolkit, grader: Grader, options: SelfRAGOptions) -> None:
        self._tools = tools
        self._grader = grader
        self._options = options

    def _pieces(self, question: str) -> Iterator[Piece]:
        budget = Budget(self._options.budget_seconds)
        state = _State(question, answer_language(question), budget)
        yield from self._decide(state)
        if state.needed:
            yield from self._find(state)
            yield from self._grade_passages(state)
            yield from self._drafts(state)
        # The first of equals: it has the more relevant passages.
        best = max(state.drafts, key=lambda each: (each.score, each.support), default=None)
        if best is None or best.score == 0:
            written: list[Statement] = []
            for piece in self._without_documents(state):
                if isinstance(piece, Statement):
                    written.append(piece)
                yield piece
            yield self._answer(state, cut(written))
            return
        if len(state.drafts) > 1:
            yield state.step("choose", best.score, answer=state.drafts.index(best) + 1)
        yield from self._chosen(state, best)

    # -- before an answer -----------------------------------------------------------

    def _decide(self, state: _State) -> Steps:
        if self._options.strict:
            yield state.step("retrieval decision", strict=True)
            return
        ask = partial(self._grader.needs_documents, state.question, state.language)
        grade, seconds = timed(ask)
        state.needed = grade.value >= self._options.min_retrieval
        close: dict[str, Plain] = {}
        if not state.needed:  # for the model, "May I smoke in the room?" is small talk
            state.needed, looking = timed(partial(self._is_close, state.question, grade))
            seconds += looking
            close = {"close": True} if state.needed else {}
        yield state.graded("retrieval decision", grade, seconds, needed=state.needed, **close)

    def _is_close(self, question: str, grade: Grade) -> bool:
        """Whether the documents have something close to what the model would answer alone."""
        tools = self._tools
        asked, found = tools.asked(question), tools.retrieve(question, tools.k)
        unsure = grade.value >= SURELY_NOT or not self._grader.reads_logits
        return is_close(asked, found, tools.embedder, by_meaning=unsure)

    def _find(self, state: _State) -> Steps:
        found = yield from self._tools.find(state.question)
        room = self._tools.room(state.question)
        state.found = [passage for passage in found if self._tools.fitting([passage], room, _text)]
        if too_long := len(found) - len(state.found):
            yield state.step("retrieve", too_long=too_long)

    def _grade_passages(self, state: _State) -> Steps:
        """Grade those not graded yet, in the order of the search.

        One that is clearly enough is tried before the others are read.
        """
        options = self._options
        stop = options.early_stop and not state.drafts
        passages = state.found
        fewer = FewerWords(self._tools.asked(state.question), passages)
        found: list[tuple[float, ScoredChunk]] = []
        while state.ungraded:
            if state.read and not state.budget.allows("relevance", reserve=FOR_THE_ANSWER):
                yield state.step("budget", skipped="passages", count=len(state.ungraded))
                state.read = len(state.found)
                break
            chunk = state.ungraded[0]
            state.read += 1
            if fewer.in_passage(state.read):
                yield not_read(state.read)
                continue
            value = yield from self._relevance(state, state.read, state.question)
            found.append((value, chunk))
            enough = value > max(options.enough, self._options.min_best_relevance)
            if stop and enough and not is_tied(passages, state.read):
                break
        found.sort(key=lambda each: -each[0])
        if found:
            state.best = max(state.best, found[0][0])
        # Behind those of before: their numbers are cited.
        state.relevant += [each for value, each in found if value >= options.min_relevance]
        if state.relevant and not self._answerable(state):
            yield state.step("answerable", state.best, answer=False)

    def _relevance(self, state: _State, number: int, asked: str) -> Generator[Step, None, float]:
        """How far a passage, from 1, alone holds what is asked."""
        words = self._tools.asked(asked)
        passage, least = state.found[number - 1], self._options.min_best_relevance
        ask = partial(graded, self._grader, words, state.language, [passage], least)
        grade, seconds = timed(ask)
        relevant = grade.value >= self._options.min_relevance
        yield state.graded("relevance", grade, seconds, passage=number, relevant=relevant)
        return grade.value

    def _answerable(self, state: _State) -> bool:
        return state.best >= self._options.min_best_relevance

    # -- answers --------------------------------------------------------------------

    def _drafts(self, state: _State) -> Steps:
        """Answers from the relevant passages, the likeliest to be the best one first."""
        while state.relevant and self._answerable(state):
            attributor = self._tools.attributor(state.relevant)
            readings = self._readings(state)
            for number, reading in enumerate(readings):
                others = len(reading.chunks) - 1
                allowed = state.budget.allows("answer", after=("relevance", others))
                if state.drafts and not allowed:
                    yield state.step("budget", skipped="answers", count=len(readings) - number)
                    return
                started = time.perf_counter()
                draft = yield from self._draft(state, reading, attributor)
                state.budget.took("answer", time.perf_counter() - started)
                state.drafts.append(draft)
                if self._options.early_stop and self._good(draft):
                    return
            if not state.ungraded:
                return
            yield from self._grade_passages(state)

    def _readings(self, state: _State) -> list[Reading]:
        """What to answer from: the best passage, all relevant ones together, each other one."""
        singles = [Reading(state.language, (chunk,)) for chunk in state.relevant]
        if state.ungraded:
            return singles[:1]
        together = self._tools.fitting(state.relevant, self._tools.room(state.question), _text)
        joint = [Reading(state.language, tuple(together))] if len(together) > 1 else []
        # The first has been tried where it was enough to stop at.
        return [*([] if state.drafts else singles[:1]), *joint, *singles[1:]]

    def _draft(
        self, state: _State, reading: Reading, attributor: Attributor
    ) -> Generator[Step, None, DraftAnswer]:
        # Another passage may say the same: what was read is what is cited.
        numbers = tuple(1 + state.relevant.index(chunk) for chunk in reading.chunks)
        quotation = partial(attributor.closest_sentence, numbers, state.question)
        written = "".join(borne_out(iter([(yield from self._write(state, reading))]), quotation))
        refusal = render("refusal", state.language)
        stream = CitedStream(attributor.only(numbers, held=True), state.question, refusal)
        for _ in stream.checked([written]):  # it is shown once it has been graded
            pass
        statements = tidy(stream.statements)
        text = words(statements)
        if not any(map(str.isalnum, text)) or refuses(text):
            return DraftAnswer((), "no support", 1.0)
        statements = with_citation(statements, attributor, numbers)
        statements = yield from self._check(state, reading, statements)
        if state.unchecked and self._options.strict:
            return DraftAnswer((), "no support", 1.0)
        draft = DraftAnswer(statements, "partially supported", UNREAD_UTILITY, numbers)
        ratings = {each.rating for each in statements} - {None}
        if ratings:  # else no time was left to grade it
            rating = self._rating(draft.support)
            if rating == "fully supported" and "no support" in ratings:
                rating = "partially supported"
            yield state.step("support", draft.support, rating=rating)
            draft = replace(draft, rating=rating)
        if not state.budget.allows("utility", like="support of a sentence"):
            yield state.step("budget", UNREAD_UTILITY, skipped="utility")
            return draft
        grade, seconds = timed(partial(self._grader.utility, state.question, text, reading))
        yield state.graded("utility", grade, seconds)
        return replace(draft, utility=grade.value)

    def _write(self, state: _State, reading: Reading) -> Generator[Step, None, str]:
        wording, question = self._tools.wording, state.question.strip()
        task = wording.render("write_from_passages", state.language, question=question)
        options = replace(self._tools.generation, keep=1)
        pieces = self._writing(state, reading.messages(task), options, FOR_THE_CHECKS)
        written, seconds = timed(partial("".join, pieces))
        # A server whose template opens the thought sends only its end.
        text = written.rpartition("</think>")[2].strip()
        if state.cut_short and not text.endswith(_SENTENCE_ENDS):
            whole = split_sentences(text)[:-1]
            text = text[: whole[-1].end] if whole else ""
        count = len(reading.chunks)
        yield state.step("write", seconds=seconds, passages=count, cut_short=state.cut_short)
        return text

    def _writing(
        self, state: _State, messages: Sequence[Message], options: Options, reserve: float
    ) -> Iterator[str]:
        """What the model writes until only this share of the budget is left."""
        state.cut_short = False
        with closing(self._tools.llm.stream(messages, options)) as stream:  # type: ignore[type-var]
            for piece in stream:
                yield piece
                if state.budget.is_down_to(reserve):
                    state.cut_short = True
                    return

    def _check(
        self, state: _State, reading: Reading, statements: Statements
    ) -> Generator[Step, None, Statements]:
        """What can be said without the model comes first, as in standard RAG."""
        passages = Passages(state.question, state.relevant, self._tools.tokenize)
        citations, rated = citations_of(statements), list(statements)
        spoken = [at for at, each in enumerate(statements) if each.has_words]
        for number, at in enumerate(spoken):
            statement = statements[at]
            if finding := passages.finding(statement, citations):
                rated[at] = finding.of(statement)
                yield Step("support of a sentence", {"rating": finding.rating}, finding.share, 0.0)
                continue
            if not state.budget.allows("support of a sentence"):
                yield state.step("budget", skipped="sentences", count=len(spoken) - number)
                state.unchecked = True
                break
            text = statement_of(statement.text)
            grade, seconds = timed(partial(self._grader.support, state.question, text, reading))
            rating = self._rating(grade.value)
            yield state.graded("support of a sentence", grade, seconds, rating=rating)
            rated[at] = replace(statement, rating=rating, share=grade.value)
        return tuple(rated)

    def _rating(self, probability: float) -> Rating:
        if probability >= self._options.min_support:
            return "fully supported"
        if probability >= self._options.min_partial_support:
            return "partially supported"
        return "no support"

    def _good(self, draft: DraftAnswer) -> bool:
        """Whether no other answer needs to be tried."""
        supported = draft.rating == "fully supported"
        return supported and draft.utility >= self._options.good_utility

    def _without_documents(self, state: _State) -> Iterator[Statement | Step]:
        """What is said where the documents are not needed, or do not hold the answer."""
        if state.budget.is_down_to(0.0) or (state.unchecked and self._options.strict):
            yield state.step("budget", skipped="answer")
            yield own_sentence("out_of_time", state.language)
            return
        if self._options.strict:
            yield own_sentence("refusal", state.language)
            return
        started = time.perf_counter()
        messages = [
            Message("system", self._tools.wording.render("without_documents", state.language)),
            Message("user", state.question.strip()),
        ]
        # There is nothing to cite: whatever marker the model writes is invented.
        stream = CitedStream(self._tools.attributor(()), state.question, "")
        written = self._writing(state, messages, self._tools.generation, 0.0)
        yield from not_from_documents(stream.checked(written), state.language)
        seconds = time.perf_counter() - started
        yield state.step("write", seconds=seconds, passages=0, cut_short=state.cut_short)

    def _chosen(self, state: _State, best: DraftAnswer) -> Iterator[Piece]:
        """The answer that won, with what other passages say otherwise and what none of them says.

        It comes at once, so that a reader may be shown it with its marks instead.
        """
        others = [passage for passage in state.found if passage not in state.relevant]
        chunks = [*state.relevant, *others]
        answer = best.statements
        if self._options.unsupported != "mark":
            answer = without_unsupported(answer)
        both = ConflictReporter.among(
            state.question, chunks, best.numbers, state.language, self._tools, numbered=False
        )
        yield from both.steps
        if not citations_of(answer) or both.found:
            attributor = self._tools.attributor(chunks)
            answer = with_citation(answer, attributor, best.numbers)
            answer = (*answer, *both.added(answer, attributor.cite))
        yield from answer
        contexts = chunks if both.found else state.relevant
        yield self._answer(state, answer, contexts, grounded=True)

    def _answer(
        self,
        state: _State,
        answer: Statements,
        contexts: Sequence[ScoredChunk] = (),
        *,
        grounded: bool = False,
    ) -> Answer:
        return finished(
            state.question,
            answer,
            contexts if grounded else state.found[: self._tools.k],
            grounded=grounded,
            metrics=SelfRAGMetrics(
                retrieval_needed=state.needed,
                documents_retrieved=len(state.found),
                relevant_documents=len(state.relevant),
                response_support_ratings=tuple(each.rating for each in state.drafts),
                utility_ratings=tuple(each.utility for each in state.drafts),
                best_score=max((each.score for each in state.drafts), default=0.0),
                used_retrieval=grounded,
            ),
        )


def _text(_: int, found: ScoredChunk) -> str:
    return passage_text(found.chunk)
