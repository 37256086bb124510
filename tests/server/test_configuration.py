"""Settings in the browser: what counts, who gives it, and what may be changed from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import expect
from server.conftest import Served
from server.in_browser import Open

from localrag.config.settings import (
    AnswerSettings,
    Settings,
    load_settings,
    set_in_file,
    settings_path,
)
from localrag.errors import ModelNotFoundError
from localrag.server.configuration import CHANGEABLE
from localrag.server.libraries import Libraries
from localrag.server.setups import setup_of

SETTINGS = "/api/settings"


@pytest.fixture
def http(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


def of(reply: httpx.Response, key: str) -> dict[str, Any]:
    assert reply.status_code == 200, reply.text
    return next(setting for setting in reply.json()["settings"] if setting["key"] == key)


def test_each_setting_has_its_value_and_who_gives_it(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_in_file("answer.k", "7")
    set_in_file("llm.model", "/home/ada/models/my.gguf")
    monkeypatch.setenv("LOCALRAG_RETRIEVAL_K", "12")
    reply = http.get(SETTINGS)
    assert "/home/ada" not in reply.text
    assert settings_path().parent.name not in reply.text
    default, file, variable = (of(reply, f"{key}") for key in ("answer.mode", *KEYS))
    assert (default["given"], default["value"], default["later"]) == ("default", "standard", False)
    # The server began before: what was changed elsewhere counts later.
    assert (file["given"], file["value"], file["default"], file["later"]) == ("file", 5, 5, True)
    assert (variable["given"], variable["variable"]) == ("variable", "LOCALRAG_RETRIEVAL_K")


KEYS = ("answer.k", "retrieval.k")


def test_a_change_counts_at_once_and_for_the_command_line(
    served: Served, http: httpx.Client
) -> None:
    for key, value in (("answer.mode", "self-rag"), ("answer.k", 3), ("answer.strict", True)):
        setting = of(http.post(SETTINGS, json={"key": key, "value": value}), key)
        assert (setting["value"], setting["given"]) == (value, "file")
    http.post(SETTINGS, json={"key": "reranker.kind", "value": "keyword"})
    for settings in (served.engine.settings, load_settings()):
        assert (settings.answer.mode, settings.answer.k) == ("self-rag", 3)
        assert settings.answer.strict
        assert type(settings.reranker).__name__ == "KeywordReranking"
    assert http.get("/api/status").json()["libraries"][0]["mode"] == "self-rag"
    back = of(http.post(SETTINGS, json={"key": "answer.k", "value": None}), "answer.k")
    assert (back["value"], back["given"]) == (5, "default")
    assert "k =" not in settings_path().read_text()


def test_a_command_with_the_former_settings_is_no_longer_served(served: Served) -> None:
    folder = served.engine.library.directory
    libraries = Libraries([folder], lambda _: served.engine)
    former = setup_of(Settings(), folder)
    assert libraries.match(former) is served.engine
    libraries.change(lambda old: msgspec.structs.replace(old, answer=AnswerSettings(k=3)))
    assert libraries.match(former) == "settings"
    assert libraries.match(setup_of(served.engine.settings, folder)) is served.engine


def test_what_opens_the_network_or_names_a_place_is_not_changed_from_here(
    http: httpx.Client,
) -> None:
    keys = {setting["key"] for setting in http.get(SETTINGS).json()["settings"]}
    assert keys > set(CHANGEABLE)
    for key in (*sorted(keys - set(CHANGEABLE)), "no.such", "answer"):
        response = http.post(SETTINGS, json={"key": key, "value": "true"})
        assert response.status_code == 400
        assert "cannot be changed here" in response.json()["error"]["message"]
    assert not settings_path().exists()


def test_what_is_wrong_is_refused_and_written_nowhere(
    served: Served, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = served.engine.settings
    for key, value in (("answer.k", 0), ("answer.mode", "guess"), ("retrieval.k", "many")):
        response = http.post(SETTINGS, json={"key": key, "value": value})
        assert response.status_code >= 400
        assert str(settings_path()) not in response.text
    monkeypatch.setenv("LOCALRAG_ANSWER_K", "9")
    fixed = http.post(SETTINGS, json={"key": "answer.k", "value": 3})
    assert "LOCALRAG_ANSWER_K" in fixed.json()["error"]["message"]

    def missing(*_: object) -> None:
        raise ModelNotFoundError("There is none.", hint="Pull one.")

    monkeypatch.setattr(served.engine, "reranking", missing)
    unpulled = http.post(SETTINGS, json={"key": "reranker.kind", "value": "cross-encoder"})
    assert unpulled.status_code == 503
    assert not settings_path().exists()
    assert served.engine.settings == before
    settings_path().write_text("answer = 3", encoding="utf-8")
    broken = http.get(SETTINGS)
    assert broken.status_code == 503
    assert str(settings_path()) not in broken.text


@pytest.mark.parametrize(
    ("locale", "scheme", "width"), [("en-US", "light", 1280), ("zh-CN", "dark", 390)]
)
def test_the_page_changes_them_and_shows_what_is_fixed(
    opened: Open, monkeypatch: pytest.MonkeyPatch, locale: str, scheme: str, width: int
) -> None:
    monkeypatch.setenv("LOCALRAG_RETRIEVAL_K", "10")
    at = opened(locale, scheme, width)
    page, chinese = at.page, locale == "zh-CN"
    page.get_by_role("button", name="设置" if chinese else "Settings", exact=True).click()
    row = page.locator(".setting").nth(0)
    expect(row.locator(".origin")).to_contain_text("默认" if chinese else "Default")
    row.locator("select").select_option("self-rag")
    expect(row.locator(".origin")).to_contain_text("设置文件" if chinese else "Settings file")
    fixed = page.locator(".setting", has_text="LOCALRAG_RETRIEVAL_K")
    expect(fixed.locator("input")).to_be_disabled()
    at.is_accessible()
    assert at.served.engine.settings.answer.mode == "self-rag"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="提问" if chinese else "Ask", exact=True).first.click()
    expect(page.locator(".ask select")).to_have_value("self-rag")
    assert at.wrong == []
