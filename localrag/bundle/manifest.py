"""`manifest.json`: what a bundle is for, and every file in it with its size and SHA-256.

Knows nothing about wheels, models or signatures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

import msgspec

from localrag.errors import BundleError
from localrag.models.registry.download import sha256_of
from localrag.system.files import replace_content

FORMAT: Final = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
NOT_LISTED = frozenset({MANIFEST, SIGNATURE})
"""Files of a bundle that its manifest cannot list."""

System = Literal["linux", "macos", "windows"]
Machine = Literal["x86_64", "arm64"]
Accelerator = Literal["cpu", "cuda", "metal"]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]

# What Windows refuses or reads as something else, refused everywhere: a bundle travels.
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Target(_Record, frozen=True, kw_only=True):
    """The machine that a bundle is for; `python` is like "3.11"."""

    system: System
    machine: Machine
    python: Annotated[str, msgspec.Meta(pattern=r"^3\.[0-9]{1,2}$")]
    accelerator: Accelerator = "cpu"

    @property
    def name(self) -> str:
        """Like "linux-x86_64", as `--target` takes it."""
        return f"{self.system}-{self.machine}"


class Base(_Record, frozen=True, kw_only=True):
    """The bundle that a delta builds upon, by the SHA-256 of its manifest's bytes."""

    manifest_sha256: Sha256


class File(_Record, frozen=True, kw_only=True):
    """A file of a bundle: `path` with slashes, from the bundle's folder; `bytes` is its size.

    With `in_base` it does not lie in this bundle but in the one it builds upon.
    """

    path: str
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Sha256
    in_base: bool = False

    def __post_init__(self) -> None:
        if fault := path_fault(self.path):
            raise ValueError(f"{fault}: {self.path!r}")


class Manifest(_Record, frozen=True, kw_only=True):
    """The contents of `manifest.json`; `files` are sorted by path and each is there once."""

    format: Literal[1] = FORMAT
    localrag: str
    created: str
    target: Target
    preset: str | None
    base: Base | None
    files: tuple[File, ...]

    def __post_init__(self) -> None:
        paths = [file.path for file in self.files]
        if paths != sorted(paths):
            raise ValueError("the files are not sorted by path")
        folded = [path.casefold() for path in paths]
        if len(set(folded)) != len(folded):
            raise ValueError("a file is listed twice")
        if not NOT_LISTED.isdisjoint(folded):
            raise ValueError("the manifest or its signature lists itself")
        if self.base is None and any(file.in_base for file in self.files):
            raise ValueError("a file is said to be in a base, but none is named")

    def find(self, path: str) -> File | None:
        """The record of one file, or None."""
        return next((file for file in self.files if file.path == path), None)

    @property
    def carried(self) -> tuple[File, ...]:
        """The files that lie in this bundle itself, not in its base."""
        return tuple(file for file in self.files if not file.in_base)

    @property
    def size(self) -> int:
        """Bytes of the files that lie in this bundle itself."""
        return sum(file.bytes for file in self.carried)


def path_fault(path: str) -> str | None:
    """Why a path may not stand in a manifest, or None: it must stay within the bundle."""
    parts = path.split("/")
    if PurePosixPath(path).is_absolute() or any(part in ("", ".", "..") for part in parts):
        return "not a path within the bundle"
    if _FORBIDDEN.search(path) or any(part.endswith((" ", ".")) for part in parts):
        return "not a file name on every system"
    if any(_DEVICES.fullmatch(part) for part in parts):
        return "not a file name on every system"
    return None


def encode(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`: UTF-8, one fixed layout, a line feed at the end."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(data: bytes, place: object = MANIFEST) -> Manifest:
    """Read the bytes of a manifest; `place` names it in errors. Raises `BundleError`."""
    try:
        seen = msgspec.json.decode(data, type=_Versioned)
        if seen.format == FORMAT:
            return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(
            "{path} is not the manifest of a bundle, or is damaged: {reason}.",
            hint="Copy the bundle again from where it was made, or create it anew.",
            path=place,
            reason=error,
        ) from error
    raise BundleError(
        "{path} has format {found}; this localrag reads format {known}.",
        hint="Use the install.py that lies in the bundle, or a localrag of its version.",
        path=place,
        found=seen.format,
        known=FORMAT,
    )


def read(place: Path) -> Manifest:
    """The manifest of a bundle's folder, or a manifest file itself. Raises `BundleError`."""
    return decode(read_bytes(place), _file(place))


def read_bytes(place: Path) -> bytes:
    """The manifest's bytes as they are, which a signature or a delta's base is about."""
    path = _file(place)
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BundleError(
            "{path} is not there: this is no bundle, or one that was not finished.",
            hint="Name the bundle's folder or .zip, or its manifest.json.",
            path=path,
        ) from error
    except OSError as error:
        raise BundleError(
            "{path} cannot be read: {reason}.",
            hint="Check that it is still there and that you may read it.",
            path=path,
            reason=error,
        ) from error


def write(folder: Path, manifest: Manifest) -> Path:
    """Write `manifest.json` into a bundle's folder: whole, or not at all. Returns its path."""
    path = folder / MANIFEST
    replace_content(path, encode(manifest))
    return path


def files_in(folder: Path) -> list[Path]:
    """Every file that a bundle's manifest must list, sorted as there.

    Raises `BundleError` for a link: it would be something else on another machine.
    """
    found: dict[str, Path] = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise BundleError(
                "{path} is a link; a bundle holds plain files only.",
                hint="Put the file itself there.",
                path=path,
            )
        relative = path.relative_to(folder).as_posix()
        if path.is_file() and relative not in NOT_LISTED:
            found[relative] = path
    return [found[key] for key in sorted(found)]


def hash_files(folder: Path, tell: Callable[[int], None] = lambda _: None) -> tuple[File, ...]:
    """The records of all files in a bundle's folder; `tell` hears the bytes hashed so far."""
    records = []
    done = 0
    for path in files_in(folder):
        size = path.stat().st_size
        relative = path.relative_to(folder).as_posix()
        records.append(File(path=relative, bytes=size, sha256=sha256_of(path)))
        done += size
        tell(done)
    return tuple(records)


class _Versioned(msgspec.Struct):
    format: int


def _file(place: Path) -> Path:
    return place / MANIFEST if place.is_dir() or place.suffix != ".json" else place
