"""What other processes do to the libraries that a server has open.

What they add is found by the next search. What they remove is forgotten here within ten seconds:
each library is asked every second how far its removals are, and nothing is held open between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from localrag.engine import Engine
from localrag.library.acting import acting_as_server
from localrag.library.records import Removals
from localrag.server.libraries import Libraries
from localrag.server.looking import Looking, going_on

LOOK = 1.0
"""Seconds between two looks."""
GRACE = 5.0
"""Seconds that an answer has which has read what was removed."""
PATIENCE = 3.0
"""Seconds after which a purge that makes no progress is finished here."""


@dataclass
class _RemovalState:
    """What is known of the removals of one library."""

    engine: Engine
    removals: Removals | None
    changed: float
    forgotten: bool = True
    cut_off: bool = False


class Follower(Looking):
    """Looks after libraries; `forget` drops what is kept of one beside its engine.

    It is told how far removals are now: what was begun after them holds nothing that was removed.
    """

    def __init__(
        self,
        libraries: Libraries,
        forget: Callable[[str, Removals | None], None] = lambda *_: None,
    ) -> None:
        super().__init__("following", LOOK)
        self._libraries = libraries
        self._forget = forget
        self._followed: dict[str, _RemovalState] = {}

    def look_around(self) -> None:
        """See what has changed, and do what is due."""
        with going_on():
            for name in self._libraries.close_vaults():
                self._followed.pop(name, None)
                self._forget(name, None)
        for name, engine in self._libraries.opened().items():
            with going_on(), acting_as_server():
                if engine.library.is_there:
                    self._look_at(name, engine)
                else:
                    self._let_go(name, engine)

    def _look_at(self, name: str, engine: Engine) -> None:
        library, now = engine.library, time.monotonic()
        removals = library.removals()
        known = self._followed.get(name)
        if known is None or known.engine is not engine:
            known = self._followed[name] = _RemovalState(engine, library.removed_before, now)
        if removals != known.removals:
            known.removals, known.changed, known.forgotten = removals, now, False
            library.forget()  # at once: Windows deletes nothing that is open
            self._forget(name, removals)
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
            self._forget(name, removals)
            known.forgotten, known.cut_off = True, False

    def _let_go(self, name: str, engine: Engine) -> None:
        self._followed.pop(name, None)
        self._forget(name, None)
        self._libraries.forget(name)
        self._libraries.drop(name)
        engine.library.backend.leave_cache()
