"""Files on disk: which of them can be read, and reading one.

The format is chosen by suffix, and among those of Office by content, as it is for a PDF or a
picture behind another suffix; text of a suffix that no format has is read as text (`content`). Any
other file whose first bytes say something else is refused by name rather than read as rubbish.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from localrag.documents.content import SAMPLE, refusal
from localrag.documents.formats.recognise import actual, disguised
from localrag.documents.formats.table import (
    DEFAULTS,
    TEXT,
    Attach,
    PageDone,
    ParseOptions,
    SourceFile,
    attaches,
    contradiction,
    format_of,
    leave_out,
    nothing,
)
from localrag.documents.lines import empty
from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    ParsingError,
    PassedOverError,
    UnsupportedFileError,
    UsageError,
)
from localrag.system.files import storable_path
from localrag.system.unlinked import open_unlinked
from localrag.types import Document, PageNote

SIZE_LIMIT = 512 * 1024 * 1024
"""Bytes of the largest file that is read."""

Read = Callable[[Path], bytes]
"""`read_bytes`."""

_PASSED_OVER = re.compile(
    r"\..*|~\$.*|.*~|.*\.(?:part|partial|crdownload|opdownload|download|tmp|aria2|filepart|!ut)",
    re.IGNORECASE | re.DOTALL,
)
"""Hidden files, locks of office programs, backups of editors, downloads that are under way."""

_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

_JUNCTION = 0xA0000003
"""The reparse tag that Windows gives a junction; `os.path.isjunction` came with Python 3.12."""


class Parse(Protocol):
    """`parse_file`, here or in another process."""

    def __call__(
        self,
        path: Path,
        data: bytes,
        *,
        page_done: PageDone = nothing,
        attach: Attach = leave_out,
    ) -> Document:
        """The document that these bytes make; `attach` gets the files inside.

        `page_done` is called as pages are done.
        """


def parse_file(
    path: Path,
    data: bytes | None = None,
    options: ParseOptions = DEFAULTS,
    page_done: PageDone = nothing,
    *,
    attach: Attach = leave_out,
) -> Document:
    """Read a file into a Document; `data` are its bytes where the caller has them.

    `page_done` is called after each page, so that a caller sees that it goes on, `attach` with
    each file inside that is a document of its own.
    Document.id is the SHA-256 of the bytes, source is `str(path)`. Raises a
    ParsingError that says what is wrong with the file and what to do.
    """
    if data is None:
        data = read_bytes(path)
    expected = format_of(path)
    if expected is None:
        if error := refusal(path, data[:SAMPLE], len(data)):
            raise error
        expected = TEXT
    if not data:
        raise empty(str(path))
    file_format = actual(data, expected, str(path))
    file = SourceFile(str(path), data, options, page_done, attach)
    kind = contradiction(data, expected) if file_format is expected else ""
    if kind and (another := disguised(data)):
        # What only begins like that is refused below.
        with suppress(CorruptFileError):
            return _with_misnamed_note(another.read(file), path.suffix.lower(), kind)
    if kind:
        raise CorruptFileError(
            "{source} is named {suffix} but its content is {kind}.",
            hint="Rename it so that its suffix says what it is, or save it as PDF.",
            source=str(path),
            suffix=path.suffix.lower(),
            kind=kind,
        )
    return file_format.read(file)


def _with_misnamed_note(document: Document, suffix: str, content: str) -> Document:
    first, *others = document.pages
    note = PageNote("misnamed", {"suffix": suffix, "content": content})
    return replace(document, pages=(replace(first, notes=(*first.notes, note)), *others))


def read_bytes(path: Path, *, below: Sequence[str] | None = None) -> bytes:
    """The bytes of a file; a ParsingError if it cannot be read or has more than `SIZE_LIMIT`.

    Also, with `below`, if it is or lies in none of these files and folders, given by their real
    paths, or in what is hidden there. What becomes a link while it is opened is not followed.
    """
    try:
        with _opened(path, below) as (file, size):
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


@contextmanager
def _opened(path: Path, below: Sequence[str] | None) -> Iterator[tuple[BinaryIO, int]]:
    """A file and its size, for as long as the block lasts; `below` as in `read_bytes`.

    Raises a ParsingError for what is none or lies elsewhere by now, before a byte is read.
    """
    opener: Callable[[str, int], int] = _without_waiting
    if below is not None:
        real = os.path.realpath(path)
        if not _lies_below(real, below):
            raise _leads_out(str(path), real)
        opener = partial(_without_links, path, real)
    # Not blocking: what was a file when it was found may be a pipe by now.
    with open(path, "rb", opener=opener) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise _no_file(path)
        if sys.platform == "win32" and below is not None:
            real = _real_path(path, file.fileno())
            if not _lies_below(real, below):
                raise _leads_out(str(path), real)
        yield file, state.st_size


def _real_path(path: Path, opened: int) -> str:
    """Where an open file lies, whatever its path leads to by now; "" if that cannot be told."""
    real = os.path.realpath(path)
    return real if os.path.samestat(os.stat(real), os.fstat(opened)) else ""  # noqa: PTH116


def opens(path: Path) -> bool:
    """Whether a file can be opened: Windows refuses while another program writes it."""
    try:
        os.close(_without_waiting(str(path), os.O_RDONLY))
    except OSError:
        return False
    return True


def whereabouts(path: Path) -> Path | None:
    """Where a file is: at its path, inside another file (a mail), which is returned, or nowhere.

    A folder or a drive that fails says nothing: what it held is taken to be there.
    """
    for place in (path, *path.parents):
        try:
            mode = place.stat(follow_symlinks=place != path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return path
        return place if place == path or (attaches(place) and stat.S_ISREG(mode)) else None
    return None


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | _NO_WAIT)


def _without_links(path: str | Path, real: str, _: str, flags: int) -> int:
    """Open what lay at `path` when its real path was asked for; a link since then is refused.

    Raises PassedOverError, which says where it leads now.
    """
    try:
        return open_unlinked(real, flags | _NO_WAIT)
    except OSError:
        now = os.path.realpath(path)
        if now == real:
            raise
        raise _leads_out(str(path), now) from None


def walk(
    paths: Sequence[Path],
    skipped: list[ParsingError],
    *,
    library: Path | None = None,
    folders: list[Path] | None = None,
    known: Collection[str] = (),
) -> Iterator[Path]:
    """The readable files at and below the paths, each once, in an order that does not change.

    What is named is followed wherever it leads. In folders, hidden and unfinished files and the
    `library` are passed over, and into `skipped` go files of other kinds, pipes and devices,
    folders that cannot be opened, and links that lead out of all that is walked, or to what is
    hidden there. Other links are followed last, so that a file is met under its own name, and
    never in circles. `folders` receives each folder that was entered. A file of a suffix that no
    format has is opened to see whether it is text, unless its path is `known`.

    Raises UsageError for a path that does not exist, or lies in the library, before anything is
    yielded.
    """
    return map(Path, walk_names(paths, skipped, library=library, folders=folders, known=known))


def walk_names(
    paths: Sequence[Path],
    skipped: list[ParsingError],
    *,
    library: Path | None = None,
    folders: list[Path] | None = None,
    known: Collection[str] = (),
    below: Sequence[str] | None = None,
) -> Iterator[str]:
    """The same as strings: a path of each of a million files would take longer than finding it.

    What is opened must lie `below`, as in `read_bytes`; in what is walked if that is not given.
    """
    library_path = os.path.realpath(library) if library else ""
    for path in paths:
        if not os.path.lexists(path):
            raise UsageError(
                "There is no file or folder {source}.",
                hint="Check the spelling, and that the drive is connected.",
                source=str(path),
            )
        if library_path and is_in(os.path.realpath(path), library_path):
            raise UsageError(
                "{source} belongs to the library itself.",
                hint="Name the folder with your documents.",
                source=str(path),
            )
    return _walk(paths, skipped, library_path, [] if folders is None else folders, known, below)


class _WalkedPath(NamedTuple):
    """A path on the walk: where it lies, and what lies there if that is known."""

    path: str
    real: str
    named: bool = False
    mode: int = 0
    """Of a plain file or folder in a folder, 0 for what may be a link."""


def _walk(
    paths: Sequence[Path],
    skipped: list[ParsingError],
    library: str,
    folders: list[Path],
    known: Collection[str],
    below: Sequence[str] | None,
) -> Iterator[str]:
    seen: set[str] = set()
    roots = {os.path.realpath(path) for path in paths}
    below = [*roots] if below is None else below
    inside = os.path.join(library, "")  # noqa: PTH118 - of "/" too
    links: deque[str] = deque()
    # A stack and not recursion: folders may be nested deeper than Python's calls.
    stack = [_WalkedPath(str(path), os.path.realpath(path), named=True) for path in reversed(paths)]
    while stack or links:
        if stack:
            path, real, named, mode = stack.pop()
        else:
            path = links.popleft()
            real, named, mode = os.path.realpath(path), False, 0
        if real in seen or (library and (real == library or real.startswith(inside))):
            continue
        try:
            link, mode = not mode, mode or os.stat(path).st_mode  # noqa: PTH116 - of many
            out = link and not named and not _lies_below(real, roots)
            if out and (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or format_of(path)):
                skipped.append(_leads_out(path, real))
                continue
            seen.add(real)
            if not stat.S_ISDIR(mode):
                if not named and (error := _refusal(path, mode, known, below)):
                    # An empty __init__.py or .keep is as it should be: nobody can mend it.
                    if not isinstance(error, EmptyFileError):
                        skipped.append(error)
                else:
                    yield path
                continue
            entries = _entries(real)
            folders.append(Path(path))
            # As `Path` joins them.
            before = "" if path == os.curdir else os.path.join(path, "")  # noqa: PTH118
            # The real path of what is no link needs no system calls.
            lies = os.path.join(real, "")  # noqa: PTH118
            for entry in entries:
                if _is_link(entry):
                    links.append(before + entry.name)
                else:
                    stack.append(
                        _WalkedPath(before + entry.name, lies + entry.name, mode=_mode(entry))
                    )
        except PassedOverError:  # a folder that has become a link
            skipped.append(_leads_out(path, os.path.realpath(path)))
        except OSError as error:
            if named and not Path(path).is_dir():  # reading it says what is wrong
                yield path
            else:
                skipped.append(unreadable(Path(path), error))


def _refusal(
    name: str, mode: int, known: Collection[str], below: Sequence[str]
) -> ParsingError | None:
    """Why what was met in a folder is not read."""
    if not stat.S_ISREG(mode):
        return _no_reading(name)
    if format_of(name) is not None:
        return None
    path = Path(name)
    if storable_path(path) in known:
        return None
    try:
        with _opened(path, below) as (file, size):
            return refusal(path, file.read(SAMPLE), size)
    except ParsingError as error:
        return error


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What lies in a folder, last first, without what is hidden or unfinished.

    `folder` is a real path; what has become a link since then is not followed.
    """
    with _listed(folder) as entries:
        listing = [entry for entry in entries if not _PASSED_OVER.fullmatch(entry.name)]
        for (
            entry
        ) in listing:  # some file systems are asked for what it is: while the folder is open
            _mode(entry)
    return sorted(listing, key=lambda entry: os.path.normcase(entry.name), reverse=True)


