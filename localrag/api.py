"""The Python API: one class for one library.

    from localrag import LocalRAG

    with LocalRAG.open("mylibrary") as rag:
        rag.add(["papers/"])
        answer = rag.ask("How long is the notice period?")

Models are loaded when they are first needed, and kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from localrag import factory, hosted
from localrag.chunking import passage_text
from localrag.config import RERANKERS, Settings, load_settings, with_mode, with_reranker
from localrag.errors import ModelNotFoundError, UsageError
from localrag.messages import spoken
from localrag.rag.filtered import nothing_allowed, with_steps
from localrag.stores.base import ChunkIds
from localrag.stores.filters import Filter
from localrag.stores.library import PATIENCE, Library
from localrag.stores.locking import OnWait
from localrag.stores.records import LibraryStatus, Removal
from localrag.types import Answer, Chunk, ScoredChunk, Step

if TYPE_CHECKING:
    from localrag.embeddings.base import Embedder
    from localrag.evaluation.comparisons.modes import Asked, Compared, Tell
    from localrag.evaluation.comparisons.rerankers import Comparison
    from localrag.indexing.events import AddReport, Event
    from localrag.indexing.indexer import Indexer
    from localrag.rag.base import Retrieve
    from localrag.rag.conversation import Conversation
    from localrag.rerankers.base import Reranking
    from localrag.retrieval.base import Retriever

AnyPath = str | os.PathLike[str]


def _nothing(_: object) -> None:
    """Tell nobody."""


class LocalRAG:
    """A library of documents, and everything that can be asked of it.

    Open it with `LocalRAG.open` and close it, or use it in a `with` block.
    """

    def __init__(
        self,
        library: Library,
        settings: Settings,
        embedder: Embedder | None = None,
        on_note: Callable[[str], None] = _nothing,
        wrap_model: Callable[[factory.Model], factory.Model] | None = None,
    ) -> None:
        """Callers use `LocalRAG.open`."""
        self._on_note = on_note
        self._wrap_model = wrap_model
        self.library = library
        self.settings = settings
        self._embedder = embedder
        self._model: factory.Model | None = None

    @classmethod
    def open(
        cls,
        directory: AnyPath,
        *,
        settings: Settings | None = None,
        create: bool = True,
        on_damage: Callable[[Path], None] = _nothing,
        on_note: Callable[[str], None] = _nothing,
        wrap_model: Callable[[factory.Model], factory.Model] | None = None,
    ) -> Self:
        """Open the library in `directory`; with `create`, make it on the first `add`.

        `settings` None reads the settings file and the environment. `on_damage` is told
        which derived index was damaged and is being built anew, `on_note` what is not done
        as the settings ask, such as a reranker that does not serve the question's language.
        `wrap_model` puts something around the language model, such as a memory of its outcomes.
        Raises `LibraryNotFoundError` without `create`, `LibraryDamagedError`, `ConfigError`.
        """
        settings = settings or load_settings()
        embedder = factory.make_embedder(settings, factory.make_models()) if create else None
        library = Library.open(
            Path(directory).expanduser(),
            create=create,
            embedding=factory.identity_of(embedder, settings) if embedder else None,
            tokenize=factory.make_tokenizer(settings),
            passage_text=passage_text,
            keyword_engine=settings.keywords.engine,
            note=on_damage,
        )
        return cls(library, settings, embedder, on_note, wrap_model)

    def close(self) -> None:
        """Close the library and free the models."""
        if self._model is not None:
            self._model.close()
            self._model = None
        self.library.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded on first use."""
        if self._embedder is None:
            self._embedder = factory.make_embedder(self.settings, factory.make_models())
        return self._embedder

    @property
    def model(self) -> factory.Model:
        """The language model, loaded on first use."""
        if self._model is None:
            model = factory.make_model(self.settings, factory.make_models(), self.library)
            self._model = self._wrap_model(model) if self._wrap_model else model
        return self._model

    def add(
        self,
        paths: Sequence[AnyPath],
        progress: Callable[[Event], None] = _nothing,
        *,
        prune: bool = False,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> AddReport:
        """Bring the library up to the files at and below `paths`; unchanged ones are skipped.

        Files that cannot be read are in the report's `failed` and stop nothing. With
        `prune`, files of an added folder that are gone are removed from the library.
        Raises `LibraryMismatchError` when the library was built with another embedding
        model, `LibraryLockedError` when another process keeps writing for `timeout`
        seconds, `UsageError` for a path that does not exist.

        >>> report = rag.add(["data/"])
        >>> report.failed
        ()
        """
        return self._indexer.add(
            [Path(path).expanduser() for path in paths],
            progress,
            prune=prune,
            timeout=timeout,
            on_wait=on_wait,
        )

    def search(
        self,
        question: str,
        *,
        k: int | None = None,
        filter: Filter | None = None,  # noqa: A002
        expand: bool = False,
        on_step: Callable[[Step], None] = _nothing,
    ) -> list[ScoredChunk]:
        """The k best passages, best first, each with the rank that each leg gave it.

        The k best of those that `filter` allows. Reranked where the settings say so; with
        `expand`, the language model helps as `retrieval.expansion` says. Otherwise none is
        used. `on_step` is told how many passages the filter left and what was searched.

        >>> hits = rag.search("who invented the perceptron", k=3)
        >>> len(hits)
        3
        """
        k, reranking = k or self.settings.retrieval.k, self._reranking
        if reranking is None:
            return self.retrieve(question, k=k, filter=filter, expand=expand, on_step=on_step)
        depth = max(k, reranking.candidates)
        found = self.retrieve(question, k=depth, filter=filter, expand=expand, on_step=on_step)
        ranked, step = reranking.apply(question, found, k)
        on_step(step)
        return ranked

    def retrieve(
        self,
        question: str,
        *,
        k: int,
        filter: Filter | None = None,  # noqa: A002
        expand: bool = False,
        on_step: Callable[[Step], None] = _nothing,
    ) -> list[ScoredChunk]:
        """The k best passages as the retrievers rank them, never reranked."""
        if not question.strip():
            raise UsageError("The question is empty.", hint="Ask something, in quotes.")
        allowed = self._allowed(filter, on_step)
        return self._found(question, k, filter, allowed, on_step if expand else None)

    def _allowed(self, wanted: Filter | None, tell: Callable[[Step], None]) -> ChunkIds | None:
        """The chunks that a filter leaves; None: all, and looking them up costs nothing."""
        if wanted is None or wanted == Filter():
            return None
        started = time.perf_counter()
        allowed, total = self.library.chunk_ids(wanted), self.library.counts().chunks
        seconds = time.perf_counter() - started
        tell(Step("filter", f"{len(allowed)} of {total} passages", None, seconds))
        return allowed

    def _found(
        self,
        question: str,
        k: int,
        wanted: Filter | None,
        allowed: ChunkIds | None,
        expand: Callable[[Step], None] | None,
    ) -> list[ScoredChunk]:
        retriever = self._retriever
        if allowed is not None or expand:
            retriever = factory.make_retriever(
                self.settings,
                self.library,
                self.embedder,
                allowed=allowed,
                expand=factory.Expand(lambda: self.model, expand) if expand else None,
            )
        hits = retriever.retrieve(question, k)
        chunks = self.library.chunks([hit.chunk_id for hit in hits])
        sources = self.library.sources_of({c.document_id for c in chunks.values()}, wanted)
        return [
            ScoredChunk(chunk, hit.score, sources[chunk.document_id], hit.ranks)
            for hit in hits
            # A document may have been removed by another process since it was found.
            if (chunk := chunks.get(hit.chunk_id)) and chunk.document_id in sources
        ]

    def stream(
        self,
        question: str,
        *,
        filter: Filter | None = None,  # noqa: A002
        on_step: Callable[[Step], None] = _nothing,
    ) -> Iterator[str | Answer]:
        """Pieces of the answer as they are written, and last of all the finished `Answer`.

        Only what `filter` allows is read; where it allows nothing, the answer says so and
        no model is loaded. `on_step` hears each decision as it is made. Closing the iterator
        stops the model.

        >>> *pieces, answer = rag.stream("Who invented the perceptron?")
        >>> "".join(pieces).strip() == answer.text
        True
        """
        steps: list[Step] = []

        def before(step: Step) -> None:
            steps.append(step)
            on_step(step)

        filter = hosted.sendable(self.settings, self.library, filter, before)  # noqa: A001
        allowed = self._allowed(filter, before)
        if allowed is not None and not len(allowed):
            yield from nothing_allowed(question, steps)
            return
        pipeline = factory.make_pipeline(
            self.settings,
            self.model,
            self.embedder,
            lambda text, k: self._found(text, k, filter, allowed, before),
            self._page_of,
            self._reranking,
        )
        with closing(pipeline.stream(question, on_step)) as pieces:  # type: ignore[type-var]
            for piece in pieces:
                yield with_steps(piece, steps) if isinstance(piece, Answer) else piece

    def ask(
        self,
        question: str,
        *,
        filter: Filter | None = None,  # noqa: A002
        on_step: Callable[[Step], None] = _nothing,
    ) -> Answer:
        """The whole answer at once, with citations, contexts and the trace of every step.

        Only what `filter` allows is read. `on_step` hears each decision as it is made.

        >>> answer = rag.ask("Who invented the perceptron?")
        >>> answer.grounded
        True
        """
        with closing(self.stream(question, filter=filter, on_step=on_step)) as pieces:  # type: ignore[type-var]
            for piece in pieces:
                if isinstance(piece, Answer):
                    return piece
        raise AssertionError("a stream ends with its answer")

    def compare(
        self,
        question: str,
        *,
        reference: str = "",
        k: int | None = None,
        progress: Callable[[str], None] = _nothing,
    ) -> Comparison:
        """The same question through every reranker: passages, ranks, answers, times.

        With a `reference` answer the language model grades passages and answers by it.
        `progress` hears the name of each reranker as its turn comes. A cross-encoder is
        left out, with a note to `on_note`, where none has been pulled.
        """
        from localrag.evaluation.comparisons.rerankers import compare
        from localrag.evaluation.comparisons.rerankers_verdict import ReferenceJudge

        def write(text: str, contexts: Sequence[ScoredChunk]) -> Answer:
            return self._answered(self.settings, text, lambda *_: list(contexts))

        allowed = hosted.sendable(self.settings, self.library)
        rerankings: list[tuple[str, Reranking | None]] = []
        for kind in RERANKERS:
            settings = with_reranker(self.settings, kind)
            try:
                reranking = factory.make_reranking(
                    settings, factory.make_models(), lambda: self.model, self._on_note
                )
            except ModelNotFoundError as error:
                self._on_note(spoken(error))
                continue
            rerankings.append((kind, reranking))
        return compare(
            question,
            lambda text, depth: self.retrieve(text, k=depth, filter=allowed),
            rerankings,
            write,
            k=k or self.settings.answer.k,
            judge=ReferenceJudge(self.model.llm, self.model.scorer),
            reference=reference,
            progress=progress,
        )

    def compare_modes(
        self, questions: Sequence[Asked], modes: tuple[str, str], tell: Tell = _nothing
    ) -> Iterator[Compared]:
        """Each question answered in both modes and judged; each comes as soon as it is done."""
        from localrag.evaluation.comparisons.modes import compare_modes
        from localrag.evaluation.comparisons.modes_judge import PairJudge

        only = hosted.sendable(self.settings, self.library)

        def find(question: str, k: int) -> list[ScoredChunk]:
            return self.retrieve(question, k=k, filter=only)

        def write(mode: str, question: str) -> Answer:
            chosen = with_mode(self.settings, mode)
            return self._answered(chosen, question, find, self._reranking)

        self.retrieve(questions[0].question, k=1)  # what is loaded now is no answer's time
        judge = PairJudge(self.model.llm, self.model.scorer)
        return compare_modes(questions, modes, write, judge, tell)

    def _answered(
        self, settings: Settings, question: str, retrieve: Retrieve, order: Reranking | None = None
    ) -> Answer:
        pipeline = factory.make_pipeline(
            settings, self.model, self.embedder, retrieve, self._page_of, order
        )
        *_, answer = pipeline.stream(question)
        assert isinstance(answer, Answer), "a stream ends with its answer"  # noqa: S101
        return answer

    def conversation(self) -> Conversation:
        """A memory for follow-up questions: rewrite, ask, remember."""
        from localrag.rag.conversation import Conversation

        return Conversation(self.model.llm, factory.make_tokenizer(self.settings))

    def remove(
        self,
        sources: Sequence[AnyPath],
        *,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> Removal:
        """Take files out of the library; a folder takes out all that was added below it.

        Raises `UsageError` for a path that the library does not hold, and removes nothing then.

        >>> rag.remove(["data/ai-overview.en.pdf"]).documents != ()
        True
        """
        from localrag.indexing.cleaning import storable_path

        held = [record.state.path for record in self.library.sources()]
        wanted: list[str] = []
        for source in sources:
            path = storable_path(Path(source).expanduser())
            found = [one for one in held if one == path or Path(path) in Path(one).parents]
            wanted += found or [path]
        return self.library.remove(sources=dict.fromkeys(wanted), timeout=timeout, on_wait=on_wait)

    def rebuild(
        self,
        progress: Callable[[Event], None] = _nothing,
        *,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> AddReport:
        """Make the library what adding all its documents now, with these settings, would give.

        Only the derived indexes where nothing else has changed; after a change of embedding
        model or chunking, every document is cut and embedded anew, from its stored text.
        """
        return self._indexer.rebuild(progress, timeout=timeout, on_wait=on_wait)

    def status(self) -> LibraryStatus:
        """Counts, sizes and models of the library; opens no index and loads no model."""
        return self.library.status()

    @cached_property
    def _indexer(self) -> Indexer:
        return factory.make_indexer(self.settings, self.library, self.embedder)

    @cached_property
    def _retriever(self) -> Retriever:
        embedder = self.embedder
        identity = factory.identity_of(embedder, self.settings)
        self.library.expect(identity)
        return factory.make_retriever(self.settings, self.library, embedder)

    @cached_property
    def _reranking(self) -> Reranking | None:
        return factory.make_reranking(
            self.settings, factory.make_models(), lambda: self.model, self._on_note
        )

    def _page_of(self, chunk: Chunk, offset: int) -> int:
        """The page on which a code point of a chunk stands."""
        position = chunk.start + offset
        for number, start, end in self.library.page_spans(chunk.document_id):
            if start <= position <= end:
                return number
        return chunk.first_page
