"""One library with its models, for any number of questions, one after the other or side by side.

What a question asks for comes with it (`AskOptions`); nothing that differs between two callers
is kept here. Models are loaded when they are first needed, and kept. Knows nothing about adding
documents, nor about how anything is shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from localrag import factory, hosted
from localrag.config.settings import Settings, with_reranker
from localrag.errors import UsageError
from localrag.library.catalogue.filters import Filter
from localrag.library.library import Library
from localrag.library.records import ChunkIds
from localrag.rag.base import OnStep, unheard
from localrag.rag.conversation import Turn, standalone
from localrag.rag.filtered import nothing_allowed, with_steps
from localrag.types import Answer, Chunk, ScoredChunk, Step

if TYPE_CHECKING:
    from localrag.models.embeddings.base import Embedder
    from localrag.prompts.own import Wording
    from localrag.rag.base import Pipeline, Retrieve
    from localrag.rerankers.base import Reranking
    from localrag.retrieval.base import Retriever
    from localrag.text.tokenize import Tokenizer

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What comes with one question; None takes what the settings say.

    `k` passages are listed by a search, or read for an answer. `mode` is "standard" or
    "self-rag"; `strict` and `budget` (seconds) are Self-RAG's. `rerank` and `expand` name kinds
    of the settings. `history` holds earlier turns, oldest first: a follow-up is rewritten in
    the light of the last one.
    """

    k: int | None = None
    mode: str | None = None
    strict: bool | None = None
    budget: float | None = None
    rerank: str | None = None
    expand: str | None = None
    filter: Filter | None = None
    history: Sequence[Turn] = ()


@dataclass(slots=True)
class _Loaded:
    """What has been loaded so far."""

    embedder: Embedder | None = None
    model: factory.Model | None = None
    rerankings: dict[object, Reranking | None] = field(default_factory=dict)


