"""Running retrievers over a retrieval set: what they find, and how long each question takes."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localrag.evaluation.retrieval.beir import RetrievalSet
from localrag.evaluation.retrieval.metrics import METRICS, score_rankings
from localrag.evaluation.statistics import bootstrap_interval
from localrag.library.derived import Indexes
from localrag.library.indexes.comparison import WithVectors
from localrag.library.records import NEVER
from localrag.models.embeddings.base import Embedder, Progress, Vectors
from localrag.rerankers.base import Reranking
from localrag.retrieval.base import Retriever
from localrag.system.files import make_folder, replace_file
from localrag.types import Chunk, Hit, ScoredChunk

DEPTH = 100
"""Passages that each question asks for: what the deepest metric looks at."""


class CachedQueries:
    """An embedder that embeds each question once and remembers the vector and the time it took.

    `saved` counts the seconds that a question embedded again would have taken, so that several
    runs over the same questions can each be given their full time.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, tuple[Vectors, float]] = {}
        self.saved = 0.0
        self.dimension = embedder.dimension
        self.fingerprint = embedder.fingerprint
        self.max_tokens = embedder.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """As the model counts them."""
        return self._embedder.count_tokens(texts)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """As the model embeds them."""
        return self._embedder.embed_documents(texts, progress)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, dimension) float32; a list that was there before comes from memory."""
        key = "\0".join(texts)
        if key in self._known:
            vectors, seconds = self._known[key]
            self.saved += seconds
            return vectors
        started = time.perf_counter()
        vectors = self._embedder.embed_queries(texts)
        self._known[key] = vectors, time.perf_counter() - started
        return vectors


def document_vectors(embedder: Embedder, texts: Sequence[str], folder: Path) -> Vectors:
    """The vectors of `texts`, shape (n, dimension) float32, from `folder` if they are there.

    A file is named after the digest of the model's fingerprint and of all texts in their order:
    another text, order or model is another file. The folder may be deleted at any time.
    """
    digest = hashlib.sha256(embedder.fingerprint.encode())
    for text in texts:
        digest.update(json.dumps(text).encode())
    path = folder / f"{digest.hexdigest()[:32]}.npy"
    try:
        vectors: Vectors = np.load(path, allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        vectors = np.empty((0, 0), dtype=np.float32)
    if vectors.shape == (len(texts), embedder.dimension) and vectors.dtype == np.float32:
        return vectors
    vectors = embedder.embed_documents(texts)
    make_folder(folder)
    replace_file(path, lambda file: np.save(file, vectors, allow_pickle=False))
    return vectors


class WholePassages:
    """Throw-away indexes of a set's passages as they are, not cut; ids are places in the corpus."""

    def __init__(self, corpus: Mapping[str, str], vectors: Vectors, indexes: Indexes) -> None:
        self.ids = list(corpus)
        self._texts = list(corpus.values())
        self.vectors = WithVectors(indexes.vectors(), vectors.astype(np.float16).__getitem__)
        self.vectors.index.apply((), enumerate(vectors), NEVER)
        self.keywords = indexes.keywords()
        self.keywords.apply((), enumerate(map(indexes.tokenize, self._texts)), NEVER)

    def texts(self, places: Sequence[int]) -> dict[int, str]:
        """Passages by their places."""
        return {place: self._texts[place] for place in places}

    def scored(self, hit: Hit) -> ScoredChunk:
        """A hit as a reranker reads it."""
        text = self._texts[hit.chunk_id]
        name = self.ids[hit.chunk_id]
        chunk = Chunk(hit.chunk_id, name, 0, text, "", 1, 1, 0, len(text))
        return ScoredChunk(chunk, hit.score, name, hit.ranks)


class RerankedRetriever:
    """A retriever and a reranker behind it; what is not reranked follows in its old order."""

    def __init__(
        self, retriever: Retriever, reranking: Reranking, scored: Callable[[Hit], ScoredChunk]
    ) -> None:
        self._retriever = retriever
        self._reranking = reranking
        self._scored = scored

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; scores are those of whoever ranked the hit."""
        count = self._reranking.candidates
        hits = self._retriever.retrieve(query, max(k, count))
        read = [self._scored(hit) for hit in hits[:count]]
        ranked, _ = self._reranking.apply(query, read, count)
        first = [Hit(hit.chunk.id, hit.score, hit.ranks) for hit in ranked]
        placed = {hit.chunk_id for hit in first}
        return [*first, *(hit for hit in hits if hit.chunk_id not in placed)][:k]


@dataclass(frozen=True, slots=True)
class RetrievalRun:
    """What one retriever did: scores of each metric and seconds, each of shape (questions,)."""

    name: str
    scores: Mapping[str, NDArray[np.float64]]
    seconds: NDArray[np.float64]

    def by_part(self, dataset: RetrievalSet) -> list[RetrievalRun]:
        """The same of each set that `dataset` was put together from."""
        ends = accumulate(len(part.qrels) for part in dataset.parts)
        spans = [slice(*span) for span in pairwise((0, *ends))]
        return [
            RetrievalRun(
                self.name,
                {metric: scores[span] for metric, scores in self.scores.items()},
                self.seconds[span],
            )
            for span in spans
        ]

    def mean(self, metric: str) -> float:
        """The mean over all questions."""
        return float(self.scores[metric].mean())

    def interval(self, metric: str) -> tuple[float, float]:
        """The 95% bootstrap interval of the mean."""
        return bootstrap_interval(self.scores[metric])

    def milliseconds(self, percentile: float) -> float:
        """Milliseconds a question at that percentile."""
        return float(np.percentile(self.seconds, percentile)) * 1000


def run_retriever(
    name: str,
    retriever: Retriever,
    dataset: RetrievalSet,
    passage_ids: Sequence[str],
    queries: CachedQueries,
    progress: Callable[[int, int], None] | None = None,
) -> RetrievalRun:
    """Ask every judged question of `dataset`, one at a time.

    After each, `progress` hears how many are done and how many there are.
    """
    rankings: dict[str, list[str]] = {}
    seconds: list[float] = []
    for query in dataset.qrels:
        saved, started = queries.saved, time.perf_counter()
        hits = retriever.retrieve(dataset.queries[query], DEPTH)
        seconds.append(time.perf_counter() - started + queries.saved - saved)
        rankings[query] = [passage_ids[hit.chunk_id] for hit in hits]
        if progress is not None:
            progress(len(seconds), len(dataset.qrels))
    scores = {
        metric: score_rankings(rankings, dataset.qrels, function)
        for metric, function in METRICS.items()
    }
    return RetrievalRun(name, scores, np.array(seconds))
