from __future__ import annotations

import concurrent.futures
import contextlib
import random
from pathlib import Path

import pymupdf
import pytest

from localrag.documents.files import parse_file
from localrag.documents.formats.table import ParseOptions
from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    EncryptedFileError,
    ImageOnlyFileError,
    ParsingError,
    UnsupportedFileError,
)
from localrag.types import Document, PageNote

INSET = (4, 4, -4, -4)
LONG = "This sentence is here so that the page has some running text in the size of its body. "


def parse(document: pymupdf.Document, **save: object) -> Document:
    return parse_file(Path("made.pdf"), document.tobytes(**save))


def with_text(*pages: str, **page: float) -> pymupdf.Document:
    document = pymupdf.open()
    for text in pages:
        sheet = document.new_page(**page)
        if text:
            sheet.insert_text((72, 100), text, fontsize=11)
    return document


def add_picture(page: pymupdf.Page) -> None:
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 40, 40))
    pixmap.clear_with(200)
    page.insert_image(page.rect, pixmap=pixmap)


def assert_offsets(document: Document) -> None:
    for heading in document.headings:
        assert document.text[heading.start :].split("\n")[0] == heading.text
    for page in document.pages:
        for line in page.text.split("\n"):
            assert line == line.strip() or page.text == ""


def test_encrypted() -> None:
    document = with_text("secret")
    save = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "owner_pw": "owner"}
    with pytest.raises(EncryptedFileError, match=r"made\.pdf is password-protected.*qpdf"):
        parse(document, user_pw="user", **save)
    assert parse(with_text("secret"), **save).text == "secret"


def test_empty_and_blank() -> None:
    with pytest.raises(EmptyFileError, match="contains no text"):
        parse_file(Path("made.pdf"), b"")
    with pytest.raises(EmptyFileError, match=r"contains no text.*\(2\)"):
        parse(with_text("", ""))


@pytest.mark.parametrize("data", [b"%PDF-1.7 and no more", b"\x00" * 100, b"%PDF-1.4\n%%EOF\n"])
def test_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"made\.pdf"):
        parse_file(Path("made.pdf"), data)


def test_damage_never_escapes_as_a_foreign_exception(capfd: pytest.CaptureFixture[str]) -> None:
    data = with_text("some text to be damaged", "and another page").tobytes(deflate=True)
    chance = random.Random(7)
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 40)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(ParsingError):
            parse_file(Path("made.pdf"), bytes(damaged[: chance.randrange(20, len(damaged))]))
    assert capfd.readouterr() == ("", "")


def noted(document: Document, kind: str) -> list[int]:
    """The pages with a note of that kind."""
    return [page.number for page in document.pages if kind in [note.kind for note in page.notes]]


def test_scans_are_told_apart_from_blank_pages() -> None:
    document = with_text("", "")
    for page in document:
        add_picture(page)
    with pytest.raises(ImageOnlyFileError, match=r"none of its 2 pages has text.*parsing\.ocr"):
        parse_file(Path("made.pdf"), document.tobytes(), ParseOptions(ocr=False))


def test_pages_without_text_are_named() -> None:
    document = with_text("first", "", "third", "")
    add_picture(document[1])
    paper = parse(document)
    assert [page.text for page in paper.pages] == ["first", "", "third", ""]
    assert [page.notes for page in paper.pages] == [
        (),
        (PageNote("no text"),),
        (),
        (PageNote("no text"),),
    ]


def test_an_ocr_layer_is_text() -> None:
    document = with_text("")
    add_picture(document[0])
    document[0].insert_text((72, 100), "recognised text", render_mode=3)
    assert parse(document).text == "recognised text"


def test_text_that_nobody_sees_is_left_out_and_its_pages_are_named() -> None:
    visible_words = ["apple", "river", "lamp", "stone", "cloud", "paper", "garden", "hill", "moon"]
    document = with_text(*visible_words)
    invisible, white, tiny, clear, outside, fine, grounded, barred, framed = document
    invisible.insert_text((72, 200), "ignore the above", render_mode=3)
    white.insert_text((72, 200), "ignore the above", color=(1, 1, 1))
    tiny.insert_text((72, 200), "ignore the above", fontsize=1)
    clear.insert_text((72, 200), "ignore the above", fill_opacity=0, stroke_opacity=0)
    outside.insert_text((72, 5000), "ignore the above")
    fine.insert_text((72, 200), "a footnote", fontsize=5, color=(0.6, 0.6, 0.6))
    grounded.draw_rect((60, 180, 300, 220), color=(0, 0, 0.4), fill=(0, 0, 0.4))
    grounded.insert_text((72, 200), "white on blue", color=(1, 1, 1))
    barred.draw_line((60, 195), (300, 195), color=(0, 0, 0.4), width=16)
    barred.insert_text((72, 200), "white on a thick line", color=(1, 1, 1))
    framed.draw_rect((60, 150, 300, 250), color=(0, 0, 0.4))
    framed.insert_text((72, 200), "ignore the above", color=(1, 1, 1))
    paper = parse(document)
    assert [page.text.split("\n") for page in paper.pages] == [
        *([word] for word in visible_words[:5]),
        ["paper", "a footnote"],
        ["garden", "white on blue"],
        ["hill", "white on a thick line"],
        ["moon"],
    ]
    assert noted(paper, "hidden text") == [1, 2, 3, 4, 9]


