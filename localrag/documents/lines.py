"""Lines of text, however they were read: joining what a layout broke, and building the Document.

Knows nothing about file formats. A line here is a whole paragraph, heading,
list item or table row.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, repeat
from pathlib import PurePath
from typing import TypeVar

from localrag.documents.formats.table import SourceFile
from localrag.documents.positions import Layout, Mark
from localrag.documents.tables import CELL_BREAK as CELL_BREAK
from localrag.documents.tables import header_rows_of, names_of, notes_of, titles_of, with_cells
from localrag.errors import EmptyFileError
from localrag.text.normalize import clean, has_radicals, mend_radicals, script_of
from localrag.text.titles import bounded_title
from localrag.types import PAGE_BREAK, Document, Heading, How, Page, PageNote, TableSpan, Unit

T = TypeVar("T")

LONGEST_HEADING = 1000
"""Code points; a longer one is text: each passage below it would repeat it."""

CJK = (
    "\u2e80-\u2fdf\u3000-\u303f\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60\uffe0-\uffe6\U00020000-\U0003ffff"
)
"""Characters written without spaces between them, as the inside of a regular expression's [...]."""

_CJK_CHARACTER = re.compile(f"[{CJK}]")
_CJK_OR_QUOTE = re.compile(f"[{CJK}“”‘’…—·]")

LIST_MARKER = re.compile(
    r"(?:[•◦▪▫‣●○■□◆◇➢➤✓✔❖∙·*]\s*|[-–—]\s+|\(?\d{1,3}[.)](?=\s)|\(?\d{1,3}[、．）]|（\d{1,3}）"
    r"|\(?[A-Za-z][.)]\s+|[①-⑳]|[（(]?[一二三四五六七八九十]{1,3}[)）、．])"
)
"""Matches at the start of a list item."""

_CHINESE_NUMBER = "[〇零一二三四五六七八九十百0-9０-９]{1,5}"
_NUMBERED_HEADINGS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(rf"第\s*{_CHINESE_NUMBER}\s*[章篇编編卷部](?![分门門])"), 1),
    (re.compile(r"(?:chapter|part|appendix)\s+(?:\d{1,3}|[ivxlc]+|[a-z])\b", re.IGNORECASE), 1),
    (re.compile(rf"第\s*{_CHINESE_NUMBER}\s*[节節]"), 2),
    (re.compile(r"[一二三四五六七八九十]{1,3}、"), 2),
)
_SENTENCE_END = re.compile(r"[.!?;:。！？；：…][\"'”’）)」』】]*\s*$")
_CLAUSE_END = re.compile(r"[.;,。！；，、…][\"'”’」』]*\s*$")

_BEFORE_HYPHEN = """
    all cross double ex full half high ill know large long low mid multi non one open real self
    semi short single small so state two three top well wide
"""
_PREFIXES = frozenset(_BEFORE_HYPHEN.split())
"""First parts that English keeps a hyphen after; a list of our own, not exhaustive."""

_HYPHENS = "-\u2010"
_HYPHENATED_END = re.compile(rf"([^\W\d_]+(?:[-\u2010][^\W\d_]+)*)[{_HYPHENS}]$")
_LONGEST_WORD = 200
"""Code points at the end of a line in which its last word is looked for."""
_WORD_START = re.compile(r"[^\W\d_]+")
_DECIDES = 400
"""Code points at the end of a text that decide how the next joins: more than the longest word."""


@dataclass(frozen=True, slots=True, eq=False)
class TableHeader:
    """The header of one table: its columns' names, and how many of its first lines say them.

    Neighbouring lines with the same object are the rows of one table.
    """

    names: tuple[str, ...]
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a document; `level` 0 is text, 1 and more a heading.

    `marks` say where its parts stand on the page, in the order of the text.
    """

    text: str
    level: int = 0
    table: TableHeader | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class PageLines:
    """The lines of one page, and what there is to say of it; `size` is width and height."""

    lines: Sequence[Line]
    label: str = ""
    how: How = "text"
    confidence: float | None = None
    notes: tuple[PageNote, ...] = ()
    size: tuple[float, float] = (0.0, 0.0)


def hidden_notes(count: int, what: str = "text") -> tuple[PageNote, ...]:
    """That so much was left out because its program does not show it; nothing for none."""
    return (PageNote("hidden text", {"what": what, "count": count}),) if count else ()


def is_cjk(character: str) -> bool:
    """Whether a character belongs to a script that is written without spaces."""
    return _CJK_CHARACTER.match(character) is not None


def is_marker(text: str) -> bool:
    """Whether the text is the marker of a list item and nothing more."""
    marker = text.strip()
    match = LIST_MARKER.match(marker + " ")
    return match is not None and match.end() >= len(marker)


def width(text: str) -> int:
    """Columns that the text takes in a fixed-width font: Chinese characters take two."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


