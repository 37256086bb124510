"""Finds what is wrong with the promises of `docs/security`, and ends with 1 if there is anything.

    python scripts/promises.py

A promise is a row `| S-001 | One sentence. | tests |` of a table. Each has a number of its own and
a test that exists; SECURITY.md names no number that stands nowhere, and links every page of
promises. Words are refused that one case would disprove, such as "never".
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_ROW = re.compile(r"^\| (S-\d{3}) \| (.+?) \| (.*?) \|$", re.M)
"""`| S-001 | Files are 0600. | `tests/test_files.py` |`"""
_TEST = re.compile(r"`((?:tests|scripts|benchmarks)/[^`]*)`")
"""`` `tests/test_files.py::test_modes` ``, a file, or a folder of tests."""
_CITED = re.compile(r"S-\d{3}")
_ABSOLUTE = re.compile(
    r"\b(never|always|nothing|nobody|anything|impossible|guarantee\w*|unbreakable)\b", re.I
)
_SENTENCE_END = re.compile(r"[.!?](?=\s+[A-Z`])")
"""The full stop of "It is so. And `that`", and not of "0.2 gets" or "config.toml is"."""


class Promise(NamedTuple):
    """A row: its page, number, sentence, and the tests that hold it."""

    page: str
    number: str
    sentence: str
    tests: tuple[str, ...]


def promises_of(pages: Mapping[str, str]) -> list[Promise]:
    """All promises of pages, by name and text, in their order."""
    return [
        Promise(page, number, sentence, tuple(_TEST.findall(tests)))
        for page, text in pages.items()
        for number, sentence, tests in _ROW.findall(text)
    ]


def faults(pages: Mapping[str, str], front: str, root: Path = ROOT) -> Iterator[str]:
    """What is wrong; `front` is the text of SECURITY.md, `root` has the tests."""
    promises = promises_of(pages)
    numbers: dict[str, Promise] = {}
    for promise in promises:
        where = f"{promise.page}: {promise.number}"
        if promise.number in numbers:
            yield f"{where} is a promise of {numbers[promise.number].page}, too"
        numbers[promise.number] = promise
        if not any(test.startswith("tests/") or "scripts/" in test for test in promise.tests):
            yield f"{where} has no test"
        for test in promise.tests:
            if not is_there(test, root):
                yield f"{where}: there is no {test}"
        if _SENTENCE_END.search(promise.sentence) or not promise.sentence.endswith("."):
            yield f"{where} is not one sentence"
    for page, text in pages.items():
        rows = re.findall(r"^\| S-.*", text, re.M)
        if len(rows) != len(_ROW.findall(text)):
            yield f"{page}: a row is no promise"
        if rows and f"docs/security/{page})" not in front:
            yield f"SECURITY.md does not link {page}"
    for number in sorted(set(_CITED.findall(front)) - numbers.keys()):
        yield f"SECURITY.md names {number}, which stands nowhere"
    for page, text in {"SECURITY.md": front, **pages}.items():
        for word in _ABSOLUTE.findall(text):
            yield f"{page}: one case disproves {word!r}"


def is_there(test: str, root: Path = ROOT) -> bool:
    """Whether a folder, a file or a function of a file is there: `tests/a.py::test_b`."""
    file, _, function = test.partition("::")
    path = root / file
    if not function:
        return path.exists()
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text("utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)


def pages_of(root: Path = ROOT) -> dict[str, str]:
    """The pages of `docs/security`, by name."""
    folder = root / "docs" / "security"
    return {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))}


def main() -> int:
    """Print the faults."""
    pages = pages_of()
    found = list(faults(pages, (ROOT / "SECURITY.md").read_text("utf-8")))
    print("\n".join(found) or f"{len(promises_of(pages))} promises, each with its tests")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
