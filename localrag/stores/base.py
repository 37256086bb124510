"""The contracts of the derived indexes. Chunk ids are 63-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.types import Hit


class VectorSearch(Protocol):
    """Nearest neighbours by inner product over L2-normalised vectors, which is the cosine."""

    def search(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """The k best of all, best first; ties by id. `vector` has shape (dimension,)."""
        ...


class VectorStore(VectorSearch, Protocol):
    """Vectors that can be searched and changed."""

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


class KeywordIndex(KeywordSearch, Protocol):
    """Terms that can be searched and changed."""

    def add(self, ids: Sequence[int], terms: Sequence[Sequence[str]]) -> None:
        """Add one list of terms a chunk."""
        ...

    def remove(self, ids: Sequence[int]) -> None:
        """Forget these ids; unknown ones are ignored."""
        ...
