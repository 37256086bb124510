"""Passages as a model may read them: without what they say to the model itself.

Works on what was retrieved, so that rerankers, both ways to answer and the search for quotes
see the same. Where a passage holds no such words nothing is changed, and prompts stay as they
were, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from localrag.rag.base import OnStep, Pipeline, Retrieve, unheard
from localrag.rag.citations import PageOf
from localrag.text.instructions import find_instructions, left, without_instructions
from localrag.text.sentences import Span
from localrag.types import Answer, Chunk, LeftOut, ScoredChunk


class UntrustedPassages:
    """Leaves instructions to models out of passages, and remembers them for the answer.

    For one pipeline and one question at a time.
    """

    def __init__(self, retrieve: Retrieve, page_of: PageOf) -> None:
        self._retrieve = retrieve
        self._page_of = page_of
        self._originals: dict[int, Chunk] = {}
        self._left: dict[int, tuple[Span, ...]] = {}
        self._left_out: dict[tuple[str, int, str], LeftOut] = {}

    def retrieve(self, question: str, k: int) -> list[ScoredChunk]:
        """What is found, without such words; a passage that says nothing else is left out."""
        read = (self._read(found) for found in self._retrieve(question, k))
        return [passage for passage in read if passage is not None]

    def page_of(self, chunk: Chunk, offset: int) -> int:
        """The page of a code point of a passage as it was read."""
        original = self._originals.get(chunk.id)
        if original is None:
            return self._page_of(chunk, offset)
        for start, end in self._left[chunk.id]:
            if offset < end - start:
                return self._page_of(original, start + offset)
            offset -= end - start
        return self._page_of(original, len(original.text))

    def told(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline that reads from `retrieve`, whose answers say what it did not read."""
        return _Told(self, pipeline)

    def begin(self) -> None:
        """A new question."""
        self._originals, self._left, self._left_out = {}, {}, {}

    def finished(self, answer: Answer) -> Answer:
        """The answer with passages as they stand in their documents, and what was left out."""
        contexts = tuple(
            replace(context, chunk=self._originals.get(context.chunk.id, context.chunk))
            for context in answer.contexts
        )
        return replace(answer, contexts=contexts, left_out=tuple(self._left_out.values()))

    def _read(self, found: ScoredChunk) -> ScoredChunk | None:
        chunk = found.chunk
        spans, heading = find_instructions(chunk.text), without_instructions(chunk.heading)
        if not spans and heading == chunk.heading:
            return found
        if heading != chunk.heading:
            self._note(found, chunk.first_page, chunk.heading)
        for start, end in spans:
            self._note(found, self._page_of(chunk, start), chunk.text[start:end])
        stays = left(chunk.text, spans)
        self._originals[chunk.id], self._left[chunk.id] = chunk, stays
        text = "".join(chunk.text[start:end] for start, end in stays)
        return replace(found, chunk=replace(chunk, text=text, heading=heading)) if text else None

    def _note(self, found: ScoredChunk, page: int, text: str) -> None:
        noted = LeftOut(found.chunk.id, found.source, page, text)
        # Neighbours share sentences.
        self._left_out.setdefault((noted.source, noted.page, noted.text), noted)


class _Told:
    """A pipeline whose answers say what it did not read."""

    def __init__(self, passages: UntrustedPassages, pipeline: Pipeline) -> None:
        self._passages = passages
        self._pipeline = pipeline

    def stream(self, question: str, on_step: OnStep = unheard) -> Iterator[str | Answer]:
        """As `Pipeline`."""
        self._passages.begin()
        with closing(self._pipeline.stream(question, on_step)) as pieces:  # type: ignore[type-var]
            for piece in pieces:
                yield self._passages.finished(piece) if isinstance(piece, Answer) else piece
