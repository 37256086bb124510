"""Which tests a change concerns, and which of them start what takes its time.

A change of a room concerns the tests of that room and of those above it: `test_architecture.py` has
the rooms and their imports. What a test starts is read from its fixtures and from its code.
"""

from __future__ import annotations

import ast
import multiprocessing
import subprocess
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
SLOW = {
    "postgres": "uses a database; one that serves every test of a worker is started",
    "browser": "opens pages in Chromium",
    "process": "starts programs",
}
"""Marks that tests get by what they use."""


# -- what a change concerns ---------------------------------------------------------


def changed_since(reference: str) -> list[str]:
    """Files that differ from where the branch left `reference`, and those that git does not know.

    Paths from the top of the checkout.
    """

    def git(*words: str) -> list[str]:
        process = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return process.stdout.splitlines()

    (base,) = git("merge-base", reference, "HEAD")
    return git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")


def concerned(names: Collection[str]) -> set[Path]:
    """The test files that a change of these files concerns."""
    files = [ROOT / name for name in names]
    rooms = above({room for file in files if (room := room_of_file(file))})
    edited = {file.stem for file in files if TESTS in file.parents}
    folders = {file.parent for file in files if file.name == "conftest.py"}
    outsiders = [file for file in files if not {TESTS, ROOT / "localrag"} & {*file.parents}]
    marks = {file.name for file in outsiders} | {
        f'"{file.relative_to(ROOT).parts[0]}"' for file in outsiders
    }
    tests = set()
    for test in TESTS.rglob("test_*.py"):
        text = test.read_text("utf-8")
        if (
            test in files
            or {*test.parents} & folders
            or reached(test) & (rooms | edited)
            or any(mark in text for mark in marks)
            or (files and "rglob(" in text)  # it looks at every file
        ):
            tests.add(test)
    return tests


def room_of_file(file: Path) -> str | None:
    """The room in whose folder it lies; a folder of prompts or pages belongs to one, too."""
    from test_architecture import PACKAGE, module_of, room_of

    return room_of(module_of(file)) if PACKAGE in file.parents else None


def above(rooms: Collection[str]) -> set[str]:
    """These rooms, and all that import them."""
    from test_architecture import FILES, imported, module_of, room_of

    importers: dict[str, set[str]] = {}
    for path in FILES:
        for module in imported(path):
            if (lower := room_of(module)) and (upper := room_of(module_of(path))):
                importers.setdefault(lower, set()).add(upper)
    higher, pending = set(rooms), list(rooms)
    while pending:
        new = importers.get(pending.pop(), set()) - higher
        higher |= new
        pending += new
    return higher


def reached(test: Path) -> set[str]:
    """The room of a test's folder, those that it imports, and the helpers, also of its helpers.

    What the helpers import counts for a test that lies in no room's folder.
    """
    from test_architecture import HEIGHT

    names = {room for room in HEIGHT if room.rpartition(".")[2] == test.parent.name}
    pending, visited = [test], set()
    while pending:
        file = pending.pop()
        visited.add(file)
        rooms, stems = direct(file)
        names |= stems | (rooms if file == test or test.parent == TESTS else set())
        pending += [helper for stem in stems for helper in helpers()[stem] if helper not in visited]
    return names


@cache
def direct(file: Path) -> tuple[set[str], set[str]]:
    """The rooms that a file of the tests imports itself, and the names of the helpers."""
    from test_architecture import imported, room_of

    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    rooms = {room for module in imported(file) if (room := room_of(module))}
    return rooms, {name.rpartition(".")[2] for name in names} & helpers().keys()


@cache
def helpers() -> dict[str, list[Path]]:
    """Files of the tests that others import, by name."""
    files: dict[str, list[Path]] = {}
    for path in TESTS.rglob("*.py"):
        if not path.name.startswith("test_"):
            files.setdefault(path.stem, []).append(path)
    return files


# -- what a test starts -------------------------------------------------------------


def marks_of(item: pytest.Function) -> Iterator[str]:
    """Those of `SLOW` that hold for a test."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if "postgres" in item.fixturenames or "postgres" in parameters:
        yield "postgres"
    if "browser" in item.fixturenames:
        yield "browser"
    definitions = item._fixtureinfo.name2fixturedefs
    fixtures = [fixture.func for name in item.fixturenames for fixture in definitions.get(name, ())]
    if any(starts_programs(function) for function in (item.function, *fixtures)):
        yield "process"


@cache
def starts_programs(function: Callable[..., object]) -> bool:
    """Whether a function of the tests, or one that it names, names what starts programs."""
    pending, visited = [function], set()
    while pending:
        value = pending.pop()
        if value is subprocess or value is multiprocessing:
            return True
        if id(value) in visited or not _of_tests(value):
            continue
        visited.add(id(value))
        if isinstance(value, type):
            pending += [inner for inner in vars(value).values() if callable(inner)]
        elif isinstance(value, FunctionType):
            names = _names(value.__code__)
            pending += [value.__globals__[name] for name in names if name in value.__globals__]
            pending += [value.__wrapped__] if hasattr(value, "__wrapped__") else []
    return False


def _of_tests(value: object) -> bool:
    if isinstance(value, FunctionType):
        own = Path(value.__code__.co_filename).is_relative_to(TESTS)
        return own or hasattr(value, "__wrapped__")
    return isinstance(value, type) and any(map(_of_tests, vars(value).values()))


def _names(code: CodeType) -> set[str]:
    """The global names in a function, and in those within it."""
    names = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _names(inner)
    return names
