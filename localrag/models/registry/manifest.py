"""What is written beside the models: `installed.json` in each, `registered.json` for all."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from localrag.errors import ModelCorruptError
from localrag.models.registry.spec import ModelTask
from localrag.system.files import replace_content

MANIFEST = "installed.json"
REGISTERED = "registered.json"

HashFrom = Literal["published", "hub", "user"]


class InstalledFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A checked file: while size and times stand, its hash need not be taken again.

    `ctime_ns` is the time of the last change of any kind, which a program cannot set back;
    0 where an older version of localrag wrote the record. (On Windows: of creation.)
    `hash_from` says whether the hash was written down in localrag ("published"),
    learnt from the hub at the first pull, or taken when the user added the file.
    """

    path: str
    size: int
    sha256: str
    source: str
    mtime_ns: int
    ctime_ns: int = 0
    hash_from: HashFrom

    @classmethod
    def of(
        cls, place: Path, path: str, *, sha256: str, source: str, hash_from: HashFrom
    ) -> InstalledFile:
        """The record of a file at `place` that has just been checked."""
        stat = place.stat()
        return cls(
            path=path,
            size=stat.st_size,
            sha256=sha256,
            source=source,
            mtime_ns=stat.st_mtime_ns,
            ctime_ns=stat.st_ctime_ns,
            hash_from=hash_from,
        )


class Installed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of `installed.json`."""

    model: str
    files: tuple[InstalledFile, ...]

    def find(self, path: str) -> InstalledFile | None:
        """The record of one file, or None."""
        return next((file for file in self.files if file.path == path), None)


class Registered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model of the user's own, left where it is; `path` is a GGUF file or a folder."""

    name: str
    task: ModelTask
    path: str
    files: tuple[InstalledFile, ...]


Record = TypeVar("Record")


def read_installed(folder: Path) -> Installed | None:
    """The manifest of a model's folder, or None where there is none."""
    return _read(folder / MANIFEST, Installed)


def read_registered(models: Path) -> dict[str, Registered]:
    """The user's own models by name."""
    return _read(models / REGISTERED, dict[str, Registered]) or {}


def write(path: Path, value: object) -> None:
    """Write a record as JSON: whole, or not at all."""
    replace_content(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def _read(path: Path, kind: type[Record]) -> Record | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelCorruptError(
            "{path} cannot be read: {reason}.",
            hint="Delete that file and pull or add the model again: what is on disk is kept.",
            path=path,
            reason=error,
        ) from error
