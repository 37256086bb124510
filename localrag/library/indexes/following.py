"""The derived indexes as a library uses them: brought up to the catalogue before each search.

They are saved by whoever may write at that moment. A reader who finds them behind while another
process writes catches up in memory and leaves the files alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.errors import LibraryDamagedError, LibraryError
from localrag.library.catalogue.catalogue import Catalogue
from localrag.library.catalogue.reads import Snapshot
from localrag.library.gate import KEYWORDS, VECTORS, clear_index_folders
from localrag.library.indexes.base import ChunkIds, KeywordSearch, VectorSearch
from localrag.library.indexes.faiss import FaissVectors, read_stamp
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.library.indexes.tantivy import TantivyKeywords, read_pointer
from localrag.library.media import in_our_words
from localrag.library.opening import identity
from localrag.library.places import Place, Places
from localrag.library.records import Stamp
from localrag.library.sealing import DamagedIndexError
from localrag.system.seals import Seal
from localrag.types import Chunk, Hit

ATTEMPTS = 3
"""Tries at opening files that a writer may be replacing at the same time."""


class Tokenize(Protocol):
    """Cuts a text into terms; `fingerprint` changes when the same text may give others."""

    def __call__(self, text: str) -> list[str]:
        """The terms of `text`, repeated as often as they occur."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies the way of cutting."""
        ...


PassageText = Callable[[Chunk], str]
"""What of a chunk is searched: its text, and the headings above it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a chunk becomes the terms of the keyword index."""

    tokenize: Tokenize
    passage_text: PassageText

    def of(self, chunks: Iterable[Chunk]) -> Iterator[tuple[int, list[str]]]:
        """Each chunk's id with its terms."""
        for chunk in chunks:
            yield chunk.id, self.tokenize(self.passage_text(chunk))


Check = Callable[[Snapshot], None]
"""Raises where the library has changed so that this reader must not go on."""

Note = Callable[[Path], None]
"""Told which derived index was damaged, or not made here, and is built anew."""


