"""Imports point down, and rooms on one line do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "localrag"

LINES = (
    ("__main__",),
    ("cli", "server"),
    ("api",),
    ("engine",),
    ("factory",),
    ("hosted", "local"),
    ("evaluation", "bundle"),
    ("rag", "indexing"),
    ("retrieval", "rerankers"),
    ("parsing", "chunking", "embeddings", "llms", "stores", "registry"),
    ("disk_encryption",),
    ("text", "prompts", "network", "confinement", "presentation"),
    ("config", "messages"),
    ("config_faults", "config_values", "seals"),
    ("errors", "types", "files", "processes"),
    ("printable", "unpacking"),
)
HEIGHT = {room: len(LINES) - number for number, line in enumerate(LINES) for room in line}

MAY_READ_SETTINGS = {
    "engine",
    "factory",
    "hosted",
    "local",
    "api",
    "cli",
    "server",
    "bundle",
    "__main__",
}


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "localrag" and len(parts) > 1 and parts[1] in HEIGHT:
                rooms.add(parts[1])
    return rooms


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    assert room in HEIGHT, f"{room} has no place in the design: give it a line in LINES"
    wrong = {
        other for other in imported_rooms(path) if other != room and HEIGHT[other] >= HEIGHT[room]
    }
    assert not wrong, f"{room} must not import {sorted(wrong)}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_top_reads_settings(path: Path) -> None:
    if "config" in imported_rooms(path) and room_of(path) != "config":
        assert room_of(path) in MAY_READ_SETTINGS


def test_the_check_sees_imports_inside_functions(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "def f():\n    from localrag.cli import group\n    import localrag.rag.base\n"
    )
    assert imported_rooms(sample) == {"cli", "rag"}
