r"""Rich Text Format: a paragraph is a line, a table's row is one.

Text stands in the code page of the document or of its font, or as \u; notes, headers and comments
stand behind the paragraph that they belong to; hidden and deleted text is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from localrag.documents.formats.cells import row_text
from localrag.documents.formats.comments import comment
from localrag.documents.formats.table import SourceFile, damaged
from localrag.documents.lines import (
    Line,
    PageLines,
    build,
    empty,
    hidden_notes,
    squeeze,
    table_lines,
)
from localrag.text.normalize import clean
from localrag.types import Document

_TOKEN = re.compile(
    rb"\\bin(\d{1,10}) ?"
    rb"|\\'([0-9a-fA-F]{2})"
    rb"|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?"
    rb"|\\(.)"
    rb"|([{}])"
    rb"|([^\\{}\r\n]+)",
    re.DOTALL,
)
_CHARSETS = {
    0: "cp1252",
    77: "mac-roman",
    128: "cp932",
    129: "cp949",
    134: "cp936",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
}
"""Code pages by the number that a font gives its characters."""
_PAGES = frozenset(
    (437, 850, 852, 866, 874, 932, 936, 949, 950, 1361, 65001, 54936, *range(1250, 1259))
)
_SIGNS = {
    "tab": " ",
    "emdash": "\u2014",
    "endash": "\u2013",
    "bullet": "\u2022",
    "emspace": " ",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "enspace": " ",
    "qmspace": " ",
    "lbr": " ",
}
_BREAKS = frozenset(("par", "line", "page", "sect", "column", "softline", "softpage"))
_PLACES = """
    footnote header headerl headerr headerf footer footerl footerr footerf annotation atnauthor
    title
"""
_ASIDE = frozenset(_PLACES.split())
"""Text that stands at a place of its own."""
_NO_TEXT = """
    fonttbl colortbl stylesheet info pict objdata themedata colorschememapping datastore
    latentstyles listtable listoverridetable rsidtbl generator xmlnstbl mmathPr fldinst
    bkmkstart bkmkend atnid atnref atndate atntime atnicn atnparent filetbl revtbl pgptbl
    template pntxta pntxtb fchars lchars nonshppict sp sn sv nonesttables datafield
    docvar userprops private ftnsep ftnsepc aftnsep aftnsepc background
