"""Segments of an index: some entries with their ids, in a file or in memory.

A file holds the arrays of its content one after another and nothing else. It is written once and
mapped: what a search does not look at is not read. One that is encrypted is read into memory as a
whole. Knows nothing of states, seals, other segments, or what the arrays mean.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.library.folder.sealing import DamagedIndexError, Identity
from localrag.library.indexes.base import are_allowed
from localrag.library.records import ChunkIds
from localrag.system.ciphers import AlteredError, Cipher
from localrag.system.files import open_plain, replace_file

SUFFIX = ".segment"


class Content(Protocol):
    """Entries that never change: a named tuple of arrays."""

    @property
    def ids(self) -> NDArray[np.int64]:
        """Sorted, each once."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers from which the shapes of all arrays follow; the first is that of entries."""

    def __iter__(self) -> Iterator[Any]:
        """The arrays in the order of a file."""

    def at(self, places: NDArray[np.bool_] | slice) -> Self:
        """The entries at some places, and no trace of the others."""

    @staticmethod
    def joined(some: Sequence[Any], /) -> Any:
        """All of them, by id."""

    @staticmethod
    def layout(*shape: int) -> list[tuple[str, tuple[int, ...]]]:
        """The type and shape of each array; none takes more bytes an item than the one before.

        Raises TypeError or ValueError where nothing of ours has such a shape.
        """


C = TypeVar("C", bound=Content)


class Origin(NamedTuple):
    """Where a segment lies, the SHA-256 of the file, and how to know it again."""

    path: Path
    sha256: str
    identity: Identity


@dataclass(frozen=True, eq=False)
class Segment(Generic[C]):
    """Entries that never change, less those that are `gone`, shape (n,), which a search passes."""

    rows: C
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

    def left(self) -> C:
        """The entries that are left."""
        return self.rows if self.gone is None else self.rows.at(~self.gone)

    def without(self, removed: ChunkIds) -> Segment[C]:
        """The same with entries gone that have one of these ids."""
        if not (stale := self.holding(removed)).any():
            return self
        return replace(self, gone=stale if self.gone is None else self.gone | stale)

    def among(self, allowed: ChunkIds | None) -> NDArray[np.bool_] | None:
        """Which entries can be found, shape (n,); None for all."""
        if allowed is None:
            return None if self.gone is None else ~self.gone
        mask = self.holding(allowed)
        return mask if self.gone is None else mask & ~self.gone

    def holding(self, ids: ChunkIds) -> NDArray[np.bool_]:
        """Which entries have one of these ids, gone or not; shape (n,)."""
        if len(ids) > len(self.rows.ids):
            return are_allowed(self.rows.ids, ids)
        places = np.searchsorted(self.rows.ids, ids)
        places = np.minimum(places, len(self.rows.ids) - 1)
        mask = np.zeros(len(self.rows.ids), dtype=np.bool_)
        mask[places[self.rows.ids[places] == ids]] = True
        return mask

    def view(self, name: str, make: Callable[[C], Any]) -> Any:
        """What is made of the entries, gone or not, the first time that it is asked for."""
        if name not in self._views:
            self._views[name] = make(self.rows)
        return self._views[name]

    def written(self, folder: Path, cipher: Cipher | None = None) -> Segment[C]:
        """The entries that are left as a new file in `folder`, which takes the memory's place."""
        content = self.left()
        parts = [np.ascontiguousarray(part).reshape(-1).view(np.uint8).data for part in content]
        digest = hashlib.sha256()
        path = folder / f"{secrets.token_hex(8)}{SUFFIX}"

        def write(file: BinaryIO) -> None:
            for part in cipher.encrypted(path.name, parts) if cipher else parts:
                digest.update(part)
                file.write(part)

        replace_file(path, write)
        origin = Origin(path, digest.hexdigest(), Identity.of(path.lstat()))
        return opened(type(content), origin, content.shape, cipher=cipher)

    def check(self) -> None:
        """Raise DamagedIndexError unless the file is bit by bit what was written."""
        if self.origin is not None:
            _expect_content(self.origin)


def opened(
    kind: type[C],
    origin: Origin,
    shape: Sequence[int],
    gone: bytes = b"",
    *,
    cipher: Cipher | None = None,
) -> Segment[C]:
    """A segment from its file; `gone` has a bit for each entry, or none at all.

    The content is looked through only where the file is not the one that was checked before.
    Raises DamagedIndexError for another size or content, before anything is made of it.
    """
    arrays = [(np.dtype(form), shape) for form, shape in kind.layout(*shape)]
    sizes = [form.itemsize * math.prod(shape) for form, shape in arrays]
    try:
        with open_plain(origin.path) as file:
            identity = Identity.of(os.fstat(file.fileno()))
            size = cipher.size_of(sum(sizes)) if cipher else sum(sizes)
            if identity.size != size or not sum(sizes):
                raise DamagedIndexError(f"{origin.path.name} has another size")
            if cipher is not None:  # every block is looked at as it is read
                data = cipher.mapped(origin.path.name, file)
            else:
                if identity != origin.identity:
                    _expect_content(origin)
                data = mmap.mmap(file.fileno(), identity.size, access=mmap.ACCESS_READ)
    except AlteredError as error:
        raise DamagedIndexError(f"{origin.path.name}: {error}") from error
    except OSError as error:
        raise DamagedIndexError(f"{origin.path.name} cannot be read") from error
    begin, parts = 0, []
    for (form, lengths), size in zip(arrays, sizes, strict=True):
        count = size // form.itemsize
        parts.append(np.frombuffer(data, form, count, begin if count else 0).reshape(lengths))
        begin += size
    mask = np.unpackbits(np.frombuffer(gone, np.uint8), bitorder="little", count=shape[0])
    # A segment that was copied or restored is known again from the next change on.
    known = origin._replace(identity=identity)
    constructor: Callable[..., C] = kind
    return Segment(constructor(*parts), known, mask.astype(np.bool_) if gone else None)


def _expect_content(origin: Origin) -> None:
    with open_plain(origin.path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != origin.sha256:
        raise DamagedIndexError(f"the checksum of {origin.path.name} does not match")
