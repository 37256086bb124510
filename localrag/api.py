"""The Python API: one class for one library.

    from localrag import LocalRAG

    with LocalRAG.open("mylibrary") as rag:
        rag.add(["papers/"])
        answer = rag.ask("How long is the notice period?")

Models are loaded when they are first needed, and kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from localrag import factory
from localrag.chunking import passage_text
from localrag.config import Settings, load_settings
from localrag.errors import UsageError
from localrag.stores.library import PATIENCE, Library
from localrag.stores.locking import OnWait
from localrag.stores.records import LibraryStatus, Removal
from localrag.types import Answer, Chunk, ScoredChunk

if TYPE_CHECKING:
    from localrag.embeddings.base import Embedder
    from localrag.indexing.events import AddReport, Event
    from localrag.indexing.indexer import Indexer
    from localrag.rag.conversation import Conversation
    from localrag.retrieval.base import Retriever

AnyPath = str | os.PathLike[str]


def _nothing(_: object) -> None:
    """Tell nobody."""


class LocalRAG:
    """A library of documents, and everything that can be asked of it.

    Open it with `LocalRAG.open` and close it, or use it in a `with` block.
    """

    def __init__(
        self, library: Library, settings: Settings, embedder: Embedder | None = None
    ) -> None:
        """Callers use `LocalRAG.open`."""
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
    ) -> Self:
        """Open the library in `directory`; with `create`, make it on the first `add`.

        `settings` None reads the settings file and the environment. `on_damage` is told
        which derived index was damaged and is being built anew.
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
        return cls(library, settings, embedder)

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
            self._model = factory.make_model(self.settings, factory.make_models())
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

    def search(self, question: str, *, k: int | None = None) -> list[ScoredChunk]:
        """The k best passages, best first, each with the rank that each leg gave it.

        No language model is used.

        >>> hits = rag.search("who invented the perceptron", k=3)
        >>> len(hits)
        3
        """
        if not question.strip():
            raise UsageError("The question is empty.", hint="Ask something, in quotes.")
        hits = self._retriever.retrieve(question, k or self.settings.retrieval.k)
        chunks = self.library.chunks([hit.chunk_id for hit in hits])
        sources = self.library.sources_of({chunk.document_id for chunk in chunks.values()})
        return [
            ScoredChunk(chunk, hit.score, sources[chunk.document_id], hit.ranks)
            for hit in hits
            # A document may have been removed by another process since it was found.
            if (chunk := chunks.get(hit.chunk_id)) and chunk.document_id in sources
        ]

    def stream(self, question: str) -> Iterator[str | Answer]:
        """Pieces of the answer as they are written, and last of all the finished `Answer`.

        Closing the iterator stops the model.

        >>> *pieces, answer = rag.stream("Who invented the perceptron?")
        >>> "".join(pieces).strip() == answer.text
        True
        """
        pipeline = factory.make_pipeline(
            self.settings,
            self.model,
            self.embedder,
            lambda text, k: self.search(text, k=k),
            self._page_of,
        )
        yield from pipeline.stream(question)

    def ask(self, question: str) -> Answer:
        """The whole answer at once, with citations, contexts and the trace of every step.

        >>> answer = rag.ask("Who invented the perceptron?")
        >>> answer.grounded
        True
        """
        with closing(self.stream(question)) as pieces:  # type: ignore[type-var]
            for piece in pieces:
                if isinstance(piece, Answer):
                    return piece
        raise AssertionError("a stream ends with its answer")

    def conversation(self) -> Conversation:
        """A memory for follow-up questions: rewrite, ask, remember."""
        from localrag.rag.conversation import Conversation

        return Conversation(self.model.llm)

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

    def _page_of(self, chunk: Chunk, offset: int) -> int:
        """The page on which a code point of a chunk stands."""
        position = chunk.start + offset
        for number, start, end in self.library.page_spans(chunk.document_id):
            if start <= position <= end:
                return number
        return chunk.first_page
