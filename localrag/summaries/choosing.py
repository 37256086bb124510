"""The sentences that carry what a text says, or what it says about a topic, without a model.

Passages come first, by the vectors that the library has of them; sentences are taken from those
only, so that 20 MB cost little more than 20 pages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from localrag.documents.tables import named_rows
from localrag.models.embeddings.base import Embedder, Vectors
from localrag.text.sentences import Span, split_sentences
from localrag.types import Chunk

MOST_SENTENCES = 30
"""Of a document: what a page of text has room for."""
LEAST_TERMS, MOST_LENGTH = 4, 600
"""Terms and code points between which a sentence says something and can be quoted whole."""
ALIKE = 0.25
"""How much it counts against a passage or sentence that it is like one that is taken already."""
SHARED = 0.5
"""What the share of a topic's terms counts beside the cosine, see `rag.citations.SHARED_COUNTS`."""
RANKED = 0.3
"""What it counts that its passage is the first for a topic, and not far down."""
ABOUT, SURELY_ABOUT = 0.2, 0.3
"""Cosine and shared terms from which on a sentence is about a topic, if one at least is from the
second on (`benchmarks/log/2026-11.md`, 2026-11-25)."""

Tokenize = Callable[[str], list[str]]
Steers = Callable[[str], Sequence[Span]]
"""The spans of a text that could steer a language model."""


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence or row as a passage of its own, and how a model reads it, with column names."""

    passage: int
    """Number of the passage that it is from, in its document."""
    chunk: Chunk
    text: str
    terms: frozenset[str]
    rank: int = 0
    """Of its passage among those about a topic, from 0."""


def shares(lengths: Sequence[float], total: int, least: int = 1) -> list[int]:
    """How many of about `total` sentences each part gets: at least so many, more for longer parts.

    By the square root of its length, so that a long appendix does not take all.
    """
    weights = [math.sqrt(max(length, 1.0)) for length in lengths]
    scale = total / sum(weights) if weights else 0.0
    return [max(least, round(weight * scale)) for weight in weights]


def diverse(vectors: Vectors, relevance: NDArray[np.float32], count: int) -> list[int]:
    """At most `count` rows that are relevant and unlike each other, best first.

    Maximal marginal relevance (Carbonell and Goldstein 1998), with a penalty of `ALIKE` times the
    cosine to the closest that is taken. `vectors` has shape (n, dimension), rows of unit length,
    `relevance` shape (n,).
    """
    rows: list[int] = []
    closest = np.zeros(len(vectors), dtype=np.float32)
    scores = relevance.astype(np.float32, copy=True)
    for _ in range(min(count, len(vectors))):
        best = int(np.argmax(scores - ALIKE * closest))
        rows.append(best)
        scores[best] = -np.inf
        closest = np.maximum(closest, vectors @ vectors[best])
    return rows


def centrality(vectors: Vectors) -> NDArray[np.float32]:
    """How close each row is to the mean of all, shape (n,).

    That is the degree of a sentence in LexRank's graph without its threshold (Erkan and Radev
    2004), in time that grows with n and not with its square.
    """
    mean = vectors.mean(axis=0)
    length = float(np.linalg.norm(mean))
    close: NDArray[np.float32] = (vectors @ (mean / (length or 1.0))).astype(np.float32)
    return close


def sentences(
    passage: int, chunk: Chunk, tokenize: Tokenize, steers: Steers, rank: int = 0
) -> tuple[list[Sentence], int]:
    """The sentences and rows of a passage that can be quoted, and how many could steer a model."""
    barred = steers(chunk.text)
    quotable: list[Sentence] = []
    left_out = 0
    for start, end, text in _spans(chunk):
        if any(span.start < end and start < span.end for span in barred):
            left_out += 1
            continue
        if not any(map(str.isalnum, text)):  # a line of dashes
            continue
        columns = tuple(
            replace(column, start=0, end=end - start)
            for column in chunk.columns
            if column.start <= start < column.end
        )
        own = replace(
            chunk,
            text=chunk.text[start:end],
            start=chunk.start + start,
            end=chunk.start + end,
            columns=columns,
        )
        quotable.append(Sentence(passage, own, text, frozenset(tokenize(text)), rank))
    return quotable, left_out


def _spans(chunk: Chunk) -> Iterator[tuple[int, int, str]]:
    rows = list(named_rows(chunk))
    spans = [
        (start, end, chunk.text[start:end])
        for start, end in split_sentences(chunk.text)
        if not any(column.start <= start < column.end for column in chunk.columns)
    ]
    yield from sorted([*spans, *rows])


def telling(candidates: Sequence[Sentence]) -> list[Sentence]:
    """Those that say something and can be quoted whole, the same words once; all where none do."""
    first: dict[str, Sentence] = {}
    for candidate in candidates:
        first.setdefault(" ".join(candidate.text.split()), candidate)
    candidates = list(first.values())
    named = [
        candidate
        for candidate in candidates
        if len(candidate.terms) >= LEAST_TERMS
        and len(candidate.text) <= MOST_LENGTH
        and candidate.text.strip() not in candidate.chunk.heading
    ]
    return named or [candidate for candidate in candidates if len(candidate.text) <= MOST_LENGTH]


@dataclass(frozen=True, slots=True, eq=False)
class SummaryTopic:
    """What sentences are to be about; `vector` has shape (dimension,)."""

    terms: frozenset[str]
    vector: NDArray[np.float32]

    @classmethod
    def of(cls, text: str, embedder: Embedder, tokenize: Tokenize) -> SummaryTopic:
        """The topic that a person gives in words."""
        return cls(frozenset(tokenize(text)), embedder.embed_queries([text])[0])

    def relevance(self, candidates: Sequence[Sentence], vectors: Vectors) -> NDArray[np.float32]:
        """How far each sentence is about it, shape (n,): its cosine, and the share of its terms.

        Terms that stand in few of the sentences count for more. `RANKED` is not in it.
        """
        counts = Counter(term for candidate in candidates for term in candidate.terms & self.terms)
        weights = {term: math.log1p(len(candidates) / (counts[term] or 1)) for term in self.terms}
        total = sum(weights.values()) or 1.0
        shared = [
            sum(weights[t] for t in candidate.terms & self.terms) / total
            for candidate in candidates
        ]
        return (vectors @ self.vector + SHARED * np.array(shared)).astype(np.float32)


def best(
    candidates: Sequence[Sentence],
    count: int,
    embedder: Embedder,
    topic: SummaryTopic | None = None,
    centre: NDArray[np.float32] | None = None,
) -> list[Sentence]:
    """At most `count` of the sentences, in their order.

    Those about the topic, or else those closest to `centre`, the mean of the vectors of a whole
    section with shape (dimension,), and unlike each other.
    """
    if not candidates or count < 1:
        return []
    vectors = embedder.embed_documents([candidate.text for candidate in candidates])
    if topic is not None:
        about = topic.relevance(candidates, vectors)
        ranks = np.array([candidate.rank for candidate in candidates], dtype=np.float32)
        relevance = about + RANKED / (1.0 + ranks / 10.0)
    elif centre is not None:
        relevance = (vectors @ centre).astype(np.float32)
    else:
        relevance = centrality(vectors)
    rows = diverse(vectors, relevance, count)
    if topic is not None:
        is_covered = about.max() >= SURELY_ABOUT
        rows = [at for at in rows if is_covered and about[at] >= ABOUT]
    return [candidates[at] for at in sorted(rows)]
