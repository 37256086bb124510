"""Files that were handed to a library: kept in its folder, or in its database for all its nodes.

In a vault they are encrypted, under names that say nothing, and never lie there in clear.

A node puts such a file into its own folder `uploads` only for as long as it is being added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from localrag.library.catalogue.store import CatalogueStore
from localrag.library.catalogue.writes import Transaction
from localrag.library.folder.gate import UPLOADS, uploads
from localrag.library.folder.uploads import (
    free_place,
    is_safe,
    sweep_uploads,
    upload_of,
    uploaded,
)
from localrag.library.folder.vaults import Vault
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
    """Those of one library, as a folder keeps them. May be used from several threads."""

    in_memory = False
    """Whether such a file is read from memory, and is written only to be `put`."""

    def __init__(self, folder: Path, catalogue: CatalogueStore) -> None:
        self._folder = folder
        self._catalogue = catalogue

    def place(self, name: str) -> Path:
        """Where a file of that name is put to be added: with a number where there is one."""
        return free_place(self._folder, name, self._taken_names())

    def _taken_names(self) -> Collection[str]:
        """Names that are taken, beside those of the files in the folder."""
        return ()

    def is_kept(self, source: str) -> bool:  # noqa: ARG002
        """Whether the bytes of a path are kept otherwise than in a file as it was handed over."""
        return False

    def kept(self, source: str) -> bytes | None:  # noqa: ARG002
        """The bytes of a path that are kept so; None where there are none."""
        return None

    def keep(self, transaction: Transaction, source: str, document_id: str) -> None:
        """Keep a file so that is being added as an upload; others are left."""

    def all(self, sources: Iterable[SourceRecord]) -> Iterator[Upload]:
        """Each of them once, but for what is not what was uploaded; one at a time in memory."""
        known = {record.state.path: record for record in sources}
        names = set[str]()
        for source, record in known.items():
            for name in filter(is_safe, uploaded([source]) - names):
                data = self._content(source, known.get)
                if data is not None and hashlib.sha256(data).hexdigest() == record.document_id:
                    names.add(name)
                    yield Upload(source, name, data)

    def _content(self, source: str, find: Callable[[str], SourceRecord | None]) -> bytes | None:
        if path := upload_of(self._folder, source, find):
            with suppress(FileNotFoundError), open_plain(path) as file:  # removed this moment
                return file.read()
        return None

    def take_over(self, transaction: Transaction, others: Iterable[Upload]) -> None:  # noqa: ARG002
        """Keep those of another library, of which the paths are here already, and nothing else."""
        sweep_uploads(self._folder, ())  # of a move that was killed
        for upload in others:
            self.put(upload)

    def put(self, upload: Upload) -> None:
        """Write it into the folder, encrypted in a vault. Raises FileExistsError, OSError."""
        self._write(self._folder / UPLOADS / upload.name, [upload.data])

    def _write(self, place: Path, content: Iterable[bytes | memoryview]) -> None:
        make_folder(place.parent)
        new_file(place, lambda file: file.writelines(content))

    def sweep(self) -> None:
        """Delete files that are no document's any more, are not yet, or are in the database."""
        if uploads(self._folder):
            sweep_uploads(self._folder, self._sources())

    def _sources(self) -> list[SourceRecord]:
        with self._catalogue.read() as snapshot:
            return snapshot.sources()


class VaultUploads(Uploads):
    """The same, encrypted."""

    in_memory = True

    def __init__(self, folder: Path, catalogue: CatalogueStore, vault: Vault) -> None:
        super().__init__(folder, catalogue)
        self._vault = vault

    def _taken_names(self) -> Collection[str]:
        return uploaded(record.state.path for record in self._sources())

    def is_kept(self, source: str) -> bool:
        """Whether the vault holds the bytes of a path."""
        return bool(uploaded([source])) and is_plain_file(self._sealed(source))

    def kept(self, source: str) -> bytes | None:
        """The bytes of a path that the vault holds; None where it does not."""
        with suppress(FileNotFoundError):
            place = self._sealed(source)
            return self._vault.seal.content(place, place.stat().st_size)
        return None

    def _content(self, source: str, _: object) -> bytes | None:
        return self.kept(source)

    def put(self, upload: Upload) -> None:
        """Write it into the folder, encrypted. Raises FileExistsError, OSError."""
        place = self._sealed(upload.source)
        self._write(place, self._vault.seal.file(place.name, memoryview(upload.data)))

    def sweep(self) -> None:
        """Delete files that are no document's any more, or are not yet."""
        if paths := uploads(self._folder):
            known = {self._sealed(record.state.path) for record in self._sources()}
            for path in paths:
                if path not in known:
                    path.unlink(missing_ok=True)

    def _sealed(self, source: str) -> Path:
        """Where the bytes of a path lie in a vault: names tell as much as contents."""
        return self._folder / UPLOADS / sealed_name(self._vault, source)


def uploads_in(folder: Path, catalogue: CatalogueStore, vault: Vault | None) -> Uploads:
    """Those of a library in a folder."""
    return Uploads(folder, catalogue) if vault is None else VaultUploads(folder, catalogue, vault)


def sealed_name(vault: Vault, source: str) -> str:
    """The name of the file that has the bytes of a path, where that is encrypted."""
    name = vault.seal.of(b"upload", storable_name(source).encode())
    return f"{name.hex()[:40]}.upload"
