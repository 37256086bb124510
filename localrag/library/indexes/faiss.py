"""Nearest neighbours with FAISS, kept in one file that carries the generation it was built to.

The index is exact: all vectors are compared. They are kept as float16, the same numbers that
the catalogue holds, in half the space of float32. Knows nothing about texts or models.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from localrag.library.indexes.base import ChunkIds, are_allowed
from localrag.library.records import ChunkSet, Stamp
from localrag.library.sealing import DamagedIndexError, ForeignIndexError, sealed, unsealed
from localrag.system.files import open_plain, replace_file
from localrag.system.seals import Seal, own_seal
from localrag.types import Hit

TRAILER_SIZE = 512
"""Bytes after FAISS's own; FAISS does not read them, so other programs can open the file."""

_MAGIC = "localrag-vectors-2"
_TRAILER_OF_0_1 = 128


class FaissVectors:
    """Exact inner-product search over L2-normalised vectors of one dimension."""

    def __init__(self, dimension: int, stamp: Stamp = ("", 0)) -> None:
        import faiss

        quantizer = faiss.IndexScalarQuantizer(
            dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        )
        self._index: Any = faiss.IndexIDMap(quantizer)
        self._lock = threading.RLock()
        self.dimension = dimension
        self.stamp = stamp

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def ids(self) -> NDArray[np.int64]:
        """All ids, in no order."""
        import faiss

        return np.array(faiss.vector_to_array(self._index.id_map), dtype=np.int64)

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        # As unsigned numbers a sum wraps, which is what is wanted.
        return ChunkSet(len(self), int(self.ids().view(np.uint64).sum(dtype=np.uint64)))

    def codes(self) -> NDArray[np.uint8]:
        """The vectors as they are kept, one row for each of `ids()`: little-endian float16."""
        import faiss

        quantizer: Any = faiss.downcast_index(self._index.index)
        codes = np.array(faiss.vector_to_array(quantizer.codes))
        return codes.reshape(len(self), 2 * self.dimension)

    def add(self, ids: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Add `vectors`, shape (n, dimension) float32, under `ids`; known ids are replaced."""
        self.update(ids, [(ids, vectors)], self.stamp)

    def remove(self, ids: Sequence[int]) -> None:
        """Forget these ids; unknown ones are ignored."""
        self.update(ids, (), self.stamp)

    def update(
        self,
        removed: Collection[int],
        added: Iterable[tuple[Sequence[int], NDArray[np.float32]]],
        stamp: Stamp,
    ) -> None:
        """Remove, then add batches of ids and vectors; no search sees a state in between.

        Ids in `added` that are there already must stand in `removed` too.
        """
        with self._lock:
            if removed and len(self):
                self._index.remove_ids(np.fromiter(removed, dtype=np.int64))
            for ids, vectors in added:
                if vectors.shape != (len(ids), self.dimension):
                    raise ValueError(
                        f"vectors must have shape ({len(ids)}, {self.dimension}), "
                        f"was: {vectors.shape}"
                    )
                self._index.add_with_ids(
                    np.ascontiguousarray(vectors, dtype=np.float32),
                    np.asarray(ids, dtype=np.int64),
                )
            self.stamp = stamp

    def search(
        self, vector: NDArray[np.float32], k: int, allowed: ChunkIds | None = None
    ) -> list[Hit]:
        """The k best by inner product, of all or of `allowed`, best first; ties by id."""
        import faiss

        with self._lock:
            index, ids_of, choice, total = self._index, None, None, len(self)
            if allowed is not None:
                # By place and not by id: a bit a vector is quick for few ids and for many.
                ids_of = self.ids()
                mask = are_allowed(ids_of, allowed)
                choice = _only(mask)
                index, total = self._index.index, int(mask.sum())
            if k < 1 or not total:
                return []
            # FAISS shares out queries, not vectors: for one query, threads only cost their start.
            faiss.omp_set_num_threads(1)
            query = np.ascontiguousarray(vector, dtype=np.float32).reshape(1, self.dimension)
            # FAISS breaks ties by position: look on until the k-th score has no equal outside.
            wanted = min(k + 1, total)
            while True:
                scores, ids = index.search(query, wanted, params=choice)
                if wanted == total or scores[0, -1] < scores[0, k - 1]:
                    break
                wanted = min(4 * wanted, total)
        if ids_of is not None:
            ids = ids_of[ids]
        order = np.lexsort((ids[0], -scores[0]))[:k]
        return [Hit(int(ids[0, place]), float(scores[0, place])) for place in order]

    def save(self, path: Path, seal: Seal | None = None) -> None:
        """Replace the file at `path`; index and stamp go into it together.

        `seal` is that of this user where none is given.
        """
        import faiss

        with self._lock:
            payload = faiss.serialize_index(self._index)
            trailer = _made(payload.data, self.stamp, self.dimension, seal or own_seal())
            replace_file(path, lambda file: file.writelines((payload.data, trailer)))

    @classmethod
    def load(cls, path: Path, dimension: int | None, seal: Seal | None = None) -> FaissVectors:
        """Open a file that `save` wrote; `dimension` None takes the one that it says.

        Nothing reaches FAISS that was not sealed with this key: a file made by others may break
        it. Raises FileNotFoundError, ForeignIndexError, or DamagedIndexError where the file is
        cut short, altered, or of another dimension.
        """
        import faiss

        with open_plain(path) as file:
            trailer = _trailer(file, seal or own_seal())
            if dimension not in (None, trailer["dimension"]):
                raise DamagedIndexError(f"dimension {trailer['dimension']}, expected {dimension}")
            payload = file.read(trailer["size"])
        if hashlib.sha256(payload).hexdigest() != trailer["sha256"]:
            raise DamagedIndexError("the checksum does not match")
        index = faiss.deserialize_index(np.frombuffer(payload, dtype=np.uint8))
        store = cls.__new__(cls)
        store._index = index
        store._lock = threading.RLock()
        store.dimension = trailer["dimension"]
        store.stamp = trailer["epoch"], trailer["generation"]
        return store


def _only(mask: NDArray[np.bool_]) -> Any:
    """Search parameters that leave only the places where `mask` is true."""
    import faiss

    wrapped: Any = faiss  # the stubs show the C++ signatures, not those of the Python wrappers
    selector = wrapped.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
    return wrapped.SearchParameters(sel=selector)


def read_stamp(path: Path, seal: Seal) -> Stamp | None:
    """The state a file was built to, without reading the index.

    None where there is none, or none that was sealed with this key.
    """
    try:
        with open_plain(path) as file:
            trailer = _trailer(file, seal)
    except (OSError, DamagedIndexError):
        return None
    return trailer["epoch"], trailer["generation"]


def _made(payload: memoryview, stamp: Stamp, dimension: int, seal: Seal) -> bytes:
    epoch, generation = stamp
    fields = {
        "format": _MAGIC,
        "epoch": epoch,
        "generation": generation,
        "dimension": dimension,
        "size": payload.nbytes,
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    return sealed(fields, seal).ljust(TRAILER_SIZE)


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
