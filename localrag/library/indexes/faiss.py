"""Which vectors can be nearest, with FAISS, in a folder of segments and a sealed list of them.

A segment holds no vectors but one byte a dimension of each, in steps that follow from the vector
alone. By how far a score in steps can be off, all are named that can be among the best: whoever has
the vectors finds the same as if all were compared as they are (`compared`), to the digit. Where
those are more than `MOST_NAMED`, it is the best by their steps that are named: typical errors are
some thirty times smaller than the largest.

Up to `EXACT` vectors, those are the best of all. Of more, one-bit codes are compared first, and it
is the best of the `rescored` that they put first, and of whatever ties with the last. What is found
follows from the vectors alone, not from the changes by which they came or the segments in which
they lie. Knows nothing about texts or models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.library.indexes.base import Vector
from localrag.library.indexes.comparison import EXACT, best, only, over
from localrag.library.indexes.rabitq import one_bit_codes
from localrag.library.indexes.segmented import CAPACITY, SegmentedIndex
from localrag.library.indexes.segments import Segment
from localrag.library.records import ChunkIds

RESCORED = 1000
"""Candidates that are compared as they are: of the 100 nearest of 100,000, 98% are among them."""

MOST_NAMED = 4 * RESCORED
"""So many are named at most, or four times what is asked for: few large numbers in each vector, or
many vectors that are alike, leave too much possible."""

_BATCH = 2048
_FORM = "localrag-vectors-5"
_MOST_DIMENSIONS = 1 << 16
_MOST_STEPS = 127
_MORE = 100
"""So many more than four times what is asked for are looked at first, which is mostly enough."""


class Rows(NamedTuple):
    """Entries of a segment, by id."""

    ids: NDArray[np.int64]
    """Shape (n,)."""
    steps: NDArray[np.float32]
    """What one step of each is worth: the power of two that takes at most 127; shape (n,)."""
    levels: NDArray[np.uint8]
    """How many steps each number is, plus 128; shape (n, dimension)."""
    codes: NDArray[np.uint8]
    """One bit a dimension, and what it takes to compare by them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the vectors."""
        return self.levels.shape

    @staticmethod
    def layout(*shape: int) -> list[tuple[str, tuple[int, ...]]]:
        """From that of the vectors."""
        count, dimension = shape
        if not 1 <= dimension <= _MOST_DIMENSIONS:
            raise ValueError(dimension)
        codes = one_bit_codes(dimension).size
        wide = [("<i8", (count,)), ("<f4", (count,))]
        return [*wide, ("u1", (count, dimension)), ("u1", (count, codes))]

    def at(self, places: NDArray[np.bool_] | slice) -> Rows:
        """Those at some places."""
        return Rows(self.ids[places], self.steps[places], self.levels[places], self.codes[places])

    @staticmethod
    def of(ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> Rows:
        """Entries for vectors of shape (n, dimension), as near as float16 has them, by id."""
        order = np.argsort(ids, kind="stable")
        rounded = vectors[order].astype("<f2").astype(np.float32)
        codes = one_bit_codes(vectors.shape[1]).encode(rounded)
        return Rows(ids[order], *_stepped(rounded), codes)

    @staticmethod
    def joined(some: Sequence[Rows]) -> Rows:
        """All of them, by id."""
        order = np.argsort(np.concatenate([rows.ids for rows in some]), kind="stable")
        return Rows(*(np.concatenate(parts)[order] for parts in zip(*some, strict=True)))


class FaissVectors(SegmentedIndex[Vector, Rows]):
    """Candidates by inner product of L2-normalised vectors of one dimension."""

    def __init__(
        self, rescored: int = RESCORED, *, exact: int = EXACT, capacity: int = CAPACITY
    ) -> None:
        """`rescored` 0 compares all vectors, however many there are."""
        super().__init__(Rows, _FORM, str, capacity)
        self._rescored = rescored
        self._exact = exact

    def candidates(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> ChunkIds:
        """Which can be among the k best by inner product; `query` has shape (dimension,)."""
        segment_parts = (_Part.of(segment, allowed) for segment in self._segments)
        parts = [part for part in segment_parts if part.size]
        total = sum(part.size for part in parts)
        if k < 1 or not total:
            return np.empty(0, dtype=np.int64)
        row = np.ascontiguousarray(query, dtype=np.float32).reshape(1, -1)
        coarse = max(self._rescored, k)
        if not self._rescored or total <= max(self._exact, coarse):
            return np.sort(_nearest(parts, row, k))
        return np.sort(_rescored(parts, row, coarse, k))

    def _contents(self, entries: Iterable[tuple[int, Vector]], like: Rows | None) -> Iterator[Rows]:
        """With their codes; raises ValueError for vectors of another dimension."""
        dimension = None if like is None else like.shape[1]
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
        """By their steps. The codes, whose rounding is the processor's, have only a checksum."""
        differing = 0
        for ids, vectors in _batches(expected):
            steps, levels = _stepped(vectors.astype("<f2").astype(np.float32))
            for segment in segments:
                rows = segment.rows
                places = np.minimum(np.searchsorted(rows.ids, ids), len(rows.ids) - 1)
                matches = rows.ids[places] == ids
                if segment.gone is not None:
                    matches &= ~segment.gone[places]
                if rows.shape[1] != vectors.shape[1]:
                    differing += int(matches.sum())
                    continue
                other = (rows.levels[places[matches]] != levels[matches]).any(axis=1)
                other |= rows.steps[places[matches]] != steps[matches]
                differing += int(other.sum())
        return differing


