"""What a document is, told by its title, its path and its beginning."""

from __future__ import annotations

import pytest

from localrag.documents.cards import card_of, card_text, date_words
from localrag.types import CardKind


def test_a_contract_with_its_party_dates_and_number() -> None:
    head = (
        "Maintenance agreement no. MA-2024-017\nbetween Ottway Electronics Ltd and the housing "
        "association\nSupplier: Brenn & Sons\nSigned on 3 March 2024."
    )
    card = card_of("Maintenance agreement", "/home/x/contracts/2024/OttwayLease_v2.docx", head)
    assert (card.kind, card.name) == ("contract", "Ottway Lease v2")
    assert card.folders == ("x", "contracts", "2024")
    assert card.parties == ("Brenn & Sons", "Ottway Electronics Ltd")
    assert card.numbers == ("MA-2024-017",)
    assert card.dates == ("2024-03-03",)
    assert "Ottway" in card_text(card)
    assert "contracts" in card_text(card)


def test_a_chinese_contract() -> None:
    head = (
        "甲方（委托方）：滨江物业管理有限公司\n乙方：净安保洁有限公司\n"
        "合同编号 HT-2025-08\n二〇二五年三月一日"
    )
    card = card_of("保洁服务合同", "/档案/外包/保洁-2025.docx", head)
    assert card.kind == "contract"
    assert card.parties[:2] == ("滨江物业管理有限公司", "净安保洁有限公司")
    assert card.numbers == ("HT-2025-08",)
    assert "2025-03-01" in card.dates


@pytest.mark.parametrize(
    ("title", "source", "kind"),
    [
        ("Amendment to the lease", "a.docx", "amendment"),
        ("租赁合同补充协议", "a.docx", "amendment"),
        ("Invoice 4711", "invoice-4711.pdf", "invoice"),
        ("Partners' meeting", "minutes-2026-02-11.md", "minutes"),
        ("Costs", "costs.xlsx", "sheet"),
        ("Re: the keys", "2026-03-05.eml", "mail"),
        ("Report on invoices", "x.pdf", ""),
        ("The glass house", "x.pdf", ""),
        ("Leasehold gardens", "x.pdf", ""),
    ],
)
def test_a_kind_is_told_only_where_it_is_sure(title: str, source: str, kind: CardKind) -> None:
    assert card_of(title, source, "").kind == kind


def test_paths_of_windows_and_names_of_all_lengths() -> None:
    card = card_of("t", r"C:\Users\li\合同\租赁_2024.docx", "")
    assert (card.name, card.folders) == ("租赁 2024", ("Users", "li", "合同"))
    assert card_of("", "x" * 250, "").name == "x" * 250
    assert card_of("", "", "") == card_of("", "", "")


@pytest.mark.parametrize("noise", ["A " * 300, "（" * 600, "INV-" * 150, "1" * 600, "a:" * 300])
def test_a_hostile_beginning_takes_no_time(noise: str) -> None:
    card = card_of(noise[:200], "x.txt", noise)
    assert len(card.parties) <= 6


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("see INV-2024-017, p. 3", ("INV-2024-017",)),
        ("HT2023-05/A1/x22", ("HT2023-05", "A1")),  # two digits behind it do
        ("A1/x2 B22", ("B22",)),
        ("A12-x B2/33x", ("B2",)),
        ("A1/A1/A1", ()),
        ("xA12 -A12 12", ()),
    ],
)
def test_numbers_have_two_digits(text: str, numbers: tuple[str, ...]) -> None:
    assert card_of("", "", text).numbers == numbers


@pytest.mark.parametrize(
    ("text", "parties"),
    [
        ("JOINT-VENTURE Marsh & Sons GmbH", ("JOINT-VENTURE Marsh & Sons GmbH",)),
        ("McDonald eBay Ltd, Bar-Baz Ltd", ("Bay Ltd", "Bar-Baz Ltd")),
        ("A滨江物业公司 Ltd，净安保洁公司", ("A滨江物业公司 Ltd", "净安保洁公司")),
        ("净安保洁公司 and Ottway Bank", ("净安保洁公司", "Ottway Bank")),
        ("A滨江物业公司", ("滨江物业公司",)),
        ("A B C D E F Ltd", ("B C D E F Ltd",)),
        ("A-B-C d", ()),
    ],
)
def test_companies_of_both_languages_in_their_order(text: str, parties: tuple[str, ...]) -> None:
    assert card_of("", "", text).parties == parties


def test_dates_as_files_are_named() -> None:
    dates = {
        "工人工资表_202411.xlsx": "2024-11",
        "payroll_2025-11.xlsx": "2025-11",
        "2025_04_10 minutes.docx": "2025-04-10",
        "stmt 2025-04 Prideaux.pdf": "2025-04",
        "销毁记录_20250226.docx": "2025-02-26",
        "排班_2025年4月.xlsx": "2025-04",
        "budget 2024-25.csv": "2024",
        "plan 2024-2025.xlsx": "2024",
        "INV-2024-017.pdf": "",
        "part 12020413.pdf": "",
        "2025年0月.pdf": "2025",
        # A day in December 2020, numbers of invoices and contracts, and October in none of them.
        "201205 cold chain.docx": "",
        "INV-2024-03.pdf": "",
        "HT2023-05.docx": "",
        "price list 2004 10 items.docx": "2004",
    }
    assert {name: card_of("", name, "").date for name in dates} == dates


def test_a_date_in_the_words_of_questions() -> None:
    assert date_words("2024-11-07") == "2024 november nov 11月份 十一月份 7"
    assert (date_words("2024"), date_words("")) == ("2024", "")
