"""Presentations (pptx), read with python-pptx: a slide is a page, its notes stand below it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from localrag.documents.formats.archive import Archive, core_title
from localrag.documents.formats.sheets import cell_text, row_text
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, PageLines, build, empty, squeeze
from localrag.documents.pictures import with_pictures
from localrag.text.normalize import clean
from localrag.types import Document

_DEEPEST = 20
_PICTURE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"


def read(file: SourceFile) -> Document:
    """Raises what `Archive` raises, EmptyFileError if no slide has text."""
    import pptx

    archive = Archive(file)
    pages: list[PageLines] = []
    hidden = 0
    try:
        for slide in pptx.Presentation(io.BytesIO(file.data)).slides:
            # A hidden slide keeps its number, as in the program that shows it.
            if slide._element.get("show") in ("0", "false") and not file.options.hidden_text:
                hidden += 1
                pages.append(PageLines([]))
                continue
            title = slide.shapes.title
            lines = list(_shapes(slide.shapes, None if title is None else title.shape_id))
            if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
                lines += _paragraphs(slide.notes_slide.notes_text_frame)
            parts = [each for each in slide.part.rels.values() if each.reltype == _PICTURE]
            blobs = [each.target_part.blob for each in parts if not each.is_external]
            pages.append(with_pictures(file, PageLines(lines), blobs))
            file.page_done()
    except Exception as error:  # whatever a damaged file leads python-pptx to
        raise archive.damaged(error) from error
    if not any(page.lines for page in pages):
        raise empty(file.source)
    return build(
        file, pages, clean(core_title(archive)), {"hidden_text": "1"} if hidden else {}, "slide"
    )


def _shapes(shapes: Iterable[Any], title: int | None, depth: int = 0) -> Iterator[Line]:
    """The title first, then from top to bottom and left to right."""
    placed = sorted(
        shapes, key=lambda each: (each.shape_id != title, each.top or 0, each.left or 0)
    )
    for shape in placed:
        if shape.shape_id == title:
            if text := squeeze(clean(shape.text_frame.text).replace("\n", " ").replace("\v", " ")):
                yield Line(text, 1)
        elif hasattr(shape, "shapes"):
            if depth < _DEEPEST:
                yield from _shapes(shape.shapes, None, depth + 1)
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                if text := row_text([cell_text(cell.text) for cell in row.cells]):
                    yield Line(text)
        elif getattr(shape, "has_chart", False):
            yield from _chart(shape.chart)
        elif shape.has_text_frame:
            yield from _paragraphs(shape.text_frame)


def _paragraphs(frame: Any) -> Iterator[Line]:
    for paragraph in frame.paragraphs:
        for part in clean(paragraph.text).replace("\v", "\n").split("\n"):
            if text := squeeze(part):
                yield Line(text)


def _chart(chart: Any) -> Iterator[Line]:
    """A chart as the table behind it."""
    if chart.has_title and (text := squeeze(clean(chart.chart_title.text_frame.text))):
        yield Line(text)
    for plot in chart.plots:
        yield Line(row_text(["", *(cell_text(each) for each in plot.categories)]))
        for series in plot.series:
            values = ["" if each is None else cell_text(each) for each in series.values]
            yield Line(row_text([cell_text(series.name), *values]))