class LibraryVectors:
    """The vectors of a library."""

    def __init__(self, catalogue: Catalogue, places: Places, check: Check, note: Note) -> None:
        self._catalogue = catalogue
        self._places = places
        self._check = check
        self._note = note
        self._store: FaissVectors | None = None
        self._guard = threading.RLock()

    def search(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """The k best of all, best first; ties by id. `vector` has shape (dimension,)."""
        return self.current().search(vector, k)

    def within(self, allowed: ChunkIds) -> VectorSearch:
        """The same vectors, of which only those with these ids can be found."""
        return _VectorsWithin(self, allowed)

    def current(self, *, keep: bool = False) -> FaissVectors:
        """The index as of now; also what a caller runs early to open it in another thread.

        With `keep`, raises LibraryError where it cannot be saved. A search goes on without.
        """
        with self._guard, in_our_words(self._catalogue.path.parent):
            with self._catalogue.read() as snapshot:
                self._check(snapshot)
                dimension = identity(snapshot).dimension
                place = self._places.of(read_stamp, VECTORS, snapshot.stamp())
                if self._store is not None and snapshot.base(self._store.stamp) is None:
                    self._store = None  # the file may be newer
            # The file before the state it is compared with: it cannot be ahead of it then.
            if self._store is None or self._store.dimension != dimension:
                self._store = self._load(place, dimension)
            with self._catalogue.read() as snapshot:
                stored = self._store
                if stored.stamp != snapshot.stamp() or stored.chunk_set() != snapshot.chunk_set():
                    self._store = _follow_vectors(stored, snapshot)
            # What could not be followed is no use to anybody, whatever its stamp says.
            useless = self._store is not stored
            if useless or read_stamp(place.folder / VECTORS, place.seal) != self._store.stamp:
                try:
                    _save(self._store, place, anew=useless)
                except OSError:
                    if keep and place is self._places.library:
                        raise
            return self._store

    def forget(self) -> None:
        """Drop what is in memory; the next use opens the file again."""
        with self._guard:
            self._store = None

    def _load(self, place: Place, dimension: int) -> FaissVectors:
        path = place.folder / VECTORS
        try:
            return FaissVectors.load(path, dimension, place.seal)
        except FileNotFoundError:
            return FaissVectors(dimension)
        except (DamagedIndexError, PermissionError):
            self._note(path)
            return FaissVectors(dimension)


def _save(store: FaissVectors, place: Place, *, anew: bool) -> None:
    path = place.folder / VECTORS
    with place.if_free() as mine:
        # Another process may have saved a newer state before the lock was ours.
        if mine and (anew or _is_newer(store.stamp, read_stamp(path, place.seal))):
            store.save(path, place.seal)


class LibraryKeywords:
    """The keyword index of a library, with tantivy on disk or with rank_bm25 in memory."""

    def __init__(
        self,
        catalogue: Catalogue,
        places: Places,
        check: Check,
        note: Note,
        terms: Terms,
        *,
        persistent: bool,
    ) -> None:
        self._catalogue = catalogue
        self._places = places
        self._check = check
        self._note = note
        self._terms = terms
        self._persistent = persistent
        self._index: TantivyKeywords | RankBm25Keywords | None = None
        self._guard = threading.RLock()

    def search(self, terms: Sequence[str], k: int) -> list[Hit]:
        """Chunks that share a term with the query, best first; ties by id."""
        return self.current().search(terms, k)

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""
        return self.current().frequencies(terms)

    def within(self, allowed: ChunkIds) -> KeywordSearch:
        """The same index, of which only chunks with these ids can be found.

        Scores are those of the whole library: how rare a term is does not hang on the filter.
        """
        return _KeywordsWithin(self, allowed)

    def current(self, *, keep: bool = False) -> TantivyKeywords | RankBm25Keywords:
        """The index as of now; also what a caller runs early to open it in another thread.

        With `keep`, raises LibraryError where it cannot be written. A search goes on without.
        """
        with self._guard, in_our_words(self._catalogue.path.parent):
            with self._catalogue.read() as snapshot:
                self._check(snapshot)
                stamp = snapshot.stamp()
            place = self._places.of(keywords_stamp, KEYWORDS, stamp)
            keep = keep and self._persistent and place is self._places.library
            kept = not keep or keywords_stamp(place.folder / KEYWORDS, place.seal) == stamp
            if self._index is None or self._index.stamp != stamp or not kept:
                self._index = self._advanced(place, keep) if self._persistent else self._reference()
            return self._index

    def forget(self) -> None:
        """Drop what is in memory; the next use opens the files again."""
        with self._guard:
            self._index = None

    def sweep(self) -> bool:
        """Delete folders of earlier indexes; False where one is in use. The caller may write."""
        keywords = self._places.library.folder / KEYWORDS
        pointer = read_pointer(keywords, self._places.seal)
        if not self._persistent or pointer is None:
            return True
        return clear_index_folders(keywords, keep=pointer.folder)

    def _reference(self) -> RankBm25Keywords:
        index = self._index if isinstance(self._index, RankBm25Keywords) else RankBm25Keywords()
        with self._catalogue.read() as snapshot:
            base = snapshot.base(index.stamp)
            if base is None:
                index, base = RankBm25Keywords(), -1
            index.update(*self._changes(snapshot, base))
        return index

    def _advanced(self, place: Place, keep: bool) -> TantivyKeywords:
        """The files opened, and brought up to date: on disk if we may, else in memory."""
        with place.if_free() as mine:
            # The files before the state they are compared with: they cannot be ahead of it then.
            index = self._open(place, mine)
            with self._catalogue.read() as snapshot:
                try:
                    return self._followed(index, snapshot, place if mine else None)
                except LibraryDamagedError:
                    raise
                except DamagedIndexError:  # deleted by a writer meanwhile
                    pass
                except (LibraryError, OSError):
                    if keep:
                        raise
                # Nothing can be written, not even for a moment.
                return self._anew(snapshot, None)

    def _followed(
        self, index: TantivyKeywords, snapshot: Snapshot, place: Place | None
    ) -> TantivyKeywords:
        base = snapshot.base(index.stamp)
        if base is not None and index.stamp != snapshot.stamp():
            changes = self._changes(snapshot, base)
            if place is not None:
                index.update(*changes)
            else:
                index = index.changed(*changes)
        if base is None or index.chunk_set() != snapshot.chunk_set():
            index = self._anew(snapshot, place)
        return index

    def _anew(self, snapshot: Snapshot, place: Place | None) -> TantivyKeywords:
        terms = self._terms.tokenize.fingerprint
        if place is None:
            index = TantivyKeywords(None, terms)
        else:
            index = TantivyKeywords(place.folder / KEYWORDS, terms, place.seal, anew=True)
        index.update(*self._changes(snapshot, -1))
        return index

    def _open(self, place: Place, mine: bool) -> TantivyKeywords:
        keywords, terms = place.folder / KEYWORDS, self._terms.tokenize.fingerprint
        # Under the lock nobody replaces the files, and trying again would show the same.
        for _ in range(1 if mine else ATTEMPTS):
            try:
                return TantivyKeywords(keywords, terms, place.seal)
            except DamagedIndexError:
                continue
        self._note(keywords)
        return TantivyKeywords(None, terms)

    def _changes(
        self, snapshot: Snapshot, base: int
    ) -> tuple[list[int], Iterable[tuple[int, list[str]]], Stamp]:
        forget = [*snapshot.removed_since(base), *snapshot.added_ids_since(base)]
        return forget, self._terms.of(snapshot.chunks_since(base)), snapshot.stamp()


@dataclass(frozen=True, slots=True)
class _VectorsWithin:
    vectors: LibraryVectors
    allowed: ChunkIds

    def search(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """The k best of those allowed."""
        return self.vectors.current().search(vector, k, self.allowed)


@dataclass(frozen=True, slots=True)
class _KeywordsWithin:
    keywords: LibraryKeywords
    allowed: ChunkIds

    def search(self, terms: Sequence[str], k: int) -> list[Hit]:
        """The k best of those allowed."""
        return self.keywords.current().search(terms, k, self.allowed)


def keywords_stamp(directory: Path, seal: Seal) -> Stamp | None:
    """The state that the keyword index on disk was built to; None for none, or a foreign one."""
    pointer = read_pointer(directory, seal)
    return (pointer.epoch, pointer.generation) if pointer else None


def _follow_vectors(store: FaissVectors, snapshot: Snapshot) -> FaissVectors:
    base = snapshot.base(store.stamp)
    if base is not None and base != snapshot.stamp()[1]:
        store.update(
            [*snapshot.removed_since(base), *snapshot.added_ids_since(base)],
            snapshot.embeddings_since(base, store.dimension),
            snapshot.stamp(),
        )
    if base is not None and store.chunk_set() == snapshot.chunk_set():
        return store
    # From another time line (a restored backup, say): nothing in it can be relied on.
    fresh = FaissVectors(store.dimension)
    fresh.update((), snapshot.embeddings_since(-1, store.dimension), snapshot.stamp())
    return fresh


def _is_newer(stamp: Stamp, saved: Stamp | None) -> bool:
    return saved is None or saved[0] != stamp[0] or saved[1] < stamp[1]
