"""Standard RAG: retrieve, read until the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from localrag.languages import LanguageCode
from localrag.prompts import render
from localrag.rag import parts
from localrag.rag.base import Piece, Pipeline, Toolkit, finished
from localrag.rag.both_sides import ConflictReporter
from localrag.rag.citations import Attributor, CitedStream, with_citation
from localrag.rag.faithfulness import Passages, Unsupported, asking, checked
from localrag.rag.grading import Grader
from localrag.rag.reading import Bounds, Evidence, PassageReader, passage_of
from localrag.rag.refusals import refuses
from localrag.rag.statements import (
    Statements,
    is_grounded,
    own_sentence,
    uncited,
    without_unsupported,
    words,
)
from localrag.rag.verdicts import borne_out
from localrag.text.language import answer_language
from localrag.types import ScoredChunk, Statement, Step


class StandardRAG(Pipeline):
    """Reads passages until they hold the answer, and writes it from them with citations.

    An answer comes as it is written, or once it has been checked, where something is to be removed.
    """

    def __init__(
        self,
        tools: Toolkit,
        grader: Grader,
        bounds: Bounds,
        unsupported: Unsupported = "mark",
    ) -> None:
        self._tools = tools
        self._grader = grader
        self._unsupported = unsupported
        self._reader = PassageReader(tools, grader, bounds)

    def _pieces(self, question: str) -> Iterator[Piece]:
        language = answer_language(question)
        passages = yield from self._tools.find(question)
        chunks = self._tools.fitting(passages, self._tools.room(question), passage_of)
        evidence = yield from self._reader.read(question, chunks, language)
        missing: parts.Parts = ()
        if evidence is None and chunks and self._grader.reads_logits:
            reading = parts.read(question, chunks, language, self._tools, self._reader)
            evidence, chunks, missing = yield from reading
        answer: Statements = ()
        if evidence:
            answer = yield from self._answered(question, evidence, chunks, language)
        if not answer:
            answer = (own_sentence("refusal", language),)
            yield answer[0]
        if refuses(words(answer)):
            missing = ()
        lacking = parts.lacking(missing, language)
        yield from lacking
        grounded = is_grounded(answer)
        yield finished(question, (*answer, *lacking), chunks, grounded=grounded, missing=missing)

    def _answered(
        self,
        question: str,
        evidence: Evidence,
        chunks: Sequence[ScoredChunk],
        language: LanguageCode,
    ) -> Generator[Statement | Step, None, Statements]:
        """Write an answer and check it; none where nothing in it is supported."""
        numbered = not evidence.keep
        both = ConflictReporter.among(
            question, chunks, evidence.numbers, language, self._tools, numbered
        )
        newest = both.newest(evidence.numbers)
        if newest and evidence.keep and len(evidence.numbers) == 1:
            evidence = self._reader.alone(question, newest, chunks, language)
        yield from both.steps
        evidence = replace(evidence, messages=both.told(evidence.messages))
        attributor = self._tools.attributor(chunks)
        refusal = render("refusal", language)
        held = evidence.keep > 0  # else the prompt shows all passages, with their numbers
        citations = CitedStream(attributor.only(evidence.numbers, held=held), question, refusal)
        shown, begun = self._unsupported == "mark", False
        for piece in self._written(question, evidence, citations, attributor):
            if isinstance(piece, Statement):
                piece = piece if begun else replace(piece, text=piece.text.lstrip())
                begun = begun or bool(piece.text)
            if shown or isinstance(piece, Step):
                yield piece
        answer = citations.statements
        if refuses(words(answer)) or not begun:
            answer = uncited(answer)
            if not shown:
                yield from answer
            return answer if begun else ()
        passages = Passages(question, chunks, self._tools.tokenize)
        ask = asking(
            question, evidence, answer, chunks, self._tools, self._grader, self._unsupported
        )
        answer = yield from checked(answer, passages, ask)
        if not shown:
            strict = self._unsupported == "remove unchecked"
            answer = without_unsupported(answer, unchecked=strict)
            if strict:
                answer = with_citation(answer, attributor, evidence.numbers)
            yield from answer
        elif answer[-1].rating not in (None, "no support"):
            cited = with_citation(answer, attributor, evidence.numbers)
            if cited is not answer:
                yield Statement("", citations=(replace(cited[-1].citations[-1], at=0),))
            answer = cited
        added = both.added(answer, attributor.cite)
        yield from added
        return (*answer, *added)

    def _written(
        self, question: str, evidence: Evidence, citations: CitedStream, attributor: Attributor
    ) -> Iterator[Statement | Step]:
        started = time.perf_counter()
        options = replace(self._tools.generation, keep=evidence.keep)
        written = self._tools.llm.stream(evidence.messages, options)
        quotation = partial(attributor.closest_sentence, evidence.numbers, question)
        for piece in borne_out(written, quotation):
            yield from citations.feed(piece)
        yield from citations.finish()
        values = {"passages": len(evidence.numbers)}
        yield Step("write", values, None, time.perf_counter() - started)
        values = {
            "cited": len(citations.citations),
            "removed": len(citations.removed),
            "added": len(citations.added),
        }
        yield Step("check citations", values, None, 0.0)
