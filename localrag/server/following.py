"""What other processes do to the libraries that a server has open.

What they add is found by the next search. What they remove is forgotten here within ten seconds:
each library is asked every second how far its removals are, and nothing is held open between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from localrag.engine import Engine
from localrag.errors import LocalragError
from localrag.library.acting import acting_as_server
from localrag.library.records import Removals
from localrag.server.libraries import Libraries

LOOK = 1.0
"""Seconds between two looks."""
GRACE = 5.0
"""Seconds that an answer has which has read what was removed."""
PATIENCE = 3.0
"""Seconds after which a purge that makes no progress is finished here."""

_log = logging.getLogger(__name__)


@dataclass
class _Followed:
    """What is known of the removals of one library."""

    engine: Engine
    removals: Removals
    changed: float
    forgotten: bool = True
    cut_off: bool = False


class _Follower:
    """Looks after libraries; `forget` drops what is kept of one beside its engine."""

    def __init__(self, libraries: Libraries, forget: Callable[[str], None]) -> None:
        self._libraries = libraries
        self._forget = forget
        self._followed: dict[str, _Followed] = {}

    def look(self) -> None:
        """See what has changed, and do what is due."""
        for name, engine in self._libraries.opened().items():
            try:
                if engine.library.is_there:
                    self._look_at(name, engine)
                else:
                    self._let_go(name, engine)
            except LocalragError:  # damaged, say: whoever asks it something is told
                _log.debug("a library could not be looked at", exc_info=True)

    def _look_at(self, name: str, engine: Engine) -> None:
        library, now = engine.library, time.monotonic()
        removals = library.removals()
        known = self._followed.get(name)
        if known is None or known.engine is not engine:
            known = self._followed[name] = _Followed(engine, removals, now)
        if removals != known.removals:
            known.removals, known.changed, known.forgotten = removals, now, False
            library.forget()  # at once: Windows deletes nothing that is open
            self._forget(name)
        if removals.due and now - known.changed >= PATIENCE:
            library.purge_if_possible()
        if known.forgotten:
            return
        outdated = engine.outdated()
        if outdated and now - known.changed >= GRACE:
            known.cut_off = True
            for answer in outdated:
                answer.stop()
        elif not outdated and now - known.changed >= LOOK:
            if known.cut_off:
                library.clear_states()
            self._libraries.forget(name)
            self._forget(name)
            known.forgotten, known.cut_off = True, False

    def _let_go(self, name: str, engine: Engine) -> None:
        self._followed.pop(name, None)
        self._forget(name)
        self._libraries.forget(name)
        self._libraries.drop(name)
        engine.library.leave_cache()


@contextmanager
def following(
    libraries: Libraries, forget: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Look after them in a thread of its own until the block ends."""
    follower, ended = _Follower(libraries, forget), threading.Event()

    def follow() -> None:
        with acting_as_server():
            while not ended.wait(LOOK):
                follower.look()

    thread = threading.Thread(target=follow, name="following", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(5.0)
