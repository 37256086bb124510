"""Segments of a vector index: some vectors with their ids and codes, in a file or in memory.

A file holds, in this order and with nothing else, the ids (int64, sorted), the vectors (float16,
the same numbers that the catalogue holds) and their one-bit codes. It is written once and mapped:
what a search does not look at is not read. Knows nothing of states, seals or other segments.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.library.folder.sealing import DamagedIndexError, Identity
from localrag.library.indexes.base import are_allowed
from localrag.library.indexes.rabitq import one_bit_codes, viewing
from localrag.library.records import ChunkIds
from localrag.system.files import open_plain, replace_file

SUFFIX = ".segment"

_ID_BYTES = 8


class Rows(NamedTuple):
    """Entries of a segment: ids, shape (n,) int64; vectors, (n, dimension) float16; codes."""

    ids: NDArray[np.int64]
    vectors: NDArray[np.float16]
    codes: NDArray[np.uint8]

    def at(self, places: NDArray[np.bool_] | slice) -> Rows:
        """Those at some places."""
        return Rows(self.ids[places], self.vectors[places], self.codes[places])

    @staticmethod
    def of(ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> Rows:
        """Entries for vectors of shape (n, dimension), as near as float16 has them."""
        held = vectors.astype("<f2")
        return Rows(ids, held, one_bit_codes(vectors.shape[1]).encode(held.astype(np.float32)))

    @staticmethod
    def joined(some: list[Rows]) -> Rows:
        """All of them, by id."""
        ids = np.concatenate([rows.ids for rows in some])
        order = np.argsort(ids, kind="stable")
        vectors = np.concatenate([rows.vectors for rows in some])[order]
        codes = np.concatenate([rows.codes for rows in some])[order]
        return Rows(ids[order], vectors, codes)


class Origin(NamedTuple):
    """Where a segment lies, the SHA-256 of the file, and how to know it again."""

    path: Path
    sha256: str
    identity: Identity


@dataclass(frozen=True, eq=False)
class Segment:
    """Entries that never change, less those that are `gone`, shape (n,), which a search passes."""

    rows: Rows
    origin: Origin | None = None
    gone: NDArray[np.bool_] | None = None
    _views: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def live(self) -> int:
        """How many entries are left."""
        return len(self.rows.ids) - (0 if self.gone is None else int(self.gone.sum()))

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids that are left, sorted."""
        return self.rows.ids if self.gone is None else self.rows.ids[~self.gone]

    @property
    def lies(self) -> Origin:
        """Where, of one that is in a file; raises ValueError for one in memory."""
        if self.origin is None:
            raise ValueError("it has not been written")
        return self.origin

    @property
    def exact(self) -> Any:
        """A FAISS index over the vectors."""
        return self._view("exact", lambda: exact_index(self.rows.vectors))

    @property
    def coarse(self) -> Any:
        """A FAISS index over the codes."""
        made = one_bit_codes(self.rows.vectors.shape[1]).index
        return self._view("coarse", lambda: made(self.rows.codes))

    def left(self) -> Rows:
        """The entries that are left."""
        return self.rows if self.gone is None else self.rows.at(~self.gone)

    def without(self, removed: ChunkIds) -> Segment:
        """The same with entries gone that have one of these ids."""
        if not (stale := self._places(removed)).any():
            return self
        return replace(self, gone=stale if self.gone is None else self.gone | stale)

    def among(self, allowed: ChunkIds | None) -> NDArray[np.bool_] | None:
        """Which entries can be found, shape (n,); None for all."""
        if allowed is None:
            return None if self.gone is None else ~self.gone
        held = self._places(allowed)
        return held if self.gone is None else held & ~self.gone

    def written(self, folder: Path) -> Segment:
        """The entries that are left as a new file in `folder`, which takes the memory's place."""
        parts = [np.ascontiguousarray(part).view(np.uint8).reshape(-1).data for part in self.left()]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        path = folder / f"{secrets.token_hex(8)}{SUFFIX}"
        replace_file(path, lambda file: file.writelines(parts))
        origin = Origin(path, digest.hexdigest(), Identity.of(path.lstat()))
        return opened(origin, self.live, self.rows.vectors.shape[1])

    def check(self) -> None:
        """Raise DamagedIndexError unless the file is bit by bit what was written."""
        if self.origin is not None:
            _expect_content(self.origin)

    def _places(self, ids: ChunkIds) -> NDArray[np.bool_]:
        if len(ids) > len(self.rows.ids):
            return are_allowed(self.rows.ids, ids)
        places = np.searchsorted(self.rows.ids, ids)
        places = np.minimum(places, len(self.rows.ids) - 1)
        held = np.zeros(len(self.rows.ids), dtype=np.bool_)
        held[places[self.rows.ids[places] == ids]] = True
        return held

    def _view(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._views:
            self._views[name] = make()
        return self._views[name]


def opened(origin: Origin, count: int, dimension: int, gone: bytes = b"") -> Segment:
    """A segment from its file; `gone` has a bit for each entry, or none at all.

    The content is looked through only where the file is not the one that was checked before.
    Raises DamagedIndexError for another size or content, before anything is made of it.
    """
    size = count * entry_size(dimension)
    try:
        with open_plain(origin.path) as file:
            found = Identity.of(os.fstat(file.fileno()))
            if found.size != size or not size:
                raise DamagedIndexError(f"{origin.path.name} has another size")
            if found != origin.identity:
                _expect_content(origin)
            content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except OSError as error:
        raise DamagedIndexError(f"{origin.path.name} cannot be read") from error
    vectors_end = count * (_ID_BYTES + 2 * dimension)
    data = np.frombuffer(content, dtype=np.uint8)
    rows = Rows(
        data[: count * _ID_BYTES].view("<i8"),
        data[count * _ID_BYTES : vectors_end].view("<f2").reshape(count, dimension),
        data[vectors_end:].reshape(count, -1),
    )
    mask = np.unpackbits(np.frombuffer(gone, dtype=np.uint8), bitorder="little", count=count)
    # A segment that was copied or restored is known again from the next change on.
    known = origin._replace(identity=found)
    return Segment(rows, known, mask.astype(np.bool_) if gone else None)


def entry_size(dimension: int) -> int:
    """Bytes that an entry takes in a file."""
    return _ID_BYTES + 2 * dimension + one_bit_codes(dimension).size


def exact_index(vectors: NDArray[np.float16]) -> Any:
    """A FAISS index over vectors of shape (n, dimension), by inner product."""
    import faiss

    made = faiss.IndexScalarQuantizer(
        vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    )
    return viewing(made, vectors.view(np.uint8))


def _expect_content(origin: Origin) -> None:
    with open_plain(origin.path) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != origin.sha256:
        raise DamagedIndexError(f"the checksum of {origin.path.name} does not match")
