"""Where a bundle is made: under another name, on a disk with room, and whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localrag.bundle import manifest
from localrag.bundle.manifest import MANIFEST
from localrag.errors import BundleError
from localrag.system import files

MARKER = "UNFINISHED"
"""Lies in a folder that is not a bundle yet, so that it can be known and deleted."""

_PACKED = (".whl", ".gguf", ".onnx", ".safetensors", ".bin")
"""Files that a zip archive only stores: they would not get smaller."""


@contextmanager
def unfinished(place: Path) -> Iterator[Path]:
    """A folder beside `place` that is gone afterwards, unless it was renamed.

    What a killed process left is deleted first. Raises `BundleError` where another one works.
    """
    from filelock import Timeout

    folder = place.with_name(f"{place.name}.partial")
    files.make_folder(place.parent)
    guard = place.with_name(f".{place.name}.lock")
    try:
        with files.lock(guard, timeout=0):
            if folder.exists() and not _ours(folder):
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


def _ours(folder: Path) -> bool:
    """Whether a killed process left this: before its first file, in between, or at the end.

    At the end means without the marker, just before the folder got its name: it holds a bundle.
    """
    if folder.is_symlink():
        return False
    names = {path.name for path in folder.iterdir()}
    if not names or MARKER in names:
        return True
    try:
        manifest.read(folder)
    except BundleError:
        return False
    return True


def _delete(folder: Path) -> None:
    """Delete it, and what it is known by last: this too may be cut short."""
    if not folder.exists():
        return
    for path in sorted(folder.iterdir(), key=_last):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    folder.rmdir()


def _last(path: Path) -> int:
    return {MANIFEST: 1, MARKER: 2}.get(path.name, 0)


def pack(folder: Path, name: str, target: Path) -> None:
    """Write the archive under another name, whole and on the disk, then give it its own."""
    partial = target.with_name(f"{target.name}.partial")
    try:
        with files.overwrite_file(partial) as stream:
            with zipfile.ZipFile(stream, "w", strict_timestamps=False) as archive:
                for path in sorted(folder.rglob("*")):
                    relative = path.relative_to(folder).as_posix()
                    if path.is_file() and relative != MARKER:
                        stored = path.suffix in _PACKED
                        kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
                        info = zipfile.ZipInfo.from_file(
                            path, f"{name}/{relative}", strict_timestamps=False
                        )
                        # Whoever unpacks it decides who may read it there.
                        info.external_attr = (stat.S_IFREG | 0o644) << 16
                        info.compress_type = kind
                        with path.open("rb") as read, archive.open(info, "w") as entry:
                            shutil.copyfileobj(read, entry, 1 << 20)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def unwritable(place: Path, error: OSError) -> BundleError:
    """What to tell a person when the disk refuses to take the bundle."""
    if error.errno == errno.ENOSPC:
        return BundleError(
            "The disk of {folder} is full; nothing unfinished was left there.",
            hint="Free some space, or name a folder on another disk.",
            folder=place.parent,
        )
    return BundleError(
        "{path} cannot be made: {reason}.",
        hint="Name a folder of your own on a disk that can be written.",
        path=place,
        reason=error,
    )


def need_room(place: Path, needed: int) -> None:
    """Raise `BundleError` unless `needed` bytes are free where `place` is to be."""
    folder = _existing(place)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BundleError(
            "The bundle needs about {needed} MB in {folder}, and {free} MB are free there.",
            hint="Free some space, or name a folder on another disk.",
            needed=needed // 1_000_000,
            folder=folder,
            free=free // 1_000_000,
        )


def _existing(place: Path) -> Path:
    return next(parent for parent in place.absolute().parents if parent.exists())
