"""`manifest.json`: what a bundle is for, and every file in it with its size and SHA-256.

The rules about bundles stand here once, for making as for installing. Knows nothing about wheels,
models or signatures, nor of where a bundle lies.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from localrag.errors import BundleError
from localrag.printable import as_name

FORMAT = 1
MANIFEST, SIGNATURE = "manifest.json", "manifest.json.sig"
"""The files of a bundle that its manifest does not list."""
EXTRAS = {"keyring": "keyring", "postgres": "psycopg", "vault": "sqlcipher3"}
"""localrag's extras that a bundle can hold, each with the package by which it is known there."""

MOST_FILES = 20_000
"""Real bundles have some hundreds."""
LARGEST = 8 << 20
"""Bytes of a manifest; as objects of Python they may take 25 times as many."""
_SHA256 = re.compile(r"[0-9a-f]{64}")

# What Windows refuses or reads as something else, refused everywhere: a bundle travels. Signs that
# turn the direction of writing would show another name.
_FORBIDDEN = re.compile(
    r'[\x00-\x1f\x7f-\x9f<>:"|?*\\\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]'
)
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that a bundle is for: "linux", "macos" or "windows", "x86_64" or "arm64".

    `python` is like "3.11", `accelerator` "cpu", "cuda" or "metal".
    """

    system: str
    machine: str
    python: str
    accelerator: str = "cpu"

    @property
    def name(self) -> str:
        """Like "linux-x86_64", as `--target` takes it."""
        return f"{self.system}-{self.machine}"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a bundle: `path` with slashes, from the bundle's folder; `bytes` is its size.

    With `in_base` it does not lie in this bundle but in the one it builds upon.
    """

    path: str
    bytes: int
    sha256: str
    in_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `manifest.json` says; `files` are sorted by path.

    `base` is the SHA-256 of the manifest of the bundle that a delta builds upon, `sha256` that of
    its own bytes where it was read from some.
    """

    localrag: str
    created: str
    target: Target
    preset: str | None = None
    base: str | None
    files: tuple[File, ...]
    sha256: str = field(default="", compare=False)

    @property
    def carried(self) -> tuple[File, ...]:
        """The files that lie in this bundle itself, not in its base."""
        return tuple(file for file in self.files if not file.in_base)

    @property
    def wheels(self) -> list[File]:
        """The packages."""
        return [file for file in self.files if re.fullmatch(r"wheels/.*\.whl", file.path)]

    @property
    def extras(self) -> list[str]:
        """Those of `EXTRAS` that the packages include."""
        names = {file.path.removeprefix("wheels/").partition("-")[0] for file in self.wheels}
        return [extra for extra, package in EXTRAS.items() if package in names]

    @property
    def models(self) -> list[File]:
        """The files of models."""
        return [file for file in self.files if file.path.startswith("models/")]


def path_fault(path: object) -> str | None:
    """Why a path may not stand in a manifest, or None: it must mean the same everywhere."""
    if not isinstance(path, str) or len(path) > 400:
        return "not a path"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "not a path within the bundle"
    if _FORBIDDEN.search(path) or any(
        part.endswith((" ", ".")) or _DEVICES.fullmatch(part) for part in parts
    ):
        return "not a file name on every system"
    if any(len(part.encode("utf-8")) > 255 for part in parts):
        return "a name too long for most disks"
    return None


def encode(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`: UTF-8, one fixed layout, a line feed at the end.

    Raises `BundleError` for what `parse` would refuse.
    """
    value = {"format": FORMAT, **asdict(manifest)}
    del value["sha256"]
    if manifest.base is not None:
        value["base"] = {"manifest_sha256": manifest.base}
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    raw = text.encode("utf-8", "surrogatepass")  # for `parse` to refuse
    parse(raw)
    return raw


def parse(raw: bytes, place: object = MANIFEST) -> Manifest:
    """Read the bytes of a manifest, which nobody has vouched for; `place` names it in errors.

    Raises `BundleError`.
    """
    try:
        return _parse(raw)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BundleError(
            "{path} is not the manifest of a bundle, or is damaged: {reason}.",
            hint="Copy the bundle again from where it was created, or create a new one.",
            path=place,
            reason=(str(error) or type(error).__name__)[:200],
        ) from error


def _parse(raw: bytes) -> Manifest:
    if len(raw) > LARGEST:
        raise ValueError("too large")
    value = json.loads(raw.decode("utf-8"), object_pairs_hook=_once)
    format_number = value.pop("format")
    if not _is_count(format_number):
        raise ValueError("no format")
    if format_number > FORMAT:
        raise BundleError(
            "The bundle has format {found}; this localrag reads format {known}.",
            hint="Use the install.py in the bundle, or the localrag version that created it.",
            found=format_number,
            known=FORMAT,
        )
    records = {
        "target": Target(**value["target"]),
        "base": None if value["base"] is None else value["base"]["manifest_sha256"],
        "files": tuple(File(**file) for file in value["files"]),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }
    manifest = Manifest(**value | records)
    words = (manifest.localrag, manifest.created, *asdict(manifest.target).values())
    if not all(isinstance(word, str) and as_name(word) == word for word in words):
        raise ValueError("a text is missing")
    if not re.fullmatch(r"3\.[0-9]{1,2}", manifest.target.python):  # it becomes a program's name
        raise ValueError("python")
    if manifest.base is not None and not _SHA256.fullmatch(manifest.base):
        raise ValueError("base")
    for file in manifest.files:
        if fault := _fault(file, has_base=manifest.base is not None):
            raise ValueError(f"{fault}: {file.path!r}")
    _check_together([file.path for file in manifest.files])
    return manifest


def _fault(file: File, *, has_base: bool) -> str | None:
    if fault := path_fault(file.path):
        return fault
    if not _is_count(file.bytes) or not _SHA256.fullmatch(file.sha256):
        return "size or hash"
    if not isinstance(file.in_base, bool) or (file.in_base and not has_base):
        return "in_base"
    if file.path.startswith("models/") and file.path.count("/") < 2:
        return "not in a model's folder"
    return None


def _check_together(paths: list[str]) -> None:
    if len(paths) > MOST_FILES:
        raise ValueError("too many files")
    if paths != sorted(paths):
        raise ValueError("the files are not sorted by path")
    known = {_on_any_disk(path) for path in (*paths, MANIFEST, SIGNATURE)}
    if len(known) < len(paths) + 2:
        raise ValueError("a file is listed twice, or is the manifest itself")
    if known & {str(parent) for path in known for parent in PurePosixPath(path).parents}:
        raise ValueError("a file is a folder too")


def _on_any_disk(path: str) -> str:
    """The same for paths that some disk takes for one.

    Those of Windows and macOS make no difference between small letters and capitals, and those of
    macOS none between "é" and "e" with an accent behind it.
    """
    decomposed = unicodedata.normalize("NFD", path)
    return unicodedata.normalize("NFD", decomposed.casefold())


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key stands there twice")
    return mapping


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50
