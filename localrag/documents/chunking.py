"""Document -> chunks: passages small enough to embed, large enough to answer from.

`SentenceChunker` is the default: whole sentences, under their headings, sized in
tokens of the embedding model. `WindowChunker` cuts at fixed code points and is
the plain baseline. Neither knows how chunks are embedded or stored.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise, takewhile
from typing import NamedTuple, Protocol

from localrag.errors import ConfigError
from localrag.text.sentences import split_sentences
from localrag.types import PAGE_BREAK, Chunk, Document

CountTokens = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, as the embedding model cuts it."""

SMALLEST_MAX_TOKENS = 16
HEADING_SEPARATOR = " > "

_LONGEST = 20_000
"""Code points of a sentence that is looked at as a whole."""

_LONGEST_TOKEN = 32
_AT_ONCE = 4096
"""Texts whose tokens are counted at once: what a tokenizer makes of them takes memory."""

_BREATHS = re.compile(r"[。！？!?，、；：,;:）)]+\s*")
_SPACES = re.compile(r"\s+")


class Chunker(Protocol):
    """Cuts a document into passages."""

    def chunk(self, document: Document) -> list[Chunk]:
        """Chunks in the order of the text, which together hold all of it but white space."""
        ...


def passage_text(chunk: Chunk) -> str:
    """Return what is embedded and indexed: the headings above the chunk, then its text.

    Headings that stand at the top of the text already are not repeated.
    """
    return _passage(chunk.heading, chunk.text)


def _passage(heading: str, text: str) -> str:
    if not heading:
        return text
    path = heading.split(HEADING_SEPARATOR)
    shown = {" ".join(line.split()) for line in text.split("\n", len(path))[: len(path)]}
    above = HEADING_SEPARATOR.join(name for name in path if name not in shown)
    return f"{above}\n{text}" if above else text


class WindowChunker:
    """Windows of `size` code points, each sharing `overlap` with the one before.

    Raises `ConfigError` unless 0 <= overlap < size.
    """

    def __init__(self, size: int = 1000, overlap: int = 200) -> None:
        if not 0 <= overlap < size:
            raise ConfigError(
                "Chunks of {size} characters cannot overlap by {overlap}.",
                hint="The overlap must be at least 0 and smaller than the size.",
                size=size,
                overlap=overlap,
            )
        self._size = size
        self._overlap = overlap

    def chunk(self, document: Document) -> list[Chunk]:
        """Cut the text at fixed distances; windows of nothing but white space are left out."""
        source = _Source(document)
        spans: list[_Cut] = []
        length, shared = len(source.text), self._overlap
        for start in range(0, max(length - shared, 1), self._size - shared):
            end = min(start + self._size, length)
            if source.text[start:end].strip():
                path = source.sections[source.section_at(start)].path
                spans.append(_Cut(start, end, HEADING_SEPARATOR.join(path)))
        return source.chunks(spans)


