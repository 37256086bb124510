"""Documents first: which ones a question names, and a share of the list for each of them.

Two companies compared, a year against another: the passages of one of two named documents easily
fill a list. Which documents are named is decided by information alone, over their cards
(`documents.cards`): it takes ln N to single out one of N documents, so what a question says of a
document names it from there on. No phrase decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import numpy as np

from localrag.library.indexes.base import NAMING, TermHolders
from localrag.library.records import ChunkIds
from localrag.retrieval.base import Retriever
from localrag.text.tokenize import PIECE
from localrag.types import Chunk, Hit

MOST_NAMED = 4
"""Names that a question can give, and documents that one name can mean: more are a kind."""

MOST_HOLDERS = 5_000
"""Documents that may have a word in their cards; of more, the word tells too little."""


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
    presence = {term: np.isin(ids, some, assume_unique=True) for term, some in having.items()}
    names: list[ChunkIds] = []
    left = dict(information)
    free = np.ones(len(ids), dtype=np.bool_)
    while left and len(names) < MOST_NAMED:
        sums = np.sum([left[term] * presence[term] for term in left], axis=0) * free
        best = sums.max()
        chosen = sums >= best * (1 - 1e-9)
        if best < math.log(total + 1) or chosen.sum() > MOST_NAMED:
            break
        # Two contracts that a question says as much of, by other words, are two names.
        words = np.array([presence[term][chosen] for term in left]).T
        for row in np.unique(words, axis=0):
            names.append(ids[chosen][(words == row).all(axis=1)])
        free &= ~chosen
        left = {term: value for term, value in left.items() if not presence[term][chosen].any()}
    return sorted(names, key=lambda name: int(name[0]))[:MOST_NAMED]


class DocumentsFirst:
    """The list of a search, in which the passages of each document named have a place.

    The list itself comes first, then each name in turn gives its best, and so on. Within a document
    what names it says nothing more, so its best are those for the rest of the question. `within`
    makes the same search of the chunks of some documents.
    """

    def __init__(
        self,
        search: Retriever,
        named: Callable[[str], Sequence[ChunkIds]],
        chunks: Callable[[Sequence[int]], Mapping[int, Chunk]],
        within: Callable[[Sequence[str]], Retriever],
        without: Callable[[str, Set[int]], str] = lambda question, _: question,
    ) -> None:
        """`without` is a question without the words by which it names documents.

        These are given by the ids of their first chunks.
        """
        self._search = search
        self._named = named
        self._chunks = chunks
        self._within = within
        self._without = without

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits. Scores are each of its own search, and need not fall from hit to hit."""
        names = self._named(query)
        if not names:
            return self._search.retrieve(query, k)
        lists = [self._search.retrieve(query, k)]
        first = self._chunks([number for name in names for number in name.tolist()])
        for name in names:
            meant = {first[number].document_id for number in name.tolist() if number in first}
            if meant:
                rest = self._without(query, frozenset(name.tolist()))
                lists.append(self._within(sorted(meant)).retrieve(rest or query, k))
        return list(_in_turn(lists))[:k]


def _in_turn(lists: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    """The first of each list, then the second of each, and so on; each passage once."""
    met: set[int] = set()
    for rank in range(max(map(len, lists))):
        for hits in lists:
            if rank < len(hits) and hits[rank].chunk_id not in met:
                met.add(hits[rank].chunk_id)
                yield hits[rank]


def without_terms(
    question: str, spent: frozenset[str], tokenize: Callable[[str], list[str]]
) -> str:
    """A question without the words of which all terms are spent.

    >>> without_terms("When does the Ottway lease end?", {"ottway", "leas"}, Tokenizer())
    'When does the end?'
    """
    rest = question
    for match in reversed(list(PIECE.finditer(question))):
        piece = match[0]
        terms = tokenize(piece)
        if match.lastgroup == "han":
            for term in sorted(spent.intersection(terms), key=len, reverse=True):
                piece = piece.replace(term, "")
        elif terms and spent.issuperset(terms):
            piece = ""
        rest = rest[: match.start()] + piece + rest[match.end() :]
    return " ".join(rest.split())
