"""The page opened in Chromium, for tests of what a person does with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

if TYPE_CHECKING:
    from server.conftest import Served

TOKEN = "a-token-of-this-test-alone"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--host-resolver-rules=MAP evil.example 127.0.0.1"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of a module."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to run the page in")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        expect.set_options(timeout=60_000)  # of a slow machine
        yield chromium
        expect.set_options(timeout=5_000)
        chromium.close()


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """What axe-core finds wrong, and where."""
    results = Axe().run(page).response["violations"]
    return [
        (violation["id"], [node["html"] for node in violation["nodes"]]) for violation in results
    ]


@dataclass
class Opened:
    """The page, and what went wrong on it."""

    page: Page
    served: Served
    requests: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def ask(self, question: str) -> None:
        self.page.get_by_role("textbox").first.fill(question)
        self.page.keyboard.press("Enter")

    def is_accessible(self) -> None:
        faults = violations(self.page)
        assert not faults, faults


Open = Callable[..., Opened]


@pytest.fixture
def opened(browser: Browser, served: Served) -> Iterator[Open]:
    contexts = []

    def open_page(locale: str = "en-US", scheme: str = "light", width: int = 1280) -> Opened:
        context = browser.new_context(
            locale=locale,
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": width, "height": 800},
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        opening = Opened(context.new_page(), served)
        opening.page.on("request", lambda request: opening.requests.append(request.url))
        opening.page.on("pageerror", lambda error: opening.wrong.append(str(error)))
        opening.page.on(
            "console",
            lambda message: opening.wrong.append(message.text) if message.type == "error" else None,
        )
        opening.page.goto(f"{served.url}/#token={TOKEN}")
        expect(opening.page.locator(".guard")).to_be_visible()
        return opening

    yield open_page
    for context in contexts:
        context.close()


def drop(page: Page, name: str, text: str) -> None:
    """Drop a file as a person does who drags it from a folder."""
    transfer = page.evaluate_handle(
        """([name, text]) => {
            const carried = new DataTransfer();
            carried.items.add(new File([text], name, { type: "text/plain" }));
            return carried;
        }""",
        [name, text],
    )
    page.dispatch_event("main", "drop", {"dataTransfer": transfer})
