from __future__ import annotations

import pytest

from localrag.text.figures import (
    Figure,
    counts_asked,
    figures,
    figures_not_in,
    han_value,
    with_digits,
)


def one(text: str) -> Figure:
    (figure,) = figures(text)
    return figure


@pytest.mark.parametrize(
    ("text", "said", "value", "units"),
    [
        ("It holds 6,240 species.", "6,240", 6240, {"specie"}),
        ("It cost $3.5 million.", "3.5 million", 3_500_000, {"$"}),
        ("nearly 2.5 billion euros", "2.5 billion", 2.5e9, {"€"}),
        ("75 percent of them", "75", 75, {"%"}),
        ("75% of them", "75", 75, {"%"}),
        ("twenty-five plants", "twenty-five", 25, {"plant"}),
        ("two hundred and ten people", "two hundred and ten", 210, {"people"}),
        ("the 3rd edition", "3rd", 3, {"edition"}),
        ("共有三百二十名", "三百二十", 320, {"人"}),
        ("约2.5万元", "2.5万", 25_000, {"¥"}),
        ("一千元", "一千", 1000, {"¥"}),
        ("百分之十五", "十五", 15, {"%"}),
        ("1.2亿册", "1.2亿", 120_000_000, {"册"}),
        ("二点五米", "二点五", 2.5, {"米"}),
    ],
)
def test_numbers_with_their_units(text: str, said: str, value: float, units: set[str]) -> None:
    figure = one(text)
    assert text[figure.start : figure.end] == said
    assert (figure.kind, figure.value, figure.units) == ("number", (value,), units)


def test_the_month_behind_a_count_is_not_its_unit() -> None:
    text = "第一批10,000个7月30日送到仓库。"
    assert [figure.units for figure in figures(text) if figure.kind == "number"] == [frozenset()]
    question = "第一批哪天送过去，送多少个？"
    stated = "第一批在7月30日送到，送了10,000个。"
    assert figures_not_in(stated, [text, question], counts_asked(question)) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("in 1907", (1907, None, None)),
        ("opened on 3 May 1907", (1907, 5, 3)),
        ("opened on May 3rd, 1907", (1907, 5, 3)),
        ("since June 1999", (1999, 6, None)),
        ("paid 3-Mar-25", (2025, 3, 3)),
        ("paid 3-mar-1998", (1998, 3, 3)),
        ("1998年5月3日", (1998, 5, 3)),
        ("一九九八年", (1998, None, None)),
        ("5月3日", (None, 5, 3)),
        ("每月25日", (None, None, 25)),
        ("2024-03-01", (2024, 3, 1)),
    ],
)
def test_dates(text: str, value: tuple[int | None, ...]) -> None:
    assert (one(text).kind, one(text).value) == ("date", value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("at 8:30", (8, 30)), ("at 6 pm", (18, 0)), ("下午三点半", (15, 30)), ("上午十点", (10, 0))],
)
def test_times(text: str, value: tuple[int, int]) -> None:
    assert (one(text).kind, one(text).value) == ("time", value)


@pytest.mark.parametrize(
    "text", ["十分好", "万一下雨", "统一", "一个", "GB/T3620.1", "one of them", "the 1990s", "v2"]
)
def test_what_is_no_figure(text: str) -> None:
    assert figures(text) == []


@pytest.mark.parametrize(
    ("one_text", "other", "agrees"),
    [
        ("about 12,000 people", "12,084 people", True),
        ("12,000 people", "12,084 people", False),
        ("320 people", "三百二十人", True),
        ("3 May 1907", "in 1907", True),
        ("3 May 1907", "in May 1908", False),
        ("1968年", "1968年6月", True),
        ("8:30", "8:00", False),
        ("in 1907", "1907 people", False),
    ],
)
def test_agreement(one_text: str, other: str, agrees: bool) -> None:
    assert one(one_text).agrees(one(other)) is agrees
    assert one(other).agrees(one(one_text)) is agrees


@pytest.mark.parametrize(
    ("one_text", "other", "comparable"),
    [
        ("48 hectares", "52 hectares", True),
        ("48 hectares", "48 species", False),
        ("120名", "95位", True),
        ("$5", "5 euros", False),
        ("in 1907", "5 May", False),
    ],
)
def test_what_can_be_compared(one_text: str, other: str, comparable: bool) -> None:
    assert one(one_text).comparable(one(other)) is comparable


@pytest.mark.parametrize(
    ("numeral", "value"),
    [
        ("三百二十", 320),
        ("一万零五", 10_005),
        ("两亿三千万", 230_000_000),
        ("一九九八", 1998),
        ("十五", 15),
    ],
)
def test_chinese_numerals(numeral: str, value: float) -> None:
    assert han_value(numeral) == value


@pytest.mark.parametrize(
    ("text", "other", "missing"),
    [
        ("In which month of 2021 did it open?", "它于二〇二一年三月开放。", []),
        ("In which month of 2021 did it open?", "It opened in March 2020.", ["2021"]),
        ("What does the M40 cost?", "The M40 costs 149 euros.", []),
        ("Which three towers are there?", "There are towers.", []),
        ("Who paid 1,200 euros in 1907?", "She paid 1200 euros.", ["1907"]),
    ],
)
def test_the_figures_that_stand_nowhere_else(text: str, other: str, missing: list[str]) -> None:
    assert [text[f.start : f.end] for f in figures_not_in(text, [other])] == missing


@pytest.mark.parametrize(
    "text",
    [
        "It costs EUR " + "9" * 400 + ".",
        "It takes -" + "9" * 308 + " days.",
        "0" + "万亿" * 60 + "元",
        "共九" + "万亿" * 40 + "元",
        "nine " + "hundred " * 400 + "pounds",
    ],
)
def test_what_is_larger_than_any_amount_is_no_figure(text: str) -> None:
    assert figures(text) == []


def test_a_long_number_of_an_account_is_a_figure() -> None:
    number = "6222021234567890123"
    assert figures_not_in(f"Account {number}.", ["Account 6222029999567890123."])
    assert not figures_not_in(f"Account {number}.", [f"帐号{number}"])


def test_a_long_line_of_figures_takes_no_long_time() -> None:
    text = "In 1907 there were 3,000 people and 二百 more, 5% of them; " * 2000
    assert len(figures(text)) == 8000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "合同总价一百八十万元，首期30万元。",
            "合同总价一百八十万 (1,800,000)元，首期30万 (300,000)元。",
        ),
        ("1.8 million pounds", "1.8 million (1,800,000) pounds"),
        (
            "3,500 units in 2024, three of them on 5 May",
            "3,500 units in 2024, three of them on 5 May",
        ),
        ("二〇二五年三月一日", "二〇二五年三月一日"),
        ("", ""),
    ],
)
def test_large_numbers_in_words_get_their_digits(text: str, shown: str) -> None:
    assert with_digits(text) == shown


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("还有几单没到货？", "单"),
        ("一共多少笔？", "笔"),
        ("多少单位参加？", ""),
        ("几乎没有吗？", None),
    ],
)
def test_what_is_counted_in_chinese(question: str, unit: str | None) -> None:
    assert counts_asked(question) == unit
