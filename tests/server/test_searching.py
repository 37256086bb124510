"""The search of the page: what `localrag search` can be asked for, and the line for the model."""

from __future__ import annotations

import threading

from playwright.sync_api import expect
from server.conftest import GARDEN, TEA, Served, expect_line
from server.in_browser import Open


def texts(served: Served, **fields: object) -> list[str]:
    with served.client() as http:
        response = http.post("/api/search", json={"question": "glass house", **fields})
        return [passage["text"] for passage in response.raise_for_status().json()["passages"]]


def test_filters_and_kinds_of_search_are_those_of_the_command_line(served: Served) -> None:
    assert sorted(texts(served)) == sorted([GARDEN, TEA])
    assert texts(served, filter={"path": "gard*"}) == [GARDEN]
    assert texts(served, filter={"language": "zh"}) == [TEA]
    assert texts(served, filter={"since": "2000-01-01", "types": ["text"], "pages": [1, None]})
    assert texts(served, filter={"until": "2000-01-01"}) == []
    assert texts(served, filter={"pages": [2, 3]}) == []
    assert texts(served, k=1, rerank="keyword") == [GARDEN]
    assert texts(served, retrieval="keyword") == [GARDEN]
    with served.client() as http:
        choices = http.get("/api/search").json()
        assert "pdf" in choices["types"]
        assert choices["retrieval"] == ["hybrid", "dense", "keyword"]
        for wrong in (
            {"filter": {"types": ["exe"]}},
            {"filter": {"since": "yesterday"}},
            {"filter": {"pages": [3, 1]}},
            {"filter": {"pages": [1, 2**63]}},
            {"filter": {"pages": [2**53, None]}},
            {"filter": {"since": "0001-01-01"}},
            {"filter": {"without": ["\0"]}},
            {"retrieval": "magic"},
            {"rerank": "magic"},
            {"question": " "},
        ):
            response = http.post("/api/search", json={"question": "x"} | wrong)
            assert response.status_code == 400, wrong


def test_too_many_files_to_search_in_are_refused(served: Served) -> None:
    with served.client() as http:
        for count, status in ((400, 200), (2000, 400)):
            body = {"question": "tea", "filter": {"sources": [f"{n}.txt" for n in range(count)]}}
            assert http.post("/api/search", json=body).status_code == status
        body = {"question": "tea", "filter": {"types": ["pdf"] * 2000}}
        assert http.post("/api/search", json=body).status_code == 200


def test_ranks_of_both_searches_come_with_a_passage(served: Served) -> None:
    with served.client(**{"accept-language": "zh"}) as http:
        response = http.post("/api/search", json={"question": "glass house", "rerank": "keyword"})
    ranks = response.json()["passages"][0]["ranks"]
    assert ranks["keyword"]["rank"] == 1
    assert ranks["dense"]["rank"] in (1, 2)
    assert [step["name"] for step in response.json()["steps"]] == ["重排序"]


def test_only_a_search_with_the_model_waits_in_the_line(served: Served) -> None:
    served.llm.held = threading.Event()
    served.llm.replies += ["another wording"] * 3
    results: list[str] = []

    def ask() -> None:
        with served.client() as http:
            http.post("/api/ask", json={"question": "glass house"})

    def expanded() -> None:
        results.extend(texts(served, expand="multi-query"))

    threads = [threading.Thread(target=ask), threading.Thread(target=expanded)]
    with served.client() as http:
        threads[0].start()
        expect_line(http, waiting=0, answering=1)
        threads[1].start()
        expect_line(http, waiting=1)
        assert texts(served)
        assert not results
    served.llm.held.set()
    for thread in threads:
        thread.join(60)
    assert GARDEN in results


def test_a_search_is_filtered_and_explained(opened: Open) -> None:
    page = (at := opened("zh-CN", "dark", 390)).page
    page.locator("nav .tab").nth(2).click()
    expect(page.get_by_text("列出最符合的段落")).to_be_visible()
    page.locator("#words").fill("glass house")
    page.keyboard.press("Enter")
    expect(page.locator(".passage")).to_have_count(2)
    page.get_by_text("筛选与选项").click()
    expect(page.get_by_label("段落数")).to_have_value("")  # the setting counts
    page.get_by_label("文件名（与显示的一致）").fill("tea")
    page.get_by_label("检索方式").select_option("dense")
    page.locator("#words").press("Enter")
    expect(page.locator(".passage")).to_have_count(1)
    page.locator(".passage .ranks summary").click()
    expect(page.locator(".passage .ranks")).to_contain_text("语义：第 1 名")
    page.get_by_label("页码").fill("9-")
    page.locator("#words").press("Enter")
    expect(page.get_by_text("可能筛选得过窄")).to_be_visible()
    page.get_by_label("页码").fill("nine")
    page.locator("#words").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("3-10")
    at.is_accessible()
    page.get_by_role("button", name="重置").click()
    page.locator("#words").press("Enter")
    expect(page.locator(".passage")).to_have_count(2)
    page.locator(".passage .source").first.click()
    expect(page.locator(".viewer h2")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert at.wrong == []
