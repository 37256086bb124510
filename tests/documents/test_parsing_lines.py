from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from localrag.documents.files import parse_file
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, build, join, numbered_heading, words


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("an exam-", "ple of it", "an example of it"),
        ("a state-of-the-", "art method", "a state-of-the-art method"),
        ("a self-", "driving car", "a self-driving car"),
        ("the GPT-", "4 model", "the GPT-4 model"),
        ("1914-", "1918", "1914-1918"),
        ("the Franco-", "Prussian war", "the Franco-Prussian war"),
        ("a price -", "or none", "a price - or none"),
        ("two", "words", "two words"),
        ("人工智", "能研究", "人工智能研究"),
        ("人工智 ", " 能", "人工智能"),
        ("使用", "Transformer 模型", "使用Transformer 模型"),
        ("使用 ", "Transformer 模型", "使用 Transformer 模型"),
        ("他说：", "“你好”", "他说：“你好”"),
        ("", "x", "x"),
        ("x", "", "x"),
    ],
)
def test_join_mends_what_the_layout_broke(left: str, right: str, expected: str) -> None:
    assert join(left, right) == expected


def test_the_documents_own_words_decide_about_a_hyphen() -> None:
    vocabulary = words(["A turbo-charger is known.", "The underground line"])
    assert join("a turbo-", "charger", vocabulary) == "a turbo-charger"
    assert join("the under-", "ground", vocabulary) == "the underground"
    assert join("the high-", "way") == "the high-way"
    assert join("the high-", "way", words(["a highway"])) == "the highway"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("第三章 机器学习", 1),
        ("第 12 章：网络安全", 1),
        ("Chapter 4: Deep Learning", 1),
        ("第二节 方法", 2),
        ("二、授信情况", 2),
        ("第三章说明了这一点。", 0),
        ("Chapter and verse", 0),
        ("二、授信情况良好，", 0),
        ("第三部分是结论", 0),
    ],
)
def test_numbered_headings(text: str, level: int) -> None:
    assert numbered_heading(text) == level


def test_build_puts_headings_where_their_text_is() -> None:
    pages = [
        [Line("Title", 1), Line("Some text."), Line("")],
        [],
        [Line("第二章", 2), Line("𠀀 beyond the basic plane"), Line("Last", 3)],
    ]
    document = build(SourceFile("folder/file.pdf", b"bytes"), pages)
    assert document.id == hashlib.sha256(b"bytes").hexdigest()
    assert document.title == "Title"
    assert [page.number for page in document.pages] == [1, 2, 3]
    assert [heading.level for heading in document.headings] == [1, 2, 3]
    for heading in document.headings:
        assert document.text[heading.start :].split("\n")[0] == heading.text


def test_without_title_and_headings_the_file_name_is_the_title() -> None:
    assert build(SourceFile("a/报告.txt", b"x"), [[Line("text")]]).title == "报告"


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("# ⼾口\n\n这是简体的页面，用⼾很多。", ["户口", "这是简体的页面，用户很多。"]),
        ("# ⻓⼾\n\n這是繁體的頁面，用⼾很多。", ["長戶", "這是繁體的頁面，用戶很多。"]),
    ],
)
def test_radicals_of_a_document_take_its_script(text: str, mended: list[str]) -> None:
    document = parse_file(Path("⼾.md"), text.encode())
    assert document.text.split("\n") == mended
    assert document.headings[0].text == document.title == mended[0]
