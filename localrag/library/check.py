"""What is wrong with a library: the catalogue against itself, the indexes against the catalogue.

Nothing is changed, but that an older catalogue gets the tables of this version, as on opening.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from localrag.errors import LibraryDamagedError
from localrag.library.backends.base import Backend
from localrag.library.backends.opening import open_backend
from localrag.library.catalogue.integrity import catalogue_findings
from localrag.library.catalogue.reads import Snapshot
from localrag.library.derived import Indexes, Leg
from localrag.library.folder.filesystem import (
    in_our_words,
    network_drive,
    without_modes,
)
from localrag.library.folder.gate import parts, states
from localrag.library.folder.locking import PATIENCE
from localrag.library.folder.sealing import DamagedIndexError, ForeignIndexError
from localrag.library.folder.sharing import seal_of
from localrag.library.indexes.base import DerivedIndex, Query, Storage
from localrag.library.location import Location
from localrag.library.records import NEVER, Counts
from localrag.system.seals import Seal
from localrag.types import Finding


@dataclass(slots=True)
class Inspection:
    """What a check found; `counts` is None where the catalogue could not be read."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counts | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged; notes do not count."""
        return not any(finding.damage for finding in self.findings)


def check_library(location: Location, indexes: Indexes) -> Inspection:
    """Look at everything; `indexes` are those that the library is used with.

    Raises LibraryNotFoundError where there is no library, LibraryError where the folder cannot
    be used for reasons that lie outside its files (rights, disk).
    """
    inspection = Inspection()
    with ExitStack() as stack:
        try:
            backend = open_backend(location)
        except LibraryDamagedError as error:
            inspection.findings.append(Finding("catalogue", "missing", {"error": error}))
            return inspection
        stack.callback(backend.close)
        stack.enter_context(in_our_words(backend.folder))
        seal, _ = seal_of(backend.folder)
        try:
            _compare(backend, indexes, seal, inspection)
        except LibraryDamagedError as error:
            inspection.findings.append(Finding("catalogue", "unreadable", {"error": error}))
        if backend.folder.is_dir():
            inspection.findings += _in_the_folder(backend.folder, seal)
    return inspection


def _compare(backend: Backend, indexes: Indexes, seal: Seal, inspection: Inspection) -> None:
    if backend.catalogue.needs_migration():
        with backend.lock.hold(PATIENCE):
            backend.catalogue.migrate()
    # The files before the state they are compared with: they cannot be ahead of it then.
    opened = [_OpenedIndex(leg, Storage(backend.folder / leg.name, seal)) for leg in indexes.legs]
    with backend.catalogue.read() as snapshot:
        inspection.findings += catalogue_findings(snapshot)
        snapshot.embedding()
        inspection.counts = snapshot.counts()
        for index in opened:
            # Each node makes its own, once it is asked something.
            there = not backend.has_nodes or index.index.stamp != NEVER
            if index.index.persistent and there:
                inspection.findings += index.findings(snapshot, sound=inspection.ok)


class _OpenedIndex(Generic[Query]):
    """An index from disk, or why there is none."""

    def __init__(self, leg: Leg[Query], at: Storage) -> None:
        self._leg = leg
        self._fault: DamagedIndexError | None = None
        self.index: DerivedIndex[Query] = leg.make()
        try:
            self.index.open(at)
        except DamagedIndexError as error:
            self._fault = error

    def findings(self, snapshot: Snapshot, *, sound: bool) -> Iterator[Finding]:
        """What is wrong with it; `sound` says whether nothing was with the catalogue."""
        part, index = self._leg.part, self.index
        (epoch, generation), (catalogue_epoch, newest) = index.stamp, snapshot.stamp()
        if isinstance(self._fault, ForeignIndexError):
            yield Finding(part, "foreign", damage=False)
        elif self._fault is not None:
            yield Finding(part, "unreadable", {"reason": str(self._fault)})
        elif index.stamp == NEVER:
            if snapshot.chunk_set().size:
                yield Finding(part, "missing")
        elif epoch != catalogue_epoch or generation > newest:
            yield Finding(part, "other-state")
        else:
            if generation < newest:
                yield Finding(part, "behind", {"count": newest - generation}, damage=False)
            try:
                yield from self._compared(snapshot)
            except DamagedIndexError as error:
                yield Finding(part, "unreadable", {"reason": str(error)})
            except LibraryDamagedError:
                if sound:  # else it was said already
                    raise

    def _compared(self, snapshot: Snapshot) -> Iterator[Finding]:
        part, generation = self._leg.part, self.index.stamp[1]
        ids, differing = self.index.verify(self._leg.entries(snapshot, -1))
        newer = set(snapshot.added_ids_since(generation))
        expected = set(snapshot.added_ids_since(-1)) - newer
        # What went away, or went and came back, after the index was written may still be in it.
        allowed = expected | newer | set(snapshot.removed_since(generation))
        present = set(ids)
        wrong = {
            "lost": len(expected - present),
            "foreign": len(present - allowed),
            "twice": len(ids) - len(present),
        }
        if any(wrong.values()):
            yield Finding(part, "ids", wrong)
        if differing:
            code = "values" if part == "vectors" else "terms"
            yield Finding(part, code, {"count": differing})


def _in_the_folder(directory: Path, seal: Seal) -> Iterator[Finding]:
    if foreign := sum(not seal.fits_file(path) for path in states(directory)):
        yield Finding("files", "foreign", {"count": foreign}, damage=False)
    if kind := network_drive(directory):
        yield Finding("files", "network-drive", {"kind": kind}, damage=False)
    if kind := without_modes(directory):
        yield Finding("files", "no-modes", {"kind": kind}, damage=False)
    for path in parts(directory):
        yield Finding("files", "leftover", {"name": path.name}, damage=False)
