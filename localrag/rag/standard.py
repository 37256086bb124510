"""Standard RAG: retrieve, read until the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from localrag.prompts import render
from localrag.rag.base import Piece, Pipeline, Toolkit, finished
from localrag.rag.both_sides import Both
from localrag.rag.citations import CitedStream
from localrag.rag.faithfulness import Checked, Passages, Unsupported, asking, checked
from localrag.rag.grading import Grader
from localrag.rag.reading import Bounds, Evidence, PassageReader, passage_of
from localrag.text.language import answer_language
from localrag.types import Step


class StandardRAG(Pipeline):
    """Reads passages until they hold the answer, and writes it from them with citations.

    An answer comes as it is written.
    """

    def __init__(
        self, tools: Toolkit, grader: Grader, bounds: Bounds, unsupported: Unsupported = "mark"
    ) -> None:
        self._tools = tools
        self._grader = grader
        self._unsupported = unsupported
        self._reader = PassageReader(grader, tools.wording, bounds)

    def _pieces(self, question: str) -> Iterator[Piece]:
        language = answer_language(question)
        refusal = render("refusal", language)
        found = yield from self._tools.find(question)
        chunks = self._tools.fitting(found, self._tools.room(question), passage_of)
        answer = Checked("")
        evidence = yield from self._reader.read(question, chunks, language)
        if evidence:
            both = Both.among(question, chunks, evidence.numbers, language, self._tools)
            yield from both.steps
            evidence = replace(evidence, messages=both.told(evidence.messages))
            attributor = self._tools.attributor(chunks)
            citations = CitedStream(attributor.only(evidence.numbers), question, refusal)
            text = ""
            for piece in self._written(evidence, citations):
                if isinstance(piece, Step):
                    yield piece
                    continue
                piece = piece if text else piece.lstrip()
                text += piece
                if self._unsupported == "mark":
                    yield piece
            if text and not text.strip(" \n。.").startswith(refusal.strip(" \n。.")):
                passages = Passages(question, chunks, self._tools.tokenize)
                bounded = self._unsupported == "mark"
                ask = asking(
                    question, evidence, text, chunks, self._tools, self._grader, bounded=bounded
                )
                answer = yield from checked(text, citations.citations, passages, ask)
                if self._unsupported == "remove":
                    answer = answer.without_unsupported()
                    text = answer.text
                    yield text
                answer = yield from both.completed(answer, attributor.cite)
            elif text and self._unsupported == "remove":
                yield text
            if not text:
                yield refusal
        else:
            yield refusal
        grounded, support = answer.grounded, answer.support
        yield finished(question, chunks, answer.citations, grounded=grounded, support=support)

    def _written(self, evidence: Evidence, citations: CitedStream) -> Iterator[str | Step]:
        started = time.perf_counter()
        options = replace(self._tools.generation, keep=evidence.keep)
        for piece in self._tools.llm.stream(evidence.messages, options):
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
