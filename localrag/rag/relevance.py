"""How relevant a passage is: the grade of the model, the words of the question, the search.

A small model takes what is said of another year, person or model for the answer. Its grade alone
tells passages of RGB that answer from others with an AUC of .89, with the share of the question's
words that the passage lacks .90; on cmrc2018 .92 becomes .94, on xquad_en .998 becomes 1.00
(`benchmarks/LOG.md`, 2026-11-22, "the words that a passage lacks"). The first hit of the search
has half again the score of the second, or more, for about half of the questions that the documents
answer, and seldom for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localrag.documents.chunking import passage_text
from localrag.models.embeddings.base import Embedder
from localrag.prompts import PromptLanguage
from localrag.rag.grading import Grade, Grader, Reading, shifted
from localrag.rag.question_words import Asked, Text
from localrag.types import ScoredChunk

_WITHOUT_WORDS = 1.5
"""Log odds that a passage loses which has no word of the question."""
_STANDS_OUT = 1.2
"""Log odds that a first hit gains which stands out."""
STANDING_OUT = 1.5
"""How many times the score of the second it then has."""
_SIMILAR = 0.2
"""Cosine from which on a passage may be about what is asked, in whatever words."""


def graded(
    grader: Grader,
    asked: Asked,
    language: PromptLanguage,
    found: Sequence[ScoredChunk],
    number: int,
    *,
    searched: bool,
) -> Grade:
    """The grade of a passage, by its number from 1, with what else speaks for or against it.

    `searched` says whether the scores are those of one search: a reranker's are on other scales.
    """
    passage = found[number - 1]
    grade = grader.relevance(asked.question, Reading(language, (passage,)))
    if grade.unread:
        return grade
    chunk = passage.chunk
    lacks, share = asked.missing(f"{passage.source} {chunk.heading} {chunk.text}")
    by = _STANDS_OUT * (searched and number == 1 and stands_out(found)) - _WITHOUT_WORDS * share
    probability = grade.probability
    return replace(
        grade,
        value=shifted(grade.value, by),
        probability=None if probability is None else shifted(probability, by),
        lacks=lacks,
    )


def stands_out(found: Sequence[ScoredChunk]) -> bool:
    """Whether the first hit of a search is far ahead of all others."""
    second = max((hit.score for hit in found[1:]), default=0.0)
    return found[0].score >= STANDING_OUT * second > 0


def is_tied(found: Sequence[ScoredChunk], number: int) -> bool:
    """Whether the search ranks a passage, by its number from 1, no higher than the next."""
    return number < len(found) and found[number - 1].score == found[number].score


def is_close(
    asked: Asked, found: Sequence[ScoredChunk], embedder: Embedder, *, by_meaning: bool
) -> bool:
    """Whether a passage may hold what is asked, as far as that is seen without a language model.

    One has most words of the question, numbers aside; or, `by_meaning`, is similar to it.
    """
    texts = [passage_text(each.chunk) for each in found]
    words = [word for word in asked.words if word.kind != "number"]
    had = (sum(map(Text(text, asked.tokenize).has, words)) for text in texts)
    if any(2 * count > len(words) for count in had):
        return True
    if not (by_meaning and texts):
        return False
    vector = embedder.embed_queries([asked.question])[0]
    return float((embedder.embed_documents(texts) @ vector).max()) >= _SIMILAR
