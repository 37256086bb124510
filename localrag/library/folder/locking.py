"""One writer at a time, and everybody can read who it is."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from localrag.errors import LibraryLockedError
from localrag.library.folder.filesystem import in_our_words, is_read_only, not_writable
from localrag.library.folder.gate import HOLDER, LOCK
from localrag.system.files import create_file, give_to_owner, open_plain, replace_file


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes to a library; `since` is ISO 8601 in UTC."""

    pid: int
    host: str
    command: str
    since: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.command}, {self.host}, {self.since})"


UNKNOWN = Holder(0, "?", "?", "?")

PATIENCE = 10.0
"""Seconds that a writer waits for another before it gives up, where the caller says nothing."""

GRACE = 0.5
"""Seconds in which a reader who saves an index for a moment is not taken for a writer."""

_HOLDER_LIMIT = 1 << 16

OnWait = Callable[[Holder], None]
"""Told once who holds the lock before waiting begins."""


class WriteLock:
    """The right to write to a library.

    The system frees the lock when its process ends, however it ends; the side file that names
    the holder is only for reading and may outlive it.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK
        self._holder = directory / HOLDER
        self._lock = FileLock(self._path)

    @contextmanager
    def hold(self, timeout: float, on_wait: OnWait | None = None) -> Iterator[None]:
        """Hold the lock, waiting up to `timeout` seconds (-1: as long as it takes).

        Re-entrant within a thread. Raises LibraryLockedError that names the holder, LibraryError
        where the folder cannot be written.
        """
        directory = self._path.parent
        if is_read_only(directory):
            raise not_writable(directory)
        with in_our_words(directory):
            self._acquire(timeout, on_wait)
        with self._claim():
            yield

    def _acquire(self, timeout: float, on_wait: OnWait | None) -> None:
        self._make()
        try:
            self._lock.acquire(timeout=min(GRACE, timeout) if timeout >= 0 else GRACE)
        except Timeout:
            if on_wait is not None:
                on_wait(self.holder() or UNKNOWN)
            try:
                self._lock.acquire(timeout=max(0.0, timeout - GRACE) if timeout >= 0 else -1)
            except Timeout:
                raise locked(self._path.parent, self.holder()) from None

    @contextmanager
    def try_hold(self) -> Iterator[bool]:
        """Hold the lock if nobody else does and the folder can be written; else yield False."""
        try:
            if is_read_only(self._path.parent):
                raise PermissionError
            self._make()
            self._lock.acquire(timeout=0)
        except (Timeout, OSError):
            yield False
            return
        with self._claim():
            yield True

    @contextmanager
    def _claim(self) -> Iterator[None]:
        outermost = self._lock.lock_counter == 1
        try:
            if outermost:
                with suppress(OSError):  # a full disk: removing, say, may still be possible
                    self._announce()
            yield
        finally:
            if outermost:
                with suppress(OSError):  # Windows, while somebody reads it; a failing disk
                    self._holder.unlink(missing_ok=True)
            self._lock.release()

    def holder(self) -> Holder | None:
        """Who the side file names, or None; it speaks the truth while the lock is held."""
        try:
            with open_plain(self._holder) as file:
                return msgspec.json.decode(file.read(_HOLDER_LIMIT), type=Holder)
        except (OSError, ValueError, RecursionError):
            return None

    def current_holder(self) -> Holder | None:
        """Who is writing now, or None."""
        if not self._path.exists():
            return None
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return self.holder() or UNKNOWN
        except OSError:  # a folder that nobody here may write to
            return None
        self._lock.release()
        return None

    def _announce(self) -> None:
        holder = Holder(
            os.getpid(),
            socket.gethostname(),
            " ".join([Path(sys.argv[0]).name, *sys.argv[1:3]])[:200],
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        content = msgspec.json.encode(holder)
        # Not forced to disk: nobody needs it after a power cut.
        replace_file(self._holder, lambda file: file.write(content), durable=False)

    def _make(self) -> None:
        """Make the file that is locked, for those alone who may use the library."""
        if not os.path.lexists(self._path):
            with suppress(FileExistsError), create_file(self._path) as file:
                give_to_owner(file, self._path.parent)


def locked(library: object, holder: Holder | None) -> LibraryLockedError:
    """What a writer is told who has waited for another long enough."""
    return LibraryLockedError(
        "Another process is writing to the library {directory}: process {pid} on "
        "{host}, {command}, since {since}.",
        hint="Wait until it finishes, or stop it; you can still search meanwhile.",
        directory=library,
        **asdict(holder or UNKNOWN),
    )
