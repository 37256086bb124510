"""What SQLite leaves of removed rows in the pages of its file, overwritten page by page.

With `secure_delete` SQLite overwrites the rows that it deletes and the pages that it frees. What
stays are copies of rows that were moved from one page to another, in the space between the list of
cells and the cells of a B-tree's page (https://www.sqlite.org/fileformat2.html, 1.6). Only pages
that were written can hold such a copy, and in WAL mode the log names those before they reach the
file. So whoever folds the log into the file and sweeps the pages that it named leaves nothing, at
the cost of the change and not of the file. Nothing that SQLite reads is touched.

A mark beside the catalogue, sealed, says which file was left like that, by number, size and times.
A file without one may hold anything: it is to be written anew as a whole, once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from localrag.library.folder.sealing import DamagedIndexError, Identity, sealed, unsealed
from localrag.system.files import open_plain, replace_file
from localrag.system.seals import Seal

_FORMAT = "localrag-swept-1"
_LIMIT = 4096

_LOG_HEADER, _FRAME_HEADER = 32, 24
_LOCKED_BYTE = 1 << 30
"""The page with this byte is never used."""

_ROOT, _BELOW = 1, 5
"""What the pointer map says of the pages of B-trees."""

_INTERIOR, _LEAVES = (2, 5), (10, 13)


@dataclass(frozen=True, slots=True)
class SweepMark:
    """The mark of one catalogue."""

    path: Path
    seal: Seal

    def fits(self, catalogue: Path) -> bool:
        """Whether the file is the one that was swept last, as it was then."""
        try:
            with open_plain(self.path) as file:
                fields = unsealed(file.read(_LIMIT), self.seal)
            fingerprint = [_FORMAT, *Identity.of(catalogue.stat())]
        except (OSError, DamagedIndexError):
            return False
        return [fields.get("format"), *fields.get("identity", ())] == fingerprint

    def set(self, catalogue: Path) -> None:
        """Say that the file as it is now holds nothing that was removed, but in its log."""
        identity = list(Identity.of(catalogue.stat()))
        content = sealed({"format": _FORMAT, "identity": identity}, self.seal)
        replace_file(self.path, lambda file: file.write(content), durable=False)


def logged_pages(log: Path) -> set[int]:
    """The pages that a write-ahead log holds, whether or not they are in the file already."""
    pages: set[int] = set()
    try:
        file = open_plain(log)
    except FileNotFoundError:
        return pages
    with file:
        start = file.read(_LOG_HEADER)
        size = int.from_bytes(start[8:12], "big")
        while size and len(frame := file.read(_FRAME_HEADER)) == _FRAME_HEADER:
            if frame[8:16] != start[16:24]:  # of an earlier round
                break
            pages.add(int.from_bytes(frame[:4], "big"))
            file.seek(size, os.SEEK_CUR)
    return pages


def sweep(file: BinaryIO, pages: Iterable[int]) -> bool:
    """Overwrite what is not in use in these pages, and force that to disk.

    The file is a SQLite database of which nobody writes a page meanwhile. False where it does not
    say what its pages are (no `auto_vacuum`): nothing is written then.
    """
    descriptor = file.fileno()

    def read(place: int, count: int) -> bytes:
        os.lseek(descriptor, place, os.SEEK_SET)
        return os.read(descriptor, count)

    header = read(0, 100)
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    if not any(header[52:56]) or size < 512:
        return False
    trees = _Kinds(size, size - header[20], read)
    written = False
    for number in sorted(pages):
        if number < 2 or not trees.holds(number):
            continue
        page = read((number - 1) * size, size)
        for start, end in _unused(page):
            if page[start:end].strip(b"\0"):
                os.lseek(descriptor, (number - 1) * size + start, os.SEEK_SET)
                os.write(descriptor, bytes(end - start))
                written = True
    if written:
        os.fsync(descriptor)
    return True


class _Kinds:
    """Which pages belong to B-trees, from the pointer map (file format, 1.8)."""

    def __init__(self, size: int, usable: int, read: Callable[[int, int], bytes]) -> None:
        self._size, self._read = size, read
        self._interval = usable // 5 + 1
        self._locked = _LOCKED_BYTE // size + 1
        self._map: tuple[int, bytes] = (0, b"")

    def holds(self, number: int) -> bool:
        """Whether a page is one of a B-tree."""
        of = (number - 2) // self._interval * self._interval + 2
        of += of == self._locked
        if number in (of, self._locked):
            return False
        if self._map[0] != of:
            self._map = of, self._read((of - 1) * self._size, self._size)
        kind = self._map[1][5 * (number - of - 1) :][:1]
        return kind in (bytes([_ROOT]), bytes([_BELOW]))


def _unused(page: bytes) -> Iterator[tuple[int, int]]:
    """What of a B-tree's page is neither its list of cells nor a cell."""
    if not page or page[0] not in (*_INTERIOR, *_LEAVES):
        return
    cells = 2 * int.from_bytes(page[3:5], "big") + (12 if page[0] in _INTERIOR else 8)
    content = int.from_bytes(page[5:7], "big") or 65536
    if cells < content <= len(page):
        yield cells, content
