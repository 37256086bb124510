"""OpenDocument: texts (odt) with one page, presentations (odp) by slide, and sheets (ods)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from xml.etree import ElementTree

from localrag.documents.formats.archive import ZipArchive, elements, local
from localrag.documents.formats.cells import (
    MOST_CELLS,
    MOST_COLUMNS,
    MOST_ROWS,
    Range,
    Sheet,
    filled,
    leave_out,
    repeat_merged,
    row_text,
    tables,
)
from localrag.documents.formats.comments import comment
from localrag.documents.formats.numbering import counted
from localrag.documents.formats.numbers import plain
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import (
    Line,
    PageLines,
    build,
    empty,
    hidden_notes,
    squeeze,
    table_lines,
)
from localrag.documents.pictures import Pictures
from localrag.text.normalize import clean
from localrag.types import Document

_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_FO = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_LEFT_OUT = frozenset(
    f"{_TEXT}{name}"
    for name in ("tracked-changes", "table-of-content", "sequence-decls", "note-citation")
) | {f"{_OFFICE}forms", f"{_DRAW}image", f"{_OFFICE}annotation"}
_HIDDEN = frozenset(f"{_TEXT}{name}" for name in ("hidden-text", "hidden-paragraph"))
_DEEPEST = 60
_MOST_REPEATED = 1000
"""Times that a row or a cell which is said to be there often is taken."""
_TICK = 2000


def read(file: SourceFile) -> Document:
    """Raises what `ZipArchive` raises, EmptyFileError if there is no text."""
    archive = ZipArchive(file)
    root = archive.xml("content.xml")
    body = None if root is None else root.find(f"{_OFFICE}body")
    if root is None or body is None:
        raise archive.damaged(ValueError("content.xml"))
    styles = _Styles(root, archive.xml("styles.xml"), file.options.hidden_text)
    slides = list(body.iter(f"{_DRAW}page"))
    pages: list[PageLines] = []
    pictures = Pictures(file, archive)
    for page in slides or [body]:
        walk = _PageWalk(archive, styles)
        # What lies behind the text of a slide may be in its master, or a shape of its own.
        walk.ground(page, filled=bool(slides) or styles.page_filled)
        if styles.hides(page):
            # A hidden slide keeps its number, as in the program that shows it.
            pages.append(PageLines([], notes=hidden_notes(1, "slide")))
            continue
        lines = list(walk.blocks(page))
        if not slides:
            lines = [*walk.running("header"), *lines, *walk.running("footer")]
        label = next((line.text for line in lines if line.level), "") if slides else ""
        names = (image.get(f"{_XLINK}href", "") for image in page.iter(f"{_DRAW}image"))
        read = PageLines(lines, label, notes=hidden_notes(walk.hidden))
        pages.append(pictures.on(read, names))
        file.page_done()
    if not any(page.lines for page in pages):
        raise empty(file.source)
    return build(file, pages, _title(archive), unit="slide" if slides else "text")


def _title(archive: ZipArchive) -> str:
    titles = (e.text or "" for e in elements(archive.xml("meta.xml"), "title"))
    return clean(next(titles, ""))


class _Styles:
    """What styles say of lists, and of what is not shown."""

    def __init__(
        self, content: ElementTree.Element, styles: ElementTree.Element | None, hidden_too: bool
    ) -> None:
        self.master = styles
        self.lists: dict[str, dict[int, ElementTree.Element]] = {}
        self.outline: dict[int, ElementTree.Element] = {}
        self._hidden: set[str] = set()
        self._white: set[str] = set()
        self._filled: dict[str, bool] = {}
        self._parents: dict[str, str] = {}
        self.page_filled = self.running_filled = False
        self.hidden_too = hidden_too
        for root in (styles, content):
            for element in () if root is None else root.iter():
                self.add(element)

    def add(self, style: ElementTree.Element) -> None:
        """Take in a style's element."""
        name = style.get(f"{_STYLE}name", "")
        if style.tag == f"{_TEXT}list-style":
            self.lists[name] = _levels(style)
        elif style.tag == f"{_TEXT}outline-style":
            self.outline = _levels(style)
        elif style.tag == f"{_STYLE}page-layout-properties":
            self.page_filled |= bool(_fill(style))
        elif style.tag == f"{_STYLE}header-footer-properties":
            self.running_filled |= bool(_fill(style))
        elif style.tag == f"{_STYLE}style":
            self._parents[name] = style.get(f"{_STYLE}parent-style-name", "")
            for properties in style:
                if (fill := _fill(properties)) is not None:
                    self._filled[name] = fill or self._filled.get(name, False)
                if (
                    properties.get(f"{_TEXT}display") == "none"
                    or properties.get(f"{_TABLE}display") == "false"
                    or properties.get(f"{_PRESENTATION}visibility") == "hidden"
                ):
                    self._hidden.add(name)
                behind = properties.get(f"{_FO}background-color", "transparent")
                white = properties.get(f"{_FO}color", "").lower() in (
                    "#ffffff",
                    "#fffffe",
                    "#fefefe",
                )
                if white and behind in ("transparent", "#ffffff"):
                    self._white.add(name)

    def fills(self, node: ElementTree.Element) -> bool:
        """Whether a node has a ground of its own, by its styles or those they come from."""
        for key, name in node.attrib.items():
            steps = 0
            while name and local(key).endswith("style-name") and steps < _DEEPEST:
                if name in self._filled:
                    if self._filled[name]:
                        return True
                    break
                name = self._parents.get(name, "")
                steps += 1
        return False

    def hides(self, node: ElementTree.Element, on_white: bool = False) -> bool:
        """Whether a node is not shown: by its style, or as white text where the page is white."""
        if self.hidden_too:
            return False
        name = next((v for key, v in node.attrib.items() if local(key) == "style-name"), "")
        return (
            node.tag in _HIDDEN
            or node.get(f"{_TEXT}display") == "none"
            or name in self._hidden
            or (on_white and name in self._white)
        )


