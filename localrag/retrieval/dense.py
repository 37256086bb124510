"""Dense retrieval: nearest neighbours of the question's vector."""

from __future__ import annotations

from localrag.library.indexes.base import VectorSearch
from localrag.models.embeddings.base import Embedder
from localrag.types import Hit


class DenseRetriever:
    """Embeds the question and asks the vector store; scores are cosines in [-1, 1]."""

    def __init__(self, embedder: Embedder, vectors: VectorSearch) -> None:
        self._embedder = embedder
        self._vectors = vectors

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits by cosine, best first."""
        return self._vectors.search(self._embedder.embed_queries([query])[0], k)
