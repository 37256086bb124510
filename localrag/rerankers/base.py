"""The contract of a reranker, and what every use of one shares."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from localrag.types import Note, Plain, ScoredChunk, Step

Tell = Callable[[Note], None]
"""Hears what the person who asked should know."""


def unheard(_: Note) -> None:
    """Tell nobody."""


class Reranker(Protocol):
    """Puts passages that were found for a question into a new order."""

    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        """At most k of `chunks`, best first, with the reranker's own scores; ties by chunk id.

        Never a passage that was not given, and each at most once. `tell` hears what is not done
        as it was asked for.
        """


def beginning(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """The beginning of `text` that has at most so many tokens, and some of it always."""
    while (counted := count(text)) > tokens and len(text) > 1:
        text = text[: max(1, min(len(text) - 1, len(text) * max(tokens, 0) // counted))]
    return text


class ScoringReranker(ABC):
    """A reranker that gives each passage a score, whatever came with it."""

    def rerank(
        self,
        query: str,
        chunks: Sequence[ScoredChunk],
        k: int,
        tell: Tell = unheard,  # noqa: ARG002
    ) -> list[ScoredChunk]:
        """At most k of `chunks` by their scores, best first; ties by chunk id."""
        return best(chunks, self._rate(query, chunks), k)

    @abstractmethod
    def _rate(self, query: str, chunks: Sequence[ScoredChunk]) -> Sequence[float]:
        """The score of each."""


def best(chunks: Sequence[ScoredChunk], scores: Sequence[float], k: int) -> list[ScoredChunk]:
    """The k chunks with the highest of these scores, which replace their own; ties by chunk id."""
    scored = [
        replace(chunk, score=float(score)) for chunk, score in zip(chunks, scores, strict=True)
    ]
    return sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))[:k]


def search_shares(chunks: Sequence[ScoredChunk]) -> list[float]:
    """What the search thought of each chunk, 0 to 1: its score as a share of the best one."""
    highest = max((chunk.score for chunk in chunks), default=0.0)
    return [max(chunk.score, 0.0) / highest if highest > 0 else 0.0 for chunk in chunks]


@dataclass(frozen=True, slots=True)
class Reranking:
    """A reranker as it is used: by which name, and how many passages it is given to read."""

    name: str
    reranker: Reranker
    candidates: int

    def apply(
        self, query: str, chunks: Sequence[ScoredChunk], k: int
    ) -> tuple[list[ScoredChunk], Step]:
        """The best k among the first `candidates` of `chunks`, and the step for the trace.

        Where k is larger than `candidates`, that many more are read, so that none is lost.
        """
        started = time.perf_counter()
        notes: list[Note] = []
        read = chunks[: max(self.candidates, k)]
        ranked = self.reranker.rerank(query, read, k, notes.append)
        values: dict[str, Plain] = {"reranker": self.name, "kept": len(ranked), "read": len(read)}
        seconds = time.perf_counter() - started
        return ranked, Step("rerank", values, None, seconds, notes=tuple(notes))