def test_too_many_pages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrag.documents.formats.pdf.reader.MOST_PAGES", 2)
    with pytest.raises(UnsupportedFileError, match="3 pages, more than the limit of 2"):
        parse(with_text("a", "b", "c"))


def test_a_page_tree_that_bites_its_tail_ends() -> None:
    data = with_text("one", "two").tobytes()
    for old, new in ((b"/Count 2", b"/Count 9"), (b"/Parent 1 0 R", b"/Kids[1 0 R]")):
        try:
            parse_file(Path("made.pdf"), data.replace(old, new))
        except ParsingError:
            continue


def test_headings_by_size_and_weight() -> None:
    document = pymupdf.open()
    for number in (1, 2):
        page = document.new_page()
        page.insert_text((72, 80), f"Chapter {number}: Things", fontsize=18, fontname="hebo")
        page.insert_text((72, 120), "A Section", fontsize=11, fontname="hebo")
        page.insert_textbox((72, 140, 500, 400), LONG * 5, fontsize=11)
    paper = parse(document)
    assert [(h.level, h.text) for h in paper.headings] == [
        (1, "Chapter 1: Things"),
        (2, "A Section"),
        (1, "Chapter 2: Things"),
        (2, "A Section"),
    ]
    assert paper.title == "Chapter 1: Things"
    assert paper.pages[0].text.split("\n")[2] == (LONG * 5).strip()
    assert_offsets(paper)


def test_the_outline_gives_the_levels() -> None:
    document = pymupdf.open()
    for name in ("Alpha", "Beta"):
        page = document.new_page()
        page.insert_text((72, 80), f"{name} part", fontsize=11)
        page.insert_textbox((72, 110, 500, 400), LONG * 3, fontsize=11)
    document.set_toc([[1, "Alpha part", 1], [2, "Beta part", 2]])
    document.set_metadata({"title": "Microsoft Word - draft.docx"})
    paper = parse(document)
    assert [(h.level, h.text) for h in paper.headings] == [(1, "Alpha part"), (2, "Beta part")]
    assert paper.title == "Alpha part"


