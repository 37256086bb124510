"""Files on disk: which of them can be read, and reading one.

The format is chosen by suffix; a file whose first bytes say something else is
refused by name rather than read as rubbish.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from localrag.documents.formats.table import (
    DEFAULTS,
    ParseOptions,
    SourceFile,
    contradiction,
    format_of,
    nothing,
    suffixes,
)
from localrag.documents.lines import empty
from localrag.errors import (
    CorruptFileError,
    ParsingError,
    UnsupportedFileError,
    UsageError,
)
from localrag.types import Document

SIZE_LIMIT = 512 * 1024 * 1024
"""Bytes of the largest file that is read."""

_JUNCTION = 0xA0000003
"""The reparse tag that Windows gives a junction; `os.path.isjunction` came with Python 3.12."""


def parse_file(
    path: Path,
    data: bytes | None = None,
    options: ParseOptions = DEFAULTS,
    page_done: Callable[[], None] = nothing,
) -> Document:
    """Read a file into a Document; `data` are its bytes where the caller has them.

    `page_done` is called after each page, so that a caller sees that it goes on.
    Document.id is the SHA-256 of the bytes, source is `str(path)`. Raises a
    ParsingError that says what is wrong with the file and what to do.
    """
    expected = format_of(path)
    if expected is None:
        raise _unsupported(path)
    if data is None:
        data = read_bytes(path)
    if not data:
        raise empty(str(path))
    if kind := contradiction(data, expected):
        raise CorruptFileError(
            "{source} is named {suffix} but its content is {kind}.",
            hint="If it is a document, rename it or save it as PDF; a picture needs OCR first.",
            source=str(path),
            suffix=path.suffix.lower(),
            kind=kind,
        )
    return expected.read(SourceFile(str(path), data, options, page_done))


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; a ParsingError if it cannot be read or has more than `SIZE_LIMIT`."""
    try:
        # Not blocking: what was a file when it was found may be a pipe by now.
        with open(path, "rb", opener=_without_waiting) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise _no_file(path)
            size = state.st_size
            data = b"" if size > SIZE_LIMIT else file.read(size + 1)
            if len(data) > size:  # it grows meanwhile
                data += file.read(SIZE_LIMIT)
                size = len(data)
            if size > SIZE_LIMIT:
                raise UnsupportedFileError(
                    "{source} is {size} MB in size, above the limit of {limit} MB.",
                    hint="Split it into parts, for example with `qpdf --split-pages=500`.",
                    source=str(path),
                    size=-(-size // 2**20),
                    limit=SIZE_LIMIT // 2**20,
                )
            return data
    except OSError as error:
        raise (_no_file(path) if path.is_dir() else unreadable(path, error)) from error


def storable_path(path: Path) -> str:
    """The absolute path; bytes of a name that are no UTF-8 are written as hexadecimal escapes."""
    absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves ".." in
    return os.fsencode(absolute).decode("utf-8", "backslashreplace")


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _unsupported(path: Path) -> UnsupportedFileError:
    return UnsupportedFileError(
        "{source} is not a type of file that can be read.",
        hint="Save it as one of these types and add that file: {suffixes}.",
        source=str(path),
        suffixes=" ".join(suffixes()),
    )


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
            readable = format_of(path) is not None
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
                skipped.append(unreadable(path, error))


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
        "{source} is a link to {target}, which is outside what is being added; it was not "
        "followed.",
        hint="To add what is there, name it: localrag add {source}",
        source=str(path),
        target=real,
    )


def _no_reading(path: Path) -> ParsingError:
    return ParsingError(
        "{source} is a pipe, a socket or a device; it was not opened.",
        hint="Save its output to a file and add that.",
        source=str(path),
    )


def _no_file(path: Path) -> UnsupportedFileError:
    return UnsupportedFileError(
        "{source} is not a file but a folder or a device.", hint="Name a file.", source=str(path)
    )


def unreadable(path: Path, error: OSError) -> ParsingError:
    """The error for a file or a folder that the system does not open."""
    folder = path.is_dir()
    return ParsingError(
        "The folder {source} cannot be opened: {reason}."
        if folder
        else "{source} cannot be read: {reason}.",
        hint="Check that you may read it."
        if folder
        else "Check that it is still there and that you may read it.",
        source=str(path),
        reason=error.strerror or str(error),
    )
