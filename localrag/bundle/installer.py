"""Check a localrag bundle and install it, with Python alone: no network, no compiler, no packages.

    python3 install.py [--to FOLDER] [--base OLD_BUNDLE] [--key PUBLIC_KEY] [--verify-only] [--yes]

This file is copied into every bundle as install.py, so it is one file, imports the standard
library only, and older Pythons can read it far enough to say which one is needed. `localrag bundle
verify` and `localrag bundle install` run the same code.

An installation is a folder: `venv/<bundle>` (one environment for each bundle), `models`,
`bin/localrag` and `installed.json`. The new environment is made beside the old one; only when it
works do models and launcher change places, so that a process killed at any moment leaves the old
installation working, or one that the next run completes.
"""

# ruff: noqa: E501, N818, S603, SIM117, UP007 - a table of texts; no shell anywhere; older Pythons

from __future__ import annotations  # an error here: Python is too old, 3.11 is needed 需要 3.11

import argparse
import base64
import contextlib
import csv
import errno
import hashlib
import json
import locale
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Union

    Place = Union["Folder", "Archive"]
    Tell = Callable[[str], None]

FORMAT = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
NAMESPACE = "localrag-bundle"
"""What a signature is for: one made for anything else does not count."""
RECORD = "installed.json"
_BEGUN = (".install.lock", f".{RECORD}.part")
"""All that there is where the very first run was cut off."""
COMPLETE = "localrag-bundle.json"
"""Written into an environment last of all."""

MANIFEST_LIMIT = 64 << 20
SIGNATURE_LIMIT = 64 << 10
FILES_LIMIT = 100_000
RATIO_LIMIT = 200
"""How many times larger than its compressed form a file of an archive may be."""
MARGIN = 200 << 20
"""Bytes of the disk that an installation leaves free."""

_PART = 1 << 20
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError)
"""What reading a spoilt archive may raise."""
_HEX = re.compile(r"[0-9a-f]{64}")
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?")
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# As `localrag.printable`, which is not here yet.
_UNSEEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u070f\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_IN_TEXT = re.compile("[" + _UNSEEN + "]")
_IN_NAME = re.compile(r"[\t\n\u200c\u200d" + _UNSEEN + "]")
_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64"}
_LITTER = (".ds_store", "thumbs.db", "desktop.ini")
"""What file managers leave behind; never read."""
_NATIVE = {
    "faiss_cpu": "faiss",
    "llama_cpp_python": "llama_cpp",
    "onnxruntime": "onnxruntime",
    "pymupdf": "pymupdf",
    "tantivy": "tantivy",
}
"""Wheels with machine code, and what is imported to see that it runs on this processor."""
_OWN = frozenset({"localrag_offline", "localrag"})
"""localrag's wheel; 0.1 carried the second name."""
_SILENT = {"ORT_DISABLE_TELEMETRY": "1", "ORT_TELEMETRY_DISABLED": "1", "HF_HUB_OFFLINE": "1"}


class Problem(Exception):
    """What a person has to know, as templates: what is wrong, and what to do next."""

    def __init__(self, message: str, hint: str = "", **values: object) -> None:
        super().__init__(message)
        self.message, self.hint, self.values = message, hint, values
        self.faults: list[tuple[str, str]] = []

    def __str__(self) -> str:
        hint = tr(self.hint, **self.values) if self.hint else ""
        between = "" if language() == "zh" else " "
        return (tr(self.message, **self.values) + between + hint).strip()


class Entry(NamedTuple):
    """A file of a bundle: `path` with slashes, `bytes` its size."""

    path: str
    bytes: int
    sha256: str
    in_base: bool


class Manifest(NamedTuple):
    """What `manifest.json` says; `sha256` is that of its own bytes, `base` that of another's."""

    localrag: str
    created: str
    system: str
    machine: str
    python: str
    base: str | None
    entries: tuple[Entry, ...]
    sha256: str


class Checked(NamedTuple):
    """A bundle whose files are those of its manifest; `base` has those of `in_base`."""

    manifest: Manifest
    bundle: Place
    base: Place | None
    signed: bool
    signer: str

    def source(self, entry: Entry) -> Place:
        """Where a file lies."""
        if not entry.in_base:
            return self.bundle
        if self.base is None:
            raise Problem(
                "This bundle holds only what changed since another one.",
                "Name that one too: --base OLD_BUNDLE.",
            )
        return self.base

    def wheels(self) -> list[Entry]:
        """The packages."""
        found = (entry for entry in self.manifest.entries if entry.path.startswith("wheels/"))
        return [entry for entry in found if entry.path.endswith(".whl")]

    def models(self) -> list[Entry]:
        """The files of models."""
        return [entry for entry in self.manifest.entries if entry.path.startswith("models/")]


# The manifest


def parse_manifest(raw: bytes) -> Manifest:
    """Read the bytes of a manifest, which nobody has vouched for."""
    try:
        return _manifest(raw)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Problem(
            "{name} is not the manifest of a bundle, or is damaged: {reason}.",
            "Copy the bundle again from where it was made.",
            name=MANIFEST,
            reason=printable(str(error) or type(error).__name__)[:200],
        ) from None


def _manifest(raw: bytes) -> Manifest:
    value = json.loads(raw.decode("utf-8"), object_pairs_hook=_once)
    found = value["format"]
    if not _is_count(found):
        raise ValueError("no format")
    if found > FORMAT:
        raise Problem(
            "The bundle has format {found}; this installer reads format {known}.",
            "Use the install.py that lies in the bundle.",
            found=found,
            known=FORMAT,
        )
    target, base = value["target"], value["base"]
    words = (value["localrag"], value["created"])
    machine = (target["system"], target["machine"], target["python"])
    if not all(isinstance(word, str) and not _UNSAFE.search(word) for word in words + machine):
        raise ValueError("a text is missing")
    if not re.fullmatch(r"3\.[0-9]{1,2}", target["python"]):  # it becomes a program's name
        raise ValueError("python")
    if base is not None and not _HEX.fullmatch(base["manifest_sha256"]):
        raise ValueError("base")
    entries, seen = [], {MANIFEST.casefold(), SIGNATURE.casefold()}
    folders = set()
    if len(value["files"]) > FILES_LIMIT:
        raise ValueError("too many files")
    for file in value["files"]:
        entry = Entry(file["path"], file["bytes"], file["sha256"], file.get("in_base", False))
        fault = path_fault(entry.path)
        if fault or not _is_count(entry.bytes) or not _HEX.fullmatch(entry.sha256):
            raise ValueError("{}: {!r}".format(fault or "size or hash", entry.path))
        if entry.in_base not in (False, True) or (entry.in_base and base is None):
            raise ValueError(f"in_base: {entry.path!r}")
        folded = entry.path.casefold()
        if folded in seen:
            raise ValueError(f"twice: {entry.path!r}")
        seen.add(folded)
        folders |= {str(parent) for parent in Path(folded).parents}
        if entry.path.startswith("models/") and entry.path.count("/") < 2:
            raise ValueError(f"not in a model's folder: {entry.path!r}")
        entries.append(entry)
    if {str(Path(path)) for path in seen} & folders:
        raise ValueError("a file is a folder too")
    digest = hashlib.sha256(raw).hexdigest()
    base_digest = base["manifest_sha256"] if base is not None else None
    return Manifest(*words, *machine, base_digest, tuple(entries), digest)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50