def _fill(properties: ElementTree.Element) -> bool | None:
    """Whether what has these properties is filled; None where they do not say."""
    fill = properties.get(f"{_DRAW}fill")
    color = properties.get(f"{_FO}background-color")
    if fill is None and color is None:
        return None
    return (fill or "none") != "none" or (color or "transparent") not in ("transparent", "#ffffff")


def _levels(style: ElementTree.Element) -> dict[int, ElementTree.Element]:
    levels = {}
    for level_style in style:
        level = level_style.get(f"{_TEXT}level", "")
        if level.isdecimal() and len(level) < 3:
            levels[int(level)] = level_style
    return levels


class _PageWalk:
    """One pass over a page that keeps count of lists, and of what it left out."""

    def __init__(self, archive: ZipArchive, styles: _Styles) -> None:
        self.hidden = 0
        self._archive, self._styles = archive, styles
        self._counts: dict[tuple[str, int], int] = {}
        self._remarks: list[Line] = []
        self._on_fill: set[int] = set()

    def ground(self, root: ElementTree.Element, filled: bool = False) -> None:
        """Note what stands on a fill below a node, or that all of it does."""
        if filled:
            self._on_fill.add(id(root))
        for node in root.iter():  # a parent comes before what is in it
            if id(node) in self._on_fill or self._styles.fills(node):
                self._on_fill.add(id(node))
                self._on_fill.update(map(id, node))

    def running(self, kind: str) -> Iterator[Line]:
        """What stands above or below each page, once."""
        texts: set[str] = set()
        for element in () if self._styles.master is None else self._styles.master.iter():
            if element.tag in (f"{_STYLE}{kind}", f"{_STYLE}{kind}-first", f"{_STYLE}{kind}-left"):
                self.ground(element, self._styles.page_filled or self._styles.running_filled)
                for line in self.blocks(element):
                    if line.text not in texts and any(map(str.isalpha, line.text)):
                        texts.add(line.text)
                        yield line

    def blocks(
        self,
        node: ElementTree.Element,
        depth: int = 0,
        marker: str = "",
        list_style: str = "",
        level: int = 0,
    ) -> Iterator[Line]:
        """The lines below a node; `marker` begins the first, or says that it is a title."""
        for child in node:
            if child.tag in _LEFT_OUT or depth > _DEEPEST:
                continue
            if self._hides(child, depth):
                continue
            if child.tag in (f"{_TEXT}h", f"{_TEXT}p"):
                yield from self._paragraph(child, depth, marker)
                marker = marker if marker == "title" else ""
            elif child.tag == f"{_TABLE}table":
                yield from self._table(child, depth)
            elif child.tag == f"{_TEXT}list":
                style = child.get(f"{_TEXT}style-name", list_style)
                if child.get(f"{_TEXT}continue-numbering") != "true" and not child.get(
                    f"{_TEXT}continue-list"
                ):
                    self._counts.pop((style, level + 1), None)
                yield from self.blocks(child, depth + 1, "", style, level + 1)
            elif child.tag in (f"{_TEXT}list-item", f"{_TEXT}list-header"):
                number = ""
                if child.tag == f"{_TEXT}list-item":
                    levels = self._styles.lists.get(list_style, {})
                    start = child.get(f"{_TEXT}start-value", "")
                    number = self._number(levels, list_style, level, start) or "- "
                yield from self.blocks(child, depth + 1, number, list_style, level)
            elif child.get(f"{_PRESENTATION}class") == "title":
                yield from self.blocks(child, depth + 1, "title")
            elif child.tag == f"{_DRAW}object":
                yield from self._object(child)
            else:
                yield from self.blocks(child, depth + 1, marker if marker == "title" else "")

    def _hides(self, node: ElementTree.Element, depth: int) -> bool:
        on_white = id(node) not in self._on_fill and (depth == 0 or node.tag == f"{_TEXT}span")
        hides = self._styles.hides(node, on_white)
        self.hidden += hides
        return hides

    def _paragraph(self, node: ElementTree.Element, depth: int, marker: str) -> Iterator[Line]:
        level = 0
        if node.tag == f"{_TEXT}h":
            value = node.get(f"{_TEXT}outline-level", "1")
            level = int(value) if value.isdecimal() and len(value) < 3 else 1
            marker = marker or self._number(self._styles.outline, "", level, "")
        elif marker == "title":
            level = 1
        text = squeeze(clean(self._inline(node)))
        if text:
            yield Line(("" if marker == "title" else marker) + text, level)
        for frame in node.iter():
            if frame is not node and frame.tag in (f"{_DRAW}text-box", f"{_TEXT}note-body"):
                yield from self.blocks(frame, depth + 1)
            elif frame.tag == f"{_DRAW}object":
                yield from self._object(frame)
        yield from self._remarks
        self._remarks.clear()

    def _number(
        self, levels: dict[int, ElementTree.Element], style: str, level: int, start: str
    ) -> str:
        """The number of the next item, with the space behind it; "" for a bullet."""
        form = levels.get(level)
        code = "" if form is None else form.get(f"{_STYLE}num-format", "")
        if form is None or not code:
            return ""
        first = start or form.get(f"{_TEXT}start-value", "1")
        begins = int(first) if first.isdecimal() and len(first) < 7 else 1
        key = (style, level)
        self._counts[key] = begins if start or key not in self._counts else self._counts[key] + 1
        for other in [
            counter for counter in self._counts if counter[0] == style and counter[1] > level
        ]:
            del self._counts[other]
        many = form.get(f"{_TEXT}display-levels", "1")
        least = level - (int(many) if many.isdecimal() and len(many) < 3 else 1) + 1
        numbers = []
        for position in range(max(1, least), level + 1):
            of = levels.get(position)
            kind = "" if of is None else of.get(f"{_STYLE}num-format", "")
            if kind:
                numbers.append(counted(self._counts.get((style, position), 1), kind))
        before, after = (form.get(f"{_STYLE}num-{side}", "") for side in ("prefix", "suffix"))
        return f"{clean(before)}{'.'.join(numbers)}{clean(after)} "

    def _table(self, node: ElementTree.Element, depth: int) -> list[Line]:
        rows: list[list[str]] = []
        merged: list[Range] = []
        cell_count = 0
        for row in _rows(node):
            cells: list[str] = []
            for cell in _cells(row):
                text = " ".join(line.text for line in self.blocks(cell, depth + 1))
                if area := _spanned(cell, len(rows), len(cells)):
                    merged.append(area)
                cells += [text] * _times(cell, "columns", _MOST_REPEATED)
            repeated = _times(row, "rows", _MOST_REPEATED) if any(cells) else 1
            rows += [list(cells) for _ in range(repeated)]
            cell_count += repeated * len(cells)
            if cell_count > MOST_CELLS:
                break
        return table_lines(filled(rows, merged))

    def _inline(self, node: ElementTree.Element, depth: int = 0) -> str:
        parts = [node.text or ""]
        for child in node:
            if child.tag == f"{_TEXT}s":
                count = child.get(f"{_TEXT}c", "1")
                parts.append(" " * min(int(count) if count.isdigit() else 1, 100))
            elif child.tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
                parts.append(" ")
            elif child.tag == f"{_OFFICE}annotation":
                self._remarks += [Line(text) for text in [_annotation(child)] if text]
            elif child.tag == f"{_TEXT}page-number" and (child.text or "").startswith("<"):
                pass  # what stands for a number until the slide is shown
            elif (
                child.tag not in _LEFT_OUT
                and child.tag
                not in (
                    f"{_TEXT}note",
                    f"{_DRAW}frame",
                    f"{_DRAW}text-box",
                )
                and not self._hides(child, 1)
            ):
                parts.append(self._inline(child, depth + 1))
            parts.append(child.tail or "")
        return "".join(parts)

    def _object(self, node: ElementTree.Element) -> Iterator[Line]:
        """A formula as it was typed, or the data of a chart, which lie in a part of their own."""
        name = posixpath.normpath(posixpath.join(node.get(f"{_XLINK}href", ""), "content.xml"))
        root = self._archive.xml(name)
        if root is None or name == "content.xml":
            return
        if local(root.tag) == "math":
            typed = next((e.text for e in elements(root, "annotation")), "")
            if text := squeeze(clean(typed or " ".join(root.itertext()))):
                yield Line(text)
            return
        for row in root.iter(f"{_TABLE}table-row"):
            if text := row_text([_paragraphs(cell) for cell in row]):
                yield Line(text)


