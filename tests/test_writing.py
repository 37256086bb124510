"""Everything that localrag makes is for its owner alone, and is made in one module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "localrag"

ELSEWHERE = {
    "system/files.py": "the one way",
    "system/unlinked.py": "opens for reading alone, which it checks",
    "cli/namespace.py": "writes to the kernel, in /proc",
}
"""Modules that may make files by themselves, and why."""

LIBRARY = (
    "library/folder/locking.py",
    "library/folder/filesystem.py",
    "library/transfer.py",
)
"""What makes the files of a library, by ways of its own (`tests/library/` has the modes)."""

INSTALLER = "bundle/installer/"
"""Runs before localrag is there; what it installs has the mode that the user's umask says."""

MAKERS = {
    *("mkdir", "makedirs", "touch", "write_text", "write_bytes", "symlink_to", "hardlink_to"),
    *("mkfifo", "mknod", "symlink", "link", "mkdtemp", "mkstemp", "NamedTemporaryFile"),
    *("TemporaryFile", "TemporaryDirectory", "SpooledTemporaryFile", "copyfile", "copy", "copy2"),
    *("copytree", "FileLock", "SoftFileLock", "savetxt", "output_to_file", "tofile"),
}
"""Names of functions that make a file or a folder, whatever module they are of."""


def makers(source: str) -> list[str]:
    """Calls that may make a file: `line: name`."""
    places = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
        if name == "copy" and owner != "shutil":
            continue  # of an array, a context, a table
        if node.args and ast.unparse(node.args[0]) in ("os.devnull", "info"):
            continue  # no file, and the member of an archive
        opens = (name == "open" and owner != "os") or name == "ZipFile"
        low = name == "open" and owner == "os" and _may_write(node)
        if name in MAKERS or low or (opens and _writes(node, name)):
            places.append(f"{node.lineno}: {name}")
    return places


def _may_write(call: ast.Call) -> bool:
    """Whether `os.open` is told, or may be told, to write."""
    flags = ast.unparse(call.args[1])
    if any(f"O_{mode}" in flags for mode in ("WRONLY", "RDWR", "CREAT", "APPEND", "TRUNC")):
        return True
    return "O_RDONLY" not in flags and "flags" not in flags


def _writes(call: ast.Call, name: str) -> bool:
    """Whether `open` or `ZipFile` is told to write to a path; another stream is somebody's file."""
    texts = [
        argument.value
        for argument in [*call.args, *(word.value for word in call.keywords)]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    if name == "ZipFile" and ast.unparse(call.args[0]) == "stream":
        return False
    return any(len(text) <= 3 and set(text) & set("wax+") for text in texts)


@pytest.mark.parametrize(
    "source",
    [
        "path.mkdir()",
        "open(path, 'w')",
        "path.open('ab')",
        "path.open(mode='x')",
        "os.open(path, os.O_WRONLY)",
        "tempfile.mkdtemp()",
        "zipfile.ZipFile(path, 'w')",
        "shutil.copy(a, b)",
        "FileLock(path)",
    ],
)
def test_the_check_sees_what_makes_a_file(source: str) -> None:
    assert makers(source)


@pytest.mark.parametrize(
    "source", ["path.open('rb')", "open(path)", "array.copy()", "archive.open(info, 'r')"]
)
def test_the_check_lets_readers_pass(source: str) -> None:
    assert not makers(source)


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_no_other_module_makes_files() -> None:
    names = {path.relative_to(PACKAGE).as_posix(): path for path in MODULES}
    faults = {
        name: calls
        for name, path in names.items()
        if name not in ELSEWHERE
        and not name.startswith((*LIBRARY, INSTALLER))
        and (calls := makers(path.read_text(encoding="utf-8")))
    }
    assert faults == {}
