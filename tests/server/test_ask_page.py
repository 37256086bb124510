"""Asking on the page: marks of sentences, the keyboard, the guard, and files of a conversation."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import ConstantMeter
from playwright.sync_api import Browser, expect
from server.in_browser import Open, drop, violations

from localrag.egress import network

QUESTION = "When was the glass house opened?"
TWO = ("The glass house was opened in 1907 [1]. ", "It has two hundred orchids [1]. ", "So it is.")


def test_each_sentence_is_marked_and_a_click_opens_its_page(opened: Open) -> None:
    at = opened()
    at.served.llm.pieces = TWO
    at.ask(QUESTION)
    sentences = at.page.locator(".answer .sentence")
    expect(sentences).to_have_count(3)
    assert [sentence.get_attribute("title") for sentence in sentences.all()] == [
        "In the words of the quotation",
        "In the words of the quotation",
        "Supported, as the model judges",
    ]
    expect(at.page.locator(".legend > span")).to_have_text(
        ["In the words of the quotation", "Supported, as the model judges"]
    )
    sentences.nth(1).click(position={"x": 5, "y": 8})
    expect(at.page.locator(".viewer mark")).to_have_text("It has two hundred orchids.")
    expect(sentences.nth(1)).to_have_class("sentence quoted cited open")
    at.is_accessible()


def test_the_seconds_to_come_are_counted_down_while_it_reads(opened: Open) -> None:
    at = opened()
    engine = at.served.engine
    engine._model = replace(engine.model, view=None, meter=ConstantMeter())
    at.served.llm.held = threading.Event()
    at.ask(QUESTION)
    state, pattern = (
        at.page.locator(".state.writing"),
        re.compile(r"kept, about (\d+) to \d+ s to come"),
    )
    expect(state).to_contain_text(pattern)
    first = pattern.search(state.inner_text())
    assert first is not None
    expect(state).not_to_contain_text(first.group(0))
    later = pattern.search(state.inner_text())
    assert later is not None
    assert int(later.group(1)) < int(first.group(1))
    at.served.llm.held.set()
    expect(at.page.locator(".answer .sentence")).to_have_count(1)
    assert at.wrong == []


def test_what_was_not_checked_says_so_where_it_is_copied_or_saved(opened: Open) -> None:
    answer = {
        "sentences": [
            {"parts": ["Yes", [0], ". "], "mark": "unchecked"},
            {"parts": ["So."], "mark": "quoted"},
        ],
        "citations": [{"marker": 2}],
    }
    in_words = (
        "(one) => import('/static/turn.js').then((turn) => turn.inWords(one, (word) => word))"
    )
    assert opened().page.evaluate(in_words, answer) == "Yes [2]. (unchecked) So."


def test_keys_lead_through_the_citations_and_can_be_switched_off(opened: Open) -> None:
    at = opened()
    page = at.page
    at.served.llm.pieces = TWO
    at.ask(QUESTION)
    expect(page.locator(".marker")).to_have_count(2)
    page.keyboard.type("jk")  # into the question
    expect(page.locator("#question")).to_have_value("jk")
    page.locator("h1").click()
    page.keyboard.press("j")
    expect(page.locator(".marker").nth(0)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".viewer mark")).to_have_text("The glass house was opened in 1907.")
    expect(page.locator(".viewer h2")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(".viewer mark")).to_have_text("It has two hundred orchids.")
    page.keyboard.press("k")
    expect(page.locator(".viewer mark")).to_have_text("The glass house was opened in 1907.")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next citation")
    at.is_accessible()
    page.get_by_label("Single keys are shortcuts").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".viewer")).to_have_count(1)  # one Escape, one thing closed
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_what_leaves_the_machine_and_what_was_stopped_is_seen_on_every_tab(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: tuple[network.Attempt, ...] = ()  # of this process: other tests are stopped, too
    monkeypatch.setattr(network, "attempts", lambda: attempts)
    monkeypatch.setattr(network, "let_through", dict)
    at = opened("zh-CN", "dark", 390)
    guard = at.page.locator(".guard")
    expect(guard).to_have_text("启动以来对外连接 0 次")
    attempt = network.Attempt("evil.example", "somebody", "socket.connect", "")
    attempts = (attempt,)
    monkeypatch.setattr(network, "let_through", lambda: {attempt: 2, LOCAL: 5})
    for tab in ("文档", "检索"):
        at.page.get_by_role("button", name=tab, exact=True).first.click()
        expect(guard).to_be_visible()
    expect(guard).to_have_text("启动以来对外连接 2 次 · 已拦截 1 次")
    expect(guard).to_have_class("guard alert")
    at.is_accessible()


LOCAL = network.Attempt("127.0.0.1", "a model", "socket.connect", "", 8080)


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_a_saved_page_opens_by_itself_and_runs_nothing(
    opened: Open, browser: Browser, tmp_path: Path, locale: str
) -> None:
    at = opened(locale)
    evil = "The glass house was opened in 1907, says <script>alert(1)</script> <b>it</b>."
    drop(at.page, "x&y.txt", evil)
    expect(at.page.locator(".adding li[aria-busy=false]")).to_have_count(1)
    at.page.locator("nav button").first.click()
    at.served.llm.pieces = ("The glass house was opened in 1907, <b>says it</b> [1]. ", "Indeed.")
    at.ask("When was the glass house opened, says it?")
    expect(at.page.locator(".sources li").first).to_be_visible()
    with at.page.expect_download() as loading:
        at.page.get_by_role("button", name="HTML").click()
    file = tmp_path / "saved.html"
    loading.value.save_as(file)
    text = file.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "<b>" not in text
    wrong: list[str] = []
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.goto(file.as_uri())
        expect(page.locator("html")).to_have_attribute("lang", locale.removesuffix("-US"))
        assert page.locator("body").evaluate("one => getComputedStyle(one).maxWidth") == "704px"
        expect(page.locator("blockquote")).to_contain_text("<script>alert(1)</script>")
        expect(page.locator("li cite, cite")).to_contain_text("x&y.txt")
        page.get_by_role("link", name="[1]").click()
        assert page.url.endswith("#t1-1")
        assert violations(page) == []
    assert wrong == []
    assert at.wrong == []


def test_a_conversation_is_kept_opened_gone_on_with_and_forgotten(opened: Open) -> None:
    at = opened("zh-CN", "dark", 390)
    page, library = at.page, at.served.engine.library
    page.get_by_role("button", name="历史记录").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("没有保留任何对话")
    dialog.get_by_label("在此文档库中保留对话").check()
    expect(dialog).to_contain_text("还没有保留的对话")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="历史记录")).to_be_focused()

    at.ask(QUESTION)
    expect(page.locator(".marker")).to_have_count(1)
    page.reload()
    expect(page.locator(".turn")).to_have_count(0)
    page.get_by_role("button", name="历史记录").click()
    expect(dialog.get_by_role("listitem")).to_contain_text("1 个回答")
    at.is_accessible()
    dialog.get_by_role("button", name=QUESTION, exact=True).click()
    expect(page.locator(".marker")).to_have_count(1)
    page.locator(".marker").click()
    expect(page.locator(".viewer mark")).to_have_text("The glass house was opened in 1907.")
    page.get_by_role("button", name="关闭").click()

    at.served.llm.replies.append("How many orchids does the glass house have?")
    at.served.llm.pieces = ["It has two hundred orchids [1]."]
    at.ask("And how many orchids does it have?")
    expect(page.locator(".turn").nth(1).locator(".marker")).to_have_count(1)
    page.get_by_role("button", name="历史记录").click()
    expect(dialog.get_by_role("listitem")).to_contain_text("2 个回答")
    dialog.get_by_label("在此文档库中保留对话").uncheck()
    expect(dialog.get_by_role("alert")).to_contain_text("是否删除此前保留的对话")
    at.is_accessible()
    dialog.get_by_role("button", name="全部删除").click()
    expect(dialog).to_contain_text("没有保留任何对话")
    expect(page.locator(".turn")).to_have_count(0)
    assert library.conversations() == []
    assert not library.keeps_history
    assert at.wrong == []


def test_what_was_written_from_a_document_leaves_the_page_with_it(opened: Open) -> None:
    at = opened()
    at.ask(QUESTION)
    expect(at.page.locator(".marker")).to_have_count(1)
    at.page.get_by_role("button", name="Documents", exact=True).click()
    at.page.on("dialog", lambda dialog: dialog.accept())
    at.page.get_by_role("button", name="Remove garden.txt").click()
    at.page.get_by_role("button", name="Ask", exact=True).first.click()
    expect(at.page.locator(".turn")).to_have_count(0)


def test_a_refusal_claims_nothing_and_so_has_no_mark(opened: Open) -> None:
    at = opened()
    at.served.llm.pieces = ("The documents do not contain the answer to this question.",)
    at.ask("Who won the lottery?")
    expect(at.page.locator(".answer")).to_have_text(at.served.llm.pieces[0])
    expect(at.page.locator(".under")).to_be_visible()
    expect(at.page.locator(".sentence, .legend")).to_have_count(0)
    expect(at.page.locator(".not-found")).to_contain_text("None of the passages found contains")
    expect(at.page.locator(".more summary").first).to_contain_text("Closest passages")
    assert at.wrong == []


REFUSAL = "The documents do not contain the answer to this question."


@pytest.mark.parametrize(
    ("locale", "reason"),
    [
        ("en-US", "None of the passages found contains “hause”."),
        ("zh-CN", "找到的段落中都没有“hause”。"),
    ],
)
def test_where_nothing_is_answered_the_closest_sentence_opens_and_a_wording_asks(
    opened: Open, locale: str, reason: str, tmp_path: Path
) -> None:
    at = opened(locale)
    at.served.llm.pieces = (REFUSAL,)
    at.ask("When was the glass hause opened?")
    notice = at.page.locator(".not-found")
    expect(notice).to_contain_text(reason)
    at.is_accessible()
    notice.locator(".source").click()
    expect(at.page.locator(".viewer mark")).to_have_text("The glass house was opened in 1907.")
    at.is_accessible()
    with at.page.expect_download() as saving:
        at.page.get_by_role("button", name="Markdown").click()
    file = tmp_path / "saved.md"
    saving.value.save_as(file)
    assert "The glass house was opened in 1907." in file.read_text("utf-8")
    assert reason in file.read_text("utf-8")
    at.served.llm.pieces = ("It was opened in 1907 [1].",)
    notice.get_by_role("button", name="When was the glass house opened?", exact=True).click()
    expect(at.page.locator(".asked").nth(1)).to_have_text("When was the glass house opened?")
    expect(at.page.locator(".marker")).to_have_count(1)
    assert at.wrong == []


@pytest.mark.parametrize(
    ("locale", "denied", "asked", "lacks", "label", "legend"),
    [
        (
            "en-US",
            "pharmacy",
            "When was the glass house opened, and how much does the pharmacy charge?",
            "The documents do not say: How much does the pharmacy charge?",
            "On “How much does the pharmacy charge?”:",
            "Passages found",
        ),
        (
            "zh-CN",
            "门票",
            "云溪茶园在几月采摘春茶？门票多少钱？",
            "文档中查不到：门票多少钱？",
            "关于“门票多少钱？”：",
            "找到的段落",
        ),
    ],
)
def test_an_answer_with_a_part_missing_is_one(
    opened: Open, locale: str, denied: str, asked: str, lacks: str, label: str, legend: str
) -> None:
    at = opened(locale)
    at.served.llm.denied = denied
    english = ("When was the glass house opened?", "How much does the pharmacy charge?")
    chinese = ("云溪茶园在几月采摘春茶？", "门票多少钱？")
    at.served.llm.parts = chinese if "茶" in asked else english
    at.served.llm.pieces = ("云溪茶园在三月采摘春茶[1]。" if "茶" in asked else TWO[0],)
    at.ask(asked)
    expect(at.page.locator(".answer")).to_contain_text(lacks)
    expect(at.page.locator(".marker")).to_have_count(1)
    expect(at.page.locator(".not-found b")).to_have_text(label)
    assert at.page.locator(".turn").inner_text().count(lacks) == 1
    details = at.page.locator("details").first
    expect(details.locator("summary")).to_contain_text(legend)
    assert details.get_attribute("open") is None
    at.is_accessible()


def test_what_is_not_from_the_documents_says_so_first(opened: Open) -> None:
    at = opened()
    at.served.llm.pieces = ("Not from your documents:\n\n", "It was in 1850.")
    at.ask("When was the mill built?")
    expect(at.page.locator(".under")).to_be_visible()
    expect(at.page.locator(".sentence")).to_have_text("It was in 1850. (Not supported)")
    expect(at.page.locator(".answer")).to_contain_text("Not from your documents:")
