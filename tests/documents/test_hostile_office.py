"""Office files made to harm: refused at once, or read within seconds and bounded memory."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from localrag.documents.files import parse_file
from localrag.documents.formats import archive
from localrag.documents.formats.table import Limits
from localrag.documents.worker import ParsingProcess
from localrag.egress import network
from localrag.errors import ParsingError, UnsupportedFileError
from localrag.types import Document

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'


def zipped(parts: dict[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for name, content in parts.items():
            zip_file.writestr(name, content)
    return stream.getvalue()


def word(body: str | bytes, relations: str = "", **more: str) -> bytes:
    """A docx whose XML of the document is as given."""
    main = f'{RELS}<Relationship Id="a" Type="{R}/officeDocument" Target="word/document.xml"/>'
    parts: dict[str, str | bytes] = {
        "_rels/.rels": f"{main}</Relationships>",
        "word/_rels/document.xml.rels": f"{RELS}{relations}</Relationships>",
        "word/document.xml": body,
    }
    return zipped(parts | dict(more))


def document(body: str) -> str:
    return f"<w:document {W}><w:body>{body}</w:body></w:document>"


def sheet(rows: str, strings: str = "") -> bytes:
    main = f'{RELS}<Relationship Id="a" Type="{R}/officeDocument" Target="xl/workbook.xml"/>'
    related = "".join(
        f'<Relationship Id="{id_}" Type="{R}/{kind}" Target="{target}"/>'
        for id_, kind, target in (
            ("r1", "worksheet", "sheet1.xml"),
            ("r2", "sharedStrings", "sharedStrings.xml"),
        )
    )
    return zipped(
        {
            "_rels/.rels": f"{main}</Relationships>",
            "xl/_rels/workbook.xml.rels": f"{RELS}{related}</Relationships>",
            "xl/workbook.xml": f'<workbook xmlns:r="{R}"><sheets><sheet name="S" r:id="r1"/>'
            "</sheets></workbook>",
            "xl/sheet1.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
            "xl/sharedStrings.xml": f"<sst>{strings}</sst>",
        }
    )


@pytest.fixture(scope="module")
def process() -> Iterator[ParsingProcess]:
    worker = ParsingProcess(limits=Limits(silence=30.0, longest=60.0, memory=2**30))
    yield worker
    worker.close()


def read(process: ParsingProcess, name: str, data: bytes, seconds: float = 120.0) -> Document | str:
    """The document, or what is said of the file; within so many seconds."""
    start = time.monotonic()
    try:
        outcome: Document | str = process(Path(name), data)
    except ParsingError as error:
        outcome = str(error)
    assert time.monotonic() - start < seconds
    return outcome


def test_a_bomb_is_refused_by_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    data = word(document("<w:p><w:r><w:t>aaaa</w:t></w:r></w:p>" * 3_000_000))
    assert len(data) < 2**20

    def never(*_: object) -> None:
        raise AssertionError("a byte was unpacked")

    monkeypatch.setattr(archive.ZipArchive, "read", never)
    monkeypatch.setattr(archive.ZipArchive, "stream", never)
    with pytest.raises(UnsupportedFileError, match="would unpack to 105 MB"):
        parse_file(Path("a.docx"), data)


def test_a_directory_that_lies_gains_nothing() -> None:
    data = bytearray(word(document("<w:p><w:r><w:t>aaaa</w:t></w:r></w:p>" * 3_000_000)))
    # The last member but one of the directory says that it is small when unpacked.
    for signature, offset in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        place = data.find(b"word/document.xml", data.find(signature))
        entry = data.rfind(
            signature, 0, data.rfind(b"word/document.xml") if offset == 24 else place
        )
        data[entry + offset : entry + offset + 4] = (1000).to_bytes(4, "little")
    with pytest.raises(ParsingError):
        parse_file(Path("a.docx"), bytes(data))


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE a [<!ENTITY e0 "aaaaaaaaaa">{ENTITIES}]>',
        '<!DOCTYPE a [<!ENTITY e11 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a [<!ENTITY e11 SYSTEM "http://tracker.invalid/x">]>',
    ],
)
def test_entities_are_never_taken(doctype: str, process: ParsingProcess) -> None:
    text = doctype + document("<w:p><w:r><w:t>&e11;</w:t></w:r></w:p>")
    before = len(network.attempts())
    for name, data in (
        ("a.docx", word(text)),
        ("a.odt", zipped({"content.xml": text})),
        ("b.xlsx", zipped({"_rels/.rels": text, "xl/workbook.xml": text})),
        ("a.epub", zipped({"META-INF/container.xml": text})),
    ):
        assert isinstance(read(process, name, data), str)
    assert len(network.attempts()) == before


def test_nothing_outside_is_fetched(process: ParsingProcess) -> None:
    out = 'TargetMode="External" Target="http://tracker.invalid/x"'
    relations = "".join(
        f'<Relationship Id="x{kind}" Type="{R}/{kind}" {out}/>'
        for kind in ("attachedTemplate", "image", "hyperlink", "styles", "header", "chart")
    )
    a = "http://schemas.openxmlformats.org/drawingml/2006/main"
    body = document(
        f'<w:p><w:r><w:t>text</w:t><w:drawing><a:blip xmlns:a="{a}" xmlns:r="{R}" '
        'r:link="ximage"/></w:drawing></w:r></w:p>'
    )
    before = len(network.attempts())
    paper = read(process, "a.docx", word(body, relations))
    assert isinstance(paper, Document)
    assert paper.text == "text"
    assert len(network.attempts()) == before


def test_what_nests_without_end_is_a_clear_error(process: ParsingProcess) -> None:
    deep = "<w:tbl><w:tr><w:tc>" * 10_000 + "</w:tc></w:tr></w:tbl>" * 10_000
    office = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    for name, data in (
        ("a.docx", word(document(deep))),
        (
            "a.odt",
            zipped({"content.xml": f"<a {office}>" + "<b>" * 30_000 + "</b>" * 30_000 + "</a>"}),
        ),
        ("a.rtf", b"{\\rtf1 " + b"{" * 100_000),
    ):
        message = read(process, name, data)
        assert isinstance(message, str)
        assert "nests" in message or "groups without an end" in message


def test_names_that_lead_out_write_nothing(tmp_path: Path) -> None:
    data = word(document("<w:p><w:r><w:t>text</w:t></w:r></w:p>"), **{"../../out.xml": "<a/>"})
    assert parse_file(tmp_path / "inner" / "a.docx", data).text == "text"
    assert list(tmp_path.iterdir()) == []


def test_large_strings_and_wide_rows_are_read(process: ParsingProcess) -> None:
    long = "word " * 2_000_000
    paper = read(
        process,
        "a.xlsx",
        sheet('<row r="1"><c r="A1" t="s"><v>0</v></c></row>', f"<si><t>{long}</t></si>"),
    )
    assert isinstance(paper, str | Document)
    wide = read(process, "a.csv", b"a," * 1_000_000 + b"\n" + b"1," * 1_000_000)
    assert isinstance(wide, Document)


def test_scattered_cells_and_repeated_rows_cost_what_they_hold(process: ParsingProcess) -> None:
    rows = "".join(
        f'<row r="{n}"><c r="{"ABC"[n % 3]}{n}"><v>{n}</v></c><c r="XFD{n}"><v>1</v></c></row>'
        for n in range(1, 1_048_576, 50)
    )
    paper = read(process, "a.xlsx", sheet(rows))
    assert isinstance(paper, Document)
    assert paper.text.count("\n") > 20_000
    names = " ".join(
        f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{prefix}:1.0"'
        for prefix in ("office", "table", "text")
    )
    body = (
        '<table:table table:name="S"><table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p>'
        "</table:table-cell></table:table-row></table:table>"
    )
    content = f"<office:document-content {names}>{body}</office:document-content>"
    ods = read(process, "a.ods", zipped({"content.xml": content}))
    assert isinstance(ods, Document)
    assert [note.kind for note in ods.pages[0].notes] == ["cut short"]
