"""The contract of a reranker, and what every use of one shares."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from localrag.types import ScoredChunk, Step

Say = Callable[[str], None]
"""Takes a sentence for the person who asked, in that person's language."""


class Reranker(Protocol):
    """Puts passages that were found for a question into a new order."""

    def rerank(self, query: str, chunks: Sequence[ScoredChunk], k: int) -> list[ScoredChunk]:
        """At most k of `chunks`, best first, with the reranker's own scores; ties by chunk id.

        Never a passage that was not given, and each at most once.
        """
        ...


class KeepOrder:
    """No reranking: the first k as they come, with the scores that they have."""

    def rerank(self, query: str, chunks: Sequence[ScoredChunk], k: int) -> list[ScoredChunk]:  # noqa: ARG002
        """The first k of `chunks`."""
        return list(chunks[:k])


def best(chunks: Sequence[ScoredChunk], scores: Sequence[float], k: int) -> list[ScoredChunk]:
    """The k chunks with the highest of these scores, which replace their own; ties by chunk id."""
    scored = [
        replace(chunk, score=float(score)) for chunk, score in zip(chunks, scores, strict=True)
    ]
    return sorted(scored, key=lambda each: (-each.score, each.chunk.id))[:k]


def search_shares(chunks: Sequence[ScoredChunk]) -> list[float]:
    """What the search thought of each chunk, 0 to 1: its score as a share of the best one."""
    highest = max((chunk.score for chunk in chunks), default=0.0)
    return [max(chunk.score, 0.0) / highest if highest > 0 else 0.0 for chunk in chunks]


class Notes:
    """Collects what rerankers have to say; `tell` hears each sentence once."""

    def __init__(self, tell: Say) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self._pending: list[str] = []

    def __call__(self, text: str) -> None:
        """Say something."""
        self._pending.append(text)
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def take(self) -> list[str]:
        """What has been said since the last call."""
        pending, self._pending = self._pending, []
        return pending


class Reranking:
    """A reranker as it is used: by which name, and how many passages it is given to read."""

    def __init__(self, name: str, reranker: Reranker, candidates: int, notes: Notes) -> None:
        self.name = name
        self.candidates = candidates
        self._reranker = reranker
        self._notes = notes

    def apply(
        self, query: str, chunks: Sequence[ScoredChunk], k: int
    ) -> tuple[list[ScoredChunk], Step]:
        """The best k among the first `candidates` of `chunks`, and the step for the trace.

        Where k is larger than `candidates`, that many more are read, so that none is lost.
        """
        started = time.perf_counter()
        read = chunks[: max(self.candidates, k)]
        ranked = self._reranker.rerank(query, read, k)
        decision = f"{self.name}: {len(ranked)} of {len(read)} passages"
        notes = self._notes.take()
        if notes:
            decision = " ".join([f"{decision}.", *notes])
        return ranked, Step("rerank", decision, None, time.perf_counter() - started)
