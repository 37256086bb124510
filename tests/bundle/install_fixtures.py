"""A bundle small enough to install in seconds: a stand-in for localrag, pip, and two models."""

from __future__ import annotations

import base64
import ensurepip
import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, Literal

import pytest

from localrag.bundle import packing
from localrag.bundle.installer.machine import this_machine

STAND_IN = """import os, sys
print("localrag {version}" if "--version" in sys.argv else repr(sys.argv[1:]))
print(os.environ.get("LOCALRAG_MODELS", "no models"))
"""

QUICK_PIP = """import site, sys, zipfile
for one in sys.argv:
    if one.endswith(".whl"):
        zipfile.ZipFile(one).extractall(site.getsitepackages()[0])
assert "--no-index" in sys.argv and "--no-deps" in sys.argv
"""
"""Stands in for pip where a test is about something else: pip takes ten seconds."""


def wheel(folder: Path, name: str, version: str, files: dict[str, str], package: str = "") -> Path:
    """A wheel of one package that pip installs; the package has the wheel's name, or its own."""
    about = f"{name}-{version}.dist-info"
    content = {f"{package or name}/{path}": text for path, text in files.items()}
    content[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    content[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.append(f"{path},sha256={digest.decode()},{len(text.encode())}\n")
    content[f"{about}/RECORD"] = "".join(rows) + f"{about}/RECORD,,\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in content.items():
            archive.writestr(member, text)
    return path


def make_bundle(
    folder: Path,
    version: str = "9.9.9",
    pip: Literal["quick", "real", "none"] = "quick",
    model: bytes = b"weights" * 1000,
    distribution: str = "localrag_offline",
) -> Path:
    """A bundle for this machine; `distribution` is what its wheel of localrag is called."""
    (folder / "wheels").mkdir(parents=True)
    code = {"__init__.py": "", "__main__.py": STAND_IN.format(version=version)}
    wheel(folder / "wheels", distribution, version, code, "localrag")
    wheel(folder / "wheels", "helper", "1.0", {"__init__.py": "VALUE = 1\n"})
    if pip == "quick":
        code = {"__init__.py": "", "__main__.py": QUICK_PIP}
        wheel(folder / "wheels", "pip", "1.0", code)
    if pip == "real":
        wheels = sorted((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
        if not wheels:
            pytest.skip("only where Python carries a wheel of pip")
        shutil.copy(wheels[-1], folder / "wheels")
    for path, content in {
        "models/tiny/model.gguf": model,
        "models/tiny/installed.json": b"{}",
        "models/other/deep/model.onnx": b"other weights",
        "docs/README.md": b"read me",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    packing.pack(folder / packing.PROGRAM)
    write_manifest(folder, localrag=version)
    return folder


def entries(folder: Path) -> list[dict[str, Any]]:
    return [
        {
            "path": path.relative_to(folder).as_posix(),
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "in_base": False,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("manifest.json")
    ]


def write_manifest(folder: Path, **changes: Any) -> dict[str, Any]:
    system, machine, python = this_machine()
    manifest: dict[str, Any] = {
        "format": 1,
        "localrag": "9.9.9",
        "created": "2026-01-01T00:00:00+00:00",
        "target": {"system": system, "machine": machine, "python": python, "accelerator": "cpu"},
        "preset": "starter",
        "base": None,
        "files": entries(folder),
    } | changes
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return manifest


def make_delta(base: Path, new: Path, folder: Path) -> Path:
    """What of `new` is not in `base`."""
    manifest = json.loads((new / "manifest.json").read_text("utf-8"))
    base_files = {(entry["path"], entry["sha256"]) for entry in entries(base)}
    for file in manifest["files"]:
        file["in_base"] = (file["path"], file["sha256"]) in base_files
        if not file["in_base"]:
            (folder / file["path"]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(new / file["path"], folder / file["path"])
    digest = hashlib.sha256((base / "manifest.json").read_bytes()).hexdigest()
    manifest["base"] = {"manifest_sha256": digest}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def zipped(folder: Path, archive: Path, top: str = "") -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                zip_file.write(path, top + path.relative_to(folder).as_posix())
    return archive