def path_fault(path: object) -> str | None:
    """Why a path may not stand in a manifest, or None: it must mean the same everywhere."""
    if not isinstance(path, str) or len(path) > 400:
        return "not a path"
    try:
        longest = max(len(part.encode("utf-8")) for part in path.split("/"))
    except UnicodeEncodeError:
        return "not a path"
    if longest > 255:
        return "a name too long for most disks"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "not a path within the bundle"
    if _FORBIDDEN.search(path) or any(part.endswith((" ", ".")) for part in parts):
        return "not a file name on every system"
    if any(_DEVICES.fullmatch(part) for part in parts) or _UNSAFE.search(path):
        return "not a file name on every system"
    return None


# A bundle as it lies there: a folder or an archive


class Folder:
    """A bundle that is a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> dict[str, int]:
        """Every file with its size. Raises `Problem` for links and what is no plain file."""
        found: dict[str, int] = {}
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with os.scandir(self.path / folder) as listing:
                for one in listing:
                    name = f"{folder}/{one.name}" if folder else one.name
                    # Not from the listing: Windows leaves out there what it would have to look up.
                    about = (self.path / name).lstat()
                    mount = getattr(about, "st_reparse_tag", 0) == getattr(
                        stat, "IO_REPARSE_TAG_MOUNT_POINT", -1
                    )
                    if stat.S_ISDIR(about.st_mode) and not mount:
                        waiting.append(name)
                    elif not stat.S_ISREG(about.st_mode) or mount:
                        raise _linked(name)
                    elif not _is_litter(one.name):
                        found[name] = about.st_size
        return found

    def open(self, name: str) -> BinaryIO:
        """A file's bytes."""
        return (self.path / name).open("rb")

    def link(self, name: str, target: Path) -> bool:
        """Make `target` a second name of the file, where the disk can."""
        try:
            os.link(str(self.path / name), str(target))
        except (OSError, NotImplementedError, AttributeError):
            return False
        return True


class Archive:
    """A bundle that is one .zip: of the folder itself, or of what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip = zipfile.ZipFile(str(path))
        self._infos: dict[str, zipfile.ZipInfo] = {}
        self._read_names()

    def _read_names(self) -> None:
        infos = [info for info in self._zip.infolist() if not info.filename.endswith("/")]
        infos = [
            info
            for info in infos
            if not info.filename.startswith("__MACOSX/")
            and not _is_litter(info.filename.rpartition("/")[2])
        ]
        tops = [info.filename for info in infos if info.filename.rpartition("/")[2] == MANIFEST]
        top = min(tops, key=len)[: -len(MANIFEST)] if tops else ""
        packed = 0
        for info in infos:
            name = info.filename[len(top) :]
            outside = not info.filename.startswith(top) or top.count("/") > 1
            if outside or path_fault(info.filename) or name in self._infos:
                raise Problem(
                    "The archive holds a file of a name that no bundle has: {name}.",
                    "Do not use it: it was not made by localrag, or was changed since.",
                    name=printable(info.filename)[:200],
                )
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _linked(name)
            known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            huge = info.file_size > RATIO_LIMIT * info.compress_size + _PART
            if not known or info.flag_bits & 1 or huge:
                raise _unusual(name)
            packed += info.compress_size
            self._infos[name] = info
        if packed > self.path.stat().st_size:  # files that lie over each other
            raise _unusual(self.path.name)

    def files(self) -> dict[str, int]:
        """Every file with the size that the archive says it has."""
        return {name: info.file_size for name, info in self._infos.items()}

    def open(self, name: str) -> BinaryIO:
        """A file's bytes; reads no more than its size."""
        try:
            return self._zip.open(self._infos[name])  # type: ignore[return-value]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()

    def link(self, name: str, target: Path) -> bool:  # noqa: ARG002 - as Folder has it
        """An archive's files have no name of their own."""
        return False


def _is_litter(name: str) -> bool:
    return name.startswith("._") or name.casefold() in _LITTER


def _linked(name: str) -> Problem:
    return Problem(
        "{name} is a link or a device; a bundle holds plain files only.",
        "Do not use it: it was not made by localrag, or was changed since.",
        name=printable(name),
    )


def _unusual(name: str) -> Problem:
    return Problem(
        "The archive packs {name} in a way that localrag never does.",
        "Do not use it: it was not made by localrag, or was changed since.",
        name=printable(name),
    )


def opened(path: Path) -> Place:
    """The bundle at `path`, a folder or a .zip."""
    if path.is_dir():
        return Folder(path)
    if not path.exists():
        raise Problem(
            "There is no bundle at {path}.", "Name the bundle's folder or .zip.", path=path
        )
    try:
        return Archive(path)
    except _DAMAGED as error:
        raise Problem(
            "{path} is no archive that can be read: {reason}.",
            "Copy the bundle again from where it was made.",
            path=path,
            reason=printable(str(error)),
        ) from None


# Checking


def verify(
    path: Path,
    base: Path | None = None,
    key: Path | None = None,
    tell: Tell = lambda _: None,
) -> Checked:
    """Check signature, names, sizes and hashes of a bundle; changes nothing.

    `base` is the bundle that a delta builds upon; without it, what lies there is not looked at.
    Raises `Problem`, with `faults` (path, what) where files differ.
    """
    bundle = opened(path)
    raw = manifest_of(bundle)
    signature = _small(bundle, SIGNATURE, SIGNATURE_LIMIT, missing=b"")
    signer = verify_signature(raw, signature, key) if key is not None else ""
    manifest = parse_manifest(raw)
    old = _base(manifest, base) if base is not None else None
    checked = Checked(manifest, bundle, old, bool(signature), signer)
    faults = _faults(bundle, [one for one in manifest.entries if not one.in_base], tell)
    lying = set(bundle.files()) - {MANIFEST, SIGNATURE}
    here = {one.path for one in manifest.entries if not one.in_base}
    faults += [(name, "not in the manifest") for name in sorted(lying - here)]
    if old is not None:
        faults += _faults(old, [one for one in manifest.entries if one.in_base], tell)
    if faults:
        shown = [
            tr("{name} ({fault})", name=printable(name), fault=tr(fault))
            for name, fault in faults[:6]
        ]
        problem = Problem(
            "The bundle is not as it was made: {files}{more}.",
            "Copy it again from where it was made; nothing was installed.",
            files=tr(", ").join(shown),
            more=tr(" and {count} more", count=len(faults) - 6) if len(faults) > 6 else "",
        )
        problem.faults = faults
        raise problem
    return checked


