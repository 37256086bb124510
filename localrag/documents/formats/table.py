"""Which files can be read: one entry a format says its suffixes, its signature and its reader.

To add a format, write a module with `read(file: SourceFile) -> Document` and add its entry here:
the walk of folders, the refusals, `--type`, `doctor` and the reading process go by this table.
Files inside a file, such as those attached to a mail, a reader hands over (`SourceFile.attach`).
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Any, Protocol

from localrag.errors import CorruptFileError, EncryptedFileError
from localrag.types import Document


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """What a person has chosen about reading files; plain data, as it goes to another process."""

    hidden_text: bool = False
    """Take what no reader of a PDF sees, too."""
    ocr: bool = True
    """Read pictures of text by recognition: scans, and pictures inside documents."""


DEFAULTS = ParseOptions()

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may cost before it is given up.

    Times are of the processor: by the clock it may take several times as long.
    """

    silence: float = 60.0
    """Seconds without a page done, and in addition what the file's size explains: the slowest
    honest page seen, with thousands of table cells, takes two."""
    longest: float = 1800.0
    """Seconds in all: a book of 5000 pages takes 50 on a small laptop. A page that was read by
    recognition adds as much as `silence`."""
    memory: int = 2 * 2**30
    """Bytes, and in addition four times the file's own size. Honest files stay below a quarter."""


class PageDone(Protocol):
    """To be called after each page: a reader that is silent for long is given up."""

    def __call__(self, number: int = 0, pages: int = 0, *, recognised: bool = False) -> None:
        """So many of so many pages are done, where that is known.

        `recognised` is whether the last was read by recognition, which takes seconds; without
        `pages`, so many pictures on pages of text were.
        """


def nothing(number: int = 0, pages: int = 0, *, recognised: bool = False) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside another: its bytes, and its name as whoever packed it wrote it."""

    name: str
    data: bytes


Attach = Callable[[Attachment], None]
"""Takes over a file that is a document of its own."""


def leave_out(_: Attachment) -> None:
    """Take nothing over."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as a reader gets it: `source` is its path, for the title and for messages only."""

    source: str
    data: bytes
    options: ParseOptions = DEFAULTS
    page_done: PageDone = nothing
    attach: Attach = leave_out
    """To be called with each file inside that is a document of its own."""


def damaged(source: str, reason: Exception | str) -> CorruptFileError:
    """The error for a file that is not as its format says."""
    if isinstance(reason, Exception):
        reason = f"{type(reason).__name__}: {reason}"
    return CorruptFileError(
        "{source} is damaged ({reason}).",
        hint="Copy or download it again, or open it in its own program and save a new copy.",
        source=source,
        reason=reason,
    )


