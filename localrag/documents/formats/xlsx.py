"""The sheets of an Excel file (xlsx, xlsm), read as a stream: a cell costs what it holds.

Formulas stand with the values that were computed when the file was saved; where a script has
saved none, the formula itself stands there. Nothing is computed here, and no macro is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from localrag.documents.formats.archive import ZipArchive, elements, is_true, local, part_of
from localrag.documents.formats.cells import (
    MOST_CELLS,
    MOST_COLUMNS,
    MOST_ROWS,
    Range,
    Sheet,
    leave_out,
    repeat_merged,
    tables,
)
from localrag.documents.formats.comments import comment
from localrag.documents.formats.drawing import chart_title, paragraphs
from localrag.documents.formats.numbers import BUILT_IN, GENERAL, plain, shown
from localrag.documents.lines import squeeze
from localrag.text.normalize import clean

_TICK = 2000
"""Rows after which it is said that reading goes on."""
_CELL = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
_THREADED = "tc="
"""How the author of a comment is called that only stands for a thread of comments."""


class Workbook:
    """The sheets of one file."""

    def __init__(
        self, archive: ZipArchive, hidden_too: bool, alive: Callable[[], None], main: str
    ) -> None:
        """`main` is the workbook's part; `alive` is called now and then."""
        self._archive, self._hidden_too, self._alive = archive, hidden_too, alive
        self._left = MOST_CELLS
        self._parts = archive.related(main)
        root = archive.xml(main)
        self._sheets: list[tuple[str, bool, str]] = []
        self._since_1904 = False
        for element in () if root is None else root.iter():
            if local(element.tag) == "workbookPr":
                self._since_1904 = is_true(element.get("date1904"))
            elif local(element.tag) == "sheet":
                id_ = next((v for name, v in element.attrib.items() if local(name) == "id"), "")
                kind, part = self._parts.get(id_, ("", ""))
                hidden = element.get("state", "visible") != "visible"
                if kind in ("worksheet", "chartsheet"):
                    self._sheets.append((element.get("name", ""), hidden, part))
        self._formats = self._read_formats()
        self._strings = list(self._read_strings())

    def sheets(self) -> Iterator[Sheet]:
        """In the order of their tabs; hidden ones without what they hold."""
        people = self._people()
        for name, hidden, part in self._sheets:
            sheet = Sheet(squeeze(clean(name)))
            if hidden and not self._hidden_too:
                sheet.hidden["sheet"] = 1
            else:
                self._read(part, sheet)
                sheet.remarks += self._remarks(part, people)
            yield sheet

    # What all sheets share

    def _read_formats(self) -> list[str]:
        """The format of each style by its number."""
        root = self._archive.xml(part_of(self._parts, "styles"))
        if root is None:
            return []
        own = {
            element.get("numFmtId", ""): element.get("formatCode", "")
            for element in elements(root, "numFmt")
        }
        known = {str(number): code for number, code in BUILT_IN.items()} | own
        styles = next((element for element in root if local(element.tag) == "cellXfs"), ())
        return [known.get(style.get("numFmtId", ""), GENERAL) for style in styles]

    def _read_strings(self) -> Iterator[str]:
        part = part_of(self._parts, "sharedStrings")
        if part not in self._archive:
            return
        for number, element in enumerate(self._archive.stream(part)):
            if local(element.tag) == "si":
                yield _text(element)
                element.clear()
            if not number % 100_000:
                self._alive()

    def _people(self) -> dict[str, str]:
        root = self._archive.xml(part_of(self._parts, "person"))
        return {} if root is None else {e.get("id", ""): e.get("displayName", "") for e in root}

    # One sheet

    def _read(self, part: str, sheet: Sheet) -> None:
        rows: dict[int, dict[int, str]] = {}
        hidden_rows: set[int] = set()
        hidden_columns: list[tuple[int, int]] = []
        merged: list[Range] = []
        number = -1
        for element in self._archive.stream(part) if part in self._archive else ():
            tag = local(element.tag)
            if tag == "row":
                reference = element.get("r", "")
                number = (
                    int(reference) - 1
                    if reference.isdecimal() and len(reference) < 8
                    else number + 1
                )
                cells = self._cells(element, sheet) if 0 <= number < MOST_ROWS else {}
                self._left -= len(cells)
                if self._left < 0:
                    sheet.cut_short = True
                    break
                if cells:
                    rows.setdefault(number, {}).update(cells)
                    if is_true(element.get("hidden")):
                        hidden_rows.add(number)
                    if not len(rows) % _TICK:
                        self._alive()
                element.clear()
            elif tag == "col" and is_true(element.get("hidden")):
                bounds = element.get("min", ""), element.get("max", "")
                if all(bound.isdecimal() and len(bound) < 6 for bound in bounds):
                    hidden_columns.append((int(bounds[0]) - 1, int(bounds[1]) - 1))
            elif tag == "mergeCell" and (area := _area(element.get("ref", ""))):
                merged.append(area)
        repeat_merged(rows, merged)
        if not self._hidden_too:
            sheet.hidden = leave_out(rows, hidden_rows, hidden_columns)
        sheet.tables = tables(rows, hidden_rows)

    def _cells(self, row: ElementTree.Element, sheet: Sheet) -> dict[int, str]:
        cells: dict[int, str] = {}
        column = -1
        for cell in row:
            if local(cell.tag) != "c":
                continue
            place = _place(cell.get("r", ""))
            column = place[1] if place else column + 1
            if not 0 <= column < MOST_COLUMNS:
                continue
            value, formula = self._value(cell), None
            if not value and cell.get("t", "n") == "n":
                formula = next((child for child in cell if local(child.tag) == "f"), None)
            if formula is not None:
                sheet.formulas += 1
                typed = squeeze(clean(formula.text or ""))  # of a shared one, the first has it
                value = f"={typed}" if typed else ""
            if value:
                cells[column] = value
        return cells

    def _value(self, cell: ElementTree.Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _text(cell)
        value = next((child.text or "" for child in cell if local(child.tag) == "v"), "").strip()
        if not value:
            return ""
        if kind == "s":
            known = value.isdecimal() and len(value) < 10 and int(value) < len(self._strings)
            return self._strings[int(value)] if known else ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind == "d":
            return squeeze(clean(value)).removesuffix("T00:00:00").replace("T", " ")
        if kind != "n":
            return squeeze(clean(value))
        try:
            number = float(value)
        except ValueError:
            return squeeze(clean(value))
        style = cell.get("s", "0")
        known = style.isdecimal() and len(style) < 7 and int(style) < len(self._formats)
        code = self._formats[int(style)] if known else GENERAL
        return plain(number) if code == GENERAL else shown(number, code, self._since_1904)

    def _remarks(self, part: str, people: dict[str, str]) -> Iterator[str]:
        """Titles of charts and texts of shapes, then comments with the cell that they are on."""
        parts = self._archive.related(part).values()
        for kind, name in parts:
            root = self._archive.xml(name) if kind == "drawing" else None
            if root is None:
                continue
            yield from paragraphs(root)
            for kind_below, below in self._archive.related(name).values():
                chart = self._archive.xml(below) if kind_below == "chart" else None
                if chart is not None and (title := chart_title(chart)):
                    yield title
        for kind, name in parts:
            if kind in ("comments", "threadedComment"):
                yield from filter(None, _remarks_of(self._archive.xml(name), people))


def _remarks_of(root: ElementTree.Element | None, people: dict[str, str]) -> Iterator[str]:
    authors = [element.text or "" for element in elements(root, "author")]
    for element in elements(root, "comment", "threadedComment"):
        where = element.get("ref", "")
        if local(element.tag) == "threadedComment":
            by = people.get(element.get("personId", ""), "")
            yield comment(_text(element, "text"), by, element.get("dT", ""), where)
        else:
            number = element.get("authorId", "")
            known = number.isdecimal() and len(number) < 6 and int(number) < len(authors)
            author = authors[int(number)] if known else ""
            if not author.startswith(_THREADED):
                yield comment(_text(element), author, where=where)


def _text(node: ElementTree.Element, tag: str = "t") -> str:
    """The text of rich text on one line, without the readings that stand above it (rPh)."""
    parts: list[str] = []
    waiting = [node]
    while waiting:
        element = waiting.pop()
        if local(element.tag) == tag:
            parts.append(element.text or "")
        elif local(element.tag) != "rPh":
            waiting += reversed(element)
    return squeeze(clean("".join(parts)))


def _place(name: str) -> tuple[int, int] | None:
    """Row and column, from 0, of a cell's name such as "B7"."""
    match = _CELL.fullmatch(name)
    if match is None:
        return None
    column = 0
    for letter in match[1].upper():
        column = column * 26 + ord(letter) - 64
    return int(match[2]) - 1, column - 1


def _area(name: str) -> Range | None:
    first, _, last = name.partition(":")
    start, end = _place(first), _place(last or first)
    if start is None or end is None or end < start or end[1] < start[1]:
        return None
    return (*start, *end)
