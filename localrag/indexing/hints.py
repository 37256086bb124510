"""What the system tells of changes in folders: a hint, never the truth.

Events get lost, are not told of network drives, and come in thousands. Whoever watches looks at
the folders anyway, only less often.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Protocol

TICK = 1.0
"""Seconds between two answers, whether something changed or not."""

_STEP = 250
"""Milliseconds between two glances at what the system has told; each costs next to nothing."""
_GATHER = 1000
"""Milliseconds over which changes are gathered into one answer."""

ONE_BY_ONE = sys.platform == "linux"
"""Whether each folder is watched by itself. Linux knows nothing else; watched as a tree, what is
hidden and what links lead to would use up what it allows. Elsewhere a tree costs one handle, and
a handle on a lower folder of Windows would keep people from renaming it."""


class NoHintsError(Exception):
    """The system does not tell of changes; `limit`: it would in fewer folders."""

    def __init__(self, reason: str, *, limit: bool) -> None:
        super().__init__(reason)
        self.limit = limit


class Hints(Protocol):
    """Paths that changed, again and again, each time at most `TICK` seconds later."""

    def __call__(
        self, folders: Sequence[Path], stop: threading.Event
    ) -> Generator[set[str], None, None]:
        """Raises NoHintsError at the first step; ends when `stop` is set."""


def system_hints(folders: Sequence[Path], stop: threading.Event) -> Generator[set[str], None, None]:
    """Hints from the operating system, by way of watchfiles."""
    if not folders:
        while not stop.wait(TICK):
            yield set()
        return
    from watchfiles import watch

    ticks = watch(
        *folders,
        watch_filter=None,
        debounce=_GATHER,
        step=_STEP,
        stop_event=stop,
        rust_timeout=int(TICK * 1000),
        yield_on_timeout=True,
        force_polling=False,
        recursive=not ONE_BY_ONE,
        ignore_permission_denied=False,  # it would ignore limits that are reached, too
    )
    try:
        for changes in ticks:
            yield {path for _, path in changes}
    except (OSError, RuntimeError) as error:
        if isinstance(error, FileNotFoundError):  # it went while it was being watched
            yield set(map(str, folders))
            return
        message = str(error)
        limit = "limit" in message or "os error 24" in message or "os error 28" in message
        raise NoHintsError(message.partition(" about ")[0], limit=limit) from error
