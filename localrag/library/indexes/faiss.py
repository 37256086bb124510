"""Nearest neighbours with FAISS, kept in one file that carries the generation it was built to.

The index is exact: all vectors are compared. They are kept as float16, the same numbers that
the catalogue holds, in half the space of float32. Knows nothing about texts or models.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from localrag.library.folder.gate import clear_vectors
from localrag.library.folder.sealing import DamagedIndexError, ForeignIndexError, sealed, unsealed
from localrag.library.indexes.base import Storage, Vector, Verified, are_allowed
from localrag.library.records import NEVER, ChunkIds, ChunkSet, Stamp
from localrag.system.files import open_plain, replace_file
from localrag.system.seals import Seal
from localrag.types import Hit

TRAILER_SIZE = 512
"""Bytes after FAISS's own; FAISS does not read them, so other programs can open the file."""

_BATCH = 2048
_MAGIC = "localrag-vectors-2"
_TRAILER_OF_0_1 = 128


class FaissVectors:
    """Exact inner-product search over L2-normalised vectors of one dimension."""

    persistent = True

    def __init__(self) -> None:
        self._index: Any = None  # one without vectors has no dimension
        self._lock = threading.RLock()
        self.stamp: Stamp = NEVER

    def __len__(self) -> int:
        return int(self._index.ntotal) if self._index else 0

    def saved(self, at: Storage) -> Stamp | None:
        """The state that the file was built to, by its trailer alone."""
        try:
            with open_plain(at.path) as file:
                trailer = _trailer(file, at.seal)
        except (OSError, DamagedIndexError):
            return None
        return trailer["epoch"], trailer["generation"]

    def open(self, at: Storage) -> None:
        """Read the file, unless it is missing or of an older state than what is in memory."""
        import faiss

        try:
            with open_plain(at.path) as file:
                trailer = _trailer(file, at.seal)
                if trailer["epoch"] == self.stamp[0] and trailer["generation"] <= self.stamp[1]:
                    return
                payload = file.read(trailer["size"])
        except FileNotFoundError:
            return
        except PermissionError as error:
            raise ForeignIndexError("it cannot be read under this account") from error
        if hashlib.sha256(payload).hexdigest() != trailer["sha256"]:
            raise DamagedIndexError("the checksum does not match")
        index = faiss.deserialize_index(np.frombuffer(payload, dtype=np.uint8))
        with self._lock:
            self._index, self.stamp = index, (trailer["epoch"], trailer["generation"])

    def apply(
        self,
        removed: Collection[int],
        added: Iterable[tuple[int, Vector]],
        stamp: Stamp,
        at: Storage | None = None,
    ) -> None:
        """Change what is in memory, and replace the file with all of it."""
        with self._lock:
            if removed and len(self):
                self._index.remove_ids(np.fromiter(removed, dtype=np.int64))
            if not len(self):
                self._index = None
            for ids, vectors in _batches(added):
                if self._index is None:
                    self._index = _empty(vectors.shape[1])
                if vectors.shape[1] != self._index.d:
                    raise ValueError(
                        f"vectors must have shape ({len(ids)}, {self._index.d}), "
                        f"was: {vectors.shape}"
                    )
                self._index.add_with_ids(vectors, ids)
            self.stamp = stamp
            if at is not None:
                self.save(at)

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best by inner product; `query` has shape (dimension,)."""
        import faiss

        with self._lock:
            index, ids_of, choice, total = self._index, None, None, len(self)
            if allowed is not None and total:
                # By place and not by id: a bit a vector is quick for few ids and for many.
                ids_of = self._ids()
                mask = are_allowed(ids_of, allowed)
                choice = _only(mask)
                index, total = index.index, int(mask.sum())
            if k < 1 or not total:
                return []
            # FAISS shares out queries, not vectors: for one query, threads only cost their start.
            faiss.omp_set_num_threads(1)
            row = np.ascontiguousarray(query, dtype=np.float32).reshape(1, index.d)
            # FAISS breaks ties by position: look on until the k-th score has no equal outside.
            wanted = min(k + 1, total)
            while True:
                scores, ids = index.search(row, wanted, params=choice)
                if wanted == total or scores[0, -1] < scores[0, k - 1]:
                    break
                wanted = min(4 * wanted, total)
        if ids_of is not None:
            ids = ids_of[ids]
        order = np.lexsort((ids[0], -scores[0]))[:k]
        return [Hit(int(ids[0, place]), float(scores[0, place])) for place in order]

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        # As unsigned numbers a sum wraps, which is what is wanted.
        return ChunkSet(len(self), int(self._ids().view(np.uint64).sum(dtype=np.uint64)))

    def verify(self, expected: Iterable[tuple[int, Vector]]) -> Verified:
        """Compare the vectors bit by bit, as they are kept: little-endian float16."""
        import faiss

        ids, differing = self._ids(), 0
        if not len(self):
            return Verified([], 0)
        quantizer: Any = faiss.downcast_index(self._index.index)
        codes = np.array(faiss.vector_to_array(quantizer.codes)).reshape(len(self), -1)
        order = np.argsort(ids)
        for some, vectors in _batches(expected):
            places = np.minimum(np.searchsorted(ids, some, sorter=order), len(ids) - 1)
            held = ids[order[places]] == some
            wanted = vectors[held].astype("<f2").view(np.uint8)
            found = codes[order[places[held]]]
            alike = found.shape == wanted.shape
            differing += int((found != wanted).any(axis=1).sum()) if alike else int(held.sum())
        return Verified(ids.tolist(), differing)

    def erase(self, at: Storage, but: Stamp | None = None) -> bool:
        """Delete the file, if it is of another state than `but`."""
        if but is None or self.saved(at) != but:
            clear_vectors(at.path)
        return True

    def save(self, at: Storage) -> None:
        """Replace the file; index and stamp go into it together."""
        import faiss

        with self._lock:
            payload = faiss.serialize_index(self._index or _empty(1))
            fields = {
                "format": _MAGIC,
                "epoch": self.stamp[0],
                "generation": self.stamp[1],
                "dimension": self._index.d if self._index else 1,
                "size": payload.nbytes,
                "sha256": hashlib.sha256(payload.data).hexdigest(),
            }
            trailer = sealed(fields, at.seal).ljust(TRAILER_SIZE)
            replace_file(at.path, lambda file: file.writelines((payload.data, trailer)))

    def _ids(self) -> NDArray[np.int64]:
        """All ids, in no order."""
        import faiss

        if self._index is None:
            return np.empty(0, dtype=np.int64)
        return np.array(faiss.vector_to_array(self._index.id_map), dtype=np.int64)


def _empty(dimension: int) -> Any:
    import faiss

    quantizer = faiss.IndexScalarQuantizer(
        dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    )
    return faiss.IndexIDMap(quantizer)


def _batches(
    entries: Iterable[tuple[int, Vector]],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Ids, shape (n,), and vectors, shape (n, dimension)."""
    rest = iter(entries)
    while some := list(islice(rest, _BATCH)):
        ids, vectors = zip(*some, strict=True)
        yield np.array(ids, dtype=np.int64), np.stack(vectors)


def _only(mask: NDArray[np.bool_]) -> Any:
    """Search parameters that leave only the places where `mask` is true."""
    import faiss

    wrapped: Any = faiss  # the stubs show the C++ signatures, not those of the Python wrappers
    selector = wrapped.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
    return wrapped.SearchParameters(sel=selector)


def _trailer(file: BinaryIO, seal: Seal) -> dict[str, Any]:
    """What the end of the file says, whose size it fits; the file stands at its beginning then."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TRAILER_SIZE))
    end = file.read()
    if end[-_TRAILER_OF_0_1:].startswith(b'{"format":"localrag-vectors-1"'):
        raise ForeignIndexError("an earlier version made it")
    trailer = unsealed(end, seal)
    if trailer.get("format") != _MAGIC or trailer["size"] != size - TRAILER_SIZE:
        raise DamagedIndexError("the file is cut short or has another format")
    file.seek(0)
    return trailer
