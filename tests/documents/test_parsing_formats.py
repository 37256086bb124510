from __future__ import annotations

import encodings.aliases
import io
import pkgutil
import socket
import textwrap
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import docx
import pymupdf
import pytest

from localrag.documents.files import parse_file
from localrag.errors import EmptyFileError
from localrag.text.titles import bounded_title
from localrag.types import Document


def assert_offsets(document: Document) -> None:
    for heading in document.headings:
        assert document.text[heading.start :].split("\n")[0] == heading.text


MARKDOWN = """\
---
author: nobody
title: "The tea book"
---
# Tea *and* water

Leaves are picked in [spring](https://example.com/x)
and `dried`.
茶叶在春天
采摘。

- first
  item
- second
  1. inner one
  2. inner two

```python
def f():

    return 1
```

| Grade | kg |
|---|---|
| 特级 | 86 |

Second part
===========
<div>raw <b>html</b><script>no()</script></div>

line one\\
line two ![a leaf](leaf.png)
"""


def test_markdown() -> None:
    document = parse_file(Path("tea.md"), MARKDOWN.encode())
    assert document.title == "The tea book"
    assert document.text.split("\n") == [
        "Tea and water",
        "Leaves are picked in spring and dried. 茶叶在春天采摘。",
        "- first item",
        "- second",
        "1. inner one",
        "2. inner two",
        "def f():",
        "    return 1",
        "Grade | kg",
        "特级 | 86",
        "Second part",
        "raw html",
        "line one",
        "line two a leaf",
    ]
    assert [(h.level, h.text) for h in document.headings] == [
        (1, "Tea and water"),
        (1, "Second part"),
    ]
    assert_offsets(document)
    assert len(document.pages) == 1


def test_markdown_without_text() -> None:
    with pytest.raises(EmptyFileError, match=r"tea\.md"):
        parse_file(Path("tea.md"), b"[x]: http://example.com\n")


HTML = """\
<!doctype html><html><head><title>茶 &amp; 水</title><meta charset="gb2312">
<style>p { color: red }</style></head><body>
<nav><a href=/>Home</a></nav><header><h1>大 <b>标题</b></h1></header>
<p>First <b>bold</b>
   text<br>after a break <script>alert(1)</script>end</p>
<ul><li>one<li><p>two</p><ul><li>inner</ul></ul><ol><li>x<li>y</ol>
<table><tr><th>A<th>B</tr><tr><td>1<td><p>2</p><p>3</p></table>
<pre>def f():
    return 1</pre><h3>Third</h3>bare
<div hidden>hidden</div><p style="display:none">hidden too</p>
<img src="http://example.com/x.png" alt="a picture"><iframe src="http://example.com"></iframe>
<footer>imprint</footer><!-- comment --></body></html>
"""


def test_html(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("parsing opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    document = parse_file(Path("tea.html"), HTML.encode("gb18030"))
    assert document.title == "茶 & 水"
    assert document.text.split("\n") == [
        "大 标题",
        "First bold text",
        "after a break end",
        "- one",
        "- two",
        "- inner",
        "1. x",
        "2. y",
        "A | B",
        "1 | 2 3",
        "def f():",
        "    return 1",
        "Third",
        "bare",
        "a picture",
    ]
    assert [(h.level, h.text) for h in document.headings] == [(1, "大 标题"), (3, "Third")]
    assert_offsets(document)


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "big5", "utf-16"])
def test_html_with_a_wrong_or_missing_charset(encoding: str) -> None:
    text = "茶園位於山的東坡，春茶從三月開始採摘，四月以前結束。"
    for declared in ("", "<meta charset=utf-8>", "<meta charset=nonsense>"):
        html = f"<html><head>{declared}</head><body><p>{text}</p></body></html>"
        assert parse_file(Path("a.html"), html.encode(encoding)).text == text


def test_html_nested_without_end() -> None:
    html = "<div>" * 20_000 + "the text inside" + "<table><tr><td>" * 3_000 + "deep"
    text = parse_file(Path("a.html"), html.encode()).text
    assert "the text inside" in text
    assert "deep" in text


def test_html_without_text() -> None:
    with pytest.raises(EmptyFileError, match="other than scripts"):
        parse_file(Path("a.html"), b"<html><script>render()</script><nav>menu</nav></html>")


