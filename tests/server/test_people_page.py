"""The page of a server that people share, in Chromium: signing in, and what each is offered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from server.in_browser import violations
from server.sharing import TEXTS, Kept, Node, fill, shared

TOKENS = {"ada": {"garden": "owner", "tea": "editor"}, "ben": {"garden": "reader"}, "eve": {}}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    places = {name: tmp_path / name for name in TEXTS}
    fill(places)
    with shared(places, Kept()) as shared_node:
        yield shared_node


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(locale="en-US")
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def is_offered(page: Page, *names: str) -> None:
    expect(page.locator("nav .tab")).to_have_text(names)


def test_each_signs_in_with_a_token_and_is_offered_what_they_may(node: Node, page: Page) -> None:
    assert isinstance(node.users, Kept)
    address = f"http://127.0.0.1:{node.port}"
    tokens = {name: node.users.add(name, **roles) for name, roles in TOKENS.items()}  # type: ignore[arg-type]
    page.goto(address)
    expect(page.get_by_label("Token")).to_be_visible()
    assert not any(name in page.content() for name in TEXTS)
    assert not violations(page)
    sign_in(page, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("not valid")

    sign_in(page, tokens["ben"])
    expect(page.locator(".user")).to_have_text("ben")
    is_offered(page, "Ask", "Documents", "Search", "Table", "Summary", "Compare")
    page.get_by_role("button", name="Documents").first.click()
    expect(page.locator(".documents > li")).to_have_count(1)
    expect(page.get_by_role("button", name="Remove garden.txt")).to_have_count(0)
    expect(page.locator(".drop")).to_have_count(0)
    page.get_by_role("button", name="Ask", exact=True).first.click()
    page.get_by_role("button", name="History").click()
    expect(page.locator("dialog .hint")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not violations(page)
    assert not any(name in page.content() for name in ("tea", "attic"))

    page.get_by_role("button", name="Sign out").click()
    sign_in(page, tokens["ada"])
    expect(page.locator(".user")).to_have_text("ada")
    is_offered(page, "Ask", "Documents", "Search", "Table", "Summary", "Compare", "Evaluate")
    page.get_by_role("button", name="Documents").first.click()
    expect(page.get_by_role("button", name="Remove garden.txt")).to_be_visible()
    page.get_by_label("Library").select_option("tea")
    expect(page.get_by_role("button", name="Remove tea.txt")).to_be_visible()
    is_offered(page, "Ask", "Documents", "Search", "Table", "Summary", "Compare")

    node.users.secrets.clear()  # as where all tokens are revoked: nothing of theirs stays in sight
    expect(page.get_by_label("Token")).to_be_visible()
    assert not any(name in page.content() for name in TEXTS)
    page.goto(f"{address}/#token={node.users.add('eve')}")
    expect(page.get_by_text("There is no library that you may read yet")).to_be_visible()
    assert not violations(page)


def test_a_link_is_opened_by_whoever_may_read_it(node: Node, page: Page) -> None:
    assert isinstance(node.users, Kept)
    (document,) = node.engines["garden"].library.documents()
    token, other = node.users.add("ben", garden="reader"), node.users.add("eve", tea="reader")
    with node.client(token) as http:
        body = {"model": "localrag", "messages": [{"role": "user", "content": "When?"}]}
        answer = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    (link,) = {annotation["url_citation"]["url"] for annotation in answer["annotations"]}
    assert document.id in link
    assert "key" not in link
    page.goto(link)
    sign_in(page, other)
    expect(page.get_by_role("alert")).to_contain_text("There is no library garden")
    page.context.clear_cookies()
    page.reload()
    sign_in(page, token)
    expect(page.locator(".viewer mark")).to_contain_text("1907")