def manifest_of(place: Place) -> bytes:
    """The bytes of a bundle's manifest, as they are."""
    return _small(place, MANIFEST, MANIFEST_LIMIT)


def _base(manifest: Manifest, path: Path) -> Place:
    if manifest.base is None:
        raise Problem("This bundle is whole.", "Leave --base out.")
    base = opened(path)
    raw = manifest_of(base)
    if hashlib.sha256(raw).hexdigest() != manifest.base:
        raise Problem(
            "{path} is not the bundle that this one builds upon.",
            "Name the bundle that it was made against with --base.",
            path=path,
        )
    return base


def _faults(place: Place, entries: Sequence[Entry], tell: Tell) -> list[tuple[str, str]]:
    lying = place.files()
    faults = []
    for entry in entries:
        if entry.path not in lying:
            faults.append((entry.path, "missing"))
        elif lying[entry.path] != entry.bytes:
            faults.append((entry.path, "not of its size"))
        else:
            tell(entry.path)
            with contextlib.suppress(*_DAMAGED):
                with place.open(entry.path) as stream:
                    if _digest(stream) == entry.sha256:
                        continue
            faults.append((entry.path, "altered"))
    return faults


def _digest(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    for part in iter(lambda: stream.read(_PART), b""):
        digest.update(part)
    return digest.hexdigest()


def _small(place: Place, name: str, limit: int, missing: bytes | None = None) -> bytes:
    try:
        with place.open(name) as stream:
            found = stream.read(limit + 1)
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise Problem(
            "{path} holds no {name}: it is no bundle, or one that was not finished.",
            "Name the bundle's folder or .zip.",
            path=place.path,
            name=name,
        ) from None
    except _DAMAGED:
        found = b""
    if len(found) > limit:
        raise _unusual(name)
    return found


# Signatures, with the OpenSSH that Linux, macOS and Windows bring along


def find_ssh_keygen() -> str:
    """The program's path; never one that lies in the folder where we happen to be."""
    program = _find("ssh-keygen")
    if program is not None:
        return program
    raise Problem(
        "Signatures need ssh-keygen, which is not on this machine.",
        "It is part of OpenSSH: on Linux the package is openssh-client, on Windows an optional "
        "feature of the system's settings, and macOS has it.",
    )


def verify_signature(raw: bytes, signature: bytes, key: Path) -> str:
    """The public key that signed the manifest's bytes. Raises `Problem` where it is not `key`."""
    if not signature:
        raise Problem(
            "The bundle is not signed, and --key asks for a signature.",
            "Do not install it, unless you know from elsewhere who made it.",
        )
    program, public = find_ssh_keygen(), public_keys(key)
    with tempfile.TemporaryDirectory() as scratch:
        allowed, given = Path(scratch, "allowed"), Path(scratch, "signature")
        lines = (f'localrag namespaces="{NAMESPACE}" {one}\n' for one in public)
        allowed.write_text("".join(lines), encoding="ascii")
        given.write_bytes(signature)
        options = ("-Y", "verify", "-I", "localrag", "-n", NAMESPACE)
        paths = ("-f", str(allowed.absolute()), "-s", str(given.absolute()))
        done = _run([program, *options, *paths], raw)
    said = printable(done.stdout.strip())
    if done.returncode:
        raise Problem(
            "The bundle's signature is not one of the key {key}: {reason}",
            "Do not install it: it comes from somebody else, or was changed since.",
            key=key,
            reason=said[-300:],
        )
    return said


def public_keys(path: Path) -> list[str]:
    """The keys of an OpenSSH public key file, each as "type base64"."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise Problem(
            "The key {path} cannot be read: {reason}.",
            "Name a public key, such as id_ed25519.pub.",
            path=path,
            reason=error.strerror,
        ) from None
    keys: list[str] = []
    for line in lines:
        words = line.split()
        if words and not words[0].startswith("#"):
            fits = len(words) > 1 and re.fullmatch(r"[A-Za-z0-9@.-]{1,80}", words[0])
            if not fits or not re.fullmatch(r"AAAA[A-Za-z0-9+/=]+", words[1]):
                keys = []
                break
            keys.append(f"{words[0]} {words[1]}")
    if not keys:
        raise Problem(
            "{path} is no public key of OpenSSH.",
            "Name a public key, such as id_ed25519.pub.",
            path=path,
        )
    return keys


# The machine


def this_machine() -> tuple[str, str, str]:
    """(system, machine, Python) as manifests name them."""
    systems = {"linux": "linux", "darwin": "macos", "win32": "windows"}
    machine = platform.machine().lower()
    if sys.platform == "win32":  # what Python was built for, not what Windows runs on
        machine = sysconfig.get_platform().rpartition("-")[2]
    if sys.maxsize < 1 << 32:
        machine = "32-bit"
    version = "{}.{}".format(*sys.version_info[:2])
    if sys.implementation.name != "cpython":
        version = f"{sys.implementation.name} {version}"
    return systems.get(sys.platform, sys.platform), _MACHINES.get(machine, machine), version


def check_machine(manifest: Manifest, wheels: Iterable[Entry]) -> None:
    """Raise where the bundle is for another system, processor, Python or an newer system."""
    system, machine, python = this_machine()
    if (system, machine) != (manifest.system, manifest.machine):
        raise Problem(
            "The bundle is for {wanted}; this machine, or its Python, is {found}.",
            "Make one with `localrag bundle create` that has this machine as its target.",
            wanted=f"{manifest.system}-{manifest.machine}",
            found=f"{system}-{machine}",
        )
    if python != manifest.python:
        raise Problem(
            "The bundle is for Python {wanted}; this is Python {found} ({path}).",
            "Install Python {wanted}: python.org has installers for Windows and macOS that can "
            "travel on the same stick, on Linux the package is python{wanted}. Then run "
            "install.py with it. Or make a bundle for this one: `localrag bundle create --python`.",
            wanted=manifest.python,
            found=python,
            path=sys.executable,
        )
    needed, name = _newest_system(system, [entry.path for entry in wheels])
    has = _system_version(system)
    if has is not None and has < needed:
        raise Problem(
            "{name} needs {system} {needed} or newer; this machine has {found}.",
            "Update the system, or use a newer machine.",
            name=name,
            system={"linux": "glibc", "macos": "macOS"}.get(system, system),
            needed="{}.{}".format(*needed),
            found="{}.{}".format(*has) if has > (0, 0) else platform.libc_ver()[0] or "musl",
        )


def _newest_system(system: str, wheels: Iterable[str]) -> tuple[tuple[int, int], str]:
    """The least glibc or macOS that all wheels run on, and the wheel that needs it."""
    needed = ((0, 0), "")
    for path in wheels:
        tags = path[: -len(".whl")].rpartition("-")[2].split(".")
        least = []
        for tag in tags:
            found = re.match(r"(?:manylinux|macosx)_(\d+)_(\d+)_", tag)
            old = next((_GLIBC[name] for name in _GLIBC if tag.startswith(name + "_")), None)
            if system in ("linux", "macos") and (found or old):
                least.append(old or (int(found.group(1)), int(found.group(2))))  # type: ignore[union-attr]
        if least and (min(least), path) > needed:
            needed = (min(least), path)
    return needed


def _system_version(system: str) -> tuple[int, int] | None:
    if system == "macos":
        version = platform.mac_ver()[0]
    elif system == "linux":
        library, version = platform.libc_ver()
        if library != "glibc":
            return (0, 0)
    else:
        return None
    numbers = re.findall(r"\d+", version)
    return (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else None


def other_python(wanted: str) -> list[str] | None:
    """The command of a Python of that version on this machine, or None."""
    names = [["py", f"-{wanted}"]] if os.name == "nt" else []
    names.append([f"python{wanted}"])
    for name, *options in names:
        program = _find(name)
        if program is None:
            continue
        command = [program, *options]
        ask = "import sys; print('{}.{}'.format(*sys.version_info[:2]))"
        done = _run([*command, "-I", "-c", ask])
        if not done.returncode and done.stdout.strip() == wanted:
            return command
    return None


# Installing


class Installer:
    """One installation, made or brought up to a bundle that has been checked."""

    def __init__(self, checked: Checked, to: Path, tell: Tell) -> None:
        self.checked = checked
        self.to = to
        self.tell = tell
        self.wheels = [(one, one.path.rpartition("/")[2]) for one in checked.wheels()]

    def prepare(self) -> int:
        """Raise where the bundle cannot be installed there; the bytes that it may need."""
        check_machine(self.checked.manifest, self.checked.wheels())
        for entry in self.checked.manifest.entries:
            self.checked.source(entry)
        names = {name.split("-")[0].lower() for _, name in self.wheels}
        if not names & _OWN:
            raise Problem(
                "The bundle holds no package of localrag.",
                "Copy the bundle again from where it was made.",
            )
        inside = isinstance(self.checked.bundle, Folder) and (
            self.checked.bundle.path.resolve() in (self.to, *self.to.parents)
        )
        if inside:
            raise Problem(
                "{folder} lies in the bundle, which must stay as it is.",
                "Name another folder with --to.",
                folder=self.to,
            )
        if self.to.exists() and not (self.to / RECORD).is_file():
            others = not self.to.is_dir() or any(
                one.name not in _BEGUN for one in self.to.iterdir()
            )
            if others:
                raise Problem(
                    "{folder} holds other things and no installation of localrag.",
                    "Name an empty or a new folder with --to.",
                    folder=self.to,
                )
        size = self._size()
        free = shutil.disk_usage(str(_existing(self.to))).free
        if free < size + MARGIN:
            raise Problem(
                "The installation needs {needed} in {folder}, and {free} are free.",
                "Free some space, or name a folder on another disk with --to.",
                needed=megabytes(size + MARGIN),
                free=megabytes(free),
                folder=self.to,
            )
        return size

    def _size(self) -> int:
        size = 0
        for entry in self.checked.models():
            path = self.to / entry.path
            size += 0 if path.is_file() and path.stat().st_size == entry.bytes else entry.bytes
        if self._sound() is not None:
            return size
        for entry, name in self.wheels:
            try:
                with self.checked.source(entry).open(entry.path) as stream:
                    with zipfile.ZipFile(stream) as wheel:
                        size += entry.bytes + sum(info.file_size for info in wheel.infolist())
            except _DAMAGED as error:
                raise Problem(
                    "The package {name} cannot be read: {reason}.",
                    "Copy the bundle again from where it was made.",
                    name=name,
                    reason=printable(str(error)),
                ) from None
        return size

    def run(self) -> Path:
        """Install; the launcher's path. Raises `Problem`; what was there works on then."""
        self.to.mkdir(parents=True, exist_ok=True)
        with _alone(self.to):
            if not (self.to / RECORD).is_file():
                self._write_record("")
            waiting = self._fetch_models()
            environment = self._sound()
            if environment is None:
                environment = self._make_environment()
            self._try_out(environment)
            for part, path in waiting:
                os.replace(str(part), str(path))  # noqa: PTH105 - older Pythons
            launcher = self._write_launcher(environment)
            self._write_record(environment.name)
            self._sweep(environment)
        return launcher

    # Models

    def _fetch_models(self) -> list[tuple[Path, Path]]:
        """Every model file that is not there yet, beside its place and checked."""
        waiting = []
        changed = set()
        entries = self.checked.models()
        # A model's own record goes with its files, and changes in use.
        entries.sort(key=lambda entry: entry.path.rpartition("/")[2] == RECORD)
        for entry in entries:
            path = self.to / entry.path
            part = path.with_name(f".{path.name}.part")
            folder = entry.path.split("/")[1]
            if entry.path.rpartition("/")[2] == RECORD:
                if path.is_file() and folder not in changed and not part.exists():
                    continue
            elif _is_file(path, entry):
                continue
            changed.add(folder)
            self.tell(
                tr("Fetching {name} ({size}) ...", name=entry.path, size=megabytes(entry.bytes))
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fetch(entry, part)
            waiting.append((part, path))
        return waiting

    def _fetch(self, entry: Entry, path: Path) -> None:
        """Copy a file of the bundle to `path`, and check what was copied."""
        if _is_file(path, entry):
            return
        if path.exists() or path.is_symlink():
            path.unlink()
        digest, size = hashlib.sha256(), 0
        try:
            with self.checked.source(entry).open(entry.path) as stream, path.open("wb") as copy:
                while size <= entry.bytes:
                    part = stream.read(_PART)
                    if not part:
                        break
                    digest.update(part)
                    size += len(part)
                    copy.write(part)
                copy.flush()
                os.fsync(copy.fileno())
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()  # a full disk, say: give back what it took
            raise
        except _DAMAGED:
            digest = hashlib.sha256()  # of an archive that is not what was checked any more
        if digest.hexdigest() != entry.sha256:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            raise Problem(
                "{name} changed while it was read.",
                "Check the disk or stick that the bundle lies on, and copy the bundle again.",
                name=entry.path,
            )

    # Packages

    def _sound(self) -> Path | None:
        """An environment of this bundle that is whole, or None."""
        name = self.checked.manifest.sha256[:12]
        for folder in sorted((self.to / "venv").glob(f"{name}*")):
            if (folder / COMPLETE).is_file() and is_whole(folder, len(self.wheels)):
                return folder
        return None

    def _make_environment(self) -> Path:
        try:
            import venv  # noqa: F401 - looked for before anything is made
        except ImportError:
            raise Problem(
                "This Python lacks its module venv.",
                "On Debian and Ubuntu it is in the package python{wanted}-venv.",
                wanted=self.checked.manifest.python,
            ) from None
        home = self.to / "venv"
        home.mkdir(exist_ok=True)
        used = self._record().get("environment")
        name = self.checked.manifest.sha256[:12]
        names = [name] + [f"{name}-{count}" for count in range(2, 100)]
        # Damaged or half-made ones go, but not the one that the launcher runs.
        folder = next(home / one for one in names if one != used)
        if folder.exists():
            shutil.rmtree(str(folder))
        scratch = home / "wheels.part"
        if scratch.exists():
            shutil.rmtree(str(scratch))
        scratch.mkdir()
        try:
            self._fill(folder, scratch)
        except (OSError, Problem):
            shutil.rmtree(str(folder), ignore_errors=True)
            raise
        finally:
            shutil.rmtree(str(scratch), ignore_errors=True)
        return folder

    def _fill(self, folder: Path, scratch: Path) -> None:
        """Make the environment `folder` with all packages, which `scratch` holds meanwhile."""
        import venv

        self.tell(tr("Unpacking {count} packages, which takes minutes ...", count=len(self.wheels)))
        paths = []
        for entry, file in self.wheels:
            # A second name is enough for what is deleted again. What stays must be a copy: the
            # bundle's folder may be written over later, while the installation is in use.
            if not self.checked.source(entry).link(entry.path, scratch / file):
                self._fetch(entry, scratch / file)
            paths.append(str(scratch / file))
        pip = next((path for path in paths if Path(path).name.startswith("pip-")), None)
        try:
            builder = venv.EnvBuilder(symlinks=os.name != "nt", with_pip=pip is None)
            builder.create(str(folder))
        except subprocess.CalledProcessError:
            raise Problem(
                "This Python cannot make an environment with pip.",
                "On Debian and Ubuntu install the package python{wanted}-venv, or use a bundle "
                "that holds pip.",
                wanted=self.checked.manifest.python,
            ) from None
        started = ["-m", "pip"] if pip is None else [str(Path(pip) / "pip")]
        options = ("--no-index", "--no-deps", "--no-cache-dir", "--no-compile", "--no-input")
        quiet = ("--disable-pip-version-check", "--no-warn-script-location", "--quiet")
        done = _run([python_of(folder), "-I", *started, "install", *options, *quiet, *paths])
        if done.returncode:
            full = "No space left" in done.stdout or "Errno 28" in done.stdout
            raise Problem(
                "The packages cannot be installed: {reason}",
                "Free some space, or name a folder on another disk with --to."
                if full
                else "What was installed before is as it was.",
                reason=_last(done.stdout),
            )

    def _try_out(self, environment: Path) -> None:
        """Run what was installed, its machine code too, before anything uses it."""
        version = self.checked.manifest.localrag
        python = python_of(environment)
        done = _run([python, "-I", "-m", "localrag", "--version"])
        if done.returncode or version not in done.stdout:
            raise Problem(
                "What was installed does not start: {reason}",
                "Copy the bundle again from where it was made.",
                reason=_last(done.stdout),
            )
        names = {name.split("-")[0].lower() for _, name in self.wheels}
        for wheel in sorted(names & set(_NATIVE)):
            done = _run([python, "-I", "-c", "import " + _NATIVE[wheel]])
            if done.returncode in (-4, 0xC000001D):
                raise Problem(
                    "{name} uses instructions that this processor does not have.",
                    "Make the bundle anew with a package of {name} that runs on every processor.",
                    name=wheel,
                )
            if done.returncode:
                raise Problem(
                    "The package {name} does not run here: {reason}",
                    "Copy the bundle again, or make one for this machine.",
                    name=wheel,
                    reason=_last(done.stdout),
                )
        if not (environment / COMPLETE).is_file():
            _write(environment / COMPLETE, json.dumps({"bundle": self.checked.manifest.sha256}))

    # What ties it together

    def _record(self) -> dict[str, Any]:
        try:
            found = json.loads((self.to / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write_record(self, environment: str) -> None:
        manifest = self.checked.manifest
        record = {
            "format": FORMAT,
            "localrag": manifest.localrag if environment else "",
            "bundle": manifest.sha256 if environment else "",
            "environment": environment,
        }
        _write(self.to / RECORD, json.dumps(record, indent=1) + "\n")

    def _write_launcher(self, environment: Path) -> Path:
        folder = self.to / "bin"
        folder.mkdir(exist_ok=True)
        if os.name == "nt":
            path = folder / "localrag.bat"
            # Relative to itself: cmd reads a file's other characters in a code page of its own.
            text = (
                "@echo off\r\nsetlocal\r\n"
                'if not defined LOCALRAG_MODELS set "LOCALRAG_MODELS=%~dp0..\\models"\r\n'
                f'"%~dp0..\\venv\\{environment.name}\\Scripts\\python.exe" -I -m localrag %*\r\n'
            )
        else:
            path = folder / "localrag"
            models = shlex.quote(str(self.to / "models"))
            text = (
                "#!/bin/sh\n"
                f'if [ -z "$LOCALRAG_MODELS" ]; then LOCALRAG_MODELS={models}; fi\n'
                "export LOCALRAG_MODELS\n"
                f'exec {shlex.quote(python_of(environment))} -I -m localrag "$@"\n'
            )
        if not path.is_file() or path.read_bytes() != text.encode("utf-8"):
            _write(path, text, executable=True)
        return path

    def _sweep(self, environment: Path) -> None:
        """Delete the environments of earlier bundles; one that is in use goes the next time."""
        for folder in (self.to / "venv").iterdir():
            if folder != environment:
                shutil.rmtree(str(folder), ignore_errors=True)


def is_whole(environment: Path, packages: int) -> bool:
    """Whether every file of every package is as pip put it there."""
    sites = [*environment.glob("lib/python*/site-packages"), *environment.glob("Lib/site-packages")]
    if not sites or not Path(python_of(environment)).exists():
        return False
    records = sorted(sites[0].glob("*.dist-info/RECORD"))
    try:
        return len(records) >= packages and all(_is_as_recorded(one) for one in records)
    except (OSError, ValueError, csv.Error):  # a file is missing, or the record itself is spoilt
        return False


def _is_as_recorded(record: Path) -> bool:
    """Whether a package's files have the hashes of its RECORD, which names at least one."""
    hashed = 0
    with record.open(encoding="utf-8", newline="") as stream:
        for row in csv.reader(stream):
            if len(row) != 3:
                return False
            path, expected, _ = row
            if expected.startswith("sha256="):
                with (record.parent.parent / path).open("rb") as file:
                    digest = base64.urlsafe_b64encode(bytes.fromhex(_digest(file)))
                if expected[len("sha256=") :].rstrip("=") != digest.decode("ascii").rstrip("="):
                    return False
                hashed += 1
    return hashed > 0


def python_of(environment: Path) -> str:
    """The Python of an environment."""
    inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return str(environment.joinpath(*inside))


def _is_file(path: Path, entry: Entry) -> bool:
    if not path.is_file() or path.stat().st_size != entry.bytes:
        return False
    with path.open("rb") as stream:
        return _digest(stream) == entry.sha256


# What programs get of our environment: where things lie, and the language; nothing by which
# Python, pip or the system's loader could be told to run something else.
_KEPT = (
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR TEMP TMP LD_LIBRARY_PATH SYSTEMROOT "
    "SYSTEMDRIVE WINDIR COMSPEC PATHEXT USERPROFILE USERNAME APPDATA LOCALAPPDATA PROGRAMDATA "
    "NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE LOCALRAG_LANG"
)
_LISTS = ("PATH", "LD_LIBRARY_PATH")
_NEUTRAL = os.sep if os.name == "posix" else os.path.dirname(sys.executable)  # noqa: PTH120
"""Where programs run: not in the folder at hand, from which they might load something."""


def _environment() -> dict[str, str]:
    kept = {}
    for name, value in os.environ.items():
        if name.upper() in _KEPT.split() or name[:3] == "LC_":
            if name in _LISTS:
                folders = value.split(os.pathsep)
                value = os.pathsep.join(each for each in folders if os.path.isabs(each))  # noqa: PTH117
            kept[name] = value
    kept.update(_SILENT)
    return kept


def _find(name: str) -> str | None:
    """A program's path, from the absolute folders of PATH only."""
    for folder in _environment().get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder, f"{name}.exe" if os.name == "nt" else name)
        if path.is_absolute() and path.is_file() and os.access(str(path), os.X_OK):
            return str(path)
    return None


def _run(command: list[str], given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it printed, both streams in one."""
    environment = _environment()
    environment.update(PIP_CONFIG_FILE=os.devnull, PIP_NO_INDEX="1", LOCALRAG_LANG="en")
    done = subprocess.run(
        command,
        cwd=_NEUTRAL,
        env=environment,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = done.stdout.decode("utf-8", "replace").replace("\r\n", "\n")
    return subprocess.CompletedProcess(command, done.returncode, said)


def _hand_over(command: list[str]) -> int:
    """Run a program that talks to the user in our place; its exit code."""
    return subprocess.call(command, cwd=_NEUTRAL, env=_environment())


def _last(output: str) -> str:
    lines = [line.strip() for line in printable(output).splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith("ERROR")]
    return " ".join((wrong or lines)[-3:])[-600:] or "?"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the only one who installs there; the system forgets it when the process ends."""
    with (folder / ".install.lock").open("a+b") as lock:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise Problem(
                "Another installation into {folder} is running.",
                "Wait until it has finished, or stop it.",
                folder=folder,
            ) from None
        yield


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


def _write(path: Path, text: str, executable: bool = False) -> None:
    """Replace a file whole, or not at all."""
    part = path.with_name(f".{path.name}.part")
    if part.exists() or part.is_symlink():
        part.unlink()
    with part.open("xb") as stream:
        stream.write(text.encode("utf-8"))
        stream.flush()
        os.fsync(stream.fileno())
    if executable:
        part.chmod(0o755)
    os.replace(str(part), str(path))  # noqa: PTH105 - older Pythons


def megabytes(count: int) -> str:
    """A size as a person reads it."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


# Talking to a person


def printable(text: str) -> str:
    """Text from outside, without what would steer a terminal."""
    return _IN_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def language() -> str:
    """The reader's language, "zh" or "en": LOCALRAG_LANG, else the locale."""
    for name in ("LOCALRAG_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    tag = locale.getlocale()[0] or ""
    return "zh" if tag.lower().startswith(("zh", "chinese")) else "en"


def tr(template: str, **values: object) -> str:
    """The text in the reader's language, filled in; each value on one line."""
    shown = {
        name: value
        if isinstance(value, (int, float))
        else _IN_NAME.sub("\N{REPLACEMENT CHARACTER}", str(value))
        for name, value in values.items()
    }
    return (CHINESE[template] if language() == "zh" else template).format(**shown)


CHINESE = {
    "This bundle holds only what changed since another one.": "这个离线包只含有相对另一个离线包的改动。",
    "Name that one too: --base OLD_BUNDLE.": "请同时指明那个离线包：--base 旧离线包。",
    "{name} is not the manifest of a bundle, or is damaged: {reason}.": "{name} 不是离线包的清单，或者已损坏（原因：{reason}）。",
    "Copy the bundle again from where it was made.": "请从制作处重新复制离线包。",
    "The bundle has format {found}; this installer reads format {known}.": "离线包的格式是 {found}，本安装程序能读格式 {known}。",
    "Use the install.py that lies in the bundle.": "请使用离线包里自带的 install.py。",
    "The archive holds a file of a name that no bundle has: {name}.": "压缩包里有离线包不会有的文件名：{name}。",
    "Do not use it: it was not made by localrag, or was changed since.": "请勿使用：它不是 localrag 制作的，或者后来被改动过。",
    "{name} is a link or a device; a bundle holds plain files only.": "{name} 是链接或设备，而离线包只含普通文件。",
    "The archive packs {name} in a way that localrag never does.": "压缩包中 {name} 的打包方式不是 localrag 所用的。",
    "There is no bundle at {path}.": "{path} 处没有离线包。",
    "Name the bundle's folder or .zip.": "请指明离线包的文件夹或 .zip 文件。",
    "{path} is no archive that can be read: {reason}.": "{path} 不是可读取的压缩包（原因：{reason}）。",
    "The bundle is not as it was made: {files}{more}.": "离线包与制作时不符：{files}{more}。",
    "Copy it again from where it was made; nothing was installed.": "请从制作处重新复制；没有安装任何内容。",
    " and {count} more": "，另有 {count} 个",
    ", ": "、",
    "{name} ({fault})": "{name}（{fault}）",
    "missing": "缺失",
    "not of its size": "大小不符",
    "altered": "内容被改动",
    "not in the manifest": "不在清单中",
    "This bundle is whole.": "这个离线包是完整的。",
    "Leave --base out.": "请去掉 --base。",
    "{path} is not the bundle that this one builds upon.": "{path} 不是此增量包所依据的离线包。",
    "Name the bundle that it was made against with --base.": "请用 --base 指明制作增量时所依据的离线包。",
    "{path} holds no {name}: it is no bundle, or one that was not finished.": "{path} 中没有 {name}：它不是离线包，或者没有制作完成。",
    "Signatures need ssh-keygen, which is not on this machine.": "签名需要 ssh-keygen，而本机没有。",
    "It is part of OpenSSH: on Linux the package is openssh-client, on Windows an optional feature of the system's settings, and macOS has it.": "它属于 OpenSSH：Linux 上的软件包是 openssh-client，Windows 上是系统设置里的可选功能，macOS 自带。",
    "The bundle is not signed, and --key asks for a signature.": "离线包没有签名，而 --key 要求签名。",
    "Do not install it, unless you know from elsewhere who made it.": "除非另有途径确知是谁制作的，请勿安装。",
    "The bundle's signature is not one of the key {key}: {reason}": "离线包的签名不是密钥 {key} 所签（原因：{reason}）。",
    "Do not install it: it comes from somebody else, or was changed since.": "请勿安装：它来自别人，或者后来被改动过。",
    "The key {path} cannot be read: {reason}.": "无法读取密钥 {path}（原因：{reason}）。",
    "Name a public key, such as id_ed25519.pub.": "请指明公钥文件，例如 id_ed25519.pub。",
    "{path} is no public key of OpenSSH.": "{path} 不是 OpenSSH 公钥。",
    "The bundle is for {wanted}; this machine, or its Python, is {found}.": "离线包适用于 {wanted}，而本机（或其 Python）是 {found}。",
    "Make one with `localrag bundle create` that has this machine as its target.": "请用 `localrag bundle create` 制作以本机为目标的离线包。",
    "The bundle is for Python {wanted}; this is Python {found} ({path}).": "离线包适用于 Python {wanted}，而这里是 Python {found}（{path}）。",
    "Install Python {wanted}: python.org has installers for Windows and macOS that can travel on the same stick, on Linux the package is python{wanted}. Then run install.py with it. Or make a bundle for this one: `localrag bundle create --python`.": "请安装 Python {wanted}：python.org 提供 Windows 和 macOS 的安装程序，可以放在同一个 U 盘里；Linux 上的软件包是 python{wanted}。然后用它运行 install.py。也可以为这里的 Python 制作离线包：`localrag bundle create --python`。",
    "{name} needs {system} {needed} or newer; this machine has {found}.": "{name} 需要 {system} {needed} 或更新版本，而本机是 {found}。",
    "Update the system, or use a newer machine.": "请更新系统，或换用较新的机器。",
    "The bundle holds no package of localrag.": "离线包里没有 localrag 的软件包。",
    "{folder} lies in the bundle, which must stay as it is.": "{folder} 在离线包里面，而离线包须保持原样。",
    "Name another folder with --to.": "请用 --to 指明别的文件夹。",
    "{folder} holds other things and no installation of localrag.": "{folder} 里有别的内容，且不是 localrag 的安装位置。",
    "Name an empty or a new folder with --to.": "请用 --to 指明空文件夹或新文件夹。",
    "The installation needs {needed} in {folder}, and {free} are free.": "安装需要 {folder} 有 {needed} 空间，现有 {free}。",
    "Free some space, or name a folder on another disk with --to.": "请腾出空间，或用 --to 指明别的磁盘上的文件夹。",
    "The package {name} cannot be read: {reason}.": "无法读取软件包 {name}（原因：{reason}）。",
    "Fetching {name} ({size}) ...": "正在取出 {name}（{size}）……",
    "{name} changed while it was read.": "{name} 在读取期间发生了变化。",
    "Check the disk or stick that the bundle lies on, and copy the bundle again.": "请检查离线包所在的磁盘或 U 盘，并重新复制离线包。",
    "This Python lacks its module venv.": "这个 Python 缺少 venv 模块。",
    "On Debian and Ubuntu it is in the package python{wanted}-venv.": "在 Debian 和 Ubuntu 上，它在软件包 python{wanted}-venv 里。",
    "Unpacking {count} packages, which takes minutes ...": "正在解开 {count} 个软件包，需要几分钟……",
    "This Python cannot make an environment with pip.": "这个 Python 无法创建带 pip 的环境。",
    "On Debian and Ubuntu install the package python{wanted}-venv, or use a bundle that holds pip.": "在 Debian 和 Ubuntu 上请安装软件包 python{wanted}-venv，或使用自带 pip 的离线包。",
    "The packages cannot be installed: {reason}": "无法安装软件包（原因：{reason}）。",
    "What was installed before is as it was.": "先前安装的内容保持原样。",
    "What was installed does not start: {reason}": "装好的程序无法启动（原因：{reason}）。",
    "{name} uses instructions that this processor does not have.": "{name} 用到了本机处理器没有的指令。",
    "Make the bundle anew with a package of {name} that runs on every processor.": "请重新制作离线包，使用能在各种处理器上运行的 {name} 软件包。",
    "The package {name} does not run here: {reason}": "软件包 {name} 无法在本机运行（原因：{reason}）。",
    "Copy the bundle again, or make one for this machine.": "请重新复制离线包，或为本机制作一个。",
    "Another installation into {folder} is running.": "另一个安装程序正在向 {folder} 安装。",
    "Wait until it has finished, or stop it.": "请等它完成，或将其停止。",
    "Error: {problem}": "错误：{problem}",
    "{path}: {reason}.": "处理 {path} 时出错（原因：{reason}）。",
    "Check the free space, and whether you may read and write there; then run it again.": "请检查剩余空间以及读写权限，然后重新运行。",
    "Stopped. Run it again to go on.": "已停止。再次运行即可继续。",
    "Nobody is there to ask.": "没有人可以确认。",
    "Add --yes to install without being asked.": "加上 --yes 即可不经询问直接安装。",
    "Check a localrag bundle and install it, without a network.": "检查 localrag 离线包并在没有网络的情况下安装。",
    "the bundle's folder or .zip; without it, where this file lies": "离线包的文件夹或 .zip；不写则为本文件所在处",
    "where to install; without it, {folder}": "安装位置；不写则为 {folder}",
    "the bundle that this one builds upon": "此增量包所依据的离线包",
    "a public key of OpenSSH that must have signed the bundle": "离线包须由这个 OpenSSH 公钥所签",
    "check only, install nothing": "只检查，不安装",
    "install without being asked": "不经询问直接安装",
    "Checking {path} ...": "正在检查 {path}……",
    "Every file is as it was made: {count} files, {size}, localrag {version} for {target}, Python {python}; {seconds:.1f} s.": "每个文件都与制作时一致：{count} 个文件，{size}，localrag {version}，适用于 {target}，Python {python}；{seconds:.1f} 秒。",
    "{count} files lie in the bundle that this one builds upon, and were not looked at.": "{count} 个文件在此增量包所依据的离线包里，没有检查。",
    "Signed: {signer}": "签名有效：{signer}",
    "It is signed, but the signature was not checked: name the public key with --key.": "离线包有签名，但没有检查：请用 --key 指明公钥。",
    "It is not signed: the hashes show damage, not who made it.": "离线包没有签名：哈希值能发现损坏，但不能说明是谁制作的。",
    "Going on with {python}.": "改用 {python} 继续。",
    "Install localrag {version} into {folder} ({size})? [Y/n] ": "把 localrag {version} 安装到 {folder}（{size}）？[Y/n] ",
    "Nothing was installed.": "没有安装任何内容。",
    "Installed localrag {version} in {folder}; {seconds:.0f} s.": "localrag {version} 已安装到 {folder}；{seconds:.0f} 秒。",
    "Next:": "接下来：",
    "FOLDER": "文件夹",
    "QUESTION": "问题",
}


def say(text: str) -> None:
    """A line for the person."""
    print(printable(text), flush=True)  # noqa: T201 - this file is a program


def main(arguments: Sequence[str] | None = None, bundle: Path | None = None) -> int:
    """Run as a program; the exit code. `bundle` is where one lies if none is named."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    options = _options(arguments, bundle)
    try:
        return _go(options)
    except Problem as problem:
        _complain(problem)
    except OSError as error:
        _complain(
            Problem(
                "{path}: {reason}.",
                "Check the free space, and whether you may read and write there; then run it again.",
                path=error.filename or options.to,
                reason=error.strerror or error,
            )
        )
    except (KeyboardInterrupt, EOFError):
        print(tr("Stopped. Run it again to go on."), file=sys.stderr)  # noqa: T201
        return 130
    return 1


def _complain(problem: Problem) -> None:
    print(printable(tr("Error: {problem}", problem=problem)), file=sys.stderr)  # noqa: T201


def _options(arguments: Sequence[str] | None, bundle: Path | None) -> argparse.Namespace:
    to = Path.home() / "localrag"
    parser = argparse.ArgumentParser(
        prog="install.py",
        description=tr("Check a localrag bundle and install it, without a network."),
        allow_abbrev=False,
    )

    def add(name: str, text: str, **more: Any) -> None:
        parser.add_argument(name, help=text.replace("%", "%%"), **more)

    folder = {"type": Path, "metavar": "PATH"}
    help_bundle = tr("the bundle's folder or .zip; without it, where this file lies")
    add(
        "bundle",
        help_bundle,
        nargs="?",
        default=bundle or Path(__file__).resolve().parent,
        type=Path,
    )
    add("--to", tr("where to install; without it, {folder}", folder=to), default=to, **folder)
    add("--base", tr("the bundle that this one builds upon"), **folder)
    add("--key", tr("a public key of OpenSSH that must have signed the bundle"), **folder)
    add("--verify-only", tr("check only, install nothing"), action="store_true")
    add("--yes", tr("install without being asked"), action="store_true")
    return parser.parse_args(arguments)


def _go(options: argparse.Namespace) -> int:
    started = time.monotonic()
    say(tr("Checking {path} ...", path=options.bundle))
    checked = verify(options.bundle.expanduser(), options.base, options.key)
    _report(checked, time.monotonic() - started)
    if options.verify_only:
        return 0
    wanted = checked.manifest.python
    if this_machine()[2] != wanted:
        command = other_python(wanted)
        if command is not None:
            say(tr("Going on with {python}.", python=" ".join(command)))
            return _hand_over([*command, "-I", str(Path(__file__).resolve()), *_again(options)])
    to = Path(os.path.realpath(os.path.expanduser(str(options.to))))  # noqa: PTH111
    installer = Installer(checked, to, say)
    size = installer.prepare()
    if not options.yes and not _agreed(checked.manifest.localrag, to, size):
        return 1
    started = time.monotonic()
    launcher = installer.run()
    seconds = time.monotonic() - started
    version = checked.manifest.localrag
    done = "Installed localrag {version} in {folder}; {seconds:.0f} s."
    say(tr(done, version=version, folder=to, seconds=seconds))
    say(tr("Next:"))
    command_name = f'"{launcher}"' if os.name == "nt" else shlex.quote(str(launcher))
    for rest in ("doctor", "add " + tr("FOLDER"), 'ask "{}"'.format(tr("QUESTION"))):
        say(f"  {command_name} {rest}")
    return 0


def _report(checked: Checked, seconds: float) -> None:
    manifest = checked.manifest
    looked = [one for one in manifest.entries if not one.in_base or checked.base is not None]
    say(
        tr(
            "Every file is as it was made: {count} files, {size}, localrag {version} for {target}, "
            "Python {python}; {seconds:.1f} s.",
            count=len(looked),
            size=megabytes(sum(one.bytes for one in looked)),
            version=manifest.localrag,
            target=f"{manifest.system}-{manifest.machine}",
            python=manifest.python,
            seconds=seconds,
        )
    )
    if len(looked) < len(manifest.entries):
        left = len(manifest.entries) - len(looked)
        text = "{count} files lie in the bundle that this one builds upon, and were not looked at."
        say(tr(text, count=left))
    if checked.signer:
        say(tr("Signed: {signer}", signer=checked.signer))
    elif checked.signed:
        say(tr("It is signed, but the signature was not checked: name the public key with --key."))
    else:
        say(tr("It is not signed: the hashes show damage, not who made it."))


def _agreed(version: str, folder: Path, size: int) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        raise Problem("Nobody is there to ask.", "Add --yes to install without being asked.")
    question = "Install localrag {version} into {folder} ({size})? [Y/n] "
    answer = input(tr(question, version=version, folder=folder, size=megabytes(size)))
    if answer.strip().lower() in ("", "y", "yes", "是", "好"):
        return True
    say(tr("Nothing was installed."))
    return False


def _again(options: argparse.Namespace) -> list[str]:
    """The same command line, for another Python."""
    words = [str(Path(options.bundle).resolve())]
    for name in ("to", "base", "key"):
        if getattr(options, name) is not None:
            words.append(f"--{name}={getattr(options, name).expanduser().absolute()}")
    return words + ["--yes"] * options.yes


if __name__ == "__main__":
    sys.exit(main())
