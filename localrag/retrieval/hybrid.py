"""Hybrid retrieval: its legs, by meaning and by words, side by side, and one fused list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

from localrag.library.indexes.base import KeywordSearch, VectorSearch
from localrag.models.embeddings.base import Embedder
from localrag.retrieval.base import Retriever
from localrag.retrieval.evidence import WINDOW
from localrag.retrieval.fusion import FuseForQuestion
from localrag.types import Hit, LegRank

OVERFETCH = 3
MINIMUM_FETCH = WINDOW


class DenseRetriever:
    """Embeds the question and asks the vector store; scores are cosines in [-1, 1]."""

    def __init__(self, embedder: Embedder, vectors: VectorSearch) -> None:
        self._embedder = embedder
        self._vectors = vectors

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits by cosine, best first."""
        return self._vectors.search(self._embedder.embed_queries([query])[0], k)


class KeywordRetriever:
    """Cuts the question as passages were cut and asks the keyword index, by BM25."""

    def __init__(self, tokenize: Callable[[str], list[str]], index: KeywordSearch) -> None:
        self._tokenize = tokenize
        self._index = index

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits by BM25; none when the question shares no term with any passage."""
        terms = self._tokenize(query)
        return self._index.search(terms, k) if terms else []


class HybridRetriever:
    """Runs its legs in parallel, each over-fetching, and fuses what they found.

    Each leg is asked for max(3 k, 100): fusion can only lift a passage that a leg returned,
    and the default one judges a leg by its first hundred. `legs` are fused in their order.
    """

    def __init__(self, legs: Mapping[str, Retriever], fuse: FuseForQuestion) -> None:
        self._legs = dict(legs)
        self._fuse = fuse

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k fused hits, best first, each with its rank and score in every leg."""
        fetch = max(OVERFETCH * k, MINIMUM_FETCH)
        first, *others = self._legs.values()
        # A thread costs as much as a leg over 10,000 passages: none more than it takes.
        with ThreadPoolExecutor(max_workers=max(len(others), 1)) as pool:
            running = [
                # With the context: for whom a library is asked stands there.
                pool.submit(copy_context().run, leg.retrieve, query, fetch)
                for leg in others
            ]
            runs = [first.retrieve(query, fetch), *(leg.result() for leg in running)]
        ranks: dict[int, list[LegRank]] = {}
        for name, run in zip(self._legs, runs, strict=True):
            for rank, hit in enumerate(run, start=1):
                ranks.setdefault(hit.chunk_id, []).append(LegRank(name, rank, hit.score))
        fused = self._fuse(query, runs)[:k]
        return [replace(hit, ranks=tuple(ranks[hit.chunk_id])) for hit in fused]
