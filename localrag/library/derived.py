"""A derived index as a library uses it: brought up to the catalogue before each search.

It is saved by whoever may write at that moment. A reader who finds it behind while another
process writes catches up in memory and leaves the files alone.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal

import numpy as np
from numpy.typing import NDArray

from localrag.errors import LibraryDamagedError, LibraryError
from localrag.library.acting import acting_as_server
from localrag.library.catalogue.reads import Snapshot
from localrag.library.catalogue.store import CatalogueStore
from localrag.library.folder.filesystem import in_our_words
from localrag.library.folder.gate import KEYWORDS, VECTORS, folder_size
from localrag.library.folder.places import Place, Places
from localrag.library.folder.sealing import DamagedIndexError
from localrag.library.indexes.base import (
    INHERITED,
    NAMING,
    DerivedIndex,
    KeywordIndex,
    Query,
    Search,
    SearchWithin,
    Storage,
    Terms,
    Vector,
    VectorIndex,
    Within,
)
from localrag.library.indexes.comparison import EXACT, AllVectors, compared
from localrag.library.records import ChunkIds, DerivedStatus, Stamp
from localrag.types import Chunk, Hit

ATTEMPTS = 3
"""Tries at opening files that a writer may be replacing at the same time."""

SOON = 0.1
"""Seconds for which a search waits, in its transaction, for who looks after what it needs: who
takes longer makes it anew."""

SMALL = 32 << 20
"""Bytes of vectors that are kept in memory at most: 32,768 of 512 dimensions. To compare so many
takes less than to name candidates and to look them up."""

Check = Callable[[Snapshot], None]
"""Raises where the library has changed so that this reader must not go on."""

Note = Callable[[Path], None]
"""Told which derived index was damaged, or not made here, and is built anew."""

Entries = Callable[[Snapshot, int], Iterable[tuple[int, Query]]]
"""What an index holds of the chunks that came after a generation."""


@dataclass(frozen=True, slots=True)
class VectorPlacement:
    """Where the vectors of a library in a database are searched."""

    where: Literal["auto", "node", "pgvector"] = "auto"
    """By size; on this node; or in the database, with pgvector."""
    megabytes: int = 2000
    """What they may take on this node, by size."""

    def is_too_small(self, size: int, dimension: int) -> bool:
        """For so many vectors as an index has them, with their ids and one-bit codes."""
        return size * (dimension + dimension // 8 + 32) > self.megabytes * 1_000_000


@dataclass(frozen=True, slots=True)
class Indexes:
    """What a library is searched with: makers of empty indexes, and how a chunk becomes terms."""

    vectors: Callable[[], VectorIndex]
    keywords: Callable[[], KeywordIndex]
    tokenize: Callable[[str], list[str]]
    passage_text: Callable[[Chunk], str]
    """What of a chunk is searched as its own: its text, and the headings above it."""
    placement: VectorPlacement = VectorPlacement()
    card_text: Callable[[str, str, str], str] = lambda _title, _source, _head: ""
    """What all chunks of a document inherit, by its title, its path, and how it begins."""
    head: int = 0
    """Code points of that beginning."""

    @property
    def legs(self) -> tuple[Leg[Vector], Leg[Terms]]:
        """Both, as far as they are alike."""
        return (
            Leg("vectors", VECTORS, self.vectors, Snapshot.embeddings_since),
            Leg("keywords", KEYWORDS, self.keywords, self._terms),
        )

    def _terms(self, snapshot: Snapshot, generation: int) -> Iterator[tuple[int, Terms]]:
        document, inherited = "", list[str]()
        for chunk in snapshot.chunks_since(generation):
            if chunk.document_id != document:
                document = chunk.document_id
                source = snapshot.sources_of([document]).get(document, "")
                head = snapshot.text(document, 0, self.head)
                card = self.tokenize(self.card_text(chunk.title, source, head))
                inherited = list(dict.fromkeys(card))
            terms = self.tokenize(self.passage_text(chunk))
            terms += [INHERITED + term for term in inherited]
            if not chunk.position:
                terms += [NAMING, *(NAMING + term for term in inherited)]
            yield chunk.id, terms


@dataclass(frozen=True, slots=True)
class Leg(Generic[Query]):
    """An index, the name under which it lies in a folder, and what it holds of a catalogue."""

    part: Literal["vectors", "keywords"]
    name: str
    make: Callable[[], DerivedIndex[Query]]
    entries: Entries[Query]


class Derived(ABC, Generic[Query]):
    """One derived index of a library."""

    def __init__(
        self, leg: Leg[Query], catalogue: CatalogueStore, places: Places, check: Check, note: Note
    ) -> None:
        self._leg = leg
        self._catalogue = catalogue
        self._places = places
        self._check = check
        self._note = note
        self._index = leg.make()
        self._guard = threading.RLock()

    @abstractmethod
    def search(self, query: Query, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best of all, or of those that are `allowed`, best first; ties by id."""

    def within(self, allowed: ChunkIds) -> Search[Query]:
        """The same index, of which only chunks with these ids can be found."""
        return Within(self, allowed)

    @abstractmethod
    def at_hand(self, snapshot: Snapshot) -> SearchWithin[Query] | None:
        """What searches that state, if it need not be brought up to it, nor is just now."""

    def _at_hand(self, snapshot: Snapshot) -> DerivedIndex[Query] | None:
        """The index itself, which another search may bring to a later state at any time."""
        if not self._guard.acquire(timeout=SOON):
            return None
        try:
            return self._index if self._index.stamp == snapshot.stamp() else None
        finally:
            self._guard.release()

    def current(self, *, keep: bool = False) -> DerivedIndex[Query]:
        """The index as of now; also what a caller runs early to open it in another thread.

        With `keep`, raises LibraryError where it cannot be saved. A search goes on without.
        """
        with self._guard, in_our_words(self._places.library.folder):
            with self._catalogue.read() as snapshot:
                self._check(snapshot)
                stamp = snapshot.stamp()
                if snapshot.base(self._index.stamp) is None:
                    self._index = self._leg.make()  # what lies on disk may be newer
            place, at = self._at(stamp)
            keep = keep and self._index.persistent and place is self._places.library
            if self._index.stamp != stamp or (keep and self._index.saved(at) != stamp):
                with acting_as_server():  # above, whoever asks has been let in
                    self._advance(place, at, keep)
            return self._index

    def build(self) -> None:
        """Have what another program holds of it built there; the caller may write."""

    def drop(self) -> None:
        """Have it dropped there; the caller may write."""

    def forget(self) -> None:
        """Drop what is in memory; the next use opens the files again."""
        with self._guard:
            self._index = self._leg.make()

    @property
    def persistent(self) -> bool:
        """Whether it is kept on disk."""
        return self._index.persistent

    def status(self, stamp: Stamp) -> DerivedStatus:
        """What lies on disk, compared with that state of the catalogue."""
        _, at = self._at(stamp)
        saved = self._index.saved(at)
        behind = stamp[1] - saved[1] if saved and saved[0] == stamp[0] else stamp[1]
        size = folder_size(at.path) if at.path.is_dir() else at.path.stat().st_size if saved else 0
        return DerivedStatus(self._leg.name, saved is not None, behind, size)

    def erase(self, but: Stamp | None = None) -> bool:
        """Delete it from the library's folder, unless it is of the state `but`.

        False where some of it is in use. The caller may write.
        """
        return self._index.erase(self._storage(self._places.library), but)

    def _storage(self, place: Place) -> Storage:
        return Storage(place.folder / self._leg.name, place.seal)

    def _at(self, stamp: Stamp) -> tuple[Place, Storage]:
        """Where the index belongs: in the library too where it is up to date there."""
        place = self._places.library
        if not self._places.kept_in_library and self._index.saved(self._storage(place)) != stamp:
            place = self._places.cache
        return place, self._storage(place)

    def _advance(self, place: Place, at: Storage, keep: bool) -> None:
        """Open the files, and bring them up to date: on disk if we may, else in memory."""
        if self._open(at, 1) and self._is_current(at):
            return  # as most often: no lock is needed to read
        free = place.if_free() if self._index.persistent else nullcontext(False)
        with free as mine:
            # The files before the state they are compared with: they cannot be ahead of it then.
            # Under the lock nobody replaces them, and trying again would show the same.
            if not self._open(at, 1 if mine else ATTEMPTS):
                self._note(at.path)
                self._index = self._leg.make()
            with self._catalogue.read() as snapshot:
                try:
                    self._follow(snapshot, at if mine else None)
                except LibraryDamagedError:
                    raise
                except (DamagedIndexError, LibraryError, OSError) as error:
                    # Deleted by a writer meanwhile, or nothing can be written here.
                    if keep and not isinstance(error, DamagedIndexError):
                        raise
                    if not self._matches(snapshot):
                        self._anew(snapshot, None)

    def _open(self, at: Storage, attempts: int) -> bool:
        for _ in range(attempts):
            try:
                self._index.open(at)
            except DamagedIndexError:
                continue
            return True
        return False

    def _is_current(self, at: Storage) -> bool:
        with self._catalogue.read() as snapshot:
            return self._matches(snapshot) and self._index.saved(at) == self._index.stamp

    def _matches(self, snapshot: Snapshot) -> bool:
        if self._index.stamp != snapshot.stamp():
            return False
        chunk_set = self._index.chunk_set()
        # Counted where the catalogue may say what is untrue: damaged, or handed over.
        return chunk_set == snapshot.chunk_set() or chunk_set == snapshot.counted_chunks()

    def _follow(self, snapshot: Snapshot, at: Storage | None) -> None:
        index, base = self._index, snapshot.base(self._index.stamp)
        built = index.saved(at) if at else index.stamp
        if base is not None and built != snapshot.stamp():
            forget = [*snapshot.removed_since(base), *snapshot.added_ids_since(base)]
            added = self._leg.entries(snapshot, base)
            index.apply(forget, added, snapshot.stamp(), at)
        if not self._matches(snapshot):
            # From another time line (a restored backup, say): nothing in it can be relied on.
            self._anew(snapshot, at)

    def _anew(self, snapshot: Snapshot, at: Storage | None) -> None:
        self._index = self._leg.make()
        self._index.apply((), self._leg.entries(snapshot, -1), snapshot.stamp(), at)


