"""Export and import: a library as one file, taken over elsewhere without embedding again.

The archive holds the catalogue, a manifest, and the files that were uploaded. The vectors and the
keyword index follow from the catalogue within seconds, so nothing that a C++ library would have to
parse is taken from others.

An encrypted one has the header of a vault of its own beside them, and is encrypted as a vault is,
under a key made for this archive. Its manifest, which says how much there is, is not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import msgspec

from localrag.errors import (
    LibraryClosedError,
    LibraryDamagedError,
    LibraryError,
    LibraryMismatchError,
    UsageError,
)
from localrag.library.backends.base import Backend
from localrag.library.backends.folder import unmake_folder
from localrag.library.backends.opening import backend_of, is_there, open_backend
from localrag.library.backends.uploads import Upload, sealed_name
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.catalogue.cells import forget_cells
from localrag.library.catalogue.guarded import connect
from localrag.library.catalogue.history import forget_conversations
from localrag.library.catalogue.integrity import FOREIGN, catalogue_findings
from localrag.library.catalogue.reads import HISTORY, PURGE_DUE
from localrag.library.catalogue.saved_tables import forget_table
from localrag.library.check import check_library
from localrag.library.derived import Indexes
from localrag.library.folder.filesystem import CATALOGUE, VAULT_HEADER
from localrag.library.folder.gate import UPLOADS
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.folder.uploads import is_safe, uploaded
from localrag.library.folder.vaults import Header, Vault, read_header
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.records import Counts, EmbeddingIdentity, SourceRecord
from localrag.system.ciphers import AlteredError
from localrag.system.files import create_file, new_file, scratch_folder
from localrag.types import Finding

ImportStage = Literal["checking", "indexing"]
"""What an import does: look at the archive and copy it, then build the search indexes."""

FORMAT = 3
"""1 had no uploads, 2 no encryption. Each is still written where it is enough, for versions that
know no other."""
MANIFEST = "manifest.json"
_PART = 1 << 20
_MANIFEST_LIMIT = 1 << 20
_RATIO_LIMIT = 200
"""How many times larger than its compressed form a catalogue may be: vectors hardly shrink."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
_Text = Annotated[str, msgspec.Meta(max_length=1000)]

_NO_ARCHIVE = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, UnicodeDecodeError)
"""What a damaged archive is answered with; the last where a name in it is no text."""


class TransferManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What `manifest.json` says of the catalogue beside it."""

    format: Literal[1, 2, 3]
    localrag: _Text
    created: _Text
    embedding: _Text
    embedding_name: _Text
    dimension: _Count
    documents: _Count
    chunks: _Count
    bytes: _Count
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]

    @property
    def identity(self) -> EmbeddingIdentity:
        """The vector space of the library."""
        return EmbeddingIdentity(self.embedding, self.embedding_name, self.dimension)


Protection = tuple[Header, bytes]
"""The header of an archive that is encrypted, and its data key: `vaults.new_header`."""

Unlock = Callable[[Header], bytes]
"""The data key of an archive: from a person's passphrase, say."""


