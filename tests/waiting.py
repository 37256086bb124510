"""Waiting for a state instead of for a time: however slow the machine is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 120.0
"""Seconds after which something has hung: no machine is that slow."""


def until(state: Callable[[], object]) -> None:
    """Return once `state` is true. Fails after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not state():
        assert time.monotonic() < deadline, "the state was not reached"
        time.sleep(0.02)


def has_ended(process: int) -> bool:
    """Whether no process of this id runs; nobody may have taken note of its end yet."""
    try:
        os.kill(process, 0)
        stat = Path(f"/proc/{process}/stat")
        return Path("/proc/self").exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True
