"""BM25 with tantivy, on disk: opens at once, takes additions, forgets without a trace.

Terms come ready cut; each is indexed exactly as given. The score is Okapi BM25 as Lucene and
tantivy have it, k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)), with passage
lengths above 40 terms rounded down to a step of at most 1/8.

Each change makes a new folder, which shares the segments that stay, and switches over: whoever
reads or is killed meanwhile has one state or the other. Tantivy goes on counting removed passages
in N and n. So a removal shares nothing: scores are then those of an index that never had the
rest, and no removed term is left in a file.

Nothing reaches tantivy that was not sealed with this user's key: its files can name others, to be
opened or deleted.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from localrag.errors import LibraryError
from localrag.library.gate import INDEX_FOLDER, POINTER, clear_index_folders
from localrag.library.indexes.base import ChunkIds, are_allowed
from localrag.library.media import is_read_only
from localrag.library.records import ID_SUMS, ChunkSet, Stamp
from localrag.library.sealing import DamagedIndexError, ForeignIndexError, sealed, unsealed
from localrag.system.files import (
    close_to_others,
    delete_tree,
    make_folder,
    open_plain,
    replace_file,
    scratch_folder,
)
from localrag.system.seals import Seal, own_seal
from localrag.types import Hit

HEAP = 64_000_000
"""Bytes that tantivy may buffer before it writes a segment."""

DECIMALS = 4
"""Scores are rounded: tantivy adds terms in varying order, and equal passages shall tie."""

_REPLACED = ("meta.json", ".managed.json")  # all other files are written once

_MAGIC = "localrag-keywords-3"
_EARLIER = "localrag-keywords-2"

_POINTER_OF_0_1 = b'{"folder": "bm25-'

_POINTER_LIMIT = 1 << 20

TermsById = Iterable[tuple[int, Sequence[str]]]


class Pointer(NamedTuple):
    """What `index.json` says: `terms` is the fingerprint of the tokenizer.

    `ids` is the sum of the chunks' ids, `files` holds size and SHA-256 of each file of the folder.
    """

    folder: str
    epoch: str
    generation: int
    terms: str
    ids: int
    files: dict[str, str]


class TantivyKeywords:
    """BM25 over terms, in a folder, or in memory where none is given."""

    def __init__(
        self,
        directory: Path | None = None,
        terms: str = "",
        seal: Seal | None = None,
        *,
        anew: bool = False,
    ) -> None:
        """Open the index that `directory` holds, or begin an empty one (`anew`: in any case).

        `terms` identifies how terms are cut: an index of other terms is begun anew. `seal` is
        that of this user where none is given. Raises DamagedIndexError where the files do not
        make an index, ForeignIndexError for one of another key.
        """
        self._directory = directory
        self._seal = seal or own_seal()
        self._terms = terms
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self._files: dict[str, str] = {}
        self._ids = 0
        self.stamp: Stamp = ("", 0)
        pointer = load_pointer(directory, self._seal) if directory and not anew else None
        if directory and pointer and pointer.terms == terms:
            self._folder, self._files = directory / pointer.folder, pointer.files
            _expect_files(self._folder, self._files)
            self.stamp, self._ids = (pointer.epoch, pointer.generation), pointer.ids
            self._use(_opened(self._folder, self._files))
        else:
            self._use(_created(None))

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        return ChunkSet(len(self), self._ids)

    def add(self, ids: Sequence[int], terms: Sequence[Sequence[str]]) -> None:
        """Add one list of terms a chunk; known ids are replaced."""
        self.update(ids, zip(ids, terms, strict=True), self.stamp)

    def remove(self, ids: Sequence[int]) -> None:
        """Forget these ids; unknown ones are ignored."""
        self.update(ids, (), self.stamp)

    def update(self, removed: Collection[int], added: TermsById, stamp: Stamp) -> None:
        """Remove, then add, and say which state of the catalogue that is.

        Ids in `added` that are there already must stand in `removed` too. A process killed
        meanwhile leaves an index that the same call brings to the same state.
        """
        with self._lock:
            stale = self._present(removed)
            if self._directory is not None:
                self._switch(self._directory, stale, added, stamp)
                return
            target = _created(None) if stale else self._index
            self._ids = self._write(target, stale, added, None)
            self.stamp = stamp
            self._use(target)

    def changed(self, removed: Collection[int], added: TermsById, stamp: Stamp) -> TantivyKeywords:
        """What `update` would make of this index, in memory; the files stay as they are.

        For a reader while somebody else writes. The segments, which never change in place, are
        shared through a folder that is gone again when this returns. Raises DamagedIndexError
        where the writer has deleted them meanwhile.
        """
        copy = TantivyKeywords(None, self._terms)
        with ExitStack() as held:
            if self._folder is not None:
                scratch = held.enter_context(scratch_folder())
                for name in self._files:
                    _share(self._folder / name, scratch / name, by_link=True)
                copy._use(_opened(scratch, self._files))
                copy._ids = self._ids
            copy.update(removed, added, stamp)
        return copy

    def search(self, terms: Sequence[str], k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """Chunks, all or `allowed`, that share a term with the query, best first; ties by id.

        Scores do not change with `allowed`: how rare a term is, is counted in all chunks.
        """
        from tantivy import Occur, Query

        with self._lock:
            searcher = self._searcher
            schema = self._index.schema
        total = searcher.num_docs
        clauses = [
            (Occur.Should, Query.term_query(schema, "terms", term, "freq")) for term in terms
        ]
        if k < 1 or not clauses or not total or (allowed is not None and not len(allowed)):
            return []
        query = Query.boolean_query(clauses)
        wanted = min(k + 1, total)
        if allowed is not None and len(allowed) ** 2 <= wanted * total:
            ids = Query.term_set_query(schema, "id", allowed.tolist())
            query = query.and_must_match(Query.const_score_query(ids, 0.0))
            allowed = None
        elif allowed is not None:
            # A long list of ids takes tantivy longer than reading on past those not allowed:
            # 3.5 us an id against 0.7 us a hit, of which a share of len(allowed) / total stays.
            wanted = min(2 * wanted * total // len(allowed), total)
        # Tantivy breaks ties by position: look on until the k-th score has no equal outside.
        while True:
            found = searcher.search(query, limit=wanted, count=False).hits
            ids = searcher.fast_field_values("id", [address for _, address in found])
            scores = [round(score, DECIMALS) for score, _ in found]
            hits = [Hit(*pair) for pair in zip(ids, scores, strict=True)]
            if allowed is not None:
                kept = are_allowed(np.array(ids, dtype=np.int64), allowed)
                hits = [hits[place] for place in kept.nonzero()[0]]
            if len(found) < wanted or wanted == total:
                break
            if len(hits) >= k and scores[-1] < hits[k - 1].score:
                break
            wanted = min(4 * wanted, total)
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:k]

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""
        searcher = self._searcher
        return int(searcher.num_docs), [int(searcher.doc_freq("terms", term)) for term in terms]

    def documents(self) -> Iterator[tuple[int, list[str]]]:
        """Each chunk's id with the terms that were indexed, in no order.

        Raises DamagedIndexError where the files cannot be read.
        """
        try:
            for document in self._remaining(set()):
                held = document.to_dict()
                yield int(held["id"][0]), [str(term) for term in held.get("terms", ())]
        except (ValueError, OSError, KeyError) as error:
            raise DamagedIndexError(str(error)) from error

    def _use(self, index: Any) -> None:
        self._index = index
        self._searcher: Any = index.searcher()

    def _switch(self, directory: Path, stale: set[int], added: TermsById, stamp: Stamp) -> None:
        """Make a folder with the change, and point to it; what fails leaves all as it was."""
        folder = directory / f"bm25-{secrets.token_hex(4)}"
        with _writing(folder):
            make_folder(folder)
        try:
            with _writing(folder):
                known = {} if stale else self._files
                if self._folder is not None and known:
                    for name in known:
                        _share(self._folder / name, folder / name)
                target = _opened(folder, known) if known else _created(folder)
            ids = self._write(target, stale, added, folder)
            for path in folder.iterdir():
                close_to_others(path)
            files = _digests(folder, known)
            _point(directory, Pointer(folder.name, *stamp, self._terms, ids, files), self._seal)
        except BaseException:
            with suppress(OSError):  # Windows, while tantivy still has it open
                delete_tree(folder)
            raise
        self._folder, self._files, self._ids, self.stamp = folder, files, ids, stamp
        self._use(target)
        clear_index_folders(directory, keep=folder.name)

    def _write(self, target: Any, stale: set[int], added: TermsById, folder: Path | None) -> int:
        """Fill `target`; returns the sum of the ids that it holds then."""
        ids = self._ids - sum(stale)

        def documents() -> Iterator[Any]:
            nonlocal ids
            for chunk_id, terms in added:
                ids += chunk_id
                yield _document(chunk_id, terms)

        kept = self._remaining(stale) if target is not self._index and stale else ()
        with _writing(folder):
            _fill(target, kept, documents())
        return ids % ID_SUMS

    def _present(self, ids: Collection[int]) -> set[int]:
        """Those of `ids` that the index holds."""
        if not ids or not len(self):
            return set()
        wanted = set(ids)
        return wanted.intersection(self._searcher.fast_field_values("id", self._addresses()))

    def _addresses(self) -> list[Any]:
        from tantivy import Query

        everything = self._searcher.search(Query.all_query(), limit=len(self), count=False)
        return [address for _, address in everything.hits]

    def _remaining(self, stale: set[int]) -> Iterable[Any]:
        if not len(self):
            return
        addresses = self._addresses()
        ids = self._searcher.fast_field_values("id", addresses)
        for address, chunk_id in zip(addresses, ids, strict=True):
            if chunk_id not in stale:
                yield self._searcher.doc(address)


def load_pointer(directory: Path, seal: Seal) -> Pointer | None:
    """Which index `directory` holds, None for none.

    Raises ForeignIndexError for one of another key, DamagedIndexError for an altered one.
    """
    try:
        with open_plain(directory / POINTER) as file:
            content = file.read(_POINTER_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise ForeignIndexError("it cannot be read under this account") from error
    if content.startswith(_POINTER_OF_0_1):
        raise ForeignIndexError("an earlier version made it")
    fields = unsealed(content, seal)
    if fields.get("format") == _EARLIER:
        raise ForeignIndexError("an earlier version made it")
    if fields.get("format") != _MAGIC:
        raise DamagedIndexError(f"{POINTER} has another format")
    pointer = Pointer(*(fields[name] for name in Pointer._fields))
    # What a group has sealed, too, leads nowhere else.
    if not INDEX_FOLDER.fullmatch(pointer.folder) or any(Path(n).name != n for n in pointer.files):
        raise DamagedIndexError(f"{POINTER} leads out of the library")
    return pointer


def read_pointer(directory: Path, seal: Seal) -> Pointer | None:
    """The same, None also where the pointer is damaged or of another key."""
    try:
        return load_pointer(directory, seal)
    except (OSError, DamagedIndexError):
        return None


def _point(directory: Path, pointer: Pointer, seal: Seal) -> None:
    content = sealed({"format": _MAGIC, **pointer._asdict()}, seal)
    replace_file(directory / POINTER, lambda file: file.write(content))


def _expect_files(folder: Path, digests: dict[str, str]) -> None:
    """Raise DamagedIndexError unless the files are those that were pointed to, bit by bit."""
    for name, expected in digests.items():
        try:
            # The size first: a file may claim more than anybody can read.
            grown = not expected.startswith(f"{(folder / name).lstat().st_size} ")
            found = "" if grown else _digest(folder / name)
        except OSError as error:
            raise DamagedIndexError(f"{name} cannot be read") from error
        if found != expected:
            raise DamagedIndexError(f"the checksum of {name} does not match")
    try:
        there = {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}
    except OSError as error:
        raise DamagedIndexError("its folder cannot be read") from error
    if more := sorted(there.difference(digests)):
        raise DamagedIndexError(f"{more[0]} does not belong to it")


def _digests(folder: Path, known: dict[str, str]) -> dict[str, str]:
    """Size and SHA-256 of each file; those `known`, which are written once, are not read again."""
    return {
        path.name: known[path.name]
        if path.name in known and path.name not in _REPLACED
        else _digest(path)
        for path in sorted(folder.iterdir())
        if not path.name.endswith(".lock")
    }


def _digest(path: Path) -> str:
    with open_plain(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{file.tell()} {digest}"


def _share(file: Path, target: Path, *, by_link: bool = False) -> None:
    """Give the file a second place; with `by_link`, a link to it will do for the moment."""
    if file.name in _REPLACED:
        shutil.copyfile(file, target)
        return
    try:
        target.hardlink_to(file)
    except FileNotFoundError:
        return  # deleted meanwhile: opening fails, and is tried again
    except OSError:  # another disk, or a file system without hard links
        if by_link and os.name != "nt":
            target.symlink_to(file.absolute())
        else:
            shutil.copyfile(file, target)


@contextmanager
def _writing(folder: Path | None) -> Iterator[None]:
    """Say in our words what tantivy calls a ValueError: a disk that is full or read-only."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise LibraryError(
            "The keyword index {path} cannot be written: {reason}.",
            hint="Check the free disk space and whether you may write to that folder.",
            path=folder,
            reason=str(error).partition(" at path")[0],
        ) from error


