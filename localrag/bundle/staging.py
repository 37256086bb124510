"""Where a bundle is made: under another name, on a disk with room, and whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from localrag.errors import BundleError
from localrag.system import files

_PACKED = (".whl", ".gguf", ".onnx", ".safetensors", ".bin")
"""Files that a zip archive only stores: they would not get smaller."""


@contextmanager
def staging_folder(place: Path) -> Iterator[Path]:
    """A folder beside `place` that is gone afterwards, unless it was renamed.

    What a killed process left is deleted first, known by a name that nobody else gives. Raises
    `BundleError` where another process makes the same bundle.
    """
    from filelock import Timeout

    files.make_folder(place.parent)
    guard = place.with_name(f".{place.name}.lock")
    unfinished = re.compile(re.escape(place.name) + r"\.[0-9a-f]{16}\.partial")
    folder = place.with_name(f"{place.name}.{secrets.token_hex(8)}.partial")
    try:
        with files.lock(guard, timeout=0):
            for left in place.parent.iterdir():
                if unfinished.fullmatch(left.name) and files.is_real_folder(left):
                    files.delete_tree(left)
            try:
                files.create_folder(folder)
                yield folder
            finally:
                files.delete_tree(folder)
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
            "The bundle needs about {needed} MB in {folder}, but only {free} MB are free there.",
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
                if path.is_dir():
                    continue
                place = f"{name}/{path.relative_to(folder).as_posix()}"
                info = zipfile.ZipInfo.from_file(path, place, strict_timestamps=False)
                # Whoever unpacks it decides who may read it there.
                info.external_attr = (stat.S_IFREG | 0o644) << 16
                stored = path.suffix in _PACKED
                info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
                with path.open("rb") as read, archive.open(info, "w") as entry:
                    shutil.copyfileobj(read, entry, 1 << 20)

    files.new_file(target, write)
