"""A wheel on disk, read without installing it: name, requirements, licence, files."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from localrag.errors import BundleError

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.tags import Tag

_LICENCE_NAME = re.compile(
    r"(?i)(licen[cs]e|copying|notice|authors|copyright|unlicense)([-_.].*|s)?$"
)


def licence_of(metadata: Message) -> str:
    """What METADATA says of the licence: an SPDX expression, a name, or "" for nothing."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [
        str(classifier).rpartition(" :: ")[2]
        for classifier in metadata.get_all("Classifier", [])
        if str(classifier).startswith("License ::") and not str(classifier).endswith("OSI Approved")
    ]
    licence = str(metadata.get("License") or "").strip()
    # Some put the whole text into this field; its first line is then the name at best.
    first = licence.splitlines()[0].strip() if licence else ""
    text = first.upper() == "UNKNOWN" or first.startswith("Copyright") or len(first) > 80
    if classifiers and (text or not first):
        return " OR ".join(classifiers)
    return "" if text else first


@dataclass(frozen=True)
class Wheel:
    """A wheel; `name` is the normalised name of its distribution."""

    path: Path
    name: str
    version: str
    tags: frozenset[Tag]

    @cached_property
    def metadata(self) -> Message:
        """The headers of its METADATA file."""
        with zipfile.ZipFile(self.path) as archive:
            text = archive.read(f"{_info(archive)}/METADATA").decode("utf-8", "replace")
        return HeaderParser().parsestr(text)

    @cached_property
    def requirements(self) -> list[Requirement]:
        """What it needs, with the markers still on."""
        from packaging.requirements import Requirement

        return [Requirement(text) for text in self.metadata.get_all("Requires-Dist", [])]

    @property
    def licence(self) -> str:
        """What it says of its licence: an SPDX expression, a name, or "" for nothing."""
        return licence_of(self.metadata)

    def licence_files(self) -> dict[str, bytes]:
        """Licence, notice and author files of the wheel, by a short path of their own."""
        files: dict[str, bytes] = {}
        listed = {str(name) for name in self.metadata.get_all("License-File", [])}
        with zipfile.ZipFile(self.path) as archive:
            info = _info(archive)
            for member in archive.namelist():
                path = PurePosixPath(member)
                if member.endswith("/") or ".." in path.parts:
                    continue
                if path.parts[0] == info:
                    inside = path.relative_to(info)
                    if inside.parts[0] in ("licenses", "license_files"):
                        files[str(inside.relative_to(inside.parts[0]))] = archive.read(member)
                    elif str(inside) in listed or _LICENCE_NAME.match(inside.name):
                        files.setdefault(str(inside), archive.read(member))
            if not files:
                # Some keep it among their modules only.
                for member in archive.namelist():
                    name = PurePosixPath(member).name
                    if _LICENCE_NAME.match(name) and not name.endswith((".py", ".pyc", ".pyi")):
                        files.setdefault(name, archive.read(member))
        return files


def read_wheel(path: Path) -> Wheel:
    """A wheel by its path. Raises `BundleError` when it is none or is damaged."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, tags = parse_wheel_filename(path.name)
        wheel = Wheel(path, str(name), str(version), tags)
        wheel.requirements  # noqa: B018 - read now, so that a damaged one is named here
    except (InvalidWheelFilename, zipfile.BadZipFile, KeyError, OSError, ValueError) as error:
        raise BundleError(
            "{path} is not a readable wheel: {reason}.",
            hint="Delete it, or name another one, and run the same command again.",
            path=path,
            reason=error,
        ) from error
    return wheel


def _info(archive: zipfile.ZipFile) -> str:
    for member in archive.namelist():
        folder, _, rest = member.partition("/")
        if folder.endswith(".dist-info") and rest == "METADATA":
            return folder
    raise KeyError("METADATA")