def _schema() -> Any:
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    builder.add_integer_field("id", stored=True, indexed=True, fast=True)
    # "raw" takes each value as one term; "freq" keeps counts and no positions. Stored, so that
    # a removal can write the rest anew without cutting it again.
    builder.add_text_field("terms", stored=True, tokenizer_name="raw", index_option="freq")
    return builder.build()


def _created(folder: Path | None) -> Any:
    from tantivy import Index

    index = Index(_schema(), path=str(folder) if folder else None)
    index.config_reader(reload_policy="manual")
    return index


def _opened(folder: Path, digests: Iterable[str]) -> Any:
    from tantivy import Index

    try:
        with _lockable(folder, digests) as place:
            index = Index.open(str(place))
            index.config_reader(reload_policy="manual")
            index.searcher()
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise DamagedIndexError(str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # tantivy's own, which is no Exception
            raise
        raise DamagedIndexError(str(error)) from error
    if index.schema != _schema():
        raise DamagedIndexError("its fields are not those of localrag")
    return index


@contextmanager
def _lockable(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """The folder, or where nothing can be written there one that shares its files for a moment.

    Tantivy makes a lock file to open an index, be it only to read.
    """
    if not is_read_only(folder):
        yield folder
        return
    with scratch_folder() as scratch:
        for name in names:
            _share(folder / name, scratch / name, by_link=True)
        yield scratch


def _fill(index: Any, kept: Iterable[Any], added: Iterable[Any]) -> None:
    writer = index.writer(heap_size=HEAP, num_threads=1)
    try:
        for documents in (kept, added):
            for document in documents:
                writer.add_document(document)
        writer.commit()
    except BaseException:
        writer.rollback()
        raise
    finally:
        writer.wait_merging_threads()  # frees tantivy's own lock
    index.reload()


def _document(chunk_id: int, terms: Sequence[str]) -> Any:
    from tantivy import Document

    document = Document()
    document.add_integer("id", chunk_id)
    for term in terms:
        document.add_text("terms", term)
    return document
