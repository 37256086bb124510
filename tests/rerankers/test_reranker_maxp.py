"""Long passages are read in windows of whole sentences, and the best window counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.rerankers.maxp import (
    MOST_WINDOWS,
    WINDOW_TOKENS,
    CrossEncoderReranker,
    windows,
)


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def sentence(name: str, length: int) -> str:
    return " ".join([name, *["tide"] * (length - 2), "rose."])


def names(pieces: Sequence[str]) -> list[list[str]]:
    return [[word for word in piece.split() if word[0].isupper()] for piece in pieces]


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def test_what_fits_a_window_and_a_half_stays_whole() -> None:
    text = " ".join(sentence(letter, 16) for letter in LETTERS[:9])
    assert words([text]) == [WINDOW_TOKENS * 3 // 2]
    assert windows(text, words) == [text]
    assert len(windows(text + " More.", words)) > 1


def test_neighbours_share_a_sentence_and_each_has_the_heading() -> None:
    text = "The Harbour\n" + " ".join(sentence(letter, 32) for letter in LETTERS[:6])
    pieces = windows(text, words)
    assert names(pieces) == [
        ["The", "Harbour", *"ABC"],
        ["The", "Harbour", *"CDE"],
        ["The", "Harbour", *"EF"],
    ]
    assert all(piece.startswith("The Harbour\n") for piece in pieces)


def test_a_long_first_line_is_not_repeated() -> None:
    text = sentence("A", 33) + "\n" + " ".join(sentence(letter, 32) for letter in "BCDEF")
    assert names(windows(text, words)) == [["A", "B"], ["B", "C", "D"], ["D", "E", "F"]]


def test_a_sentence_longer_than_a_window_is_one_by_itself() -> None:
    text = " ".join([sentence("A", 40), sentence("B", 300), sentence("C", 40), sentence("D", 40)])
    assert names(windows(text, words)) == [["A"], ["B"], ["C", "D"]]


def test_no_more_windows_than_a_person_would_wait_for() -> None:
    text = " ".join(sentence(letter, 90) for letter in LETTERS)
    assert names(windows(text, words)) == [[letter] for letter in LETTERS[:MOST_WINDOWS]]


def test_chinese_sentences_are_cut_where_they_end() -> None:
    text = "".join(f"第{number}天的潮水高过了码头上的旧石阶。" for number in "一二三四五六七八九")
    pieces = windows(text, characters)
    assert len(pieces) == 2
    assert all(piece in text and piece.endswith("。") for piece in pieces)
    assert pieces[0].startswith("第一天")
    assert pieces[1].endswith("旧石阶。")


def test_white_space_alone_is_a_window_too() -> None:
    assert windows("", words) == [""]
    assert windows(" \n ", lambda texts: [1000] * len(texts)) == [" \n "]


class ByWords(CrossEncoderReranker):
    """Scores by length, but for a window that holds a Z."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return words(texts)

    def _logits(self, query: str, windows: Sequence[str]) -> NDArray[np.float32]:
        self.asked.extend(windows)
        return np.array([7.0 if "Z" in text else -float(len(text)) for text in windows], np.float32)


def test_the_best_window_counts() -> None:
    model = ByWords()
    long = " ".join(sentence(letter, 60) for letter in "ABZD")
    scores = model.scores("?", ["ebb", long, "flood"])
    assert scores.dtype == np.float32
    assert scores.tolist() == [-3.0, 7.0, -5.0]
    assert names(model.asked) == [[], ["A"], ["B"], ["Z"], ["D"], []]


def test_nothing_to_read() -> None:
    model = ByWords()
    assert model.scores("?", []).shape == (0,)
    assert not model.asked
