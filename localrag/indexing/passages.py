"""The passages of documents, with their vectors: cut and embedded in one way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from localrag.documents.chunking import Chunker, passage_text
from localrag.indexing.events import Embedded, Parsed
from localrag.indexing.run import Run
from localrag.library.records import EmbeddingIdentity, FileState, NewDocument
from localrag.models.embeddings.base import Embedder
from localrag.types import Chunk, Document

BATCH = 128
"""Chunks that are embedded together: small documents share a batch, a large one fills several."""

LANGUAGE_SAMPLE = 20_000
"""Code points that the language of a document is judged by."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Makes them. `chunking` identifies the chunker and its settings, `embedding` the embedder."""

    chunker: Chunker
    chunking: str
    embedder: Embedder
    embedding: EmbeddingIdentity
    detect_language: Callable[[str], str]

    def cut(
        self, document: Document, states: Sequence[FileState], size: int, run: Run
    ) -> NewDocument:
        """A document that was read, with its chunks; their vectors come later."""
        with run.timed("chunk"):
            chunks = self.chunker.chunk(document)
        run.tell(Parsed(document.source, len(document.pages), len(chunks)))
        return NewDocument(
            document=document,
            states=states,
            size=size,
            language=self.detect_language(document.text[:LANGUAGE_SAMPLE]),
            chunking=self.chunking,
            chunks=chunks,
            vectors=self._none,
        )

    @property
    def _none(self) -> NDArray[np.float32]:
        return np.empty((0, self.embedding.dimension), dtype=np.float32)

    def embed(self, groups: Sequence[Sequence[Chunk]], run: Run) -> list[NDArray[np.float32]]:
        """Vectors, shape (n, dimension) float32, for each group of chunks; one call for all."""
        texts = [passage_text(chunk) for chunks in groups for chunk in chunks]
        vectors = self._none
        if texts:
            vectors = self.embedder.embed_documents(texts, lambda count: run.tell(Embedded(count)))
        ends = list(accumulate(len(chunks) for chunks in groups))
        return np.split(vectors, ends[:-1]) if groups else []
