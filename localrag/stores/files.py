"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, force it to disk, and rename it into place.

    A process killed at any moment leaves the old file or the new one, never a mixture.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Force a rename within `path` to disk, where the system can (Windows cannot)."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_parts(directory: Path) -> None:
    """Delete what processes left that were ended while they wrote; the caller may write."""
    for part in directory.glob("*.part"):
        if not part.name.startswith("write.lock"):
            part.unlink(missing_ok=True)


def folder_size(path: Path) -> int:
    """Bytes of all files below `path`; files that vanish meanwhile count nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += Path(folder, name).stat().st_size
            except FileNotFoundError:
                continue
    return total
