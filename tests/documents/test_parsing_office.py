"""What a reader of Word, sheets, slides, OpenDocument, EPUB and RTF sees, and nothing else."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localrag.documents import legacy
from localrag.documents.files import parse_file
from localrag.documents.formats.numbering import counted
from localrag.documents.formats.numbers import shown
from localrag.documents.formats.table import ParseOptions
from localrag.documents.worker import ParsingProcess
from localrag.errors import CorruptFileError, EncryptedFileError, UnsupportedFileError
from localrag.types import Document, PageNote

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
CLIENT = "application/vnd.openxmlformats-officedocument"
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def saved(document: Any) -> bytes:
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def with_parts(data: bytes, parts: dict[str, str]) -> bytes:
    """An Office file with further parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            if name not in parts:
                new.writestr(name, old.read(name))
        for name, content in parts.items():
            new.writestr(name, content)
    return stream.getvalue()


def read(name: str, data: bytes, hidden_text: bool = False) -> Document:
    return parse_file(Path(name), data, ParseOptions(hidden_text))


def lines(name: str, data: bytes, hidden_text: bool = False) -> list[str]:
    return read(name, data, hidden_text).text.split("\n")


# Word


def word(body: str, numbering: str = "", **parts: str) -> bytes:
    """A docx with such a body, with the XML of other parts by their kind."""
    members = {"numbering": numbering, **parts}
    relations = "".join(
        f'<Relationship Id="{name}" Type="{RELATED}/{name.rstrip("0123456789")}" '
        f'Target="{name}.xml"/>'
        for name, xml in members.items()
        if xml
    )
    rels = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(
            "_rels/.rels",
            f'{rels}<Relationship Id="a" Type="{RELATED}/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
        )
        archive.writestr("word/_rels/document.xml.rels", f"{rels}{relations}</Relationships>")
        archive.writestr(
            "word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>"
        )
        for name, xml in members.items():
            if xml:
                archive.writestr(f"word/{name}.xml", xml.replace("<w:", "<w:", 1))
    return stream.getvalue()


def p(text: str, run: str = "", paragraph: str = "") -> str:
    return (
        f"<w:p><w:pPr>{paragraph}</w:pPr><w:r><w:rPr>{run}</w:rPr>"
        f'<w:t xml:space="preserve">{text}</w:t></w:r></w:p>'
    )


def test_word_as_python_docx_writes_it() -> None:
    import docx

    document = docx.Document()
    document.core_properties.title = "The tea book"
    document.add_heading("Tea", 1)
    document.add_paragraph("First paragraph.")
    document.add_paragraph("one", style="List Number")
    document.add_paragraph("two", style="List Number")
    document.add_paragraph("point", style="List Bullet")
    table = document.add_table(2, 2)
    for number, text in enumerate(("Grade", "kg", "特级", "330,435.30")):
        table.cell(number // 2, number % 2).text = text
    document.sections[0].header.paragraphs[0].text = "Letterhead of the tea house"
    document.sections[0].footer.paragraphs[0].text = "12"
    paper = read("a.docx", saved(document))
    assert paper.title == "The tea book"
    assert paper.text.split("\n") == [
        "Letterhead of the tea house",
        "Tea",
        "First paragraph.",
        "1. one",
        "2. two",
        "- point",
        "Grade | kg",
        "特级 | 330,435.30",
    ]
    assert [heading.text for heading in paper.headings] == ["Tea"]


NUMBERING = f"""<w:numbering {W}><w:abstractNum w:abstractNumId="1">
<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="chineseCounting"/>
<w:lvlText w:val="第%1条"/></w:lvl>
<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:isLgl/>
<w:lvlText w:val="%1.%2"/></w:lvl></w:abstractNum>
<w:num w:numId="7"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="8"><w:abstractNumId w:val="1"/>
<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride></w:num></w:numbering>"""


def test_numbers_that_word_writes_itself() -> None:
    def item(text: str, level: int, number: int = 7) -> str:
        numbered = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
        return p(text, paragraph=numbered)

    body = item("总则", 0) + item("目的", 1) + item("范围", 1) + item("定义", 0) + item("词", 1)
    assert lines("a.docx", word(body + item("附则", 0, 8), NUMBERING)) == [
        "第一条 总则",
        "1.1 目的",
        "1.2 范围",
        "第二条 定义",
        "2.1 词",
        "第五条 附则",
    ]


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (10, "chineseCounting", "十"),
        (21, "chineseCountingThousand", "二十一"),
        (105, "chineseCounting", "一百零五"),
        (4, "upperRoman", "IV"),
        (28, "lowerLetter", "bb"),
        (3, "decimalEnclosedCircle", "③"),
        (2, "ideographTraditional", "乙"),
        (7, "an unknown kind", "7"),
        (3, "i", "iii"),
    ],
)
def test_kinds_of_numbers(number: int, kind: str, text: str) -> None:
    assert counted(number, kind) == text


