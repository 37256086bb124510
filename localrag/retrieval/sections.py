"""What is read around a hit: small passages find, the section that holds one is read.

A passage of a hundred tokens is found well and understood badly: the answer to "notice period"
stands beside another period. Each document falls into the same sections whatever is asked, so that
what the language model has read of one can be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from localrag.types import Chunk, ScoredChunk

READ = 700
"""Length of a section that is read at once: code points, times `Language.density`."""


class PassageSpan(NamedTuple):
    """Where a chunk stands in its document, without its text."""

    id: int
    position: int
    heading: str
    start: int
    end: int


class Outline(NamedTuple):
    """The passages of a document in order, and how much a code point of it counts."""

    passages: Sequence[PassageSpan]
    width: float = 1.0


def sections(outline: Outline, limit: float = READ) -> list[range]:
    """The positions of neighbouring passages that are read together, in order.

    As many as `limit` allows, and one at least. They are parted at a heading rather than
    below it: a section that would fit by itself is not cut.
    """
    parts: list[range] = []
    passages, width = outline.passages, outline.width
    ends = _ends_of_headings(passages)
    first = 0
    for at, passage in enumerate(passages):
        if at == first:
            continue
        begun = passages[first].start
        whole = (ends[at] - passage.start) * width <= limit < (ends[at] - begun) * width
        begins = passage.heading != passages[at - 1].heading
        if (passage.end - begun) * width > limit or (begins and whole):
            parts.append(range(first, at))
            first = at
    if passages:
        parts.append(range(first, len(passages)))
    return parts


def _ends_of_headings(passages: Sequence[PassageSpan]) -> list[int]:
    """For each passage where the text below the heading ends that stands above it."""
    ends = [passage.end for passage in passages]
    for at in range(len(passages) - 2, -1, -1):
        if passages[at].heading == passages[at + 1].heading:
            ends[at] = ends[at + 1]
    return ends


def widened(
    hits: Sequence[ScoredChunk],
    k: int,
    outline_of: Callable[[str], Outline],
    chunks_between: Callable[[str, int, int], Sequence[Chunk]],
    text_of: Callable[[str, int, int], str],
    allowed: Callable[[int], bool] = lambda _: True,
    limit: float = READ,
) -> list[ScoredChunk]:
    """The first k sections that hold hits, each as the hit with the text of its section.

    It keeps id, score and ranks of its best hit. Only chunks are read that are `allowed`.
    """
    outlines: dict[str, tuple[Outline, list[range]]] = {}
    places: dict[int, int] = {}
    read: dict[tuple[str, int], ScoredChunk] = {}
    for hit in hits:
        if len(read) == k:
            break
        document = hit.chunk.document_id
        if document not in outlines:
            outline = outline_of(document)
            outlines[document] = outline, sections(outline, limit)
            places |= {passage.id: at for at, passage in enumerate(outline.passages)}
        outline, parts = outlines[document]
        at = places.get(hit.chunk.id)
        part = next((part for part in parts if at is not None and at in part), None)
        if at is None or part is None:  # removed meanwhile
            read.setdefault((document, -hit.chunk.id), hit)
            continue
        first, last = _run([allowed(outline.passages[n].id) for n in part], at - part.start)
        key = document, part.start + first
        if key not in read:
            positions = [outline.passages[part.start + place].position for place in (first, last)]
            chunks = chunks_between(document, positions[0], positions[1])
            text = text_of(document, chunks[0].start, chunks[-1].end) if chunks else ""
            read[key] = replace(hit, chunk=_joined_chunk(hit.chunk, chunks, text))
    return list(read.values())


def _run(flags: Sequence[bool], at: int) -> tuple[int, int]:
    """First and last of the neighbours of `at`, it included, that all may be read."""
    first = last = at
    while first and flags[first - 1]:
        first -= 1
    while last + 1 < len(flags) and flags[last + 1]:
        last += 1
    return first, last


def _joined_chunk(hit: Chunk, chunks: Sequence[Chunk], text: str) -> Chunk:
    """The chunks as one with this text, under the id of the hit."""
    if len(chunks) < 2 or hit.id not in {chunk.id for chunk in chunks}:
        return hit
    start = chunks[0].start
    columns = (
        replace(
            column, start=column.start + chunk.start - start, end=column.end + chunk.start - start
        )
        for chunk in chunks
        for column in chunk.columns
    )
    return replace(
        hit,
        text=text,
        heading=chunks[0].heading,
        first_page=chunks[0].first_page,
        last_page=chunks[-1].last_page,
        start=start,
        end=chunks[-1].end,
        columns=tuple(columns),
    )
