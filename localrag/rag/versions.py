"""Of versions of one document the one in force is read first.

Two sections are versions of each other where most of their words are the same: 1,000 words on
fridges of which a number differs. Which is newer is told by the cards of their documents
(`documents.cards`), and file times only where these say nothing. A question that tells them apart
itself, by a year or a name that only one has, is left as it is: near twins, such as invoices, are
no versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localrag.documents.chunking import passage_text
from localrag.rag.question_words import Asked, Text
from localrag.types import Card, ScoredChunk

ALIKE = 0.6
"""Share of all their words that two versions have in common."""

CardOf = Callable[[ScoredChunk], Card]
"""The card of a passage's document, with a date in any case."""


def newest_first(found: Sequence[ScoredChunk], asked: Asked, card_of: CardOf) -> list[ScoredChunk]:
    """The same passages, in which versions of one have changed places so that the newest leads."""
    ordered = list(found)
    terms = [frozenset(asked.tokenize(passage_text(hit.chunk))) for hit in ordered]
    done: set[int] = set()
    for first, hit in enumerate(found):
        if first in done:
            continue
        places = [first] + [
            other
            for other in range(first + 1, len(found))
            if other not in done
            and found[other].chunk.document_id != hit.chunk.document_id
            and _share(terms[first], terms[other]) >= ALIKE
        ]
        done.update(places)
        if len(places) > 1 and not _told_apart([found[place] for place in places], asked, card_of):
            versions = sorted(places, key=lambda place: rank(card_of(found[place])), reverse=True)
            for place, version in zip(places, versions, strict=True):
                ordered[place] = found[version]
    return ordered


def rank(card: Card) -> tuple[bool, str]:
    """How far a document is in force: the newest of those that are neither drafts nor withdrawn."""
    return not card.standing, card.date


def _share(some: frozenset[str], others: frozenset[str]) -> float:
    return len(some & others) / max(1, len(some | others))


def _told_apart(versions: Sequence[ScoredChunk], asked: Asked, card_of: CardOf) -> bool:
    """Whether the question has a word that some of them or their cards have, and not all."""
    texts = [
        Text(f"{_named(card_of(version))}\n{passage_text(version.chunk)}", asked.tokenize)
        for version in versions
    ]
    having = ([text.has(word) for text in texts] for word in asked.words)
    return any(any(flags) and not all(flags) for flags in having)


def _named(card: Card) -> str:
    return "\n".join((card.title, card.name, *card.folders, *card.dates))