class SentenceChunker:
    """Whole sentences up to about `target_tokens`, never more than `max_tokens`.

    A heading starts a new chunk; sections too short to stand alone join their
    neighbour under the same heading. Tokens are those of `passage_text`, so what
    is embedded is never cut. A sentence too long for a chunk is split at commas,
    else spaces, else characters. Neighbours in one section share
    `overlap_sentences`, as long as these are short. Raises `ConfigError` for
    bounds that make no sense.
    """

    def __init__(
        self,
        count_tokens: CountTokens,
        max_tokens: int,
        target_tokens: int = 256,
        overlap_sentences: int = 1,
    ) -> None:
        if max_tokens < SMALLEST_MAX_TOKENS or target_tokens < 1 or overlap_sentences < 0:
            raise ConfigError(
                "Chunks of {target} tokens (at most {maximum}) that overlap by {overlap} "
                "sentences are not possible.",
                hint="The target must be at least 1, the maximum at least 16 and the overlap "
                "at least 0.",
                target=target_tokens,
                maximum=max_tokens,
                overlap=overlap_sentences,
            )
        self._count = count_tokens
        self._max = max_tokens
        self._target = min(target_tokens, max_tokens)
        self._overlap = overlap_sentences

    def chunk(self, document: Document) -> list[Chunk]:
        """Cut the document; `count_tokens` is called for its sentences, many at once.

        It is called again only for what is close to `max_tokens`, since tokens
        of parts need not add up to the tokens of the whole.
        """
        source = _Source(document)
        spans = split_sentences(source.text)
        if not spans:
            return []
        ends = pairwise([*(span.start for span in spans), len(source.text)])
        starts = [cut for start, end in ends for cut in _cuts(source.text, start, end, _LONGEST)]
        units = self._units(source.text, [*starts, len(source.text)])
        headings = list({HEADING_SEPARATOR.join(path) for _, path in source.sections[1:]})
        tokens_of = dict(zip(headings, self._counted(headings), strict=True))
        passages: list[tuple[_Cut, int]] = []
        for group in self._groups(source, units):
            heading, heading_tokens = self._heading(group.path, tokens_of)
            # One token for the newline below the heading.
            limit = self._max - heading_tokens - 1
            for start, end, tokens in self._pack(source.text, group.units, limit):
                passages.append((_Cut(start, end, heading), tokens + heading_tokens + 1))
        return source.chunks(self._verified(source.text, passages))

    def _units(self, text: str, cuts: Sequence[int]) -> list[_Unit]:
        """What lies between neighbouring cuts."""
        counts = self._counted([text[a:b] for a, b in pairwise(cuts)])
        return [_Unit(a, b, n) for (a, b), n in zip(pairwise(cuts), counts, strict=True)]

    def _groups(self, source: _Source, units: list[_Unit]) -> list[_Group]:
        """Sections with their sentences; bare headings and short sections joined."""
        small = self._target // 5
        groups: list[_Group] = []
        lead: list[_Unit] = []
        for path, members, bare in _by_section(source, units, small):
            lead += members
            if bare:
                continue
            group, lead = _Group(path, lead), []
            short = bool(groups) and groups[-1].tokens < small
            if short and groups[-1].joins(group, self._target, small):
                group = groups.pop().with_next(group)
            groups.append(group)
        if lead:
            # Headings at the very end have no text to stand above.
            last = groups.pop() if groups else _Group((), [])
            groups.append(_Group(last.path, last.units + lead))
        if len(groups) > 1 and groups[-1].tokens < small:
            before, last = groups[-2:]
            if before.joins(last, self._target, small):
                groups[-2:] = [before.with_next(last)]
        return groups

    def _pack(self, text: str, units: list[_Unit], limit: int) -> Iterator[_Unit]:
        """Join sentences to runs of about the target, and give the tokens of each."""
        units = self._split_long(text, units, limit)
        goal = min(self._target, limit)
        sums = [0, *accumulate(unit.tokens for unit in units)]
        first = 0
        ranges: list[tuple[int, int]] = []
        while first < len(units):
            # Shared evenly, so that the last chunk is not a scrap.
            left = sums[-1] - sums[first]
            share = left / max(1, -(-left // goal))
            after = first + 1
            while after < len(units):
                taken, added = sums[after] - sums[first], units[after].tokens
                if taken + added > limit or taken + added / 2 > share:
                    break
                after += 1
            begin = first
            while (
                ranges
                and begin > max(first - self._overlap, ranges[-1][0] + 1)
                and sums[first] - sums[begin - 1] <= goal // 4
                and sums[after] - sums[begin - 1] <= limit
            ):
                begin -= 1
            ranges.append((begin, after))
            first = after
        for begin, after in ranges:
            tokens = sums[after] - sums[begin]
            yield _Unit(units[begin].start, units[after - 1].end, tokens)

    def _verified(self, text: str, passages: list[tuple[_Cut, int]]) -> list[_Cut]:
        """Count what is close to the limit as a whole, and halve what is above it."""
        done = [passage for passage, tokens in passages if tokens <= 0.9 * self._max]
        doubtful = [passage for passage, tokens in passages if tokens > 0.9 * self._max]
        while doubtful:
            counts = self._counted([_passage(p.heading, text[p.start : p.end]) for p in doubtful])
            halves: list[_Cut] = []
            for (start, end, heading), tokens in zip(doubtful, counts, strict=True):
                if tokens <= self._max or end - start == 1:
                    done.append(_Cut(start, end, heading))
                    continue
                cut = _best_cut(text, start, end, (start + end) // 2)
                halves += [_Cut(start, cut, heading), _Cut(cut, end, heading)]
            doubtful = halves
        return sorted(done)

    def _heading(self, path: tuple[str, ...], tokens_of: dict[str, int]) -> tuple[str, int]:
        """Join the path and give its tokens, shortened from the top to a quarter of the limit."""
        while path and path[0]:
            heading = HEADING_SEPARATOR.join(path)
            if heading not in tokens_of:
                tokens_of[heading] = self._counted([heading])[0]
            if tokens_of[heading] <= self._max // 4:
                return heading, tokens_of[heading]
            path = path[1:] if len(path) > 1 else (path[0][: len(path[0]) // 2].rstrip(),)
        return "", 0

    def _counted(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, and no fewer than its length allows in any language.

        A tokenizer may take a megabyte without a space for one unknown word.
        """
        counts = (
            count
            for start in range(0, len(texts), _AT_ONCE)
            for count in self._count(texts[start : start + _AT_ONCE])
        )
        return [
            max(count, 1, len(text) // _LONGEST_TOKEN)
            for text, count in zip(texts, counts, strict=True)
        ]

    def _split_long(self, text: str, units: list[_Unit], limit: int) -> list[_Unit]:
        """Replace each sentence of more than `limit` tokens by parts that fit."""
        while any(unit.tokens > limit and unit.end - unit.start > 1 for unit in units):
            parts: list[_Unit] = []
            for unit in units:
                if unit.tokens <= limit or unit.end - unit.start == 1:
                    parts.append(unit)
                    continue
                pieces = -(-unit.tokens // limit)
                step = max(1, (unit.end - unit.start) // pieces)
                parts += self._units(text, [*_cuts(text, unit.start, unit.end, step), unit.end])
            units = parts
        return units


class _Unit(NamedTuple):
    """A sentence or a part of one, with the white space after it."""

    start: int
    end: int
    tokens: int


class _Cut(NamedTuple):
    start: int
    end: int
    heading: str


class _Section(NamedTuple):
    """From one heading to the next; `path` names the headings above and its own."""

    start: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    path: tuple[str, ...]
    units: list[_Unit]

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)

    def joins(self, following: _Group, target: int, small: int) -> bool:
        """Whether the two may be one chunk: siblings, or a parent and its child, and short.

        Sections at the top have no heading in common to go by: only if both are small.
        """
        if self.tokens + following.tokens > target:
            return False
        if self.path[:-1] != following.path[:-1]:
            return following.path[: len(self.path)] == self.path
        return bool(self.path[:-1]) or max(self.tokens, following.tokens) < small

    def with_next(self, following: _Group) -> _Group:
        pairs = zip(self.path, following.path, strict=False)
        path = tuple(mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return _Group(path, self.units + following.units)


class _Source:
    """The text of a document with its sections and pages by offset."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.text = document.text
        lengths = (len(page.text) + len(PAGE_BREAK) for page in document.pages)
        self._page_starts = [0, *accumulate(lengths)][:-1]
        self.sections = [_Section(0, ())]
        above: list[tuple[int, str]] = []
        for heading in sorted(document.headings, key=lambda heading: heading.start):
            while above and above[-1][0] >= heading.level:
                above.pop()
            above.append((heading.level, " ".join(heading.text.split())))
            self.sections.append(_Section(heading.start, tuple(name for _, name in above)))

    def section_at(self, offset: int) -> int:
        """Index of the section that holds this offset."""
        return bisect_right(self.sections, offset, key=lambda section: section.start) - 1

    def chunks(self, passages: Sequence[_Cut]) -> list[Chunk]:
        """Make the records of passages in order; white space around them is left out."""
        document = self._document
        spans: list[_Cut] = []
        for start, end, heading in passages:
            piece = self.text[start:end]
            first = start + len(piece) - len(piece.lstrip())
            last = start + len(piece.rstrip())
            # What shared sentences repeat wholly would be found twice.
            if first >= last or (spans and last <= spans[-1].end):
                continue
            if spans and first == spans[-1].start:
                spans.pop()
            spans.append(_Cut(first, last, heading))
        return [
            Chunk(
                id=_chunk_id(document.id, start, end, heading),
                document_id=document.id,
                position=position,
                text=self.text[start:end],
                heading=heading,
                first_page=self._page_at(start),
                last_page=self._page_at(end - 1),
                start=start,
                end=end,
            )
            for position, (start, end, heading) in enumerate(spans)
        ]

    def _page_at(self, offset: int) -> int:
        return self._document.pages[bisect_right(self._page_starts, offset) - 1].number


def _by_section(
    source: _Source, units: list[_Unit], small: int
) -> Iterator[tuple[tuple[str, ...], list[_Unit], bool]]:
    """Yield (path, sentences, bare) a section; bare ones have no text of their own to keep.

    Bare are a heading line alone, and a few words before the first heading.
    """
    for number, group in groupby(units, key=lambda unit: source.section_at(unit.start)):
        section, members = source.sections[number], list(group)
        if section.path:
            bare = "\n" not in source.text[section.start : members[-1].start]
        else:
            bare = members[-1] is not units[-1] and sum(unit.tokens for unit in members) < small
        yield section.path, members, bare


def _cuts(text: str, start: int, end: int, step: int) -> list[int]:
    """Where the parts of `text[start:end]` of at most `step` code points begin."""
    cuts = [start]
    while end - cuts[-1] > step:
        cuts.append(_best_cut(text, cuts[-1], end, cuts[-1] + step))
    return cuts


def _best_cut(text: str, start: int, end: int, ideal: int) -> int:
    """Find where to cut `text[start:end]`, between the two.

    After a comma, else a space, in the second half of what stands before
    `ideal`; else at `ideal`.
    """
    lowest = start + max(1, (ideal - start) // 2)
    for pattern in (_BREATHS, _SPACES):
        cuts = [match.end() for match in pattern.finditer(text, lowest, min(ideal + 1, end))]
        if cuts and start < cuts[-1] < end:
            return cuts[-1]
    return max(start + 1, ideal)


def _chunk_id(document_id: str, start: int, end: int, heading: str) -> int:
    """Return 63 bits of SHA-256, so that ids are the same on every machine."""
    key = f"{document_id}\n{start}\n{end}\n{heading}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") >> 1
