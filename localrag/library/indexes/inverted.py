"""Okapi BM25 over an inverted index, in a folder of segments and a sealed list of them.

The score of a passage is the sum over the query's terms of idf * tf * (k1 + 1) / (tf + k1 * (1 - b
+ b * length / mean length)), with k1 = 1.2, b = 0.75 and the idf of `text.background` (Robertson
and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009). Counts and the mean
are those of the passages that are left, and terms are added in one order, so that scores equal
those of an index that never held more, to the digit.

What a passage inherits from its headings and its document is a field of its own (`base.INHERITED`):
tf is then tf + w * (1 - b + b * length / mean length) for a term that is inherited, which is BM25F
with a field of weight w, no normalisation by length, and tf 1 (Robertson, Zaragoza and Taylor,
"Simple BM25 extension to multiple weighted fields", CIKM 2004). n is then how many passages have a
term in that field which has it in more.

Terms are scored from the rarest on. Once the rest of them cannot lift a passage among the best any
more, they are looked up only for the passages that are still in question (MaxScore: Turtle and
Flood, "Query evaluation: strategies and optimizations", 1995): a common word costs little beside
rarer ones, and the answer stays the same. Of more than `WHOLE` passages, three rarer terms are
enough: passages that hold none of a query's rarer terms are then left out, which otherwise would
fill the end of a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.library.indexes.base import INHERITED, Terms
from localrag.library.indexes.postings import Postings, batches
from localrag.library.indexes.segmented import CAPACITY, SegmentedIndex
from localrag.library.indexes.segments import Segment
from localrag.library.records import ChunkIds
from localrag.text.background import idf
from localrag.types import Hit

K1 = 1.2
B = 0.75

WHOLE = 1 << 16
"""Up to so many passages all that share a term with the query are found."""

INHERITED_WEIGHT = 2.0
"""What a term counts that a passage inherits, against one that stands once in a text of mean
length (`benchmarks/log/2026-11.md`, 2026-11-23, "a passage knows its document")."""

_FORM = "localrag-keywords-6"
_TERMS = 1 << 20
"""So many terms at a time become postings: 100 MB of memory for a moment."""

_COMMON = 5
"""A term is common that stands in more than one of so many passages."""

_ENOUGH = 3
"""So many rarer terms say what a query is about."""

_APART = 16
"""Candidates are looked up one by one where a term has so many times more passages."""

_SLACK = 1 - 1e-9
"""Bounds are sums in another order than the scores that they bound."""


class InvertedKeywords(SegmentedIndex[Terms, Postings]):
    """BM25 over terms that somebody else has cut, each indexed exactly as given."""

    def __init__(
        self, terms: Callable[[], str] = str, *, whole: int = WHOLE, capacity: int = CAPACITY
    ) -> None:
        """`terms` identifies how terms are cut: of other terms nothing is taken up."""
        super().__init__(Postings, _FORM, terms, capacity)
        self._whole = whole
        self._counted = _Passages(())

    def search(self, query: Terms, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """How rare a term is, is counted in all chunks, whatever is allowed."""
        passages = self._passages()
        if k < 1 or not passages.total:
            return []
        query_terms = passages.wanted(query)
        best = _Best(k)
        rarer = (
            sum(not term.common for term in query_terms) >= _ENOUGH and passages.total > self._whole
        )
        sums = np.empty(max(len(segment.rows.ids) for segment in passages.segments))
        for number, segment in enumerate(passages.segments):
            terms = [
                _Weighted(
                    term.weight, term.spans[number], term.inherited[number], rarer and term.common
                )
                for term in query_terms
                if term.spans[number].stop or term.inherited[number].stop
            ]
            mask = segment.among(allowed)
            if terms and (mask is None or mask.any()):
                norms = passages.norms[number]
                scores = sums[: len(norms)]
                scores.fill(0)
                best.take(*_scored(segment.rows, terms, norms, scores, mask, best))
        return best.hits()

    def alike(self, term: str, edits: int, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The first of those that there are, by id."""
        ids = [np.empty(0, dtype=np.int64)]
        for segment in self._segments:
            matches = segment.rows.spelt_like(term, edits)
            if (mask := segment.among(allowed)) is not None:
                matches &= mask
            ids.append(segment.rows.ids[matches])
        return [Hit(number, 1.0) for number in np.sort(np.concatenate(ids))[:k].tolist()]

    def frequencies(self, terms: Terms) -> tuple[int, list[int]]:
        """How many chunks there are, and how many of them hold each term."""
        passages = self._passages()
        return passages.total, [passages.counted(term)[0] for term in terms]

    def holders(self, term: str) -> ChunkIds:
        """Looked up, without scores."""
        sought, ids = term.encode("utf-8", "surrogatepass"), [np.empty(0, dtype=np.int64)]
        for segment in self._segments:
            places = segment.rows.places[segment.rows.find(sought)]
            if segment.gone is not None:
                places = places[~segment.gone[places]]
            ids.append(segment.rows.ids[places])
        return np.sort(np.concatenate(ids))

    def _passages(self) -> _Passages:
        segments, counted = self._segments, self._counted
        if counted.segments is not segments:
            self._counted = counted = _Passages(segments)
        return counted

    def _contents(
        self,
        entries: Iterable[tuple[int, Terms]],
        like: Postings | None,  # noqa: ARG002
    ) -> Iterator[Postings]:
        return batches(entries, _TERMS)

    def _differing(
        self, segments: Sequence[Segment[Postings]], expected: Iterable[tuple[int, Terms]]
    ) -> int:
        """By a digest of the terms, in any order."""
        digests: dict[int, int] = {}
        for segment in segments:
            left = segment.left()
            digests.update(zip(left.ids.tolist(), left.digests().tolist(), strict=True))
        differing = 0
        for batch in batches(expected, _TERMS):
            pairs = zip(batch.ids.tolist(), batch.digests().tolist(), strict=True)
            differing += sum(digests.get(number, digest) != digest for number, digest in pairs)
        return differing


