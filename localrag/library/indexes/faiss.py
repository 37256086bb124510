"""Nearest neighbours with FAISS, in a folder of segments and a sealed list of them.

Up to `EXACT` vectors all are compared, as they are. Of more, their one-bit codes are: the best of
all segments, `rescored` of them and whatever ties with the last, are then compared as they are.
Scores are the same both ways, to the digit, and what is found follows from the vectors alone, not
from the changes by which they came or the segments in which they lie.

A change writes small segments and the list; what is removed is hidden by the list at once, and
gone from the files once its segment has been written anew (`erase`). Knows nothing about texts or
models.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.library.folder.gate import (
    EARLIER_VECTORS,
    POINTER,
    SEGMENT,
    clear_segments,
    clear_vectors,
)
from localrag.library.folder.sealing import (
    DamagedIndexError,
    ForeignIndexError,
    Identity,
    sealed,
    unsealed,
)
from localrag.library.indexes.base import Storage, Vector, Verified
from localrag.library.indexes.rabitq import one_bit_codes
from localrag.library.indexes.segments import (
    Origin,
    Rows,
    Segment,
    exact_index,
    opened,
)
from localrag.library.records import ID_SUMS, NEVER, ChunkIds, ChunkSet, Stamp
from localrag.system.files import make_folder, open_plain, replace_content
from localrag.types import Hit

CAPACITY = 1 << 16
"""Vectors of a full segment: of 512 dimensions, 70 MB."""

EXACT = 1 << 16
"""Up to so many vectors all are compared: 512 dimensions take 3 to 4 ms, the other way 2 to 3."""

RESCORED = 1000
"""Candidates that are compared as they are: of the 100 nearest of 100,000, 98% are among them."""

_SMALL = 1 << 12
"""Segments of up to so many are written anew with whatever is changed."""

_BATCH = 2048
_MAGIC = "localrag-vectors-3"
_LIST_LIMIT = 1 << 24
_MOST_DIMENSIONS = 1 << 16


class FaissVectors:
    """Inner-product search over L2-normalised vectors of one dimension."""

    persistent = True

    def __init__(
        self, rescored: int = RESCORED, *, exact: int = EXACT, capacity: int = CAPACITY
    ) -> None:
        """`rescored` 0 compares all vectors, however many there are."""
        self._rescored = rescored
        self._exact = exact
        self._capacity = capacity
        self._segments: tuple[Segment, ...] = ()
        self._lock = threading.RLock()
        self.stamp: Stamp = NEVER

    def __len__(self) -> int:
        return sum(segment.live for segment in self._segments)

    def saved(self, at: Storage) -> Stamp | None:
        """The state that the list names."""
        try:
            found = _load(at)
        except (OSError, DamagedIndexError):
            return None
        return found.stamp if found else None

    def open(self, at: Storage) -> None:
        """Map the segments, unless there are none or what is in memory is as new."""
        try:
            found = _load(at)
        except PermissionError as error:
            raise ForeignIndexError("it cannot be read under this account") from error
        if found is None:
            if (at.path.parent / EARLIER_VECTORS).exists():
                raise ForeignIndexError("an earlier version made it")
            return
        if found.stamp[0] == self.stamp[0] and found.stamp[1] <= self.stamp[1]:
            return
        segments = found.opened()
        with self._lock:
            self._segments, self.stamp = segments, found.stamp

    def apply(
        self,
        removed: Collection[int],
        added: Iterable[tuple[int, Vector]],
        stamp: Stamp,
        at: Storage | None = None,
    ) -> None:
        """Hide what is removed and make segments of what is added; save what changed."""
        with self._lock:
            stale = np.unique(np.fromiter(removed, dtype=np.int64))
            try:
                if at is not None:
                    make_folder(at.path)
                left = (segment.without(stale) for segment in self._segments)
                segments = self._packed(left, added, at)
                if at is not None:
                    _save(at, segments, stamp)
            except BaseException:
                if at is not None:
                    _sweep(at)
                raise
            self._segments, self.stamp = segments, stamp
        if at is not None:
            _sweep(at)

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
        order = np.lexsort((ids, -scores))[:k]
        return [Hit(int(ids[place]), float(scores[place])) for place in order]

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        # As unsigned numbers a sum wraps, which is what is wanted.
        sums = (int(one.ids.view(np.uint64).sum(dtype=np.uint64)) for one in self._segments)
        return ChunkSet(len(self), sum(sums) % ID_SUMS)

    def verify(self, expected: Iterable[tuple[int, Vector]]) -> Verified:
        """Read every byte of the files, and compare the vectors bit by bit."""
        segments = self._segments
        try:
            for segment in segments:
                segment.check()
        except OSError as error:
            raise DamagedIndexError(str(error)) from error
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
        return Verified([number for one in segments for number in one.ids.tolist()], differing)

    def erase(self, at: Storage, but: Stamp | None = None) -> bool:
        """Delete the folder, or what is not of the state `but`: that is written anew without it.

        Windows keeps what a reader has mapped.
        """
        try:
            found = _load(at) if but is not None else None
            if found is None or found.stamp != but:
                return clear_vectors(at.path)
            segments = found.opened()
        except (OSError, DamagedIndexError):
            return clear_vectors(at.path)
        with self._lock:
            if any(segment.gone is not None for segment in segments):
                segments = self._packed(segments, (), at, clean=True)
                _save(at, segments, found.stamp)
                if self.stamp == but:
                    self._segments = segments
        del segments, found  # Windows deletes nothing that is mapped
        return _sweep(at)

    def _packed(
        self,
        segments: Iterable[Segment],
        added: Iterable[tuple[int, Vector]],
        at: Storage | None,
        *,
        clean: bool = False,
    ) -> tuple[Segment, ...]:
        """Segments of what is left of some and of what is added, as files where a place is given.

        Those that are as they should be stay. The rest is written anew, with small ones, so that
        there are few: each is at least as large as all that it took up. With `clean`, nothing
        that is hidden stays.
        """
        kept: list[Segment] = []
        taken: list[Segment] = []
        for segment in sorted(segments, key=lambda one: one.live):
            foreign = at is not None and not (
                segment.origin and segment.origin.path.parent == at.path
            )
            hides = segment.gone is not None and (clean or segment.live <= _SMALL)
            if segment.live:
                (taken if foreign or hides else kept).append(segment)
        dimension = next((one.rows.vectors.shape[1] for one in (*kept, *taken)), None)
        made: list[Segment] = []
        buffer: list[Rows] = []

        def close() -> None:
            segment = Segment(Rows.joined(buffer))
            made.append(segment.written(at.path) if at is not None else segment)
            buffer.clear()

        count = 0
        for rows in chain(_rows(added, dimension), (one.left() for one in taken)):
            while len(rows.ids):
                room = self._capacity - count
                buffer.append(rows.at(slice(room)))
                rows = rows.at(slice(room, None))
                count += len(buffer[-1].ids)
                if count == self._capacity:
                    close()
                    count = 0
        if count:
            while kept and kept[0].live <= max(count, _SMALL):
                if count + kept[0].live > self._capacity:
                    break
                buffer.append(kept.pop(0).left())
                count += len(buffer[-1].ids)
            close()
        return (*kept, *made)


class _Part(NamedTuple):
    """A segment as one search sees it: how many of its entries can be found, and which."""

    segment: Segment
    size: int
    choice: Any
    """Parameters that leave only those, None for all."""

    @staticmethod
    def of(segment: Segment, allowed: ChunkIds | None) -> _Part:
        """What of it is left, and is allowed."""
        mask = segment.among(allowed)
        if mask is None:
            return _Part(segment, segment.live, None)
        count = int(mask.sum())
        return _Part(segment, count, _only(mask) if count else None)


class _List(NamedTuple):
    """What the list says, as far as it has been looked at: no segment has been opened."""

    stamp: Stamp
    dimension: int
    segments: list[tuple[Origin, int, bytes]]
    """Where each lies, its entries, and a bit for each that is hidden, or none."""

    def opened(self) -> tuple[Segment, ...]:
        """Map the segments. Raises DamagedIndexError for what cannot be trusted."""
        return tuple(
            opened(origin, count, self.dimension, gone) for origin, count, gone in self.segments
        )


def _load(at: Storage) -> _List | None:
    """The list that lies there, None for none.

    Raises ForeignIndexError for one of another key, DamagedIndexError for an altered one.
    """
    try:
        with open_plain(at.path / POINTER) as file:
            content = file.read(_LIST_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    fields = unsealed(content, at.seal)
    if fields.get("format") != _MAGIC:
        raise DamagedIndexError(f"{POINTER} has another format")
    # What a group has sealed, too, leads nowhere else and says nothing that cannot be.
    try:
        stamp = str(fields["epoch"]), int(fields["generation"])
        dimension = _dimension(fields["dimension"])
        segments = [_entry(at, **entry) for entry in fields["segments"]]
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise DamagedIndexError(f"{POINTER} has another format") from error
    return _List(stamp, dimension, segments)


def _dimension(value: int) -> int:
    if not 1 <= value <= _MOST_DIMENSIONS:
        raise ValueError(value)
    return value


def _entry(
    at: Storage, *, name: str, count: int, sha256: str, identity: list[int], gone: str
) -> tuple[Origin, int, bytes]:
    hidden = base64.b64decode(gone, validate=True)
    if not SEGMENT.fullmatch(name) or count < 1 or len(hidden) not in (0, (count + 7) // 8):
        raise ValueError(name)
    return Origin(at.path / name, sha256, Identity(*map(int, identity))), count, hidden


def _save(at: Storage, segments: Collection[Segment], stamp: Stamp) -> None:
    """Replace the list: from then on, this is the state that lies there."""
    dimension = next((one.rows.vectors.shape[1] for one in segments), 1)
    fields = {
        "format": _MAGIC,
        "epoch": stamp[0],
        "generation": stamp[1],
        "dimension": dimension,
        "segments": [_described(one) for one in segments],
    }
    replace_content(at.path / POINTER, sealed(fields, at.seal))


def _described(segment: Segment) -> dict[str, Any]:
    origin, gone = segment.lies, segment.gone
    bits = b"" if gone is None else np.packbits(gone, bitorder="little").tobytes()
    return {
        "name": origin.path.name,
        "count": len(segment.rows.ids),
        "sha256": origin.sha256,
        "identity": list(origin.identity),
        "gone": base64.b64encode(bits).decode("ascii"),
    }


def _sweep(at: Storage) -> bool:
    """Delete segments that the list does not name; False where one is still in use."""
    try:
        found = _load(at)
    except (OSError, DamagedIndexError):
        found = None
    return clear_segments(at.path, {one.path.name for one, *_ in found.segments} if found else ())


def _nearest(
    parts: Sequence[_Part], row: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Ids and scores of the k best of each segment."""
    found = [(part, *_best(part.segment.exact, row, k, *part[1:])) for part in parts]
    ids = [part.segment.rows.ids[places] for part, places, _ in found]
    return np.concatenate(ids), np.concatenate([scores for *_, scores in found])


