"""Four times the input takes about four times as long, also where it is made to take more."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import docx
import pymupdf
import pytest
from counting import seconds

from localrag.documents.cards import card_of
from localrag.documents.chunking import SentenceChunker
from localrag.documents.files import parse_file
from localrag.documents.formats.pdf.layout import Block, TextRow, drop_running_text, paragraphs
from localrag.documents.formats.plain import unwrap
from localrag.documents.formats.recognise import actual
from localrag.documents.formats.table import format_of
from localrag.documents.lines import join, join_all
from localrag.text.normalize import clean, fold
from localrag.text.sentences import split_sentences

SMALL = 20_000


def assert_linear(work: Callable[[int], Callable[[], object]], small: int = SMALL) -> None:
    """Ten times for four times the size: 4 is linear, 16 quadratic.

    A pause of the machine is not the program's: what is quadratic is so each of three times.
    """
    pairs = []
    for _ in range(3):
        pairs.append((seconds(work(small)), seconds(work(4 * small))))
        first, then = pairs[-1]
        if then < max(0.5, 10 * first):
            return
    pytest.fail(", ".join(f"{first:.2f} s, then {then:.2f} s" for first, then in pairs))


def count(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


def added(suffix: str, text: str) -> Callable[[], object]:
    data = text.encode()

    def work() -> object:
        document = parse_file(Path(f"a{suffix}"), data)
        chunks = SentenceChunker(count, 480).chunk(document)
        assert max(len(chunk.text) for chunk in chunks) < 20_000
        return chunks

    return work


@pytest.mark.parametrize(
    "unit",
    ['a."b ', 'a."b', "b?) c", "真？）走", "1.", "x", "word ", "茶", ". ", "a-", "(a。", "\t ."],
)
@pytest.mark.parametrize("suffix", [".txt", ".md", ".html"])
def test_one_line_without_an_end(suffix: str, unit: str) -> None:
    assert_linear(lambda n: added(suffix, "b " + unit * (n // len(unit))))


@pytest.mark.parametrize("line", ["a" * 59 + "-\n", "- item\n", "a  \n", "a\f", "\n a\n"])
@pytest.mark.parametrize("suffix", [".txt", ".md", ".html"])
def test_lines(suffix: str, line: str) -> None:
    assert_linear(lambda n: added(suffix, line * (n // len(line))))


_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_M = "http://schemas.openxmlformats.org/officeDocument/2006/math"


@pytest.mark.parametrize(
    "run",
    [
        "<w:r><w:t>a</w:t></w:r>",
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>a</w:t></w:r><w:r><w:t>b</w:t></w:r>",
        "<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>",
        "<m:oMathPara><m:oMath><m:r><m:t>a</m:t></m:r></m:oMath></m:oMathPara>",
        '<w:bookmarkStart w:id="1" w:name="a"/><w:r><w:t>a</w:t></w:r>',
    ],
    ids=["plain", "hidden", "bold", "formulas", "bookmarks"],
)
def test_a_paragraph_of_many_runs(run: str) -> None:
    def work(n: int) -> Callable[[], object]:
        document = docx.Document()
        document.add_paragraph("first")
        stream = io.BytesIO()
        document.save(stream)
        body = f'<w:document xmlns:w="{_W}" xmlns:m="{_M}"><w:body><w:p>{run * n}</w:p>'
        archive = io.BytesIO()
        with zipfile.ZipFile(stream) as old, zipfile.ZipFile(archive, "w") as new:
            for name in old.namelist():
                text = f"{body}</w:body></w:document>" if name == "word/document.xml" else ""
                new.writestr(name, text or old.read(name))
        data = archive.getvalue()
        return lambda: parse_file(Path("a.docx"), data)

    assert_linear(work, 4000)


@pytest.mark.parametrize("word", ["word ", "茶"])
def test_lines_without_blank_ones(word: str) -> None:
    """Logs, say: 66 columns a line took 14 s at 4.8 MB, 49 at 9.7 and 213 at 19.5."""
    line = word * (65 // len(word.encode("gb18030")))
    assert_linear(lambda n: lambda: unwrap([line] * n), 15_000)
    assert unwrap([line] * 3) == [" ".join([line.strip()] * 3) if word.isascii() else line * 3]


@pytest.mark.parametrize(
    ("suffix", "make"),
    [
        (".md", lambda n: "".join(f"# h{i}\n" for i in range(n // 5))),
        (".md", lambda n: "# " + "a " * n + "\n\n" + "## b\n\nc\n\n" * (n // 20)),
        (".md", lambda n: "---\ntitle: a" + " " * n + "b\n---\ntext"),
        (".md", lambda n: "[" * n + " a"),
        (".md", lambda n: "![" * (n // 4) + "]" * (n // 4) + "()"),
        (".md", lambda n: "*a **b " * (n // 7)),
        (".md", lambda n: "a <!-- " * (n // 7)),
        (".md", lambda n: "".join(f"[r{i}]: /u\n" for i in range(n // 10)) + "\ntext"),
        (".md", lambda n: "|a|b|\n|-|-|\n" + "|some|text|\n" * (n // 12)),
        (".md", lambda n: "> " * (n // 2) + "\n\ntext"),
        (".html", lambda n: "<p>" + "<b>a</b>" * (n // 4)),
        (".html", lambda n: "<p style='opacity:" + "0" * n + "x'>a"),
        (".html", lambda n: "<p style='display" + " " * n + "x'>a"),
        (".html", lambda n: "<table>" + "<tr><td>a<td>b" * (n // 10)),
        (".html", lambda n: "<div>" * (4 * n) + "a"),
        (".html", lambda n: "<div>" * n + "</p>" * n + "a"),
        (".html", lambda n: "a" + "<div" * n),
        (".html", lambda n: "<ul><li>" * (n // 8) + "a"),
        (".html", lambda n: "".join(f"<h{i % 6 + 1}>a</h{i % 6 + 1}>" for i in range(n // 4))),
        (".txt", lambda n: "a" + " " * n + "b.c" * (n // 3)),
        (".txt", lambda n: "a" + "\u0300\u0327" * n + " b"),
    ],
)
def test_what_is_made_to_take_long(suffix: str, make: Callable[[int], str]) -> None:
    assert_linear(lambda n: added(suffix, make(n)))


@pytest.mark.parametrize(
    ("suffix", "make"),
    [
        (".csv", lambda n: "name,count\n" + "a tea,1\n" * (n // 8)),
        (".csv", lambda n: "a,b,c\n" + "x " * (n // 4) + ",1,2\n" + "y,3,4\n" * (n // 12)),
        (".csv", lambda n: (",".join(f"name {i}" for i in range(n // 60)) + "\n") * 6),
        (".csv", lambda n: "name\n" * 200 + ",".join("tea" for _ in range(n // 4))),
        (".html", lambda n: "<table>" + "<tr><th>a<th>b<tr><td>1<td>2" * (n // 28)),
        (".html", lambda n: "<table>" + "<tr><td rowspan=9999 colspan=999>a b<td>1" * (n // 42)),
        (".html", lambda n: "<table><tr><td>" * (n // 60) + "tea"),
        (".html", lambda n: "<table><tr><th>a<th>b<tr><td>1<td>2</table>" * (n // 43)),
        (".md", lambda n: "| a | b |\n| - | - |\n" + "| 1 | |\n" * (n // 8)),
    ],
)
def test_tables(suffix: str, make: Callable[[int], str]) -> None:
    assert_linear(lambda n: added(suffix, make(n)))


@pytest.mark.parametrize("blank", [" ", "\u3000"])
@pytest.mark.parametrize("cell", ["a|{}b", "{}|b"])
def test_a_bar_among_blanks_in_a_cell(cell: str, blank: str) -> None:
    def read(n: int) -> Callable[[], object]:
        blanks = cell.format(blank * (n // len(blank)))
        data = f"<table><tr><th>a<th>b<tr><td>1<td><pre>{blanks}</pre><tr><td>2<td>c</table>"
        return lambda: parse_file(Path("a.html"), data.encode())

    assert_linear(read)


def test_a_page_of_very_many_cells_is_given_up_in_time() -> None:
    document = pymupdf.open()
    page = document.new_page(width=600, height=4900)
    shape, writer = page.new_shape(), pymupdf.TextWriter(page.rect)
    for row in range(600):
        for column in range(6):
            box = pymupdf.Rect(20 + 90 * column, 20 + 8 * row, 110 + 90 * column, 28 + 8 * row)
            shape.draw_rect(box)
            writer.append((box.x0 + 2, box.y1 - 2), f"{column}.{row}", fontsize=6)
    shape.finish(width=0.5)
    shape.commit()
    writer.write_text(page)
    data = document.tobytes()
    assert seconds(lambda: parse_file(Path("a.pdf"), data)) < 10


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"<!---->" * 22 + b"<x", "text"),
        (b"<!---->" * 580 + b"<x", "text"),
        (b"<!--" + b"--><?xml " * 450 + b"<x", "text"),
        (b"<!---->" * 500 + b"<html>", "html"),
        (b"<?xml version='1.0'?>\n<!-- saved --> from <!-- it -->\n<?xml ?><Table>", "html"),
        (b"\xef\xbb\xbf\n<!-- <html> -->\n<!DOCTYPE  html>", "html"),
        (b"<!-- <html>", "text"),
    ],
)
def test_comments_before_a_page_that_is_named_as_one_of_office(start: bytes, name: str) -> None:
    """Twenty-two of them took 3 s, and each further one twice as long."""
    form = format_of("a.doc")
    assert form is not None
    assert actual(start, form, "a.doc").name == name
    assert seconds(lambda: actual(start, form, "a.doc")) < 0.1


def test_marks_on_a_character_are_bounded() -> None:
    assert_linear(lambda n: lambda: fold("a" + "\u0300\u0327" * n))
    marks = "\u0327" * 30
    assert len(clean("q" + marks)) == 31
    assert clean("q" + marks + "\u0327" * 5 + "b" + marks) == "q" + marks + "b" + marks


def test_sentences_that_do_not_end() -> None:
    assert_linear(lambda n: lambda: split_sentences('x."y' * n))
    text = 'He said "no." "Yes." (Really?) 1.1. Then "a."b went. “好。”他说。'
    assert [text[a:b] for a, b in split_sentences(text)] == [
        'He said "no."',
        '"Yes."',
        "(Really?)",
        '1.1. Then "a."b went.',
        "“好。”",
        "他说。",
    ]


def rows(count: int, text: str) -> list[TextRow]:
    return [TextRow(text, 50, 14.0 * n, 540, 14.0 * n + 12, 11, bold=False) for n in range(count)]


def test_rows_of_a_page() -> None:
    line = "and so it goes on from row to row without a stop of any kind here"
    assert_linear(lambda n: lambda: paragraphs([Block(rows(n // 4, line))], ()))
    numbers = " ".join(["1", "22"] * 4)
    assert_linear(lambda n: lambda: drop_running_text([[Block(rows(1, numbers * (n // 8)))]] * 3))


def test_lines_join_as_two_at_a_time_do() -> None:
    lines = [
        "well-",
        "known",
        "exam-",
        "ple 茶",
        "園",
        "2019-",
        "20",
        " x",
        "y ",
        "cost -",
        "z",
    ] * 80
    plain = ""
    for count, line in enumerate(lines, start=1):
        plain = join(plain, line, {"well-known"})
        assert join_all(lines[:count], {"well-known"}) == plain


@pytest.mark.parametrize(
    "unit",
    [
        "/",
        "A",
        "A-",
        "A ",
        "A/",
        "1/",
        "12/",
        "A1-",
        "A1/",
        "（",
        "公司",
        "from: ",
        "one ",
        "June 1, ",
    ],
)
def test_the_card_of_a_long_title_name_or_beginning(unit: str) -> None:
    def work(n: int) -> Callable[[], object]:
        text = unit * (n // len(unit))
        return lambda: (card_of(text, "a.html", ""), card_of("", f"{text}.html", text))

    assert_linear(work, 5000)
