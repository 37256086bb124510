"""A file system that is mounted read-only, for one program in a namespace of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def on_read_only_medium(
    library: Path, place: Path, *command: str
) -> subprocess.CompletedProcess[str]:
    """Run a command that finds a copy of the library in `place`/library, mounted read-only."""
    place.mkdir()
    script = (
        f"mount -t tmpfs none {place} && cp -r {library} {place}/library && "
        f'mount -o remount,ro {place} && exec "$@"'
    )
    inside = ["unshare", "-rm", "sh", "-c", script, "sh"]
    try:
        able = subprocess.run([*inside, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        pytest.skip("only where a user may mount in a namespace")
    return subprocess.run([*inside, *command], capture_output=True, text=True, check=False)
