"""The learned reranker: its figures by hand, and what it leaves alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from rerank_passages import ids, passage

from localrag.rerankers.learned import WEIGHTS, LearnedReranker, features
from localrag.text.tokenize import Tokenizer
from localrag.types import LegRank, Note, ScoredChunk

QUESTION = "白鹭渡口大桥是什么时候通车的？"
TITLED = passage(1, "白鹭渡口大桥\n大桥于1987年10月通车，全长860米。", 0.5)
SCATTERED = passage(2, "渡口的白鹭很多。大桥下游通车之前，人们坐船过河。", 1.0)
ENGLISH = passage(3, "The bridge at the Egret ferry was opened in October 1987.", 0.7)


def figures(question: str, *chunks: ScoredChunk) -> list[dict[str, float]]:
    rows = features(question, chunks, Tokenizer())
    return [dict(zip(WEIGHTS, row.tolist(), strict=True)) for row in rows]


def test_figures_by_hand() -> None:
    hit = replace(TITLED, ranks=(LegRank("dense", 1, 0.6), LegRank("keyword", 2, 7.0)))
    other = replace(SCATTERED, ranks=(LegRank("dense", 2, 0.2),))
    titled, scattered = figures(QUESTION, hit, other)
    assert titled["search"] == pytest.approx(math.log(0.5 + 0.01))
    assert scattered["search"] == pytest.approx(math.log(1 + 0.01))
    assert (titled["dense"], scattered["dense"]) == (1.0, 0.0)
    # Without what asks: 白鹭渡口大桥 and 通车, of which the first text holds both whole, the
    # second 白鹭, 渡口, 大桥 and 通车.
    assert titled["pieces"] == pytest.approx((6**1.5 + 2**1.5) / 8**1.5)
    assert scattered["pieces"] == pytest.approx(4 * 2**1.5 / 8**1.5)
    assert titled["pieces of the sentence"] == pytest.approx(6**1.5 / 8**1.5)
    assert (titled["title"], scattered["title"]) == (1.0, 0.0)
    # 时候 asks for a date: it stands in the sentence after the heading.
    assert (titled["kind"], scattered["kind"]) == (1.0, 0.0)
    assert (titled["figures"], scattered["figures"]) == (0.0, 0.0)
    assert titled["length"] == pytest.approx(math.log(len(TITLED.chunk.text) + 1))
    assert titled["opening"] > scattered["opening"]


def test_a_figure_of_the_question_that_a_passage_lacks() -> None:
    has, lacks = figures(
        "2024年的补贴是多少？", passage(1, "2024年补贴120元。"), passage(2, "补贴")
    )
    assert (has["figures"], lacks["figures"]) == (0.0, 1.0)
    # The year was in the question; 120 is a number beyond it.
    assert (has["kind"], lacks["kind"]) == (1.0, 0.0)
    [neither] = figures("补贴由谁负责？", passage(1, "补贴"))
    assert neither["kind"] == 0.5


def test_a_passage_opens_with_the_last_of_its_headings() -> None:
    path = "河上的老桥和渡口，以及它们周围的村庄与道路的历史和现状，一九九九年修订版 > 白鹭渡口大桥"
    below, plain = figures(QUESTION, passage(1, "建于1987年。", heading=path), passage(2, "建成。"))
    assert (below["title"], plain["title"]) == (1.0, 0.0)
    assert below["opening"] > plain["opening"] == 0.0


def test_the_passage_with_the_whole_name_comes_first_with_the_greater_chance() -> None:
    ranking = LearnedReranker(Tokenizer()).rerank(QUESTION, [SCATTERED, TITLED], 2)
    assert ids(ranking) == [1, 2]
    assert sum(hit.score for hit in ranking) == pytest.approx(1)
    assert ranking[0].score > 0.5


@pytest.mark.parametrize("place", [0, 1, 2])
def test_passages_in_another_language_keep_their_places(place: int) -> None:
    candidates = [SCATTERED, TITLED]
    candidates.insert(place, ENGLISH)
    ranking = LearnedReranker(Tokenizer()).rerank(QUESTION, candidates, 3)
    expected = [1, 2]
    expected.insert(place, 3)
    assert ids(ranking) == expected
    scores = [hit.score for hit in ranking]
    assert sorted(scores, reverse=True) == scores
    assert len(set(scores)) == 3


def test_the_order_stays_where_question_or_passages_are_not_chinese() -> None:
    notes: list[Note] = []
    reranker = LearnedReranker(Tokenizer())
    candidates = [SCATTERED, TITLED]
    assert reranker.rerank("When was the bridge opened?", candidates, 2, notes.append) == candidates
    assert reranker.rerank(QUESTION, [ENGLISH], 1, notes.append) == [ENGLISH]
    values = {"reranker": "learned", "language": "en"}
    assert [(note.kind, note.values) for note in notes] == [("language not served", values)] * 2
    reranker.rerank(QUESTION, candidates, 2, notes.append)
    assert len(notes) == 2


def test_odd_chinese_texts_are_no_trouble() -> None:
    odd = [passage(1, "，。"), passage(2, "什么\ud800是\x00？"), passage(3, "词" * 20_000, 0.0)]
    reranker = LearnedReranker(Tokenizer())
    for question in ("是什么？", "词" * 20_000, "多少？谁？"):
        ranking = reranker.rerank(question, odd, 3)
        assert sorted(ids(ranking)) == [1, 2, 3]
        assert all(math.isfinite(hit.score) for hit in ranking)
    assert reranker.rerank(QUESTION, (), 3) == []