def test_what_word_does_not_show_is_left_out_and_said() -> None:
    hidden = {
        "vanish": "<w:vanish/>",
        "white": '<w:color w:val="FFFFFF"/>',
        "tiny": '<w:sz w:val="2"/>',
    }
    body = p("seen") + "".join(p(name, run) for name, run in hidden.items())
    shaded = '<w:tc><w:tcPr><w:shd w:val="clear" w:fill="1F4E79"/></w:tcPr>'
    white = p("white on blue", hidden["white"])
    body += f"<w:tbl><w:tr>{shaded}{white}</w:tc></w:tr></w:tbl>" + p(
        "off", '<w:vanish w:val="0"/>'
    )
    document = read("a.docx", word(body))
    assert document.text.split("\n") == ["seen", "white on blue", "off"]
    assert document.pages[0].notes == (PageNote("hidden text", {"what": "text", "count": 3}),)
    full_document = read("a.docx", word(body), hidden_text=True)
    assert full_document.text.split("\n") == ["seen", *hidden, "white on blue", "off"]
    assert full_document.pages[0].notes == ()


def test_word_keeps_insertions_boxes_comments_notes_and_ticks() -> None:
    comments = (
        f'<w:comments {W}><w:comment w:id="4" w:author="Ann" w:date="2026-01-02T03:04:05Z">'
        f"{p('Is it so?')}</w:comment></w:comments>"
    )
    footnotes = (
        f'<w:footnotes {W}><w:footnote w:id="2">{p("from a note")}</w:footnote></w:footnotes>'
    )
    box = f"<w:r><w:pict><w:txbxContent>{p('in a box')}</w:txbxContent></w:pict></w:r>"
    tick = (
        '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/2010/'
        'wordml"><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr><w:sdtContent><w:r><w:t>☒'
        "</w:t></w:r></w:sdtContent></w:sdt><w:r><w:t> done</w:t></w:r>"
    )
    body = (
        "<w:p><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins><w:del><w:r><w:delText>deleted"
        '</w:delText></w:r></w:del><w:r><w:commentReference w:id="4"/></w:r>'
        f'<w:r><w:footnoteReference w:id="2"/></w:r></w:p><w:p>{box}</w:p><w:p>{tick}</w:p>'
    )
    text = "\n".join(lines("a.docx", word(body, comments=comments, footnotes=footnotes)))
    assert "inserted" in text
    assert "deleted" not in text
    assert "[comment, author: Ann, time: 2026-01-02T03:04:05] Is it so?" in text
    for phrase in ("from a note", "in a box", "[x] done"):
        assert phrase in text