PROSE = (
    "It was decided in the spring that the glasshouse would be rebuilt from the ground, and "
    "that its nine hundred kinds of fern would spend the winter in the old riding school. "
) * 2
CHINESE = "茶园位于山的东坡，海拔三百米，春茶从三月下旬开始采摘，雨天和露水未干时不采。" * 4


def plain(text: str) -> list[str]:
    return parse_file(Path("a.txt"), text.encode()).text.split("\n")


def test_hard_wrapped_paragraphs_are_mended() -> None:
    prose = PROSE.strip()
    wrapped = textwrap.fill(prose, 72)
    assert plain(f"{wrapped}\n\n{wrapped}\n") == [prose, prose]
    rows = "\r\n".join(CHINESE[n : n + 36] for n in range(0, len(CHINESE), 36))
    assert plain(rows) == [CHINESE]


def test_lists_verse_and_code_stay_beside_wrapped_paragraphs() -> None:
    text = textwrap.fill(PROSE.strip(), 72)
    item = textwrap.fill("- " + PROSE.strip(), 72, subsequent_indent="  ")
    verse = "Roses are red\nviolets are blue"
    code = "    for leaf in leaves:\n        dry(leaf)"
    assert plain(f"{text}\n\n{item}\n- short\n\n{verse}\n\n{code}\n") == [
        PROSE.strip(),
        "- " + PROSE.strip(),
        "- short",
        *verse.split("\n"),
        *code.split("\n"),
    ]


def test_unwrapped_text_keeps_its_lines() -> None:
    poem = "床前明月光\n疑是地上霜\n举头望明月\n低头思故乡"
    assert plain(poem) == poem.split("\n")
    assert plain(f"{PROSE.strip()}\n{PROSE.strip()}") == [PROSE.strip()] * 2


def test_form_feeds_are_page_breaks() -> None:
    document = parse_file(Path("a.txt"), b"one\fleft\n\fthree\n\f")
    assert [(page.number, page.text) for page in document.pages] == [
        (1, "one"),
        (2, "left"),
        (3, "three"),
    ]


@pytest.mark.parametrize(
    "style",
    [
        "opacity:0",
        "opacity: 0.0;",
        "font-size:0",
        "font-size: 1px",
        "font-size:0.5pt",
        "text-indent:-9999px",
        "position:absolute;left:-5000px",
        "visibility: hidden",
    ],
)
def test_html_that_nobody_sees_is_left_out(style: str) -> None:
    page = f"<p>seen</p><p style='{style}'>ignore the above</p>".encode()
    assert parse_file(Path("a.html"), page).text == "seen"


@pytest.mark.parametrize(
    "style", ["opacity:0.5", "font-size:12px", "font-size:1em", "font-size:1.2em", "left:-5px"]
)
def test_html_that_is_seen_stays(style: str) -> None:
    page = f"<p>seen</p><p style='{style}'>seen too</p>".encode()
    assert parse_file(Path("a.html"), page).text == "seen\nseen too"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_escape_sequences_do_not_reach_the_text(name: str) -> None:
    text = parse_file(Path(name), "<p>red \x1b[31m\x07 \x9b2J \u202e end</p>".encode()).text
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "red" in text
    assert "end" in text


_CODECS = sorted(
    {*encodings.aliases.aliases, *encodings.aliases.aliases.values()}
    | {module.name for module in pkgutil.iter_modules(encodings.__path__)}
    | {"utf-7", "UTF-7", "unicode-1-1-utf-7", "csUnicode11UTF7", "x-user-defined", "undefined"}
)
_DISGUISED = r"plain +ADw-b+AD4- \u0041\x41\101 =41=42 ~{VPND~} xn--fiqs8s uryyb aGk= 6869"


@pytest.mark.parametrize(
    "tag",
    [
        "<meta charset={0}>",
        "<META CHARSET = '{0}'>",
        '<meta http-equiv="Content-Type" content="text/html; charset={0}">',
    ],
)
def test_a_page_says_what_a_browser_shows_whatever_encoding_it_declares(tag: str) -> None:
    assert len(_CODECS) > 300
    for name in _CODECS:
        page = f"<html><head>{tag.format(name)}</head><body><p>{_DISGUISED}</p></body></html>"
        assert parse_file(Path("a.html"), page.encode("ascii")).text == _DISGUISED, name


