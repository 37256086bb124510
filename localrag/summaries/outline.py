"""A document in parts: along its headings where it has some, else in parts of even length."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise, takewhile
from typing import NamedTuple

from localrag.documents.chunking import HEADING_SEPARATOR
from localrag.retrieval.sections import PassageSpan

MOST_PARTS = 10
"""Of a document: what a model on two cores writes of in about two minutes."""

LEAST_LENGTH = 1500
"""Code points that a part has about, in a short document; times `Language.density`."""

_MOST_CUTS = 240
"""Places at which a document may be cut that are compared."""

_DEEPER = 0.25
"""How much a cut one level of headings further down costs, beside a part that is as much longer or
shorter than the others in the square of its share."""


class Part(NamedTuple):
    """Neighbouring passages, `first` to `last` in the outline, and what stands above them."""

    heading: str
    first: int
    last: int


def parts(
    passages: Sequence[PassageSpan], width: float = 1.0, most: int = MOST_PARTS
) -> list[Part]:
    """The document in at most `most` parts of about the same length, cut at high headings.

    `width` is what a code point of it counts (`Language.density`).
    """
    if not passages:
        return []
    lengths = [max(1, passage.end - passage.start) * width for passage in passages]
    total = sum(lengths)
    count = min(most, len(passages), max(1, round(total / LEAST_LENGTH)))
    paths = [tuple(filter(None, passage.heading.split(HEADING_SEPARATOR))) for passage in passages]
    shared = len(_shared(paths))
    cuts = _cuts(paths, lengths)
    before = [0.0, *accumulate(lengths)]
    ideal = total / count

    # best[at]: the least cost of what lies before cut `at` in so many parts, and the cut before.
    best: list[tuple[float, int]] = [(0.0, -1)] + [(float("inf"), -1)] * (len(cuts) - 1)
    history = []
    for _ in range(count):
        history.append(best)
        best = [(float("inf"), -1)] * len(cuts)
        for at in range(1, len(cuts)):
            costs = (
                (
                    history[-1][start][0]
                    + ((before[cuts[at]] - before[cuts[start]]) / ideal - 1.0) ** 2,
                    start,
                )
                for start in range(at)
            )
            least, start = min(costs)
            best[at] = least + _DEEPER * _level(paths, cuts[at], shared), start
    history.append(best)
    ends, at = [], len(cuts) - 1
    for number in range(count, 0, -1):
        ends.append(at)
        at = history[number][at][1]
    bounds = [0, *(cuts[end] for end in reversed(ends))]
    return [
        Part(_name(paths[first:last], shared), first, last - 1) for first, last in pairwise(bounds)
    ]


def _level(paths: Sequence[tuple[str, ...]], cut: int, shared: int) -> int:
    """How many headings beyond those that all share run on over a cut; more inside of a section."""
    if cut in (0, len(paths)):
        return 0
    before, after = paths[cut - 1], paths[cut]
    inside = before == after and len(after) > shared
    return len(_shared([before, after])) - shared + inside


def _cuts(paths: Sequence[tuple[str, ...]], lengths: Sequence[float]) -> list[int]:
    """Where the document may be cut: before each passage; in a long one at the highest headings."""
    every = range(1, len(paths))
    if len(paths) <= _MOST_CUTS:
        return [0, *every, len(paths)]
    before = [0.0, *accumulate(lengths)]
    step = before[-1] / (_MOST_CUTS // 2)
    even = {min(bisect_left(before, step * n), len(paths)) for n in range(1, _MOST_CUTS // 2)}
    headings = [cut for cut in every if paths[cut] != paths[cut - 1]]
    headings.sort(key=lambda cut: len(_shared([paths[cut - 1], paths[cut]])))
    return sorted({0, *even, *headings[: _MOST_CUTS // 2], len(paths)})


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The headings with which all of some paths begin."""
    low, high = min(paths), max(paths)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False))
    return tuple(name for name, _ in same)


def _name(paths: Sequence[tuple[str, ...]], shared: int) -> str:
    """The headings above a part: those that all of it shares, or the first and the last of it."""
    own = [path[shared:] for path in paths]
    common = _shared(own)
    below = list(dict.fromkeys(path[len(common)] for path in own if len(path) > len(common)))
    if common:
        return HEADING_SEPARATOR.join(common)
    return " – ".join(dict.fromkeys([*below[:1], *below[-1:]]))
