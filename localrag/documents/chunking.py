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
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise, takewhile
from typing import NamedTuple, Protocol

from localrag.documents.tables import BAR, CELL_BREAK, CUT_SHORT, cells, shown_text, with_names
from localrag.errors import ConfigError
from localrag.text.sentences import split_sentences
from localrag.types import PAGE_BREAK, Chunk, Columns, Document

CountTokens = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, as the embedding model cuts it."""

SMALLEST_MAX_TOKENS = 16
LONGEST_TITLE = 80
HEADING_SEPARATOR = " > "

_LONGEST = 20_000
"""Code points of a sentence that is looked at as a whole."""

_LONGEST_TOKEN = 32
_AT_ONCE = 4096
"""Texts whose tokens are counted at once: what a tokenizer makes of them takes memory."""

_LONGEST_NAMES = (80, 40, 20)
"""Code points of a column's name: the first with which a row's names take half of a passage."""

_FEW_NAMES = 256
"""Names of columns that any passage may have, however short, and however few its rows reach."""

_BREATHS = re.compile(r"[。！？!?，、；：,;:）)]+\s*")
_SPACES = re.compile(r"\s+")
_CUTS = (_BREATHS, _SPACES)
_ROW_CUTS = (re.compile(r"\n"), BAR, *_CUTS)


class Chunker(Protocol):
    """Cuts a document into passages."""

    def chunk(self, document: Document) -> list[Chunk]:
        """Chunks in the order of the text, which together hold all of it but white space."""


def passage_text(chunk: Chunk) -> str:
    """Return what is embedded and read: the title and headings above the chunk, then its text.

    Those that stand at the top of the text already are not repeated; rows of tables stand
    with their header.
    """
    return _passage(shortened_title(chunk.title), chunk.heading, shown_text(chunk))


def whole_text(chunk: Chunk) -> str:
    """The same with all of the title, for what is read and not embedded."""
    return _passage(chunk.title, chunk.heading, shown_text(chunk))


def heading_text(chunk: Chunk) -> str:
    """The same without the title: what the keyword index holds as a passage's own text."""
    return _passage("", chunk.heading, shown_text(chunk))


def _passage(title: str, heading: str, text: str) -> str:
    path = [title] if title else []
    path += [name for name in heading.split(HEADING_SEPARATOR) if name and name not in path]
    lines = {" ".join(line.split()) for line in text.split("\n", len(path))[: len(path)]}
    above = HEADING_SEPARATOR.join(name for name in path if name not in lines)
    return f"{above}\n{text}" if above else text


