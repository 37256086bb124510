"""A bundle as it lies there: a folder, or one .zip."""

from __future__ import annotations

import errno
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import cast

from localrag.bundle.installer.manifest import (
    LARGEST,
    MANIFEST,
    MOST_FILES,
    Manifest,
    parse,
    path_fault,
)
from localrag.errors import BundleError

DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError)
"""What reading a spoilt archive may raise."""
_RATIO_LIMIT = 200
"""How many times larger than its compressed form a file of an archive may be."""
_DO_NOT_USE = "Do not use it: it was not created by localrag, or has been changed since."
_LITTER = (".ds_store", "thumbs.db", "desktop.ini")
"""What file managers leave behind; never read."""


class Folder:
    """A bundle that is a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> dict[str, int]:
        """Every file with its size. Raises `BundleError` for links and what is no plain file."""
        sizes: dict[str, int] = {}
        entries = 0
        mount = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)  # a folder's link on Windows
        for folder, folders, names in os.walk(self.path, onerror=_fail):
            for entry in (*folders, *names):
                path = Path(folder, entry)
                name, about = path.relative_to(self.path).as_posix(), path.lstat()
                is_file = stat.S_ISREG(about.st_mode)
                plain = is_file or stat.S_ISDIR(about.st_mode)
                if not plain or getattr(about, "st_reparse_tag", 0) == mount:
                    raise _link_error(name)
                if is_file and not _is_litter(entry):
                    sizes[name] = about.st_size
                entries += 1
                if entries > 2 * MOST_FILES:  # with the folders that they lie in
                    raise _crowd_error(self.path)
        return sizes

    def open(self, name: str) -> BufferedReader:
        """A file's bytes. Raises `BundleError` for what is no plain file: a pipe has no end."""
        path = self.path / name
        if not stat.S_ISREG(path.lstat().st_mode):
            raise _link_error(name)
        return path.open("rb")

    def close(self) -> None:
        """Nothing is held open."""


class Archive:
    """A bundle that is one .zip: of the folder itself, or of what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with told_as_damage():
            self._zip = zipfile.ZipFile(path)
        self._infos: dict[str, zipfile.ZipInfo] = {}
        self._read_names()

    def _read_names(self) -> None:
        if len(self._zip.infolist()) > 2 * MOST_FILES:
            raise _crowd_error(self.path)
        infos = [
            info
            for info in self._zip.infolist()
            if not info.filename.startswith("__MACOSX/")
            and not info.filename.endswith("/")
            and not _is_litter(info.filename.rpartition("/")[2])
        ]
        tops = [info.filename for info in infos if info.filename.rpartition("/")[2] == MANIFEST]
        top = min(tops, key=len)[: -len(MANIFEST)] if tops else ""
        packed = 0
        for info in infos:
            name = info.filename.removeprefix(top)
            outside = not info.filename.startswith(top) or top.count("/") > 1
            if outside or path_fault(info.filename) or name in self._infos:
                raise BundleError(
                    "The archive contains a file with a name that no bundle has: {name}.",
                    hint=_DO_NOT_USE,
                    name=info.filename[:200],
                )
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _link_error(name)
            known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            huge = info.file_size > _RATIO_LIMIT * info.compress_size + (1 << 20)
            if not known or info.flag_bits & 1 or huge:
                raise _packing_error(name)
            packed += info.compress_size
            self._infos[name] = info
        if packed > self.path.stat().st_size:  # files that lie over each other
            raise _packing_error(self.path.name)

    def files(self) -> dict[str, int]:
        """Every file with the size that the archive says it has."""
        return {name: info.file_size for name, info in self._infos.items()}

    def open(self, name: str) -> BufferedReader:
        """A file's bytes; reads no more than its size."""
        if name not in self._infos:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        with told_as_damage():
            return cast(BufferedReader, self._zip.open(self._infos[name]))

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()


Bundle = Folder | Archive


def open_bundle(path: Path) -> Bundle:
    """The bundle at `path`, a folder or a .zip. Raises `BundleError` where there is none."""
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise BundleError(
            "There is no bundle at {path}.", hint="Name the bundle's folder or .zip.", path=path
        )
    try:
        return Archive(path)
    except DAMAGED as error:
        raise BundleError(
            "{path} is not a readable archive: {reason}.",
            hint="Copy the bundle again from where it was created.",
            path=path,
            reason=error,
        ) from None


def manifest_bytes(bundle: Bundle) -> bytes:
    """The bytes of a bundle's manifest, which a signature is about. Raises `BundleError`."""
    try:
        return small_file(bundle, MANIFEST, LARGEST)
    except FileNotFoundError:
        raise BundleError(
            "{path} contains no {name}: it is not a bundle, or it was never finished.",
            hint="Name the bundle's folder or .zip.",
            path=bundle.path,
            name=MANIFEST,
        ) from None


def read_manifest(path: Path) -> Manifest:
    """The manifest of a bundle at `path`, or that file itself. Raises `BundleError`, OSError."""
    if path.suffix == ".json" and path.is_file():
        with path.open("rb") as stream:
            return parse(stream.read(LARGEST + 1), path)
    bundle = open_bundle(path)
    try:
        return parse(manifest_bytes(bundle), path)
    finally:
        bundle.close()


def small_file(bundle: Bundle, name: str, limit: int) -> bytes:
    """A file of at most `limit` bytes, b"" where it is damaged. Raises FileNotFoundError."""
    try:
        with bundle.open(name) as stream:
            data = stream.read(limit + 1)
    except DAMAGED:
        return b""
    if len(data) > limit:
        raise _packing_error(name)
    return data


@contextmanager
def told_as_damage() -> Iterator[None]:
    """Raise one of `DAMAGED` for an offset that no file has: it is no fault of the disk."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise zipfile.BadZipFile(str(error)) from error
        raise


def _fail(error: OSError) -> None:
    raise error


def _is_litter(name: str) -> bool:
    return name.startswith("._") or name.casefold() in _LITTER


def _link_error(name: str) -> BundleError:
    return BundleError(
        "{name} is a link or a device; a bundle contains only regular files.",
        hint=_DO_NOT_USE,
        name=name,
    )


def _crowd_error(path: Path) -> BundleError:
    return BundleError(
        "{path} contains more files than a bundle may: {count} are the limit.",
        hint=_DO_NOT_USE,
        path=path,
        count=MOST_FILES,
    )


def _packing_error(name: str) -> BundleError:
    return BundleError(
        "The archive packs {name} in a way that localrag never uses.",
        hint=_DO_NOT_USE,
        name=name,
    )