"""
_LEFT_OUT = frozenset(_NO_TEXT.split())
_SHOWN_THOUGH_NEW = frozenset(("shppict", "shpinst", "shptxt", "listtext", "fldrslt"))
"""What begins with \\*, which says that an older program passes over it, and has text."""
_DEEPEST = 2000


@dataclass(slots=True)
class _GroupState:
    """What a group inherits from the one around it."""

    into: str = ""
    """Where text goes: "" is the document, "-" nowhere."""
    font: int = -1
    skip: int = 1
    """Characters after a \\u that say the same to older programs."""
    hidden: bool = False
    deleted: bool = False
    table: bool = False


@dataclass(slots=True)
class _Text:
    """One run of text that becomes lines: the document, or what stands aside."""

    parts: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    rows: dict[int, list[str]] = field(default_factory=dict)
    """The cells of the lines that are rows of a table, by their place among the lines."""

    def take(self) -> str:
        text = "".join(self.parts)
        self.parts.clear()
        # Halves of a character beyond the first 65,536, written one after another.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return squeeze(clean(text))

    def end_line(self) -> None:
        if text := self.take():
            self.lines.append(text)

    def end_row(self) -> None:
        if text := row_text(self.cells):
            self.rows[len(self.lines)] = self.cells
            self.lines.append(text)
        self.cells = []

    def made(self) -> Iterator[Line]:
        """The lines, those of tables with their header."""
        places = range(len(self.lines))
        for is_row, group in groupby(places, key=self.rows.__contains__):
            if is_row:
                yield from table_lines([self.rows[place] for place in group])
            else:
                yield from (Line(self.lines[place]) for place in group)


def read(file: SourceFile) -> Document:
    """Raises CorruptFileError, EmptyFileError if there is no text."""
    if not file.data.lstrip().startswith(b"{\\rtf"):
        raise damaged(file.source, "no RTF")
    reader = _RtfReader(file)
    lines = reader.read()
    if not lines:
        raise empty(file.source)
    page = PageLines(lines, notes=hidden_notes(reader.hidden))
    return build(file, [page], reader.title, unit="text")


class _RtfReader:
    def __init__(self, file: SourceFile) -> None:
        self.hidden = 0
        self.title = ""
        self._file = file
        self._page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._texts: dict[str, _Text] = {"": _Text()}
        self._author = ""
        self._running: set[str] = set()
        self._bytes = bytearray()

    def read(self) -> list[Line]:
        """The lines of the document."""
        data, state, above = self._file.data, _GroupState(), list[_GroupState]()
        place = pending = 0
        in_fonts, starred, default = False, False, -1
        while token := _TOKEN.search(data, place):
            place = token.end()
            binary, code, word, number, sign, brace, plain = token.groups()
            if code is None and plain is None:
                self._flush(state)
            if brace == b"{":
                above.append(state)
                state = replace(state)
                if len(above) > _DEEPEST:
                    raise damaged(self._file.source, "groups without an end")
                starred = False
            elif brace == b"}":
                if not above:
                    break
                outer = above.pop()
                if outer.into != state.into:
                    self._close(state.into)
                state, pending = outer, 0
                in_fonts = in_fonts and state.into == "-"
                if not above:
                    break
            elif binary is not None:
                place += int(binary)
            elif code is not None or plain is not None:
                raw = bytes([int(code, 16)]) if code is not None else plain
                cut = min(pending, len(raw))
                pending -= cut
                self._add(state, raw[cut:])
            elif sign is not None:
                if sign == b"*":
                    starred = True
                elif sign in b"\\{}":
                    self._put(state, sign.decode())
                elif sign in b"~\n\r":
                    self._put(state, " ") if sign == b"~" else self._word(state, "par", None)
                elif sign == b"_":
                    self._put(state, "-")
            else:
                name, value = word.decode(), int(number) if number else None
                if name == "u" and value is not None:
                    self._put(state, chr(value & 0xFFFF))
                    pending = state.skip
                elif name == "fonttbl":
                    state.into, in_fonts = "-", True
                elif name == "f" and value is not None:
                    state.font = value
                elif name == "fcharset" and in_fonts and value in _CHARSETS:
                    self._fonts[state.font] = _CHARSETS[value]
                elif name == "deff" and value is not None:
                    default = value
                elif name == "plain":
                    state.font, state.hidden, state.deleted = default, False, False
                elif starred and name not in (_SHOWN_THOUGH_NEW | _ASIDE):
                    state.into = "-"
                else:
                    self._word(state, name, value)
                starred = False
        self._flush(state)
        self._texts[""].end_row()
        self._texts[""].end_line()
        return list(self._texts[""].made())

    def _word(self, state: _GroupState, name: str, value: int | None) -> None:
        text = self._texts.get(state.into)
        if name == "ansicpg" and value is not None and value in _PAGES:
            self._page = {65001: "utf-8", 54936: "gb18030", 1361: "johab"}.get(value, f"cp{value}")
        elif name == "uc" and value is not None:
            state.skip = max(0, min(value, 9))
        elif name == "mac":
            self._page = "mac-roman"
        elif name == "v":
            state.hidden = value != 0 and not self._file.options.hidden_text
        elif name == "deleted":
            state.deleted = value != 0
        elif name == "intbl":
            state.table = True
        elif name == "pard":
            state.table = False
        elif name in _ASIDE and state.into != "-":
            state.into = name
            self._texts[name] = _Text()
        elif name in _LEFT_OUT and not (name == "info" and state.into == ""):
            state.into = "-"
        elif name == "info":
            state.into = "info"
        elif text is None:
            return
        elif name in _SIGNS:
            self._put(state, _SIGNS[name])
        elif name in ("cell", "nestcell"):
            text.cells.append(text.take())
        elif name in ("row", "nestrow"):
            text.end_row()
            self._file.page_done()
        elif name in _BREAKS and (state.table or text.cells):
            self._put(state, " ")
        elif name in _BREAKS:
            text.end_line()

    def _close(self, into: str) -> None:
        """Put what stood aside behind what has been read of the document."""
        text = self._texts.pop(into, None) if into else None
        if text is None:
            return
        text.end_row()
        text.end_line()
        content = " ".join(text.lines)
        main = self._texts[""]
        if into == "title":
            self.title = content
        elif into == "atnauthor":
            self._author = content
        elif into == "annotation":
            content = comment(content, self._author)
            self._author = ""
            main.parts.append(f" {content} ")
        elif into == "footnote":
            main.parts.append(f" ({content}) " if content else "")
        elif content not in self._running and any(map(str.isalpha, content)):
            self._running.add(content)
            main.lines.append(content)

    def _add(self, state: _GroupState, data: bytes) -> None:
        """Keep bytes until all of a character are there."""
        if data and (state.into in self._texts or state.into == "title"):
            self._bytes += data

    def _flush(self, state: _GroupState) -> None:
        if self._bytes:
            page = self._fonts.get(state.font, self._page)
            # Fonts of Western text name no code page of their own where the document has one.
            page = self._page if page == "cp1252" else page
            text = self._bytes.decode(page, "replace")
            self._bytes.clear()
            self._put(state, text)

    def _put(self, state: _GroupState, text: str) -> None:
        into = self._texts.get(state.into)
        if into is None or state.deleted:
            return
        if state.hidden:
            self.hidden += bool(text.strip())
        else:
            into.parts.append(text)
