"""The licences of all that a bundle carries, as files, with an index of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from localrag.bundle.installer.manifest import path_fault
from localrag.bundle.wheel import Wheel
from localrag.models.registry.spec import (
    HuggingFaceSource,
    ModelScopeSource,
    ModelSpec,
    PackageSource,
    Source,
)
from localrag.system.files import make_folder, write_output

FOLDER = "licences"
INDEX = "INDEX.txt"
_APACHE = re.compile(
    r" *Apache License\s+Version 2\.0, January 2004.*?END OF TERMS AND CONDITIONS", re.S
)
_SHORTEST_NAME = 60


def write(bundle: Path, wheels: Sequence[Wheel], models: Sequence[ModelSpec]) -> list[str]:
    """Write `licences/`; returns the names of those wheels that bring no licence file."""
    folder = bundle / FOLDER
    without: list[str] = []
    lines = ["distribution  version  licence, as it says itself  files", ""]
    apache = ""
    for wheel in wheels:
        files = wheel.licence_files()
        for name, data in files.items():
            place = folder / wheel.name / _plain(name)
            make_folder(place.parent)
            write_output(place, data)
            apache = apache or _apache_terms(data)
        if not files:
            without.append(wheel.name)
        licence = wheel.licence or "(says nothing)"
        there = ", ".join(sorted(files)) or "(no licence file in the wheel)"
        lines.append(f"{wheel.name}  {wheel.version}  {licence}  {there}")
    lines += ["", "model  licence", ""]
    for spec in models:
        lines.append(f"{spec.id}  {spec.licence}")
        place = folder / "models" / spec.id / "LICENCE.txt"
        make_folder(place.parent)
        write_output(place, _of_model(spec, apache))
    make_folder(folder)
    write_output(folder / INDEX, "\n".join(lines) + "\n")
    return without


def _of_model(spec: ModelSpec, apache: str) -> str:
    lines = [f"{spec.title} ({spec.id})", f"Licence: {spec.licence}", f"Use: {spec.licence_kind}"]
    lines += ["Published at:", *(f"  {origin}" for origin in _origins(spec.sources))]
    if spec.licence == "Apache-2.0" and apache:
        lines += ["", apache]
    return "\n".join(lines) + "\n"


def _origins(sources: Iterable[Source]) -> list[str]:
    origins = []
    for source in sources:
        match source:
            case HuggingFaceSource(repo=repo):
                origins.append(f"Hugging Face: {repo}")
            case ModelScopeSource(repo=repo):
                origins.append(f"ModelScope: {repo}")
            case PackageSource(files=files):
                packages = sorted({part.package for parts in files.values() for part in parts})
                origins.append(f"package index: {packages[0]}")
    return origins


def _apache_terms(data: bytes) -> str:
    """The terms of the Apache License 2.0 if a licence file has them, without names of people."""
    match = _APACHE.search(data.decode("utf-8", "replace"))
    return match[0] if match else ""


def _plain(name: str) -> str:
    """A path that every system takes."""
    if path_fault(name) is None and len(name) < _SHORTEST_NAME * 3:
        return name
    return re.sub(r"[^A-Za-z0-9._-]", "_", PurePosixPath(name).name).strip(". ") or "LICENCE"
