"""An index in a folder of segments and a sealed list of them, whatever the segments hold.

A change writes small segments and the list; what is removed is hidden by the list at once, and
gone from the files once its segment has been written anew (`erase`). Whoever reads or is killed
meanwhile has one state or the other. Knows nothing about searching.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, NamedTuple

import numpy as np

from localrag.library.folder.gate import (
    POINTER,
    SEGMENT,
    clear_index,
    clear_segments,
    of_earlier_versions,
)
from localrag.library.folder.sealing import (
    DamagedIndexError,
    ForeignIndexError,
    Identity,
    sealed,
    unsealed,
)
from localrag.library.indexes.base import Query, Storage, Verified
from localrag.library.indexes.segments import C, Origin, Segment, opened
from localrag.library.records import ID_SUMS, NEVER, ChunkSet, Stamp
from localrag.system.files import make_folder, open_plain, replace_content

CAPACITY = 1 << 16
"""Entries of a full segment: 40 MB of vectors of 512 dimensions, 20 MB of words."""

_SMALL = 1 << 12
"""Segments of up to so many are written anew with whatever is changed."""

_LIST_LIMIT = 1 << 24
_EARLIER = re.compile(rb'\{"folder": "bm25-')
_FORMS = re.compile(r"localrag-(?:vectors|keywords)-\d+")


class SegmentedIndex(ABC, Generic[Query, C]):
    """What all such indexes have in common; see `DerivedIndex`."""

    persistent = True

    def __init__(
        self, kind: type[C], form: str, made_with: Callable[[], str], capacity: int
    ) -> None:
        """`form` names the format; what was `made_with` something else is not taken up."""
        self._kind = kind
        self._form = form
        self._made_with = made_with
        self._capacity = capacity
        self._segments: tuple[Segment[C], ...] = ()
        self._lock = threading.RLock()
        self.stamp: Stamp = NEVER

    @abstractmethod
    def _contents(self, entries: Iterable[tuple[int, Query]], like: C | None) -> Iterator[C]:
        """The entries, some at a time; `like` is what is held already."""

    @abstractmethod
    def _differing(
        self, segments: Sequence[Segment[C]], expected: Iterable[tuple[int, Query]]
    ) -> int:
        """How many of what is expected are held with other content."""

    def __len__(self) -> int:
        return sum(segment.live for segment in self._segments)

    def saved(self, at: Storage) -> Stamp | None:
        """The state that the list names."""
        try:
            listing = self._load(at)
        except (OSError, DamagedIndexError):
            return None
        return listing.stamp if listing else None

    def open(self, at: Storage) -> None:
        """Map the segments, unless there are none or what is in memory is as new."""
        try:
            listing = self._load(at)
        except PermissionError as error:
            raise ForeignIndexError("it cannot be read under this account") from error
        if listing is None:
            if any(path.exists() for path in of_earlier_versions(at.path)):
                raise ForeignIndexError("an earlier version made it")
            return
        if listing.made_with != self._made_with():
            return
        if listing.stamp[0] == self.stamp[0] and listing.stamp[1] <= self.stamp[1]:
            return
        segments = self._opened(listing, at)
        with self._lock:
            self._segments, self.stamp = segments, listing.stamp

    def apply(
        self,
        removed: Collection[int],
        added: Iterable[tuple[int, Query]],
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
                    self._save(at, segments, stamp)
            except BaseException:
                if at is not None:
                    self._sweep(at)
                raise
            self._segments, self.stamp = segments, stamp
        if at is not None:
            self._sweep(at)

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        # As unsigned numbers a sum wraps, which is what is wanted.
        sums = (int(segment.ids.view(np.uint64).sum(dtype=np.uint64)) for segment in self._segments)
        return ChunkSet(len(self), sum(sums) % ID_SUMS)

    def verify(self, expected: Iterable[tuple[int, Query]]) -> Verified:
        """Read every byte of the files, and compare what they hold."""
        segments = self._segments
        try:
            for segment in segments:
                segment.check()
        except OSError as error:
            raise DamagedIndexError(str(error)) from error
        differing = self._differing(segments, expected)
        return Verified(
            [number for segment in segments for number in segment.ids.tolist()], differing
        )

    def erase(self, at: Storage, but: Stamp | None = None) -> bool:
        """Delete the folder, or what is not of the state `but`: that is written anew without it.

        Windows keeps what a reader has mapped.
        """
        try:
            listing = self._load(at) if but is not None else None
            if listing is None or listing.stamp != but:
                return clear_index(at.path)
            segments = self._opened(listing, at)
        except (OSError, DamagedIndexError):
            return clear_index(at.path)
        with self._lock:
            if any(segment.gone is not None for segment in segments):
                segments = self._packed(segments, (), at, clean=True)
                self._save(at, segments, listing.stamp, listing.made_with)
                if self.stamp == but:
                    self._segments = segments
        del segments, listing  # Windows deletes nothing that is mapped
        return self._sweep(at)

    def _packed(
        self,
        segments: Iterable[Segment[C]],
        added: Iterable[tuple[int, Query]],
        at: Storage | None,
        *,
        clean: bool = False,
    ) -> tuple[Segment[C], ...]:
        """Segments of what is left of some and of what is added, as files where a place is given.

        Those that are as they should be stay. The rest is written anew, with small ones, so that
        there are few: each is at least as large as all that it took up. With `clean`, nothing
        that is hidden stays.
        """
        old_segments: list[Segment[C]] = []
        source_segments: list[Segment[C]] = []
        for segment in sorted(segments, key=lambda part: part.live):
            foreign = at is not None and not (
                segment.origin and segment.origin.path.parent == at.path
            )
            hides = segment.gone is not None and (clean or segment.live <= _SMALL)
            if hides and not foreign and at is not None and segment.live > _SMALL:
                old_segments.append(segment.written(at.path, at.seal.cipher))
            elif segment.live:
                (source_segments if foreign or hides else old_segments).append(segment)
        like = next((part.rows for part in (*old_segments, *source_segments)), None)
        new_segments: list[Segment[C]] = []
        buffer: list[C] = []

        def close() -> None:
            segment = Segment(buffer[0] if len(buffer) == 1 else self._kind.joined(buffer))
            new_segments.append(
                segment.written(at.path, at.seal.cipher) if at is not None else segment
            )
            buffer.clear()

        count = 0
        for rows in chain(self._contents(added, like), (part.left() for part in source_segments)):
            while len(rows.ids):
                room = self._capacity - count
                fits = len(rows.ids) <= room
                buffer.append(rows if fits else rows.at(slice(room)))
                count += len(buffer[-1].ids)
                if count == self._capacity:
                    close()
                    count = 0
                if fits:
                    break
                rows = rows.at(slice(room, None))
        if count:
            while old_segments and old_segments[0].live <= max(count, _SMALL):
                if count + old_segments[0].live > self._capacity:
                    break
                buffer.append(old_segments.pop(0).left())
                count += len(buffer[-1].ids)
            close()
        return (*old_segments, *new_segments)

    def _opened(self, listing: _SegmentList, at: Storage) -> tuple[Segment[C], ...]:
        """Map the segments. Raises DamagedIndexError for what cannot be trusted."""
        try:
            cipher = at.seal.cipher
            return tuple(opened(self._kind, *entry, cipher=cipher) for entry in listing.segments)
        except (TypeError, ValueError) as error:
            raise DamagedIndexError(f"{POINTER} has another format") from error

    def _load(self, at: Storage) -> _SegmentList | None:
        """The list that lies there, None for none.

        Raises ForeignIndexError for one of another key, DamagedIndexError for an altered one.
        """
        try:
            with open_plain(at.path / POINTER) as file:
                content = file.read(_LIST_LIMIT)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if _EARLIER.match(content):
            raise ForeignIndexError("an earlier version made it")
        fields = unsealed(content, at.seal)
        if (form := fields.get("format")) != self._form:
            if _FORMS.fullmatch(str(form)):
                raise ForeignIndexError("an earlier version made it")
            raise DamagedIndexError(f"{POINTER} has another format")
        # What a group has sealed, too, leads nowhere else and says nothing that cannot be.
        try:
            stamp = str(fields["epoch"]), int(fields["generation"])
            segments = [_entry(at, **entry) for entry in fields["segments"]]
            return _SegmentList(stamp, str(fields["made_with"]), segments)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise DamagedIndexError(f"{POINTER} has another format") from error

    def _save(
        self,
        at: Storage,
        segments: Collection[Segment[C]],
        stamp: Stamp,
        made_with: str | None = None,
    ) -> None:
        """Replace the list: from then on, this is the state that lies there."""
        fields = {
            "format": self._form,
            "epoch": stamp[0],
            "generation": stamp[1],
            "made_with": self._made_with() if made_with is None else made_with,
            "segments": [_list_entry(segment) for segment in segments],
        }
        replace_content(at.path / POINTER, sealed(fields, at.seal))

    def _sweep(self, at: Storage) -> bool:
        """Delete segments that the list does not name; False where one is still in use."""
        try:
            listing = self._load(at)
        except (OSError, DamagedIndexError):
            listing = None
        keep = {origin.path.name for origin, *_ in listing.segments} if listing else ()
        return clear_segments(at.path, keep)


class _SegmentList(NamedTuple):
    """What the list says, as far as it has been looked at: no segment has been opened."""

    stamp: Stamp
    made_with: str
    segments: list[tuple[Origin, list[int], bytes]]
    """Where each lies, the shape of its content, and a bit for each entry that is hidden, or
    none."""


def _entry(
    at: Storage, *, name: str, shape: list[int], sha256: str, identity: list[int], gone: str
) -> tuple[Origin, list[int], bytes]:
    hidden = base64.b64decode(gone, validate=True)
    numbers = [int(length) for length in shape]
    wrong = min(numbers) < 0 or len(hidden) not in (0, (numbers[0] + 7) // 8) or not numbers[0]
    if wrong or not SEGMENT.fullmatch(name):
        raise ValueError(name)
    return Origin(at.path / name, sha256, Identity(*map(int, identity))), numbers, hidden


def _list_entry(segment: Segment[Any]) -> dict[str, Any]:
    origin, gone = segment.lies, segment.gone
    bits = b"" if gone is None else np.packbits(gone, bitorder="little").tobytes()
    return {
        "name": origin.path.name,
        "shape": list(segment.rows.shape),
        "sha256": origin.sha256,
        "identity": list(origin.identity),
        "gone": base64.b64encode(bits).decode("ascii"),
    }
