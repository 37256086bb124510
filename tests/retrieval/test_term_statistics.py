"""How common terms are: the same from both keyword engines, and after a removal."""

from __future__ import annotations

import pytest

from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.indexes.rank_bm25 import RankBm25Keywords


@pytest.mark.parametrize("engine", [InvertedKeywords, RankBm25Keywords])
def test_frequencies_count_passages_and_forget_removed_ones(
    engine: type[InvertedKeywords] | type[RankBm25Keywords],
) -> None:
    index = engine()
    assert index.frequencies(["海"]) == (0, [0])
    index.apply((), [(1, ["海", "海", "moon"]), (2, ["海"]), (3, ["salt"])], ("e", 1))
    assert index.frequencies(["海", "moon", "grain"]) == (3, [2, 1, 0])
    index.apply([2], [], ("e", 2))
    assert index.frequencies(["海"]) == (2, [1])
