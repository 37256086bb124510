"""Versions of one document, and near twins that are none."""

from __future__ import annotations

from localrag.rag.question_words import Asked
from localrag.rag.versions import newest_first
from localrag.text.tokenize import Tokenizer
from localrag.types import Card, Chunk, ScoredChunk

TOKENIZER = Tokenizer()
RULE = (
    "The fridge is read {} a day and the lowest and highest temperature are written on the chart."
)


def passage(document: str, text: str) -> ScoredChunk:
    return ScoredChunk(Chunk(int(document), document, 0, text, "", 1, 1, 0, len(text)), 1.0, "x")


def order(question: str, passages: list[ScoredChunk], cards: dict[str, Card]) -> str:
    asked = Asked(question, TOKENIZER)
    found = newest_first(passages, asked, lambda hit: cards[hit.chunk.document_id])
    return "".join(hit.chunk.document_id for hit in found)


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
    same = [passage("1", RULE.format("once")), passage("1", RULE.format("twice"))]
    assert order("How often is the fridge read?", same, CARDS) == "11"
