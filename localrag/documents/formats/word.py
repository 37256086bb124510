"""Word documents (docx, docm): mammoth makes HTML of them, which is read as any other page.

Tracked insertions and notes are kept; what was deleted is not. Before that, what mammoth passes
over is written into the text: numbers of lists and headings, check boxes, formulas, text boxes,
charts and diagrams, comments, headers and footers; and text that Word does not show is taken out.
mammoth gets nothing but XML that has been read here: no pictures, macros or embedded files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import is_not
from xml.etree import ElementTree

from localrag.documents.formats.archive import (
    ZipArchive,
    core_title,
    elements,
    is_true,
    local,
    packed,
    part_of,
)
from localrag.documents.formats.comments import comment
from localrag.documents.formats.drawing import chart_rows, chart_title, paragraphs
from localrag.documents.formats.html import html_lines
from localrag.documents.formats.numbering import WordNumbering, value_of
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import PageLines, build, empty, hidden_notes, squeeze
from localrag.documents.pictures import Pictures, stored
from localrag.text.normalize import clean
from localrag.types import Document

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p[style-name='标题'] => h1:fresh
"""
_WHITE = ("ffffff", "fffffe", "fefefe")
_BARE_TABLES = ("", "TableNormal", "TableGrid")
"""Styles of tables that have no colour behind the text."""
_SMALLEST = 4
"""Half points; what is smaller cannot be seen."""
_IGNORED = f"{_W}annotationRef"
"""An element that mammoth passes over."""
_DRAWN = ("drawing", "pict", "object", "AlternateContent")
_PAGE_FIELD = re.compile(r"\b(?:NUM)?PAGES?\b|SECTIONPAGES")
_LONGEST_PAGE_NUMBER = 24
"""Characters of a line such as "Page 1 of 3", in all languages that were looked at."""


def read(file: SourceFile) -> Document:
    """Raises what `ZipArchive` raises, EmptyFileError if there is no text."""
    import mammoth

    archive = ZipArchive(file)
    package = _Package(archive, file.options.hidden_text)
    members = package.members()
    file.page_done()
    try:
        html = mammoth.convert_to_html(
            packed(members),
            style_map=_STYLES,
            convert_image=lambda _: [],
            include_embedded_style_map=False,
            external_file_access=False,
        ).value
    except RecursionError as error:
        raise archive.too_deep() from error
    except Exception as error:  # whatever a damaged file leads mammoth to
        raise archive.damaged(error) from error
    file.page_done()
    page = PageLines(html_lines(clean(html)), notes=hidden_notes(package.hidden))
    page = Pictures(file, archive).on(page, stored(archive, "word/media/"))
    if not page.lines:
        raise empty(file.source)
    return build(file, [page], clean(core_title(archive)), unit="text")


