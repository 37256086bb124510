"""A library made a vault where it stands, and a vault made a library again.

The other catalogue is written whole beside the first, and the other form of each upload beside it;
then `vault.json` is made, or deleted: that alone says which of the two the folder holds. So a
process that is killed leaves one of them whole, and what is left of the other goes with the next
writer (`gate.sweep_parts`). What is derived is deleted first, and made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

from localrag.errors import LibraryError, UsageError
from localrag.library.backends.base import Backend
from localrag.library.backends.opening import open_backend
from localrag.library.backends.uploads import uploads_in
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.catalogue.integrity import FOREIGN, catalogue_findings
from localrag.library.computed import clear_computed
from localrag.library.folder import gate, vaults
from localrag.library.folder.filesystem import (
    CATALOGUE,
    VAULT_CATALOGUE,
    VAULT_HEADER,
    in_our_words,
    in_use,
    not_writable,
)
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.folder.vaults import Header, Vault
from localrag.library.records import Counts
from localrag.system.files import sync_directory

Stage = Literal["copying", "checking"]


def encrypt_library(
    directory: Path,
    header: Header,
    key: bytes,
    *,
    on_wait: OnWait | None = None,
    tell: Callable[[Stage], None] = lambda _: None,
) -> Counts:
    """Make the library in a folder a vault with that header, of which `key` is the data key.

    What was there in clear is deleted; a drive may keep what it has deleted for long. Raises
    UsageError for a vault, LibraryError for a library of a group, or what is damaged.
    """
    backend = open_backend(directory)
    if backend.vault is not None:
        raise UsageError(
            "The library {directory} is a vault already.",
            hint="Change its passphrase with: localrag vault passphrase",
            directory=directory,
        )
    if (backend.folder / gate.KEY).exists():
        raise LibraryError(
            "The library {directory} is shared with a group; a vault belongs to one person.",
            hint="Stop sharing it first: localrag share --off",
            directory=directory,
        )
    vault = Vault.of(header.id, key)
    counts = _converted(
        backend, vault, on_wait, tell, lambda: vaults.write_header(backend.folder, header)
    )
    vaults.remember(backend.folder, key)
    return counts


def decrypt_library(
    directory: Path,
    *,
    on_wait: OnWait | None = None,
    tell: Callable[[Stage], None] = lambda _: None,
) -> Counts:
    """Make the opened vault in a folder a library that is none; its header is gone for good.

    Raises LibraryClosedError, UsageError for a library that is no vault.
    """
    backend = open_backend(directory)
    if backend.vault is None:
        raise UsageError(
            "The library {directory} is not a vault.",
            hint="Encrypt it with: localrag vault create",
            directory=directory,
        )

    def commit() -> None:
        (backend.folder / VAULT_HEADER).unlink()
        sync_directory(backend.folder)

    counts = _converted(backend, None, on_wait, tell, commit)
    vaults.close_here(backend.vault.id)
    return counts


def _converted(
    backend: Backend,
    target: Vault | None,
    on_wait: OnWait | None,
    tell: Callable[[Stage], None],
    commit: Callable[[], None],
) -> Counts:
    """Write the other form of a library, and let `commit` say that it is the one that counts."""
    if backend.read_only:
        raise not_writable(backend.folder)
    name = VAULT_CATALOGUE if target else CATALOGUE
    other = SqliteCatalogue(
        backend.folder / name, key=target.sqlite_key("catalogue") if target else ""
    )
    with closing(backend), closing(other), backend.lock.hold(PATIENCE, on_wait):
        with in_our_words(backend.folder):
            gate.sweep_parts(backend.folder)  # what a conversion left that was killed
            if not gate.clear_derived(backend.folder):
                raise in_use(backend.folder)
        if backend.catalogue.needs_migration():
            backend.catalogue.migrate()
        tell("copying")
        copies = uploads_in(backend.folder, other, target)
        backend.uploads.sweep()
        other.migrate()
        with backend.catalogue.read() as snapshot:
            counts, removals = snapshot.counts(), snapshot.removals()
            with other.write() as transaction:
                transaction.copy_from(snapshot, whole=True)
            with in_our_words(backend.folder):
                for upload in backend.uploads.all(snapshot.sources()):
                    copies.put(upload)
        tell("checking")
        with other.read() as written:
            wrong = [finding for finding in catalogue_findings(written) if finding.code != FOREIGN]
            if wrong or written.counts() != counts:
                raise LibraryError(
                    "The copy of the library {directory} differs from the original, which was "
                    "left unchanged.",
                    hint="See what is damaged with: localrag check",
                    directory=backend.folder,
                )
        if not other.settle(patience=1.0):
            raise LibraryError("The library {directory} is in use.", directory=backend.folder)
        other.close()
        clear_computed(removals)
        with in_our_words(backend.folder):
            commit()
            backend.catalogue.close()
            copies.sweep()
            gate.sweep_parts(backend.folder)
    return counts
