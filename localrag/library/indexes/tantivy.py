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
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from localrag.errors import LibraryError
from localrag.library.folder.filesystem import is_read_only
from localrag.library.folder.gate import (
    INDEX_FOLDER,
    POINTER,
    clear_index_folders,
    clear_keywords,
)
from localrag.library.folder.sealing import DamagedIndexError, ForeignIndexError, sealed, unsealed
from localrag.library.indexes.base import Storage, Terms, Verified, are_allowed
from localrag.library.records import ID_SUMS, NEVER, ChunkIds, ChunkSet, Stamp
from localrag.system.files import (
    close_to_others,
    delete_tree,
    make_folder,
    open_plain,
    replace_content,
    scratch_folder,
)
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
    """BM25 over terms, in memory or in a folder; passages keep the terms they were indexed by."""

    persistent = True

    def __init__(self, terms: Callable[[], str] = str) -> None:
        """`terms` identifies how terms are cut: of other terms nothing is taken up."""
        self._terms = terms
        self._lock = threading.RLock()
        self._index: Any = None
        self._searcher: Any = None
        self._folder: Path | None = None
        self._files: dict[str, str] = {}
        self._ids = 0
        self._in_memory = False
        self.stamp: Stamp = NEVER

    def __len__(self) -> int:
        return int(self._searcher.num_docs) if self._searcher else 0

    def saved(self, at: Storage) -> Stamp | None:
        """The state that the pointer names."""
        pointer = read_pointer(at)
        return (pointer.epoch, pointer.generation) if pointer else None

    def open(self, at: Storage) -> None:
        """Take up the folder that the pointer names; without one of our terms, all stays.

        Others may be searching meanwhile: they find the former state or the new one.
        """
        pointer = load_pointer(at)
        if pointer is None or pointer.terms != self._terms():
            return
        folder = at.path / pointer.folder
        if folder == self._folder:
            return
        _expect_files(folder, pointer.files)
        index = _opened(folder, pointer.files)
        with self._lock:
            self._use(index)
            self._folder, self._files, self._in_memory = folder, pointer.files, False
            self._ids, self.stamp = pointer.ids, (pointer.epoch, pointer.generation)

    def apply(
        self,
        removed: Collection[int],
        added: Iterable[tuple[int, Terms]],
        stamp: Stamp,
        at: Storage | None = None,
    ) -> None:
        """Make a folder of the new state and point to it, or change what is in memory.

        What fails leaves all as it was. Raises DamagedIndexError where another process has
        deleted meanwhile what is to be shared.
        """
        with self._lock, ExitStack() as held:
            stale = set(removed).intersection(one for one, _ in self._held()) if removed else set()
            shared = {} if stale else self._files
            place: Path | None = None
            if at is not None:
                place = held.enter_context(_new_folder(at.path))
            elif shared:
                # For a reader while somebody else writes: the segments, which never change in
                # place, are shared through a folder that is gone again in the end.
                place = held.enter_context(scratch_folder())
            with _writing(place):
                if shared and place and self._folder:
                    _share(self._folder, shared, place, by_link=at is None)
                    target = _opened(place, shared)
                elif self._in_memory and not stale and at is None:
                    target = self._index
                else:
                    target = _created(place)
            kept = () if shared or target is self._index else self._remaining(stale)
            ids = self._ids - sum(stale)

            def documents() -> Iterator[Any]:
                nonlocal ids
                for chunk_id, terms in added:
                    ids += chunk_id
                    yield _document(chunk_id, terms)

            with _writing(place):
                _fill(target, kept, documents())
            files: dict[str, str] = {}
            if at and place:
                for path in place.iterdir():
                    close_to_others(path)
                files = _digests(place, shared)
                ids %= ID_SUMS
                _point(at, Pointer(place.name, *stamp, self._terms(), ids, files))
        with self._lock:
            self._folder, self._files = place if at else None, files
            self._ids, self.stamp = ids % ID_SUMS, stamp
            self._in_memory = place is None
            self._use(target)
        if at and place:
            clear_index_folders(at.path, keep=place.name)

    def search(self, query: Terms, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """How rare a term is, is counted in all chunks, whatever is allowed."""
        if not query or k < 1 or not len(self) or (allowed is not None and not len(allowed)):
            return []
        from tantivy import Occur, Query

        with self._lock:
            searcher, schema = self._searcher, self._index.schema
        total = searcher.num_docs
        clauses = [
            (Occur.Should, Query.term_query(schema, "terms", term, "freq")) for term in query
        ]
        wish = Query.boolean_query(clauses)
        wanted = min(k + 1, total)
        if allowed is not None and len(allowed) ** 2 <= wanted * total:
            ids = Query.term_set_query(schema, "id", allowed.tolist())
            wish = wish.and_must_match(Query.const_score_query(ids, 0.0))
            allowed = None
        elif allowed is not None:
            # A long list of ids takes tantivy longer than reading on past those not allowed:
            # 3.5 us an id against 0.7 us a hit, of which a share of len(allowed) / total stays.
            wanted = min(2 * wanted * total // len(allowed), total)
        # Tantivy breaks ties by position: look on until the k-th score has no equal outside.
        while True:
            found = searcher.search(wish, limit=wanted, count=False).hits
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

    def alike(self, term: str, edits: int, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """By tantivy's Levenshtein automaton over its terms."""
        if not len(self) or k < 1 or (allowed is not None and not len(allowed)):
            return []
        from tantivy import Query

        with self._lock:
            searcher, schema = self._searcher, self._index.schema
        wish = Query.fuzzy_term_query(schema, "terms", term, edits)
        limit = k if allowed is None else searcher.num_docs
        found = searcher.search(wish, limit=limit, count=False).hits
        ids = np.array(
            searcher.fast_field_values("id", [address for _, address in found]), dtype=np.int64
        )
        if allowed is not None:
            ids = ids[are_allowed(ids, allowed)]
        return [Hit(number, 1.0) for number in ids[:k].tolist()]

    def frequencies(self, terms: Terms) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""
        searcher = self._searcher
        if searcher is None:
            return 0, [0] * len(terms)
        return int(searcher.num_docs), [int(searcher.doc_freq("terms", term)) for term in terms]

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""
        return ChunkSet(len(self), self._ids)

    def verify(self, expected: Iterable[tuple[int, Terms]]) -> Verified:
        """Compare the terms that are stored, by a hash of them."""
        ids: list[int] = []
        held: dict[int, int] = {}
        try:
            for document in self._remaining(set()):
                fields = document.to_dict()
                ids.append(int(fields["id"][0]))
                held[ids[-1]] = _hash(fields.get("terms", ()))
        except (ValueError, OSError, KeyError) as error:
            raise DamagedIndexError(str(error)) from error
        differing = sum(n in held and held[n] != _hash(terms) for n, terms in expected)
        return Verified(ids, differing)

    def erase(self, at: Storage, but: Stamp | None = None) -> bool:
        """Delete the folder, or earlier indexes in it. Windows keeps what a reader has open."""
        pointer = read_pointer(at)
        if pointer is None or but != (pointer.epoch, pointer.generation):
            return clear_keywords(at.path)
        return clear_index_folders(at.path, keep=pointer.folder)

    def _use(self, index: Any) -> None:
        self._index = index
        self._searcher = index.searcher()

    def _held(self) -> list[tuple[int, Any]]:
        """The id and the address of each document."""
        from tantivy import Query

        if not len(self):
            return []
        everything = self._searcher.search(Query.all_query(), limit=len(self), count=False)
        addresses = [address for _, address in everything.hits]
        ids = self._searcher.fast_field_values("id", addresses)
        return list(zip(ids, addresses, strict=True))

    def _remaining(self, stale: set[int]) -> Iterable[Any]:
        for chunk_id, address in self._held():
            if chunk_id not in stale:
                yield self._searcher.doc(address)


def load_pointer(at: Storage) -> Pointer | None:
    """Which index lies there, None for none.

    Raises ForeignIndexError for one of another key, DamagedIndexError for an altered one.
    """
    try:
        with open_plain(at.path / POINTER) as file:
            content = file.read(_POINTER_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise ForeignIndexError("it cannot be read under this account") from error
    if content.startswith(_POINTER_OF_0_1):
        raise ForeignIndexError("an earlier version made it")
    fields = unsealed(content, at.seal)
    if fields.get("format") == _EARLIER:
        raise ForeignIndexError("an earlier version made it")
    if fields.get("format") != _MAGIC:
        raise DamagedIndexError(f"{POINTER} has another format")
    pointer = Pointer(*(fields[name] for name in Pointer._fields))
    # What a group has sealed, too, leads nowhere else.
    if not INDEX_FOLDER.fullmatch(pointer.folder) or any(Path(n).name != n for n in pointer.files):
        raise DamagedIndexError(f"{POINTER} leads out of the library")
    return pointer


def read_pointer(at: Storage) -> Pointer | None:
    """The same, None also where the pointer is damaged or of another key."""
    try:
        return load_pointer(at)
    except (OSError, DamagedIndexError):
        return None


def _point(at: Storage, pointer: Pointer) -> None:
    content = sealed({"format": _MAGIC, **pointer._asdict()}, at.seal)
    replace_content(at.path / POINTER, content)


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


def _share(folder: Path, names: Iterable[str], place: Path, *, by_link: bool = False) -> None:
    """Give the files a second place; with `by_link`, links to them will do for the moment."""
    for file, target in ((folder / name, place / name) for name in names):
        if file.name in _REPLACED:
            shutil.copyfile(file, target)
            continue
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


@contextmanager
def _new_folder(directory: Path) -> Iterator[Path]:
    """An empty folder for an index, gone again if that cannot be written."""
    folder = directory / f"bm25-{secrets.token_hex(4)}"
    with _writing(folder):
        make_folder(folder)
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # Windows, while tantivy still has it open
            delete_tree(folder)
        raise


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
        _share(folder, names, scratch, by_link=True)
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


def _hash(terms: Iterable[str]) -> int:
    return zlib.crc32("\0".join(sorted(terms)).encode("utf-8", "surrogatepass"))
