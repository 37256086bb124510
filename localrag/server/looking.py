"""Threads of a server that look after something now and then."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from localrag.errors import LocalragError

_FAREWELL = 5.0
"""Seconds that a look under way has once the block ends."""

_log = logging.getLogger(__name__)


class Looking(ABC):
    """Looks every so many seconds, in a thread of its own, while its `with` block lasts."""

    def __init__(self, name: str, seconds: float) -> None:
        self.ended = threading.Event()
        self._seconds = seconds
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._thread.join(_FAREWELL)

    def _run(self) -> None:
        while not self.ended.wait(self._seconds):
            with going_on():
                self.look_around()

    @abstractmethod
    def look_around(self) -> None:
        """See what there is to do, and do it."""


@contextmanager
def going_on() -> Iterator[None]:
    """Log what goes wrong in the block, and nothing more: the next look may find it mended."""
    try:
        yield
    except LocalragError:  # the database is away, say: whoever asks it something is told
        _log.debug("a look failed", exc_info=True)
    except Exception:
        _log.exception("a look failed")