def _rescored(
    parts: Sequence[_Part], row: NDArray[np.float32], candidates: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Ids and scores of the best by their codes, over all segments together."""
    rotated = one_bit_codes(row.shape[1]).rotated(row)
    found = [(part, *_best(part.segment.coarse, rotated, candidates, *part[1:])) for part in parts]
    last = np.sort(np.concatenate([scores for *_, scores in found]))[-candidates]
    # All that ties with the last too: which segment something lies in shall make no difference.
    chosen = [(part, np.sort(places[scores >= last])) for part, places, scores in found]
    ids = np.concatenate([part.segment.rows.ids[places] for part, places in chosen])
    vectors = np.concatenate([part.segment.rows.vectors[places] for part, places in chosen])
    order, scores = _best(exact_index(vectors), row, len(ids), len(ids))
    return ids[order], scores


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


def _rows(entries: Iterable[tuple[int, Vector]], dimension: int | None) -> Iterator[Rows]:
    """The same with their codes; raises ValueError for vectors of another dimension."""
    for ids, vectors in _batches(entries):
        dimension = vectors.shape[1] if dimension is None else dimension
        if vectors.shape[1] != dimension:
            raise ValueError(
                f"vectors must have shape ({len(ids)}, {dimension}), was: {vectors.shape}"
            )
        yield Rows.of(ids, vectors)
