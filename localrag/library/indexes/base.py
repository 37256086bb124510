"""The contract of the derived indexes: what follows from a catalogue and answers one kind of query.

Knows nothing of catalogues, of the files of other indexes, or of who may write where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.library.records import ChunkIds, ChunkSet, Stamp
from localrag.system.seals import Seal
from localrag.types import Hit

Query = TypeVar("Query")
_Asked = TypeVar("_Asked", contravariant=True)

Vector = NDArray[np.float32]
"""L2-normalised, shape (dimension,)."""

Terms = Sequence[str]
"""What somebody else has cut from a text, each as often as it occurs."""

INHERITED = "\x01"
"""Begins a term that a passage inherits from what its document is: it counts as present, not how
often, and adds nothing to the passage's length."""

NAMING = "\x02"
"""Begins a term of what a document is, which the document's first passage alone holds: how many
documents have it. The sign by itself is a term of every document."""

_MARKS = (INHERITED, NAMING)


def is_of_text(term: str) -> bool:
    """Whether a term stands in the text of its passage."""
    return not term.startswith(_MARKS)


@dataclass(frozen=True, slots=True)
class Storage:
    """Where an index lies on disk, and the seal that it must bear."""

    path: Path
    seal: Seal


class Verified(NamedTuple):
    """The ids that an index holds, as often as it does; how many are held with other content."""

    ids: Sequence[int]
    differing: int


class Search(Protocol[_Asked]):
    """Ranking of chunks for a query."""

    def search(self, query: _Asked, k: int, /) -> list[Hit]:
        """The k best, best first; ties by id."""


VectorSearch = Search[Vector]
"""Nearest neighbours by inner product, which is the cosine."""

KeywordSearch = Search[Terms]
"""Lexical ranking (BM25); chunks that share no term with the query are never found."""


class SearchWithin(Protocol[_Asked]):
    """Ranking of all chunks, or of those that are allowed."""

    def search(self, query: _Asked, k: int, allowed: ChunkIds | None = None, /) -> list[Hit]:
        """The k best, best first; ties by id."""


class TermStatistics(Protocol):
    """How common terms are, over all chunks."""

    def frequencies(self, terms: Terms) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""


class TermHolders(Protocol):
    """Which chunks hold a term."""

    def holders(self, term: str) -> ChunkIds:
        """Their ids, sorted."""


class SearchAndStatistics(KeywordSearch, TermStatistics, Protocol):
    """Both of the same index."""


class SearchWithinAndStatistics(SearchWithin[Terms], TermStatistics, TermHolders, Protocol):
    """All of the same index."""


@dataclass(frozen=True, slots=True)
class Legs:
    """What one search of a library asks: by meaning, and by words."""

    vectors: SearchWithin[Vector]
    keywords: SearchWithinAndStatistics


@dataclass(frozen=True, slots=True)
class Within(Generic[Query]):
    """An index, of which only some chunks can be found."""

    index: SearchWithin[Query]
    allowed: ChunkIds

    def search(self, query: Query, k: int, /) -> list[Hit]:
        """The k best of those allowed."""
        return self.index.search(query, k, self.allowed)


class DerivedIndex(Protocol[_Asked]):
    """An index over chunks, in memory, or on disk in a place that is given with the call.

    A new one is empty. What is added for a chunk is of the kind that is asked for: a vector, or
    terms. Its kind says how it is asked. May be used from several threads; a search sees the state
    before a change or after it.
    """

    persistent: bool
    """Whether it is kept on disk at all."""

    stamp: Stamp
    """The state of the catalogue that it was built to; `NEVER` for a new one."""

    def saved(self, at: Storage) -> Stamp | None:
        """The state of what lies there, told without reading it; None for nothing of ours."""

    def open(self, at: Storage) -> None:
        """Take up what lies there. What is in memory may stay where that is not newer.

        Raises ForeignIndexError for what was sealed with another key, DamagedIndexError for what
        cannot be trusted. Nothing reaches a library in C++ or Rust before the seal was looked at.
        """

    def apply(
        self,
        removed: Collection[int],
        added: Iterable[tuple[int, _Asked]],
        stamp: Stamp,
        at: Storage | None = None,
    ) -> None:
        """Remove, then add, and say which state that is; save it where a place is given.

        Unknown ids in `removed` are ignored; ids in `added` that are there already must stand in
        `removed` too. Of a call that was cut off the same call again makes the new state. Raises
        LibraryError or OSError where it cannot be saved.
        """

    def chunk_set(self) -> ChunkSet:
        """Which chunks it holds."""

    def verify(self, expected: Iterable[tuple[int, _Asked]]) -> Verified:
        """Compare with what it should hold. Raises DamagedIndexError where it cannot be read."""

    def erase(self, at: Storage, but: Stamp | None = None) -> bool:
        """Delete what lies there and is not of the state `but`; False where some is in use.

        What `apply` has removed may lie there until then, and is in no file afterwards.
        """


class VectorIndex(DerivedIndex[Vector], Protocol):
    """An index over vectors, which need not hold them: who searches compares them as they are."""

    def candidates(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> ChunkIds:
        """Which of all, or of those that are `allowed`, can be among the k nearest.

        The k nearest of them, and what ties with the last, follow from the vectors alone, not from
        the changes by which they came.
        """


class KeywordIndex(DerivedIndex[Terms], TermStatistics, TermHolders, Protocol):
    """A lexical index, which also knows how common terms are, and which are spelt alike.

    A term that begins with `INHERITED` is of a field of its own: it is found by the term behind
    that sign, and how much it counts is the index's to say.
    """

    def search(self, query: Terms, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best of all, or of those that are `allowed`, best first; ties by id.

        Scores do not change with `allowed`, and are those of an index that never held more.
        """

    def alike(self, term: str, edits: int, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """At most k chunks with a term that so few edits (1 or 2) make of this one; or with it.

        An edit inserts, deletes or replaces a letter, or swaps two neighbours. All score 1.0.
        """


def are_allowed(ids: NDArray[np.int64], allowed: ChunkIds) -> NDArray[np.bool_]:
    """Which of `ids` are among `allowed`; shape (len(ids),)."""
    if not len(allowed):
        return np.zeros(len(ids), dtype=np.bool_)
    # allowed is sorted: quicker than np.isin, which sorts both each time.
    places = np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)
    return np.asarray(allowed[places] == ids)
