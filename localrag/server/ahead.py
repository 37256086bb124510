"""What a server reads ahead while nobody asks it anything."""

from __future__ import annotations

import time
from collections.abc import Callable

from localrag.ahead import IdleReader
from localrag.library.acting import acting_as_server
from localrag.server.libraries import Libraries
from localrag.server.looking import Looking, going_on
from localrag.server.queue import ModelQueue

LOOK = 5.0
"""Seconds between two looks."""
IDLE = 30.0
"""Seconds since somebody was served, after which it begins."""


class ReadingAhead(Looking):
    """Reads ahead in a `with` block, and lets go as soon as somebody takes a place in `queue`."""

    def __init__(
        self,
        libraries: Libraries,
        queue: ModelQueue,
        reader: IdleReader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("ahead", LOOK)
        self._libraries, self._queue, self._clock = libraries, queue, clock
        self._reader = reader or IdleReader(queue.came)
        self._served = clock()

    def __exit__(self, *of_error: object) -> None:
        self.ended.set()
        self._queue.came.set()
        super().__exit__(*of_error)

    def look_around(self) -> None:
        """Read on where nobody has been served for a while."""
        came, now = self._queue.came, self._clock()
        if came.is_set() or not self._queue.is_idle:
            came.clear()  # before the next look, which sees whoever has come since
            self._served = now
        if now - self._served < IDLE:
            return
        engines = self._libraries.in_use()
        self._reader.only(engines)
        for engine in engines:
            with going_on(), acting_as_server():
                while not came.is_set() and self._reader.step(engine):
                    pass
