"""Standard RAG: retrieve, read until the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial

from localrag.prompts import render
from localrag.rag.base import Piece, Pipeline, Toolkit, finished, timed
from localrag.rag.citations import CitedStream, without_markers
from localrag.rag.confidence import confidence
from localrag.rag.grading import Grader
from localrag.rag.reading import Bounds, Doubt, Evidence, PassageReader, passage_of
from localrag.rag.refusals import refuses
from localrag.text.language import answer_language
from localrag.types import Citation, Step


class StandardRAG(Pipeline):
    """Reads passages until they hold the answer, and writes it from them with citations.

    An answer comes as it is written; one that the passages may not hold comes in one piece, once
    the model has graded how far they bear it out.
    """

    def __init__(self, tools: Toolkit, grader: Grader, bounds: Bounds) -> None:
        self._tools = tools
        self._grader = grader
        self._bounds = bounds
        self._reader = PassageReader(grader, tools.wording, bounds)

    def _pieces(self, question: str) -> Iterator[Piece]:
        language = answer_language(question)
        refusal = render("refusal", language)
        found = yield from self._tools.find(question)
        chunks = self._tools.fitting(found, self._tools.room(question), passage_of)
        cited: tuple[Citation, ...] = ()
        evidence = yield from self._reader.read(question, chunks, language)
        if evidence:
            attributor = self._tools.attributor(chunks).only(evidence.numbers)
            citations = CitedStream(attributor, question, refusal)
            text = ""
            for piece in self._written(question, evidence, citations):
                text += piece if isinstance(piece, str) else ""
                yield piece
            if text and not text.strip(" \n。.").startswith(refusal.strip(" \n。.")):
                cited = citations.citations
            if not text:
                yield refusal
        else:
            yield refusal
        yield finished(question, chunks, cited, grounded=bool(cited))

    def _written(
        self, question: str, evidence: Evidence, citations: CitedStream
    ) -> Iterator[str | Step]:
        started = time.perf_counter()
        options = replace(self._tools.generation, keep=evidence.keep)
        pieces = self._tools.llm.stream(evidence.messages, options)
        if evidence.doubt:
            draft = "".join(pieces)
            yield Step("write", {"passages": 1}, None, time.perf_counter() - started)
            if not (yield from self._borne_out(question, draft, evidence.doubt)):
                return
            pieces = iter([draft])
        for piece in pieces:
            yield from citations.feed(piece)
        yield from citations.finish()
        if not evidence.doubt:
            values = {"passages": len(evidence.numbers)}
            yield Step("write", values, None, time.perf_counter() - started)
        values = {
            "cited": len(citations.citations),
            "removed": len(citations.removed),
            "added": len(citations.added),
        }
        yield Step("check citations", values, None, 0.0)

    def _borne_out(self, question: str, draft: str, doubt: Doubt) -> Generator[Step, None, bool]:
        """Whether the passage holds the answer, as its relevance and the draft say together."""
        statement = without_markers(draft).strip()
        ask = partial(self._grader.support, question, statement, doubt.reading)
        grade, seconds = timed(ask)
        sure = confidence(question, doubt.reading.chunks[0], doubt.relevance, grade.value)
        held = not refuses(draft) and sure >= self._bounds.min_answerable
        yield Step("answerable", {"answer": held}, sure, seconds)
        return held
