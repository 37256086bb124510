"""Vectors that another program holds and searches, such as Qdrant or Milvus.

A store says which vectors are near; the library compares those that it names, as its catalogue has
them, so that scores are the same as with any other index, to the digit. Knows nothing of how a
store is reached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.library.folder.gate import clear_index
from localrag.library.indexes.base import Storage, Vector, Verified
from localrag.library.records import ID_SUMS, NEVER, ChunkIds, ChunkSet, Stamp

_T = TypeVar("_T")

_BATCH = 1000
"""Vectors that are sent at once."""


class RemoteVectorIndex(Protocol):
    """The vectors of one library in a store; a client of thirty lines fulfils it.

    Each call is done when it returns, and may be made again. Raises LibraryError where the store
    cannot be reached. Its connections are opened in `localrag.egress`, and it is told nothing but
    numbers: ids and vectors, neither texts nor names.
    """

    def stamp(self) -> Stamp:
        """What was marked last; `NEVER` where nothing was."""

    def mark(self, stamp: Stamp) -> None:
        """Keep the state that it now has, for whoever comes next."""

    def put(self, ids: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Add vectors, L2-normalised, shape (len(ids), dimension), in the place of older ones."""

    def remove(self, ids: Sequence[int]) -> None:
        """Remove those of the ids that are there."""

    def clear(self) -> None:
        """Remove all, and the mark."""

    def ids(self) -> ChunkIds:
        """All that are there, in any order."""

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Those of ids that are there, shape (len(ids), dimension), as near as it has them."""

    def nearest(self, query: Vector, k: int, allowed: ChunkIds | None) -> ChunkIds:
        """At least the k nearest by inner product that are `allowed`, as far as it can tell.

        With what ties with the last of them. More do no harm.
        """


class RemoteVectors:
    """A `VectorIndex` over such a store, which every process that opens the library shares.

    The mark is set last, and every change can be made again: of two processes that bring the store
    up to date at once, the next one repeats what only one of them has marked.
    """

    persistent = False
    """It lies in no folder."""

    def __init__(self, store: RemoteVectorIndex) -> None:
        self._store = store
        self._ids: ChunkIds = np.array([], dtype=np.int64)
        self.stamp: Stamp = NEVER

    def saved(self, _: Storage) -> None:
        """Nothing of it lies there."""

    def open(self, _: Storage) -> None:
        """Take up the state that the store has."""
        stamp = self._store.stamp()
        if stamp != self.stamp:
            self._ids = np.unique(self._store.ids())
            self.stamp = stamp

    def apply(
        self,
        removed: Collection[int],
        added: Iterable[tuple[int, Vector]],
        stamp: Stamp,
        at: Storage | None = None,  # noqa: ARG002
    ) -> None:
        """Bring the store to a state; one that is new to this index is emptied before."""
        if self.stamp == NEVER:
            self._store.clear()
            self._ids = np.array([], dtype=np.int64)
        for some in _batches(removed):
            self._store.remove(some)
        self._ids = np.setdiff1d(self._ids, np.array([*removed], dtype=np.int64))
        for entries in _batches(added):
            ids, vectors = zip(*entries, strict=True)
            self._store.put(ids, np.stack(vectors))
            self._ids = np.union1d(self._ids, np.array(ids, dtype=np.int64))
        self._store.mark(stamp)
        self.stamp = stamp

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        return ChunkSet(len(self._ids), sum(self._ids.tolist()) % ID_SUMS)

    def candidates(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> ChunkIds:
        """Which of all, or of those that are `allowed`, the store takes for the k nearest."""
        if k < 1 or not len(self._ids) or (allowed is not None and not len(allowed)):
            return np.array([], dtype=np.int64)
        return np.unique(self._store.nearest(query, k, allowed))

    def verify(self, expected: Iterable[tuple[int, Vector]]) -> Verified:
        """Compare with what the store should hold, to the nearness of half precision."""
        ids, differing = self._store.ids(), 0
        there = set(ids.tolist())
        for entries in _batches(((n, v) for n, v in expected if n in there)):
            numbers, vectors = zip(*entries, strict=True)
            near = np.isclose(self._store.vectors(numbers), np.stack(vectors), atol=2e-3)
            differing += int((~near.all(axis=1)).sum())
        return Verified(ids.tolist(), differing)

    def erase(self, at: Storage, but: Stamp | None = None) -> bool:
        """Empty the store, unless it has the state `but`, and what another engine left there."""
        clear_index(at.path)
        if but is None or self._store.stamp() != but:
            self._store.clear()
            self.stamp = NEVER
        return True


def _batches(some: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(some)
    while batch := list(islice(rest, _BATCH)):
        yield batch
