"""Fusion of ranked lists: pure functions from one list per leg to one list.

All break ties by chunk id, and all accept legs that found nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from localrag.types import Hit

Fuse = Callable[[Sequence[Sequence[Hit]]], list[Hit]]
"""Ranked lists, best first, one a leg -> one ranked list, best first."""

FuseForQuestion = Callable[[str, Sequence[Sequence[Hit]]], list[Hit]]
"""The same where the question has a say: the question comes first."""


def regardless(fuse: Fuse) -> FuseForQuestion:
    """A fusion that does not look at the question."""
    return lambda _, runs: fuse(runs)


def reciprocal_rank_fusion(
    runs: Sequence[Sequence[Hit]], *, k: int = 60, weights: Sequence[float] | None = None
) -> list[Hit]:
    """Sum of weight / (k + rank) over the legs, ranks from 1.

    Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet
    and individual Rank Learning Methods", SIGIR 2009, k = 60. Only ranks count, so
    scores may be of any scale or sign; a leg that found nothing adds nothing. A leg of
    weight 0 is left out with all that it alone found.
    """
    scores: dict[int, float] = {}
    for run, weight in _voting(runs, weights):
        for rank, hit in enumerate(run, start=1):
            scores[hit.chunk_id] = scores.get(hit.chunk_id, 0.0) + weight / (k + rank)
    return _ranked(scores)


def weighted_linear_fusion(runs: Sequence[Sequence[Hit]], *, weights: Sequence[float]) -> list[Hit]:
    """Weighted sum of scores, each divided by the largest score of its leg.

    Max normalisation: Lee, "Analyses of multiple evidence combination", SIGIR 1997,
    without the shift by the minimum, so that a uniformly good list stays good. A
    chunk that a leg did not return gets 0 from it. Negative scores count as 0; a leg
    whose best score is 0 or less adds nothing. A leg of weight 0 is left out with all that
    it alone found.
    """
    scores: dict[int, float] = {}
    for run, weight in _voting(runs, weights):
        best = max((hit.score for hit in run), default=0.0)
        for hit in run:
            part = weight * max(hit.score, 0.0) / best if best > 0 else 0.0
            scores[hit.chunk_id] = scores.get(hit.chunk_id, 0.0) + part
    return _ranked(scores)


def alpha_fusion(dense: Sequence[Hit], keyword: Sequence[Hit], *, alpha: float) -> list[Hit]:
    """`weighted_linear_fusion` of two legs: 0 is keyword only, 1 is dense only.

    At either end the other leg adds neither scores nor passages. Raises ValueError where
    alpha is not between 0 and 1.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be between 0 and 1 (inclusive), was: {alpha}")
    return weighted_linear_fusion([dense, keyword], weights=[alpha, 1 - alpha])


def _voting(
    runs: Sequence[Sequence[Hit]], weights: Sequence[float] | None
) -> Iterator[tuple[Sequence[Hit], float]]:
    """The legs that have a vote, with their weight."""
    for run, weight in zip(runs, weights or [1.0] * len(runs), strict=True):
        if weight:
            yield run, weight


def _ranked(scores: dict[int, float]) -> list[Hit]:
    order = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Hit(chunk_id, score) for chunk_id, score in order]
