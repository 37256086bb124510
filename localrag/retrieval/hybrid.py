"""Hybrid retrieval: several legs side by side, one fused list."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from localrag.retrieval.base import Retriever
from localrag.retrieval.evidence import WINDOW
from localrag.retrieval.fusion import FuseForQuestion
from localrag.types import Hit, LegRank

OVERFETCH = 3
MINIMUM_FETCH = WINDOW


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
        with ThreadPoolExecutor(max_workers=len(self._legs)) as pool:
            runs = list(pool.map(lambda leg: leg.retrieve(query, fetch), self._legs.values()))
        ranks: dict[int, list[LegRank]] = {}
        for name, run in zip(self._legs, runs, strict=True):
            for rank, hit in enumerate(run, start=1):
                ranks.setdefault(hit.chunk_id, []).append(LegRank(name, rank, hit.score))
        fused = self._fuse(query, runs)[:k]
        return [replace(hit, ranks=tuple(ranks[hit.chunk_id])) for hit in fused]
