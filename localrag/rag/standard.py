"""Standard RAG: retrieve, decide whether the passages hold the answer, write it, check it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from localrag.errors import UsageError
from localrag.models.embeddings.base import Embedder
from localrag.models.llms.base import LLM, Options
from localrag.models.llms.choices import Chooser
from localrag.prompts import YES_NO, PromptLanguage, render
from localrag.prompts.own import Wording
from localrag.rag.base import OnStep, Retrieve, timed, unheard
from localrag.rag.citations import (
    Attributor,
    CitedStream,
    PageOf,
    Tokenize,
    hide_labels,
    hide_markers,
)
from localrag.rerankers.base import Reranking
from localrag.text.language import answer_language
from localrag.types import Answer, Message, ScoredChunk, Step

PROMPT_OVERHEAD = 256
"""Tokens kept free for the system text, the task and the chat template."""


@dataclass(frozen=True, slots=True)
class StandardOptions:
    """How to answer; see `AnswerSettings` for what each means to a person."""

    k: int
    min_answerable: float
    generation: Options
    wording: Wording = field(default_factory=Wording)


class StandardRAG:
    """Reads the k best passages in one prompt and answers from them with citations.

    Before writing, the model chooses whether the passages hold the answer, after the same
    prefix, which costs only the few tokens of that question.
    """

    def __init__(
        self,
        retrieve: Retrieve,
        llm: LLM,
        chooser: Chooser,
        tokenize: Tokenize,
        embedder: Embedder,
        page_of: PageOf,
        options: StandardOptions,
        reranking: Reranking | None = None,
    ) -> None:
        self._retrieve = retrieve
        self._llm = llm
        self._chooser = chooser
        self._tokenize = tokenize
        self._embedder = embedder
        self._page_of = page_of
        self._options = options
        self._reranking = reranking

    def stream(self, question: str, on_step: OnStep = unheard) -> Iterator[str | Answer]:
        """Pieces of the answer as they come, and last of all the finished `Answer`.

        `on_step` hears each step as it is done. Raises `UsageError` for an empty question,
        `GenerationError` from the model.
        """
        if not question.strip():
            raise UsageError("The question is empty.", hint="Ask something, in quotes.")
        started = time.perf_counter()
        trace = _Trace(on_step)
        language = answer_language(question)
        refusal = render("refusal", language)

        k, reranking = self._options.k, self._reranking
        depth = max(k, reranking.candidates) if reranking else k
        found, seconds = timed(lambda: self._retrieve(question, depth))
        trace.add(Step("retrieve", {"passages": len(found)}, None, seconds))
        if reranking:
            found, step = reranking.apply(question, found, k)
            trace.add(step)
        contexts = self._fit(found, question)

        citations: CitedStream | None = None
        pieces: list[str] = []
        if not contexts or not self._answerable(question, contexts, language, trace):
            pieces.append(refusal)
            yield refusal
        else:
            attributor = Attributor(contexts, self._tokenize, self._page_of, self._embedder)
            citations = CitedStream(attributor, question, refusal)
            for piece in self._write(question, contexts, language, citations, trace):
                pieces.append(piece)
                yield piece

        text = "".join(pieces).strip()
        refused = citations is None or _says(refusal, text)
        cited = () if refused or citations is None else citations.citations
        yield Answer(
            question=question,
            text=text,
            language=language,
            grounded=bool(cited),
            citations=cited,
            contexts=tuple(contexts),
            trace=tuple(trace.steps),
            seconds=time.perf_counter() - started,
        )

    def _fit(self, found: Sequence[ScoredChunk], question: str) -> list[ScoredChunk]:
        """The best passages that fit into the window beside question and answer."""
        budget = (
            self._llm.context_window
            - self._options.generation.max_tokens
            - PROMPT_OVERHEAD
            - self._llm.count_tokens(question)
        )
        kept: list[ScoredChunk] = []
        for context in found:
            budget -= self._llm.count_tokens(_passage(len(kept) + 1, context))
            if budget < 0:
                break
            kept.append(context)
        return kept

    def _messages(
        self, question: str, contexts: Sequence[ScoredChunk], language: PromptLanguage, task: str
    ) -> list[Message]:
        passages = "\n\n".join(_passage(n, context) for n, context in enumerate(contexts, start=1))
        # Passages first and the task last: both tasks share all that was read before it.
        body = render("passages", language, passages=passages, question=question.strip())
        system = self._options.wording.render("system", language)
        return [Message("system", system), Message("user", f"{body}\n\n{task}")]

    def _answerable(
        self,
        question: str,
        contexts: Sequence[ScoredChunk],
        language: PromptLanguage,
        trace: _Trace,
    ) -> bool:
        messages = self._messages(question, contexts, language, render("answerable", language))
        choice, seconds = timed(lambda: self._chooser.choose(messages, YES_NO[language]))
        if not choice.read:  # the model's own refusal is all there is
            trace.add(Step("answerable", {"answer": True, "unread": True}, None, seconds))
            return True
        answerable = choice[0] >= self._options.min_answerable
        trace.add(Step("answerable", {"answer": answerable}, choice[0], seconds))
        return answerable

    def _write(
        self,
        question: str,
        contexts: Sequence[ScoredChunk],
        language: PromptLanguage,
        citations: CitedStream,
        trace: _Trace,
    ) -> Iterator[str]:
        # A small model that is told how to refuse does so when it need not, and copies whatever
        # example of a marker it is shown; where the logits have decided, neither is asked of it.
        wording = self._options.wording
        if not self._chooser.reads_logits:
            task = wording.render("answer_or_refuse", language, refusal=render("refusal", language))
        else:
            task = wording.render("answer", language)
        messages = self._messages(question, contexts, language, task)
        started = time.perf_counter()
        for piece in self._llm.stream(messages, self._options.generation):
            yield from citations.feed(piece)
        yield from citations.finish()
        trace.add(Step("write", {}, None, time.perf_counter() - started))
        values = {
            "cited": len(citations.citations),
            "removed": len(citations.removed),
            "added": len(citations.added),
        }
        trace.add(Step("check citations", values, None, 0.0))


class _Trace:
    """The steps so far; each is told at once."""

    def __init__(self, on_step: OnStep) -> None:
        self.steps: list[Step] = []
        self._on_step = on_step

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self._on_step(step)


def _passage(number: int, context: ScoredChunk) -> str:
    chunk = context.chunk
    heading = f" ({' '.join(hide_markers(chunk.heading).split())})" if chunk.heading else ""
    return f"[{number}]{heading}\n{hide_labels(hide_markers(chunk.text))}"


def _says(refusal: str, text: str) -> bool:
    return text.strip(" \n。.").startswith(refusal.strip(" \n。."))
