"""Standard RAG: retrieve, decide whether the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

from localrag.documents.tables import shown_text
from localrag.prompts import PromptLanguage, render
from localrag.prompts.own import Wording
from localrag.rag.base import Piece, Pipeline, Toolkit, finished, timed
from localrag.rag.citations import CitedStream, hide_labels, hide_markers
from localrag.rag.grading import Grader
from localrag.text.language import answer_language
from localrag.types import Citation, Message, ScoredChunk, Step

Prompt = Callable[[str], list[Message]]
"""A task -> the messages that set it, behind the passages and the question."""


class StandardRAG(Pipeline):
    """Reads the k best passages in one prompt and answers from them with citations.

    Before writing, the model chooses whether the passages hold the answer, after the same
    prefix, which costs only the few tokens of that question. An answer comes as it is written.
    """

    def __init__(self, tools: Toolkit, grader: Grader, min_answerable: float) -> None:
        self._tools = tools
        self._grader = grader
        self._min_answerable = min_answerable

    def _pieces(self, question: str) -> Iterator[Piece]:
        language = answer_language(question)
        refusal = render("refusal", language)
        found = yield from self._tools.find(question)
        chunks = self._tools.fitting(found, self._tools.room(question), _passage)
        cited: tuple[Citation, ...] = ()
        prompt = partial(_prompt, self._tools.wording, question, chunks, language)
        gate = gate_prompt(self._tools.wording, question, chunks, language)
        if chunks and (yield from self._answerable(gate, language)):
            citations = CitedStream(self._tools.attributor(chunks), question, refusal)
            text = ""
            for piece in self._write(prompt, language, citations):
                text += piece if isinstance(piece, str) else ""
                yield piece
            if not text.strip(" \n。.").startswith(refusal.strip(" \n。.")):
                cited = citations.citations
        else:
            yield refusal
        yield finished(question, chunks, cited, grounded=bool(cited))

    def _answerable(
        self, messages: Sequence[Message], language: PromptLanguage
    ) -> Generator[Step, None, bool]:
        grade, seconds = timed(lambda: self._grader.answerable(messages, language))
        answerable = grade.value >= self._min_answerable
        score = None if grade.unread else grade.value
        yield Step("answerable", {"answer": answerable, **grade.told()}, score, seconds)
        return answerable

    def _write(
        self, prompt: Prompt, language: PromptLanguage, citations: CitedStream
    ) -> Iterator[str | Step]:
        # A small model that is told how to refuse does so when it need not, and copies whatever
        # example of a marker it is shown; where the logits have decided, neither is asked of it.
        wording = self._tools.wording
        if not self._grader.reads_logits:
            task = wording.render("answer_or_refuse", language, refusal=render("refusal", language))
        else:
            task = wording.render("answer", language)
        started = time.perf_counter()
        for piece in self._tools.llm.stream(prompt(task), self._tools.generation):
            yield from citations.feed(piece)
        yield from citations.finish()
        yield Step("write", {}, None, time.perf_counter() - started)
        values = {
            "cited": len(citations.citations),
            "removed": len(citations.removed),
            "added": len(citations.added),
        }
        yield Step("check citations", values, None, 0.0)


def gate_prompt(
    wording: Wording, question: str, chunks: Sequence[ScoredChunk], language: PromptLanguage
) -> list[Message]:
    """The prompt that asks whether the passages hold the answer."""
    return _prompt(wording, question, chunks, language, render("answerable", language))


def _prompt(
    wording: Wording,
    question: str,
    chunks: Sequence[ScoredChunk],
    language: PromptLanguage,
    task: str,
) -> list[Message]:
    passages = "\n\n".join(_passage(number, each) for number, each in enumerate(chunks, 1))
    # Passages first and the task last: both tasks share all that was read before it.
    body = render("passages", language, passages=passages, question=question.strip())
    system = wording.render("system", language)
    return [Message("system", system), Message("user", f"{body}\n\n{task}")]


def _passage(number: int, found: ScoredChunk) -> str:
    chunk = found.chunk
    heading = f" ({' '.join(hide_markers(chunk.heading).split())})" if chunk.heading else ""
    return f"[{number}]{heading}\n{hide_labels(hide_markers(shown_text(chunk)))}"