def shortened_title(title: str) -> str:
    """A title of at most `LONGEST_TITLE` code points, so that it does not drown a passage."""
    return _shortened((title,), LONGEST_TITLE)[0]


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
    `overlap_sentences`, as long as these are short. A row of a table counts as a
    sentence that nothing is shared of; it stays with the header above it, and that
    with its caption. A table that fits into a chunk stays whole. Raises `ConfigError` for
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
        source = _Source(document, self._names)
        spans = split_sentences(source.text)
        if not spans:
            return []
        ends = pairwise([*source.with_rows([span.start for span in spans]), len(source.text)])
        starts = [cut for start, end in ends for cut in source.cuts(start, end, _LONGEST)]
        units = self._mark_glued(source, self._units(source, [*starts, len(source.text)]))
        title, title_tokens = self._title(source)
        headings = list({HEADING_SEPARATOR.join(path) for _, path in source.sections[1:]})
        tokens_of = dict(zip(headings, self._token_counts(headings), strict=True))
        passages: list[tuple[_Cut, int]] = []
        for group in self._groups(source, units):
            heading, heading_tokens = self._heading(group.path, tokens_of)
            # One token for the newline below the heading.
            above = heading_tokens + title_tokens + 1
            for start, end, tokens in self._pack(source, group.units, self._max - above):
                passages.append((_Cut(start, end, heading), tokens + above))
        return source.chunks(self._fit_to_limit(source, title, passages))

    def _title(self, source: _Source) -> tuple[str, int]:
        """The title as it counts for each passage, and its tokens with the sign behind it.

        None where it would take a quarter of a passage: it then stands above the limit.
        """
        tokens = self._token_counts([source.title])[0] + 1 if source.title else 0
        return (source.title, tokens) if tokens <= self._max // 4 else ("", 0)

    def _units(self, source: _Source, cuts: Sequence[int]) -> list[_Unit]:
        """What lies between neighbouring cuts."""
        counts = self._token_counts([source.shown(a, b) for a, b in pairwise(cuts)])
        return [_Unit(a, b, n) for (a, b), n in zip(pairwise(cuts), counts, strict=True)]

    def _mark_glued(self, source: _Source, units: list[_Unit]) -> list[_Unit]:
        """The same, that know what they may not be parted from: a header, or a short caption."""
        glued = units[:1]
        for before, unit in pairwise(units):
            row = source.row_at(unit.start)
            if row is not None and unit.start == row.start:
                caption = before.tokens <= self._target // 5 and not source.row_at(before.start)
                unit = unit._replace(glued=row.glued or (row.first and caption))
            glued.append(unit)
        return glued

    def _groups(self, source: _Source, units: list[_Unit]) -> list[_SectionGroup]:
        """Sections with their sentences; bare headings and short sections joined."""
        small = self._target // 5
        groups: list[_SectionGroup] = []
        lead: list[_Unit] = []
        for path, members, bare in _by_section(source, units, small):
            lead += members
            if bare:
                continue
            group, lead = _SectionGroup(path, lead), []
            short = bool(groups) and groups[-1].tokens < small
            if short and groups[-1].joins(group, self._target, small):
                group = groups.pop().with_next(group)
            groups.append(group)
        if lead:
            # Headings at the very end have no text to stand above.
            last = groups.pop() if groups else _SectionGroup((), [])
            groups.append(_SectionGroup(last.path, last.units + lead))
        if len(groups) > 1 and groups[-1].tokens < small:
            before, last = groups[-2:]
            if before.joins(last, self._target, small):
                groups[-2:] = [before.with_next(last)]
        return groups

    def _pack(
        self, source: _Source, units: list[_Unit], limit: int
    ) -> Iterator[tuple[int, int, int]]:
        """Join sentences to runs of about the target: start, end and tokens of each."""
        units = self._split_long(source, units, limit)
        goal = min(self._target, limit)
        sums = [0, *accumulate(unit.tokens for unit in units)]
        tables = source.small_tables(units, limit)
        first = 0
        ranges: list[tuple[int, int]] = []
        while first < len(units):
            # Shared evenly, so that the last chunk is not a scrap.
            left = sums[-1] - sums[first]
            share = left / max(1, -(-left // goal))
            after = first + 1
            while after < len(units):
                size, added = sums[after] - sums[first], units[after].tokens
                if size + added > limit or size + added / 2 > share:
                    break
                after += 1
            table = tables.get(after)
            if table is not None:
                # Whole with what stands before it, where that is little; else from its caption on.
                before = sums[table[0]] - sums[first]
                most = limit if before < self._target // 5 else goal
                after = table[1] if sums[table[1]] - sums[first] <= most else table[0]
            end = after
            while after < len(units) and units[after].glued and after - 1 > first:
                after -= 1
            if after < len(units) and units[after].glued:
                after = end  # more than a passage holds
            begin = first
            while (
                ranges
                and source.row_at(units[begin - 1].start) is None
                and begin > max(first - self._overlap, ranges[-1][0] + 1)
                and sums[first] - sums[begin - 1] <= goal // 4
                and sums[after] - sums[begin - 1] <= limit
            ):
                begin -= 1
            ranges.append((begin, after))
            first = after
        for begin, after in ranges:
            tokens = sums[after] - sums[begin]
            yield units[begin].start, units[after - 1].end, tokens

    def _fit_to_limit(
        self, source: _Source, title: str, passages: list[tuple[_Cut, int]]
    ) -> list[_Cut]:
        """Count what is close to the limit as a whole, and halve what is above it.

        Tokens of rows that were cut add up to less: the signs between cells are missing.
        """
        done: list[_Cut] = []
        doubtful: list[_Cut] = []
        for passage, tokens in passages:
            sure = 0.5 if source.row_at(passage.start) or source.row_at(passage.end) else 0.9
            (done if tokens <= sure * self._max else doubtful).append(passage)
        while doubtful:
            counts = self._token_counts(
                [_passage(title, p.heading, source.shown(p.start, p.end)) for p in doubtful]
            )
            halves: list[_Cut] = []
            for (start, end, heading), tokens in zip(doubtful, counts, strict=True):
                if tokens <= self._max or end - start == 1:
                    done.append(_Cut(start, end, heading))
                    continue
                cut = source.best_cut(start, end, (start + end) // 2)
                halves += [_Cut(start, cut, heading), _Cut(cut, end, heading)]
            doubtful = halves
        return sorted(done)

    def _heading(self, path: tuple[str, ...], tokens_of: dict[str, int]) -> tuple[str, int]:
        """Join the path and give its tokens, shortened from the top to a quarter of the limit."""
        while path and path[0]:
            heading = HEADING_SEPARATOR.join(path)
            if heading not in tokens_of:
                tokens_of[heading] = self._token_counts([heading])[0]
            if tokens_of[heading] <= self._max // 4:
                return heading, tokens_of[heading]
            path = path[1:] if len(path) > 1 else (path[0][: len(path[0]) // 2].rstrip(),)
        return "", 0

    def _token_counts(self, texts: Sequence[str]) -> list[int]:
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

    def _names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names of a table's columns, shortened where they would take too much of a row."""
        short = names
        for longest in _LONGEST_NAMES:
            short = _shortened(names, longest)
            counts = self._token_counts(short)
            if sum(counts) <= self._target // 2:
                break
        # A cell beside its name has room below a heading.
        while any(name and n > self._max // 4 for name, n in zip(short, counts, strict=True)):
            short = tuple(
                name[: len(name) // 2] if n > self._max // 4 else name
                for name, n in zip(short, counts, strict=True)
            )
            counts = self._token_counts(short)
        return short

    def _split_long(self, source: _Source, units: list[_Unit], limit: int) -> list[_Unit]:
        """Replace each sentence of more than `limit` tokens by parts that fit."""
        while any(unit.tokens > limit and unit.end - unit.start > 1 for unit in units):
            parts: list[_Unit] = []
            for unit in units:
                if unit.tokens <= limit or unit.end - unit.start == 1:
                    parts.append(unit)
                    continue
                pieces = -(-unit.tokens // limit)
                step = max(1, (unit.end - unit.start) // pieces)
                cuts = [*source.cuts(unit.start, unit.end, step), unit.end]
                first, *others = self._units(source, cuts)
                parts += first._replace(glued=unit.glued), *others
            units = parts
        return units


class _Unit(NamedTuple):
    """A sentence or a part of one, with the white space after it.

    One that is `glued` stays with the one before.
    """

    start: int
    end: int
    tokens: int
    glued: bool = False


class _Row(NamedTuple):
    """A line of a table; `names` are those of its columns.

    `glued` are all lines of the header but the first, and the row below.
    """

    start: int
    end: int
    names: tuple[str, ...]
    first: bool
    glued: bool


class _Cut(NamedTuple):
    start: int
    end: int
    heading: str


class _HeadingSection(NamedTuple):
    """From one heading to the next; `path` names the headings above and its own."""

    start: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SectionGroup:
    path: tuple[str, ...]
    units: list[_Unit]

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)

    def joins(self, following: _SectionGroup, target: int, small: int) -> bool:
        """Whether the two may be one chunk: siblings, or a parent and its child, and short.

        Sections at the top have no heading in common to go by: only if both are small.
        """
        if self.tokens + following.tokens > target:
            return False
        if self.path[:-1] != following.path[:-1]:
            return following.path[: len(self.path)] == self.path
        return bool(self.path[:-1]) or max(self.tokens, following.tokens) < small

    def with_next(self, following: _SectionGroup) -> _SectionGroup:
        pairs = zip(self.path, following.path, strict=False)
        path = tuple(mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return _SectionGroup(path, self.units + following.units)


class _Source:
    """The text of a document with its sections, pages and rows of tables by offset."""

    def __init__(
        self,
        document: Document,
        names: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None,
    ) -> None:
        self._document = document
        self.text = document.text
        self.title = shortened_title(document.title)
        lengths = (len(page.text) + len(PAGE_BREAK) for page in document.pages)
        self._page_starts = [0, *accumulate(lengths)][:-1]
        self.sections = [_HeadingSection(0, ())]
        above: list[tuple[int, str]] = []
        for heading in sorted(document.headings, key=lambda heading: heading.start):
            while above and above[-1][0] >= heading.level:
                above.pop()
            above.append((heading.level, " ".join(heading.text.split())))
            self.sections.append(_HeadingSection(heading.start, tuple(name for _, name in above)))
        self._rows = list(self._rows_of(document, names or _shortened))

    def _rows_of(
        self, document: Document, names: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> Iterator[_Row]:
        for table in document.tables:
            start, column_names = table.start, names(table.header) if any(table.header) else ()
            for number, line in enumerate(self.text[table.start : table.end].split("\n")):
                end = start + len(line)
                named = column_names if len(line) <= _LONGEST else ()
                glued = 0 < number <= table.header_rows
                yield _Row(start, end, named, number == 0, glued)
                start = end + 1

    def row_at(self, offset: int) -> _Row | None:
        """The row of a table that holds this offset."""
        place = bisect_right(self._rows, offset, key=lambda row: row.start) - 1
        row = self._rows[place] if place >= 0 else None
        return row if row is not None and offset <= row.end else None

    def with_rows(self, starts: Sequence[int]) -> list[int]:
        """Where sentences begin, and in tables where rows do."""
        if not self._rows:
            return list(starts)
        text = (start for start in starts if self.row_at(start) is None)
        return sorted({*text, *(row.start for row in self._rows)})

    def small_tables(self, units: Sequence[_Unit], limit: int) -> dict[int, tuple[int, int]]:
        """Where tables of at most `limit` tokens begin, with their caption, and end.

        For each unit but the first of such a table.
        """
        table_bounds: dict[int, tuple[int, int]] = {}
        first: int | None = None
        for number, unit in enumerate([*units, None] if self._rows else ()):
            row = self.row_at(unit.start) if unit is not None else None
            begins = unit is not None and row is not None and row.first and unit.start == row.start
            if first is not None and (row is None or begins):
                if sum(piece.tokens for piece in units[first:number]) <= limit:
                    table_bounds |= dict.fromkeys(range(first + 1, number), (first, number))
                first = None
            if unit is not None and begins:
                first = number - 1 if number and unit.glued else number
        return table_bounds

    def columns(self, start: int, end: int) -> tuple[Columns, ...]:
        """The names of columns for the rows between the two, counted from `start`."""
        place = max(0, bisect_right(self._rows, start, key=lambda row: row.start) - 1)
        runs: list[Columns] = []
        while place < len(self._rows) and self._rows[place].start < end:
            row = self._rows[place]
            place += 1
            first, last = max(start, row.start), min(end, row.end)
            names = row.names
            if first > row.start or last < row.end:  # the cells that stand outside do not count
                before = len(BAR.findall(self.text, row.start, first))
                names = names[before : before + len(BAR.findall(self.text, first, last)) + 1]
            if not names or not self.text[first:last].strip():
                continue
            if runs and runs[-1].names == names and runs[-1].end + 1 == first - start:
                runs[-1] = Columns(runs[-1].start, last - start, names)
            else:
                runs.append(Columns(first - start, last - start, names))
        # A thousand names beside each row of two cells would fill the disk.
        if sum(len(run.names) for run in runs) > max(_FEW_NAMES, end - start):
            runs = [
                _without_unused_names(run, self.text[start + run.start : start + run.end])
                for run in runs
            ]
        return tuple(runs)

    def shown(self, start: int, end: int) -> str:
        """The text between the two as a model reads it."""
        return with_names(self.text[start:end], self.columns(start, end))

    def cuts(self, start: int, end: int, step: int) -> list[int]:
        """Where the parts of the text of at most `step` code points begin."""
        cuts = [start]
        while end - cuts[-1] > step:
            cuts.append(self.best_cut(cuts[-1], end, cuts[-1] + step))
        return cuts

    def best_cut(self, start: int, end: int, ideal: int) -> int:
        """Find where to cut the text, between the two.

        After a row or a cell of a table, a comma, else a space, in the second half of what
        stands before `ideal`; else at `ideal`.
        """
        lowest = start + max(1, (ideal - start) // 2)
        for pattern in _ROW_CUTS if self.row_at(ideal) else _CUTS:
            matches = pattern.finditer(self.text, lowest, min(ideal + 1, end))
            cuts = [match.end() for match in matches]
            if cuts and start < cuts[-1] < end:
                return cuts[-1]
        return max(start + 1, ideal)

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
                id=_chunk_id(document.id, start, end, heading, columns),
                document_id=document.id,
                position=position,
                text=self.text[start:end],
                heading=heading,
                first_page=self._page_at(start),
                last_page=self._page_at(end - 1),
                start=start,
                end=end,
                columns=columns,
                title=document.title,
            )
            for position, (start, end, heading) in enumerate(spans)
            for columns in [self.columns(start, end)]
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


def _shortened(names: tuple[str, ...], longest: int = _LONGEST_NAMES[0]) -> tuple[str, ...]:
    """The names, of at most `longest` code points each."""
    return tuple(
        name if len(name) <= longest else name[: longest - 1].rstrip() + CUT_SHORT for name in names
    )


def _without_unused_names(columns: Columns, rows: str) -> Columns:
    """Without the names that no row has a cell for; what is shown of the rows stays the same."""
    widest = max(len(cells(row)) for row in rows.split("\n"))
    return replace(columns, names=columns.names[:widest])


def _chunk_id(
    document_id: str, start: int, end: int, heading: str, columns: Sequence[Columns]
) -> int:
    """Return 63 bits of SHA-256, so that ids are the same on every machine."""
    key = f"{document_id}\n{start}\n{end}\n{heading}"
    for column in columns:
        key += f"\n{column.start}\n{column.end}\n{CELL_BREAK.join(column.names)}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1