@contextmanager
def _listed(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    opened = _without_links(folder, folder, "", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        with os.scandir(opened) as entries:
            yield entries
    finally:
        os.close(opened)


def is_passed_over(name: str) -> bool:
    """Whether a file or folder of that name is hidden, or what a program is still writing."""
    return _PASSED_OVER.fullmatch(name) is not None


def _is_link(entry: os.DirEntry[str]) -> bool:
    """Whether it is a symbolic link, or what Windows has instead of one: a junction."""
    link = entry.is_symlink()
    if link or os.name != "nt":
        return link
    state = entry.stat(follow_symlinks=False)
    return getattr(state, "st_reparse_tag", 0) == _JUNCTION


def _mode(entry: os.DirEntry[str]) -> int:
    """The type of a file that is no link, which most systems tell along with its name."""
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    return entry.stat(follow_symlinks=False).st_mode


def is_in(real: str, folder: str) -> bool:
    """Whether a real path is that folder or lies below it."""
    return real == folder or real.startswith(os.path.join(folder, ""))  # noqa: PTH118 - of "/" too


def _lies_below(real: str, roots: Collection[str]) -> bool:
    """Whether a place is reached by walking the roots, which passes over what is hidden."""
    below = (os.path.relpath(real, root) for root in roots if is_in(real, root))
    return any(
        not any(part.startswith(".") and part != "." for part in Path(name).parts) for name in below
    )


def _leads_out(path: str, real: str) -> ParsingError:
    return PassedOverError(
        "{source} is a link to {target}, which is outside what is being added; it was not "
        "followed.",
        hint="To add what is there, name it: localrag add {source}",
        source=path,
        target=real,
    )


def _no_reading(path: str) -> ParsingError:
    return PassedOverError(
        "{source} is a pipe, a socket or a device; it was not opened.",
        hint="Save its output to a file and add that.",
        source=path,
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
