"""Reranking by the question's words: no model, a fraction of a millisecond a passage."""

from __future__ import annotations

import re
from collections.abc import Sequence

from localrag.documents.tables import shown_text
from localrag.languages import union_of
from localrag.rerankers.base import ScoringReranker
from localrag.text.han import HAN
from localrag.text.normalize import fold
from localrag.types import ScoredChunk

SIMILARITY_SHARE = 0.5
PRESENT = 0.1
EARLY = 0.1
"""For a keyword that first occurs in the first quarter of the passage."""
EACH_OCCURRENCE = 0.05
MOST_FOR_OCCURRENCES = 0.2

_PIECE = re.compile(rf"(?P<han>[{HAN}]+)|[^\W_{HAN}]+")
_LONGER_THAN = 3
_GRAMMAR = union_of(lambda language: language.grammar_words)
"""Chinese has no short words to leave out by length: these carry grammar and stand everywhere."""


class KeywordReranker(ScoringReranker):
    """Half of the score that a passage came with, and a bonus for each keyword of the question.

    A keyword that the passage holds is worth 0.1, 0.1 more where it first occurs in the
    first quarter of the passage, and 0.05 an occurrence up to 0.2. Keywords are the words
    that jieba finds in Chinese and words longer than three letters elsewhere, each once.
    Compared are folded texts (case, width, traditional or simplified); a keyword counts
    within a longer word too ("network" in "networks").
    """

    def _rate(self, query: str, chunks: Sequence[ScoredChunk]) -> list[float]:
        words = keywords(query)
        return [_score(words, chunk) for chunk in chunks]


def keywords(question: str) -> list[str]:
    """The words of a question that tell passages apart, folded, each once, in their order."""
    terms: dict[str, None] = {}
    for piece in _PIECE.finditer(fold(question)):
        if piece.lastgroup == "han":
            import rjieba

            words = rjieba.cut(piece[0], False)
            terms |= dict.fromkeys(word for word in words if word not in _GRAMMAR)
        elif len(piece[0]) > _LONGER_THAN:
            terms[piece[0]] = None
    return list(terms)


def _score(words: Sequence[str], chunk: ScoredChunk) -> float:
    text = fold(shown_text(chunk.chunk))
    score = SIMILARITY_SHARE * chunk.score
    for word in words:
        first = text.find(word)
        if first < 0:
            continue
        score += PRESENT + min(EACH_OCCURRENCE * text.count(word), MOST_FOR_OCCURRENCES)
        if first < len(text) / 4:
            score += EARLY
    return score