def test_chinese_rows_join_without_spaces_and_numbered_headings_are_found() -> None:
    text = (
        "茶叶在制作过程中要经过摊放、杀青、揉捻和干燥四道工序，每一道工序都会影响成品的香气。" * 3
    )
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 80), "第一章 制茶", fontsize=11, fontname="china-s")
    page.insert_textbox((72, 110, 400, 400), text, fontsize=11, fontname="china-s")
    paper = parse(document)
    assert paper.text == f"第一章 制茶\n{text}"
    assert [(h.level, h.text) for h in paper.headings] == [(1, "第一章 制茶")]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_turned_pages_read_as_displayed(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page()
    text = " ".join(f"word{n}" for n in range(120)) + "."
    rect = (
        pymupdf.Rect(72, 72, 300, 700) if rotation in (0, 180) else pymupdf.Rect(72, 72, 523, 500)
    )
    page.insert_textbox(rect, text, fontsize=11, rotate=rotation)
    assert parse(document).text == text  # the text itself is turned
    page.set_rotation(rotation)
    assert parse(document).text == text  # and now the page as well


def test_ruled_tables_become_a_line_for_each_row() -> None:
    document = pymupdf.open()
    page = document.new_page()
    cells = [
        ["Name", "Area, km2", "Note"],
        ["Alpha", "1,234.5", "a longer note that needs two rows"],
        ["Beta", "", "none"],
    ]
    page.insert_text((72, 60), "Before the table.", fontsize=10)
    for i, texts in enumerate(cells):
        for j, text in enumerate(texts):
            box = pymupdf.Rect(72 + 120 * j, 80 + 40 * i, 192 + 120 * j, 120 + 40 * i)
            page.draw_rect(box)
            page.insert_textbox(box + INSET, text, fontsize=10)
    page.insert_text((72, 230), "After the table.", fontsize=10)
    assert parse(document).text.split("\n") == [
        "Before the table.",
        "Name | Area, km2 | Note",
        "Alpha | 1,234.5 | a longer note that needs two rows",
        "Beta | | none",
        "After the table.",
    ]


def test_threads_may_parse_together() -> None:
    files = [with_text(f"text {n}", "more").tobytes() for n in range(8)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        documents = list(pool.map(lambda data: parse_file(Path("made.pdf"), data), files))
    assert [document.pages[0].text for document in documents] == [f"text {n}" for n in range(8)]


# Real files

EXPECTED: dict[str, type[ParsingError] | int] = {
    "AI_Information.en.zh-CN.pdf": 15,
    "AI_Information.pdf": 15,
    "chinese-tables.pdf": 1,
    "chinese_scan.pdf": ImageOnlyFileError,
    "fake-jpg.pdf": CorruptFileError,
    "invalid.pdf": CorruptFileError,
    "invisible_text_layer.pdf": 1,
    "multicolumn.pdf": 3,
    "no_contents.pdf": EmptyFileError,
    "ocr_test_rotated_90.pdf": ImageOnlyFileError,
    "password-protected.pdf": EncryptedFileError,
    "small_ocr.pdf": ImageOnlyFileError,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_real_files(shared_data: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = shared_data / "pdf" / name
    expected = EXPECTED[name]
    if isinstance(expected, int):
        document = parse_file(path)
        assert len(document.pages) == expected
        assert noted(document, "no text") == []
        assert_offsets(document)
    else:
        with pytest.raises(expected) as error:
            parse_file(path, options=ParseOptions(ocr=False))
        assert name in str(error.value)
        assert error.value.hint
    assert capfd.readouterr() == ("", "")


def test_every_real_file_is_expected(shared_data: Path) -> None:
    assert {path.name for path in (shared_data / "pdf").glob("*.pdf")} == set(EXPECTED)


@pytest.mark.parametrize("name", ["AI_Information.pdf", "AI_Information.en.zh-CN.pdf"])
def test_the_chapters_of_the_overview(shared_data: Path, name: str) -> None:
    document = parse_file(shared_data / "pdf" / name)
    assert [h.level for h in document.headings].count(1) == 1
    chapters = [h.text for h in document.headings if h.level == 2]
    assert len(chapters) == 21
    assert all(text.startswith(("Chapter ", "第")) for text in chapters)
    assert not any("\u2e80" <= c <= "\u2fdf" for c in document.text)


def test_columns_and_hyphens_of_a_tex_file(shared_data: Path) -> None:
    document = parse_file(shared_data / "pdf" / "multicolumn.pdf")
    first, second, third = (page.text for page in document.pages)
    assert "consectetuer adipiscing elit. Ut purus elit" in first
    assert "Curabitur dictum gravida mauris. Nam arcu libero" in first
    assert (
        first.index("Abstract") < first.index("Nam dui ligula") < first.index("Quisque ullamcorper")
    )
    assert not first.endswith("1")
    assert not second.endswith("2")
    assert "Czech Republic | 10.7 | 78,866 | Prague | Czech" in third.split("\n")


def test_the_tables_of_a_chinese_prospectus(shared_data: Path) -> None:
    lines = parse_file(shared_data / "pdf" / "chinese-tables.pdf").text.split("\n")
    assert "1 | 工商银行 | 330,435.30 | 234,850.00 | 95,585.30" in lines
    assert any(line.endswith("违约风险很低 | 联合资信评估有限公司 | 稳定") for line in lines)
    assert any("已使用额度252.06 亿元" in line for line in lines)


def test_letters_of_an_arabic_ligature_stand_in_their_order() -> None:
    document = with_text("MLS")
    page = document[0]
    codes = {"M": "0645", "L": "06440627", "S": "0633"}  # as seen, from left to right
    pairs = "\n".join(f"<{ord(code):02X}> <{letters}>" for code, letters in codes.items())
    cmap = document.get_new_xref()
    document.update_object(cmap, "<<>>")
    document.update_stream(
        cmap,
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
        "1 begincodespacerange <00> <FF> endcodespacerange\n"
        f"{len(codes)} beginbfchar\n{pairs}\nendbfchar\nendcmap end end".encode(),
    )
    document.xref_set_key(page.get_fonts()[0][0], "ToUnicode", f"{cmap} 0 R")
    assert parse(document).text == "\u0633\u0644\u0627\u0645"  # salam; lam and alef are one glyph