class _Package:
    """The parts of a document, made ready for mammoth."""

    def __init__(self, archive: ZipArchive, hidden_too: bool) -> None:
        self.hidden = 0
        """Runs of text that were left out because Word does not show them."""
        self._archive, self._hidden_too = archive, hidden_too
        self._main = part_of(archive.related(""), "officeDocument")
        self._related = archive.related(self._main)
        styles = self._part_root("styles")
        self._headings, self._vanished = _styles(styles)
        self._numbering = WordNumbering(self._part_root("numbering"), styles)

    def members(self) -> dict[str, bytes]:
        """What mammoth reads, by name."""
        root = self._archive.xml(self._main)
        body = None if root is None else root.find(f"{_W}body")
        if root is None or body is None:
            raise self._archive.damaged(ValueError("word/document.xml"))
        self._prepare(root, self._main)
        self._add_comments(body)
        self._add_running(body)
        parts = {"document": root}
        for kind in ("footnotes", "endnotes"):
            notes = self._part_root(kind)
            if notes is not None:
                self._prepare(notes, part_of(self._related, kind))
                parts[kind] = notes
            _drop_references(parts.values(), kind.removesuffix("s"), notes)
        contents = {f"word/{name}.xml": _serialised(part) for name, part in parts.items()}
        return contents | {"word/styles.xml": _serialised(self._heading_styles())}

    def _part_root(self, kind: str) -> ElementTree.Element | None:
        return self._archive.xml(part_of(self._related, kind))

    def _prepare(self, root: ElementTree.Element, part: str) -> None:
        related = self._archive.related(part)
        if not self._hidden_too:
            self._drop_hidden(root, shaded=root.find(f"{_W}background") is not None)
        self._draw(root, related)
        _write_formulas(root)
        _tick_boxes(root)
        for element in root.iter():
            if element.tag == f"{_W}hyperlink":
                element.attrib.clear()  # where it leads is not read
            elif element.tag == f"{_W}p":
                self._write_number(element)

    def _write_number(self, paragraph: ElementTree.Element) -> None:
        properties = paragraph.find(f"{_W}pPr")
        marker = self._numbering.number(properties)
        level = "" if properties is None else value_of(properties, "outlineLvl")
        if properties is not None:
            for element in properties.findall(f"{_W}numPr"):
                properties.remove(element)
            if level.isdecimal() and int(level[:2]) < 6:
                style = properties.find(f"{_W}pStyle")
                if style is None:
                    style = ElementTree.SubElement(properties, f"{_W}pStyle")
                style.set(f"{_W}val", f"outline{level}")
        if marker and any(element.text for element in paragraph.iter(f"{_W}t")):
            paragraph.insert(0 if properties is None else 1, _run(f"{marker} "))

    def _heading_styles(self) -> ElementTree.Element:
        """The styles that are headings, under the names by which mammoth knows them."""
        root = ElementTree.Element(f"{_W}styles")
        known = self._headings | {f"outline{n}": f"heading {n + 1}" for n in range(6)}
        for id_, name in known.items():
            attributes = {f"{_W}type": "paragraph", f"{_W}styleId": id_}
            style = ElementTree.SubElement(root, f"{_W}style", attributes)
            ElementTree.SubElement(style, f"{_W}name", {f"{_W}val": name})
        return root

    # What is not shown

    def _drop_hidden(self, node: ElementTree.Element, shaded: bool) -> None:
        """Take out hidden, white and tiny text; `shaded` is what may lie on a colour."""
        properties = node.find(f"{_W}pPr")
        vanished = properties is not None and value_of(properties, "pStyle") in self._vanished
        children = []
        for child in node:
            on_colour = shaded or _is_shaded(child)
            if child.tag == f"{_W}r" and (vanished or self._is_hidden(child, on_colour)):
                self.hidden += any(element.text for element in child.iter(f"{_W}t"))
            else:
                self._drop_hidden(child, on_colour)
                children.append(child)
        if len(children) < len(node):
            node[:] = children  # all at once: a paragraph may have a hundred thousand runs

    def _is_hidden(self, run: ElementTree.Element, shaded: bool) -> bool:
        style = run.find(f"{_W}rPr")
        if style is None:
            return False
        vanish = style.find(f"{_W}vanish")
        if vanish is not None and is_true(vanish.get(f"{_W}val", "1")):
            return True
        size = value_of(style, "sz")
        if value_of(style, "rStyle") in self._vanished or (
            size.isdecimal() and int(size[:4]) < _SMALLEST
        ):
            return True
        white = value_of(style, "color").lower() in _WHITE
        return white and not shaded and style.find(f"{_W}highlight") is None

    # What mammoth passes over

    def _draw(self, node: ElementTree.Element, related: dict[str, tuple[str, str]]) -> None:
        """Leave of drawings their texts, and the data of charts, each as blocks of their own."""
        for place, child in enumerate(list(node)):
            if local(child.tag) in _DRAWN:
                drawn = ElementTree.Element(f"{_W}pict")
                drawn.extend(self._drawn_blocks(child, related))
                other = child.find(f"{_MC}Choice")
                if len(drawn) or other is None or local(node.tag) == "r":
                    drawn.tail = child.tail
                    node[place] = child = drawn
                else:
                    # Not a drawing, but text in two forms.
                    form = child.find(f"{_MC}Fallback")
                    child.tag = f"{_W}smartTag"
                    child[:] = list(other if form is None else form)
            self._draw(child, related)

    def _drawn_blocks(
        self, node: ElementTree.Element, related: dict[str, tuple[str, str]]
    ) -> Iterator[ElementTree.Element]:
        if node.tag == f"{_MC}AlternateContent":
            forms = [element for element in node if local(element.tag) in ("Choice", "Fallback")]
            drawings = (list(self._drawn_blocks(element, related)) for element in forms)
            yield from next(filter(None, drawings), [])
            return
        for child in node:
            if local(child.tag) == "txbxContent":
                child.tag = f"{_W}txbxContent"
                yield child
            elif local(child.tag) in ("chart", "relIds"):
                for name, value in child.attrib.items():
                    if local(name) in ("id", "dm"):
                        yield from self._graphic(*related.get(value, ("", "")))
            else:
                yield from self._drawn_blocks(child, related)

    def _graphic(self, kind: str, part: str) -> Iterator[ElementTree.Element]:
        root = self._archive.xml(part) if kind in ("chart", "diagramData") else None
        if root is None:
            return
        if kind == "diagramData":
            yield from map(_paragraph, paragraphs(root))
            return
        if title := chart_title(root):
            yield _paragraph(title)
        if rows := chart_rows(root):
            table = ElementTree.Element(f"{_W}tbl")
            for row in rows:
                line = ElementTree.SubElement(table, f"{_W}tr")
                for cell in row:
                    ElementTree.SubElement(line, f"{_W}tc").append(_paragraph(cell))
            yield table

    def _add_comments(self, body: ElementTree.Element) -> None:
        """Each comment behind the paragraph or the table that it is on."""
        root = self._part_root("comments")
        comments = {}
        for element in () if root is None else root:
            text = " ".join(t.text or "" for t in element.iter(f"{_W}t"))
            author, date = element.get(f"{_W}author", ""), element.get(f"{_W}date", "")
            comments[element.get(f"{_W}id", "")] = comment(text, author, date)
        blocks = []
        for block in list(body):
            blocks.append(block)
            for element in block.iter(f"{_W}commentReference"):
                element.tag = _IGNORED
                if text := comments.pop(element.get(f"{_W}id", ""), ""):
                    blocks.append(_paragraph(text))
        body[:] = blocks

    def _add_running(self, body: ElementTree.Element) -> None:
        """Headers above the text and footers below it, each line of them once."""
        running: dict[str, list[ElementTree.Element]] = {"header": [], "footer": []}
        seen: set[str] = set()
        for kind, part in self._related.values():
            root = self._archive.xml(part) if kind in running else None
            if root is None:
                continue
            self._prepare(root, part)
            for block in root:
                text = "".join(element.text or "" for element in block.iter(f"{_W}t"))
                fields = "".join(
                    [element.text or "" for element in block.iter(f"{_W}instrText")]
                    + [element.get(f"{_W}instr", "") for element in block.iter(f"{_W}fldSimple")]
                )
                number = _PAGE_FIELD.search(fields) and len(squeeze(text)) < _LONGEST_PAGE_NUMBER
                if text not in seen and any(map(str.isalpha, text)) and not number:
                    seen.add(text)
                    running[kind].append(block)
        body[:] = [*running["header"], *body, *running["footer"]]