class _QueryTerm(NamedTuple):
    """A term of a query: what it weighs, and where its pairs lie in each segment."""

    weight: float
    spans: list[slice]
    inherited: list[slice]
    common: bool


class _Weighted(NamedTuple):
    weight: float
    span: slice
    inherited: slice
    beside: bool
    """Counts only beside a term that does not."""


@dataclass(frozen=True)
class _Passages:
    """What is counted over all segments, less what is gone from them."""

    segments: tuple[Segment[Postings], ...]

    @cached_property
    def total(self) -> int:
        """How many passages there are."""
        return sum(segment.live for segment in self.segments)

    @cached_property
    def norms(self) -> list[NDArray[np.float64]]:
        """By segment: k1 * (1 - b + b * length / mean length); shape (n,) each."""
        lengths = [segment.rows.lengths for segment in self.segments]
        left = (
            counts if segment.gone is None else counts[~segment.gone]
            for counts, segment in zip(lengths, self.segments, strict=True)
        )
        mean = sum(int(counts.sum(dtype=np.int64)) for counts in left) / self.total or 1.0
        return [K1 * (1 - B + B * counts.astype(np.float64) / mean) for counts in lengths]

    def holding(self, term: str) -> tuple[int, list[slice]]:
        """How many passages hold a term, and where its pairs lie in each segment."""
        sought = term.encode("utf-8", "surrogatepass")
        spans = [segment.rows.find(sought) for segment in self.segments]
        count = sum(span.stop - span.start for span in spans)
        for segment, span in zip(self.segments, spans, strict=True):
            if segment.gone is not None and span.stop:
                count -= int(np.count_nonzero(segment.gone[segment.rows.places[span]]))
        return count, spans

    def counted(self, term: str) -> tuple[int, list[slice], list[slice]]:
        """How many passages have a term, in the field of more; where its pairs lie in each."""
        count, spans = self.holding(term)
        inheriting, inherited = self.holding(INHERITED + term)
        return max(count, inheriting), spans, inherited

    def wanted(self, query: Terms) -> list[_QueryTerm]:
        """The terms of a query that any passage holds, the rarest first."""
        terms = []
        for term, times in Counter(query).items():
            count, spans, inherited = self.counted(term)
            if count:
                common = count * _COMMON > self.total
                weight = times * idf(term, count, self.total) * (K1 + 1)
                query_term = _QueryTerm(weight, spans, inherited, common)
                terms.append((count, term, query_term))
        return [query_term for *_, query_term in sorted(terms, key=lambda entry: entry[:2])]


