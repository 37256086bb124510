"""Every promise of `docs/security` has its tests, and SECURITY.md stays two pages."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_SPEC = spec_from_file_location("scripts_promises", ROOT / "scripts" / "promises.py")
assert _SPEC is not None
assert _SPEC.loader is not None
promises = module_from_spec(_SPEC)
_SPEC.loader.exec_module(promises)

FRONT = (ROOT / "SECURITY.md").read_text("utf-8")
PAGE = "# Files\n\n| | Promise | Tests |\n| --- | --- | --- |\n{}\n"
ROW = "| S-001 | Files are 0600, in 0.2 too. | `tests/test_promises.py::test_each_is_held` |"


def test_each_is_held() -> None:
    pages = promises.pages_of()
    assert len(promises.promises_of(pages)) > 100
    assert list(promises.faults(pages, FRONT)) == []


def test_both_languages_say_it_of_the_same() -> None:
    chinese = (ROOT / "SECURITY.zh-CN.md").read_text("utf-8")
    for pattern in (r"S-\d{3}", r"docs/security/\w+\.md", r"^#+ ", r"^\d+\. ", r"`[^`]+`"):
        assert re.findall(pattern, chinese, re.M) == re.findall(pattern, FRONT, re.M)


def test_the_front_page_is_two_pages() -> None:
    """Of 46 lines of 130 characters, as they print."""
    assert sum(1 + len(line) // 130 for line in FRONT.splitlines()) <= 2 * 46


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (ROW, ""),
        (f"{ROW}\n{ROW}", "is a promise of files.md, too"),
        (ROW.replace("::test_each_is_held", "::test_of_yesterday"), "there is no"),
        (ROW.replace("test_promises.py", "test_nowhere.py"), "there is no"),
        ("| S-001 | Files are 0600. | |", "a row is no promise"),
        ("| S-001 | Files are 0600. |  |", "has no test"),
        ("| S-001 | Files are 0600. | `benchmarks/LOG.md` |", "has no test"),
        (ROW.replace("Files are 0600", "They are. Files are 0600"), "is not one sentence"),
        (ROW.replace("Files are", "Files are always"), "one case disproves 'always'"),
        (ROW.replace("S-001", "S-002"), "names S-001, which stands nowhere"),
    ],
)
def test_what_is_wrong_with_a_promise(row: str, fault: str) -> None:
    front = "[Files](docs/security/files.md) are yours (S-001)."
    wrong = list(promises.faults({"files.md": PAGE.format(row)}, front))
    assert [message for message in wrong if fault in message] if fault else not wrong, wrong


def test_a_page_that_nobody_finds() -> None:
    wrong = list(promises.faults({"files.md": PAGE.format(ROW)}, "S-001"))
    assert wrong == ["SECURITY.md does not link files.md"]
