"""BM25 with tantivy, on disk: opens at once, takes additions, forgets without a trace.

Terms come ready cut; each is indexed exactly as given. The score is Okapi BM25 as Lucene and
tantivy have it, k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)), with passage
lengths above 40 terms rounded down to a step of at most 1/8.

Tantivy goes on counting removed passages in N and n. So a removal writes the passages that stay
into a new folder and switches over: scores are then those of an index that never had the rest,
and no removed term is left in a file.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from localrag.errors import LibraryError
from localrag.stores.base import ChunkIds, are_allowed
from localrag.stores.files import replace_file
from localrag.stores.media import is_read_only
from localrag.stores.records import Stamp
from localrag.stores.vectors import DamagedIndexError
from localrag.types import Hit

POINTER = "index.json"
"""Names the folder in use and the state of the catalogue that it was built to."""

HEAP = 64_000_000
"""Bytes that tantivy may buffer before it writes a segment."""

DECIMALS = 4
"""Scores are rounded: tantivy adds terms in varying order, and equal passages shall tie."""

SCRATCH_LIFE = 3600.0
"""Seconds after which a reader's scratch folder is taken for abandoned."""

_REPLACED = ("meta.json", ".managed.json")  # all other files are written once

_FOLDER = re.compile(r"bm25-[0-9a-f]{8}")

_SEGMENT_FILES = (".term", ".idx", ".pos", ".fieldnorm", ".fast", ".store")

_FOOTER_MAGIC = 1337
"""What tantivy ends each segment file with, after the footer (JSON) and its length."""

TermsById = Iterable[tuple[int, Sequence[str]]]


class Pointer(NamedTuple):
    """What `index.json` says; `terms` is the fingerprint of the tokenizer."""

    folder: str
    epoch: str
    generation: int
    terms: str


class TantivyKeywords:
    """BM25 over terms, in a folder, or in memory where none is given."""

    def __init__(self, directory: Path | None = None, terms: str = "") -> None:
        """Open the index that `directory` holds, or begin an empty one.

        `terms` identifies how terms are cut: an index of other terms is begun anew. Raises
        DamagedIndexError where the files do not make an index.
        """
        self._directory = directory
        self._terms = terms
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self.stamp: Stamp = ("", 0)
        pointer = read_pointer(directory) if directory else None
        if directory and pointer and pointer.terms == terms:
            self._folder = directory / pointer.folder
            self.stamp = (pointer.epoch, pointer.generation)
            self._use(_opened(self._folder))
        else:
            self._use(_created(None))

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

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
            folder = self._folder
            target = self._index
            if stale or (self._directory is not None and folder is None):
                folder = self._new_folder() if self._directory is not None else None
                with _writing(folder):
                    target = _created(folder)
            kept = self._remaining(stale) if target is not self._index else ()
            with _writing(folder):
                _fill(target, kept, (_document(chunk_id, terms) for chunk_id, terms in added))
            self._folder, self.stamp = folder, stamp
            self._use(target)
            if self._directory is not None and folder is not None:
                pointer = Pointer(folder.name, *stamp, self._terms)
                _point(self._directory, pointer)
                sweep(self._directory, keep=folder)

    def changed(self, removed: Collection[int], added: TermsById, stamp: Stamp) -> TantivyKeywords:
        """What `update` would make of this index, in memory; the files stay as they are.

        For a reader while somebody else writes. The segments, which never change in place, are
        shared through a folder that is gone again when this returns.
        """
        copy = TantivyKeywords(None, self._terms)
        scratch = None
        with self._lock:
            if self._directory is not None and self._folder is not None:
                scratch = self._directory / f"reader-{secrets.token_hex(4)}"
                scratch.mkdir()
                for file in self._folder.iterdir():
                    _share(file, scratch / file.name)
        try:
            if scratch is not None:
                copy._use(_opened(scratch))
            copy.update(removed, added, stamp)
        finally:
            if scratch is not None:  # Windows keeps mapped files: a later writer sweeps them
                shutil.rmtree(scratch, ignore_errors=True)
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

    def _new_folder(self) -> Path:
        assert self._directory is not None  # noqa: S101 - the only caller has looked
        folder = self._directory / f"bm25-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        return folder

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


def read_pointer(directory: Path) -> Pointer | None:
    """Which index `directory` holds; None where there is none or the pointer is unreadable."""
    try:
        pointer = Pointer(**json.loads((directory / POINTER).read_text(encoding="utf-8")))
        # A library may come from somebody else: nothing outside its folder is opened.
        whole = _FOLDER.fullmatch(pointer.folder) and type(pointer.generation) is int
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return pointer if whole else None


def _point(directory: Path, pointer: Pointer) -> None:
    content = json.dumps(pointer._asdict())
    replace_file(directory / POINTER, lambda part: _write_text(part, content))


def _write_text(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def sweep(directory: Path, keep: Path, scratch_life: float = SCRATCH_LIFE) -> None:
    """Delete folders that are not in use: older indexes, and what a killed process left.

    A reader's scratch folder counts as left after `scratch_life` seconds.
    """
    for folder in directory.iterdir():
        if folder == keep or not folder.is_dir():
            continue
        # Either way: a clock that was set back makes old folders look new.
        abandoned = abs(time.time() - folder.stat().st_mtime) > scratch_life
        if folder.name.startswith("bm25-") or abandoned:
            shutil.rmtree(folder, ignore_errors=True)  # Windows: not while a reader has it open


def _share(file: Path, target: Path) -> None:
    if file.name.endswith(".lock"):
        return
    try:
        if file.name in _REPLACED:
            shutil.copyfile(file, target)
        elif file.stat().st_dev == target.parent.stat().st_dev:
            target.hardlink_to(file)
        else:
            target.symlink_to(file.absolute())
    except FileNotFoundError:
        return  # merged away meanwhile: if it is needed, opening fails and is tried again
    except OSError:
        shutil.copyfile(file, target)  # a file system without hard links


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


def _opened(folder: Path) -> Any:
    from tantivy import Index

    try:
        _check_footers(folder)
        with _lockable(folder) as place:
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
def _lockable(folder: Path) -> Iterator[Path]:
    """The folder, or where nothing can be written there one that shares its files for a moment.

    Tantivy makes a lock file to open an index, be it only to read.
    """
    if not is_read_only(folder):
        yield folder
        return
    scratch = Path(tempfile.mkdtemp(prefix="localrag-keywords-"))
    try:
        for file in folder.iterdir():
            _share(file, scratch / file.name)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_footers(folder: Path) -> None:
    """Hold each segment file to the CRC-32 in its footer: tantivy only does when it merges."""
    segments = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["segments"]
    # Only those that a commit names: a writer may be in the middle of others.
    for segment in segments:
        for suffix in _SEGMENT_FILES:
            _check_footer(folder / (segment["segment_id"].replace("-", "") + suffix))


def _check_footer(path: Path) -> None:
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - 8))
        tail = file.read()
        body = end - 8 - int.from_bytes(tail[:4], "little")
        if int.from_bytes(tail[4:], "little") != _FOOTER_MAGIC or body < 0:
            raise DamagedIndexError(f"{path.name} is cut short")
        file.seek(body)
        expected = json.loads(file.read()[:-8])["crc"]
        file.seek(0)
        found, left = 0, body
        while block := file.read(min(left, 1 << 20)):
            found = zlib.crc32(block, found)
            left -= len(block)
    if found != expected:
        raise DamagedIndexError(f"the checksum of {path.name} does not match")


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
