"""The seed algorithm, with scores computed by hand."""

from __future__ import annotations

import pytest
from rerank_passages import ids, passage

from localrag.rerankers.keyword import KeywordReranker, keywords


def score(question: str, text: str, similarity: float = 0.4) -> float:
    return KeywordReranker().rerank(question, [passage(1, text, similarity)], 1)[0].score


def test_keywords_are_words_longer_than_three_letters_and_jieba_words() -> None:
    assert keywords("Who can use the Perceptron, the perceptron?") == ["perceptron"]
    assert keywords("感知机是谁提出的？") == ["感知机", "提出"]
    assert keywords("什么是人工智能？") == ["人工智能"]
    assert keywords("RAG 系统如何使用 FAISS？") == ["系统", "使用", "faiss"]
    assert keywords("") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 0.5 x 0.4, and no keyword.
        ("nothing of the kind", 0.2),
        # + 0.1 present, + 0.1 in the first quarter, + 0.05 for one occurrence.
        ("perceptron and so on, and on, and on, and on", 0.2 + 0.1 + 0.1 + 0.05),
        # The same behind the first quarter.
        ("and so on, and on, and on, and on: perceptron", 0.2 + 0.1 + 0.05),
        # Three occurrences: 0.15.
        ("perceptron perceptron perceptron", 0.2 + 0.1 + 0.1 + 0.15),
        # Five occurrences: 0.25, of which 0.2 count.
        ("perceptron " * 5, 0.2 + 0.1 + 0.1 + 0.2),
        # Within a longer word, whatever the case.
        ("PERCEPTRONS of many layers and many nodes", 0.2 + 0.1 + 0.1 + 0.05),
    ],
)
def test_english_scores_by_hand(text: str, expected: float) -> None:
    assert score("the perceptron?", text) == pytest.approx(expected)


def test_first_quarter_means_before_a_quarter_of_the_length() -> None:
    # 20 characters: position 4 is early, position 5 is not.
    assert score("word", "...." + "word" + "." * 12) == pytest.approx(0.2 + 0.1 + 0.1 + 0.05)
    assert score("word", "....." + "word" + "." * 11) == pytest.approx(0.2 + 0.1 + 0.05)


def test_chinese_scores_by_hand() -> None:
    # 人工智能 (early, once) and 历史 (late, twice); 的 is grammar.
    text = "人工智能很年轻。它走过了几十年曲折的路，这段历史值得一读，也是一部人的历史。"
    expected = 0.5 * 0.4 + (0.1 + 0.1 + 0.05) + (0.1 + 0.1)
    assert score("人工智能的历史", text) == pytest.approx(expected)
    assert score("人工智慧的歷史", "歷史") == pytest.approx(0.2 + 0.1 + 0.1 + 0.05)


def test_keywords_lift_a_passage_above_a_more_similar_one() -> None:
    passages = [
        passage(1, "小猫在屋顶上晒太阳。", 0.9),
        passage(2, "反向传播算法训练多层网络。", 0.6),
    ]
    assert ids(KeywordReranker().rerank("反向传播算法是什么？", passages, 2)) == [2, 1]