class DerivedVectors(Derived[Vector]):
    """The dense leg of a library: an index names candidates, and their vectors are compared.

    Those are the catalogue's: whatever names the candidates, a score is the same, to the digit. Of
    a small library that is searched again and again, all are kept in memory and compared.
    """

    def __init__(
        self,
        leg: Leg[Vector],
        catalogue: CatalogueStore,
        places: Places,
        check: Check,
        note: Note,
        placement: VectorPlacement,
    ) -> None:
        super().__init__(leg, catalogue, places, check, note)
        self._placement = placement
        self._looked_up = 0  # vectors of the state that the index has
        self._all: tuple[Stamp, AllVectors] | None = None  # of that state, too

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best by inner product of all, or of those that are `allowed`; ties by id."""
        for _ in range(ATTEMPTS):
            index: VectorIndex = self.current()  # type: ignore[assignment]
            if (entry := self._all) is not None:
                return entry[1].search(query, k, allowed)
            ids = index.candidates(query, k, allowed)
            with self._catalogue.read() as snapshot:
                self._check(snapshot)  # they may be another model's by now, under the same ids
                present_ids, vectors = self.vectors_of(snapshot, ids)
            if len(present_ids) == len(ids):
                break
            # Some were removed meanwhile: what comes after them is sought in the new state.
        return compared(present_ids, vectors, query, k)

    def at_hand(self, snapshot: Snapshot) -> SearchWithin[Vector] | None:
        """What searches that state in its transaction, if the index has it."""
        index, entry = self._at_hand(snapshot), self._all
        if index is None:
            return None
        if entry is not None and entry[0] == snapshot.stamp():
            return entry[1]
        return _Compared(self, index, snapshot)  # type: ignore[arg-type]

    def vectors_of(self, snapshot: Snapshot, ids: ChunkIds) -> tuple[ChunkIds, NDArray[np.float16]]:
        """Those of the ids that are there, and their vectors, shape (n, dimension).

        To read all takes as long as to look up half as many. When that has been spent, they are.
        Not beyond `EXACT`, where an index misses some: hits are to be those of the search before.
        """
        size = snapshot.chunk_set().size
        if (
            self._all is None
            and 0 < size <= min(EXACT, 2 * self._looked_up)
            and 2 * size * snapshot.embedding().dimension <= SMALL
        ):
            self._read_all(snapshot)
        self._looked_up += len(ids)
        return snapshot.vectors_by_id(ids)

    def _read_all(self, snapshot: Snapshot) -> None:
        self._looked_up = 0  # first, so that nobody else begins
        stamp = snapshot.stamp()
        read = AllVectors(*snapshot.all_vectors())
        # Not in the place of what another search has brought up meanwhile.
        if self._guard.acquire(timeout=SOON):
            try:
                if self._index.stamp == stamp:
                    self._all = stamp, read
            finally:
                self._guard.release()

    def forget(self) -> None:
        """Drop what is in memory, these vectors too."""
        with self._guard:
            super().forget()
            self._looked_up, self._all = 0, None

    def _advance(self, place: Place, at: Storage, keep: bool) -> None:
        self._looked_up, self._all = 0, None  # some of them may have been removed
        super()._advance(place, at, keep)


class DerivedKeywords(Derived[Terms]):
    """The keyword index of a library, which also knows how common terms are."""

    def search(self, query: Terms, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best by BM25 of all, or of those that are `allowed`; ties by id."""
        return self._keywords().search(query, k, allowed)

    def frequencies(self, terms: Terms) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""
        return self._keywords().frequencies(terms)

    def alike(self, term: str, edits: int, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """At most k chunks with a term that so few edits make of this one; or with it."""
        return self._keywords().alike(term, edits, k, allowed)

    def holders(self, term: str) -> ChunkIds:
        """The chunks that hold a term, sorted by id."""
        return self._keywords().holders(term)

    def at_hand(self, snapshot: Snapshot) -> KeywordIndex | None:
        """The index, if it need not be brought up to that state, nor is just now."""
        return self._at_hand(snapshot)  # type: ignore[return-value]

    def _keywords(self) -> KeywordIndex:
        index: KeywordIndex = self.current()  # type: ignore[assignment]
        return index


@dataclass(frozen=True, slots=True)
class _Compared:
    """What an index names, as one state of the catalogue has it, while its transaction lasts."""

    vectors: DerivedVectors
    index: VectorIndex
    snapshot: Snapshot

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None, /) -> list[Hit]:
        """The k best by inner product of all, or of those that are `allowed`; ties by id."""
        ids = self.index.candidates(query, k, allowed)
        return compared(*self.vectors.vectors_of(self.snapshot, ids), query, k)
