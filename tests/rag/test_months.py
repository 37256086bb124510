"""Rows of another month than the one that a question is about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fakes import HashEmbedder

from localrag.models.llms.base import Attention
from localrag.models.llms.probes import Direction, Pointer
from localrag.rag.citations import Attributor
from localrag.rag.months import are_of_others, is_of_another
from localrag.rag.pointing import pointed
from localrag.text.figures import Month, month_asked
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, Columns, Place, ScoredChunk

APRIL = Month(frozenset({4}))
NAMES = ("Day", "Room", "°C")


def rows(
    *lines: str, source: str = "log.csv", title: str = "", names: tuple[str, ...] = NAMES
) -> ScoredChunk:
    text = "\n".join(lines)
    columns = (Columns(0, len(text), names),)
    chunk = Chunk(1, "d", 0, text, "", 1, 1, 0, len(text), columns, title=title)
    return ScoredChunk(chunk, 0.9, source)


LOG = rows("5/19 | cold room 3 | -18.1", "5/20 | cold room 3 | -18.4", "5/21 | cold room 3 | -18.3")


@pytest.mark.parametrize(
    ("question", "month"),
    [
        ("How cold was room 3 on 21 April?", 4),
        ("4月21号3号冷间几度", 4),
        ("what did joan earn last oct", 10),
        ("十二月的电费", 12),
        ("lift test on bus 2 jan", 1),
        ("What may I claim, and march on?", None),
        ("deliveries since March", None),
        ("everything until the end of may", None),
        ("3月以来的运费", None),
        ("3个月的押金", None),
        ("from January to March", None),
        ("invoices after 2025-03-01", None),
        ("1-3月一共卖了多少茶", None),
        ("1、2月", None),
        ("12月期存款的利率", None),
        ("3月中旬以后", None),
        ("since mid-March", None),
        ("reachable 24/7?", None),
        ("who is on the 3 may", 5),
        ("March vs April: which month sold more?", None),
        ("May I see the bill of April?", 4),
        ("Hello\nMay I bring a dog?", None),
        ("deliveries after Friday 28 March", None),
        ("before the last week of May", None),
        ("excluding April, which month was warmest?", None),
        ("4月除外哪个月最高", None),
        ("请问，4月份水费多少", 4),
        ("how cold was it", None),
    ],
)
def test_the_month_that_a_question_is_about(question: str, month: int | None) -> None:
    asked = month_asked(question)
    assert (asked and asked.numbers) == (month and {month})


@pytest.mark.parametrize(
    ("row", "other"),
    [
        ("Day: 5/21 | Room: 3 | °C: -18.3", True),
        ("Day: 4/21 | Room: 3", False),
        ("Day: 21.05.2026 | Room: 3", True),
        ("Delivery date: 21.05.2026 | Room: 3", True),
        ("Commencement date: 21.05.2026 | Rent: 500", False),
        ("Date: from 21 May | Price: 5", False),
        ("日期: 2025年5月起 | 单价: 0.62", False),
        ("执行日期: 2025-01-01 | 电价: 0.62", False),
        ("Start date: 21.05.2026 | Room: 3", False),  # it may hold in April
        ("Paid: 21.05.2026 | Room: 3", False),
        ("21.05.2026 | Room: 3", False),
        ("抄表日期: 5月21日", True),
        ("启用日期: 5月21日", False),
        ("Day: 2026-04-30", False),
        ("日期: 5月21日", True),
        ("From: 1 March | To: 30 June", False),  # April is between them
        ("Room: 3 | °C: 8.2", False),
        ("Name: April Dunn | Since: 2019", False),
        ("Due: 05/04/25", False),  # whichever of both is the month
    ],
)
def test_a_row_of_another_month_has_its_date_alone(row: str, other: bool) -> None:
    assert is_of_another(APRIL, row) == other
    assert not is_of_another(None, row)


def test_a_passage_of_other_months_alone() -> None:
    assert are_of_others(APRIL, LOG)
    assert not are_of_others(Month(frozenset({5})), LOG)
    assert not are_of_others(None, LOG)
    assert not are_of_others(APRIL, rows("5/19 | cold room 3", "4/21 | cold room 3"))
    assert not are_of_others(APRIL, rows("5/19 | till 6/2", "5/20 | till 5/21"))
    prose = ScoredChunk(Chunk(1, "d", 0, "Closed in May.", "", 1, 1, 0, 14), 0.9, "n.txt")
    assert not are_of_others(APRIL, prose)


@pytest.mark.parametrize(
    ("source", "title", "other"),
    [
        ("billing_nov.xlsx", "", True),
        ("billing_2024-11.xlsx", "", True),
        ("billing.xlsx", "11月账单", True),
        ("billing.xlsx", "", False),
        ("billing_dec.xlsx", "", False),
        ("billing_nov_dec.xlsx", "", False),
        ("账单_202411.xlsx", "", True),
    ],
)
def test_rows_without_dates_are_of_the_month_of_their_file(
    source: str, title: str, other: bool
) -> None:
    lines, names = ("C39 | Fenn | 41.00", "C40 | Dunn | 12.00"), ("Unit", "Name", "Owes")
    passage = rows(*lines, source=source, title=title, names=names)
    assert are_of_others(Month(frozenset({12})), passage) == other


@pytest.mark.parametrize("column", ["Month", "月份"])
def test_a_column_that_says_when_goes_before_the_file(column: str) -> None:
    names = (column, "Sales")
    assert not are_of_others(APRIL, rows("3 | 100", "4 | 200", source="s_2024-06.csv", names=names))


def told(passage: ScoredChunk, question: str, shares: Sequence[float]) -> tuple[str, bool]:
    """The row that is pointed to, by what is paid to each, and whether that is sure."""
    attributor = Attributor([passage], Tokenizer(), lambda *_: Place(0), HashEmbedder())
    texts = [row.standing.encode() for row in attributor.sentences(1)][-len(shares) :]
    text = b"\n".join(texts)
    paid = np.full(len(text), 1e-9, np.float32)
    for part, share in zip(texts, shares, strict=True):
        start = text.find(part)
        paid[start : start + len(part)] = share / len(part)
    attention = Attention(lambda: paid[None, None], np.arange(1, len(text) + 1), text)
    pointer = Pointer(Direction(np.array([1.0], np.float32), 0.0, 0), attention)
    first = pointed(question, 1, passage, attributor, pointer, "en")[0]
    return first.text, first.is_sure


def test_no_row_of_another_month_is_pointed_to() -> None:
    names = ("Day", "Room", "Afternoon", "Read by", "State")
    days = ("5/21", "4/20", "4/21")
    lines = (f"{day} | cold room 3 | -18.{n} | Martin | normal" for n, day in enumerate(days))
    passage = rows(" | ".join(names), *lines, names=names)
    asked = "How cold was room 3 on 21 April?"
    may, april = (
        f"Day: {day} | Room: cold room 3 | Afternoon: {cold} | Read by: Martin | State: normal"
        for day, cold in (("5/21", "-18.0"), ("4/21", "-18.2"))
    )
    assert told(passage, "How cold was room 3?", (0.9, 0.02, 0.08))[0] == may
    assert told(passage, asked, (0.4, 0.02, 0.58)) == (april, True)
    # Of what little is paid to April the most says nothing.
    assert told(passage, asked, (0.6, 0.02, 0.38)) == (april, False)


@pytest.mark.parametrize(
    ("question", "row", "other"),
    [
        ("What did Fenn owe in December 2023?", "Day: 3/12/2024 | Owes: 41", True),
        ("What did Fenn owe in December 2024?", "Day: 3/12/24 | Owes: 41", False),
        ("What did Fenn owe in December?", "Day: 3 December 2024 | Owes: 41", False),
        ("2023年12月芬恩欠多少", "日期: 2024年12月3日 | 欠款: 41", True),
        ("2023年12月芬恩欠多少", "日期: 12月3日 | 欠款: 41", False),
    ],
)
def test_a_year_tells_months_apart_where_both_have_one(
    question: str, row: str, other: bool
) -> None:
    assert is_of_another(month_asked(question), row) == other


def test_of_two_rows_that_fill_a_passage_one_is_pointed_to() -> None:
    lines = (
        "LT-20 | Al Murjaan | pears | 320 | 1,135",
        "total | all of them | all | 8,090 | 35,530",
    )
    names = ("Invoice", "Customer", "Goods", "Boxes", "Freight USD")
    text = "\n".join(lines)
    chunk = Chunk(1, "d", 40, text, "", 1, 1, 40, 40 + len(text), (Columns(0, len(text), names),))
    first, is_sure = told(
        ScoredChunk(chunk, 0.9, "shipping.xlsx"), "What was the freight of the pears?", (0.9, 0.1)
    )
    assert first.endswith("Freight USD: 1,135")
    assert is_sure
