"""A sentence that was not checked looks checked nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answers import answer as answered

from localrag.presentation.answers import rendered, sentences
from localrag.presentation.comparisons import rated
from localrag.presentation.records import plain
from localrag.prompts import render
from localrag.types import Answer, Citation, Rating, SupportedSentence

QUOTE = "购买后三十天内可以凭收据退款。"


def answer(text: str, *support: SupportedSentence) -> Answer:
    citations = (Citation(1, 1, "a.txt", 1, QUOTE),)
    return answered(text, citations, support, question="可以退款吗？", language="zh")


def test_a_quotation_is_no_check() -> None:
    reply = answer("可以[1]。")
    assert [sentence["mark"] for sentence in sentences(reply)] == ["unchecked"]
    assert plain(reply)["unchecked"] == ["可以[1]。"]
    assert [sentence["rating"] for sentence in rated(reply) if sentence["text"]] == ["not checked"]


@pytest.mark.parametrize(
    ("rating", "quoted", "mark"),
    [
        ("fully supported", True, "quoted"),
        ("fully supported", False, "supported"),
        ("partially supported", False, "partly"),
        ("no support", False, "not"),
    ],
)
def test_what_was_checked_is_said_as_it_was(rating: Rating, quoted: bool, mark: str) -> None:
    # A server that writes its verdict is as sure as a quotation, and is none.
    reply = answer("可以[1]。", SupportedSentence(0, 6, rating, 1.0, quoted))
    assert [sentence["mark"] for sentence in sentences(reply)] == [mark]
    assert rendered(reply).unchecked == []


def test_what_claims_nothing_needs_no_check() -> None:
    refusal = render("refusal", "zh")
    assert rendered(replace(answer(refusal), grounded=False)).unchecked == []
