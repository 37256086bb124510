"""BM25 with the `rank_bm25` package, in memory: the reference that others are held to.

Scans all passages for each query term and is built anew at every start: for comparison and for
small libraries.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from localrag.library.folder.gate import clear_index
from localrag.library.indexes.base import INHERITED, Storage, Terms, Verified, are_allowed
from localrag.library.records import ID_SUMS, NEVER, ChunkIds, ChunkSet, Stamp
from localrag.text.background import idf
from localrag.text.spelling import edits_between
from localrag.types import Hit

K1 = 1.2
B = 0.75


class RankBm25Keywords:
    """BM25 over terms; passages that share no term with the query are never found."""

    persistent = False

    def __init__(self) -> None:
        self._terms: dict[int, list[str]] = {}
        self._ids: list[int] = []
        self._model: Any = None
        self._lock = threading.RLock()
        self.stamp: Stamp = NEVER

    def __len__(self) -> int:
        return len(self._terms)

    def saved(self, _: Storage) -> None:
        """Nothing lies anywhere."""

    def open(self, _: Storage) -> None:
        """Nothing lies there."""

    def apply(
        self,
        removed: Collection[int],
        added: Iterable[tuple[int, Terms]],
        stamp: Stamp,
        _: Storage | None = None,
    ) -> None:
        """Change what is in memory."""
        with self._lock:
            for chunk_id in removed:
                self._terms.pop(chunk_id, None)
            self._terms.update((chunk_id, list(terms)) for chunk_id, terms in added)
            self._model = None
            self.stamp = stamp

    def search(self, query: Terms, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """How rare a term is, is counted in all chunks, whatever is allowed."""
        with self._lock:
            if k < 1 or not any(self._terms.values()):
                return []
            scores = self._built().get_scores(query)
            if allowed is not None:
                scores[~are_allowed(np.array(self._ids), allowed)] = 0
            hits = [Hit(self._ids[place], float(scores[place])) for place in scores.nonzero()[0]]
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:k]

    def alike(self, term: str, edits: int, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """Compares the term with all that there are."""
        with self._lock:
            near = {
                word
                for word in set().union(*self._terms.values())
                if edits_between(term, word, edits) <= edits
            }
            ids = np.array(
                sorted(id_ for id_, terms in self._terms.items() if near.intersection(terms)),
                dtype=np.int64,
            )
        if allowed is not None:
            ids = ids[are_allowed(ids, allowed)]
        return [Hit(number, 1.0) for number in ids[:k].tolist()]

    def frequencies(self, terms: Terms) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""
        with self._lock:
            if not any(self._terms.values()):
                return len(self._terms), [0] * len(terms)
            counts = self._built().doc_freqs
            return len(counts), [sum(term in passage for passage in counts) for term in terms]

    def holders(self, term: str) -> ChunkIds:
        """Looks through all that there are."""
        with self._lock:
            ids = sorted(chunk_id for chunk_id, terms in self._terms.items() if term in terms)
        return np.array(ids, dtype=np.int64)

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        return ChunkSet(len(self), sum(self._terms) % ID_SUMS)

    def verify(self, expected: Iterable[tuple[int, Terms]]) -> Verified:
        """Compare the terms, in any order."""
        entries = self._terms
        differing = sum(
            n in entries and sorted(entries[n]) != sorted(terms) for n, terms in expected
        )
        return Verified(list(entries), differing)

    def erase(self, at: Storage, but: Stamp | None = None) -> bool:  # noqa: ARG002
        """Delete what another engine has left there, which nobody brings up to date."""
        clear_index(at.path)
        return True

    def _built(self) -> Any:
        if self._model is None:
            self._ids = sorted(self._terms)
            # It knows one field: what is inherited stands in the text.
            self._model = _okapi(
                [
                    [term.removeprefix(INHERITED) for term in self._terms[chunk_id]]
                    for chunk_id in self._ids
                ]
            )
        return self._model


def _okapi(corpus: Sequence[Sequence[str]]) -> Any:
    """Okapi BM25 with the idf of Lucene, which is never negative.

    `rank_bm25` itself takes ln((N - n + 0.5) / (n + 0.5)) and replaces negative values by a
    share of the mean, so that the score of a frequent word depends on all other words.
    """
    from rank_bm25 import BM25Okapi  # type: ignore[import-untyped]

    class LuceneBm25(BM25Okapi):  # type: ignore[misc]
        def _calc_idf(self, nd: Mapping[str, int]) -> None:
            for term, count in nd.items():
                self.idf[term] = idf(term, count, self.corpus_size)

    return LuceneBm25(corpus, k1=K1, b=B)
