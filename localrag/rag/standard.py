"""Standard RAG: retrieve, read until the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from localrag.prompts import PromptLanguage, render
from localrag.rag import parts
from localrag.rag.base import Piece, Pipeline, Toolkit, finished
from localrag.rag.citations import CitedStream
from localrag.rag.grading import Grader
from localrag.rag.reading import Bounds, Evidence, PassageReader, passage_of
from localrag.text.language import answer_language
from localrag.text.questions import parts_of
from localrag.types import Citation, ScoredChunk, Step


class StandardRAG(Pipeline):
    """Reads passages until they hold the answer, and writes it from them with citations.

    An answer comes as it is written.
    """

    def __init__(self, tools: Toolkit, grader: Grader, bounds: Bounds) -> None:
        self._tools = tools
        self._reader = PassageReader(grader, tools.wording, bounds)

    def _pieces(self, question: str) -> Iterator[Piece]:
        language = answer_language(question)
        refusal = render("refusal", language)
        asked = parts_of(question)
        found = yield from parts.find(self._tools, question, asked)
        passages = [each.passage for each in found]
        chunks = self._tools.fitting(passages, self._tools.room(question), passage_of)
        cited: tuple[Citation, ...] = ()
        holding = partial(self._holding, language)
        answered = yield from parts.held(asked, found[: len(chunks)], holding)
        if answered:
            text = parts.to_answer(question, asked, tuple(answered))
            evidence: Evidence | None = self._reader.several(text, answered, chunks, language)
        else:
            evidence = yield from self._reader.read(question, chunks, language)
        if evidence:
            attributor = self._tools.attributor(chunks).only(evidence.numbers)
            citations = CitedStream(attributor, question, refusal)
            text = ""
            for piece in self._written(evidence, citations):
                text += piece if isinstance(piece, str) else ""
                yield piece
            if not text.strip(" \n。.").startswith(refusal.strip(" \n。.")):
                cited = citations.citations
                if answered and text.strip() and not cited:
                    cited = parts.resting_on(attributor, answered)
                    yield " " + "".join(f"[{one.marker}]" for one in cited)
                yield from parts.lacking(asked, answered, language)
        else:
            yield refusal
        yield finished(question, chunks, cited, grounded=bool(cited))

    def _holding(
        self, language: PromptLanguage, question: str, chunks: Sequence[ScoredChunk]
    ) -> Generator[Step, None, tuple[int, ...]]:
        """The numbers of the passages that hold the answer, from 1."""
        evidence = yield from self._reader.read(question, chunks, language)
        return evidence.numbers if evidence else ()

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
