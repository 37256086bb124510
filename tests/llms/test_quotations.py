from __future__ import annotations

import pytest

from localrag.egress.quotations import Quotations, contains

PRIVATE = (
    "The wages of the night shift are raised by eleven percent from the first of March onward, "
    "and nobody outside the board is to hear of it before the meeting in the town hall. "
) * 3
CHINESE = (
    "夜班工人的工资自三月一日起上调百分之十一，"
    "在市政厅会议之前不得告知董事会以外的任何人，违者按章处理。"
)


@pytest.mark.parametrize("start", range(0, 40, 7))
def test_any_run_of_ten_words_is_found(start: int) -> None:
    quoted = PRIVATE[start : start + 75]
    assert Quotations([PRIVATE]).quoted(f"Is this so: {quoted}?")


def test_blanks_punctuation_and_capitals_do_not_hide_it() -> None:
    text = "THE WAGES, of the Night-Shift:\n are * raised by\televen percent from the first"
    assert Quotations([PRIVATE]).quoted(text)


@pytest.mark.parametrize("start", range(0, 20, 3))
def test_any_run_of_25_chinese_characters_is_found(start: int) -> None:
    assert Quotations([CHINESE]).quoted("请问：" + CHINESE[start : start + 27] + "对吗？")


def test_the_same_subject_in_other_words_is_no_quotation() -> None:
    quotations = Quotations([PRIVATE, CHINESE])
    assert not quotations.quoted("By how much do the wages of the night shift rise in March?")
    assert not quotations.quoted("夜班工人的工资什么时候上调？上调多少？")


def test_what_others_hold_too_is_no_secret() -> None:
    shared = "Licensed under the terms and conditions of the agreement that is attached below."
    quotations = Quotations([PRIVATE + shared])
    assert quotations.quoted(shared)
    assert not quotations.quoted(f"It says: {shared}", apart_from=[f"A public text. {shared}"])
    assert quotations.quoted(f"{shared} {PRIVATE}", apart_from=[shared])


def test_a_short_private_text_is_known_as_a_whole() -> None:
    quotations = Quotations(["PIN of the safe: 482 119", "ok"])
    assert quotations.quoted("My pin of the safe is? PIN of the safe: 482119")
    assert not quotations.quoted("Is that ok? What is the PIN of the safe?")


def test_a_passage_is_recognised_in_a_prompt_also_where_its_end_is_cut() -> None:
    passage = PRIVATE[:150]
    assert contains(f"Passage:\n{passage}\nQuestion", passage)
    assert contains(f"Passage:\n{passage[:80]}…", passage)
    assert not contains("Passage: something else", passage)
    assert not contains("anything", "")