class _Part(NamedTuple):
    """A segment as one search sees it: how many of its entries can be found, and which."""

    segment: Segment[Rows]
    size: int
    mask: NDArray[np.bool_] | None
    """Those that can, shape (n,); None for all."""

    @staticmethod
    def of(segment: Segment[Rows], allowed: ChunkIds | None) -> _Part:
        """What of it is left, and is allowed."""
        mask = segment.among(allowed)
        return _Part(segment, segment.live if mask is None else int(mask.sum()), mask)


class _Group(NamedTuple):
    """Entries with the same step, whose scores in steps so compare."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    step: float
    levels: NDArray[np.uint8]
    index: Any
    """Over the levels, which it does not hold."""


def _stepped(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The step and the levels of each vector; shape (n,) and that of the vectors.

    No number is farther from its level than half a step: a power of two divides without rounding.
    """
    _, exponents = np.frexp(np.abs(vectors).max(axis=1) / np.float32(_MOST_STEPS))
    steps = np.ldexp(np.float32(1), exponents).astype(np.float32)
    return steps, (np.rint(vectors / steps[:, None]) + 128).astype(np.uint8)


def _margin(row: NDArray[np.float32]) -> float:
    """By how many steps a score in steps can differ from that of the vector itself.

    Half a step for each number of the query; and what both scores may lose to rounding, which is
    up to n times 2**-24 of n products of at most 128 steps and such a number, and some for levels.
    """
    return float(np.abs(row, dtype=np.float64).sum()) * (0.5 + (row.size + 8) * 2.0**-16)


def _surest(
    ids: NDArray[np.int64], scores: NDArray[np.float64], margins: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], float]:
    """Those that can be among the k best, and the score that each of the k best has at least."""
    least = -np.inf
    if len(ids) >= k:
        least = float(np.partition(scores - margins, len(ids) - k)[len(ids) - k])
    sure = np.flatnonzero(scores + margins >= least)
    if len(sure) > _most(k):
        sure = sure[np.lexsort((ids[sure], -scores[sure]))[: _most(k)]]
    return ids[sure], least


def _most(k: int) -> int:
    return max(MOST_NAMED, 4 * k)


def _nearest(parts: Sequence[_Part], row: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Ids of those that can be among the k best of all."""
    groups = [
        (group, *_chosen(part, group))
        for part in parts
        for group in part.segment.view("steps", _grouped)
    ]
    margin, limit = _margin(row), 4 * k + _MORE
    while True:
        ids, scores, margins, unseen = [], [], [], -np.inf
        for group, count, choice in groups:
            if not count:
                continue
            places, group_scores = best(group.index, row, min(limit, count), count, choice)
            ids.append(group.ids[places])
            scores.append(group_scores.astype(np.float64) * group.step)
            margins.append(np.full(len(group_scores), margin * group.step))
            if len(group_scores) < count:
                unseen = max(unseen, float(scores[-1][-1]) + margin * group.step)
        together = map(np.concatenate, (ids, scores, margins))
        sure, least = _surest(next(together), next(together), next(together), k)
        # What a group has not shown has at least so many of its own before it.
        if unseen < least or unseen == -np.inf or limit >= _most(k):
            return sure
        limit *= 4


def _grouped(rows: Rows) -> list[_Group]:
    groups = []
    for step in np.unique(rows.steps):
        places = np.flatnonzero(rows.steps == step)
        levels = rows.levels if len(places) == len(rows.ids) else rows.levels[places]
        groups.append(_Group(rows.ids[places], places, float(step), levels, over(levels)))
    return groups


def _chosen(part: _Part, group: _Group) -> tuple[int, Any]:
    """How many of a group can be found, and what leaves only those."""
    if part.mask is None:
        return len(group.ids), None
    mask = part.mask[group.places]
    count = int(mask.sum())
    return count, only(mask) if count else None


def _rescored(
    parts: Sequence[_Part], row: NDArray[np.float32], coarse: int, k: int
) -> NDArray[np.int64]:
    """Ids of those that can be among the k best of the best by their codes, over all segments."""
    rotated = one_bit_codes(row.shape[1]).rotated(row)
    candidates = []
    for part in parts:
        choice = None if part.mask is None else only(part.mask)
        candidates.append((part, *best(_coarse(part.segment), rotated, coarse, part.size, choice)))
    last = np.sort(np.concatenate([scores for *_, scores in candidates]))[-coarse]
    # All that ties with the last too: which segment something lies in shall make no difference.
    chosen = [
        (part.segment.rows, np.sort(places[scores >= last])) for part, places, scores in candidates
    ]
    ids, steps, levels = (
        np.concatenate([rows[part][places] for rows, places in chosen]) for part in range(3)
    )
    order, scores = best(over(levels), row, len(ids), len(ids))
    steps = steps[order].astype(np.float64)
    return _surest(ids[order], scores * steps, _margin(row) * steps, k)[0]


def _coarse(segment: Segment[Rows]) -> Any:
    return segment.view("coarse", lambda rows: one_bit_codes(rows.shape[1]).index(rows.codes))


def _batches(
    entries: Iterable[tuple[int, Vector]],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Ids, shape (n,), and vectors, shape (n, dimension)."""
    rest = iter(entries)
    while some := list(islice(rest, _BATCH)):
        ids, vectors = zip(*some, strict=True)
        yield np.array(ids, dtype=np.int64), np.stack(vectors)
