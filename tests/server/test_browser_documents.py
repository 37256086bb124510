"""The documents page in Chromium: adding many, finding one among many, reading what was read."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest
from library.library_fixtures import add, document
from playwright.sync_api import expect
from server.conftest import Served
from server.in_browser import Open

from localrag import factory
from localrag.server.documents import MOST

FOLDER = """async () => {
    const { filesOf } = await import("/static/adding.js");
    const file = (name) => ({ name, isFile: true, file: (take) => take(new File(["x"], name)) });
    const folder = (name, parts) => ({ name, isDirectory: true, createReader: () => {
        const left = [...parts, []];
        return { readEntries: (take) => take(left.shift()) };
    } });
    const dropped = folder("papers", [[file("a.txt"), file(".hidden")],
        [folder("inside", [[file("b.txt")]]), folder(".git", [[file("c.txt")]])]]);
    const items = [{ webkitGetAsEntry: () => dropped }];
    return (await filesOf({ items, files: [] })).map((one) => one.name);
}"""
DROP = """([...files]) => {
    const carried = new DataTransfer();
    for (const [name, text] of files) carried.items.add(new File([text], name));
    return carried;
}"""


def test_several_files_are_added_one_by_one_and_each_says_how_it_went(opened: Open) -> None:
    page = (at := opened()).page
    files = [["one.txt", "Elms."], ["two.pdf", "%PDF-1.4 nothing"], ["three.txt", "Oaks."]]
    page.dispatch_event("main", "drop", {"dataTransfer": page.evaluate_handle(DROP, files)})
    expect(page.locator(".adding [role=status]")).to_contain_text("2 of 3 files added, 1 failed")
    expect(page.locator(".adding .failed")).to_contain_text("two.pdf")
    expect(page.locator(".documents > li")).to_have_count(4)
    at.is_accessible()
    page.get_by_role("button", name="Clear the list").click()
    expect(page.locator(".adding li")).to_have_count(0)
    assert page.evaluate(FOLDER) == ["a.txt", "b.txt"]
    assert at.wrong == []


def test_a_long_list_is_drawn_in_parts_and_filtered(opened: Open, served: Served) -> None:
    for number in range(MOST):
        add(served.engine.library, document(f"Leaf {number}.", source=f"leaf-{number:03}.txt"))
    page = (at := opened("zh-CN", "dark", 390)).page
    page.get_by_role("button", name="文档", exact=True).click()
    rows = page.locator(".documents > li")
    expect(rows).to_have_count(MOST)
    page.get_by_role("button", name="显示更多").click()
    expect(rows).to_have_count(MOST + 2)
    expect(page.get_by_role("button", name="显示更多")).to_have_count(0)
    page.get_by_role("searchbox").first.fill("LEAF-007")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("leaf-007.txt")
    page.get_by_role("combobox", name="显示哪些文档").select_option("problems")
    expect(page.get_by_text("没有找到。")).to_be_visible()
    page.get_by_role("searchbox").first.fill("")
    expect(page.get_by_text("没有文档有问题。")).to_be_visible()
    at.is_accessible()


PAGES = ("The harbour of Elm was dug in 1732.", "It silted up in 1801.", "A lock was built.")


@pytest.mark.parametrize(
    ("locale", "scheme", "width"), [("en-US", "light", 1280), ("zh-CN", "dark", 390)]
)
def test_what_was_read_stands_beside_the_page(
    opened: Open,
    served: Served,
    tmp_path: Path,
    locale: str,
    scheme: str,
    width: int,
) -> None:
    path = tmp_path / "harbour.pdf"
    with pymupdf.open() as pdf:
        for text in PAGES:
            pdf.new_page(width=300, height=400).insert_text((30, 60), text)
        pdf[2].insert_text((30, 90), "Nobody sees this.", render_mode=3)
        pdf.save(path)
    engine = served.engine
    indexer = factory.make_indexer(engine.settings, engine.library, engine.embedder)
    assert not indexer.add([path]).failed
    (record,) = (entry for entry in engine.library.documents() if entry.sources == (str(path),))

    page = (at := opened(locale, scheme, width)).page
    page.locator("nav .tab").nth(1).click()
    row = page.locator(".documents > li", has_text="harbour.pdf")
    row.locator(".problem .source").click()  # to the page with the problem
    expect(page.locator(".reader .text")).to_have_text(PAGES[2])
    expect(page.locator(".reader h2")).to_be_focused()
    expect(page.locator(".reader .problem")).to_be_visible()
    expect(page.locator(".troubles .marker")).to_have_attribute("aria-current", "page")
    picture = page.locator(".reader img")
    expect(picture).to_have_js_property("complete", value=True)
    assert picture.evaluate("one => one.naturalWidth") > 1000
    at.is_accessible()
    navigation = page.locator(".reader nav button")
    expect(navigation.nth(1)).to_be_disabled()
    navigation.first.click()
    expect(page.locator(".reader .text")).to_have_text(PAGES[1])
    page.get_by_role("spinbutton").fill("1")
    page.keyboard.press("Enter")
    expect(page.locator(".reader .text")).to_have_text(PAGES[0])
    page.locator(".reader .text").evaluate(
        "one => getSelection().setBaseAndExtent(one.firstChild, 4, one.firstChild, 11)"
    )
    expect(picture).to_have_attribute(
        "src", f"/api/view.png?library=garden&document={record.id}&start=4&end=11"
    )
    if width == 390:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    expect(page.locator(f"#read-{record.id}")).to_be_focused()
    assert at.wrong == []
