from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from localrag.retrieval.fusion import reciprocal_rank_fusion, regardless
from localrag.retrieval.hybrid import HybridRetriever
from localrag.types import Hit, LegRank

RRF = regardless(reciprocal_rank_fusion)


class FixedLeg:
    def __init__(self, hits: list[Hit]) -> None:
        self.hits = hits
        self.asked: list[int] = []

    def retrieve(self, query: str, k: int) -> list[Hit]:
        self.asked.append(k)
        return self.hits[:k]


def test_each_hit_says_what_every_leg_thought() -> None:
    legs = {"dense": FixedLeg([Hit(1, 0.9), Hit(2, 0.8)]), "keyword": FixedLeg([Hit(2, 7.0)])}
    hits = HybridRetriever(legs, RRF).retrieve("q", 5)
    assert hits[0].ranks == (LegRank("dense", 2, 0.8), LegRank("keyword", 1, 7.0))
    assert hits[1].ranks == (LegRank("dense", 1, 0.9),)


@pytest.mark.parametrize(("k", "fetched"), [(1, 100), (33, 100), (40, 120)])
def test_legs_over_fetch(k: int, fetched: int) -> None:
    leg = FixedLeg([Hit(number, 1.0 / number) for number in range(1, 400)])
    hits = HybridRetriever({"dense": leg}, RRF).retrieve("q", k)
    assert leg.asked == [fetched]
    assert len(hits) == k


def test_legs_run_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=60)

    class MeetingLeg:
        def retrieve(self, query: str, k: int) -> list[Hit]:
            meeting.wait()
            return []

    legs = {"dense": MeetingLeg(), "keyword": MeetingLeg()}
    assert HybridRetriever(legs, RRF).retrieve("q", 3) == []


def test_a_failing_leg_is_not_swallowed() -> None:
    class BrokenLeg:
        def retrieve(self, query: str, k: int) -> list[Hit]:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        HybridRetriever({"dense": BrokenLeg()}, RRF).retrieve("q", 3)


def test_the_fusion_is_told_the_question_and_the_legs_in_their_order() -> None:
    arguments: list[object] = []

    def fuse(question: str, runs: Sequence[Sequence[Hit]]) -> list[Hit]:
        arguments.extend([question, *runs])
        return list(runs[0])

    legs = {"dense": FixedLeg([Hit(1, 0.9)]), "keyword": FixedLeg([Hit(2, 7.0)])}
    HybridRetriever(legs, fuse).retrieve("why?", 3)
    assert arguments == ["why?", [Hit(1, 0.9)], [Hit(2, 7.0)]]