def encrypted(source: str) -> EncryptedFileError:
    """The error for a file that only its own program opens, with a password."""
    return EncryptedFileError(
        "{source} is password-protected, so its text cannot be read.",
        hint="Open it in its own program, remove the password and add the new file.",
        source=source,
    )


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A kind of file that can be read."""

    name: str
    """As `--type` takes it."""
    suffixes: tuple[str, ...]
    """In lower case."""
    reader: str
    """The module that has `read(file: SourceFile) -> Document`, which raises a `ParsingError` that
    says what is wrong with the file and what to do. Imported only for a file, as PyMuPDF takes
    half a second."""
    signature: re.Pattern[bytes] | None = None
    """What the first kilobyte matches; a file of another format that does is refused."""
    is_text: bool = False
    """Whether it may begin like any other text, as Markdown does with HTML."""
    attaches: bool = False
    """Whether its reader calls `SourceFile.attach`: such a file is a folder too."""
    is_drawn: bool = False
    """Whether its reader has `draw(file: SourceFile, page: int, width: int)` as well: the pixels of
    a page, and its size in the unit of `positions.Mark`."""
    limits: Limits = Limits()

    def read(self, file: SourceFile) -> Document:
        """Read a file of this format in this process."""
        document: Document = importlib.import_module(self.reader).read(file)
        return document

    def draw(self, file: SourceFile, page: int, width: int) -> tuple[Any, tuple[float, float]]:
        """A page, from 1, about so many pixels wide: rows x columns x 3, RGB; and its own size."""
        drawn: tuple[Any, tuple[float, float]] = importlib.import_module(self.reader).draw(
            file, page, width
        )
        return drawn


_READERS = "localrag.documents.formats"
_ZIP = re.compile(rb"PK\x03\x04")
_OLE = re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
_OFFICE = re.compile(_ZIP.pattern + b"|" + _OLE.pattern)

FORMATS: tuple[FileFormat, ...] = (
    FileFormat(
        "pdf",
        (".pdf",),
        f"{_READERS}.pdf.reader",
        re.compile(rb"[\xef\xbb\xbf \t\r\n\0]*%PDF-"),
        is_drawn=True,
    ),
    FileFormat("markdown", (".md", ".markdown"), f"{_READERS}.markdown", is_text=True),
    FileFormat(
        "html",
        (".html", ".htm", ".xhtml"),
        f"{_READERS}.html",
        re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE),
        is_text=True,
    ),
    FileFormat("word", (".docx", ".docm", ".dotx", ".doc", ".dot"), f"{_READERS}.word", _OFFICE),
    FileFormat("sheets", (".xlsx", ".xlsm", ".ods", ".xls"), f"{_READERS}.sheets", _OFFICE),
    FileFormat(
        "slides", (".pptx", ".pptm", ".ppsx", ".ppt", ".pps"), f"{_READERS}.slides", _OFFICE
    ),
    FileFormat("opendocument", (".odt", ".odp"), f"{_READERS}.opendocument", _ZIP),
    FileFormat("epub", (".epub",), f"{_READERS}.epub", _ZIP),
    FileFormat("rtf", (".rtf",), f"{_READERS}.rtf", re.compile(rb"\s*\{\\rtf")),
    FileFormat(
        "mail", (".eml", ".msg"), f"{_READERS}.mail.reader", _OLE, is_text=True, attaches=True
    ),
    FileFormat("delimited", (".csv", ".tsv"), f"{_READERS}.delimited", is_text=True),
    FileFormat(
        "image",
        (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif"),
        f"{_READERS}.image",
        re.compile(
            rb"\xff\xd8\xff|\x89PNG\r\n|GIF8[79]a|(?s:RIFF....WEBP)|II[*+]\0|MM\0[*+]|(?s:BM.{4}\0{4})"
        ),
        is_drawn=True,
    ),
    FileFormat("text", (".txt", ".text", ".log", ".rst"), f"{_READERS}.plain", is_text=True),
)

TEXT = next(form for form in FORMATS if form.name == "text")
"""What every text is, whatever its file is called."""

_NAMED = {
    "JPEG": rb"\xff\xd8\xff",
    "PNG": rb"\x89PNG\r\n",
    "GIF": rb"GIF8[79]a",
    "WebP": rb"(?s)RIFF....WEBP",
    "TIFF": rb"II\*\0|MM\0\*",
    "ZIP / DOCX / XLSX / PPTX / EPUB": rb"PK\x03\x04",
    "DOC / XLS / PPT": rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "RTF": rb"\{\\rtf",
    "GZIP": rb"\x1f\x8b",
    "7Z / RAR / XZ": rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\xfd7zXZ\0",
    "SQLite": rb"SQLite format 3\0",
    "EXE": rb"\x7fELF|MZ[\x00-\xff]{58}",
    "PostScript": rb"%!PS",
}
"""Signatures of what has no format of its own, or shares one, to name it in a refusal."""


def names() -> list[str]:
    """The names of all formats."""
    return [form.name for form in FORMATS]


def suffixes(wanted: Collection[str] = ()) -> list[str]:
    """The suffixes of some formats, or of all, sorted."""
    known = (form for form in FORMATS if not wanted or form.name in wanted)
    return sorted(suffix for form in known for suffix in form.suffixes)


def format_of(path: PurePath | str) -> FileFormat | None:
    """The format that a file's suffix says."""
    # As PurePath.suffix, without making a path of every name of a large folder. No suffix of a
    # format has a separator in it.
    stem, _, suffix = os.fspath(path).rpartition(".")
    suffix = "" if stem[-1:] in ("", "/", os.sep) else f".{suffix}".lower()
    global _by_suffix
    if _by_suffix[0] is not FORMATS:
        known = {suffix: form for form in reversed(FORMATS) for suffix in form.suffixes}
        _by_suffix = FORMATS, known
    return _by_suffix[1].get(suffix)


_by_suffix: tuple[tuple[FileFormat, ...], dict[str, FileFormat]] = (), {}
"""The table, and its formats by each of their suffixes."""


def attaches(path: PurePath | str) -> bool:
    """Whether a file is one that holds others, which are documents of their own."""
    known = format_of(path)
    return known is not None and known.attaches


def shown_name(source: str) -> str:
    """The name of the file at a path, and before it that of the mail that it is attached to.

    What is no absolute path of any system is a name already.
    """
    text = slashed(source)
    if not (text.startswith("/") or _WINDOWS.match(text)):
        return source
    path = PurePosixPath(text)
    names = [path.name]
    for parent in reversed(path.parts[:-1]):  # never its `parents`: each is made anew, and whole
        if not attaches(parent):
            break
        names.append(parent)
    return "/".join(reversed(names)) or source


def slashed(path: str) -> str:
    """An absolute path of Windows with slashes, wherever it is read; any other as it is."""
    return path.replace("\\", "/") if _WINDOWS.match(path) else path


def contradiction(data: bytes, expected: FileFormat) -> str:
    """What the first bytes say that the file is instead of the format expected; "" if nothing."""
    start = data[:1024]
    if expected.signature and expected.signature.match(start):
        return ""
    named = next((name for name, signature in _NAMED.items() if re.match(signature, start)), "")
    for form in FORMATS:
        if form.signature and form.signature.match(start):
            return "" if form.is_text and expected.is_text else named or form.name.upper()
    return named
