"""What a file of Office is by its content: one is often named as another.

A report that a web page calls .xls is HTML or CSV, Word saves RTF as .doc, and the old binary
files, which only their own programs read, hide behind the same suffixes.
"""

from __future__ import annotations

import io
import re
import zipfile

from localrag.documents.formats.table import FORMATS, FileFormat, contradiction, encrypted
from localrag.errors import OldFormatError

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OFFICE = ("word", "sheets", "slides", "opendocument", "epub", "rtf")
_PARTS = {"word/": "word", "xl/": "sheets", "ppt/": "slides", "META-INF/container.xml": "epub"}
_MIME = {
    b"application/vnd.oasis.opendocument.spreadsheet": "sheets",
    b"application/vnd.oasis.opendocument.text": "opendocument",
    b"application/vnd.oasis.opendocument.presentation": "opendocument",
    b"application/epub+zip": "epub",
}
_STREAMS = {
    "__properties_version1.0": "mail",
    "EncryptedPackage": "",
    "Workbook": "sheets",
    "Book": "sheets",
    "WordDocument": "docx",
    "PowerPoint Document": "pptx",
}
_RTF = re.compile(rb"\s*\{\\rtf")
_SKIPPED = rb"\s*+(?:<\?xml[^>]*+>\s*+)*+"
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?" + _SKIPPED + rb"(?:<!--(?>.*?-->" + _SKIPPED + rb")+?)?"
    rb"<(?:!doctype\s+html|html|head|body|meta|style|title|table|div|center)\b",
    re.IGNORECASE | re.DOTALL,
)
"""How a page of the web begins, such as `<?xml version="1.0"?> <!-- saved --> <html`.

Between the start of the first comment and the end of any may be anything, such as comments: nothing
is tried in more than one way.
"""
_START = 4096


def actual(data: bytes, expected: FileFormat, source: str) -> FileFormat:
    """The format that the content is of; `expected` where it is none of those of Office.

    Raises EncryptedFileError, and OldFormatError for what only its own program reads.
    """
    if expected.name not in _OFFICE:
        return expected
    if data.startswith(b"PK\3\4"):
        name = _zipped(data, expected.name)
    elif data.startswith(OLE):
        name = binary_kind(data, expected.name)
        if not name and _stream("EncryptedPackage") in data:
            raise encrypted(source)
        if name in ("docx", "pptx"):
            raise OldFormatError(
                "{source} is in the old binary format of its program.",
                hint="Save it as {better} and add that file; on Linux it is read as it is where "
                "LibreOffice is installed.",
                source=source,
                better=name.upper(),
            )
    else:
        name = _text(data[:_START], expected.name)
        if name in ("delimited", "text") and contradiction(data, expected):
            return expected
    return next((form for form in FORMATS if form.name == name), expected)


def disguised(data: bytes) -> FileFormat | None:
    """The format that is surely behind a wrong suffix: PDF, a picture, or one of Office."""
    name = _zipped(data, "") if data.startswith(b"PK\3\4") else ""
    for form in FORMATS:
        plain = form.name in ("pdf", "image", "rtf") and form.signature
        if form.name == name or (plain and plain.match(data[:_START])):
            return form
    return None


def binary_kind(data: bytes, expected: str = "") -> str:
    """What an old binary file of Office is: a format, what to save it as, or "".

    Where there is one in the other, as a sheet in a text, what is expected comes first.
    """
    if not data.startswith(OLE):
        return ""
    kinds = [kind for name, kind in _STREAMS.items() if _stream(name) in data]
    expected_kind = {"word": "docx", "slides": "pptx"}.get(expected, expected)
    return expected_kind if expected_kind in kinds else next(iter(kinds), "")


def _stream(name: str) -> bytes:
    return (name + "\0").encode("utf-16-le")


def _zipped(data: bytes, expected: str) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.NameToInfo
            if "mimetype" in names and names["mimetype"].file_size < 100:
                kind = archive.read("mimetype").strip()
                if kind in _MIME:
                    return _MIME[kind]
            starts = {name.partition("/")[0] + "/" for name in names}
            if "content.xml" in names:
                return expected if expected == "sheets" else "opendocument"
    except Exception:
        return ""  # its reader says what is wrong
    return next((kind for part, kind in _PARTS.items() if part in starts or part in names), "")


def _text(start: bytes, expected: str) -> str:
    if _RTF.match(start):
        return "rtf"
    if _HTML.match(start):
        return "html"
    wide = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if start and (wide or not re.search(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]", start)):
        return {"sheets": "delimited", "word": "text"}.get(expected, "")
    return ""
