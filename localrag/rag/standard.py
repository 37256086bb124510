"""Standard RAG: retrieve, read until the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from localrag.prompts import PromptLanguage, render
from localrag.rag import bridges, parts
from localrag.rag.base import Piece, Pipeline, Toolkit, finished
from localrag.rag.both_sides import Both
from localrag.rag.citations import MARKER, CitedStream
from localrag.rag.faithfulness import (
    Checked,
    Passages,
    Unsupported,
    asking,
    checked,
    sentences,
)
from localrag.rag.false_yes import without_false_yes
from localrag.rag.grading import Grader
from localrag.rag.reading import Bounds, Evidence, PassageReader, passage_of
from localrag.rag.refusals import refuses
from localrag.text.language import answer_language
from localrag.text.questions import Parts
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
        # A server would be sent all passages for each part: its model is asked once for the whole.
        apart = self._grader.reads_logits
        asked, found = yield from parts.find(self._tools, question, apart=apart)
        passages = [each.passage for each in found]
        chunks = self._tools.fitting(passages, self._tools.room(question), passage_of)
        holding = partial(self._holding, language)
        answered, likeliest = yield from parts.held(asked, found[: len(chunks)], holding)
        if not asked:
            by = yield from bridges.followed(question, chunks, language, self._tools, self._reader)
            if by:
                asked, answered, chunks = by
        if answered:
            text = parts.to_answer(question, asked, tuple(answered))
            evidence: Evidence | None = self._reader.several(text, answered, chunks, language)
        else:
            evidence = yield from self._reader.read(question, chunks, language, likeliest)
        answer = Checked("")
        missing: Parts = ()
        if evidence:
            answer = yield from self._answered(question, evidence, chunks, language)
        if not answer.text:
            yield render("refusal", language)
        elif not refuses(answer.text):
            answered = {part: held for part, held in answered.items() if part not in answer.lost}
            # "A is older", or a bare "17 pounds": a part that no citation is for gets its own.
            markers = {one.marker for one in answer.citations}
            bare = {part: held for part, held in answered.items() if markers.isdisjoint(held)}
            if bare and not _each_is_cited(answer.text, len(answered)):
                cited = parts.resting_on(self._tools.attributor(chunks), bare)
                yield " " + "".join(f"[{one.marker}]" for one in cited)
                answer = replace(answer, citations=(*answer.citations, *cited))
            missing = parts.missing(asked, answered)
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
        yield from both.steps
        evidence = replace(evidence, messages=both.told(evidence.messages))
        attributor = self._tools.attributor(chunks)
        refusal = render("refusal", language)
        held = evidence.keep > 0  # else the prompt shows all passages, with their numbers
        citations = CitedStream(attributor.only(evidence.numbers, held=held), question, refusal)
        shown, text = self._unsupported == "mark", ""
        for piece in self._written(question, evidence, citations):
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
            answer = answer.without_unsupported(evidence.asked, unchecked=strict)
            if strict:
                answer = answer.cited(attributor, evidence.numbers)
            yield answer.text
        whole = both.completed(answer, attributor.cite)
        if added := whole.text[len(answer.text) :]:
            yield added
        return whole

    def _holding(
        self, language: PromptLanguage, question: str, chunks: Sequence[ScoredChunk]
    ) -> Generator[Step, None, tuple[int, ...]]:
        """The numbers of the passages that hold the answer, from 1."""
        evidence = yield from self._reader.read(question, chunks, language)
        return evidence.numbers if evidence else ()

    def _written(
        self, question: str, evidence: Evidence, citations: CitedStream
    ) -> Iterator[str | Step]:
        started = time.perf_counter()
        options = replace(self._tools.generation, keep=evidence.keep)
        written = self._tools.llm.stream(evidence.messages, options)
        for piece in without_false_yes(written, question):
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


def _each_is_cited(text: str, parts: int) -> bool:
    """Whether there is a sentence for each part, and none without a marker."""
    said = sentences(text)
    return len(said) >= parts and all(MARKER.search(text[start:end]) for start, end in said)