@cache
def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def squeeze(text: str) -> str:
    """The text on one line: runs of whitespace become one space, none at the ends."""
    return " ".join(text.split())


def resolved(text: str) -> str:
    """Text of markup whose entities have been resolved: they may stand for what `clean` drops."""
    return clean(text).replace("\n", " ")


def grouped(items: Iterable[T], belongs: Callable[[list[T], T], bool]) -> list[list[T]]:
    """The items in groups: each joins the group before it if it belongs there."""
    groups: list[list[T]] = []
    for item in items:
        if groups and belongs(groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def join(left: str, right: str, vocabulary: Collection[str] = ()) -> str:
    """Join two lines that a layout broke, `left` before `right`.

    Chinese joins without a space, also with a Latin word or number beside it
    unless a space was printed; other scripts join with one. A hyphen at the end
    of `left` goes when it was put there by the line break. `vocabulary` holds
    the document's words in lower case, compounds with their hyphen: it settles
    what the form alone cannot ("exam-/ple", "well-/known").
    """
    if not left or not right:
        return left or right
    if left[-1] in _HYPHENS and not right[0].isspace():
        return _join_hyphenated(left, right, vocabulary)
    last, first = left.rstrip(), right.lstrip()
    if not last or not first:
        return last or first
    end, start = last[-1], first[0]
    chinese_end, chinese_start = (_CJK_OR_QUOTE.match(character) for character in (end, start))
    spaced = left[-1].isspace() or right[0].isspace()
    if chinese_end and chinese_start and (is_cjk(end) or is_cjk(start)):
        return last + first
    if (is_cjk(end) or is_cjk(start)) and not spaced and end not in ".,;:!?":
        return last + first
    return f"{last} {first}"


def _join_hyphenated(left: str, right: str, vocabulary: Collection[str]) -> str:
    word = _HYPHENATED_END.search(left, max(0, len(left) - _LONGEST_WORD))
    following = _WORD_START.match(right)
    if word is None:
        # A dash on its own ("cost -"), or a number ("2019-"): only the latter belongs together.
        return left + right if left[-2:-1].isalnum() else f"{left} {right}"
    first = word.group(1).lower()
    if following is None or not right[0].islower() or not word.group(1)[-1].islower():
        return left + right
    second = following.group().lower()
    if f"{first}-{second}" in vocabulary:
        return left + right
    if first + second in vocabulary:
        return left[:-1] + right
    if "-" in first or "\u2010" in first or first in _PREFIXES:
        return left + right
    return left[:-1] + right


def join_all(lines: Iterable[str], vocabulary: Collection[str] = ()) -> str:
    """Join lines one after another, as by `join`, in time that grows with their length.

    Only the end of what stands already decides how the next line joins.
    """
    done: list[str] = []
    end = ""
    for line in lines:
        if len(end) > 2 * _DECIDES:
            done.append(end[:-_DECIDES])
            end = end[-_DECIDES:]
        end = join(end, line, vocabulary)
    return "".join([*done, end])


def words(texts: Iterable[str]) -> frozenset[str]:
    """The words of the texts in lower case, compounds with their hyphen: for `join`."""
    return frozenset(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", "\n".join(texts).lower()))


def numbered_heading(text: str) -> int:
    """The level (1 or 2) if the line is numbered like a chapter or a section, else 0.

    Only short lines that do not end like a sentence count.
    """
    if width(text) > 80 or ends_clause(text):
        return 0
    return next((level for pattern, level in _NUMBERED_HEADINGS if pattern.match(text)), 0)


def ends_sentence(text: str) -> bool:
    """Whether the line ends with punctuation after which a paragraph may end."""
    return _SENTENCE_END.search(text) is not None


def ends_clause(text: str) -> bool:
    """Whether the line ends as running text does and a heading does not."""
    return _CLAUSE_END.search(text) is not None


def build(
    file: SourceFile,
    pages: Sequence[PageLines | Sequence[Line]],
    title: str = "",
    metadata: Mapping[str, str] | None = None,
    unit: Unit = "page",
) -> Document:
    """Make the Document: its id is the SHA-256 of the file, its headings carry their offsets.

    Lines must be cleaned already. Without a title, the first heading of the
    topmost level is taken, else the file's name without its suffix; all are bounded.
    Raises EmptyFileError if there is no line.
    """
    all_pages = [page if isinstance(page, PageLines) else PageLines(page) for page in pages]
    if not any(line.text for page in all_pages for line in page.lines):
        raise empty(file.source)
    texts: list[Page] = []
    headings: list[Heading] = []
    tables: list[tuple[TableHeader, TableSpan]] = []
    offset = 0
    for number, page in enumerate(all_pages, start=1):
        start = offset
        lines = [line for line in page.lines if line.text]
        marks: list[Mark] = []
        for line in lines:
            end = start + len(line.text)
            if line.level and len(line.text) <= LONGEST_HEADING:
                headings.append(Heading(start, line.level, line.text))
            if line.table is not None:
                _add_row(tables, line.table, start, end)
            marks += (mark.moved(start - offset) for mark in line.marks)
            start = end + 1
        text = "\n".join(line.text for line in lines)
        layout = Layout(*page.size, tuple(marks)).encode() if marks else b""
        texts.append(Page(number, text, page.label, page.how, page.confidence, page.notes, layout))
        offset += len(text) + len(PAGE_BREAK)
    top = min(headings, key=lambda heading: heading.level, default=None)
    document = Document(
        id=hashlib.sha256(file.data).hexdigest(),
        source=file.source,
        title=bounded_title(
            squeeze(title)
            or (top.text if top else "")
            or squeeze(clean(PurePath(file.source).stem))
        ),
        pages=tuple(texts),
        headings=tuple(headings),
        metadata=dict(metadata or {}),
        tables=tuple(table for _, table in tables),
        unit=unit,
    )
    return _with_mended_radicals(document) if has_radicals(document.text) else document


def _with_mended_radicals(document: Document) -> Document:
    """The document with its radicals in the script of their page, else of the document."""
    script = script_of(document.text)
    pages = tuple(
        replace(page, text=mend_radicals(page.text, script_of(page.text) or script))
        for page in document.pages
    )
    mended = replace(document, pages=pages, title=mend_radicals(document.title, script))
    text = mended.text  # as long as before
    return replace(
        mended,
        headings=tuple(
            replace(heading, text=text[heading.start : heading.start + len(heading.text)])
            for heading in document.headings
        ),
        tables=tuple(
            replace(table, header=tuple(mend_radicals(name, script) for name in table.header))
            for table in document.tables
        ),
    )


def _add_row(
    tables: list[tuple[TableHeader, TableSpan]], header: TableHeader, start: int, end: int
) -> None:
    """Let the last table go on, also over the end of a page, or begin another."""
    if tables and tables[-1][0] is header and tables[-1][1].end + 1 == start:
        tables[-1] = header, replace(tables[-1][1], end=end)
    else:
        begun = any(known is header for known, _ in tables[-1:])
        tables.append((header, TableSpan(start, end, header.names, 0 if begun else header.rows)))


def table_lines(
    rows: Iterable[Sequence[str]],
    header_rows: int | None = None,
    numbers: Iterable[int] = (),
    *,
    styled: bool = False,
    named: bool = False,
) -> list[Line]:
    """The rows of a table, a line each; empty rows go.

    `header_rows` is how many of the first name the columns, where the file says so; else the cells
    decide (`tables.header_rows_of`). Titles and remarks above and notes below a table are no rows.

    `numbers` are those of a sheet's rows, from 0: a row has a mark where it does not follow the
    one above it, and now and then, so that the number of each row is found from the last mark.
    """
    every: Iterable[int | None] = numbers or repeat(None)
    numbered = zip(every, rows, strict=False)
    numbered_rows = [
        (number, cells) for number, row in numbered if (cells := without_empty_end(row))
    ]
    cells_of = [cells for _, cells in numbered_rows]
    corner = bool(header_rows and cells_of and not cells_of[0][0])  # a header of one name
    first = 0 if corner else titles_of(cells_of, remarks=not header_rows)
    last = len(numbered_rows) - notes_of(cells_of[first:])
    table = cells_of[first:last]
    header: TableHeader | None = None
    if max(map(len, table), default=0) > 1:  # else a frame around text
        named_rows = min((header_rows or 0) - first, len(table))
        if named_rows <= 0:
            named_rows = header_rows_of(table, styled=styled, named=named)
        header = TableHeader(names_of(table[:named_rows]), named_rows)
    lines = []
    due = -1
    for place, (number, cells) in enumerate(numbered_rows):
        is_row = first <= place < last
        # A title that spans columns stands in each of them.
        text = with_cells(cells if is_row else [cell for cell, _ in groupby(cells) if cell])
        marks: tuple[Mark, ...] = ()
        if number is not None:
            if number != due or number % _MARKED_ROW == 0:
                marks = (Mark(0, len(text), 0, number, len(cells), number + 1),)
            due = number + 1
        lines.append(Line(text, table=header if is_row else None, marks=marks))
    return lines


_MARKED_ROW = 1000


def without_empty_end(row: Sequence[str]) -> Sequence[str]:
    """The cells of a row but for empty ones at its end."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return row[:end]


def empty(source: str) -> EmptyFileError:
    """The error for a file without any text."""
    return EmptyFileError(
        "{source} is empty: it contains no text.",
        hint="Copy or download the file again.",
        source=source,
    )
