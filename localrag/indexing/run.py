"""One add or rebuild under way: what it has told, and what waits to be stored."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from localrag.documents.formats.table import PageDone
from localrag.errors import ParsingError
from localrag.indexing import unread
from localrag.indexing.events import (
    AddReport,
    Committed,
    Failed,
    IndexingEvent,
    Kept,
    Linked,
    PageRecognised,
    Progress,
    ReadAgain,
    Removed,
    Unchanged,
    Vanished,
)
from localrag.indexing.paths import Origins
from localrag.library.records import FileState, NewDocument, SourceRecord, UnreadFile

Hold = Callable[[], AbstractContextManager[None]]
"""Holds a library for writing."""


@dataclass(slots=True)
class Run:
    """One add or rebuild under way."""

    progress: Progress
    failures: unread.Failures
    hold: Hold = nullcontext
    """Where the run does not hold the library for writing all the time."""
    roots: Sequence[str] = ()
    """Real paths of what was named: a file is read if it lies there when it is opened."""
    told: dict[type[IndexingEvent], list[Any]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[ParsingError] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pending: dict[str, NewDocument] = field(default_factory=dict)
    """Documents that wait for their vectors, by id."""
    coming: Counter[str] = field(default_factory=Counter)
    """Documents that are being parsed, by id."""
    known: Mapping[str, SourceRecord] = field(default_factory=dict)
    """What the library held of these files when the run began, by path, sorted."""
    paths: Sequence[str] = ()
    """Those paths."""
    met: set[str] = field(default_factory=set)
    """The files that were found, by path."""
    touched: list[tuple[FileState, str]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Paths inside files that no longer hold them."""
    read_ahead: SimpleQueue[PageRecognised] = field(default_factory=SimpleQueue)
    origins: Origins = field(default_factory=Origins)
    synced_at: float = field(default_factory=time.monotonic)
    sync_took: float = 0.0

    def tell(self, event: IndexingEvent) -> None:
        """Keep the outcome and pass it on."""
        self.told[type(event)].append(event)
        self.progress(event)

    def fail(self, file: UnreadFile, *, tried: bool = True) -> None:
        """Keep that a file could not be read, and pass it on."""
        self.failures.add(file)
        self.tell(Failed(file.state.path, file.error, tried))

    def inside(self, source: str) -> Iterator[SourceRecord]:
        """What the library held of the files inside a file when the run began."""
        folder = source + os.sep
        for place in range(bisect_left(self.paths, folder), len(self.paths)):
            if not self.paths[place].startswith(folder):
                break
            yield self.known[self.paths[place]]

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time of a block to a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - started

    def page_done(self, source: str, *, ahead: bool = False) -> PageDone:
        """What tells of the pages of a file that take long; in another thread, for later."""
        hear = self.read_ahead.put if ahead else self.progress

        def tell(number: int = 0, pages: int = 0, *, recognised: bool = False) -> None:
            if recognised:
                hear(PageRecognised(source, number, pages))

        return tell

    def tell_pages(self) -> None:
        """Tell of pages that were read in other threads."""
        while not self.read_ahead.empty():
            self.progress(self.read_ahead.get())

    def waiting(self) -> int:
        """Chunks that wait for their vectors."""
        return sum(len(document.chunks) for document in self.pending.values())

    def sources(self, kind: type[Unchanged | Vanished | Removed | Kept]) -> tuple[str, ...]:
        """The paths of one outcome."""
        return tuple(event.source for event in self.told[kind])

    def report(self) -> AddReport:
        """What there is to say at its end."""
        return AddReport(
            committed=tuple(self.told[Committed]),
            read_again=tuple(self.told[ReadAgain]),
            kept=self.sources(Kept),
            linked=tuple(self.told[Linked]),
            unchanged=self.sources(Unchanged),
            failed=tuple(self.told[Failed]),
            skipped=tuple(self.skipped),
            vanished=self.sources(Vanished),
            removed=self.sources(Removed),
            seconds=dict(self.seconds),
        )
