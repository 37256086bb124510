"""Files on disk: which of them can be read, and reading one.

The parser is chosen by suffix; a file whose first bytes say something else is
refused by name rather than read as rubbish.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from localrag.documents.formats.base import Parser
from localrag.egress import network
from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    ParsingError,
    UnsupportedFileError,
    UsageError,
)
from localrag.types import Document

_PDF = frozenset((".pdf",))
_MARKDOWN = frozenset((".md", ".markdown"))
_HTML = frozenset((".html", ".htm", ".xhtml"))
_TEXT = frozenset((".txt", ".text", ".log", ".rst"))

SUPPORTED_SUFFIXES = _PDF | _MARKDOWN | _HTML | _TEXT
"""Suffixes that can be read, in lower case."""

SIZE_LIMIT = 512 * 1024 * 1024
"""Bytes of the largest file that is read unless a caller asks otherwise."""

_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\xff\xd8\xff"), "JPEG"),
    (re.compile(rb"\x89PNG\r\n"), "PNG"),
    (re.compile(rb"GIF8[79]a"), "GIF"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "WebP"),
    (re.compile(rb"II\*\0|MM\0\*"), "TIFF"),
    (re.compile(rb"PK\x03\x04"), "ZIP / DOCX / XLSX / PPTX / EPUB"),
    (re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "DOC / XLS / PPT"),
    (re.compile(rb"\{\\rtf"), "RTF"),
    (re.compile(rb"\x1f\x8b"), "GZIP"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\xfd7zXZ\0"), "7Z / RAR / XZ"),
    (re.compile(rb"SQLite format 3\0"), "SQLite"),
    (re.compile(rb"\x7fELF|MZ[\x00-\xff]{58}"), "EXE"),
    (re.compile(rb"%!PS"), "PostScript"),
)
_JUNCTION = 0xA0000003
"""The reparse tag that Windows gives a junction; `os.path.isjunction` came with Python 3.12."""

_HTML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE)


def _nothing() -> None:
    """Tell nobody."""


def parse_file(
    path: Path,
    data: bytes | None = None,
    *,
    size_limit: int = SIZE_LIMIT,
    tick: Callable[[], None] = _nothing,
    hidden_text: bool = False,
) -> Document:
    """Read a file into a Document; `data` are its bytes where the caller has them.

    `tick` is called after each page, so that a caller sees that it goes on. With `hidden_text`,
    what no reader of a PDF sees is taken all the same.
    Document.id is the SHA-256 of the bytes, source is `str(path)`. Raises a
    ParsingError that says what is wrong with the file and what to do.
    """
    source = str(path)
    parser = _parser(path, tick, hidden_text=hidden_text)
    if data is None:
        data = read_bytes(path, size_limit=size_limit)
    if not data:
        raise EmptyFileError(
            "{source} is empty: it has no bytes.",
            hint="Copy or download the file again.",
            source=source,
        )
    _check_content(data, path)
    return parser.parse(data, source)


def read_bytes(path: Path, *, size_limit: int = SIZE_LIMIT) -> bytes:
    """The bytes of a file; a ParsingError if it cannot be read or has more than `size_limit`."""
    try:
        # Not blocking: what was a file when it was found may be a pipe by now.
        with open(path, "rb", opener=_without_waiting) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise _no_file(path)
            size = state.st_size
            data = b"" if size > size_limit else file.read(size + 1)
            if len(data) > size:  # it grows meanwhile
                data += file.read(size_limit)
                size = len(data)
            if size > size_limit:
                raise UnsupportedFileError(
                    "{source} has {size} MB, more than the limit of {limit} MB.",
                    hint="Split it into parts, for example with `qpdf --split-pages=500`.",
                    source=str(path),
                    size=-(-size // 2**20),
                    limit=size_limit // 2**20,
                )
            return data
    except IsADirectoryError as error:
        raise _no_file(path) from error
    except OSError as error:
        if path.is_dir():  # Windows does not open it at all
            raise _no_file(path) from error
        raise _unreadable(path, error) from error


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _parser(path: Path, tick: Callable[[], None], *, hidden_text: bool) -> Parser:
    # A parser's library is imported only when a file needs it: PyMuPDF takes half a second.
    suffix = path.suffix.lower()
    if suffix in _PDF:
        network.quieten()  # PyMuPDF imports ONNX Runtime
        from localrag.documents.formats.pdf import PdfParser

        return PdfParser(tick, hidden_text=hidden_text)
    if suffix in _MARKDOWN:
        from localrag.documents.formats.markdown import MarkdownParser

        return MarkdownParser()
    if suffix in _HTML:
        from localrag.documents.formats.html import HtmlParser

        return HtmlParser()
    if suffix in _TEXT:
        from localrag.documents.formats.plain import PlainTextParser

        return PlainTextParser()
    raise _unsupported(path)


def _unsupported(path: Path) -> UnsupportedFileError:
    return UnsupportedFileError(
        "{source} is of a kind that cannot be read.",
        hint="Save it as one of these and add that file: {suffixes}.",
        source=str(path),
        suffixes=" ".join(sorted(SUPPORTED_SUFFIXES)),
    )


def _check_content(data: bytes, path: Path) -> None:
    suffix = path.suffix.lower()
    kind = _kind(data)
    if kind is None or (kind == "PDF" and suffix in _PDF):
        return
    if kind == "HTML" and suffix not in _PDF:
        return
    raise CorruptFileError(
        "{source} is named {suffix} but its content is {kind}.",
        hint="If it is a document, rename it or save it as PDF; a picture needs OCR first.",
        source=str(path),
        suffix=suffix,
        kind=kind,
    )


def _kind(data: bytes) -> str | None:
    """What the first bytes say the file is; None for text and for what is not known."""
    start = data[:1024]
    if start.lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(b"%PDF-"):
        return "PDF"
    for signature, kind in _SIGNATURES:
        if signature.match(start):
            return kind
    return "HTML" if _HTML_START.match(start) else None


def walk(paths: Sequence[Path], skipped: list[ParsingError]) -> Iterator[Path]:
    """The readable files at and below the paths, each once, in an order that does not change.

    What is named is followed wherever it leads. In folders, hidden files and folders are passed
    over, and into `skipped` go files of other kinds, pipes and devices, folders that cannot be
    opened, and links that lead out of all that is walked, or to what is hidden there. Other links
    are followed last, so that a file is met under its own name, and never in circles.

    Raises UsageError for a path that does not exist, before anything is yielded.
    """
    for path in paths:
        if not os.path.lexists(path):
            raise UsageError(
                "There is no file or folder {source}.",
                hint="Check the spelling, and that the drive is connected.",
                source=str(path),
            )
    return _walk(paths, skipped)


def _walk(paths: Sequence[Path], skipped: list[ParsingError]) -> Iterator[Path]:
    seen: set[str] = set()
    roots = {os.path.realpath(path) for path in paths}
    links: deque[Path] = deque()
    # A stack and not recursion: folders may be nested deeper than Python's calls.
    stack = [(path, True) for path in reversed(paths)]
    while stack or links:
        path, named = stack.pop() if stack else (links.popleft(), False)
        real = os.path.realpath(path)
        if real in seen:
            continue
        try:
            mode = path.stat().st_mode
            readable = path.suffix.lower() in SUPPORTED_SUFFIXES
            out = not named and _is_link(path) and not _lies_below(real, roots)
            if out and (readable or stat.S_ISDIR(mode)):
                skipped.append(_leads_out(path, real))
                continue
            seen.add(real)
            if not stat.S_ISDIR(mode):
                if named or (stat.S_ISREG(mode) and readable):
                    yield path
                else:
                    skipped.append(_unsupported(path) if stat.S_ISREG(mode) else _no_reading(path))
                continue
            for entry in sorted(path.iterdir(), reverse=True):
                if not entry.name.startswith("."):
                    if _is_link(entry):
                        links.append(entry)
                    else:
                        stack.append((entry, False))
        except OSError as error:
            if named and not path.is_dir():  # reading it says what is wrong
                yield path
            else:
                skipped.append(_closed(path, error))


def _is_link(path: Path) -> bool:
    """Whether a path is a symbolic link, or what Windows has instead of one: a junction."""
    state = path.lstat()
    return stat.S_ISLNK(state.st_mode) or getattr(state, "st_reparse_tag", 0) == _JUNCTION


def _lies_below(real: str, roots: Collection[str]) -> bool:
    """Whether a place is reached by walking the roots, which passes over what is hidden."""
    below = (
        os.path.relpath(real, root)
        for root in roots
        if real == root or real.startswith(os.path.join(root, ""))  # noqa: PTH118 - of "/" too
    )
    return any(
        not any(part.startswith(".") and part != "." for part in Path(one).parts) for one in below
    )


def _leads_out(path: Path, real: str) -> ParsingError:
    return ParsingError(
        "{source} is a link that leads out of what is added, to {target}; it was not followed.",
        hint="If you want what is there, name it: localrag add {source}",
        source=str(path),
        target=real,
    )


def _no_reading(path: Path) -> ParsingError:
    return ParsingError(
        "{source} is a pipe, a socket or a device; it was not opened.",
        hint="Copy what comes from it into a file, and add that.",
        source=str(path),
    )


def _no_file(path: Path) -> UnsupportedFileError:
    return UnsupportedFileError(
        "{source} is not a file but a folder or a device.", hint="Name a file.", source=str(path)
    )


def _closed(path: Path, error: OSError) -> ParsingError:
    if path.is_dir():
        return ParsingError(
            "The folder {source} cannot be opened: {reason}.",
            hint="Check that you may read it.",
            source=str(path),
            reason=error.strerror or str(error),
        )
    return _unreadable(path, error)


def _unreadable(path: Path, error: OSError) -> ParsingError:
    return ParsingError(
        "{source} cannot be read: {reason}.",
        hint="Check that it is still there and that you may read it.",
        source=str(path),
        reason=error.strerror or str(error),
    )
