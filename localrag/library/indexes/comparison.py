"""Vectors compared as they are: what every index names candidates for.

Scores are inner products of half-precision vectors, and the same in whatever company, to the
digit. FAISS computes them; knows nothing of segments, catalogues or stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.library.indexes.base import Vector, VectorIndex, are_allowed
from localrag.library.indexes.rabitq import floats, viewing
from localrag.library.records import ChunkIds
from localrag.types import Hit

EXACT = 1 << 16
"""Up to so many vectors all are compared: 512 dimensions take 3 to 4 ms, the other way as long."""

_LEVELS = np.array([-128.5, 255], dtype=np.float32)
"""To FAISS: level 0 is -128, and 255 is 127."""


def compared(
    ids: NDArray[np.int64], vectors: NDArray[np.float16], query: Vector, k: int
) -> list[Hit]:
    """The k best by inner product of vectors, shape (n, dimension), compared as they are.

    Best first, ties by id. A score is the same in whatever company, to the digit.
    """
    return AllVectors(ids, vectors).search(query, k) if len(ids) else []


class AllVectors:
    """Vectors and their ids, each once, in memory: all are compared as they are."""

    def __init__(self, ids: NDArray[np.int64], vectors: NDArray[np.float16]) -> None:
        """Shapes (n,) and (n, dimension)."""
        self._ids = ids
        self._vectors = vectors  # which FAISS only looks at
        self._index = over(vectors)

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best by inner product, best first; ties by id."""
        count, choice = len(self._ids), None
        if allowed is not None:
            mask = are_allowed(self._ids, allowed)
            count, choice = int(mask.sum()), only(mask)
        if k < 1 or not count:
            return []
        row = np.ascontiguousarray(query, dtype=np.float32).reshape(1, -1)
        places, scores = best(self._index, row, min(k, count), count, choice)
        ids = self._ids[places]
        order = np.lexsort((ids, -scores))[:k]
        return list(map(Hit, ids[order].tolist(), scores[order].tolist()))


class WithVectors:
    """A search with an index and the vectors beside it, where there is no catalogue."""

    def __init__(
        self, index: VectorIndex, vectors: Callable[[ChunkIds], NDArray[np.float16]]
    ) -> None:
        """`vectors` gives those of some ids, shape (n, dimension)."""
        self.index = index
        self._vectors = vectors

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best by inner product, best first; ties by id."""
        ids = self.index.candidates(query, k, allowed)
        return compared(ids, self._vectors(ids), query, k)


def over(vectors: NDArray[np.float16] | NDArray[np.uint8]) -> Any:
    """A FAISS index by inner product over vectors or levels of shape (n, dimension)."""
    import faiss

    # Not "direct": that rounds queries to whole numbers where the dimension suits the processor.
    kinds = faiss.ScalarQuantizer
    kind = kinds.QT_fp16 if vectors.dtype == np.float16 else kinds.QT_8bit_uniform
    index = faiss.IndexScalarQuantizer(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    if kind == kinds.QT_8bit_uniform:
        index.sq.trained = floats(_LEVELS)
        index.is_trained = True
    return viewing(index, vectors.view(np.uint8))


def best(
    index: Any, row: NDArray[np.float32], k: int, count: int, choice: Any = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Places and scores of the k best, best first, with all that tie with the k-th."""
    import faiss

    # FAISS shares out queries, not vectors: for one query, threads only cost their start.
    faiss.omp_set_num_threads(1)
    limit = min(k + 1, count)
    while True:
        scores, places = index.search(row, limit, params=choice)
        if limit == count or scores[0, -1] < scores[0, k - 1]:
            break
        limit = min(4 * limit, count)
    tied = scores[0] >= scores[0, min(k, limit) - 1]
    return places[0][tied], scores[0][tied]


def only(mask: NDArray[np.bool_]) -> Any:
    """Search parameters that leave only the places where `mask` is true."""
    import faiss

    wrapped: Any = faiss  # the stubs show the C++ signatures, not those of the Python wrappers
    selector = wrapped.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
    return wrapped.SearchParameters(sel=selector)
