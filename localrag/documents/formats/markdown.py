"""Markdown, read with markdown-it-py (CommonMark with tables and strikethrough)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore, inline, text_join
from markdown_it.token import Token

from localrag.documents.decoding import decode
from localrag.documents.formats.html import html_lines
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, build, join_all, resolved, squeeze, table_lines
from localrag.errors import CorruptFileError
from localrag.text.normalize import clean
from localrag.types import Document

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_PIECE = re.compile(r"(?s:.{1,10000}\Z|.{1,10000}\n|.{1,10000})")
"""What is read at once of a paragraph: the time to read it grows faster than its length."""
_TITLE = re.compile(r"^title:(.*)$", re.MULTILINE)
_QUOTED = re.compile(r"""(["'])(.+)\1""")


def read(file: SourceFile) -> Document:
    """Read a Markdown file; raises what `decode` raises, EmptyFileError if nothing is left."""
    text = clean(decode(file))
    title = ""
    if matter := _FRONT_MATTER.match(text):
        if match := _TITLE.search(matter.group(1)):
            title = match.group(1).strip()
            quoted = _QUOTED.fullmatch(title)
            title = quoted.group(2) if quoted else title
        text = text[matter.end() :]
    try:
        lines = list(_lines(_Markdown(text)))
    except Exception as error:  # a parser of untrusted text: whatever goes wrong is the file
        raise CorruptFileError(
            "{source} cannot be read as Markdown ({reason}).",
            hint="Rename it to end in .txt to add it as plain text.",
            source=file.source,
            reason=squeeze(str(error)) or type(error).__name__,
        ) from error
    return build(file, [lines or [Line(squeeze(title), 1)]], title, unit="text")


class _Markdown:
    """The blocks of a text; what stands within them is read when it is asked for, and let go."""

    def __init__(self, text: str) -> None:
        self._markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._links: dict[str, Any] = {}
        self.blocks: list[Token] = []
        self._markdown.block.parse(text, self._markdown, self._links, self.blocks)

    def inline(self, content: str) -> Iterator[Token]:
        """The parts of a paragraph; of a long one, piece by piece."""
        for piece in _PIECE.findall(content):
            token = Token("inline", "", 0, content=piece, children=[])
            state = StateCore(piece, self._markdown, self._links, [token])
            inline(state)
            text_join(state)
            yield from token.children or ()


def _lines(markdown: _Markdown) -> Iterator[Line]:
    """Walk the flat tokens; list items begin with their marker, table rows hold their cells."""
    lists: list[int | None] = []  # the next number of each open list, None for bullets
    marker = ""
    level = 0
    table: list[list[str]] = []
    cells: list[str] | None = None
    for token in markdown.blocks:
        match token.type:
            case "heading_open":
                level = int(token.tag[1:])
            case "heading_close":
                level = 0
            case "bullet_list_open":
                lists.append(None)
            case "ordered_list_open":
                lists.append(int(token.attrs.get("start", 1)))
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
            case "list_item_open":
                number = lists[-1]
                marker = "- " if number is None else f"{number}. "
                if number is not None:
                    lists[-1] = number + 1
            case "table_open":
                table = []
            case "tr_open":
                cells = []
            case "tr_close":
                table.append([squeeze(resolved(cell)) for cell in cells or ()])
                cells = None
            case "table_close":
                yield from table_lines(table, 1)
            case "inline":
                parts = list(_inline(markdown.inline(token.content)))
                if cells is not None:
                    cells.append(" ".join(parts))
                    continue
                if level:
                    parts = [" ".join(parts)]
                for part in parts:
                    yield from _nonempty(marker + part if part else "", level)
                    marker = ""
            case "fence" | "code_block":
                for line in token.content.split("\n"):
                    yield from _nonempty(line.rstrip(), verbatim=True)
            case "html_block":
                yield from (replace(line, level=0) for line in html_lines(token.content))


def _nonempty(text: str, level: int = 0, *, verbatim: bool = False) -> Iterator[Line]:
    text = text if verbatim else squeeze(resolved(text))
    if text.strip():
        yield Line(text, level)


def _inline(children: Iterable[Token]) -> Iterator[str]:
    """The text of a paragraph; a hard break begins a new line, a soft one is mended."""
    lines: list[list[str]] = [[]]
    for child in children:
        match child.type:
            case "hardbreak":
                yield squeeze(join_all(map("".join, lines)))
                lines = [[]]
            case "softbreak":
                lines.append([])
            case "text" | "code_inline" | "image":  # whose alternative text is `content`
                lines[-1].append(child.content)
    yield squeeze(join_all(map("".join, lines)))