def test_headings_of_styles_with_other_names() -> None:
    styles = (
        f'<w:styles {W}><w:style w:type="paragraph" w:styleId="a"><w:name w:val="Ueberschrift"/>'
        '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="b"><w:name w:val="Mine"/><w:basedOn w:val="a"/>'
        "</w:style></w:styles>"
    )
    body = p("Based", paragraph='<w:pStyle w:val="b"/>') + p("text")
    body += p("Direct", paragraph='<w:outlineLvl w:val="0"/>')
    headings = read("a.docx", word(body, styles=styles)).headings
    assert [(heading.level, heading.text) for heading in headings] == [(2, "Based"), (1, "Direct")]


# Sheets


def test_sheets_as_openpyxl_writes_them() -> None:
    import datetime

    import openpyxl
    from openpyxl.comments import Comment

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sales 销售"
    rows: list[list[Any]] = [
        ["Item", "Share", "Price", "Day", "Ok", "Count"],
        ["a", 0.125, 1234.5, datetime.datetime.fromisoformat("2026-03-01"), True, 330435.3],
        ["secret row", 1, 2, None, False, 3],
        ["b", 0.5, 33.333333, datetime.datetime.fromisoformat("2026-03-01T14:30"), False, 7],
    ]
    for row in rows:
        sheet.append(row)
    for row in (2, 3, 4):
        sheet.cell(row, 2).number_format = "0%"
        sheet.cell(row, 3).number_format = '"$"#,##0.00'
    sheet.row_dimensions[3].hidden = True
    sheet["H1"], sheet["H4"] = "Hidden", "column"
    sheet.column_dimensions["H"].hidden = True
    sheet["A2"].comment = Comment("Is it?", "Ann")
    other = book.create_sheet("Secret")
    other["A1"] = "nobody sees this"
    other.sheet_state = "hidden"
    document = read("a.xlsx", saved(book))
    assert document.unit == "sheet"
    assert [page.label for page in document.pages] == ["Sales 销售", "Secret"]
    assert document.pages[0].text.split("\n") == [
        "Sales 销售",
        "Item | Share | Price | Day | Ok | Count",
        "a | 12.5% | $1,234.50 | 2026-03-01 | TRUE | 330435.3",
        "b | 50% | $33.333333 | 2026-03-01 14:30:00 | FALSE | 7",
        "[comment on A2, author: Ann] Is it?",
    ]
    assert {(note.values["what"], note.values["count"]) for note in document.pages[0].notes} == {
        ("rows", 1),
        ("columns", 1),
    }
    assert document.pages[1].text == ""
    assert document.pages[1].notes == (PageNote("hidden text", {"what": "sheet", "count": 1}),)
    full_text = read("a.xlsx", saved(book), hidden_text=True).text
    assert {"secret row", "nobody sees this", "Hidden"} <= set(
        full_text.replace(" | ", "\n").split("\n")
    )


def test_merged_cells_and_tables_that_stand_apart() -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A1"] = "A title over all"
    for place, text in {
        "A2": "Name Size",
        "A3": "x 1 2",
        "A4": "y 3 4",
        "E8": "Other Table",
    }.items():
        for offset, value in enumerate(text.split()):
            sheet[place].offset(0, offset).value = value
    sheet["E9"], sheet["F9"] = "q", "9"
    sheet.merge_cells("A1:C1")
    sheet.merge_cells("B2:C2")
    document = read("a.xlsx", saved(book))
    assert document.text.split("\n")[1:] == [
        "A title over all",
        "Name | Size | Size",
        "x | 1 | 2",
        "y | 3 | 4",
        "Other | Table",
        "q | 9",
    ]
    assert [table.header for table in document.tables] == [
        ("Name", "Size", "Size"),
        ("Other", "Table"),
    ]


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.1 + 0.2, "General", "0.3"),
        (1234567.891, "#,##0.00", "1,234,567.891"),
        (1234567.8, "#,##0.00", "1,234,567.80"),
        (-5, "#,##0;[Red](#,##0)", "-5"),
        (7, "00000", "00007"),
        (0.07, "0.00%", "7.00%"),
        (12.5, "[$€-407] #,##0.00", "€12.50"),
        (3, '0 "kg"', "3 kg"),
        (0.25, "# ?/?", "0.25"),
        (1e-9, "0.00E+00", "1e-09"),
        (45000.5, "yyyy-mm-dd hh:mm", "2023-03-15 12:00:00"),
        (1.25, "[h]:mm", "30:00:00"),
        (0.75, "hh:mm", "18:00:00"),
        (45000, 'yyyy"年"m"月"d"日"', "2023-03-15"),
        (1, "d/m/yyyy", "1900-01-01"),
        (99999999.0, "yyyy-mm-dd", "99999999"),
    ],
)
def test_numbers_keep_all_digits_and_show_their_format(value: float, code: str, text: str) -> None:
    assert shown(value, code) == text


