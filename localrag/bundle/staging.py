"""Where a bundle is made: under another name, on a disk with room, and whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from localrag.bundle.installer.manifest import MANIFEST
from localrag.bundle.installer.storage import read_manifest
from localrag.errors import BundleError
from localrag.system import files

MARKER = "UNFINISHED"
"""Lies in a folder that is not a bundle yet, so that it can be known and deleted."""

_PACKED = (".whl", ".gguf", ".onnx", ".safetensors", ".bin")
"""Files that a zip archive only stores: they would not get smaller."""


@contextmanager
def staging_folder(place: Path) -> Iterator[Path]:
    """A folder beside `place` that is gone afterwards, unless it was renamed.

    What a killed process left is deleted first. Raises `BundleError` where another one works.
    """
    from filelock import Timeout

    folder = place.with_name(f"{place.name}.partial")
    files.make_folder(place.parent)
    guard = place.with_name(f".{place.name}.lock")
    try:
        with files.lock(guard, timeout=0):
            if folder.exists() and not _is_left_over(folder):
                raise BundleError(
                    "{path} is in the way, and is no unfinished bundle.",
                    hint="Move it away, or choose another name.",
                    path=folder,
                )
            _delete(folder)
            try:
                files.create_folder(folder)
                files.touch_file(folder / MARKER)
                yield folder
            finally:
                _delete(folder)
                if os.name == "posix":  # elsewhere the lock deletes its own file
                    guard.unlink(missing_ok=True)
    except Timeout as error:
        raise BundleError(
            "Another process is making {path}.",
            hint="Wait for it, or choose another name.",
            path=place,
        ) from error


def need_room(place: Path, needed: int) -> None:
    """Raise `BundleError` unless `needed` bytes are free where `place` is to be."""
    folder = next(parent for parent in place.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BundleError(
            "The bundle needs about {needed} MB in {folder}, and {free} MB are free there.",
            hint="Free some space, or name a folder on another disk.",
            needed=needed // 1_000_000,
            folder=folder,
            free=free // 1_000_000,
        )


def write_archive(folder: Path, name: str, target: Path) -> None:
    """Pack a staging folder as `name` into an archive that is there whole or not at all."""

    def write(stream: BinaryIO) -> None:
        with zipfile.ZipFile(stream, "w", strict_timestamps=False) as archive:
            for path in sorted(folder.rglob("*")):
                relative = path.relative_to(folder).as_posix()
                if path.is_dir() or relative == MARKER:
                    continue
                info = zipfile.ZipInfo.from_file(
                    path, f"{name}/{relative}", strict_timestamps=False
                )
                # Whoever unpacks it decides who may read it there.
                info.external_attr = (stat.S_IFREG | 0o644) << 16
                stored = path.suffix in _PACKED
                info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
                with path.open("rb") as read, archive.open(info, "w") as entry:
                    shutil.copyfileobj(read, entry, 1 << 20)

    files.new_file(target, write)


def _is_left_over(folder: Path) -> bool:
    """Whether a killed process left this: before its first file, in between, or at the end.

    At the end means without the marker, just before the folder got its name: it holds a bundle.
    """
    if folder.is_symlink():
        return False
    names = {path.name for path in folder.iterdir()}
    if names and MARKER not in names:
        with suppress(BundleError, OSError):
            read_manifest(folder)
            return True
        return False
    return True


def _delete(folder: Path) -> None:
    """Delete it, and what it is known by last: this too may be cut short."""
    if folder.exists():
        last = {MANIFEST: 1, MARKER: 2}
        for path in sorted(folder.iterdir(), key=lambda path: last.get(path.name, 0)):
            files.delete_tree(path)
        folder.rmdir()
