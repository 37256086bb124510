"""What is known of words beyond the passages of a library."""

from __future__ import annotations

import math

import pytest

from localrag.text.background import PASSAGES, idf, smoothed
from localrag.text.tokenize import Tokenizer


@pytest.mark.parametrize(
    ("spoken", "telling"),
    [("how far back can we look at the CCTV", "cctv"), ("我想看一下尾款还差多少", "尾款")],
)
def test_of_words_that_no_document_has_more_often_the_rarer_tells_more(
    spoken: str, telling: str
) -> None:
    terms = set(Tokenizer()(spoken))
    assert telling in terms
    assert len(terms) > 1
    weights = {term: idf(term, 2, 200) for term in terms}
    assert max(weights, key=lambda term: weights[term]) == telling
    assert weights[telling] > 1.1 * max(weights[term] for term in terms - {telling})


def test_a_word_that_nobody_knows_has_its_own_count_alone() -> None:
    assert smoothed("qqqzzz", 3, 200) == (3.0, 200.0 + PASSAGES)


def test_among_a_million_passages_nothing_changes() -> None:
    plain = math.log(1 + (1_000_000 - 50_000 + 0.5) / (50_000 + 0.5))
    assert idf("look", 50_000, 1_000_000) == pytest.approx(plain, rel=1e-3)
    assert idf("look", 1, 10) < idf("qqqzzz", 1, 10)


def test_no_weight_is_negative() -> None:
    assert idf("it", 10, 10) >= 0.0
    assert idf("qqqzzz", 10, 10) > 0.0
