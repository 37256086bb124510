"""Wheels of a few hundred bytes, and a pip that has only these."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    tag: str = "py3-none-any",
    requires: tuple[str, ...] = (),
    headers: str = "License-Expression: MIT\n",
    extra_files: Mapping[str, str | bytes] | None = None,
    licence: str | None = "Permission is granted.",
) -> Path:
    """A wheel with one module, its licence, and a RECORD that fits."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    about = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{headers}"
    about += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files: dict[str, str | bytes] = {
        f"{name.replace('-', '_')}/__init__.py": f"VERSION = {version!r}\n",
        **(extra_files or {}),
        f"{info}/METADATA": about + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if licence is not None:
        files[f"{info}/licenses/LICENSE"] = licence
    rows = []
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
        rows.append(f"{path},sha256={digest.decode()},{len(data)}\n")
    files[f"{info}/RECORD"] = "".join(rows) + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return target


Maker = Callable[[Path], Path]


class FakePip:
    """Answers `pip wheel` and `pip download` from makers by specification, and remembers."""

    def __init__(self, makers: Mapping[str, Maker], source_only: tuple[str, ...] = ()) -> None:
        self._known = dict(makers)
        self._source_only = source_only
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str, hear: object = None) -> tuple[int, list[str]]:
        self.calls.append(arguments)
        words = list(arguments)
        flag = "--wheel-dir" if "--wheel-dir" in words else "--dest"
        folder = Path(words.pop(words.index(flag) + 1))
        wheels_only = "--only-binary=:all:" in words
        if "--index-url" in words:
            words.pop(words.index("--index-url") + 1)
        requirements = [word for word in words[1:] if not word.startswith("--")]
        for requirement in requirements:
            name = re.split(r"[=<>~!]", requirement)[0]
            if requirement not in self._known or (wheels_only and name in self._source_only):
                return 1, [
                    "Collecting " + requirement,
                    f"ERROR: No matching distribution found for {requirement}",
                ]
        for requirement in requirements:
            self._known[requirement](folder)
        return 0, []

    def know(self, specification: str, maker: Maker) -> None:
        """One more answer."""
        self._known[specification] = maker

    @property
    def asked(self) -> list[str]:
        """Every specification that was asked for, in order."""
        return [
            word
            for call in self.calls
            for word in call[1:]
            if re.match(r"[a-z][a-z0-9-]*([=<>~!].*)?$", word)
        ]
