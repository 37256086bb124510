from __future__ import annotations

import pytest

from localrag.retrieval.fusion import (
    alpha_fusion,
    reciprocal_rank_fusion,
    weighted_linear_fusion,
)
from localrag.types import Hit


def run(*pairs: tuple[int, float]) -> list[Hit]:
    return [Hit(chunk_id, score) for chunk_id, score in pairs]


def scores(hits: list[Hit]) -> dict[int, float]:
    return {hit.chunk_id: hit.score for hit in hits}


def test_reciprocal_ranks_count_from_one() -> None:
    fused = reciprocal_rank_fusion([run((1, 9.0), (2, 8.0)), run((2, 0.5))])
    assert scores(fused) == pytest.approx({2: 1 / 62 + 1 / 61, 1: 1 / 61})
    assert [hit.chunk_id for hit in fused] == [2, 1]


def test_reciprocal_weights() -> None:
    fused = reciprocal_rank_fusion([run((1, 1.0)), run((2, 1.0))], weights=[1.0, 3.0])
    assert scores(fused) == pytest.approx({2: 3 / 61, 1: 1 / 61})


def test_linear_divides_by_the_best_of_each_leg() -> None:
    fused = weighted_linear_fusion(
        [run((1, 0.8), (2, 0.4)), run((2, 20.0), (3, 5.0))], weights=[0.6, 0.4]
    )
    assert scores(fused) == pytest.approx({1: 0.6, 2: 0.6 * 0.5 + 0.4, 3: 0.4 * 0.25})


@pytest.mark.parametrize("empty", [[], run((7, 0.0)), run((7, -1.0))])
def test_a_dead_leg_changes_no_order_among_the_living(empty: list[Hit]) -> None:
    living = run((3, 5.0), (1, 4.0), (2, 1.0))
    fused = weighted_linear_fusion([living, empty], weights=[0.6, 0.4])
    assert [hit.chunk_id for hit in fused][:3] == [3, 1, 2]


def test_negative_scores_count_as_nothing() -> None:
    fused = weighted_linear_fusion([run((1, 1.0), (2, -0.5))], weights=[1.0])
    assert scores(fused) == {1: 1.0, 2: 0.0}


@pytest.mark.parametrize("k", [1, 60])
def test_ties_break_by_chunk_id(k: int) -> None:
    assert [h.chunk_id for h in reciprocal_rank_fusion([run((9, 1.0)), run((4, 1.0))], k=k)] == [
        4,
        9,
    ]
    linear = weighted_linear_fusion([run((9, 1.0)), run((4, 1.0))], weights=[0.5, 0.5])
    assert [h.chunk_id for h in linear] == [4, 9]


def test_nothing_from_nothing() -> None:
    assert reciprocal_rank_fusion([]) == []
    assert weighted_linear_fusion([[], []], weights=[0.5, 0.5]) == []


def test_a_leg_of_weight_nothing_is_left_out() -> None:
    runs = [run((1, 0.9), (2, 0.8)), run((2, 7.0), (3, 6.0))]
    assert [h.chunk_id for h in weighted_linear_fusion(runs, weights=[0.0, 1.0])] == [2, 3]
    assert [h.chunk_id for h in reciprocal_rank_fusion(runs, weights=[1.0, 0.0])] == [1, 2]


@pytest.mark.parametrize(("alpha", "order"), [(0.0, [2, 3]), (1.0, [1, 2]), (0.5, [2, 1, 3])])
def test_alpha_goes_from_keyword_only_to_dense_only(alpha: float, order: list[int]) -> None:
    dense, keyword = run((1, 0.9), (2, 0.8)), run((2, 7.0), (3, 6.0))
    assert [hit.chunk_id for hit in alpha_fusion(dense, keyword, alpha=alpha)] == order


@pytest.mark.parametrize("alpha", [-0.1, 1.1])
def test_alpha_has_bounds(alpha: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        alpha_fusion([], [], alpha=alpha)