class _Best:
    """The k best so far, and what ties with the last of them."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.least = 0.0
        """What a passage must have to be among them."""
        self._ids = np.empty(0, dtype=np.int64)
        self._scores = np.empty(0)

    def take(self, ids: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
        """Passages with their scores; shape (n,) each."""
        self._ids = np.concatenate([self._ids, ids])
        self._scores = np.concatenate([self._scores, scores])
        self.least = max(self.least, _last_of(self._scores, self.k))
        selection = self._scores >= self.least
        self._ids, self._scores = self._ids[selection], self._scores[selection]

    def hits(self) -> list[Hit]:
        """Best first, ties by id."""
        order = np.lexsort((self._ids, -self._scores))[: self.k]
        pairs = zip(self._ids[order].tolist(), self._scores[order].tolist(), strict=True)
        return [Hit(number, score) for number, score in pairs]


def _scored(
    rows: Postings,
    terms: Sequence[_Weighted],
    norms: NDArray[np.float64],
    scores: NDArray[np.float64],
    mask: NDArray[np.bool_] | None,
    best: _Best,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ids and scores of all passages of a segment that can be among the best.

    `scores`, shape (n,), come as zeros.
    """
    # Of no count a term has more than its weight.
    rest = list(accumulate((term.weight for term in reversed(terms)), initial=0.0))[::-1]
    among = None if mask is None else np.flatnonzero(mask)
    least, is_raised, narrowed = best.least, False, False

    def only(enough: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.flatnonzero(enough) if among is None else among[enough]

    for left, (weight, span, inherited, beside) in zip(rest, terms, strict=False):
        size = max(span.stop - span.start, inherited.stop - inherited.start)
        if beside and not narrowed:
            among, narrowed = only(_of(scores, among) > 0), True
        if size * _COMMON > len(scores):
            if left >= least and not is_raised:
                least, is_raised = max(least, _last_of(_of(scores, among), best.k)), True
            if left < least:
                among = only(_of(scores, among) >= (least - left) * _SLACK)
        places, pairs = _matching_pairs(rows, span, among)
        times = rows.counts(pairs).astype(np.float64)
        if inherited.stop:
            heirs, _ = _matching_pairs(rows, inherited, among)
            every = np.union1d(places, heirs)
            sums = np.zeros(len(every))
            sums[np.searchsorted(every, places)] = times
            sums[np.searchsorted(every, heirs)] += INHERITED_WEIGHT / K1 * norms[heirs]
            places, times = every, sums
        scores[places] += weight * times / (times + norms[places])
    if among is None:
        among = np.flatnonzero(scores >= least if least else scores > 0)
    totals = scores[among]
    selection = (totals >= least) & (totals > 0)
    return rows.ids[among[selection]], totals[selection]


def _matching_pairs(
    rows: Postings, span: slice, among: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64] | slice]:
    """Where the passages stand that hold a term, and which pairs say so; of those `among`, if few.

    Rising both; the places have shape (p,).
    """
    places = rows.places[span]
    size = len(places)
    if among is None or len(among) * _APART >= size:
        return places.astype(np.int64), span
    at = np.minimum(np.searchsorted(places, among.astype(np.uint16)), size - 1)
    same = places[at] == among
    return among[same], span.start + at[same]


def _of(scores: NDArray[np.float64], among: NDArray[np.int64] | None) -> NDArray[np.float64]:
    return scores if among is None else scores[among]


def _last_of(scores: NDArray[np.float64], k: int) -> float:
    """The k-th best of those above 0; 0 for fewer."""
    positive = scores[scores > 0]
    if len(positive) < k:
        return 0.0
    return float(np.partition(positive, len(positive) - k)[len(positive) - k])