def _rows(node: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The rows of a table, also of its head and of groups, but not of a table in a cell."""
    for child in node:
        if child.tag == f"{_TABLE}table-row":
            yield child
        elif child.tag.startswith(f"{_TABLE}table-") and child.tag.endswith(("rows", "group")):
            yield from _rows(child)


def _cells(row: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The cells of a row, those that another covers too."""
    return (cell for cell in row if local(cell.tag) in ("table-cell", "covered-table-cell"))


def _spanned(cell: ElementTree.Element, row: int, column: int) -> Range | None:
    """The rows and columns that a merged cell spans from its place on; None for a plain one."""
    wide = _times(cell, "columns", MOST_COLUMNS, "spanned")
    high = _times(cell, "rows", MOST_ROWS, "spanned")
    return (row, column, row + high - 1, column + wide - 1) if wide * high > 1 else None


def _annotation(node: ElementTree.Element, where: str = "") -> str:
    parts = {local(child.tag): child.text or "" for child in node}
    return comment(_paragraphs(node), parts.get("creator", ""), parts.get("date", ""), where)


def _paragraphs(node: ElementTree.Element) -> str:
    """The paragraphs right below a node, on one line; a drawing or a comment in it is none."""
    texts = ("".join(child.itertext()) for child in node if child.tag == f"{_TEXT}p")
    return squeeze(clean(" ".join(texts)))


# Sheets


def sheets(archive: ZipArchive, file: SourceFile) -> Iterator[Sheet]:
    """The sheets of an ods, in the order of their tabs."""
    styles = _Styles(ElementTree.Element("none"), None, file.options.hidden_text)
    left = MOST_CELLS
    sheet = _OpenSheet(styles)
    rows = 0
    for element in archive.stream("content.xml"):
        if element.tag == f"{_STYLE}style":
            styles.add(element)
        elif element.tag == f"{_TABLE}table-column":
            sheet.add_column(element)
        elif element.tag == f"{_TABLE}table-row":
            left -= sheet.add_row(element, left)
            element.clear()
            rows += 1
            if not rows % _TICK:
                file.page_done()
        elif element.tag == f"{_TABLE}table":
            yield sheet.done(element)
            element.clear()
            sheet = _OpenSheet(styles)


class _OpenSheet:
    """A sheet while it is read."""

    def __init__(self, styles: _Styles) -> None:
        self._styles = styles
        self._rows: dict[int, dict[int, str]] = {}
        self._merged: list[Range] = []
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[tuple[int, int]] = []
        self._row = self._column = 0
        self._remarks: list[str] = []
        self._cut_short = False

    def add_column(self, node: ElementTree.Element) -> None:
        """Note whether columns are shown."""
        end = self._column + _times(node, "columns", MOST_COLUMNS)
        if node.get(f"{_TABLE}visibility", "visible") != "visible":
            self._hidden_columns.append((self._column, end - 1))
        self._column = end

    def add_row(self, node: ElementTree.Element, left: int) -> int:
        """Take a row in, as often as it is there; how many cells that were."""
        cells: dict[int, str] = {}
        column = 0
        for cell in _cells(node):
            times = _times(cell, "columns", MOST_COLUMNS)
            if text := _value(cell):
                repeats = min(times, _MOST_REPEATED)
                self._cut_short |= repeats < times
                cells |= dict.fromkeys(range(column, column + repeats), text)
            if text and (area := _spanned(cell, self._row, column)):
                self._merged.append(area)
            for remark in cell.iter(f"{_OFFICE}annotation"):
                if annotation := _annotation(remark, _name(self._row, column)):
                    self._remarks.append(annotation)
            column += times
        times = _times(node, "rows", MOST_ROWS)
        repeats = min(times, _MOST_REPEATED, left // len(cells)) if cells else 0
        self._cut_short |= bool(cells) and repeats < times
        for number in range(self._row, self._row + repeats):
            self._rows[number] = dict(cells)
            if node.get(f"{_TABLE}visibility", "visible") != "visible":
                self._hidden_rows.add(number)
        self._row += times
        return repeats * len(cells)

    def done(self, table: ElementTree.Element) -> Sheet:
        """The sheet, when its end is reached."""
        sheet = Sheet(squeeze(clean(table.get(f"{_TABLE}name", ""))))
        if self._styles.hides(table):
            sheet.hidden["sheet"] = 1
            return sheet
        repeat_merged(self._rows, self._merged)
        if not self._styles.hidden_too:
            sheet.hidden = leave_out(self._rows, self._hidden_rows, self._hidden_columns)
        sheet.tables = tables(self._rows, self._hidden_rows)
        sheet.remarks = self._remarks
        sheet.cut_short = self._cut_short
        return sheet


def _times(node: ElementTree.Element, what: str, most: int, how: str = "repeated") -> int:
    value = node.get(f"{_TABLE}number-{what}-{how}", "1")
    return min(max(1, int(value)), most) if value.isdecimal() and len(value) < 9 else 1


def _name(row: int, column: int) -> str:
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(65 + letter) + letters
    return f"{letters}{row + 1}"


def _value(cell: ElementTree.Element) -> str:
    """What the cell shows, where it shows all of its number."""
    text = _paragraphs(cell)
    kind = cell.get(f"{_OFFICE}value-type", "")
    if kind == "date":
        date = squeeze(clean(cell.get(f"{_OFFICE}date-value", "")))
        return date.replace("T", " ").removesuffix(" 00:00:00") or text
    if kind not in ("float", "percentage", "currency"):
        return text
    try:
        value = float(cell.get(f"{_OFFICE}value", ""))
        exact = Decimal(plain(value)) * (100 if kind == "percentage" else 1)
        seen = Decimal(re.sub(r"[^\d.-]", "", text))
    except (ValueError, InvalidOperation):
        return text
    if seen == exact:
        return text
    return f"{exact.normalize():f}%" if kind == "percentage" else plain(value)
