"""Waiting for a state instead of for a time: however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds after which something has hung: no machine is that slow."""


def until(state: Callable[[], object]) -> None:
    """Return once `state` is true. Fails after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not state():
        assert time.monotonic() < deadline, "the state was not reached"
        time.sleep(0.02)