def _serialised(root: ElementTree.Element) -> bytes:
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _run(text: str) -> ElementTree.Element:
    run = ElementTree.Element(f"{_W}r")
    ElementTree.SubElement(run, f"{_W}t", {_SPACE: "preserve"}).text = text
    return run


def _paragraph(text: str) -> ElementTree.Element:
    paragraph = ElementTree.Element(f"{_W}p")
    paragraph.append(_run(text))
    return paragraph


def _styles(root: ElementTree.Element | None) -> tuple[dict[str, str], set[str]]:
    """The names of the styles that are headings, by id; and the ids of those that hide text."""
    names: dict[str, str] = {}
    parents: dict[str, str] = {}
    levels: dict[str, str] = {}
    vanished = set()
    for element in () if root is None else root.findall(f"{_W}style"):
        id_ = element.get(f"{_W}styleId", "")
        names[id_], parents[id_] = value_of(element, "name"), value_of(element, "basedOn")
        properties, run = element.find(f"{_W}pPr"), element.find(f"{_W}rPr")
        if properties is not None and (level := value_of(properties, "outlineLvl")):
            levels[id_] = level
        vanish = None if run is None else run.find(f"{_W}vanish")
        if vanish is not None and is_true(vanish.get(f"{_W}val", "1")):
            vanished.add(id_)
    headings = {}
    for id_, name in names.items():
        chain = [id_]
        while chain[-1] not in levels and len(chain) < 20 and parents.get(chain[-1]):
            chain.append(parents[chain[-1]])
        level = levels.get(chain[-1], "")
        if level.isdecimal() and int(level[:2]) < 6:
            headings[id_] = f"heading {int(level) + 1}"
        elif name.lower() in ("title", "subtitle", "标题") or name.lower().startswith("heading "):
            headings[id_] = name
    return headings, vanished


