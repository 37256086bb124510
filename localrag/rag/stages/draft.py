"""Draft answers from the passages that are relevant, grade them, and take the best."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from localrag.models.llms.base import Options
from localrag.prompts import render
from localrag.rag.base import timed
from localrag.rag.citations import Attributor, CitedStream, with_citation
from localrag.rag.faithfulness import Passages, statement_of
from localrag.rag.grading import UNREAD_UTILITY, Reading, as_read
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.pointing import PointedSentence, corrected, pointed, step_of
from localrag.rag.reading import Evidence
from localrag.rag.refusals import not_from_documents, refuses
from localrag.rag.stages.grade import GradedPassages, SelfRAGOptions
from localrag.rag.statements import Statements, cut, own_sentence, tidy, words
from localrag.rag.verdicts import closest_sentences
from localrag.text.sentences import split_sentences
from localrag.types import (
    Message,
    Rating,
    ScoredChunk,
    SelfRAGMetrics,
    Statement,
    Step,
    citations_of,
)

POINTS: dict[Rating, int] = {"fully supported": 3, "partially supported": 1, "no support": 0}

FOR_THE_CHECKS = 0.2
"""Share of a time budget that is not spent on writing."""

_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")

Steps = Generator[Step, None, None]
"""Steps as they are done."""


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
        rated = [s.share for s in self.statements if s.rating is not None]
        return sum(rated) / max(1, len(rated))

    @property
    def score(self) -> float:
        """Support x 5 + utility; an answer without support is worth nothing."""
        points = POINTS[self.rating]
        return points * 5 + self.utility if points else 0.0


@dataclass(frozen=True, slots=True)
class AnswerDrafter:
    """Answers from the passages that it finds relevant, and grades what it wrote.

    Passages are graded until one is clearly enough, and the most relevant one answers alone, which
    costs no further reading. Where that answer is not fully supported and useful, the rest are
    graded, all relevant passages answer together, then the others one by one, until an answer is.
    Without such an answer the best one wins, by support x 5 + utility; with `strict`, none
    of which a sentence was left unchecked.
    """

    options: SelfRAGOptions

    def __call__(self, run: AnswerRun) -> Pieces:
        """Leave the best draft with its evidence, or what is said without documents.

        Raises `GenerationError` from the model.
        """
        tools, read = run.tools, run.passages
        if run.needed:
            room = tools.room(run.question)
            read = [passage for passage in read if tools.fitting([passage], room, passage_at)]
        if too_long := len(run.passages) - len(read):
            yield run.step("retrieve", too_long=too_long)
        graded = GradedPassages(run, self.options, read)
        drafting = _Drafting(run, self.options, graded)
        if run.needed:
            yield from drafting.drafts()
        drafts, relevant = drafting.written, graded.relevant
        # The first of equals: it has the more relevant passages.
        best = max(drafts, key=lambda draft: (draft.score, draft.support), default=None)
        run.grounded = best is not None and best.score > 0
        run.metrics = SelfRAGMetrics(
            retrieval_needed=run.needed,
            documents_retrieved=len(read),
            relevant_documents=len(relevant),
            response_support_ratings=tuple(draft.rating for draft in drafts),
            utility_ratings=tuple(draft.utility for draft in drafts),
            best_score=max((draft.score for draft in drafts), default=0.0),
            used_retrieval=run.grounded,
        )
        if best is None or not run.grounded:
            written: list[Statement] = []
            for piece in drafting.without_documents():
                if isinstance(piece, Statement):
                    written.append(piece)
                yield piece
            run.statements, run.contexts = cut(written), read[: tools.k]
            return
        if len(drafts) > 1:
            yield run.step("choose", best.score, answer=drafts.index(best) + 1)
        irrelevant = [passage for passage in read if passage not in relevant]
        run.passages, run.contexts = [*relevant, *irrelevant], relevant
        run.evidence = Evidence(best.numbers, [], keep=1)
        run.statements = best.statements


@dataclass(slots=True)
class _Drafting:
    """The drafts of one run."""

    run: AnswerRun
    options: SelfRAGOptions
    graded: GradedPassages
    written: list[DraftAnswer] = field(default_factory=list)
    cut_short: bool = False
    unchecked: bool = False

    def drafts(self) -> Steps:
        """Answers from the relevant passages, the likeliest to be the best one first."""
        run, graded, options = self.run, self.graded, self.options
        yield from graded.grade(stop=options.early_stop)
        while graded.relevant and graded.answerable:
            attributor = run.tools.attributor(graded.relevant)
            readings = self._readings()
            for number, reading in enumerate(readings):
                further_passages = len(reading.chunks) - 1
                allowed = run.budget.allows("answer", after=("relevance", further_passages))
                if self.written and not allowed:
                    yield run.step("budget", skipped="answers", count=len(readings) - number)
                    return
                started = time.perf_counter()
                draft = yield from self._draft(reading, attributor)
                run.budget.took("answer", time.perf_counter() - started)
                self.written.append(draft)
                if options.early_stop and self._good(draft):
                    return
            if not graded.ungraded:
                return
            yield from graded.grade(stop=options.early_stop and not self.written)

    def _readings(self) -> list[Reading]:
        """What to answer from: the best passage, all relevant ones together, each other one."""
        run, relevant = self.run, self.graded.relevant
        singles = [Reading(run.language, (chunk,)) for chunk in relevant]
        if self.graded.ungraded:
            return singles[:1]
        together = run.tools.fitting(relevant, run.tools.room(run.question), passage_at)
        joint = [Reading(run.language, tuple(together))] if len(together) > 1 else []
        # The first has been tried where it was enough to stop at.
        return [*([] if self.written else singles[:1]), *joint, *singles[1:]]

    def _draft(
        self, reading: Reading, attributor: Attributor
    ) -> Generator[Step, None, DraftAnswer]:
        run = self.run
        # Another passage may say the same: what was read is what is cited.
        numbers = tuple(1 + self.graded.relevant.index(chunk) for chunk in reading.chunks)
        closest = partial(closest_sentences, attributor, numbers, run.question)
        pointer = self.graded.pointers.get(reading.chunks[0].chunk.id)
        looked_at: Sequence[PointedSentence] = ()
        if pointer and len(numbers) == 1 and run.unsupported == "mark":
            (number,), (passage,) = numbers, reading.chunks
            looked_at, seconds = timed(
                partial(pointed, run.question, number, passage, attributor, pointer, run.language)
            )
            if looked_at:
                yield step_of(number, looked_at, seconds)
        states = Passages(run.question, self.graded.relevant, run.tools.tokenize).stands_in
        pieces = iter([(yield from self._write(reading))])
        written = "".join(corrected(pieces, looked_at, closest, run.question, run.echo, states))
        refusal = render("refusal", run.language)
        stream = CitedStream(attributor.only(numbers, alone=True), run.question, refusal)
        for _ in stream.checked([written]):  # it is shown once it has been graded
            pass
        statements = tidy(stream.statements)
        text = words(statements)
        if not any(map(str.isalnum, text)) or refuses(text):
            return DraftAnswer((), "no support", 1.0)
        statements = with_citation(statements, attributor, numbers)
        statements = yield from self._check(reading, statements, looked_at)
        if self.unchecked and self.options.strict:
            return DraftAnswer((), "no support", 1.0)
        draft = DraftAnswer(statements, "partially supported", UNREAD_UTILITY, numbers)
        ratings = {statement.rating for statement in statements} - {None}
        if ratings:  # else no time was left to grade it
            rating = self._rating(draft.support)
            if rating == "fully supported" and "no support" in ratings:
                rating = "partially supported"
            yield run.step("support", draft.support, rating=rating)
            draft = replace(draft, rating=rating)
        if not run.budget.allows("utility", like="support of a sentence"):
            yield run.step("budget", UNREAD_UTILITY, skipped="utility")
            return draft
        grade, seconds = timed(partial(run.grader.utility, run.question, text, reading))
        yield run.graded("utility", grade, seconds)
        return replace(draft, utility=grade.value)

    def _write(self, reading: Reading) -> Generator[Step, None, str]:
        run, question = self.run, self.run.question.strip()
        task = run.tools.wording.render("write_from_passages", run.language, question=question)
        options = replace(run.tools.generation, keep=1)
        pieces = self._writing(reading.messages(task), options, FOR_THE_CHECKS)
        written, seconds = timed(partial("".join, pieces))
        # A server whose template opens the thought sends only its end.
        text = written.rpartition("</think>")[2].strip()
        if self.cut_short and not text.endswith(_SENTENCE_ENDS):
            whole = split_sentences(text)[:-1]
            text = text[: whole[-1].end] if whole else ""
        count = len(reading.chunks)
        yield run.step("write", seconds=seconds, passages=count, cut_short=self.cut_short)
        return text

    def _writing(
        self, messages: Sequence[Message], options: Options, reserve: float
    ) -> Iterator[str]:
        """What the model writes until only this share of the budget is left."""
        run, self.cut_short = self.run, False
        with closing(run.tools.llm.stream(messages, options)) as stream:  # type: ignore[type-var]
            for piece in stream:
                yield piece
                if run.budget.is_down_to(reserve):
                    self.cut_short = True
                    return

    def _check(
        self, reading: Reading, statements: Statements, looked_at: Sequence[PointedSentence]
    ) -> Generator[Step, None, Statements]:
        """What can be said without the model comes first, as in standard RAG."""
        run = self.run
        # A row is told with the names of its columns, and does not stand so in its passage.
        sure = [sentence for sentence in looked_at[:1] if sentence.is_sure]
        told = [(sentence.text, sentence.citation) for sentence in sure]
        passages = Passages(run.question, self.graded.relevant, run.tools.tokenize, lambda _: told)
        citations, rated = citations_of(statements), list(statements)
        spoken = [at for at, statement in enumerate(statements) if statement.has_words]
        for number, at in enumerate(spoken):
            statement = statements[at]
            if finding := passages.finding(statement, citations):
                rated[at] = finding.of(statement)
                yield Step("support of a sentence", {"rating": finding.rating}, finding.share, 0.0)
                continue
            if not run.budget.allows("support of a sentence"):
                yield run.step("budget", skipped="sentences", count=len(spoken) - number)
                self.unchecked = True
                break
            text = statement_of(statement.text)
            grade, seconds = timed(partial(run.grader.support, run.question, text, reading))
            rating = self._rating(grade.value)
            yield run.graded("support of a sentence", grade, seconds, rating=rating)
            rated[at] = replace(statement, rating=rating, share=grade.value)
        return tuple(rated)

    def _rating(self, probability: float) -> Rating:
        if probability >= self.options.min_support:
            return "fully supported"
        if probability >= self.options.min_partial_support:
            return "partially supported"
        return "no support"

    def _good(self, draft: DraftAnswer) -> bool:
        """Whether no other answer needs to be tried."""
        supported = draft.rating == "fully supported"
        return supported and draft.utility >= self.options.good_utility

    def without_documents(self) -> Pieces:
        """What is said where the documents are not needed, or do not hold the answer."""
        run = self.run
        if run.budget.is_down_to(0.0) or (self.unchecked and self.options.strict):
            yield run.step("budget", skipped="answer")
            yield own_sentence("out_of_time", run.language)
            return
        if self.options.strict:
            yield own_sentence("refusal", run.language)
            return
        started = time.perf_counter()
        messages = [
            Message("system", run.tools.wording.render("without_documents", run.language)),
            Message("user", run.question.strip()),
        ]
        # There is nothing to cite: whatever marker the model writes is invented.
        stream = CitedStream(run.tools.attributor(()), run.question, "")
        written = self._writing(messages, run.tools.generation, 0.0)
        yield from not_from_documents(stream.checked(written), run.language)
        seconds = time.perf_counter() - started
        yield run.step("write", seconds=seconds, passages=0, cut_short=self.cut_short)


def passage_at(_: int, hit: ScoredChunk) -> str:
    """A passage as a prompt shows it that names no number."""
    return as_read(hit)