def test_a_cell_in_the_last_corner_costs_nothing() -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "first", "last"
    data = saved(book)
    name = "xl/worksheets/sheet1.xml"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        merged = '<mergeCells><mergeCell ref="B1:XFD1048575"/></mergeCells></worksheet>'
        xml = archive.read(name).decode().replace("</worksheet>", merged)
    assert read("a.xlsx", with_parts(data, {name: xml})).text.split("\n")[1:] == ["first", "last"]


# Slides


def test_slides_as_python_pptx_writes_them() -> None:
    import pptx
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    low = slide.shapes.add_textbox(0, Inches(5), Inches(2), Inches(1))
    low.text_frame.text = "below"
    high = slide.shapes.add_textbox(0, Inches(2), Inches(2), Inches(1))
    high.text_frame.text = "above"
    slide.shapes.title.text = "The title"
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Sales", (19.2, 21.4))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, Inches(6), Inches(3), Inches(1), data)
    slide.notes_slide.notes_text_frame.text = "said aloud"
    hidden = deck.slides.add_slide(deck.slide_layouts[5])
    hidden.shapes.title.text = "Hidden slide"
    hidden._element.set("show", "0")
    last = deck.slides.add_slide(deck.slide_layouts[5])
    last.shapes.title.text = "The end"
    document = read("a.pptx", saved(deck))
    assert document.pages[0].text.split("\n") == [
        "The title",
        "above",
        "below",
        " | Sales",
        "East | 19.2",
        "West | 21.4",
        "said aloud",
    ]
    assert [page.label for page in document.pages] == ["The title", "", "The end"]
    assert document.pages[1].notes == (PageNote("hidden text", {"what": "slide", "count": 1}),)
    assert document.unit == "slide"
    assert "Hidden slide" in read("a.pptx", saved(deck), hidden_text=True).text


def test_a_picture_that_is_missing_does_not_lose_the_slide() -> None:
    import pptx

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Beside a picture"
    picture = io.BytesIO()
    import PIL.Image

    PIL.Image.new("RGB", (3, 3)).save(picture, "PNG")
    slide.shapes.add_picture(picture, 0, 0)
    data = saved(deck)
    broken = with_parts(data, {"ppt/media/image1.png": "no picture"})
    assert read("a.pptx", broken).text == "Beside a picture"


# OpenDocument, EPUB, RTF


OFFICE = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for short, name in (
        *(("office", "office"), ("text", "text"), ("table", "table"), ("style", "style")),
        *(("draw", "drawing"), ("fo", "xsl-fo-compatible"), ("p", "presentation")),
    )
)


def opendocument(kind: str, body: str, styles: str = "") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr(
            "content.xml",
            f"<office:document-content {OFFICE} xmlns:dc='http://purl.org/dc/elements/1.1/'>"
            f"<office:automatic-styles>{styles}</office:automatic-styles><office:body>"
            f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>",
        )
    return stream.getvalue()


