"""Tables of documents: as events, saved by a name, as files, and in Chromium."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from library.library_fixtures import add, document
from openpyxl import load_workbook
from playwright.sync_api import Page, expect
from server.conftest import Served, streamed_events
from server.in_browser import Open

from localrag.tables.records import Column, SavedTable
from localrag.tables.saved import save_table

OPENED = {"question": "When was it opened?"}
WHETHER = {"question": "Does it have orchids?", "kind": "yes/no"}


@pytest.fixture
def houses(served: Served) -> Served:
    """Two more documents, in a folder of their own."""
    for name, year in (("palm", 1911), ("fern", 1923)):
        text = f"The {name} house was opened in {year}. It has {year - 1900} plants."
        source = f"/home/ada/park/houses/{name}.txt"
        add(served.engine.library, document(text, source=source), size=200)
    add(
        served.engine.library,
        document("The park has four gates.", source="/home/ada/park/gates.txt"),
        size=200,
    )
    return served


def told(http: httpx.Client, *columns: object, **fields: object) -> Iterator[tuple[str, Any]]:
    body = {"columns": columns, **fields}
    return streamed_events(http, "/api/tables", json=body)


def cells(events: list[tuple[str, Any]]) -> dict[tuple[int, int], dict[str, Any]]:
    """The cells as they are in the end."""
    return {
        (cell["row"], cell["column"]): cell
        for name, data in events
        if name == "cells"
        for cell in data["cells"]
    }


def test_each_document_is_asked_and_what_was_read_is_kept(houses: Served) -> None:
    with houses.client() as http:
        events = list(told(http, OPENED, WHETHER, patterns=["houses"]))
        again = list(told(http, OPENED, WHETHER, patterns=["houses"], kept_only=True))
    start = events[0][1] if events[0][0] == "begun" else events[1][1]
    assert [row["source"] for row in start["rows"]] == ["fern.txt", "palm.txt"]
    assert (start["cells"], start["kept"], start["left"]) == (4, 0, 4)
    assert "2 documents, 2 questions: 4 cells to read, about" in start["text"]
    grid = cells(events)
    assert grid[0, 1]["text"] == "yes"
    view = grid[0, 1]["citations"][0]["view"]
    assert view["document"] == start["rows"][0]["document"]
    assert grid[0, 1]["citations"][0]["cited"] == "fern.txt, p. 1"
    name, table = events[-1]
    assert name == "table"
    assert table["columns"][1]["totals"][-1] == "2 of 2 read; none undecided"
    assert again[0][0] == "begun"
    assert (again[0][1]["kept"], again[0][1]["left"]) == (4, 0)
    assert {at: cell["text"] for at, cell in cells(again).items()} == {
        at: cell["text"] for at, cell in grid.items()
    }
    assert "/home" not in json.dumps(events)


def test_a_file_of_it_has_citations_and_no_paths(houses: Served) -> None:
    with houses.client() as http:
        name = list(told(http, WHETHER, patterns=["houses"]))[-1][1]["name"]
        book = http.get(f"/api/tables/{name}.xlsx")
        texts = {end: http.get(f"/api/tables/{name}.{end}").text for end in ("csv", "html", "md")}
        chinese = http.get(f"/api/tables/{name}.csv", params={"language": "zh"}).text
        assert http.get(f"/api/tables/{name}.exe").status_code == 400
        assert http.get(f"/api/tables/{'0' * 16}.csv").status_code == 404
        assert httpx.get(f"{houses.url}/api/tables/{name}.csv").status_code == 401
        record = houses.engine.library.documents()[0]
        http.delete(f"/api/documents/{record.id}").raise_for_status()
        assert http.get(f"/api/tables/{name}.csv").status_code == 404  # it may have said it
    rows = list(load_workbook(io.BytesIO(book.content)).active.iter_rows(values_only=True))
    assert rows[1][:2] == ("fern.txt", "yes")
    assert rows[1][3] == "fern.txt, p. 1"
    for text in texts.values():
        assert "fern.txt" in text
        assert "/home" not in text
    assert "出处" in chinese


def test_what_was_stopped_goes_on(houses: Served) -> None:
    houses.llm.pieces, houses.llm.pause = [f"word{n} " for n in range(1000)], 0.05
    with houses.client() as http:
        events = told(http, WHETHER, OPENED, patterns=["houses"])
        assert next(name for name, _ in events if name == "cells")
        events.close()  # type: ignore[attr-defined]
    houses.llm.pieces, houses.llm.pause = ("It was opened ", "in 1923 [1]."), 0.001
    with houses.client() as http:
        parts = list(told(http, WHETHER, OPENED, patterns=["houses"], kept_only=True))
        assert parts[-1][1]["left"] > 0
        assert not parts[-1][1]["final"]
        events = list(told(http, WHETHER, OPENED, patterns=["houses"]))
    assert events[-1][1]["left"] == 0


def test_documents_are_chosen_by_folder_name_kind_and_words(houses: Served) -> None:
    with houses.client() as http:
        offered = http.get("/api/tables").json()
        assert {"name": "park/houses", "count": 2} in offered["folders"]
        assert offered["types"] == [{"name": "text", "count": 5}]

        def count(**choice: object) -> list[str]:
            reply = http.post("/api/tables/documents", json=choice).json()
            assert reply["total"] == 5
            assert reply["count"] == len(reply["names"])
            return sorted(reply["names"])

        assert len(count()) == 5
        assert count(patterns=["houses"]) == ["fern.txt", "palm.txt"]
        assert count(patterns=["houses/*pal*"]) == ["palm.txt"]
        assert count(words="gates") == ["gates.txt"]
        assert count(types=["pdf"]) == []
        nothing = http.post("/api/tables/documents", json={"patterns": ["/home/ada/*"]})
        assert nothing.status_code == 400  # a path is no name: nobody finds out about folders
        assert http.post("/api/tables/documents", json={"types": ["x"]}).status_code == 400
        (error,) = [data for name, data in told(http, OPENED, types=["pdf"]) if name == "error"]
    assert "None of 5 documents" in error["message"]


def test_a_table_is_saved_looked_at_again_and_removed(houses: Served) -> None:
    body = {"patterns": ["houses"], "columns": [WHETHER]}
    with houses.client() as http:
        assert http.post("/api/tables/saved/Häuser 1", json=body).json() == {"saved": "Häuser 1"}
        (offered,) = http.get("/api/tables").json()["saved"]
        assert (offered["name"], offered["patterns"]) == ("Häuser 1", ["houses"])
        first = list(told(http, saved="Häuser 1"))
        assert cells(first).keys() == {(0, 0), (1, 0)}
        text = "The rose house was opened in 1930."
        add(
            houses.engine.library,
            document(text, source="/home/ada/park/houses/rose.txt"),
            size=200,
        )
        start = next(data for name, data in told(http, saved="Häuser 1") if name == "begun")
        assert (start["kept"], start["left"]) == (2, 1)
        assert http.delete("/api/tables/saved/Häuser 1").json() == {"removed": "Häuser 1"}
        assert http.get("/api/tables").json()["saved"] == []
        assert http.delete("/api/tables/saved/Häuser 1").status_code == 400
        for wrong in ({"columns": []}, {"columns": [WHETHER], "patterns": ["/home/*"]}):
            assert http.post("/api/tables/saved/x", json=wrong).status_code == 400


def test_a_table_of_a_command_line_shows_no_paths_and_one_of_the_page_asks_by_names(
    houses: Served,
) -> None:
    library = houses.engine.library
    columns = (Column("Does it have orchids?", "yes/no"),)
    paths = ("home/ada/park/houses", "*/ada/park/*.txt")
    save_table(library, SavedTable("by paths", paths, columns, paths=True))
    save_table(library, SavedTable("by names", ("*ada*", "houses"), columns))
    with houses.client() as http:
        _, by_paths = http.get("/api/tables").json()["saved"]
        assert "ada" not in json.dumps(by_paths)
        assert by_paths["patterns"] == ["…/houses", "…/*.txt"]
        start = next(data for name, data in told(http, saved="by paths") if name == "begun")
        assert len(start["rows"]) == 3
        # No name has it, and the paths that do are not looked at.
        start = next(data for name, data in told(http, saved="by names") if name == "begun")
        assert len(start["rows"]) == 2


def test_a_document_that_is_removed_meanwhile_is_in_no_table(houses: Served) -> None:
    library = houses.engine.library
    removal = houses.llm.held = threading.Event()
    with houses.client() as http:
        events = []
        for name, _ in told(http, OPENED, patterns=["houses"]):
            events.append(name)
            if name == "begun":
                library.remove(sources=["/home/ada/park/houses/fern.txt"])
                removal.set()
        assert events[-1] == "error"
        assert "table" not in events


def test_one_of_a_list_is_chosen_and_nothing_else(houses: Served) -> None:
    column = {"question": "What is it?", "kind": "one of", "choices": ["a house", "a gate"]}
    with houses.client() as http:
        events = list(told(http, column, patterns=["houses"]))
        assert cells(events)[0, 0]["text"] == "a house"
        assert events[-1][1]["columns"][0]["totals"][0] == "a house 2; a gate 0"
        for choices in (["a"], ["a", "A "], ["a", "Unstated"], ["x" * 61, "y"], []):
            wrong = {**column, "choices": choices}
            assert http.post("/api/tables", json={"columns": [wrong]}).status_code == 400


def test_a_table_of_too_many_cells_is_refused(
    houses: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrag.server.bounds.MOST_CELLS", 4)
    with houses.client() as http:
        (_, error) = list(told(http, OPENED))[-1]
    assert "5 cells; the limit is 4" in error["message"]


def test_cells_that_cannot_be_kept_are_told_all_the_same(
    houses: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag.errors import LibraryError

    def full(*_: object, **__: object) -> None:
        raise LibraryError("{path} cannot be written: disk full.", path="/home/ada/x/catalogue")

    monkeypatch.setattr(houses.engine.library, "keep_cells", full)
    with houses.client() as http:
        events = list(told(http, WHETHER, patterns=["houses"]))
    (note,) = [data["text"] for name, data in events if name == "note"]
    assert "disk full" in note
    assert "/home" not in note
    assert events[-1][1]["final"]


WORDS = {
    "en-US": {
        "tab": "Table",
        "fill": "Fill the table",
        "stop": "Stop",
        "on": "Go on",
        "add": "Add a question",
        "not read": "(not read)",
        "save": "Save the table",
        "total": "2 of 2 read; none undecided",
    },
    "zh-CN": {
        "tab": "表格",
        "fill": "填写表格",
        "stop": "停止",
        "on": "继续",
        "add": "添加问题",
        "save": "保存表格",
        "total": "共 2 份，已读 2 份；没有悬而未决的",
    },
}


def ask_of_houses(page: Page, words: dict[str, str]) -> None:
    page.get_by_role("button", name=words["tab"], exact=True).click()
    page.locator(".table .fields select").select_option("park/houses")
    expect(page.locator(".table form [role=status]")).to_contain_text("2")
    page.locator("#column-0").fill("When was it opened?")
    page.locator("#kind-0").select_option("number")
    page.get_by_role("button", name=words["add"], exact=True).click()
    page.locator("#column-1").fill("Does it have plants?")


@pytest.mark.parametrize(
    ("locale", "scheme", "width"),
    [("en-US", "light", 1280), ("zh-CN", "dark", 1280), ("zh-CN", "light", 390)],
)
def test_a_table_is_filled_and_a_cell_opens_its_page(
    houses: Served, opened: Open, locale: str, scheme: str, width: int
) -> None:
    words = WORDS[locale]
    houses.llm.pieces = ("It was opened ", "in 1911 [1].")
    page = (at := opened(locale, scheme, width)).page
    ask_of_houses(page, words)
    at.is_accessible()
    page.get_by_role("button", name=words["fill"], exact=True).click()
    expect(page.locator(".cells tbody tr")).to_have_count(2)
    expect(page.locator(".cells tfoot")).to_contain_text(words["total"])
    at.is_accessible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    palm = page.locator(".cells tbody tr", has_text="palm.txt")
    palm.locator("td button").first.click()
    expect(page.locator(".viewer mark")).to_contain_text("opened in 1911")
    page.keyboard.press("Escape")

    page.locator("#rows-with").fill("palm")
    expect(page.locator(".cells tbody tr")).to_have_count(1)
    page.locator("#rows-with").fill("")
    first = page.locator(".cells tbody th").first
    expect(first).to_have_text("fern.txt")
    head = page.locator(".cells thead button").first
    head.click()
    head.click()
    expect(first).to_have_text("palm.txt")
    with page.expect_download() as download:
        page.locator(".table a[download='table.csv']").click()
    assert "palm.txt" in download.value.path().read_text("utf-8-sig")

    page.locator("#table-name").fill("Park")
    page.get_by_role("button", name=words["save"], exact=True).click()
    expect(page.locator(".saved li")).to_contain_text("Park")
    page.locator(".saved li button").first.click()
    expect(page.locator(".cells tfoot")).to_contain_text(words["total"])
    page.on("dialog", lambda dialog: dialog.accept())
    page.locator(".saved li button").last.click()
    expect(page.locator(".saved")).to_have_count(0)
    at.is_accessible()
    assert at.wrong == []


def test_a_table_is_stopped_and_goes_on(houses: Served, opened: Open) -> None:
    words = WORDS["en-US"]
    page = (at := opened()).page
    ask_of_houses(page, words)
    houses.llm.pieces, houses.llm.pause = [f"word{n} " for n in range(1000)], 0.05
    page.get_by_role("button", name=words["fill"], exact=True).click()
    expect(page.locator(".cells tbody tr")).to_have_count(2)
    page.get_by_role("button", name=words["stop"], exact=True).click()
    expect(page.locator(".table > [role=status]")).to_contain_text("Stopped.")
    expect(page.locator(".cells td").first).to_contain_text(words["not read"])
    expect(page.locator(".cells tfoot")).to_contain_text("not final")
    at.is_accessible()
    houses.llm.pieces, houses.llm.pause = ("It was opened ", "in 1911 [1]."), 0.001
    page.get_by_role("button", name=words["on"], exact=True).click()
    expect(page.locator(".cells tfoot")).to_contain_text(words["total"])
    assert at.wrong == []