class Engine:
    """Searches a library and answers from it. May be used from several threads; close it.

    The language model does one thing at a time: calls to it wait for each other.
    """

    def __init__(
        self,
        library: Library,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self.library = library
        self.settings = settings
        self._loaded = _Loaded(embedder)
        self._loading = threading.RLock()

    def close(self) -> None:
        """Free the models and close the library."""
        with self._loading:
            if self._loaded.model is not None:
                self._loaded.model.close()
            self._loaded = _Loaded()
        self.library.close()

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded on first use."""
        with self._loading:
            if self._loaded.embedder is None:
                models = factory.make_models()
                self._loaded.embedder = factory.make_embedder(self.settings, models)
            return self._loaded.embedder

    @property
    def model(self) -> factory.Model:
        """The language model, loaded on first use."""
        with self._loading:
            if self._loaded.model is None:
                models = factory.make_models()
                self._loaded.model = factory.make_model(self.settings, models, self.library)
            return self._loaded.model

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """How texts are cut into terms."""
        return factory.make_tokenizer(self.settings)

    @cached_property
    def _wording(self) -> Wording:
        return factory.make_wording(self.settings)

    def applied(self, options: AskOptions) -> Settings:
        """The settings as they count for one question. Raises `UsageError`."""
        settings = with_reranker(self.settings, options.rerank)
        answer = _changed(settings.answer, k=options.k, mode=options.mode)
        if (options.strict or options.budget) and answer.mode != "self-rag":
            raise UsageError(
                "--strict and --budget need --mode self-rag.",
                hint="Choose that mode, or leave them out.",
            )
        return msgspec.structs.replace(
            settings,
            answer=answer,
            retrieval=_changed(settings.retrieval, k=options.k, expansion=options.expand),
            self_rag=_changed(
                settings.self_rag, strict=options.strict, budget_seconds=options.budget
            ),
        )

    def search(
        self, question: str, options: AskOptions = AskOptions(), on_step: OnStep = unheard
    ) -> list[ScoredChunk]:
        """The k best passages, best first, each with the rank that each leg gave it.

        Reranked where options or settings say so; expanded by the language model where the
        options say so. `on_step` hears each step as it is done.
        """
        settings = self.applied(options)
        k, reranking = settings.retrieval.k, self._reranking(settings)
        expanded = settings if options.expand else _unexpanded(settings)
        depth = max(k, reranking.candidates) if reranking else k
        found = self._retrieve(question, depth, expanded, options.filter, on_step)
        if reranking is None:
            return found
        ranked, step = reranking.apply(question, found, k)
        on_step(step)
        return ranked

    def retrieve(self, question: str, k: int, wanted: Filter | None = None) -> list[ScoredChunk]:
        """The k best passages as the retrievers rank them, never reranked or expanded."""
        return self._retrieve(question, k, _unexpanded(self.settings), wanted, unheard)

    def stream(
        self, question: str, options: AskOptions = AskOptions(), on_step: OnStep = unheard
    ) -> Iterator[str | Answer]:
        """Pieces of the answer as they are written, and last of all the finished `Answer`.

        Only what the filter allows is read; where it allows nothing, the answer says so and no
        model is loaded. `on_step` hears each step as it is done. Closing the iterator stops the
        model. Raises `UsageError` for an empty question.
        """
        settings = self.applied(options)
        question = self.standalone(question, options.history)
        steps: list[Step] = []

        def before(step: Step) -> None:
            steps.append(step)
            on_step(step)

        wanted = hosted.sendable(settings, self.library, options.filter, before)
        allowed = self._allowed(wanted, before)
        if allowed is not None and not len(allowed):
            yield from nothing_allowed(question, steps)
            return
        pipeline = self._pipeline(
            settings,
            lambda text, k: self._found(text, k, settings, wanted, allowed, before),
            self._reranking(settings),
        )
        with closing(pipeline.stream(question, on_step)) as pieces:  # type: ignore[type-var]
            for piece in pieces:
                yield with_steps(piece, steps) if isinstance(piece, Answer) else piece

    def ask(
        self, question: str, options: AskOptions = AskOptions(), on_step: OnStep = unheard
    ) -> Answer:
        """The whole answer at once; see `stream`."""
        return _last(self.stream(question, options, on_step))

    def answer_from(
        self,
        question: str,
        retrieve: Retrieve,
        options: AskOptions = AskOptions(),
        on_step: OnStep = unheard,
        *,
        rerank: bool = True,
    ) -> Answer:
        """The answer from what `retrieve` brings in place of the search."""
        settings = self.applied(options)
        reranking = self._reranking(settings) if rerank else None
        return _last(self._pipeline(settings, retrieve, reranking).stream(question, on_step))

    def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """The question as it can be searched for by itself; unchanged without a history."""
        if not history:
            return question
        return standalone(question, history[-1], self.model.llm, self.tokenizer)

    def reranking(self, kind: str) -> Reranking | None:
        """What reorders passages in that way. Raises `ModelNotFoundError` where none is pulled."""
        return self._reranking(with_reranker(self.settings, kind))

    def _retrieve(
        self,
        question: str,
        k: int,
        settings: Settings,
        wanted: Filter | None,
        on_step: OnStep,
    ) -> list[ScoredChunk]:
        if not question.strip():
            raise UsageError("The question is empty.", hint="Ask something, in quotes.")
        allowed = self._allowed(wanted, on_step)
        return self._found(question, k, settings, wanted, allowed, on_step)

    def _allowed(self, wanted: Filter | None, on_step: OnStep) -> ChunkIds | None:
        """The chunks that a filter leaves; None: all, and looking them up costs nothing."""
        if wanted is None or wanted == Filter():
            return None
        started = time.perf_counter()
        allowed, total = self.library.chunk_ids(wanted), self.library.counts().chunks
        seconds = time.perf_counter() - started
        on_step(Step("filter", {"allowed": len(allowed), "total": total}, None, seconds))
        return allowed

    def _found(
        self,
        question: str,
        k: int,
        settings: Settings,
        wanted: Filter | None,
        allowed: ChunkIds | None,
        on_step: OnStep,
    ) -> list[ScoredChunk]:
        hits = self._retriever(settings, allowed, on_step).retrieve(question, k)
        chunks = self.library.chunks([hit.chunk_id for hit in hits])
        sources = self.library.sources_of({c.document_id for c in chunks.values()}, wanted)
        return [
            ScoredChunk(chunk, hit.score, sources[chunk.document_id], hit.ranks)
            for hit in hits
            # A document may have been removed by another process since it was found.
            if (chunk := chunks.get(hit.chunk_id)) and chunk.document_id in sources
        ]

    def _retriever(
        self, settings: Settings, allowed: ChunkIds | None, on_step: OnStep
    ) -> Retriever:
        embedder = self.embedder
        self.library.expect(factory.identity_of(embedder, self.settings))
        expand = factory.Expand(lambda: self.model, on_step)
        return factory.make_retriever(
            settings, self.library, embedder, self.tokenizer, allowed=allowed, expand=expand
        )

    def _pipeline(
        self, settings: Settings, retrieve: Retrieve, reranking: Reranking | None
    ) -> Pipeline:
        return factory.make_pipeline(
            settings,
            self.model,
            self.embedder,
            retrieve,
            self._page_of,
            self.tokenizer,
            self._wording,
            reranking,
        )

    def _reranking(self, settings: Settings) -> Reranking | None:
        with self._loading:
            known = self._loaded.rerankings
            if settings.reranker not in known:
                known[settings.reranker] = factory.make_reranking(
                    settings, factory.make_models(), lambda: self.model
                )
            return known[settings.reranker]

    def _page_of(self, chunk: Chunk, offset: int) -> int:
        """The page on which a code point of a chunk stands."""
        position = chunk.start + offset
        for number, start, end in self.library.page_spans(chunk.document_id):
            if start <= position <= end:
                return number
        return chunk.first_page


def open_engine(
    directory: Path,
    settings: Settings,
    *,
    create: bool,
    on_damage: Callable[[Path], None] = lambda _: None,
) -> Engine:
    """The engine over the library in `directory`; with `create` it is made where there is none.

    `on_damage` is told which derived index was damaged and is being built anew. Raises
    `LibraryNotFoundError` without `create`, `LibraryDamagedError`.
    """
    embedder = factory.make_embedder(settings, factory.make_models()) if create else None
    library = Library.open(
        directory.expanduser(),
        create=create,
        embedding=factory.identity_of(embedder, settings) if embedder else None,
        indexes=factory.make_indexes(settings),
        note=on_damage,
    )
    return Engine(library, settings, embedder=embedder)


def _changed(section: S, **values: object) -> S:
    """A section of the settings with those values that are given, checked as in the file."""
    given = {name: value for name, value in values.items() if value is not None}
    if not given:
        return section
    try:
        return msgspec.convert(msgspec.to_builtins(section) | given, type(section))
    except msgspec.ValidationError as error:
        raise UsageError(
            "That cannot be asked for: {reason}.",
            hint="See `localrag config` for what is allowed.",
            reason=error,
        ) from error


def _unexpanded(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings, retrieval=msgspec.structs.replace(settings.retrieval, expansion="none")
    )


def _last(pieces: Iterator[str | Answer]) -> Answer:
    with closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            if isinstance(piece, Answer):
                return piece
    raise AssertionError("a stream ends with its answer")