def test_a_formula_without_a_result_stands_there_itself() -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["Item", "Total"], ["a", "=2*3"], ["b", 7]):
        book.active.append(row)
    document = read("a.xlsx", saved(book))
    assert document.text.split("\n") == ["Sheet", "Item | Total", "a | =2*3", "b | 7"]
    assert document.pages[0].notes == (PageNote("left out", {"what": "formulas", "count": 1}),)
    cell = '<c r="A1"><f>2*3</f><v>6</v></c><c r="B1" t="str"><f>""</f><v></v></c>'
    sheet = f'<worksheet xmlns="{MAIN}"><sheetData><row r="1">{cell}</row></sheetData></worksheet>'
    computed_document = read("a.xlsx", with_parts(saved(book), {"xl/worksheets/sheet1.xml": sheet}))
    assert (computed_document.text.split("\n"), computed_document.pages[0].notes) == (
        ["Sheet", "6"],
        (),
    )


def test_opendocument_text() -> None:
    styles = (
        '<text:list-style style:name="L"><text:list-level-style-number text:level="1" '
        'style:num-format="1" style:num-suffix="."/></text:list-style><style:style '
        'style:name="H"><style:text-properties text:display="none"/></style:style>'
    )
    body = (
        '<text:h text:outline-level="2">Head</text:h><text:list text:style-name="L">'
        "<text:list-item><text:p>one</text:p></text:list-item><text:list-item><text:p>two</text:p>"
        '</text:list-item></text:list><text:p>seen<text:span text:style-name="H"> unseen'
        "</text:span>"
        "<office:annotation><dc:creator>Ann</dc:creator><text:p>Why?</text:p></office:annotation>"
        "</text:p>"
    )
    document = read("a.odt", opendocument("text", body, styles))
    assert document.text.split("\n") == [
        "Head",
        "1. one",
        "2. two",
        "seen",
        "[comment, author: Ann] Why?",
    ]
    assert document.pages[0].notes == (PageNote("hidden text", {"what": "text", "count": 1}),)


WHITE = '<text:p><text:span text:style-name="W">{}</text:span></text:p>'
WHITE_STYLE = (
    '<style:style style:name="W"><style:text-properties fo:color="#FFFFFF"/></style:style>'
    '<style:style style:name="Blue"><style:table-cell-properties fo:background-color="#1f4e79"/>'
    '</style:style><style:style style:name="Own" style:parent-style-name="Blue"/>'
    '<style:style style:name="Dark"><style:graphic-properties draw:fill="gradient"/></style:style>'
    '<style:style style:name="Clear"><style:graphic-properties draw:fill="none" '
    'fo:background-color="transparent"/></style:style>'
)


def test_white_text_of_opendocument_is_read_where_something_lies_behind_it() -> None:
    def cell(text: str, style: str) -> str:
        return (
            f'<table:table-row><table:table-cell table:style-name="{style}">{WHITE.format(text)}'
            "</table:table-cell></table:table-row>"
        )

    def frame(text: str, style: str) -> str:
        return (
            f'<text:p><draw:frame draw:style-name="{style}"><draw:text-box>{WHITE.format(text)}'
            "</draw:text-box></draw:frame></text:p>"
        )

    body = (
        f"{WHITE.format('unseen')}<table:table>{cell('head', 'Own')}{cell('gone', 'None')}"
        f"</table:table>{frame('boxed', 'Dark')}{frame('lost', 'Clear')}"
        f'<text:p text:style-name="Own">on <text:span text:style-name="W">blue</text:span></text:p>'
    )
    document = read("a.odt", opendocument("text", body, WHITE_STYLE))
    assert document.text.split("\n") == ["head", "boxed", "on blue"]
    assert document.pages[0].notes == (PageNote("hidden text", {"what": "text", "count": 3}),)
    page = (
        '<style:page-layout style:name="P"><style:page-layout-properties '
        'fo:background-color="#000000"/></style:page-layout>'
    )
    document = read("a.odt", opendocument("text", body, WHITE_STYLE + page))
    assert document.text.split("\n") == ["unseen", "head", "gone", "boxed", "lost", "on blue"]
    assert not document.pages[0].notes


