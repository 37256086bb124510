"""The contracts of the derived indexes. Chunk ids are 63-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.types import Hit

ChunkIds = NDArray[np.int64]
"""Ids of chunks, sorted, each once; shape (n,)."""


def are_allowed(ids: NDArray[np.int64], allowed: ChunkIds) -> NDArray[np.bool_]:
    """Which of `ids` are among `allowed`; shape (len(ids),)."""
    if not len(allowed):
        return np.zeros(len(ids), dtype=np.bool_)
    # allowed is sorted: quicker than np.isin, which sorts both each time.
    places = np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)
    return np.asarray(allowed[places] == ids)


class VectorSearch(Protocol):
    """Nearest neighbours by inner product over L2-normalised vectors, which is the cosine."""

    def search(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """The k best of all, best first; ties by id. `vector` has shape (dimension,)."""
        ...


class VectorStore(VectorSearch, Protocol):
    """Vectors that can be searched and changed."""

    def search(
        self, vector: NDArray[np.float32], k: int, allowed: ChunkIds | None = None
    ) -> list[Hit]:
        """The k best of all, or of those that are `allowed`, best first; ties by id."""
        ...

    def add(self, ids: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Add `vectors`, shape (n, dimension) float32, under `ids`."""
        ...

    def remove(self, ids: Sequence[int]) -> None:
        """Forget these ids; unknown ones are ignored."""
        ...


class KeywordSearch(Protocol):
    """Lexical ranking (BM25) over terms that somebody else has cut."""

    def search(self, terms: Sequence[str], k: int) -> list[Hit]:
        """Chunks that share a term with the query, best first; ties by id."""
        ...


class TermStatistics(Protocol):
    """How common terms are, over all chunks."""

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""
        ...


class SearchAndStatistics(KeywordSearch, TermStatistics, Protocol):
    """Both of the same index."""


class KeywordIndex(KeywordSearch, Protocol):
    """Terms that can be searched and changed."""

    def search(self, terms: Sequence[str], k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best of all, or of those that are `allowed`, best first; ties by id.

        Scores do not change with `allowed`: how rare a term is, is counted in all chunks.
        """
        ...

    def add(self, ids: Sequence[int], terms: Sequence[Sequence[str]]) -> None:
        """Add one list of terms a chunk."""
        ...

    def remove(self, ids: Sequence[int]) -> None:
        """Forget these ids; unknown ones are ignored."""
        ...
