"""The page in Chromium: what a person does with it, and what other pages must not."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from server.conftest import TOKEN, Served
from server.in_browser import Open, drop, violations

from localrag.cli.browser import opened as leading
from localrag.documents.formats import table
from localrag.system import processes

QUESTION = {
    "en-US": "When was the glass house opened?",
    "zh-CN": "云溪茶园什么时候采茶？",
}


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_add_ask_look_follow_up_and_remove(
    opened: Open, locale: str, scheme: str, width: int
) -> None:
    at = opened(locale, scheme, width)
    page, words = at.page, WORDS[locale]
    bodies: list[dict[str, object]] = []
    page.on(
        "request",
        lambda request: bodies.append(request.post_data_json) if "ask" in request.url else None,
    )
    at.is_accessible()

    drop(page, "Elm.txt", "The harbour of Elm was dug in 1732.\n\nIt silted up.")
    expect(page.locator(".adding")).to_contain_text(words["added"])
    expect(page.locator(".documents > li")).to_have_count(3)
    at.is_accessible()

    page.get_by_role("button", name=words["ask"], exact=True).first.click()
    at.served.llm.pieces = words["answer"]
    at.ask(QUESTION[locale])
    marker = page.locator(".marker")
    expect(marker).to_have_text("1")
    expect(page.locator(".unseen[role=status]")).to_have_text(words["said"])
    expect(page.locator(".sources .source")).to_contain_text(words["cited"])
    at.is_accessible()

    marker.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".viewer mark")).to_have_text(words["quoted"])
    expect(page.locator(".viewer h2")).to_be_focused()
    at.is_accessible()
    page.keyboard.press("Escape")
    expect(page.locator(".viewer")).to_have_count(0)
    expect(marker).to_be_focused()

    at.served.llm.pieces, at.served.llm.pause = [f"word{n} " for n in range(1000)], 0.05
    at.served.llm.replies.append("How many orchids are there?")
    at.ask("And then?")
    expect(page.locator(".answer").last).to_contain_text("word3")
    page.get_by_role("button", name=words["stop"], exact=True).click()
    expect(page.locator(".turn").last).to_contain_text(words["stopped"])
    at.is_accessible()

    at.served.llm.pause = 0.001
    at.served.llm.replies.append("How many orchids does the glass house have?")
    at.served.llm.pieces = ["It has two hundred orchids [1]."]
    at.ask("And how many orchids does it have?")
    expect(page.locator(".turn")).to_have_count(3)
    expect(page.locator(".turn").nth(2).locator(".sentence")).to_have_count(1)
    assert bodies[-1]["history"] == [{"question": QUESTION[locale], "answer": words["said"]}]

    page.get_by_role("button", name=words["documents"], exact=True).click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.locator(".documents > li", has_text="Elm").get_by_role("button").last.click()
    expect(page.locator(".documents > li")).to_have_count(2)
    for tab in page.locator("nav .tab").all():
        tab.click()
        at.is_accessible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert at.wrong == []
    assert {url.split("/", 3)[2] for url in at.requests} == {f"127.0.0.1:{at.served.port}"}


WORDS = {
    "en-US": {
        "ask": "Ask",
        "documents": "Documents",
        "added": "Added (passages: 1)",
        "stop": "Stop",
        "stopped": "Stopped.",
        "answer": ("It was opened ", "in 1907 [1]."),
        "said": "It was opened in 1907 [1].",
        "cited": "garden.txt, p. 1",
        "quoted": "The glass house was opened in 1907.",
    },
    "zh-CN": {
        "ask": "提问",
        "documents": "文档",
        "added": "已添加，共 1 个段落",
        "stop": "停止",
        "stopped": "已停止。",
        "answer": ("云溪茶园在三月", "采摘春茶 [1]。"),
        "said": "云溪茶园在三月采摘春茶[1]。",
        "cited": "tea.txt，第 1 页",
        "quoted": "云溪茶园在三月采摘春茶。",
    },
}


def test_stopping_frees_the_model_and_says_so(opened: Open) -> None:
    at = opened()
    at.served.llm.pieces, at.served.llm.pause = [f"word{n} " for n in range(1000)], 0.05
    at.ask("When was the glass house opened?")
    expect(at.page.locator(".answer")).to_contain_text("word3")
    at.page.get_by_role("button", name="Stop").click()
    expect(at.page.locator(".turn")).to_contain_text("Stopped.")
    at.served.llm.pieces, at.served.llm.pause = ("It was opened ", "in 1907 [1]."), 0.001
    at.ask("When was the glass house opened?")
    expect(at.page.locator(".marker")).to_have_count(1)
    at.is_accessible()


def test_who_waits_sees_the_place_in_the_line(opened: Open) -> None:
    first, second = opened(), opened("zh-CN")
    first.served.llm.pieces, first.served.llm.pause = [f"word{n} " for n in range(1000)], 0.02
    first.ask("When was the glass house opened?")
    expect(first.page.locator(".answer")).to_contain_text("word3")
    second.ask("云溪茶园什么时候采茶？")
    expect(second.page.locator(".turn")).to_contain_text(re.compile(r"前面还有 1 个，约 \d+ 秒"))
    expect(second.page.locator(".passage").first).to_be_attached()
    first.page.get_by_role("button", name="Stop").click()
    expect(second.page.locator(".answer")).to_contain_text("word3")
    second.page.get_by_role("button", name="停止").click()


def test_enter_that_chooses_a_candidate_does_not_send(opened: Open) -> None:
    at = opened("zh-CN")
    page = at.page
    page.locator("#question").focus()
    session = page.context.new_cdp_session(page)
    session.send(
        "Input.imeSetComposition",
        {"text": "yunxi", "selectionStart": 5, "selectionEnd": 5},
    )
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 229}
    session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **key})
    session.send("Input.insertText", {"text": "云溪茶园什么时候采茶？"})
    session.send("Input.dispatchKeyEvent", {"type": "keyUp", **key})
    time.sleep(0.3)
    assert page.locator(".turn").count() == 0
    expect(page.locator("#question")).to_have_value("云溪茶园什么时候采茶？")
    page.keyboard.press("Shift+Enter")
    assert page.locator(".turn").count() == 0
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_have_count(1)


def test_the_file_that_the_browser_is_given_leads_to_the_page(
    browser: Browser, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[str] = []
    monkeypatch.setattr(processes, "show", lambda path, _: bool(paths.append(path)) or True)
    with leading(f"{served.url}/#token={TOKEN}") as screens:
        assert screens
        page = browser.new_context().new_page()
        page.goto(f"file://{paths[0]}")
        expect(page.locator(".guard")).to_be_visible()
        assert page.url == f"{served.url}/"


def test_a_conversation_is_copied_and_saved_without_markup_of_documents(
    opened: Open, tmp_path: Path
) -> None:
    at = opened()
    drop(
        at.page, "x.txt", "The glass house was opened in 1907, see ![x](http://evil.example/p.png)."
    )
    expect(at.page.locator(".adding")).to_contain_text("Added")
    at.page.get_by_role("button", name="Ask", exact=True).first.click()
    at.served.llm.pieces = ("The glass house was opened in 1907, see <b>this</b> [1].",)
    at.ask("When was the glass house opened, see x?")
    expect(at.page.locator(".sources li").first).to_be_visible()
    assert at.page.locator(".turn b", has_text="this").count() == 0
    at.page.get_by_role("button", name="Copy with citations").click()
    expect(at.page.get_by_role("button", name="Copied")).to_be_visible()
    clipboard = at.page.evaluate("navigator.clipboard.readText()")
    assert re.search(r"\n\[1\] x\.txt.*: “.*1907", clipboard)
    with at.page.expect_download() as loading:
        at.page.get_by_role("button", name="Markdown").click()
    loading.value.save_as(tmp_path / "saved.md")
    content = (tmp_path / "saved.md").read_text(encoding="utf-8")
    assert content.startswith("# localrag: garden\n\n## When was the glass house opened")
    assert r"\!\[x\](hxxp://evil.example/p.png)" in content
    assert "<b>" not in content.replace(r"\<b", "")
    assert at.wrong == []


def test_problems_are_shown_and_what_fails_is_said(opened: Open, served: Served) -> None:
    at = opened("zh-CN")
    drop(at.page, "断.pdf", "%PDF-1.4 nothing")
    expect(at.page.locator(".adding .failed")).to_contain_text("断.pdf")
    expect(at.page.locator(".documents > li")).to_have_count(2)
    at.is_accessible()
    for document in served.engine.library.documents():
        served.engine.library.remove(documents=[document.id])
    at.page.reload()
    at.page.get_by_role("button", name="提问", exact=True).first.click()
    expect(at.page.locator(".empty").first).to_contain_text("文档库还是空的")
    at.is_accessible()


def test_the_language_is_switched_and_kept(opened: Open) -> None:
    at = opened("zh-CN")
    expect(at.page.locator("html")).to_have_attribute("lang", "zh-CN")
    at.page.get_by_role("button", name="English").click()
    expect(at.page.locator("html")).to_have_attribute("lang", "en")
    at.page.reload()
    expect(at.page.get_by_role("button", name="中文")).to_be_visible()
    at.page.get_by_role("button", name="Search", exact=True).first.click()
    at.page.get_by_role("searchbox").fill("orchids")
    at.page.keyboard.press("Enter")
    expect(at.page.locator(".passage .source").first).to_contain_text("garden.txt, p. 1")
    at.is_accessible()


def test_a_link_to_one_view_opens_that_and_no_other(browser: Browser, served: Served) -> None:
    body = {"messages": [{"role": "user", "content": QUESTION["en-US"]}]}
    with served.client() as http:
        message = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    url = message["annotations"][0]["url_citation"]["url"]
    with browser.new_context() as context:  # without the token
        page = context.new_page()
        page.goto(url)
        expect(page.locator(".viewer mark")).to_have_text("The glass house was opened in 1907.")
        assert violations(page) == []
        page.goto("about:blank")
        page.goto(f"{url}#:~:text=garden,p.")  # as Open WebUI writes it
        expect(page.locator(".viewer mark")).to_have_text("The glass house was opened in 1907.")
        page.goto("about:blank")
        page.goto(url.replace("start=0", "start=1"))
        expect(page.locator(".viewer .failed")).to_be_visible()
        page.goto(served.url)
        expect(page.locator("main")).to_contain_text("localrag serve")  # where to sign in


FOREIGN = """<!doctype html><title>foreign</title>
<form method=post action="{url}/api/documents?name=evil.txt" enctype="text/plain">
<input name=a></form>
<iframe src="{url}/"></iframe>
"""
ATTACK = """async (url) => {
    const tried = [], body = "evil", headers = { "content-type": "application/octet-stream" };
    for (const [path, options] of [
        ["/api/status", {}],
        ["/api/status", { mode: "no-cors", credentials: "include" }],
        ["/api/documents?name=evil.txt", { method: "POST", body, credentials: "include" }],
        ["/api/documents?name=evil.txt", { method: "POST", body, mode: "no-cors" }],
        ["/api/documents?name=evil.txt", { method: "POST", body, credentials: "include", headers }],
    ]) {
        try {
            const got = await fetch(url + path, options);
            tried.push(got.type === "opaque" ? "opaque" : String(got.status));
        } catch { tried.push("refused"); }
    }
    try {
        await new Promise((resolve, reject) => {
            const socket = new WebSocket(url.replace("http", "ws") + "/api/status");
            socket.onopen = resolve;
            socket.onerror = reject;
        });
        tried.push("open");
    } catch { tried.push("refused"); }
    return tried;
}"""


@pytest.fixture
def foreign(served: Served) -> Iterator[str]:
    """Another site, on this machine."""
    page = FOREIGN.format(url=served.url).encode()

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://evil.example:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_foreign_page_learns_and_changes_nothing(
    opened: Open, served: Served, foreign: str
) -> None:
    at = opened()  # which has the cookie
    page = at.page.context.new_page()
    answers: list[tuple[str, int]] = []
    page.on("response", lambda response: answers.append((response.url, response.status)))
    page.goto(foreign)
    outcomes = page.evaluate(ATTACK, served.url)
    assert set(outcomes) <= {"refused", "opaque"}, outcomes
    page.evaluate("document.forms[0].submit()")
    page.wait_for_url(f"{served.url}/api/**")
    assert "foreign" not in page.title()
    statuses = [status for url, status in answers if url.startswith(f"{served.url}/api")]
    assert statuses
    assert set(statuses) == {403}
    with served.client() as http:
        assert len(http.get("/api/documents").json()["documents"]) == 2


def test_a_name_that_leads_here_is_refused(browser: Browser, served: Served) -> None:
    """DNS rebinding: the attacker's own name, which now has this machine's address."""
    with browser.new_context() as context:
        page = context.new_page()
        reply = page.goto(f"http://evil.example:{served.port}/")
        assert reply is not None
        assert reply.status == 421
        status = page.evaluate(
            "async (token) => (await fetch('/api/status', "
            "{ headers: { authorization: `Bearer ${token}` } })).status",
            TOKEN,
        )
        assert status == 421


def test_what_goes_from_a_conversation_with_a_document_is_said(opened: Open) -> None:
    at = opened()
    at.page.on("dialog", lambda dialog: dialog.accept())
    at.served.llm.pieces, at.served.llm.pause = [f"word{n} " for n in range(1000)], 0.05
    at.ask("When was the glass house opened?")
    expect(at.page.locator(".answer")).to_contain_text("word3")
    at.page.get_by_role("button", name="Documents", exact=True).click()
    at.page.get_by_role("button", name="Remove garden.txt", exact=True).click()
    expect(at.page.get_by_role("button", name="Remove garden.txt", exact=True)).to_have_count(0)
    at.page.get_by_role("navigation").get_by_role("button", name="Ask").click()
    expect(at.page.locator(".turn")).to_have_count(0)
    expect(at.page.locator(".turns")).to_contain_text("here went with it")
    expect(at.page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)


def test_every_word_is_used_and_stands_in_both_languages(opened: Open) -> None:
    folder = Path(__file__).parents[2] / "localrag" / "server" / "static"
    at = opened()
    languages = at.page.evaluate("import('/static/words.js').then((words) => words.languages)")
    assert all(words.keys() == languages["en"].keys() for words in languages.values())
    script = """import('/static/words.js').then((words) => {
        words.languages.de = { ...words.languages.en, own: "Deutsch" };
        const next = words.following("zh");
        return [words.speaker(next)("own"), words.following(next)];
    })"""
    assert at.page.evaluate(script) == ["Deutsch", "en"]
    files = [path for path in folder.glob("*.js") if path.name not in ("preact.js", "words.js")]
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    from_the_server = {
        "supported",
        "partly",
        "not",
        "quoted",
        "unchecked",
        "none",
        "changed",
        "gone",
    }
    from_the_server |= {"default", "file", "type", *table.names()}
    assert languages["en"].keys() >= {f"type {name}" for name in table.names()}
    unused = {
        phrase
        for phrase in languages["en"]
        if json.dumps(phrase) not in code
        and all(  # "kind one of" is made of "kind" and "one of"
            any(json.dumps(part) not in code for part in {*parts} - from_the_server)
            for parts in (phrase.split(), phrase.split(maxsplit=1))
        )
    }
    assert unused == set()
    for english, text in languages["en"].items():
        assert set(re.findall(r"{\w+}", text)) >= set(
            re.findall(r"{\w+}", languages["zh"][english])
        )
