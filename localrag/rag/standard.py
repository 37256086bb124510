"""Standard RAG: retrieve, read until the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from localrag.prompts import PromptLanguage, render
from localrag.rag import parts
from localrag.rag.base import Piece, Pipeline, Toolkit, finished
from localrag.rag.both_sides import Both
from localrag.rag.citations import Attributor, CitedStream
from localrag.rag.faithfulness import (
    Checked,
    Passages,
    Unsupported,
    asking,
    checked,
)
from localrag.rag.grading import Grader
from localrag.rag.reading import Bounds, Evidence, PassageReader, passage_of
from localrag.rag.refusals import refuses
from localrag.rag.verdicts import borne_out
from localrag.text.language import answer_language
from localrag.types import ScoredChunk, Step


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
        answer = Checked("")
        if evidence:
            answer = yield from self._answered(question, evidence, chunks, language)
        if not answer.text:
            yield render("refusal", language)
        if not answer.text or refuses(answer.text):
            missing = ()
        yield from parts.lacking(missing, language)
        yield finished(
            question,
            chunks,
            answer.citations,
            grounded=answer.grounded,
            support=answer.support,
            missing=missing,
        )

    def _answered(
        self,
        question: str,
        evidence: Evidence,
        chunks: Sequence[ScoredChunk],
        language: PromptLanguage,
    ) -> Generator[str | Step, None, Checked]:
        """Write an answer and check it; without text where nothing in it is borne out."""
        numbered = not evidence.keep
        both = Both.among(question, chunks, evidence.numbers, language, self._tools, numbered)
        newest = both.newest(evidence.numbers)
        if newest and evidence.keep and len(evidence.numbers) == 1:
            evidence = self._reader.alone(question, newest, chunks, language)
        yield from both.steps
        evidence = replace(evidence, messages=both.told(evidence.messages))
        attributor = self._tools.attributor(chunks)
        refusal = render("refusal", language)
        held = evidence.keep > 0  # else the prompt shows all passages, with their numbers
        citations = CitedStream(attributor.only(evidence.numbers, held=held), question, refusal)
        shown, text = self._unsupported == "mark", ""
        for piece in self._written(question, evidence, citations, attributor):
            if isinstance(piece, Step):
                yield piece
                continue
            piece = piece if text else piece.lstrip()
            text += piece
            if shown:
                yield piece
        if refuses(text) or not text:
            if not shown:
                yield text
            return Checked(text)
        passages = Passages(question, chunks, self._tools.tokenize)
        ask = asking(question, evidence, text, chunks, self._tools, self._grader, self._unsupported)
        answer = yield from checked(text, citations.citations, passages, ask)
        if not shown:
            strict = self._unsupported == "remove unchecked"
            answer = answer.without_unsupported(unchecked=strict)
            if strict:
                answer = answer.cited(attributor, evidence.numbers)
            yield answer.text
        whole = both.completed(answer, attributor.cite)
        if added := whole.text[len(answer.text) :]:
            yield added
        return whole

    def _written(
        self, question: str, evidence: Evidence, citations: CitedStream, attributor: Attributor
    ) -> Iterator[str | Step]:
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
