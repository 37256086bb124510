"""Files that were handed to a library: kept in its folder, or in its database for all its nodes.

A node puts such a file into its own folder `uploads` only for as long as it is being added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from localrag.library.catalogue.postgres import files
from localrag.library.catalogue.writes import Transaction
from localrag.library.folder.gate import UPLOADS, uploads
from localrag.library.folder.uploads import (
    file_of,
    free_place,
    safe_name,
    sweep_uploads,
    uploaded,
)
from localrag.library.home import Home
from localrag.library.records import SourceRecord
from localrag.system.files import make_folder, new_file, open_plain


class Upload(NamedTuple):
    """A file with the path under which it was added, and the name by which it is kept."""

    source: str
    name: str
    data: bytes


class Uploads:
    """Those of one library. May be used from several threads."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def place(self, name: str) -> Path:
        """Where a file of that name is put to be added: with a number where there is one."""
        taken: Iterable[str] = ()
        if not self._home.is_folder:
            with self._home.catalogue.read() as snapshot:
                taken = uploaded(files.kept_files(snapshot.sql))
        return free_place(self._home.folder, name, taken)

    def is_kept(self, source: str) -> bool:
        """Whether the database holds the bytes of a path."""
        if self._home.is_folder or not uploaded([source]):
            return False
        with self._home.catalogue.read() as snapshot:
            return files.keeps_file(snapshot.sql, source)

    def kept(self, source: str) -> bytes | None:
        """The bytes of a path that the database holds; None where it is a file, or nowhere."""
        if self._home.is_folder or not uploaded([source]):
            return None
        with self._home.catalogue.read() as snapshot:
            return files.kept_file(snapshot.sql, source)

    def keep(self, transaction: Transaction, source: str, document_id: str) -> None:
        """Put a file into the database that is being added as an upload; others are left."""
        if not self._home.is_folder and (path := self._file(source)):
            with open_plain(path) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == document_id:
                    file.seek(0)
                    files.keep_file(transaction.sql, source, file)

    def all(self, sources: Iterable[SourceRecord]) -> Iterator[Upload]:
        """Each of them, but for what is not what was uploaded; one at a time in memory."""
        for record in sources:
            source = record.state.path
            for name in filter(_is_safe, uploaded([source])):
                data = self.kept(source) if not self._home.is_folder else self._in_folder(source)
                if data is not None and hashlib.sha256(data).hexdigest() == record.document_id:
                    yield Upload(source, name, data)

    def take_over(self, transaction: Transaction, others: Iterable[Upload]) -> None:
        """Keep those of another library, of which the paths are here already."""
        for source, name, data in others:
            if not self._home.is_folder:
                files.keep_file(transaction.sql, source, BytesIO(data))
                continue
            place = self._home.folder / UPLOADS / name
            make_folder(place.parent)
            new_file(place, partial(_write, data))

    def sweep(self, sources: Callable[[], Sequence[SourceRecord]]) -> None:
        """Delete files that are no document's any more, are not yet, or are in the database."""
        if uploads(self._home.folder):
            known = sources() if self._home.is_folder else ()
            sweep_uploads(self._home.folder, {record.state.path for record in known})

    def _in_folder(self, source: str) -> bytes | None:
        if path := self._file(source):
            with suppress(FileNotFoundError), open_plain(path) as file:  # removed this moment
                return file.read()
        return None

    def _file(self, source: str) -> Path | None:
        """The file in the folder `uploads` that a path stands for, if there is one."""
        path = file_of(self._home.folder, source)
        return path if path.parent == self._home.folder / UPLOADS else None


def _is_safe(name: str) -> bool:
    return safe_name(name) == name


def _write(data: bytes, file: BinaryIO) -> None:
    file.write(data)
