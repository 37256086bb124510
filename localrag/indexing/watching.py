"""Keeping a library true to folders, for as long as somebody wants.

A look at the folders is the truth: what the library does not hold as it lies there is added, what
it holds and is surely gone is removed. What the system tells of changes only lets the next look
come sooner. Nothing is kept but in the library, so that being killed costs no more than the batch
under way. Knows nothing of parsing and models: an indexer is asked for when there is work, and
given back when there has been none for a while.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from localrag.documents.files import is_in, is_passed_over, opens, walk
from localrag.documents.formats.table import attaches
from localrag.errors import ParsingError, UsageError
from localrag.indexing.events import (
    Away,
    Back,
    Committed,
    Failed,
    IndexingEvent,
    Linked,
    Polled,
    Progress,
    Removed,
    Restless,
    Unchanged,
    Waiting,
    Watching,
    Withheld,
)
from localrag.indexing.hints import ONE_BY_ONE, TICK, Hints, NoHintsError, system_hints
from localrag.indexing.indexer import Indexer
from localrag.indexing.paths import gone_from, holds_something, is_as_read, storable_ns
from localrag.indexing.unread import Failures, refused
from localrag.library.folder.filesystem import network_drive
from localrag.library.folder.locking import Holder
from localrag.library.library import Library
from localrag.library.records import SourceRecord
from localrag.system.files import storable_path
from localrag.types import READER

INTERVAL, POLLING = 300.0, 60.0
"""Seconds between two looks, where the system tells of changes and where it does not."""

STILL = 3.0
"""Seconds for which a file must not change before it is read, or be missing to be gone."""
OLD = 60.0
"""Seconds since its last change after which a file is still at first sight: more than the clocks
of two computers are usually apart."""
LOOKS = 4
"""How often a single pass looks again for files to become still."""

MANY = 10
"""Files of a folder that may be gone at once; of more than these, at most half."""

SHARE, SHARE_OF_CARE = 20, 10
"""Looks that hints ask for take one part in so many of the time, at most; bringing the indexes up
and wiping out what was removed one part in so many."""

IDLE = 300.0
"""Seconds without work after which models and processes are let go."""
JUMP = 60.0
"""Seconds by which the clock was set, or the machine slept, for a look at once."""


class Clock(Protocol):
    """What is needed of the module `time`, as that means it."""

    def time(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds of a clock that nobody sets."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


class _FileState(NamedTuple):
    """What tells whether a file was changed, and the device that it lies on."""

    path: Path
    size: int
    mtime_ns: int
    device: int

    @property
    def version(self) -> tuple[int, int]:
        return self.size, self.mtime_ns


@dataclass(slots=True)
class _Look:
    """What lies in those roots that could be looked at, by source."""

    present: list[Path]
    files: dict[str, _FileState] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    skipped: list[ParsingError] = field(default_factory=list)
    took: float = 0.0


class Watch:
    """Watches folders for one library.

    `make` gives an indexer of that library, `release` frees what it takes. `interval` is the
    seconds between two looks, `prune` removes however much of a folder is gone at once; `stop`
    ends it from another thread. `idle` is called again and again while there is nothing to do, and
    takes some seconds at most.
    """

    def __init__(
        self,
        library: Library,
        paths: Sequence[Path],
        tell: Progress,
        *,
        make: Callable[[], Indexer],
        release: Callable[[], None],
        clock: Clock,
        interval: float | None = None,
        prune: bool = False,
        stop: threading.Event | None = None,
        idle: Callable[[], object] = lambda: None,
        hints: Hints = system_hints,
    ) -> None:
        self._library, self._tell, self._clock = library, tell, clock
        roots = (Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100 - ".." too
        self._roots = {root: storable_path(root) for root in roots}
        """Each path that is watched, and how the library would call it."""
        self._make, self._release, self._idle = make, release, idle
        self._interval, self._prune, self._hints = interval, prune, hints
        self._stop = stop or threading.Event()
        self._announced = False
        self._indexer: Indexer | None = None
        self._worked_at = 0.0
        self._network = [root for root in self._roots if network_drive(root)]
        self._deaf = False  # whether the system tells of nothing
        self._away: dict[Path, Away] = {}
        self._withheld: dict[Path, Withheld] = {}
        self._places: dict[Path, tuple[int, int]] = {}
        """Device and number of each root when it last held documents."""
        self._devices: dict[str, int] = {}
        """Where each file lay when it was last seen."""
        self._moving: dict[str, tuple[_FileState, float]] = {}
        """Files that are not yet still, and since when they are as they are."""
        self._missing: dict[str, float] = {}
        """Sources that are gone, and since when."""
        self._taken: dict[str, tuple[int, int]] = {}
        """The version that the indexer had of a file, where its time alone does not tell."""
        self._failed: dict[str, tuple[tuple[int, int], str, bool]] = {}
        """The version of a file that could not be read, why, and whether it could be opened."""
        self._behind, self._care_at = False, 0.0

    def run(self, *, once: bool = False) -> bool:
        """Watch until stopped, or with `once` do one pass; says whether nothing is left undone.

        Raises UsageError for a path that is not there and of which the library holds nothing, or
        that lies in the library.
        """
        for file in self._library.unread():
            # It was read in vain, and may be again when it changes, or by what is now installed.
            version = file.state.size, file.state.mtime_ns
            self._failed[file.state.path] = version, str(file.error), file.reader == READER
        sources = [record.state.path for record in self._library.sources()]
        for root, name in self._roots.items():
            if os.path.lexists(root) or not any(is_in(source, name) for source in sources):
                walk([root], [], library=self._library.directory)
        try:
            if once:
                self._once()
            else:
                self._forever()
        finally:
            self._let_go()
        return not (self._away or self._withheld)

    def _once(self) -> None:
        for _ in range(LOOKS):
            self._pass(at_once=True)
            if self._stop.is_set() or not (self._moving or self._missing):
                break
            self._clock.sleep(STILL)
        for source in sorted(self._moving):
            self._tell(Restless(source))
        self._care(at_once=True)

    def _forever(self) -> None:
        watched: object = None
        ticks: Generator[set[str], None, None] | None = None
        for root in self._network:
            self._tell(Polled(self._roots[root], "network-drive", self._pause()))
        while not self._stop.is_set():
            look = self._pass()
            folders = self._folders_to_watch(look)
            # A folder that was made anew under its name is another one.
            places = [(folder, _place(folder)) for folder in folders]
            if ticks is None or places != watched:
                if ticks is not None:
                    ticks.close()
                ticks, watched = self._ticks(folders), places
                next(ticks, None)  # from here on it hears; what came before is found by looking
                continue
            if not self._sleep(ticks, SHARE * look.took) and not self._stop.is_set():
                watched = None
                self._clock.sleep(TICK)

    def _ticks(self, folders: Sequence[Path]) -> Generator[set[str], None, None]:
        """Hints, as long as the system gives any; then nothing, again and again."""
        if not self._deaf:
            try:
                yield from self._hints(folders, self._stop)
            except NoHintsError as error:
                self._deaf = True
                why: Literal["limit", "events"] = "limit" if error.limit else "events"
                self._tell(Polled("", why, self._pause(), str(error)))
            else:
                return
        while not self._stop.is_set():
            self._clock.sleep(TICK)
            yield set()

    def _folders_to_watch(self, look: _Look) -> list[Path]:
        """The folders that the system is asked about."""
        roots = [root for root in look.present if root not in self._network]
        if not ONE_BY_ONE:
            return roots
        files = [root for root in roots if not root.is_dir()]
        return files + [
            folder
            for folder in look.folders
            if not any(is_in(str(folder), str(root)) for root in self._network)
        ]

    def _pause(self) -> float:
        """Seconds until the next look if nothing is heard."""
        if self._interval is not None:
            return self._interval
        return POLLING if self._network or self._deaf or self._away else INTERVAL

    def _sleep(self, ticks: Iterator[set[str]], rest: float) -> bool:
        """Wait for a reason to look again, for `rest` seconds at least if it is a hint.

        False where nothing is heard of the folders any more.
        """
        clock = self._clock
        began, wall = clock.monotonic(), clock.time()
        due, settled = began + self._pause(), began + STILL
        if self._behind or self._missing:
            due = min(due, max(self._care_at, settled))
        for changed in ticks:
            now = clock.monotonic()
            if self._stop.is_set():
                return True
            if any(map(self._matters, changed)):
                due = min(due, max(now, began + rest))
            if abs((clock.time() - wall) - (now - began)) > JUMP:
                return True  # the machine slept, or the clock was set
            if self._moving and now >= settled:
                if self._has_settled(now):
                    return True
                settled = now + STILL
            if self._indexer is not None and now - self._worked_at >= IDLE:
                self._let_go()
            if now >= due:
                return True
            if not (self._moving or self._behind):
                self._idle()
        return False

    def _matters(self, changed: str) -> bool:
        """Whether a hint is a reason to look: not of what is hidden, in the library, or growing."""
        path = Path(changed)
        if storable_path(path) in self._moving or is_in(changed, str(self._library.directory)):
            return False
        root = next((root for root in self._roots if root in path.parents), None)
        return not root or not any(map(is_passed_over, path.relative_to(root).parts))

    def _has_settled(self, now: float) -> bool:
        """Whether a file that was being written is still by now, or gone."""
        for source, (file, since) in list(self._moving.items()):
            seen = _file_state(file.path)
            if seen is None or (seen.version == file.version and now - since >= STILL):
                return True
            if seen.version != file.version:
                self._moving[source] = seen, now
        return False

    # A pass

    def _pass(self, *, at_once: bool = False) -> _Look:
        """Look, and do what can be done now: first add what is new, then forget what is gone.

        `at_once` leaves the indexes to the end.
        """
        began = self._clock.monotonic()
        records = {record.state.path: record for record in self._library.sources()}
        look = self._look(records)
        self._tell_apart(look, records)
        if not self._announced:
            self._announced = True
            self._tell(Watching(tuple(self._roots[root] for root in look.present), len(look.files)))
        now, wall = self._clock.monotonic(), self._clock.time()
        look.took = now - began
        todo, moving = [], {}
        for source, file in look.files.items():
            if self._is_done(source, file, records.get(source)):
                continue
            before, since = self._moving.get(source, (file, now))
            if before.version != file.version:
                since = now
            if now - since >= STILL or wall - file.mtime_ns / 1e9 > OLD:
                todo.append(file)
            else:
                moving[source] = file, since
        self._moving = moving
        self._devices.update((source, file.device) for source, file in look.files.items())
        if todo:
            self._update(todo)
        if not self._stop.is_set():
            if at_once or now >= self._care_at:
                self._forget(look, records.keys(), now)
            if not at_once:
                self._care()
        for entries in (self._devices, self._taken, self._failed):
            for source in entries.keys() - look.files.keys() - records.keys():
                del entries[source]
        return look

    def _look(self, sources: Collection[str]) -> _Look:
        present = []
        for root in self._roots:
            if why := _unreachable(root):
                self._leave(root, *why)
            else:
                present.append(root)
        look = _Look(present)
        directory = self._library.directory
        try:
            paths = walk(
                present, look.skipped, library=directory, folders=look.folders, known=sources
            )
            for path in paths:
                if file := _file_state(path):
                    look.files[storable_path(path)] = file
        except UsageError:  # a root went meanwhile
            return _Look([])
        return look

    def _tell_apart(self, look: _Look, records: Mapping[str, SourceRecord]) -> None:
        """Folders that are there, and those that are empty because their drive is not.

        An empty folder is believed where it is the very folder that held documents before.
        """
        for root in list(look.present):
            place, name = _place(root), self._roots[root]
            if any(is_in(source, name) for source in look.files):
                self._places[root] = place
            elif place != self._places.get(root) and any(is_in(source, name) for source in records):
                look.present.remove(root)
                self._leave(root, "empty")
                continue
            if self._away.pop(root, None):
                self._tell(Back(name))

    def _leave(
        self, root: Path, why: Literal["missing", "empty", "unreadable"], reason: str = ""
    ) -> None:
        away = Away(self._roots[root], why, reason)
        if self._away.get(root) != away:
            self._away[root] = away
            self._tell(away)

    def _is_done(self, source: str, file: _FileState, record: SourceRecord | None) -> bool:
        """Whether the library holds a file as it is, or it is known that it cannot be read."""
        if source in self._failed:
            version, _, opened = self._failed[source]
            return version == file.version and (opened or not opens(file.path))
        if record is None:
            return False
        state = record.state
        if file.version == self._taken.get(source) == (state.size, state.mtime_ns):
            return True
        return is_as_read(state, file.size, file.mtime_ns)

    def _update(self, files: Sequence[_FileState]) -> None:
        states = {storable_path(file.path): file for file in files}

        def hear(event: IndexingEvent) -> None:
            match event:
                case Failed(source, error) if source in states:
                    file, before = states[source], self._failed.get(source)
                    failed = file.version, str(error), opens(file.path)
                    self._failed[source] = failed
                    if before is not None and before[:2] == failed[:2]:
                        return  # it was said
                case Committed(source) | Linked(source) | Unchanged(source) if source in states:
                    self._failed.pop(source, None)
                    self._taken[source] = states[source].version
            if not isinstance(event, Unchanged) and getattr(event, "tried", True):
                self._tell(event)

        def unless_stopped() -> Iterator[Path]:
            for file in files:
                if self._stop.is_set():
                    return
                yield file.path

        if self._indexer is None:
            self._indexer = self._make()
        try:
            self._indexer.update(unless_stopped(), hear, self._wait, roots=[*self._roots])
        finally:
            self._behind, self._worked_at = True, self._clock.monotonic()

    def _forget(self, look: _Look, sources: Collection[str], now: float) -> None:
        """Remove what has been gone for a while, unless that is more than a person deletes."""
        gone = gone_from(look.present, set(sources) - look.files.keys())
        self._missing = {source: self._missing.get(source, now) for source in gone}
        ripe = {source for source, since in self._missing.items() if now - since >= STILL}
        self._remember(look)
        for root in look.present:
            if not any(is_in(source, self._roots[root]) for source in gone):
                self._withheld.pop(root, None)  # what was gone is there again
        if not ripe:
            return
        if any(_unreachable(root) for root in look.present):
            return  # it went while it was looked at
        records = self._library.sources()
        document_ids = {record.document_id for record in records if record.state.path not in ripe}
        lost = {
            record.state.path
            for record in records
            if record.state.path in ripe and record.document_id not in document_ids
        }
        withheld: set[str] = set()
        for root in look.present:
            name = self._roots[root]
            below = {source for source in lost if is_in(source, name)}
            files = sum(is_in(record.state.path, name) for record in records)
            unmounted = {source for source in below if self._is_unmounted(source)}
            many = len(below) > MANY and 2 * len(below) > files and not self._prune
            if stays := below if many else unmounted:
                withheld |= stays
                event = Withheld(name, len(stays), files)
                if self._withheld.get(root) != event:
                    self._withheld[root] = event
                    self._tell(event)
            else:
                self._withheld.pop(root, None)
        removed = sorted(ripe - withheld)
        if removed:
            self._library.remove(sources=removed, timeout=-1, on_wait=self._wait)
            self._behind = True
            for source in removed:
                self._tell(Removed(source))
        for source in ripe:
            del self._missing[source]

    def _remember(self, look: _Look) -> None:
        """Keep what was passed over, and forget what could not be read and is no longer there."""
        failures = Failures(self._library.unread())
        failures.skip(look.skipped)
        new, mails = failures.new(), {Path(source) for source in look.files if attaches(source)}
        forgotten = [
            path
            for path in failures.obsolete({}, look.present)
            if mails.isdisjoint(Path(path).parents)  # only reading a mail says what it holds
        ]
        if new or forgotten:
            with self._library.writing(-1, self._wait):
                self._library.set_unread(new, forgotten=forgotten)
        for file in new:
            if refused(file.error):
                self._tell(Failed(file.state.path, file.error))

    def _is_unmounted(self, source: str) -> bool:
        """Whether a file may be gone with its drive rather than deleted.

        Another device lies now where it was; or, where this is the first look, nothing at all is
        left of its folder, which is what a drive leaves behind.
        """
        device = self._devices.get(source)
        path = Path(source)
        while attaches(path.parent) and not path.parent.is_dir():
            path = path.parent  # it lay in that file
        if device is None:
            return not (self._prune or holds_something(path.parent))
        for folder in path.parents:
            if (place := _place(folder)) != (0, 0):
                return place[0] != device
        return False

    def _care(self, *, at_once: bool = False) -> None:
        """Let the indexes follow, and wipe out what was removed."""
        now = self._clock.monotonic()
        if self._behind and (at_once or now >= self._care_at):
            with self._library.writing(-1, self._wait):
                self._library.sync()
                self._library.purge_if_due()
            ended = self._clock.monotonic()
            self._behind, self._care_at = False, ended + SHARE_OF_CARE * (ended - now)

    def _wait(self, holder: Holder) -> None:
        self._tell(Waiting(str(holder)))

    def _let_go(self) -> None:
        self._indexer = None
        self._release()


def _file_state(path: Path) -> _FileState | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return _FileState(path, state.st_size, storable_ns(state), state.st_dev)


def _place(folder: Path) -> tuple[int, int]:
    """Device and number of a folder; zeros where there is none."""
    try:
        state = folder.stat()
    except OSError:
        return 0, 0
    return state.st_dev, state.st_ino


def _unreachable(root: Path) -> tuple[Literal["missing", "unreadable"], str] | None:
    """Why a root cannot be looked at now."""
    try:
        if root.is_dir():
            with os.scandir(root) as entries:
                next(entries, None)
        else:
            root.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "missing", ""
    except OSError as error:
        return "unreadable", error.strerror or str(error)
    return None
