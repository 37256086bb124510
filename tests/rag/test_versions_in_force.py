"""Versions of one document, and near twins that are none."""

from __future__ import annotations

import pytest

from localrag.documents.cards import card_of
from localrag.rag.grading import as_known
from localrag.rag.question_words import Asked
from localrag.rag.versions import newer, newest_first
from localrag.text.tokenize import Tokenizer
from localrag.types import Card, Chunk, ScoredChunk

TOKENIZER = Tokenizer()
RULE = (
    "The fridge is read {} a day and the lowest and highest temperature are written on the chart."
)


def passage(document: str, text: str) -> ScoredChunk:
    return ScoredChunk(Chunk(int(document), document, 0, text, "", 1, 1, 0, len(text)), 1.0, "x")


def order(question: str, passages: list[ScoredChunk], cards: dict[str, Card]) -> str:
    query = Asked(question, TOKENIZER)
    hits = newest_first(passages, query, lambda hit: cards[hit.chunk.document_id])
    return "".join(hit.chunk.document_id for hit in hits)


VERSIONS = [
    passage("1", RULE.format("once")),
    passage("2", "Milk."),
    passage("3", RULE.format("twice")),
]
CARDS = {
    "1": Card("Cold chain", "v2", date="2024-05", dates=("2024-05",)),
    "2": Card("Milk", "milk", date="2026"),
    "3": Card("Cold chain", "v3", date="2025-06-01", dates=("2025-06-01",)),
}


def test_the_newest_changes_places_with_the_older() -> None:
    assert order("How often is the fridge read?", VERSIONS, CARDS) == "321"


def test_a_draft_or_what_was_withdrawn_is_not_in_force() -> None:
    draft = CARDS | {"3": Card("Cold chain", "v3", standing="draft", date="2025-06-01")}
    assert order("How often is the fridge read?", VERSIONS, draft) == "123"


def test_a_question_that_names_a_version_gets_it() -> None:
    assert order("How often was the fridge read in 2024?", VERSIONS, CARDS) == "123"


def test_near_twins_are_told_apart_by_what_is_asked() -> None:
    invoice = (
        "Invoice to {} for the supply of filters, net amount due within thirty days: 400 pounds."
    )
    twins = [passage("1", invoice.format("Brenn")), passage("3", invoice.format("Ottway"))]
    assert order("How much is the invoice to Brenn?", twins, CARDS) == "13"
    assert order("Within how many days is an invoice due?", twins, CARDS) == "31"


def test_sections_of_one_document_keep_their_order() -> None:
    passages = [passage("1", RULE.format("once")), passage("1", RULE.format("twice"))]
    assert order("How often is the fridge read?", passages, CARDS) == "11"


def held_by(document: str, title: str, source: str) -> ScoredChunk:
    chunk = Chunk(int(document), document, 0, "The move.", "", 1, 1, 0, 9, title=title)
    return ScoredChunk(chunk, 1.0, source)


def newer_than_first(question: str, hits: list[ScoredChunk]) -> list[int]:
    def card(hit: ScoredChunk) -> Card:
        return card_of(hit.chunk.title, hit.source, "")

    return newer(hits, 1, Asked(question, TOKENIZER), card)


MINUTES = [
    held_by("1", "Meeting", "minutes/2026-01-08.md"),
    held_by("2", "Meeting", "minutes/2026-04-02.md"),
    held_by("3", "Meeting", "minutes/2025-12-01.md"),
    held_by("4", "Plan", "plan-2026.md"),
    held_by("5", "Meeting", "minutes/2026-05-07.md"),
]


def test_newer_documents_are_told_by_their_own_dates() -> None:
    assert newer_than_first("When do we move?", MINUTES) == [5, 2]


def test_a_question_that_names_one_of_them_is_left_as_it_is() -> None:
    assert newer_than_first("When do we move, by the minutes of 2026-01-08?", MINUTES) == []


@pytest.mark.parametrize("question", ["Who led the January meeting?", "一月份的会谁主持？"])
def test_a_month_names_the_document_of_that_month(question: str) -> None:
    assert newer_than_first(question, MINUTES) == []


def test_a_date_within_a_document_names_it_in_either_form() -> None:
    cards = {"1": Card("Cold chain", "a", dates=("2025-06-01",)), "2": Card("Milk", "milk")}
    cards["3"] = Card("Cold chain", "b", date="2026", dates=("2026",))
    for question in ("What did the rule of 2025-06-01 say?", "What did the rule of June say?"):
        assert order(question, VERSIONS, cards) == "123"


def test_an_amendment_is_newer_than_its_contract_and_a_draft_than_nothing() -> None:
    hits = [
        held_by("1", "Contract of service", "contract-marsh-2026.docx"),
        held_by("2", "Amendment", "amendment-marsh.docx"),
        held_by("3", "Contract of service, draft", "contract-marsh-2027-draft.docx"),
    ]
    assert newer_than_first("What is the notice period?", hits) == [2]


@pytest.mark.parametrize(
    ("question", "month", "title"),
    [
        ("How many painters in November?", "November", "Payroll"),
        ("How many painters in January?", "January", "Payroll"),
        ("油工十一月份几个人", "十一月份", "全公司在职工人的工资与考勤汇总表"),
        ("油工一月份几个人", "一月份", "全公司在职工人的工资与考勤汇总表"),
    ],
)
def test_a_month_that_a_file_is_named_by_is_not_lacking(
    question: str, month: str, title: str
) -> None:
    names = ("p_202411.csv", "p_202412.csv", "p_202401.csv")
    texts = [as_known(held_by("1", title, name)) for name in names]
    lacking = [Asked(question, TOKENIZER).missing(text)[0] for text in texts]
    months = (("November", "十一月份"), ("December", "十二月份"), ("January", "一月份"))
    assert [month in words for words in lacking] == [month not in names for names in months]