def _is_shaded(node: ElementTree.Element) -> bool:
    """Whether a colour other than white may lie behind what is in it."""
    if local(node.tag) == "txbxContent":
        return True
    properties = next((element for element in node if local(element.tag).endswith("Pr")), None)
    if properties is None:
        return False
    if node.tag == f"{_W}tbl" and value_of(properties, "tblStyle") not in _BARE_TABLES:
        return True
    behind = properties.find(f"{_W}shd")
    if behind is None:
        return False
    fill = behind.get(f"{_W}fill", "auto").lower()
    pattern = behind.get(f"{_W}val", "clear")
    return fill not in ("auto", *_WHITE) or pattern not in ("clear", "nil")


def _drop_references(
    parts: Iterable[ElementTree.Element], kind: str, notes: ElementTree.Element | None
) -> None:
    """Take out marks of notes that are not there, as after a program has cut a file."""
    known = {element.get(f"{_W}id") for element in (() if notes is None else notes)}
    for part in parts:
        for element in part.iter(f"{_W}{kind}Reference"):
            if element.get(f"{_W}id") not in known:
                element.tag = _IGNORED


def _tick_boxes(root: ElementTree.Element) -> None:
    """Write the state of check boxes, new (content controls) and old (fields), as [x] and [ ]."""
    for control in root.iter(f"{_W}sdt"):
        properties, content = control.find(f"{_W}sdtPr"), control.find(f"{_W}sdtContent")
        for box in () if properties is None else list(properties):
            if local(box.tag) == "checkbox" and content is not None:
                state = next((element for element in box if local(element.tag) == "checked"), None)
                value = "0" if state is None else next(iter(state.attrib.values()), "1")
                signs = [e for e in content.iter() if e.tag in (f"{_W}t", f"{_W}sym")]
                for sign in signs:
                    sign.tag, sign.text = f"{_W}t", ""
                if signs:
                    signs[0].text = _box(is_true(value))
                box.tag = _IGNORED
    for run in list(root.iter(f"{_W}r")):
        for field in run.findall(f"{_W}fldChar"):
            old = field.find(f"{_W}ffData/{_W}checkBox")
            if old is not None:
                candidates = (old.find(f"{_W}{name}") for name in ("checked", "default"))
                state = next((element for element in candidates if element is not None), None)
                ticked = state is not None and is_true(state.get(f"{_W}val", "1"))
                field[:] = []
                ElementTree.SubElement(run, f"{_W}t").text = _box(ticked)


def _box(ticked: bool) -> str:
    return "[x]" if ticked else "[ ]"


def _write_formulas(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        children: list[ElementTree.Element] = []
        for child in parent:
            if local(child.tag) == "oMath":
                run = _run(f" {' '.join(_formula(child).split())} ")
                run.tail = child.tail
                children.append(run)
            elif local(child.tag) == "oMathPara":
                _write_formulas(child)
                children += [element for element in child if local(element.tag) == "r"]
            else:
                children.append(child)
        if len(children) != len(parent) or any(map(is_not, children, parent)):
            parent[:] = children


def _formula(node: ElementTree.Element) -> str:
    """A formula of Office (OMML) in one line: a fraction is (a)/(b), a power a^(b)."""
    name = local(node.tag)
    if name == "t":
        return node.text or ""
    if name.endswith("Pr"):
        marks = [element for element in node if local(element.tag) in ("chr", "begChr")]
        return next(iter(marks[0].attrib.values()), "") if name == "naryPr" and marks else ""
    parts = {local(element.tag): element for element in node}

    def part(key: str) -> str:
        inner = _formula(parts[key]).strip() if key in parts else ""
        return inner if len(inner) < 2 or inner.isalnum() else f"({inner})"

    if name == "f":
        return f"{part('num')}/{part('den')}"
    low = f"_{part('sub')}" if "sub" in parts else ""
    high = f"^{part('sup')}" if "sup" in parts else ""
    if name in ("sSup", "sSub", "sSubSup"):
        return f"{part('e')}{low}{high}"
    if name == "rad":
        return f"√{part('deg') if 'deg' in parts else ''}({_formula(parts['e'])})"
    if name == "nary":
        sign = "".join(_signs(node)) or "∫"
        return f"{sign}{low}{high} {_formula(parts['e'])}"
    inner = " ".join(_formula(element) for element in node) if name in ("m", "mr") else None
    if inner is None:
        inner = "".join(_formula(element) for element in node)
    return f"({inner})" if name == "d" else inner


def _signs(node: ElementTree.Element) -> Iterator[str]:
    for element in elements(node, "chr"):
        yield from element.attrib.values()
