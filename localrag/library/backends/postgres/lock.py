"""One writer at a time among all nodes, and everybody can read who it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from localrag.errors import LibraryLockedError
from localrag.library.backends.postgres.catalogue import (
    HEARD,
    WRITING,
    PostgresCatalogue,
    heard,
)
from localrag.library.catalogue.base import Row
from localrag.library.folder.locking import GRACE, UNKNOWN, Holder, OnWait, WriteLock, locked

if TYPE_CHECKING:
    import psycopg

_LOOK = 0.1
"""Seconds between two tries."""

_BEGIN = ("BEGIN", "SET LOCAL idle_in_transaction_session_timeout = 0", HEARD)


class PostgresLock:
    """The right to write to a library in a database, and to this user's folder that follows it.

    An advisory lock of a transaction that stays open meanwhile: it holds behind a pooler, keeps no
    row version alive, and the server frees it when the process ends, however it ends, and within
    half a minute when its machine does.
    """

    def __init__(self, catalogue: PostgresCatalogue, files: WriteLock) -> None:
        self._catalogue = catalogue
        self._here = files
        self._thread = threading.local()

    @contextmanager
    def hold(self, timeout: float, on_wait: OnWait | None = None) -> Iterator[None]:
        """Hold it, waiting up to `timeout` seconds (-1: as long as it takes).

        Re-entrant within a thread. Raises LibraryLockedError that names the holder.
        """
        if getattr(self._thread, "depth", 0):
            with self._deeper():
                yield
            return
        with self._catalogue.translated(), self._catalogue.session(*_BEGIN) as inner:
            with (
                self._wait(inner, timeout, on_wait),
                self._catalogue.right(inner),
                self._deeper(),
            ):
                yield
            inner.execute("COMMIT")

    @contextmanager
    def try_hold(self) -> Iterator[bool]:
        """Hold it if nobody else does; else yield False."""
        if getattr(self._thread, "depth", 0):
            with self._deeper():
                yield True
            return
        with self._catalogue.translated(), self._catalogue.session(*_BEGIN) as inner:
            if not self._try(inner):
                yield False
                return
            with self._here.try_hold() as mine:
                if not mine:
                    inner.execute("ROLLBACK")
                    yield False
                    return
                with self._catalogue.right(inner), self._deeper():
                    yield True
            inner.execute("COMMIT")

    def current_holder(self) -> Holder | None:
        """Who is writing now, or None; as much as the server shows of others."""
        with self._catalogue.translated(), self._catalogue.session() as inner, heard(inner):
            row = inner.execute(
                "SELECT a.application_name, to_char(a.xact_start AT TIME ZONE 'UTC', "
                "'YYYY-MM-DD\"T\"HH24:MI:SS+00:00') FROM pg_locks l "
                "LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' "
                "AND l.classid = %s AND l.objid = %s AND l.granted AND l.database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database())",
                [int(WRITING), self._catalogue.number],
            ).fetchone()
        if row is None:
            return None
        process, _, rest = str(row[0] or "").partition("|")
        host, _, command = rest.partition("|")
        if not process.isdecimal():
            return UNKNOWN
        return Holder(int(process), host, command, str(row[1]))

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._thread.depth = getattr(self._thread, "depth", 0) + 1
        try:
            yield
        finally:
            self._thread.depth -= 1

    def _try(self, inner: psycopg.Connection[Row]) -> bool:
        query = "SELECT pg_try_advisory_xact_lock(%s, %s)"
        return inner.execute(query, [WRITING, self._catalogue.number]).fetchone() == (True,)

    def _wait(
        self, inner: psycopg.Connection[Row], timeout: float, on_wait: OnWait | None
    ) -> ExitStack:
        """Wait for the right, and for the folder, which is then held until the stack ends."""
        began, notified = time.monotonic(), False
        stack = ExitStack()
        while True:
            holder = self.current_holder
            if self._try(inner):
                try:
                    stack.enter_context(self._here.hold(0))
                except LibraryLockedError:
                    holder = self._here.holder
                else:
                    return stack
            # Who waits in a transaction keeps a connection of a pooler from who has the right; and
            # who waits for the folder, in which an index may be made for minutes, all other nodes.
            inner.execute("ROLLBACK")
            waited = time.monotonic() - began
            if 0 <= timeout <= waited:
                raise locked(str(self._catalogue.database), holder())
            if waited >= GRACE and not notified and on_wait is not None:
                on_wait(holder() or UNKNOWN)
                notified = True
            time.sleep(_LOOK)
            inner.execute("; ".join(_BEGIN))
