"""Which tests a change concerns, and what they are marked with."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest
from choosing import SLOW, TESTS, above, concerned, starts_programs


@cache
def names(name: str) -> set[str]:
    return {path.relative_to(TESTS).as_posix() for path in concerned([name])}


def test_a_room_and_those_above_it() -> None:
    assert above({"cli"}) == {"cli", "__main__"}
    assert {"text", "retrieval", "server", "cli"} <= above({"text"})
    assert "documents" not in above({"rag"})


def test_nothing_concerns_no_tests() -> None:
    assert concerned([]) == set()


@pytest.mark.parametrize(
    ("changed", "some", "none"),
    [
        ("localrag/cli/ask.py", "cli/test_ask.py", "text/test_text_language.py"),
        ("localrag/rag/grading.py", "server/test_own.py", "library/test_faiss.py"),
        ("localrag/server/static/page.js", "server/test_rendered.py", "rag/test_grading.py"),
        ("docs/architecture.md", "test_architecture.py", "rag/test_grading.py"),
        ("benchmarks/rgb.py", "benchmarks/test_benchmarks.py", "rag/test_grading.py"),
        ("tests/scripted_llm.py", "rag/test_self_rag.py", "library/test_faiss.py"),
        ("tests/server/conftest.py", "server/test_own.py", "library/test_faiss.py"),
        ("tests/text/test_text_language.py", "text/test_text_language.py", "rag/test_grading.py"),
    ],
)
def test_what_a_change_concerns(changed: str, some: str, none: str) -> None:
    assert some in names(changed)
    assert none not in names(changed)


def program() -> None:
    subprocess.run(["true"], check=True)


class Machine:
    def start(self) -> None:
        program()


def test_what_starts_programs_is_seen_through_helpers_and_classes() -> None:
    def directly() -> None:
        subprocess.Popen("true")

    def by_a_class() -> Machine:
        return Machine()

    def not_at_all() -> Path:
        return Path("subprocess")

    assert starts_programs(directly)
    assert starts_programs(by_a_class)
    assert not starts_programs(not_at_all)


def marks(request: pytest.FixtureRequest) -> set[str]:
    return SLOW.keys() & {mark.name for mark in request.node.iter_markers()}


def test_a_test_that_starts_a_program_is_marked(request: pytest.FixtureRequest) -> None:
    program()
    assert marks(request) == {"process"}


def test_another_is_not(request: pytest.FixtureRequest) -> None:
    assert marks(request) == set()
