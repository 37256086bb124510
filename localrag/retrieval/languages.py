"""A dense search with two joined models that leaves passages of other languages in their places.

The second model's cosines spread wider than the first's, so in one list a passage that only the
first knows would lie below all that the second knows, however well it fits (`benchmarks/log`,
2026-11-26). So the second decides the order among the passages of its own languages alone.
"""

from __future__ import annotations

from localrag.library.indexes.base import Vector, VectorSearch
from localrag.models.embeddings.joined import JoinedEmbedder
from localrag.retrieval.evidence import LANGUAGE_DEPTH, Texts
from localrag.types import Hit


class SearchByLanguage:
    """Hits of the first model, of which those of the second's languages are put into its order."""

    def __init__(self, embedder: JoinedEmbedder, vectors: VectorSearch, texts: Texts) -> None:
        self._embedder = embedder
        self._vectors = vectors
        self._texts = texts

    def search(self, query: Vector, k: int, /) -> list[Hit]:
        """The k best, best first; ties by id.

        If none of the first `LANGUAGE_DEPTH` hits of the first model is in another language, those
        of both models together. Otherwise a passage in another language has its score by the first
        model, and the best score that is left goes to the best of the others by both models, and
        so on.
        """
        joined = self._vectors.search(query, k)
        alone = self._embedder.general_part(query)
        if alone is None:
            return joined
        general = self._vectors.search(alone, k)
        texts = self._texts([hit.chunk_id for hit in general[:LANGUAGE_DEPTH]])
        others = {id_ for id_, text in texts.items() if not self._embedder.serves(text)}
        if not others:
            return joined
        other_hits = [hit for hit in general if hit.chunk_id in others]
        scores = [hit.score for hit in general if hit.chunk_id not in others]
        order = [hit.chunk_id for hit in joined if hit.chunk_id not in others]
        # Another process may have changed the index between the two searches: not strict.
        hits = [*other_hits, *map(Hit, order, scores)]
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))
