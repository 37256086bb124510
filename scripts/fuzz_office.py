"""Files of Office to mutate: small, and with what readers stumble over."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

XML = (
    *(b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"<w:tbl><w:tr><w:tc>" * 80, b"</w:p>"),
    *(b"<a>" * 3000, b'r:id="rId99"', b'w:val="-1"', b'r="XFD1048576"', b'r="A0"', b"<v>1e999</v>"),
    *(b'table:number-rows-repeated="99999999"', b"<mc:AlternateContent>", b"<m:oMath>" * 60),
    *(b'hidden="1"', b'spans="1:99999999"', b's="99999"', b't="s"', b"<w:fldChar/>", b"<c/>" * 99),
    *(
        b"../../../etc/passwd",
        b'TargetMode="External"',
        b"\\'ff\\u-1?",
        b"{\\*\\x" * 500,
        b"\\cell",
    ),
)
"""Pieces of XML and RTF that have meant trouble somewhere."""


def saved(document: Any) -> bytes:
    """A file as its library writes it."""
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def words() -> list[bytes]:
    """Word documents: a list, a table in a table, a header."""
    import docx

    document = docx.Document()
    document.add_heading("Heading", 1)
    document.add_paragraph("one", style="List Number")
    table = document.add_table(2, 2)
    table.cell(0, 0).text = "cell"
    table.cell(1, 1).add_table(1, 1).cell(0, 0).text = "inner"
    document.sections[0].header.paragraphs[0].text = "Letterhead 港口"
    document.add_comment(document.paragraphs[0].runs, "why?", "Ann")
    return [_small(saved(document))]


def workbooks() -> list[bytes]:
    """Sheets: numbers with formats, a merged cell, a comment, a hidden row."""
    import openpyxl
    from openpyxl.comments import Comment

    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["a", 0.5, "港口"], ["b", 12.25, None], [None, True, "=1/0"]):
        sheet.append(row)
    sheet["B1"].number_format = "0.0%"
    sheet.merge_cells("A1:A2")
    sheet["C1"].comment = Comment("why?", "Ann")
    sheet.row_dimensions[3].hidden = True
    return [_small(saved(book))]


def decks() -> list[bytes]:
    """Slides: a table, a chart, notes."""
    import pptx
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Title 港口"
    slide.shapes.add_table(2, 2, 0, 0, 9, 9).table.cell(0, 0).text = "cell"
    data = CategoryChartData()
    data.categories = ["a", "b"]
    data.add_series("s", (1, 2))
    slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, 9, 9, data)
    slide.notes_slide.notes_text_frame.text = "notes"
    return [_small(saved(deck))]


_OPEN = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for short, name in (("office", "office"), ("text", "text"), ("table", "table"))
)
_TABLE = (
    '<table:table table:name="S"><table:table-column/><table:table-row '
    'table:number-rows-repeated="3"><table:table-cell office:value-type="float" office:value="1.5">'
    "<text:p>1.5</text:p></table:table-cell></table:table-row></table:table>"
)
_TEXT = (
    '<text:h text:outline-level="1">Head</text:h><text:list><text:list-item><text:p>one<text:s/>'
)


def texts() -> list[bytes]:
    """An OpenDocument text."""
    return [_open("text", f"{_TEXT}</text:p></text:list-item></text:list>{_TABLE}")]


def opensheets() -> list[bytes]:
    """An OpenDocument spreadsheet."""
    return [_open("spreadsheet", _TABLE)]


def books() -> list[bytes]:
    """A book with two chapters and an index of them."""
    pages = {name: f"<html><body><h1>{name}</h1><p>港口</p></body></html>" for name in "ab"}
    items = "".join(f'<item id="{name}" href="{name}.xhtml"/>' for name in pages)
    spine = "".join(f'<itemref idref="{name}"/>' for name in pages)
    parts = {
        "META-INF/container.xml": '<container><rootfile full-path="c.opf"/></container>',
        "c.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
    }
    return [packed(parts | {f"{name}.xhtml": page for name, page in pages.items()})]


RTF = rb"""{\rtf1\ansi\ansicpg936{\fonttbl{\f0\fcharset134 a;}}{\info{\title x}}\pard\f0 text
\'d6\'d0\u20013?{\v hidden}{\footnote note}\par\trowd\pard\intbl a\cell b\cell\row\pard
{\field{\*\fldinst HYPERLINK "x"}{\fldrslt link}}{\pict\bin4 abcd}\par}"""


def packed(parts: dict[str, str] | dict[str, bytes]) -> bytes:
    """A ZIP file of such parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


def inside(
    draw: random.Random, seeds: Sequence[bytes], mutate: Callable[[list[bytes]], bytes]
) -> bytes:
    """A sample with one to three of its parts changed, or put in the place of another."""
    with zipfile.ZipFile(io.BytesIO(draw.choice(seeds))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(draw.choice((1, 1, 2, 3))):
        name = draw.choice(sorted(parts))
        content = parts[name]
        match draw.randrange(6):
            case 0:
                parts[name] = parts[draw.choice(sorted(parts))]
            case 1:
                del parts[name]
            case 2 | 3:
                # Between two tags, where a piece of XML does most harm.
                at = content.find(b"<", draw.randrange(len(content) + 1))
                parts[name] = content[:at] + draw.choice(XML) + content[at:]
            case _:
                parts[name] = mutate([content])
        if not parts:
            break
    return packed(parts)


def _open(kind: str, body: str) -> bytes:
    content = (
        f"<office:document-content {_OPEN}><office:body><office:{kind}>{body}</office:{kind}>"
        "</office:body></office:document-content>"
    )
    mime = f"application/vnd.oasis.opendocument.{kind}"
    return packed({"mimetype": mime, "content.xml": content})


def _small(data: bytes) -> bytes:
    """The file without pictures and parts that no reader looks at."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        kept = {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.endswith((".jpeg", ".bin")) and "theme" not in name
        }
    return packed(kept)
