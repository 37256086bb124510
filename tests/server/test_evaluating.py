"""Evaluations from the page: how they go on, who goes first, and where their reports are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import connect_sse
from playwright.sync_api import expect
from server.conftest import Served, expect_line, streamed_events
from server.in_browser import Open

from localrag import factory
from localrag.library.computed import computed_file

ROWS = [
    {"question": "When was the glass house opened?", "reference": "It was opened in 1907."},
    {"question": "How many orchids does it have?", "reference": "<b>Two</b> hundred."},
]


@pytest.fixture(autouse=True)
def _own_cache(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served.llm.replies += ["word"] * 3  # its speed is measured once
    monkeypatch.setattr(factory, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("localrag.evaluator.pipeline.model_fingerprint", lambda _: "scripted")
    monkeypatch.setattr("localrag.evaluator.evaluator.model_fingerprint", lambda _: "scripted")


def evaluated(http: httpx.Client, **fields: object) -> Iterator[tuple[str, Any]]:
    data = "\n".join(map(json.dumps, ROWS))
    body = {"name": "garden.jsonl", "data": data, **fields}
    return streamed_events(http, "/api/evaluate", json=body)


def test_a_report_is_made_shown_and_forgotten(served: Served) -> None:
    library = served.engine.library
    (garden,) = (source for source in library.sources() if source.state.path == "garden.txt")
    library.set_sources([(replace(garden.state, path="/nowhere/garden.txt"), garden.document_id)])
    library.remove(sources=["garden.txt"])
    with served.client(**{"accept-language": "zh"}) as http:
        stream = list(evaluated(http))
        progress = [data for name, data in stream if name == "progress"]
        assert (progress[-1]["done"], progress[-1]["total"]) == (2, 2)
        (name,) = (data["name"] for kind, data in stream if kind == "report")
        page = http.get(f"/api/reports/{name}.html")
        assert "评测" in page.text
        assert "&lt;b&gt;Two&lt;/b&gt; hundred." in page.text
        policy = page.headers["content-security-policy"]
        assert policy.startswith("sandbox; default-src 'none';")
        assert "script" not in policy
        report = http.get(f"/api/reports/{name}.json").json()
        assert report["questions"] == 2
        sources = {
            context["source"]
            for question in report["runs"][0]["questions"]
            for context in question["contexts"]
        }
        assert sources == {"garden.txt", "tea.txt"}  # names, though one lies in a folder
        assert http.get(f"/api/reports/{name}.csv").text.count("\n") >= 3
        assert (
            httpx.get(f"{served.url}/api/reports/{name}.html", trust_env=False).status_code == 401
        )

        file = computed_file(library.removals())
        assert any(b"1907" in path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
        document = http.get("/api/documents").json()["documents"][0]["id"]
        removal = http.delete(f"/api/documents/{document}").json()
        assert removal["purged"]
        assert not file.exists()
        assert http.get(f"/api/reports/{name}.html").status_code == 404


def test_others_are_answered_between_two_questions(served: Served) -> None:
    served.llm.held = threading.Event()
    finished: list[str] = []

    def evaluate() -> None:
        with served.client() as http:
            assert list(evaluated(http))[-1][0] == "report"
        finished.append("evaluation")

    def ask() -> None:
        with (
            served.client() as http,
            connect_sse(http, "POST", "/api/ask", json={"question": ROWS[0]["question"]}) as source,
        ):
            assert [event.event for event in source.iter_sse()][-1] == "answer"
        finished.append("question")

    threads = [threading.Thread(target=evaluate), threading.Thread(target=ask)]
    with served.client() as http:
        threads[0].start()
        expect_line(http, waiting=0, answering=1)
        threads[1].start()
        expect_line(http, waiting=1)
    served.llm.held.set()
    for thread in threads:
        thread.join(60)
    assert finished == ["question", "evaluation"]


def test_a_set_that_cannot_be_read_is_named_as_the_client_does(served: Served) -> None:
    with served.client() as http:
        for data in ("", "{", '{"answer": "x"}'):
            response = http.post("/api/evaluate", json={"name": "mine.jsonl", "data": data})
            assert response.status_code == 400
            assert "mine.jsonl" in response.json()["error"]["message"]
        wrong = {"name": "x.csv", "data": "question\nWho?\n", "metrics": ["magic"]}
        with connect_sse(http, "POST", "/api/evaluate", json=wrong) as source:
            assert [event.event for event in source.iter_sse()] == ["error"]


def test_a_report_is_drawn_in_a_frame_that_can_do_nothing(opened: Open, tmp_path: Path) -> None:
    page = (at := opened("zh-CN", "dark", 390)).page
    page.locator("nav .tab").nth(6).click()
    at.is_accessible()
    data = tmp_path / "garden.jsonl"
    data.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    page.locator(".evaluate input[type=file]").set_input_files(data)
    expect(page.get_by_text("问题集：garden.jsonl")).to_be_visible()
    page.get_by_role("button", name="开始评测").click()
    frame = page.frame_locator("iframe.report")
    expect(frame.locator("h1")).to_contain_text("garden.jsonl")
    assert frame.locator("svg").count() > 0
    with page.expect_download() as loading:
        page.get_by_role("link", name="网页（HTML）").click()
    loading.value.save_as(tmp_path / "saved.html")
    assert "garden.jsonl" in (tmp_path / "saved.html").read_text(encoding="utf-8")
    at.is_accessible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert {url.split("/", 3)[2] for url in at.requests} == {f"127.0.0.1:{at.served.port}"}
    at.served.llm.pause = 1.0
    (tmp_path / "other.jsonl").write_text('{"question": "Why?"}', encoding="utf-8")
    page.locator(".evaluate input[type=file]").set_input_files(tmp_path / "other.jsonl")
    page.get_by_role("button", name="开始评测").click()
    page.get_by_role("button", name="停止").click()
    expect(page.locator(".evaluate [role=alert]")).to_have_text("已停止。")
    assert at.wrong == []
