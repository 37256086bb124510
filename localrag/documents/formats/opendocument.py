"""Texts and presentations of OpenDocument (odt, odp): a slide is a page, a text has one."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from localrag.documents.formats.archive import Archive, local
from localrag.documents.formats.sheets import row_text
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, PageLines, build, empty, squeeze
from localrag.documents.pictures import with_pictures
from localrag.text.normalize import clean
from localrag.types import Document

_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_LINK = "{http://www.w3.org/1999/xlink}"
_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_LEFT_OUT = frozenset(
    f"{_TEXT}{name}"
    for name in ("tracked-changes", "table-of-content", "sequence-decls", "note-citation")
) | {f"{_OFFICE}annotation", f"{_OFFICE}forms", f"{_DRAW}image"}
_DEEPEST = 60


def read(file: SourceFile) -> Document:
    """Raises what `Archive` raises, EmptyFileError if there is no text."""
    archive = Archive(file)
    root = archive.xml("content.xml")
    body = None if root is None else root.find(f"{_OFFICE}body")
    if body is None:
        raise archive.damaged(ValueError("content.xml"))
    slides = list(body.iter(f"{_DRAW}page"))
    pages: list[PageLines] = []
    for page in slides or [body]:
        names = [each.get(f"{_LINK}href", "") for each in page.iter(f"{_DRAW}image")]
        pictures = map(archive.read, names)
        pages.append(with_pictures(file, PageLines(list(_blocks(page))), pictures))
        file.page_done()
    if not any(page.lines for page in pages):
        raise empty(file.source)
    meta = archive.xml("meta.xml")
    titles = () if meta is None else (e.text or "" for e in meta.iter() if local(e.tag) == "title")
    return build(file, pages, clean(next(iter(titles), "")))


def _blocks(node: ElementTree.Element, depth: int = 0, marker: str = "") -> Iterator[Line]:
    for child in node:
        if child.tag in _LEFT_OUT or depth > _DEEPEST:
            continue
        if child.tag in (f"{_TEXT}h", f"{_TEXT}p"):
            text = squeeze(clean(_inline(child)))
            level = child.get(f"{_TEXT}outline-level", "1") if child.tag == f"{_TEXT}h" else "0"
            if node.get(f"{_PRESENTATION}class") == "title" or (
                depth and node.tag == f"{_DRAW}text-box" and marker == "title"
            ):
                level = "1"
            if text:
                is_item = marker not in ("", "title")
                yield Line((marker if is_item else "") + text, int(level) if level.isdigit() else 1)
                marker = marker if marker == "title" else ""
            for frame in child.iter():
                if frame is not child and frame.tag in (f"{_DRAW}text-box", f"{_TEXT}note-body"):
                    yield from _blocks(frame, depth + 1)
        elif child.tag == f"{_TABLE}table-row":
            if text := row_text(list(_cells(child, depth))):
                repeated = child.get(f"{_TABLE}number-rows-repeated", "1")
                yield from [Line(text)] * min(int(repeated) if repeated.isdigit() else 1, 100)
        elif child.tag == f"{_TEXT}list-item":
            yield from _blocks(child, depth + 1, "- ")
        elif child.get(f"{_PRESENTATION}class") == "title":
            yield from _blocks(child, depth + 1, "title")
        else:
            yield from _blocks(child, depth + 1, marker if marker == "title" else "")


def _cells(row: ElementTree.Element, depth: int) -> Iterator[str]:
    for cell in row:
        if cell.tag in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            text = " ".join(line.text for line in _blocks(cell, depth + 1))
            times = cell.get(f"{_TABLE}number-columns-repeated", "1")
            yield from [text] * min(int(times) if times.isdigit() else 1, 1000)


def _inline(node: ElementTree.Element) -> str:
    parts = [node.text or ""]
    for child in node:
        if child.tag == f"{_TEXT}s":
            count = child.get(f"{_TEXT}c", "1")
            parts.append(" " * min(int(count) if count.isdigit() else 1, 100))
        elif child.tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
            parts.append(" ")
        elif child.tag not in _LEFT_OUT and child.tag not in (
            f"{_TEXT}note",
            f"{_DRAW}frame",
            f"{_DRAW}text-box",
        ):
            parts.append(_inline(child))
        parts.append(child.tail or "")
    return "".join(parts)
