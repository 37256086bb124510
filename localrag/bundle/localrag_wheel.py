"""localrag's own wheel: built from the source tree, or packed again from what is installed."""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from email.parser import HeaderParser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from localrag.bundle import pip_runner
from localrag.bundle.installer.environments import failure_reason, record_hash
from localrag.errors import BundleError
from localrag.system.files import overwrite_file

DISTRIBUTION = "localrag-offline"
"""Not the name of the import package: `localrag` is somebody else's on the public index."""

# What an installer writes beside the wheel's own files.
_OF_THE_INSTALLER = frozenset({"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"})

_PYTHON = (".py", ".pyi", ".typed")
_PURE = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def source_tree() -> Path | None:
    """The folder with localrag's `pyproject.toml`, where this one runs from its sources."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def make(folder: Path) -> Path:
    """Make localrag's wheel in a folder; returns its path. Raises `BundleError`."""
    if root := source_tree():
        options = ("--no-deps", *pip_runner.build_options("hatchling"))
        code, lines = pip_runner.run_pip(
            "wheel", *options, "--wheel-dir", str(folder.absolute()), str(root)
        )
        if not code:
            return next(folder.glob(f"{_file_name_of(DISTRIBUTION)}-*.whl"))
        raise BundleError(
            "The wheel of localrag could not be built from {root}: {reason}.",
            hint="Run `pip wheel --no-deps {root}` to see why, or name an existing wheel of "
            "localrag with --wheel.",
            root=root,
            reason=failure_reason(lines),
        )
    try:
        return repack(distribution(DISTRIBUTION), folder)
    except PackageNotFoundError as error:
        raise BundleError(
            "localrag is neither installed nor run from its sources, so no wheel of it can "
            "be made.",
            hint="Name one with --wheel.",
        ) from error


def repack(installed: Distribution, folder: Path, *, pure: bool = False) -> Path:
    """Make the wheel anew from an installed distribution, every file checked by its RECORD.

    `pure` keeps its Python code alone, so that the wheel fits every system. Raises `BundleError`
    where files changed since or were never listed.
    """
    stem = f"{_file_name_of(installed.name)}-{installed.version}"
    info = f"{stem}.dist-info"
    record = f"{info}/RECORD"
    contents: dict[str, bytes] = {}
    # Not `installed.files`: from Python 3.12 on that leaves out what is not there any more.
    for name, expected, *_ in csv.reader((installed.read_text("RECORD") or "").splitlines()):
        path = PurePosixPath(name.replace("\\", "/"))
        if ".." in path.parts or "__pycache__" in path.parts:
            continue  # a script or compiled code, which the next installer makes itself
        if pure and path.parts[0] != info and path.suffix not in _PYTHON:
            continue
        if path.parts[0] == info and path.name in _OF_THE_INSTALLER:
            continue
        try:
            data = Path(str(installed.locate_file(name))).read_bytes()
        except OSError as error:
            raise _altered_file_error(path, error) from error
        if expected not in ("", _hash(data)):
            raise _altered_file_error(path, "SHA-256")
        contents[str(path)] = data
    if f"{info}/WHEEL" not in contents or not any(p.endswith("/__init__.py") for p in contents):
        raise _altered_file_error(PurePosixPath(record), "-")
    if pure:
        contents[f"{info}/WHEEL"] = _PURE
    tag = HeaderParser().parsestr(contents[f"{info}/WHEEL"].decode("utf-8"))["Tag"]
    target = folder / f"{stem}-{tag}.whl"
    table = io.StringIO()
    rows = [(name, _hash(data), len(data)) for name, data in sorted(contents.items())]
    csv.writer(table, lineterminator="\n").writerows([*rows, (record, "", "")])
    with overwrite_file(target) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, data in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(record), table.getvalue())
    return target


def _file_name_of(name: str) -> str:
    """A distribution's name as file names have it."""
    return name.replace("-", "_")


def _hash(data: bytes) -> str:
    return f"sha256={record_hash(hashlib.sha256(data).digest())}"


def _altered_file_error(path: PurePosixPath, reason: object) -> BundleError:
    return BundleError(
        "localrag's wheel cannot be made from its installation: {path} is not as it was "
        "installed ({reason}).",
        hint="Install localrag again, or name its wheel with --wheel.",
        path=path,
        reason=reason,
    )
