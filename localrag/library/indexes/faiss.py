"""Nearest neighbours with FAISS, in a folder of segments and a sealed list of them.

Up to `EXACT` vectors all are compared, as they are. Of more, their one-bit codes are: the best of
all segments, `rescored` of them and whatever ties with the last, are then compared as they are.
Scores are the same both ways, to the digit, and what is found follows from the vectors alone, not
from the changes by which they came or the segments in which they lie. Knows nothing about texts
or models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.library.indexes.base import Vector
from localrag.library.indexes.rabitq import one_bit_codes, viewing
from localrag.library.indexes.segmented import CAPACITY, SegmentedIndex
from localrag.library.indexes.segments import Segment
from localrag.library.records import ChunkIds
from localrag.types import Hit

EXACT = 1 << 16
"""Up to so many vectors all are compared: 512 dimensions take 3 to 4 ms, the other way 2 to 3."""

RESCORED = 1000
"""Candidates that are compared as they are: of the 100 nearest of 100,000, 98% are among them."""

_BATCH = 2048
_FORM = "localrag-vectors-4"
_MOST_DIMENSIONS = 1 << 16


class Rows(NamedTuple):
    """Entries of a segment: ids, shape (n,) int64; vectors, (n, dimension) float16; codes.

    The vectors are the same numbers that the catalogue holds.
    """

    ids: NDArray[np.int64]
    vectors: NDArray[np.float16]
    codes: NDArray[np.uint8]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the vectors."""
        return self.vectors.shape

    @staticmethod
    def layout(*shape: int) -> list[tuple[str, tuple[int, ...]]]:
        """From that of the vectors."""
        count, dimension = shape
        if not 1 <= dimension <= _MOST_DIMENSIONS:
            raise ValueError(dimension)
        codes = one_bit_codes(dimension).size
        return [("<i8", (count,)), ("<f2", (count, dimension)), ("u1", (count, codes))]

    def at(self, places: NDArray[np.bool_] | slice) -> Rows:
        """Those at some places."""
        return Rows(self.ids[places], self.vectors[places], self.codes[places])

    @staticmethod
    def of(ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> Rows:
        """Entries for vectors of shape (n, dimension), as near as float16 has them, by id."""
        order = np.argsort(ids, kind="stable")
        held = vectors[order].astype("<f2")
        codes = one_bit_codes(vectors.shape[1]).encode(held.astype(np.float32))
        return Rows(ids[order], held, codes)

    @staticmethod
    def joined(some: Sequence[Rows]) -> Rows:
        """All of them, by id."""
        ids = np.concatenate([rows.ids for rows in some])
        order = np.argsort(ids, kind="stable")
        vectors = np.concatenate([rows.vectors for rows in some])[order]
        codes = np.concatenate([rows.codes for rows in some])[order]
        return Rows(ids[order], vectors, codes)


class FaissVectors(SegmentedIndex[Vector, Rows]):
    """Inner-product search over L2-normalised vectors of one dimension."""

    def __init__(
        self, rescored: int = RESCORED, *, exact: int = EXACT, capacity: int = CAPACITY
    ) -> None:
        """`rescored` 0 compares all vectors, however many there are."""
        super().__init__(Rows, _FORM, str, capacity)
        self._rescored = rescored
        self._exact = exact

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best by inner product; `query` has shape (dimension,)."""
        found = (_Part.of(segment, allowed) for segment in self._segments)
        parts = [part for part in found if part.size]
        total = sum(part.size for part in parts)
        if k < 1 or not total:
            return []
        row = np.ascontiguousarray(query, dtype=np.float32).reshape(1, -1)
        candidates = max(self._rescored, k)
        if not self._rescored or total <= max(self._exact, candidates):
            ids, scores = _nearest(parts, row, k)
        else:
            ids, scores = _rescored(parts, row, candidates)
        return _hits(ids, scores, k)

    def _contents(self, entries: Iterable[tuple[int, Vector]], like: Rows | None) -> Iterator[Rows]:
        """With their codes; raises ValueError for vectors of another dimension."""
        dimension = None if like is None else like.vectors.shape[1]
        for ids, vectors in _batches(entries):
            dimension = vectors.shape[1] if dimension is None else dimension
            if vectors.shape[1] != dimension:
                raise ValueError(
                    f"vectors must have shape ({len(ids)}, {dimension}), was: {vectors.shape}"
                )
            yield Rows.of(ids, vectors)

    def _differing(
        self, segments: Sequence[Segment[Rows]], expected: Iterable[tuple[int, Vector]]
    ) -> int:
        """Bit by bit."""
        differing = 0
        for ids, vectors in _batches(expected):
            wanted = vectors.astype("<f2")
            for segment in segments:
                places = np.minimum(
                    np.searchsorted(segment.rows.ids, ids), len(segment.rows.ids) - 1
                )
                held = segment.rows.ids[places] == ids
                if segment.gone is not None:
                    held &= ~segment.gone[places]
                found = segment.rows.vectors[places[held]]
                if found.shape[1] != wanted.shape[1]:
                    differing += int(held.sum())
                    continue
                bits = found.view(np.uint16) != wanted[held].view(np.uint16)
                differing += int(bits.any(axis=1).sum())
        return differing


def compared(
    ids: NDArray[np.int64], vectors: NDArray[np.float16], query: Vector, k: int
) -> list[Hit]:
    """The k best by inner product of vectors, shape (n, dimension), compared as they are.

    With the scores of an index that holds them.
    """
    if not len(ids):
        return []
    row = np.ascontiguousarray(query, dtype=np.float32).reshape(1, -1)
    order, scores = _best(_over(vectors), row, min(k, len(ids)), len(ids))
    return _hits(ids[order], scores, k)


def _hits(ids: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> list[Hit]:
    order = np.lexsort((ids, -scores))[:k]
    return [Hit(int(ids[place]), float(scores[place])) for place in order]


class _Part(NamedTuple):
    """A segment as one search sees it: how many of its entries can be found, and which."""

    segment: Segment[Rows]
    size: int
    choice: Any
    """Parameters that leave only those, None for all."""

    @staticmethod
    def of(segment: Segment[Rows], allowed: ChunkIds | None) -> _Part:
        """What of it is left, and is allowed."""
        mask = segment.among(allowed)
        if mask is None:
            return _Part(segment, segment.live, None)
        count = int(mask.sum())
        return _Part(segment, count, _only(mask) if count else None)


def _nearest(
    parts: Sequence[_Part], row: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Ids and scores of the k best of each segment."""
    found = [(part, *_best(_exact(part.segment), row, k, *part[1:])) for part in parts]
    ids = [part.segment.rows.ids[places] for part, places, _ in found]
    return np.concatenate(ids), np.concatenate([scores for *_, scores in found])


def _rescored(
    parts: Sequence[_Part], row: NDArray[np.float32], candidates: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Ids and scores of the best by their codes, over all segments together."""
    rotated = one_bit_codes(row.shape[1]).rotated(row)
    found = [
        (part, *_best(_coarse(part.segment), rotated, candidates, *part[1:])) for part in parts
    ]
    last = np.sort(np.concatenate([scores for *_, scores in found]))[-candidates]
    # All that ties with the last too: which segment something lies in shall make no difference.
    chosen = [(part, np.sort(places[scores >= last])) for part, places, scores in found]
    ids = np.concatenate([part.segment.rows.ids[places] for part, places in chosen])
    vectors = np.concatenate([part.segment.rows.vectors[places] for part, places in chosen])
    order, scores = _best(_over(vectors), row, len(ids), len(ids))
    return ids[order], scores


def _exact(segment: Segment[Rows]) -> Any:
    return segment.view("exact", lambda rows: _over(rows.vectors))


def _coarse(segment: Segment[Rows]) -> Any:
    def made(rows: Rows) -> Any:
        return one_bit_codes(rows.vectors.shape[1]).index(rows.codes)

    return segment.view("coarse", made)


def _over(vectors: NDArray[np.float16]) -> Any:
    """A FAISS index over vectors of shape (n, dimension), by inner product."""
    import faiss

    made = faiss.IndexScalarQuantizer(
        vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    )
    return viewing(made, vectors.view(np.uint8))


def _best(
    index: Any, row: NDArray[np.float32], k: int, count: int, choice: Any = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Places and scores of the k best, best first, with all that tie with the k-th."""
    import faiss

    # FAISS shares out queries, not vectors: for one query, threads only cost their start.
    faiss.omp_set_num_threads(1)
    wanted = min(k + 1, count)
    while True:
        scores, places = index.search(row, wanted, params=choice)
        if wanted == count or scores[0, -1] < scores[0, k - 1]:
            break
        wanted = min(4 * wanted, count)
    tied = scores[0] >= scores[0, min(k, wanted) - 1]
    return places[0][tied], scores[0][tied]


def _only(mask: NDArray[np.bool_]) -> Any:
    """Search parameters that leave only the places where `mask` is true."""
    import faiss

    wrapped: Any = faiss  # the stubs show the C++ signatures, not those of the Python wrappers
    selector = wrapped.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
    return wrapped.SearchParameters(sel=selector)


def _batches(
    entries: Iterable[tuple[int, Vector]],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Ids, shape (n,), and vectors, shape (n, dimension)."""
    rest = iter(entries)
    while some := list(islice(rest, _BATCH)):
        ids, vectors = zip(*some, strict=True)
        yield np.array(ids, dtype=np.int64), np.stack(vectors)
