"""Files that were handed to a library: kept in its folder, or in its database for all its nodes.

In a vault they are encrypted, under names that say nothing, and never lie there in clear.

A node puts such a file into its own folder `uploads` only for as long as it is being added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

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
from localrag.library.folder.vaults import Vault
from localrag.library.home import Home
from localrag.library.records import SourceRecord
from localrag.system.files import (
    is_plain_file,
    make_folder,
    new_file,
    open_plain,
    storable_name,
)


class Upload(NamedTuple):
    """A file with the path under which it was added, and the name by which it is kept."""

    source: str
    name: str
    data: bytes


class Uploads:
    """Those of one library. May be used from several threads."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._vault = home.vault

    def place(self, name: str) -> Path:
        """Where a file of that name is put to be added: with a number where there is one."""
        taken: Iterable[str] = ()
        if self._vault is not None:
            with self._home.catalogue.read() as snapshot:
                taken = uploaded(record.state.path for record in snapshot.sources())
        elif not self._home.is_folder:
            with self._home.catalogue.read() as snapshot:
                taken = uploaded(files.kept_files(snapshot.sql))
        return free_place(self._home.folder, name, taken)

    def is_kept(self, source: str) -> bool:
        """Whether the database or the vault holds the bytes of a path."""
        if self._vault is not None:
            return bool(uploaded([source])) and is_plain_file(self._sealed(source))
        if self._home.is_folder or not uploaded([source]):
            return False
        with self._home.catalogue.read() as snapshot:
            return files.keeps_file(snapshot.sql, source)

    def kept(self, source: str) -> bytes | None:
        """The bytes of a path that the database or the vault holds; None where neither does."""
        if self._vault is not None:
            with suppress(FileNotFoundError):
                place = self._sealed(source)
                return self._vault.seal.content(place, place.stat().st_size)
            return None
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
                    if self._home.is_folder and self._vault is None
                    else self.kept(source)
                )
                if data is not None and hashlib.sha256(data).hexdigest() == record.document_id:
                    given.add(name)
                    yield Upload(source, name, data)

    def take_over(self, transaction: Transaction, others: Iterable[Upload]) -> None:
        """Keep those of another library, of which the paths are here already, and nothing else."""
        if self._home.is_folder:
            sweep_uploads(self._home.folder, ())  # of a move that was killed
        for upload in others:
            if self._home.is_folder:
                self.put(upload)
            else:
                files.keep_file(transaction.sql, upload.source, BytesIO(upload.data))

    @property
    def in_memory(self) -> bool:
        """Whether such a file is read from memory, and is written only to be `put`."""
        return self._vault is not None

    def put(self, upload: Upload) -> None:
        """Write it into the folder, encrypted in a vault. Raises FileExistsError, OSError."""
        content: Iterable[bytes | memoryview] = [upload.data]
        place = self._home.folder / UPLOADS / upload.name
        if self._vault is not None:
            place = self._sealed(upload.source)
            content = self._vault.seal.file(place.name, memoryview(upload.data))
        make_folder(place.parent)
        new_file(place, lambda file: file.writelines(content))

    def sweep(self, sources: Callable[[], Sequence[SourceRecord]]) -> None:
        """Delete files that are no document's any more, are not yet, or are in the database."""
        kept = uploads(self._home.folder)
        if kept and self._vault is not None:
            known = {self._sealed(record.state.path) for record in sources()}
            for path in kept:
                if path not in known:
                    path.unlink(missing_ok=True)
        elif kept:
            sweep_uploads(self._home.folder, sources() if self._home.is_folder else ())

    def _sealed(self, source: str) -> Path:
        """Where the bytes of a path lie in a vault: names tell as much as contents."""
        assert self._vault is not None, "only a vault has such files"  # noqa: S101
        return self._home.folder / UPLOADS / sealed_name(self._vault, source)

    def _in_folder(self, source: str, find: Callable[[str], SourceRecord | None]) -> bytes | None:
        if path := upload_of(self._home.folder, source, find):
            with suppress(FileNotFoundError), open_plain(path) as file:  # removed this moment
                return file.read()
        return None


def sealed_name(vault: Vault, source: str) -> str:
    """The name of the file that has the bytes of a path, where that is encrypted."""
    name = vault.seal.of(b"upload", storable_name(source).encode())
    return f"{name.hex()[:40]}.upload"


def _is_safe(name: str) -> bool:
    return safe_name(name) == name
