"""Which passages are worth reading, by the words of the question that they have."""

from __future__ import annotations

import pytest

from localrag.rag.question_words import Asked, FewerWords
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, ScoredChunk

ENGLISH = [
    "The glass house has a pond.",
    "Orchids grow in the glass house.",
    "The glass roof was restored.",
    "A pond lies behind the tea room.",
    "The mayor opened the glass house.",
]
CHINESE = "温室由市长在1907年开放。"


def found(texts: list[str], *, ranked: bool = True) -> list[ScoredChunk]:
    return [
        ScoredChunk(Chunk(n, "d", n, text, "", 1, 1, 0, len(text)), 1 - ranked * n / 100, "a.txt")
        for n, text in enumerate(texts)
    ]


def passed_over(question: str, passages: list[ScoredChunk]) -> list[int]:
    numbers = range(1, len(passages) + 1)
    fewer = FewerWords(Asked(question, Tokenizer(None)), passages)
    return [n for n in numbers if fewer.in_passage(n)]


def test_what_has_fewer_words_than_a_passage_before_it_is_passed_over() -> None:
    assert passed_over("Who opened the glass house?", found(ENGLISH)) == [4]


def test_the_first_three_are_read_whatever_they_have() -> None:
    texts = [ENGLISH[4], ENGLISH[3], ENGLISH[3], ENGLISH[3]]
    assert passed_over("Who opened the glass house?", found(texts)) == [4]


def test_where_nothing_is_ranked_all_are_read() -> None:
    assert passed_over("Who opened the glass house?", found(ENGLISH, ranked=False)) == []


@pytest.mark.parametrize(
    ("texts", "over"),
    [
        ([*ENGLISH[:3], CHINESE, ENGLISH[3]], [5]),  # the Chinese one may well hold it
        ([CHINESE, CHINESE, CHINESE, ENGLISH[3]], []),  # and says nothing of an English one
    ],
)
def test_words_of_another_language_count_neither_way(texts: list[str], over: list[int]) -> None:
    assert passed_over("Who opened the glass house?", found(texts)) == over


def test_in_chinese() -> None:
    texts = ["温室有池塘。", "温室里种着兰花。", "玻璃屋顶已修复。", "茶室六点关门。", CHINESE]
    assert passed_over("温室是由谁开放的？", found(texts)) == [4]


def test_a_question_is_taken_apart_once_for_all_passages() -> None:
    cut: list[str] = []
    tokenizer = Tokenizer(None)

    def tokenize(text: str) -> list[str]:
        cut.append(text)
        return tokenizer(text)

    question = Asked("Who opened the glass house?", tokenize)
    lacking = [question.missing(text) for text in ENGLISH]
    assert [words for words, _ in lacking][3:] == [("opened", "glass", "house"), ()]
    assert [share for _, share in lacking][3:] == [1.0, 0.0]
    assert {"glass", "house", "opened", *ENGLISH} <= set(cut)
    assert len(cut) == len(set(cut))