@pytest.mark.parametrize(
    ("declaration", "shown"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("<meta charset=latin1>", "cp1252"),
        ("<meta charset=US-ASCII>", "cp1252"),
        ("<meta charset=ISO-8859-9>", "cp1254"),
        ("<meta charset=windows-1251>", "cp1251"),
        ("<meta charset=koi8-r>", "koi8-r"),
        ("<meta charset=shift_jis>", "cp932"),
        ("<meta charset=euc-kr>", "cp949"),
        ("<!-- <meta charset=windows-1251> --><meta charset=koi8-r>", "koi8-r"),
        ("<meta charset=koi8-r><meta charset=windows-1251>", "koi8-r"),
        ("<meta name=description content='charset=windows-1251'><meta charset=koi8-r>", "koi8-r"),
    ],
)
def test_the_encoding_that_a_browser_takes(declaration: str, shown: str) -> None:
    data = bytes(range(0xC0, 0xE0, 2)) + b" " + bytes([0xB1, 0xB2])
    page = declaration.encode() + b"<p>" + data + b"</p>"
    assert parse_file(Path("a.html"), page).text == data.decode(shown)


def test_what_nests_deeper_than_in_a_browser_is_text_of_what_is_above() -> None:
    page = "<div>" * 3000 + "inside" + "</div>" * 3000 + "<h1>Head</h1><p>after</p>"
    document = parse_file(Path("a.html"), page.encode())
    assert document.text == "inside\nHead\nafter"
    assert [heading.text for heading in document.headings] == ["Head"]
    script = "<script>" + "'<div>'" * 3000 + "</script><!--" + "<b>" * 3000 + "--><h1>Head</h1>"
    drawing = "<svg>" + "<path/>" * 3000 + "</svg><ul><li>one<li>two</ul>"
    text = parse_file(Path("a.html"), (script + drawing).encode()).text
    assert text == "Head\n- one\n- two"


def test_a_long_paragraph_of_markdown_is_read_in_pieces() -> None:
    line = "some *words* with [a link](/u) and `code`\n"
    text = parse_file(Path("a.md"), (line * 2000).encode()).text
    assert text == " ".join(["some words with a link and code"] * 2000)
    references = "see [here] " * 3 + "\n\n[here]: /u\n"
    assert parse_file(Path("a.md"), references.encode()).text == "see here see here see here"


def test_a_heading_of_a_thousand_characters_is_text() -> None:
    page = f"<h1>{'long ' * 300}</h1><h2>Short</h2><p>text</p>"
    document = parse_file(Path("a.html"), page.encode())
    assert [heading.text for heading in document.headings] == ["Short"]
    assert document.title == "Short"


def _mail(title: str) -> bytes:
    mail = EmailMessage()
    mail["Subject"] = title
    mail.set_content("The glass house.")
    return bytes(mail)


def _word(title: str) -> bytes:
    word, stream = docx.Document(), io.BytesIO()
    word.add_paragraph("The glass house.")
    word.save(stream)
    changed = io.BytesIO()
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            core = f'<c xmlns:d="x"><d:title>{title}</d:title></c>'
            new.writestr(name, core if name == "docProps/core.xml" else old.read(name))
    return changed.getvalue()


def _pdf(title: str) -> bytes:
    pdf = pymupdf.open()
    pdf.new_page().insert_text((50, 50), "The glass house.")
    pdf.set_metadata({"title": title})
    return bytes(pdf.tobytes())


@pytest.mark.parametrize(
    ("suffix", "make"),
    [
        (".html", lambda title: f"<title>{title}</title><p>The glass house.".encode()),
        (".md", lambda title: f"---\ntitle: {title}\n---\nThe glass house.".encode()),
        (".md", lambda title: f"# {title[:900].strip()}\n\nThe glass house.".encode()),
        (".eml", _mail),
        (".docx", _word),
        (".pdf", _pdf),
    ],
    ids=["html", "front matter", "heading", "mail", "word", "pdf"],
)
def test_a_title_is_bounded_whatever_the_format(suffix: str, make: Callable[[str], bytes]) -> None:
    title = "glass house opened when " * 900
    document = parse_file(Path(f"a{suffix}"), make(title))
    assert document.title == bounded_title(title)
    assert parse_file(Path(f"a{suffix}"), make("Glass houses")).title == "Glass houses"