def test_a_dark_slide_of_opendocument_is_read_without_what_stands_for_its_number() -> None:
    box = "<draw:frame><draw:text-box>{}</draw:text-box></draw:frame>"
    number = "<text:p><text:page-number>&lt;number&gt;</text:page-number></text:p>"
    content = "<text:p>page <text:page-number>7</text:page-number></text:p>"
    body = (
        f"<draw:page>{box.format(WHITE.format('Night'))}{box.format(number)}{box.format(content)}"
        "</draw:page>"
    )
    document = read("a.odp", opendocument("presentation", body, WHITE_STYLE))
    assert document.text.split("\n") == ["Night", "page 7"]
    assert not document.pages[0].notes


def test_opendocument_sheets() -> None:
    def cell(kind: str, value: str, text: str, more: str = "") -> str:
        return (
            f'<table:table-cell office:value-type="{kind}" office:value="{value}" {more}>'
            f"<text:p>{text}</text:p></table:table-cell>"
        )

    rows = (
        f"<table:table-row>{cell('string', '', 'Name')}{cell('string', '', 'Share')}"
        "</table:table-row><table:table-row>"
        f"{cell('string', '', 'a')}{cell('percentage', '0.125', '13%')}</table:table-row>"
        f'<table:table-row table:visibility="collapse">{cell("string", "", "secret")}'
        "</table:table-row><table:table-row table:number-rows-repeated='2'>"
        f"{cell('string', '', 'b')}{cell('float', '1234.5', '1,234.50')}</table:table-row>"
        '<table:table-row table:number-rows-repeated="1048000"><table:table-cell '
        'table:number-columns-repeated="16384"/></table:table-row>'
    )
    document = read(
        "a.ods", opendocument("spreadsheet", f'<table:table table:name="S">{rows}</table:table>')
    )
    assert document.text.split("\n") == [
        "S",
        "Name | Share",
        "a | 12.5%",
        "b | 1,234.50",
        "b | 1,234.50",
    ]
    assert document.pages[0].notes == (PageNote("hidden text", {"what": "rows", "count": 1}),)


RTF = rb"""{\rtf1\ansi\ansicpg936{\fonttbl{\f0\fnil\fcharset134 \'cb\'ce\'cc\'e5;}{\f1 Arial;}}
{\info{\title \'b1\'a8\'b8\'e6}}{\header Letterhead\par}\pard\f0\'d6\'d0\'b9\'fa\f1  and
 \u20013?\uc2\u25991\'ce\'c4{\v hidden}{\deleted gone}{\footnote a note}\par
{\listtext 1.\tab}item\par\trowd\pard\intbl a\cell b\par c\cell\row\pard
{\field{\*\fldinst HYPERLINK "http://x"}{\fldrslt link}} \u-10179?\u-8704?{\*\unknown no}\par}"""


def test_rtf() -> None:
    document = read("a.rtf", RTF)
    assert document.title == "报告"
    assert document.text.split("\n") == [
        "Letterhead",
        "中国 and 中文 (a note)",
        "1. item",
        "a | b c",
        "link 😀",
    ]
    assert document.pages[0].notes == (PageNote("hidden text", {"what": "text", "count": 1}),)
    assert "hidden" in read("a.rtf", RTF, hidden_text=True).text


# By what it is


def test_office_files_are_read_by_what_they_are() -> None:
    import docx
    import openpyxl

    document = docx.Document()
    document.add_paragraph("a paragraph")
    book = openpyxl.Workbook()
    book.active["A1"] = "a cell"
    assert lines("a.doc", saved(document)) == ["a paragraph"]
    assert "a cell" in lines("a.xls", saved(book))
    assert lines("a.doc", RTF)[0] == "Letterhead"
    assert lines("a.xls", b"<html><table><tr><td>a<td>b</table>") == ["a | b"]
    assert lines("a.xls", "名称\t数量\n茶\t3\n".encode("gb18030")) == ["名称 | 数量", "茶 | 3"]
    assert lines("a.xlsx", b"name,count\r\ntea,3\r\n") == ["name | count", "tea | 3"]
    with pytest.raises(CorruptFileError, match="PDF"):
        read("a.docx", b"%PDF-1.4")


