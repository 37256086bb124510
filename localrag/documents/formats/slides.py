"""Presentations (pptx, pptm), read with python-pptx: a slide is a page, its notes stand below it.

Pictures are not opened, so that none can spoil a slide.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree

from localrag.documents.formats.archive import ZipArchive, core_title, elements, local, part_of
from localrag.documents.formats.cells import Range, cell_text, filled
from localrag.documents.formats.comments import comment
from localrag.documents.formats.drawing import chart_rows, chart_title, paragraphs
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
from localrag.types import Document, PageNote

_DEEPEST = 20
_FAR = 1 << 62
"""Where a shape stands whose place is not known."""


def read(file: SourceFile) -> Document:
    """Raises what `ZipArchive` raises, EmptyFileError if no slide has text."""
    import pptx

    archive = ZipArchive(file)
    pages: list[PageLines] = []
    pictures = Pictures(file, archive)
    authors = _authors(archive, part_of(archive.related(""), "officeDocument"))
    try:
        for slide in pptx.Presentation(io.BytesIO(file.data)).slides:
            # A hidden slide keeps its number, as in the program that shows it.
            if slide._element.get("show") in ("0", "false") and not file.options.hidden_text:
                pages.append(PageLines([], notes=hidden_notes(1, "slide")))
                continue
            reader = _Slide(archive, slide, file.options.hidden_text)
            lines = list(reader.lines())
            lines += _comments(archive, reader.related, authors)
            label = next((line.text for line in lines if line.level), "")
            notes = [PageNote("damaged", {"reason": reason}) for reason in reader.damaged]
            notes += hidden_notes(reader.hidden)
            names = (part for kind, part in reader.related.values() if kind == "image")
            page = PageLines(lines, label, notes=tuple(notes))
            pages.append(pictures.on(page, names))
            file.page_done()
    except RecursionError as error:
        raise archive.too_deep() from error
    except Exception as error:  # whatever a damaged file leads python-pptx to
        raise archive.damaged(error) from error
    if not any(page.lines for page in pages):
        raise empty(file.source)
    return build(file, pages, clean(core_title(archive)), unit="slide")


class _Slide:
    """One slide, and what could not be read of it."""

    def __init__(self, archive: ZipArchive, slide: Any, hidden_too: bool) -> None:
        self.damaged: list[str] = []
        self.hidden = 0
        """Shapes that are not shown and have text."""
        self._archive, self._slide, self._hidden_too = archive, slide, hidden_too
        self.related = archive.related(str(slide.part.partname).lstrip("/"))

    def lines(self) -> Iterator[Line]:
        """The title first, the other shapes from top to bottom, then the notes."""
        title = self._slide.shapes.title
        yield from self._shapes(self._slide.shapes, None if title is None else title.shape_id)
        if self._slide.has_notes_slide:
            frame = self._slide.notes_slide.notes_text_frame
            yield from () if frame is None else _paragraphs(frame)

    def _shapes(self, shapes: Iterable[Any], title: int | None, depth: int = 0) -> Iterator[Line]:
        for shape in sorted(shapes, key=lambda shape: (shape.shape_id != title, *_place(shape))):
            try:
                lines = list(self._shape(shape, title, depth))
            except RecursionError:
                raise
            except Exception as error:  # one shape that is damaged does not cost the slide
                self.damaged.append(f"{type(error).__name__}: {error}"[:200])
            else:
                if _is_hidden(shape) and not self._hidden_too:
                    self.hidden += bool(lines)
                else:
                    yield from lines

    def _shape(self, shape: Any, title: int | None, depth: int) -> Iterator[Line]:
        if shape.shape_id == title and shape.has_text_frame:
            if text := squeeze(clean(shape.text_frame.text).replace("\v", " ")):
                yield Line(text, 1)
        elif hasattr(shape, "shapes"):
            if depth < _DEEPEST:
                yield from self._shapes(shape.shapes, None, depth + 1)
        elif getattr(shape, "has_table", False):
            yield from _table(shape.table)
        elif shape.has_text_frame:
            yield from _paragraphs(shape.text_frame)
        else:
            yield from self._graphic(shape)

    def _graphic(self, shape: Any) -> Iterator[Line]:
        """A chart as the table behind it, a diagram as its texts."""
        for element in shape._element.iter():
            if not isinstance(element.tag, str) or local(element.tag) not in ("chart", "relIds"):
                continue
            for name, value in element.attrib.items():
                kind, part = self.related.get(value, ("", ""))
                has_part = local(name) in ("id", "dm") and kind in ("chart", "diagramData")
                root = self._archive.xml(part) if has_part else None
                if root is not None:
                    yield from _drawing_lines(root, kind)


def _table(table: Any) -> list[Line]:
    rows: list[list[str]] = []
    merged: list[Range] = []
    for top, row in enumerate(table.rows):
        rows.append([])
        for left, cell in enumerate(row.cells):
            rows[-1].append("" if cell.is_spanned else cell_text(cell.text))
            if cell.is_merge_origin:
                end = (top + cell.span_height - 1, left + cell.span_width - 1)
                merged.append((top, left, *end))
    return table_lines(filled(rows, merged))


def _drawing_lines(root: ElementTree.Element, kind: str) -> list[Line]:
    if kind == "diagramData":
        return [Line(paragraph) for paragraph in paragraphs(root)]
    title = chart_title(root)
    return [*([Line(title)] if title else []), *table_lines(chart_rows(root), 1)]


def _place(shape: Any) -> tuple[int, int]:
    try:
        return (shape.top or 0, shape.left or 0)
    except Exception:
        return (_FAR, _FAR)  # its place is damaged: then it comes last


def _is_hidden(shape: Any) -> bool:
    return any(
        element.get("hidden") in ("1", "true")
        for element in shape._element.iter("{*}cNvPr")
        if element.getparent().getparent() is shape._element
    )


def _paragraphs(frame: Any) -> Iterator[Line]:
    for paragraph in frame.paragraphs:
        for part in clean(paragraph.text).replace("\v", "\n").split("\n"):
            if text := squeeze(part):
                yield Line(text)


def _authors(archive: ZipArchive, main: str) -> dict[str, str]:
    """Who comments, by the number or the name that comments of the old and the new form give."""
    authors = {}
    for kind, part in archive.related(main).values():
        root = archive.xml(part) if kind in ("commentAuthors", "authors") else None
        for author in () if root is None else root:
            authors[author.get("id", "")] = author.get("name", "")
    return authors


def _comments(
    archive: ZipArchive, related: dict[str, tuple[str, str]], authors: dict[str, str]
) -> Iterator[Line]:
    for kind, part in related.values():
        root = archive.xml(part) if kind == "comments" else None
        for remark in elements(root, "cm", "reply"):
            inside = [child for child in remark if local(child.tag) in ("text", "txBody")]
            texts = ("".join(t.text or "" for t in elements(body, "text", "t")) for body in inside)
            by = authors.get(remark.get("authorId", ""), "")
            when = remark.get("dt", "") or remark.get("created", "")
            if content := comment(" ".join(texts), by, when):
                yield Line(content)
