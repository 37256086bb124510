"""Passages for the rerankers' tests."""

from __future__ import annotations

from localrag.types import Chunk, ScoredChunk


def passage(chunk_id: int, text: str, score: float = 0.5, heading: str = "") -> ScoredChunk:
    chunk = Chunk(chunk_id, "d", chunk_id, text, heading, 1, 1, 0, len(text))
    return ScoredChunk(chunk, score, f"{chunk_id}.txt")


def ids(chunks: list[ScoredChunk]) -> list[int]:
    return [chunk.chunk.id for chunk in chunks]


ENGLISH = (
    passage(1, "Tea is grown on the slopes of the southern hills.", 0.9),
    passage(2, "Frank Rosenblatt presented the perceptron in 1958.", 0.6),
    passage(3, "The museum opens at nine and closes at five.", 0.3),
    passage(4, "Frank Rosenblatt presented the perceptron in 1958.", 0.6),
)