def export_library(
    location: Location,
    archive: Path,
    version: str,
    *,
    protection: Protection | None = None,
    in_clear: bool = False,
) -> TransferManifest:
    """Write the library at `location` to the new file `archive`; writers may go on meanwhile.

    `version` is that of localrag. With a `protection` the archive is encrypted; a vault is
    exported without one only `in_clear`. What is exported is one committed state; nothing is
    written there. Raises LibraryNotFoundError, LibraryDamagedError, and UsageError where there is a
    file of that name or no folder to write it to.
    """
    if os.path.lexists(archive):
        raise _there_already(archive)
    if not archive.parent.is_dir():
        raise UsageError(
            "There is no folder {path}.",
            hint="Create it first, or name a file in another folder.",
            path=archive.parent,
        )
    backend = open_backend(location)
    if backend.vault is not None and protection is None and not in_clear:
        backend.close()
        raise UsageError(
            "The library {directory} is a vault, so its export must be encrypted.",
            hint="Use --encrypt for a passphrase or --recipient for an age recipient; --in-clear "
            "exports it unencrypted.",
            directory=str(location),
        )
    vault = Vault.of(protection[0].id, protection[1]) if protection else None
    try:
        with scratch_folder(encrypted=vault is not None) as scratch, closing(backend):
            counts, embedding, sources = _snapshot(backend, scratch / CATALOGUE, vault)
            uploads = backend.uploads.all(sources)
            first = [*islice(uploads, 1)]
            form: Literal[1, 2, 3] = 3 if vault else 2 if first else 1
            manifest = _manifest(scratch / CATALOGUE, version, counts, embedding, form)
            files = _packed_uploads(chain(first, uploads), vault)
            header = protection[0].encoded() if protection else b""

            def write(file: BinaryIO) -> None:
                _pack(file, manifest, scratch / CATALOGUE, files, header)

            new_file(archive, write)
    except FileExistsError:
        raise _there_already(archive) from None
    except OSError as error:
        raise LibraryError(
            "The library cannot be exported to {path}: {reason}.",
            hint="Check the free disk space and whether you may write to that folder.",
            path=archive,
            reason=error.strerror or error,
        ) from error
    return manifest


def _there_already(archive: Path) -> UsageError:
    return UsageError(
        "The file {path} already exists.", hint="Give the export a new name.", path=archive
    )


def _pack(
    file: BinaryIO,
    manifest: TransferManifest,
    catalogue: Path,
    files: Iterable[tuple[str, bytes]],
    header: bytes,
) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        if header:
            new.writestr(VAULT_HEADER, header)
        new.write(catalogue, CATALOGUE)
        for name, data in files:
            new.writestr(f"{UPLOADS}/{name}", data)


def _packed_uploads(uploads: Iterable[Upload], vault: Vault | None) -> Iterator[tuple[str, bytes]]:
    """Names and bytes as the archive has them."""
    for upload in uploads:
        name, data = upload.name, upload.data
        if vault is not None:
            name = sealed_name(vault, upload.source)
            data = b"".join(vault.seal.file(name, memoryview(data)))
        yield name, data


