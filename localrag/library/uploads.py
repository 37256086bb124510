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
    free_place,
    safe_name,
    sweep_uploads,
    upload_of,
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
        if self._home.is_folder:
            return
        if path := upload_of(self._home.folder, source, transaction.source):
            with open_plain(path) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == document_id:
                    file.seek(0)
                    files.keep_file(transaction.sql, source, file)

    def all(self, sources: Iterable[SourceRecord]) -> Iterator[Upload]:
        """Each of them once, but for what is not what was uploaded; one at a time in memory."""
        known = {record.state.path: record for record in sources}
        given = set[str]()
        for source, record in known.items():
            for name in filter(_is_safe, uploaded([source]) - given):
                data = (
                    self._in_folder(source, known.get)
                    if self._home.is_folder
                    else self.kept(source)
                )
                if data is not None and hashlib.sha256(data).hexdigest() == record.document_id:
                    given.add(name)
                    yield Upload(source, name, data)

    def take_over(self, transaction: Transaction, others: Iterable[Upload]) -> None:
        """Keep those of another library, of which the paths are here already, and nothing else."""
        if self._home.is_folder:
            sweep_uploads(self._home.folder, ())  # of a move that was killed
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
            sweep_uploads(self._home.folder, sources() if self._home.is_folder else ())

    def _in_folder(self, source: str, find: Callable[[str], SourceRecord | None]) -> bytes | None:
        if path := upload_of(self._home.folder, source, find):
            with suppress(FileNotFoundError), open_plain(path) as file:  # removed this moment
                return file.read()
        return None


def _is_safe(name: str) -> bool:
    return safe_name(name) == name


def _write(data: bytes, file: BinaryIO) -> None:
    file.write(data)
