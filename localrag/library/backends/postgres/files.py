"""The bytes of what was uploaded to a library in a database, so that every node can show it.

They lie in pieces beside the path under which the file was added, and go with that path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from io import BytesIO
from typing import BinaryIO

from localrag.library.backends.uploads import Upload, Uploads
from localrag.library.catalogue.base import Statements
from localrag.library.catalogue.writes import Transaction
from localrag.library.folder.uploads import upload_of, uploaded
from localrag.library.records import SourceRecord
from localrag.system.files import open_plain

PIECE = 4 * 2**20
"""Bytes of a row: the server holds several copies of one while it is sent."""


class DatabaseUploads(Uploads):
    """Rows of the table `files`; in the folder such a file lies only while it is being added."""

    def _taken_names(self) -> Collection[str]:
        query = "SELECT source FROM files WHERE part = 0 ORDER BY source"
        with self._catalogue.read() as snapshot:
            return uploaded(row[0] for row in snapshot.sql.rows(query, kinds=(str,)))

    def is_kept(self, source: str) -> bool:
        """Whether the database holds the bytes of a path."""
        if not uploaded([source]):
            return False
        query = "SELECT 1 FROM files WHERE source = ? AND part = 0"
        with self._catalogue.read() as snapshot:
            return snapshot.sql.execute(query, (source,)).fetchone() is not None

    def kept(self, source: str) -> bytes | None:
        """The bytes of a path that the database holds; None where it does not."""
        if not uploaded([source]):
            return None
        query = "SELECT data FROM files WHERE source = ? ORDER BY part"
        with self._catalogue.read() as snapshot:
            rows = snapshot.sql.rows(query, source, kinds=(bytes,), many=True)
            return b"".join(row[0] for row in rows) or None

    def _content(self, source: str, _: object) -> bytes | None:
        return self.kept(source)

    def keep(self, transaction: Transaction, source: str, document_id: str) -> None:
        """Put a file into the database that is being added as an upload; others are left."""
        if path := upload_of(self._folder, source, transaction.source):
            with open_plain(path) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == document_id:
                    file.seek(0)
                    _keep(transaction.sql, source, file)

    def take_over(self, transaction: Transaction, others: Iterable[Upload]) -> None:
        """Keep those of another library, of which the paths are here already, and nothing else."""
        for upload in others:
            _keep(transaction.sql, upload.source, BytesIO(upload.data))

    def _sources(self) -> list[SourceRecord]:
        return []  # what is in the database need not be in the folder


def _keep(sql: Statements, source: str, file: BinaryIO) -> None:
    for part, data in enumerate(iter(lambda: file.read(PIECE), b"")):
        sql.execute("INSERT INTO files VALUES (?, ?, ?)", (source, part, data))
