"""Of versions of one document the one in force is read first.

Two sections are versions of each other where most of their words are the same: 1,000 words on
fridges of which a number differs. Which is newer is told by the cards of their documents
(`documents.cards`), and file times only where these say nothing. A question that tells them apart
itself, by a year or a name that only one has, is left as it is: near twins, such as invoices, are
no versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localrag.documents.cards import date_words, own_date
from localrag.documents.chunking import passage_text
from localrag.rag.question_words import Asked, Text
from localrag.types import Card, ScoredChunk

ALIKE = 0.6
"""Share of all their words that two versions have in common."""

CardOf = Callable[[ScoredChunk], Card]
"""The card of a passage's document, with a date in any case."""


def newest_first(hits: Sequence[ScoredChunk], asked: Asked, card_of: CardOf) -> list[ScoredChunk]:
    """The same passages, in which versions of one have changed places so that the newest leads."""
    ordered = list(hits)
    terms = [frozenset(asked.tokenize(passage_text(hit.chunk))) for hit in ordered]
    done: set[int] = set()
    for first, hit in enumerate(hits):
        if first in done:
            continue
        places = [first] + [
            other
            for other in range(first + 1, len(hits))
            if other not in done
            and hits[other].chunk.document_id != hit.chunk.document_id
            and _share(terms[first], terms[other]) >= ALIKE
        ]
        done.update(places)
        if len(places) > 1 and not _told_apart([hits[place] for place in places], asked, card_of):
            versions = sorted(places, key=lambda place: rank(card_of(hits[place])), reverse=True)
            for place, version in zip(places, versions, strict=True):
                ordered[place] = hits[version]
    return ordered


def newer(hits: Sequence[ScoredChunk], number: int, asked: Asked, card_of: CardOf) -> list[int]:
    """The passages of newer documents than that of passage `number` from 1, newest first.

    By dates that title, name or the head of a mail give, as far as the older one has such a date,
    too; an amendment is newer than a contract in any case. Not those that the question tells apart.
    """
    own = hits[number - 1]
    card, date = card_of(own), _dated(own, card_of(own))
    later = []
    for place, hit in enumerate(hits, 1):
        if hit.chunk.document_id == own.chunk.document_id:
            continue
        other = card_of(hit)
        amends = other.kind == "amendment" and card.kind == "contract"
        other_date = _dated(hit, other)
        if other.standing or not (amends or _after(other_date, date)):
            continue
        named = [_named(card), _named(other)]
        if not (_tells_apart(named, asked) or _told_apart([own, hit], asked, card_of)):
            later.append((other_date, -place))
    return [-place for _, place in sorted(later, reverse=True)]


def year_named(cards: Sequence[Card], asked: Asked) -> bool:
    """Whether the question has a year that only some of the documents have.

    In title, name, folders or dates: "in the leave rules of 2024" asks for these, though there are
    newer ones. Written on two questions of clinic; of 162 others (wuye, and two folders that nobody
    had seen) it decides three, and all three need the document of that year.
    """
    names = [Text(_named(card), asked.tokenize) for card in cards]
    # Four digits are a year here; the 10 of "10 fire drills" is a month of many names.
    years = (word for word in asked.words if word.kind == "number" and len(word.text) == 4)
    having = ([name.has(year) for name in names] for year in years)
    return any(any(flags) and not all(flags) for flags in having)


def _dated(hit: ScoredChunk, card: Card) -> str:
    """The date that a document gives itself, "" for one that stands somewhere in its text."""
    return card.date if card.kind == "mail" else own_date(hit.chunk.title, hit.source)


def _after(date: str, other: str) -> bool:
    """Whether a date is later than another, as far as both are given: 2026-03 is not after 2026."""
    length = min(len(date), len(other))
    return length > 0 and date[:length] > other[:length]


def rank(card: Card) -> tuple[bool, str]:
    """How far a document is in force: the newest of those that are neither drafts nor withdrawn."""
    return not card.standing, card.date


def _share(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, len(first | second))


def _told_apart(versions: Sequence[ScoredChunk], question: Asked, card_of: CardOf) -> bool:
    """Whether the question has a word that some of them or their cards have, and not all."""
    names = (_named(card_of(version)) for version in versions)
    return _tells_apart(
        [
            f"{name}\n{passage_text(version.chunk)}"
            for name, version in zip(names, versions, strict=True)
        ],
        question,
    )


def _tells_apart(texts: Sequence[str], question: Asked) -> bool:
    """Whether the question has a word that some of the texts have, and not all."""
    read = [Text(text, question.tokenize) for text in texts]
    having = ([text.has(word) for text in read] for word in question.words)
    return any(any(flags) and not all(flags) for flags in having)


def _named(card: Card) -> str:
    return "\n".join(
        (card.title, card.name, *card.folders, *card.dates, *map(date_words, card.dates))
    )
