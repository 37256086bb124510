"""Which passages hold a term, and how often: an inverted index of some passages, as arrays.

Terms lie sorted by their UTF-8 bytes, the passages of a term by their ids. Knows nothing of
scores.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.library.indexes.base import Terms, is_of_text

MOST = 1 << 16
"""Passages of one such index: their places take 16 bits."""

_MOST_COUNTED = (1 << 16) - 1

_MANY = (1 << 8) - 1
"""A count that a byte does not hold."""


class Postings(NamedTuple):
    """`n` passages with `t` terms in `p` pairs of a term and a passage, and `b` bytes of terms.

    Of the pairs, `m` have a count of 255 or more.
    """

    ids: NDArray[np.int64]
    """Shape (n,), sorted."""
    lengths: NDArray[np.uint32]
    """How many terms the text of each passage has, repeated ones counted; shape (n,)."""
    starts: NDArray[np.uint32]
    """Where the pairs of each term begin, and the last ones end; shape (t + 1,)."""
    letters: NDArray[np.uint32]
    """Where the bytes of each term begin, and the last ones end; shape (t + 1,)."""
    many: NDArray[np.uint32]
    """Which pairs have a count of 255 or more, rising; shape (m,)."""
    places: NDArray[np.uint16]
    """Which passage, by its place among `ids`, rising within a term; shape (p,)."""
    larger: NDArray[np.uint16]
    """What that count is, up to 65,535; shape (m,)."""
    small: NDArray[np.uint8]
    """How often a passage holds the term, 255 for `larger`; shape (p,)."""
    text: NDArray[np.uint8]
    """The terms, one after another; shape (b,)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """`n`, `t`, `p`, `b` and `m`."""
        shape = len(self.ids), len(self.starts) - 1, len(self.places), len(self.text)
        return *shape, len(self.many)

    @staticmethod
    def layout(*shape: int) -> list[tuple[str, tuple[int, ...]]]:
        """From `n`, `t`, `p`, `b` and `m`."""
        n, t, p, b, m = shape
        if n > MOST:
            raise ValueError(n)
        wide = [("<i8", n), ("<u4", n), ("<u4", t + 1), ("<u4", t + 1), ("<u4", m)]
        narrow = [("<u2", p), ("<u2", m), ("u1", p), ("u1", b)]
        return [(form, (count,)) for form, count in (*wide, *narrow)]

    @staticmethod
    def of(entries: Sequence[tuple[int, Terms]]) -> Postings:
        """Those of some passages, at most `MOST`."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        terms = array("I")
        for _, some in entries:
            terms.extend(map(numbers.__getitem__, some))
        ids = np.array([id_ for id_, _ in entries], dtype=np.int64)
        sizes = np.array([len(some) for _, some in entries], dtype=np.int64)
        of_text = (sum(map(is_of_text, some)) for _, some in entries)
        lengths = np.fromiter(of_text, dtype=np.uint32, count=len(entries))
        order = np.argsort(ids, kind="stable")
        places = _inverted(order)
        names = [term.encode("utf-8", "surrogatepass") for term in numbers]
        rank = _inverted(np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64))
        term_numbers = np.frombuffer(terms, dtype=f"u{terms.itemsize}").astype(np.int64)
        pairs = rank[term_numbers] << 16 | np.repeat(places, sizes)
        pairs.sort()
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        counts = np.minimum(np.diff(first, append=len(pairs)), _MOST_COUNTED)
        return _assembled(ids[order], lengths[order], sorted(names), pairs[first] << 16 | counts)

    @staticmethod
    def joined(some: Sequence[Postings]) -> Postings:
        """All of them, by id."""
        ids = np.concatenate([segment.ids for segment in some])
        order = np.argsort(ids, kind="stable")
        places = _inverted(order)
        # Each brings its terms and pairs sorted: to sort what follows each other is to merge them.
        terms = [list(segment.terms()) for segment in some]
        names = list(dict.fromkeys(sorted(chain.from_iterable(terms))))
        number = dict(zip(names, range(len(names)), strict=True))
        packed, begin = [], 0
        for segment, own in zip(some, terms, strict=True):
            known = np.fromiter(map(number.__getitem__, own), np.int64, len(own))
            keys = np.repeat(known, np.diff(segment.starts)) << 32
            keys |= places[begin : begin + len(segment.ids)][segment.places] << 16
            packed.append(keys | segment.counts(slice(0, len(segment.places))))
            begin += len(segment.ids)
        pairs = np.concatenate(packed)
        pairs.sort(kind="stable")
        lengths = np.concatenate([segment.lengths for segment in some])[order]
        return _assembled(ids[order], lengths, names, pairs)

    def at(self, places: NDArray[np.bool_] | slice) -> Postings:
        """Those of some passages, with no term that only others hold."""
        mask = np.zeros(len(self.ids), dtype=np.bool_)
        mask[places] = True
        kept_pairs = mask[self.places]
        numbers = np.add.reduceat(kept_pairs, self.starts[:-1], dtype=np.int64)
        left = numbers > 0
        widths = np.diff(self.letters)
        renumbered = (np.cumsum(mask) - 1).astype(np.uint16)
        return Postings(
            self.ids[mask],
            self.lengths[mask],
            _begins(numbers[left]),
            _begins(widths[left]),
            (np.cumsum(kept_pairs) - 1)[self.many[kept_pairs[self.many]]].astype(np.uint32),
            renumbered[self.places[kept_pairs]],
            self.larger[kept_pairs[self.many]],
            self.small[kept_pairs],
            self.text[np.repeat(left, widths)],
        )

    def terms(self) -> Iterator[bytes]:
        """In their order."""
        text = self.text.tobytes()
        return (text[begin:end] for begin, end in pairwise(self.letters.tolist()))

    def counts(self, pairs: NDArray[np.int64] | slice) -> NDArray[np.uint16]:
        """How often a passage holds a term, up to 65,535, of some pairs."""
        counts = self.small[pairs].astype(np.uint16)
        if len(self.many) and len(at := np.flatnonzero(counts == _MANY)):
            places = at + pairs.start if isinstance(pairs, slice) else pairs[at]
            counts[at] = self.larger[np.searchsorted(self.many, places)]
        return counts

    def find(self, term: bytes) -> slice:
        """Where the pairs of a term lie; empty for one that no passage holds."""
        text, letters = self.text.data, self.letters.data  # items of arrays are slow to get at

        def at(place: int) -> bytes:
            return text[letters[place] : letters[place + 1]].tobytes()

        count = len(letters) - 1
        place = bisect_left(range(count), term, key=at)
        if place == count or at(place) != term:
            return slice(0, 0)
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def spelt_like(self, term: str, edits: int) -> NDArray[np.bool_]:
        """Which passages hold a term that so few edits make of this one; shape (n,).

        Optimal string alignment, as `text.spelling` has it, with all terms side by side.
        """
        letters, sought = (
            np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
            for text in (self.text.tobytes().decode("utf-8", "surrogatepass"), term)
        )
        # A letter begins at each byte but those that go on with one.
        begins = _begins(self.text & 0xC0 != 0x80)[self.letters]
        lengths = np.diff(begins).astype(np.int64)
        near = np.flatnonzero(np.abs(lengths - len(sought)) <= edits)
        width, lengths = len(sought) + edits, lengths[near]
        columns = []
        for place in range(width):
            letter_at = np.minimum(begins[near] + place, max(len(letters) - 1, 0))
            columns.append(
                np.where(place < lengths, letters[letter_at], 0) if len(letters) else letter_at
            )
        before: list[NDArray[np.int16]] = []
        row = [np.full(len(near), place, dtype=np.int16) for place in range(width + 1)]
        for i, letter in enumerate(sought):
            earlier, before, row = before, row, [np.full(len(near), i + 1, dtype=np.int16)]
            for j, column in enumerate(columns):
                cost = np.minimum(before[j + 1], row[j]) + np.int16(1)
                cost = np.minimum(cost, before[j] + (column != letter))
                if i and j:
                    swapped = (columns[j - 1] == letter) & (column == sought[i - 1])
                    cost = np.where(swapped, np.minimum(cost, earlier[j - 1] + np.int16(1)), cost)
                row.append(cost)
        distances = np.stack(row)[lengths, np.arange(len(near))]
        passages = np.zeros(len(self.ids), dtype=np.bool_)
        for number in near[distances <= edits].tolist():
            passages[self.places[self.starts[number] : self.starts[number + 1]]] = True
        return passages

    def digests(self) -> NDArray[np.uint64]:
        """A number for each passage that follows from its terms in any order; shape (n,)."""
        hashes = np.frombuffer(
            b"".join(hashlib.blake2b(term, digest_size=8).digest() for term in self.terms()), "<u8"
        )
        digests = np.zeros(len(self.ids), dtype=np.uint64)
        np.add.at(
            digests,
            self.places,
            np.repeat(hashes, np.diff(self.starts)) * self.counts(slice(0, len(self.places))),
        )
        return digests


def _assembled(
    ids: NDArray[np.int64],
    lengths: NDArray[np.uint32],
    names: Sequence[bytes],
    pairs: NDArray[np.int64],
) -> Postings:
    """From pairs that are sorted: the number of the term, then 16 bits of place and of count."""
    counted = np.bincount(pairs >> 32, minlength=len(names))
    counts = (pairs & 0xFFFF).astype(np.uint16)
    many = np.flatnonzero(counts >= _MANY)
    return Postings(
        ids,
        lengths,
        _begins(counted),
        _begins(np.fromiter(map(len, names), np.int64, len(names))),
        many.astype(np.uint32),
        (pairs >> 16 & 0xFFFF).astype(np.uint16),
        counts[many],
        np.minimum(counts, _MANY).astype(np.uint8),
        np.frombuffer(b"".join(names), np.uint8),
    )


def _begins(sizes: NDArray[Any]) -> NDArray[np.uint32]:
    """Where things of these sizes begin that lie one after another, and the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)


def _inverted(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place that each has in an order."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places


def batches(entries: Iterable[tuple[int, Terms]], most_terms: int) -> Iterator[Postings]:
    """Postings of as many passages at a time as have about so many terms, at most `MOST`."""
    some: list[tuple[int, Terms]] = []
    terms = 0
    for entry in entries:
        some.append(entry)
        terms += len(entry[1])
        if terms >= most_terms or len(some) == MOST:
            yield Postings.of(some)
            some, terms = [], 0
    if some:
        yield Postings.of(some)
