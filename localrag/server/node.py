"""What a node does beside answering: the jobs that wait in the databases of its libraries.

One at a time, in a thread of its own. What it may add is said where it is started: whoever may
write to the database would else read every file of its account through it.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from localrag import factory
from localrag.documents.files import is_in
from localrag.documents.formats.table import shown_name
from localrag.engine import Engine
from localrag.errors import (
    ConfigError,
    ForbiddenError,
    LibraryError,
    LibraryLockedError,
    LibraryMismatchError,
    LocalragError,
    ModelNotFoundError,
    StoppedError,
    UsageError,
)
from localrag.indexing import events
from localrag.indexing.paths import holds_something
from localrag.library.acting import acting_as
from localrag.library.backends.opening import backend_of
from localrag.library.backends.postgres.queue import LEASE, Declined, Jobs, Progress, QueuedJob
from localrag.library.library import Library
from localrag.library.location import name_of
from localrag.server.libraries import Libraries
from localrag.server.looking import Looking, going_on

LOOK = 1.0
"""Seconds between two looks for a job."""
_BEATS = 4
"""How often a lease is taken anew in its time."""

_FOR_GOOD = (UsageError, ConfigError, ForbiddenError, LibraryMismatchError, ModelNotFoundError)
"""What another attempt on this or another node would come to, too."""

_log = logging.getLogger(__name__)


class Node(Looking):
    """Does jobs of `libraries` in a `with` block; adds what lies below the folders `add_from`."""

    lease = LEASE

    def __init__(self, libraries: Libraries, add_from: Sequence[Path] = ()) -> None:
        super().__init__("jobs", LOOK)
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        self._libraries = libraries
        self._folders = [os.path.realpath(path) for path in add_from]

    def look_around(self) -> None:
        """Do all jobs of all libraries that are for this node."""
        for name in self._libraries.of_nodes:
            with going_on():
                engine = self._libraries.engine_if_there(name)
                while engine is not None and not self.ended.is_set() and self.look(engine):
                    pass

    def look(self, engine: Engine) -> bool:
        """Do the next job of a library; False where there is none for this node."""
        jobs = engine.library.jobs
        job = jobs.take(self.name, self.lease) if jobs is not None else None
        if jobs is None or job is None:
            return False
        if (why := self._declines(job)) is not None:
            jobs.decline(job, why)
            return True
        with _JobLease(jobs, job, self.lease, self.ended) as claim:
            self._do(engine, claim)
        return True

    def _do(self, engine: Engine, claim: _JobLease) -> None:
        job, jobs = claim.job, claim.jobs
        try:
            _record(engine.library, job)
            with acting_as(job.asked_by) if job.asked_by else nullcontext():
                _work(engine, claim, self._folders)
        except StoppedError:
            jobs.give_back(job)  # to no avail where it is another node's by now
        except LocalragError as error:
            jobs.failed(job, claim.progress, error, again=not isinstance(error, _FOR_GOOD))
        except Exception as error:
            _log.exception("a job failed")
            wrong = LibraryError(
                "The server {node} could not do this: {reason}.",
                hint="See its log.",
                node=self.name,
                reason=f"{type(error).__name__}: {error}",
            )
            jobs.failed(job, claim.progress, wrong, again=True)
        else:
            jobs.done(job, claim.progress)

    def _declines(self, job: QueuedJob) -> Declined | None:
        """Why this node cannot do it, though another may."""
        for path in job.arguments.paths:
            if not any(is_in(os.path.realpath(path), folder) for folder in self._folders):
                return "not allowed"
            if not _is_there(path, job.arguments.prune):
                return "not there"
        return None


def _is_there(path: str, prune: bool) -> bool:
    """Whether this node sees what is to be added.

    Where it is not mounted its folder is there all the same, and empty: to take what is gone from
    it out of the library would take out everything.
    """
    if prune and os.path.isdir(path):  # noqa: PTH112 - a text of elsewhere
        return holds_something(path)
    return os.path.exists(path)  # noqa: PTH110 - likewise


class _JobLease(Looking):
    """A job in hand: takes its lease anew until the block ends, or until it is lost."""

    def __init__(self, jobs: Jobs, job: QueuedJob, lease: float, stop: threading.Event) -> None:
        super().__init__("lease", lease / _BEATS)
        self.jobs, self.job = jobs, job
        self.progress = Progress()
        self._lease = lease
        self._renewed = time.monotonic()
        self._stop = stop
        self._lost = False

    def look_around(self) -> None:
        """Take the lease anew; it may outlast that the database is away."""
        if not self._lost:
            self._renew()

    def expect(self) -> None:
        """Raise StoppedError where it is this node's no more, or the node ends.

        Also where it was stopped itself for so long that another may have taken the job.
        """
        lapsed = time.monotonic() - self._renewed >= self._lease
        if self._lost or lapsed or self._stop.is_set():
            raise StoppedError("The job was taken from this server.")

    @contextmanager
    def writing(self, library: Library) -> Iterator[None]:
        """Hold the library for writing, as soon as nobody else does and while the job is ours.

        Raises as `expect`. What is committed within is still this node's to commit: another may
        take the job only once the lease is over that is taken here.
        """
        with ExitStack() as stack:
            waiting = True
            while waiting:
                self.expect()
                with suppress(LibraryLockedError):
                    stack.enter_context(library.writing())
                    waiting = False
            self._renew()
            self.expect()
            yield

    def _renew(self) -> None:
        began = time.monotonic()
        if self.jobs.renew(self.job, self.progress, self._lease):
            self._renewed = began
        else:
            self._lost = True

    def hear(self, happened: events.IndexingEvent) -> None:
        """Count what has come of files; the next beat tells it. Raises as `expect`."""
        self.expect()
        before = self.progress
        match happened:
            case events.FilesFound(files):
                self.progress = replace(before, files=before.files + files)
            case events.Embedded(chunks):
                self.progress = replace(before, passages=before.passages + chunks)
            case (
                events.Committed()
                | events.Linked()
                | events.Unchanged()
                | events.Failed()
                | events.ReadAgain()
                | events.Kept()
            ):
                unread = before.unread + isinstance(happened, events.Failed)
                self.progress = replace(before, done=before.done + 1, unread=unread)


def _record(library: Library, job: QueuedJob) -> None:
    """Write down for whom it is begun, before anything of it is done."""
    users = backend_of(library.location).users(library.location)
    if not job.asked_by or users is None:
        return
    with users:
        if users.are_used():
            words = ", ".join(map(shown_name, job.arguments.paths)) or None
            users.record(job.asked_by, name_of(library.location), job.kind, words)


def _work(engine: Engine, claim: _JobLease, folders: Sequence[str]) -> None:
    """Do it, or go on with it, reading what lies below `folders`, real paths.

    A folder may take hours to add: others may write in between, also to that folder.
    """
    arguments, library = claim.job.arguments, engine.library
    indexer = factory.make_indexer(engine.settings, library, engine.embedder)
    indexer.below = folders
    if claim.job.kind == "add":
        paths = [*map(Path, arguments.paths)]
        hold = partial(claim.writing, library)
        indexer.add(paths, claim.hear, prune=arguments.prune, spare_empty=True, hold=hold)
    else:
        with claim.writing(library):
            indexer.rebuild(claim.hear)
