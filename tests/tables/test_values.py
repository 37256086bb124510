"""Typed values from sentences and cells, in English and Chinese."""

from __future__ import annotations

import pytest
from counting import seconds

from localrag.tables.records import ColumnKind
from localrag.tables.values import (
    amount_in,
    date_in,
    date_order,
    decimal_comma,
    is_empty,
    kind_of,
    value_in,
)


@pytest.mark.parametrize(
    ("sentence", "kind", "text", "unit"),
    [
        ("The lease ends on 31 December 2026.", "date", "2026-12-31", ""),
        ("合同有效期至2026年6月1日。", "date", "2026-06-01", ""),
        ("Liability is limited to GBP 400,000.", "money", "400000", "GBP"),
        ("The price is £1.5 million.", "money", "1500000", "GBP"),
        ("履约保证金为2万元。", "money", "20000", "CNY"),
        ("Three months' notice is required.", "number", "3", "month"),
        ("应当提前七十五日书面通知。", "number", "75", "day"),
        ("应当提前30日书面通知。", "number", "30", "day"),
        ("Yes, it renews.", "yes/no", "yes", ""),
        ("不会自动续期。", "yes/no", "no", ""),
    ],
)
def test_the_value_of_a_sentence(sentence: str, kind: ColumnKind, text: str, unit: str) -> None:
    value = value_in(sentence, kind)
    assert value is not None
    assert (value.kind, value.text, value.unit) == (kind, text, unit)


def test_several_values_are_none() -> None:
    assert value_in("It runs from 1 May 2024 to 30 April 2026.", "date") is None
    assert value_in("EUR 10 or EUR 20.", "money") is None


def test_what_the_question_says_is_not_the_answer() -> None:
    value = value_in("In 2026 it is 12.", "number", "What is it in 2026?")
    assert value is not None
    assert value.text == "12"


def test_no_is_told_from_a_number() -> None:
    assert value_in("No. 3 applies.", "yes/no") is None


def test_a_column_has_the_kind_of_most_replies() -> None:
    question = "When does it end?"
    dates = [("On 1 May 2026.", question), ("1 June 2027", question), ("never", question)]
    assert kind_of(dates) == "date"
    assert kind_of([("English law", ""), ("Swiss law", "")]) == "text"
    assert kind_of([]) == "text"


@pytest.mark.parametrize(
    ("cell", "number", "unit"),
    [
        ("1,234.50", 1234.5, ""),
        ("(1,234)", -1234, ""),
        ("-£3", -3, "GBP"),
        ("3.5%", 3.5, "%"),
        ("12 万元", 120000, "CNY"),
        ("US$ 5m", 5_000_000, "USD"),
        ("1 234", 1234, ""),
    ],
)
def test_a_cell_that_is_a_number(cell: str, number: float, unit: str) -> None:
    assert amount_in(cell) == (number, unit)


@pytest.mark.parametrize("cell", ["3-1", "1,23", "12:30", "n/a", "about 5", "(3", "1.2.3"])
def test_a_cell_that_is_none(cell: str) -> None:
    assert amount_in(cell) is None


def test_a_column_says_what_its_commas_mean() -> None:
    assert decimal_comma(["1.234,50", "7,5"])
    assert not decimal_comma(["1,234", "1,234.5"])
    assert amount_in("1.234,50", comma=True) == (1234.5, "")


def test_a_column_says_what_comes_first_in_its_dates() -> None:
    assert date_order(["03/04/2025", "13/04/2025"]) == "day first"
    assert date_order(["03/04/2025", "03/14/2025"]) == "month first"
    assert date_order(["03/04/2025"]) is None
    assert date_in("03/04/2025") is None
    assert date_in("03/04/2025", "day first") == "2025-04-03"
    assert date_in("2026年1月6日") == "2026-01-06"
    assert date_in("6-Jan-26") == date_in("06-Jan-2026 14:05") == "2026-01-06"
    assert date_in("31-Feb-25") is None
    assert date_in("31/02/2025", "day first") is None


def test_signs_for_nothing() -> None:
    assert all(map(is_empty, ("", "-", "—", "n/a", "无")))
    assert not is_empty("0")


def test_a_date_in_figures_counts_where_its_day_shows_the_order() -> None:
    value = value_in("17/02/2025", "date")
    assert value is not None
    assert value.text == "2025-02-17"
    assert value_in("03/04/2025", "date") is None
    assert value_in("Either 17/02/2025 or 18/02/2025.", "date") is None


@pytest.mark.parametrize("signs", [" " * 150, "1" + "\u00a0 " * 75 + "x", "(" + " " * 150 + "1x"])
def test_blanks_in_a_cell_cost_no_time(signs: str) -> None:
    for text in (signs + "1 x", signs[:60] + "1 x"):
        assert amount_in(text) is None
        assert seconds(lambda: amount_in(text)) < 0.1  # noqa: B023


def test_a_number_of_hundreds_of_digits_is_text() -> None:
    assert amount_in("9" * 400) is None
