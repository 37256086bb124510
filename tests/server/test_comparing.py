"""One question in several ways, side by side: as events, and in Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from server.conftest import GARDEN, Served, streamed_events
from server.in_browser import Open

QUESTION = "When was the glass house opened?"


@pytest.fixture(autouse=True)
def no_cross_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the ways are the same wherever the tests run."""
    monkeypatch.setenv("LOCALRAG_MODELS", str(tmp_path / "models"))


def compared(http: httpx.Client, **fields: object) -> Iterator[tuple[str, Any]]:
    body = {"question": QUESTION, "vary": "rerankers", **fields}
    return streamed_events(http, "/api/compare", json=body)


def test_rerankers_are_told_as_they_come_then_side_by_side(served: Served) -> None:
    with served.client(**{"accept-language": "zh"}) as http:
        stream = list(compared(http, reference="In 1907."))
    names = ["none", "keyword", "learned", "llm"]
    assert [data["name"] for name, data in stream if name == "progress"] == names
    report = stream[-1][1]
    assert stream[-1][0] == "compared"
    assert [way["name"] for way in report["ways"]] == names
    assert report["ways"][0]["answer"]["answer"] == "It was opened in 1907 [1]."
    assert report["ways"][0]["answer"]["views"][0]["start"] == 0
    assert sorted(report["ways"][1]["before"]) == [1, 2]
    assert report["ranks"][0]["ranks"][0] == 1
    assert GARDEN in {row["passage"]["text"] for row in report["ranks"]}
    assert "models pull" in report["notes"][0]
    assert any("总体" in line for line in report["lines"])  # as the reader asks for


def test_modes_are_judged_in_the_reader_s_language(served: Served) -> None:
    with served.client(**{"accept-language": "zh"}) as http:
        stream = list(compared(http, vary="modes"))
    names = [data["name"] for name, data in stream if name == "progress"]
    assert names == ["standard", "self-rag", "judge"]
    report = stream[-1][1]
    assert [way["name"] for way in report["ways"]] == ["standard", "self-rag"]
    assert all(way["tokens"] > 0 and way["steps"] > 0 for way in report["ways"])
    assert len(report["verdicts"]) == 5
    assert report["verdicts"][1][0] == "相关性"


def test_what_cannot_be_compared_is_refused(served: Served) -> None:
    with served.client() as http:
        for wrong in ({"question": " "}, {"vary": "moods"}, {"library": "nix"}, {"k": 0}):
            body = {"question": QUESTION, "vary": "modes"} | wrong
            assert http.post("/api/compare", json=body).status_code in (400, 404)


@pytest.mark.parametrize(
    ("locale", "scheme", "width"), [("en-US", "light", 1280), ("zh-CN", "dark", 390)]
)
def test_ways_stand_side_by_side(opened: Open, locale: str, scheme: str, width: int) -> None:
    page = (at := opened(locale, scheme, width)).page
    page.locator("nav .tab").nth(5).click()
    at.is_accessible()
    page.locator("#compared").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator(".way")).to_have_count(4)
    expect(page.locator(".plot g")).to_have_count(2)
    at.is_accessible()
    page.locator(".way .marker").first.click()
    expect(page.locator(".viewer mark")).to_have_text("The glass house was opened in 1907.")
    page.keyboard.press("Escape")
    page.locator(".compare select").select_option("modes")
    page.locator(".compare .main").click()
    expect(page.locator(".way")).to_have_count(2)
    expect(page.locator(".compare table tbody tr")).to_have_count(4)
    at.is_accessible()
    if width == 390:
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    at.served.llm.pieces, at.served.llm.pause = [f"word{n} " for n in range(1000)], 0.05
    page.locator(".compare .main").click()
    expect(page.locator(".compare [role=status]")).to_contain_text(re.compile("Standard|标准"))
    page.locator(".compare .main").click()
    expect(page.locator(".compare [role=alert]")).to_be_visible()
    at.served.llm.pieces, at.served.llm.pause = ("It was opened ", "in 1907 [1]."), 0.001
    page.locator(".compare .main").click()
    expect(page.locator(".way")).to_have_count(2)
    assert at.wrong == []
