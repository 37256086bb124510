"""A PDF file: its pages, what repeats on them, its headings and what it says of itself.

Text is taken in the order a person reads it, whichever way the page is turned.
Text that no person sees is left out (`hidden.py`). Pages without text, and pictures on others,
are read by recognition (`scans.py`).

The library's layout model and pymupdf4llm cost a hundred times as much as the
plain text with its places and read the same, so the order is worked out in
`layout.py`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymupdf

from localrag.documents.formats.pdf.headings import font_levels, outline_levels
from localrag.documents.formats.pdf.layout import (
    Block,
    Paragraph,
    drop_running_text,
    paragraphs,
    reading_order,
    stacked,
)
from localrag.documents.formats.pdf.page import page_text
from localrag.documents.formats.pdf.sample import drawn
from localrag.documents.formats.pdf.scans import PageRead, Scans
from localrag.documents.formats.pdf.tables import name_columns
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, PageLines, build, squeeze, words
from localrag.documents.ocr import Image, bounded
from localrag.documents.positions import Piece, place, turned
from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    EncryptedFileError,
    ImageOnlyFileError,
    ModelError,
    UnsupportedFileError,
)
from localrag.text.normalize import clean
from localrag.types import Document, PageNote

MOST_PAGES = 20_000
"""Pages of the longest file that is read: more is a mistake or meant to keep us busy."""

_LONGEST_REASON = 200
"""Code points that are kept of what a library says of a damaged page."""

_NOT_A_TITLE = re.compile(
    r"untitled.*|\(?(?:anonymous|unspecified)\)?|microsoft (?:word|powerpoint|excel).*|.*\.\w{2,4}"
    r"|无标题.*|文档\s*\d*|document\d*",
    re.IGNORECASE,
)

# MuPDF keeps one state for the whole process and is not safe to use from two threads.
_LOCK = threading.Lock()

# Its functions carry no types.
_mupdf: Any = pymupdf


def read(file: SourceFile) -> Document:
    """Read a PDF; safe to call from several threads, one runs at a time.

    Pages may have the notes "no text", "damaged", "hidden text" and those of recognition;
    `metadata` may hold `author`.

    Raises EncryptedFileError, EmptyFileError, CorruptFileError,
    ImageOnlyFileError or UnsupportedFileError; ModelCorruptError.
    """
    with _opened(file) as document:
        return _read(document, file)


def draw(file: SourceFile, page: int, width: int) -> tuple[Image, tuple[float, float]]:
    """A page as it is shown, and its size in points. Raises as `read`."""
    with _opened(file) as document:
        try:
            sheet = document.load_page(page - 1)
            size = sheet.rect.width, sheet.rect.height
            scale = bounded(*size, dpi=72 * width / max(1.0, size[0]))
            return drawn(sheet, scale), size
        except Exception as error:
            raise _corrupt(file.source, error) from error


@contextmanager
def _opened(file: SourceFile) -> Iterator[Any]:
    with _LOCK:
        _mupdf.TOOLS.mupdf_display_errors(False)
        _mupdf.TOOLS.mupdf_display_warnings(False)
        # MuPDF's own exceptions share no base class but Exception, here and below.
        try:
            document = _mupdf.open(stream=file.data, filetype="pdf")
        except Exception as error:
            raise _corrupt(file.source, error) from error
        try:
            _check(document, file)
            yield document
        finally:
            document.close()


def _corrupt(source: str, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        "{source} is damaged or not a PDF file ({reason}).",
        hint="Copy or download it again, or open it in a PDF reader and save it again.",
        source=source,
        reason=squeeze(str(error)) or type(error).__name__,
    )


def _check(document: Any, file: SourceFile) -> None:
    if not document.is_pdf:  # MuPDF looks at the bytes and opens pictures and archives too
        raise CorruptFileError(
            "{source} is not a PDF file, despite its name.",
            hint="Save it as PDF, Office file, text or picture and add that: `localrag doctor` "
            "lists all types.",
            source=file.source,
        )
    if document.needs_pass:
        raise EncryptedFileError(
            "{source} is password-protected, so its text cannot be read.",
            hint=(
                "Remove the password, for example with "
                "`qpdf --decrypt --password=... in.pdf out.pdf`, and add the new file."
            ),
            source=file.source,
        )


def _read(document: Any, file: SourceFile) -> Document:
    try:
        count = document.page_count
        toc = document.get_toc(simple=True)
        info = dict(document.metadata or {})
    except Exception as error:
        raise _corrupt(file.source, error) from error
    if count > MOST_PAGES:
        raise UnsupportedFileError(
            "{source} has {pages} pages, more than the limit of {limit}.",
            hint="Split it into parts, for example with `qpdf --split-pages=500`.",
            source=file.source,
            pages=count,
            limit=MOST_PAGES,
        )
    read: list[PageRead] = []
    notes: list[list[PageNote]] = []
    sheets: list[tuple[int, float, float]] = []
    reason: Exception | None = None
    scans = Scans(file.options.ocr)
    for number in range(count):
        page_notes: list[PageNote] = []
        blocks: list[Block] = []
        try:
            page = document[number]
            sheets.append((page.rotation // 90, page.rect.width, page.rect.height))
            text = page_text(page, keep_hidden=file.options.hidden_text, reader=scans.reader)
            blocks = text.blocks
            if text.hides:
                page_notes.append(PageNote("hidden text"))
            seen = scans.read(page, text)
            if seen.how != "ocr" and text.turn and seen.blocks:
                page_notes.append(PageNote("turned", {"degrees": text.turn}))
        except ModelError:
            raise
        except Exception as error:
            seen, reason = PageRead(blocks), error
            sheets[number:] = sheets[number : number + 1] or [(0, 0.0, 0.0)]
            page_notes.append(
                PageNote("damaged", {"reason": squeeze(str(error))[:_LONGEST_REASON]})
            )
        if seen.how == "ocr":  # its places are those on the page as it is shown
            sheets[number] = (0, *sheets[number][1:])
        read.append(seen)
        notes.append([*page_notes, *seen.notes])
        file.page_done(number + 1, count, recognised=seen.looked)
    lost = [any(n.kind == "damaged" for n in page_notes) for page_notes in notes]
    if reason is not None and all(lost) and not any(seen.blocks for seen in read):
        raise _corrupt(file.source, reason) from reason
    pages = [seen.blocks for seen in read]
    content = drop_running_text(pages)
    # A file whose every row repeats is still better than nothing, unless it is a scan.
    if not any(content) and (file.options.ocr or not _has_pictures(document)):
        content = pages
    if not any(content):
        garbled = sum(
            1 for page_notes in notes if any(note.kind == "untrusted" for note in page_notes)
        )
        raise _no_text(document, file, mostly_garbled=2 * garbled > count)
    vocabulary = words(row.text for blocks in content for block in blocks for row in block.rows)
    ordered = [reading_order(stacked(blocks)) for blocks in content]
    name_columns(ordered)
    page_paragraphs = [paragraphs(blocks, vocabulary) for blocks in ordered]
    levels = outline_levels(page_paragraphs, toc) or font_levels(page_paragraphs)
    lines = [
        [_line(line, levels, *sheet) for line in page]
        for page, sheet in zip(page_paragraphs, sheets, strict=True)
    ]
    for page, page_notes in zip(lines, notes, strict=True):
        if not page and not any(note.problem for note in page_notes):
            page_notes.append(PageNote("no text"))
    author, title = (squeeze(clean(info.get(name) or "")) for name in ("author", "title"))
    metadata = {"author": author} if author else {}
    page_lines = [
        PageLines(page, "", seen.how, seen.confidence, tuple(page_notes), sheet[1:])
        for page, seen, page_notes, sheet in zip(lines, read, notes, sheets, strict=True)
    ]
    return build(file, page_lines, "" if _NOT_A_TITLE.fullmatch(title) else title, metadata)


def _line(
    paragraph: Paragraph, levels: Mapping[int, int], turns: int, width: float, height: float
) -> Line:
    """A paragraph with its place on the page as it is shown, `width` by `height`."""
    pieces = paragraph.pieces
    if turns:
        before = (height, width) if turns % 2 else (width, height)
        pieces = [
            Piece(piece.text, *turned(piece[1:5], turns, *before), (piece.turn + turns) % 4)
            for piece in pieces
        ]
    marks = place(paragraph.text, pieces)
    return Line(paragraph.text, levels.get(id(paragraph), 0), paragraph.table, marks)


def _has_pictures(document: Any) -> bool:
    try:
        return any(document.get_page_images(number) for number in range(document.page_count))
    except Exception:
        return False  # a damaged list of pictures is as good as none


def _no_text(
    document: Any, file: SourceFile, *, mostly_garbled: bool
) -> EmptyFileError | ImageOnlyFileError | UnsupportedFileError:
    if mostly_garbled:
        return UnsupportedFileError(
            "{source} cannot be read: its fonts do not say which characters they show.",
            hint="Open it, print it to a new PDF as images, and add that file.",
            source=file.source,
        )
    if _has_pictures(document):
        return ImageOnlyFileError(
            "{source} contains only images, and text recognition found no text on any of its "
            "{pages} pages."
            if file.options.ocr
            else "{source} contains only images of text (a scan), and text recognition is switched "
            "off: none of its {pages} pages has text.",
            hint="If they do show text, scan them again: sharper, or at 300 dpi."
            if file.options.ocr
            else "Switch it on: localrag config set parsing.ocr true. `localrag doctor` says "
            "whether it is installed.",
            source=file.source,
            pages=document.page_count,
        )
    return EmptyFileError(
        "{source} contains no text: its pages ({pages}) are blank or show only drawings.",
        hint="Open it in a PDF reader to check that it is the file you meant.",
        source=file.source,
        pages=document.page_count,
    )