def ole(stream: str) -> bytes:
    name = (stream + "\0").encode("utf-16-le")
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + name + bytes(512)


def test_what_only_its_own_program_reads_is_named_with_advice() -> None:
    with pytest.raises(UnsupportedFileError, match=r"a\.doc is in the old binary format") as error:
        read("a.doc", ole("WordDocument"))
    assert error.value.values["better"] == "DOCX"
    with pytest.raises(EncryptedFileError, match="password"):
        read("a.docx", ole("EncryptedPackage"))


# LibreOffice


@pytest.fixture(scope="module")
def soffice(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], bytes]:
    """Has LibreOffice make a file of a kind from one page of HTML."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice is not installed")
    folder = tmp_path_factory.mktemp("soffice")
    (folder / "a.html").write_text(
        "<html><body><h1>标题</h1><p>中文 and “quotes”</p><ol><li>one<li>two</ol><table><tr>"
        "<td>Alloy<td>kg<tr><td>TA15<td>330,435.30</table></body></html>",
        encoding="utf-8",
    )

    def convert(suffix: str, filter_: str) -> bytes:
        command = [program, f"-env:UserInstallation={folder.as_uri()}/profile", "--headless"]
        command += ["--infilter=HTML (StarWriter)", "--convert-to", f"{suffix}:{filter_}"]
        command += ["--outdir", str(folder), str(folder / "a.html")]
        subprocess.run(command, capture_output=True, check=True, timeout=120)
        return (folder / f"a.{suffix}").read_bytes()

    return convert


@pytest.mark.parametrize(
    ("suffix", "filter_"),
    [("odt", "writer8"), ("docx", "MS Word 2007 XML"), ("rtf", "Rich Text Format")],
)
def test_files_that_libreoffice_writes(
    soffice: Callable[[str, str], bytes], suffix: str, filter_: str
) -> None:
    assert lines(f"a.{suffix}", soffice(suffix, filter_)) == [
        "标题",
        "中文 and “quotes”",
        "1. one",
        "2. two",
        "Alloy | kg",
        "TA15 | 330,435.30",
    ]


def test_what_libreoffice_writes_is_bounded(
    soffice: Callable[[str, str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that takes it over fills neither the memory of whoever reads, nor the disk."""
    data = soffice("doc", "MS Word 97")
    if legacy.modern(Path("a.doc"), data) is None:
        pytest.skip("the kernel cannot confine LibreOffice")
    flood = (
        "import sys\n"
        "from localrag.documents import legacy\n"
        "legacy.LARGEST = 1 << 20\n"
        "def convert(program, folder, old, new, kind):\n"
        "    while True:\n"
        "        sys.stdout.buffer.write(bytes(1 << 16))\n"
        "        sys.stdout.buffer.flush()\n"
        "legacy._convert = convert\n"
        "legacy.main()\n"
    )
    monkeypatch.setattr(legacy, "PROGRAM", flood)
    with pytest.raises(CorruptFileError, match=f"wrote {1 << 20} bytes"):
        legacy.modern(Path("a.doc"), data)


def test_an_old_word_file_through_libreoffice(soffice: Callable[[str, str], bytes]) -> None:
    data = soffice("doc", "MS Word 97")
    if legacy.modern(Path("a.doc"), data) is None:
        pytest.skip("the kernel cannot confine LibreOffice")
    process = ParsingProcess()
    try:
        document = process(Path("a.doc"), data)
        again = parse_file(Path("a.txt"), data=b"x")
    finally:
        process.close()
    assert "TA15 | 330,435.30" in document.text.split("\n")
    assert len(document.id) == len(again.id) == 64
    assert document.id != parse_file(Path("a.docx"), legacy.modern(Path("a.doc"), data)).id
