"""Documents first: which ones a question names, and a share of the list for each of them.

Two companies compared, a year against another: the passages of one of two named documents easily
fill a list. Which documents are named is decided by information alone, over their cards
(`documents.cards`): it takes ln N to single out one of N documents, so what a question says of a
document names it from there on. No phrase decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from localrag.library.indexes.base import NAMING, TermHolders
from localrag.library.records import ChunkIds
from localrag.retrieval.base import Retriever
from localrag.types import Chunk, Hit

MOST_NAMED = 4
"""Names that a question can give, and documents that one name can mean: more are a kind."""

MOST_HOLDERS = 5_000
"""Documents that may have a word in their cards; of more, the word tells too little."""

POOL = 33
"""Hits of the search in which passages of named documents are looked for first: as many as each leg
fetches enough for (`hybrid.MINIMUM_FETCH`)."""


def named_documents(
    terms: Sequence[str], holders: TermHolders, total: int, counts: Sequence[int]
) -> list[ChunkIds]:
    """For each name in a question the documents that it means, by the ids of their first chunks.

    A cover by information, as greedy set cover has it: the documents whose cards hold most of it
    are named, if that is ln `total` at least; their terms are then spent, and the rest of the
    question may name others. `counts` says of how many of the `total` cards each of `terms` is
    part; its information is ln((N + 1) / (n + 0.5)).
    """
    information = {
        term: math.log((total + 1) / (count + 0.5))
        for term, count in zip(terms, counts, strict=True)
        if 0 < count <= MOST_HOLDERS
    }
    having = {term: holders.holders(NAMING + term) for term in information}
    if not having:
        return []
    ids = np.unique(np.concatenate(list(having.values())))
    held = {term: np.isin(ids, some, assume_unique=True) for term, some in having.items()}
    names: list[ChunkIds] = []
    left = dict(information)
    free = np.ones(len(ids), dtype=np.bool_)
    while left and len(names) < MOST_NAMED:
        sums = np.sum([left[term] * held[term] for term in left], axis=0) * free
        best = sums.max()
        chosen = sums >= best * (1 - 1e-9)
        if best < math.log(total + 1) or chosen.sum() > MOST_NAMED:
            break
        # Two contracts that a question says as much of, by other words, are two names.
        words = np.array([held[term][chosen] for term in left]).T
        for row in np.unique(words, axis=0):
            names.append(ids[chosen][(words == row).all(axis=1)])
        free &= ~chosen
        left = {term: value for term, value in left.items() if not held[term][chosen].any()}
    return sorted(names, key=lambda name: int(name[0]))[:MOST_NAMED]


class DocumentsFirst:
    """The list of a search, in which the passages of each document named have a place.

    The list itself comes first, then each name in turn gives its best, and so on. `within` makes
    the same search of some chunks; `chunks_of` gives the ids of the chunks of documents.
    """

    def __init__(
        self,
        search: Retriever,
        named: Callable[[str], Sequence[ChunkIds]],
        chunks: Callable[[Sequence[int]], Mapping[int, Chunk]],
        within: Callable[[Sequence[str]], Retriever],
    ) -> None:
        self._search = search
        self._named = named
        self._chunks = chunks
        self._within = within

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits; scores are those of the search, which need not fall from hit to hit."""
        names = self._named(query)
        if not names:
            return self._search.retrieve(query, k)
        pool = self._search.retrieve(query, max(k, POOL))
        first = self._chunks([number for name in names for number in name.tolist()])
        documents = self._chunks([hit.chunk_id for hit in pool])
        lists = [pool]
        for name in names:
            meant = {first[number].document_id for number in name.tolist() if number in first}
            own = [
                hit
                for hit in pool
                if hit.chunk_id in documents and documents[hit.chunk_id].document_id in meant
            ]
            # Where the pool is full of others, they are asked for by themselves.
            if meant and len(own) < k // (len(names) + 1) and len(pool) == max(k, POOL):
                own = self._within(sorted(meant)).retrieve(query, k)
            lists.append(own)
        return list(_in_turn(lists))[:k]


def _in_turn(lists: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    """The first of each list, then the second of each, and so on; each passage once."""
    met: set[int] = set()
    for rank in range(max(map(len, lists))):
        for hits in lists:
            if rank < len(hits) and hits[rank].chunk_id not in met:
                met.add(hits[rank].chunk_id)
                yield hits[rank]