def _snapshot(
    backend: Backend, copy: Path, vault: Vault | None
) -> tuple[Counts, EmbeddingIdentity, list[SourceRecord]]:
    """One committed state as a file of its own, without what is derived, due or half done."""
    key = vault.sqlite_key("catalogue") if vault else ""
    with closing(backend.catalogue) as catalogue, closing(SqliteCatalogue(copy, key=key)) as copied:
        older = catalogue.needs_migration()
        if backend.vault is None and not key:
            catalogue.copy_to(copy)
            if older:  # the copy, so that this goes where the library can only be read
                copied.migrate()
        else:  # row by row, as the keys differ
            if older:
                with backend.lock.hold(PATIENCE):
                    catalogue.migrate()
            copied.migrate()
            with catalogue.read() as snapshot, copied.write() as transaction:
                transaction.copy_from(snapshot)
        with copied.write() as transaction:
            transaction.drop_staging()
            transaction.forget_removals()
            transaction.count_chunks()
            # What failed to be read tells of files that are in no library.
            transaction.forget_unread([file.state.path for file in transaction.unread()])
            for setting in (PURGE_DUE, HISTORY):
                transaction.forget_meta(setting)
            forget_conversations(transaction.sql)  # they are of who asked, not of the library
            forget_cells(transaction.sql)
            forget_table(transaction.sql)
            contents = transaction.counts(), transaction.embedding(), transaction.sources()
        copied.purge()
    with closing(connect(copy, key=key)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # one file, that needs no other
    return contents


def _manifest(
    catalogue: Path,
    version: str,
    counts: Counts,
    embedding: EmbeddingIdentity,
    form: Literal[1, 2, 3],
) -> TransferManifest:
    with catalogue.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return TransferManifest(
        format=form,
        localrag=version,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        embedding=embedding.fingerprint,
        embedding_name=embedding.name,
        dimension=embedding.dimension,
        documents=counts.documents,
        chunks=counts.chunks,
        bytes=catalogue.stat().st_size,
        sha256=digest,
    )


def import_library(
    archive: Path,
    directory: Path,
    *,
    indexes: Indexes,
    on_wait: OnWait | None = None,
    tell: Callable[[ImportStage], None] = lambda _: None,
    describe: Callable[[Finding], str] = lambda finding: f"{finding.part}: {finding.code}",
    unlock: Unlock | None = None,
) -> TransferManifest:
    """Make the library of an archive in `directory`, which must hold no documents.

    The archive is taken for a stranger's: its names, sizes, hash, tables and values are checked,
    and its rows are copied into a catalogue of our own. They become visible all at once. What its
    check finds is put into words by `describe`.
    `unlock` gives the key of an archive that is encrypted.
    Raises LibraryDamagedError for what is not as an export wrote it, LibraryMismatchError for an
    archive of a newer localrag, LibraryError where there is a library already or no space.
    """
    if not archive.is_file():
        raise UsageError("There is no file {path}.", hint="Name an export.", path=archive)
    is_new = not directory.exists()
    empty = is_new or (
        directory.is_dir() and all(path.name == VAULT_HEADER for path in directory.iterdir())
    )
    try:
        with zipfile.ZipFile(archive) as packed:
            with _of_an_export(packed):
                manifest = _read_manifest(packed)
            vault = _vault_of_archive(packed, unlock)
            others = sum(info.file_size for info in packed.infolist()) - manifest.bytes
            _need_space(directory, 3 * manifest.bytes + others)
            library = Library.open(
                directory,
                create=True,
                embedding=manifest.identity if empty else None,
                indexes=indexes,
            )
            with library, library.writing(on_wait=on_wait):
                tell("checking")
                _fill(library, packed, manifest, describe, vault)
                tell("indexing")
                library.sync()
    except BaseException as error:
        if empty:
            unmake_folder(directory, made=is_new)
        if isinstance(error, _NO_ARCHIVE):
            raise _damaged(archive, error) from error
        if isinstance(error, OSError):
            raise LibraryError(
                "The import cannot continue: {reason}.",
                hint="Check the free disk space and whether you may write to that folder.",
                reason=error,
            ) from error
        raise
    for finding in check_library(directory, indexes).findings:
        if finding.damage:
            raise LibraryError(
                "The library was imported, but the check found: {text}",
                hint="Run `localrag check` to see what is damaged and how to repair it.",
                text=describe(finding),
            )
    return manifest


@dataclass(frozen=True, slots=True)
class Migration:
    """What was moved."""

    counts: Counts
    embedding: EmbeddingIdentity


def migrate_library(
    source: Location,
    target: Location,
    *,
    indexes: Indexes,
    on_wait: OnWait | None = None,
    tell: Callable[[ImportStage], None] = lambda _: None,
    describe: Callable[[Finding], str] = lambda finding: f"{finding.part}: {finding.code}",
) -> Migration:
    """Copy a library from a folder to a database, or back, or to another; the source stays.

    Nothing is embedded again: texts, vectors, checksums, and what was remembered of unread files
    and of answers are copied in one transaction, as one state of the source has them. Then the
    target is checked. Raises UsageError where both are the same, LibraryError where the
    target holds anything or is not in order afterwards.
    """
    if not (backend_of(source).has_nodes or backend_of(target).has_nodes):
        raise UsageError(
            "Both are folders: {source} and {target}.",
            hint="Copy the folder while nobody writes to it, or use `localrag export`.",
            source=source,
            target=target,
        )
    opening = partial(Library.open, indexes=indexes)
    with opening(source, create=False, embedding=None) as origin:
        is_new = not is_there(target)
        with opening(
            target, create=True, embedding=origin.embedding if is_new else None
        ) as library:
            try:
                with library.writing(on_wait=on_wait):
                    tell("checking")
                    counts = library.take_over(origin)
                    tell("indexing")
                    library.sync()
            except BaseException:
                if is_new:
                    library.close()
                    with suppress(LibraryError):  # what came first is what is told
                        library.backend.unmake()
                raise
        embedding = origin.embedding
    for finding in check_library(target, indexes).findings:
        if finding.damage:
            raise LibraryError(
                "The library was copied, but the check found: {text}",
                hint="Run `localrag check` on both to see what is damaged and how to repair it.",
                text=describe(finding),
            )
    return Migration(counts, embedding)


def _fill(
    library: Library,
    packed: zipfile.ZipFile,
    manifest: TransferManifest,
    describe: Callable[[Finding], str],
    vault: Vault | None,
) -> None:
    """Put the archive's rows into a library without documents; the caller may write."""
    directory = library.directory
    if library.counts().documents:
        raise LibraryError(
            "The library {directory} already contains documents; an import would mix them "
            "with others.",
            hint="Import into a folder of its own: --library NEW_FOLDER.",
            directory=directory,
        )
    key = vault.sqlite_key("catalogue") if vault else ""
    with (
        scratch_folder(encrypted=vault is not None) as scratch,
        closing(SqliteCatalogue(scratch / CATALOGUE, key=key)) as source,
    ):
        with _of_an_export(packed):
            _extract(packed, manifest, scratch / CATALOGUE, encrypted=vault is not None)
            if source.needs_migration():
                source.migrate()
            with source.read() as snapshot:
                wrong = [
                    finding for finding in catalogue_findings(snapshot) if finding.code != FOREIGN
                ]
        if wrong:
            raise _damaged(packed.filename, describe(wrong[0]).rstrip(".。"))
        with source.read() as snapshot:
            counts = snapshot.counts()
            contents = snapshot.embedding(), counts.documents, counts.chunks
            if contents != (manifest.identity, manifest.documents, manifest.chunks):
                raise _damaged(
                    packed.filename, LibraryError("its manifest is that of another library")
                )
            sources = snapshot.sources()
            library.uploads.sweep()  # of an import that was killed
            with _of_an_export(packed):
                for upload in _uploads_of(packed, sources, vault):
                    library.uploads.put(upload)
            library.fill_from(snapshot)


def _read_manifest(packed: zipfile.ZipFile) -> TransferManifest:
    infos = packed.infolist()
    by_name = {info.filename: info for info in infos}
    upload_names = {name for name in by_name if name.startswith(f"{UPLOADS}/")}
    known = {CATALOGUE, MANIFEST}
    if len(by_name) != len(infos) or by_name.keys() - upload_names - {VAULT_HEADER} != known:
        raise LibraryDamagedError("it contains files that do not belong to a library")
    if by_name[MANIFEST].file_size > _MANIFEST_LIMIT or not all(map(_is_packed_by_us, infos)):
        raise LibraryDamagedError("it is packed in a way that localrag never uses")
    raw = packed.read(MANIFEST)
    version = msgspec.json.decode(raw, type=_Versioned).format
    if version > FORMAT:
        raise LibraryMismatchError(
            "{path} has format {found}; this localrag reads format {known}.",
            hint="Update localrag, or export the library with the version used here.",
            path=packed.filename,
            found=version,
            known=FORMAT,
        )
    manifest = msgspec.json.decode(raw, type=TransferManifest)
    if manifest.bytes != by_name[CATALOGUE].file_size:
        raise LibraryDamagedError("its catalogue does not have the size given in the manifest")
    if (manifest.format == FORMAT) != (VAULT_HEADER in by_name):
        raise LibraryDamagedError("it is packed in a way that localrag never uses")
    return manifest


class _Versioned(msgspec.Struct):
    format: int


def _is_packed_by_us(info: zipfile.ZipInfo) -> bool:
    known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    most = _RATIO_LIMIT * info.compress_size + _PART
    return known and not info.flag_bits & 1 and info.file_size <= most


def _extract(
    packed: zipfile.ZipFile, manifest: TransferManifest, path: Path, *, encrypted: bool
) -> None:
    digest, left = hashlib.sha256(), manifest.bytes
    with packed.open(CATALOGUE) as stream, create_file(path) as copy:
        for part in iter(lambda: stream.read(_PART), b""):
            left -= len(part)
            if left < 0:
                break
            digest.update(part)
            copy.write(part)
    if left or digest.hexdigest() != manifest.sha256:
        raise LibraryDamagedError("its catalogue does not match the SHA-256 in the manifest")
    if encrypted:
        return
    # Bytes 18 and 19 say 1 where the file needs no write-ahead log beside it.
    with path.open("rb") as file:
        if file.read(20)[18:] != b"\x01\x01":
            raise LibraryDamagedError("it is not in the form that an export has")


def _uploads_of(
    packed: zipfile.ZipFile, sources: Sequence[SourceRecord], vault: Vault | None
) -> Iterator[Upload]:
    """The uploads of an archive; each must be what its document was read from."""
    known: defaultdict[str, list[SourceRecord]] = defaultdict(list)
    for record in sources:
        for name in filter(is_safe, uploaded([record.state.path])):
            known[sealed_name(vault, record.state.path) if vault else name].append(record)
    for info in packed.infolist():
        folder, _, name = info.filename.partition("/")
        if folder != UPLOADS:
            continue
        if name not in known:
            raise LibraryDamagedError("it contains files that do not belong to a library")
        with packed.open(info) as stream:
            data = stream.read(info.file_size + 1)
        if vault is not None:
            try:
                data = vault.seal.cipher.read(name, BytesIO(data))
            except AlteredError as error:
                raise LibraryDamagedError("a file in it was altered") from error
        digest = hashlib.sha256(data).hexdigest()
        source = next((source for source in known[name] if source.document_id == digest), None)
        if source is None:
            raise LibraryDamagedError("a file in it is not the one that its document was read from")
        (own_name,) = uploaded([source.state.path])
        yield Upload(source.state.path, own_name, data)


def _vault_of_archive(packed: zipfile.ZipFile, unlock: Unlock | None) -> Vault | None:
    """What opens an archive; None for one that is not encrypted."""
    if VAULT_HEADER not in packed.namelist():
        return None
    try:
        with packed.open(VAULT_HEADER) as file:
            header = read_header(file.read(_MANIFEST_LIMIT))
    except ValueError as error:
        raise _damaged(packed.filename, error) from error
    if unlock is None:
        raise LibraryClosedError(
            "{path} is encrypted.",
            hint="Open it with its passphrase, or with the age identity that it was encrypted for.",
            path=packed.filename,
        )
    return Vault.of(header.id, unlock(header))


def _need_space(directory: Path, needed: int) -> None:
    there = next(
        folder
        for folder in (directory.absolute(), *directory.absolute().parents)
        if folder.exists()
    )
    free = shutil.disk_usage(there).free
    if free < needed:
        raise LibraryError(
            "The import needs {needed:.0f} MB in {directory}, but only {free:.0f} MB are free.",
            hint="Free some space, or name a folder on another disk with --library.",
            needed=needed / 1e6,
            free=free / 1e6,
            directory=directory,
        )


@contextmanager
def _of_an_export(packed: zipfile.ZipFile) -> Iterator[None]:
    """Say of which archive it is that something is damaged."""
    try:
        yield
    except (LibraryDamagedError, msgspec.DecodeError, RecursionError) as error:
        if isinstance(error, LibraryDamagedError):
            error.hint = ""  # what to do is said once
        raise _damaged(packed.filename, error) from error


def _damaged(archive: object, reason: object) -> LibraryDamagedError:
    return LibraryDamagedError(
        "{path} is not an exported library, or is damaged: {reason}.",
        hint="Copy it again from where it was created, or export the library again.",
        path=archive,
        reason=reason,
    )
