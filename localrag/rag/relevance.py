"""How far a passage holds the answer: the grade of the model, and what of the question it mentions.

A small model takes what is said of another thing for the answer: the days of leave for those of
paternity leave. So where it finds the answer in a passage, it is asked of each word of the question
that the passage lacks whether that is mentioned in other words. On two folders of others' making
(34 questions) the mean of these grades was below .42 for 3 of the 4 unanswerable questions that the
grade alone let through, and for none of the answerable ones (`benchmarks/log/2026-11.md`,
2026-11-23). Not so where the grade is read from the model's state: of 104 sections of six folders
that it lets through, 29 of which do not answer, this stopped 3 that do and 2 that do not, at a
second and more a question (2026-11-30).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from localrag.documents.chunking import passage_text
from localrag.languages import LanguageCode
from localrag.models.embeddings.base import Embedder
from localrag.rag.grading import Grade, Grader, Reading, as_known
from localrag.rag.months import are_of_others
from localrag.rag.question_words import Asked, Text
from localrag.types import ScoredChunk

MENTIONED = 0.25
"""Mean grade of the words that a passage lacks from which on it speaks of what is asked."""
MOST_WORDS = 5
"""Words that are asked about, half a second each."""
_SIMILAR = 0.2
"""Cosine from which on a passage may be about what is asked, in whatever words."""


def graded(
    grader: Grader,
    asked: Asked,
    language: LanguageCode,
    passages: Sequence[ScoredChunk],
    least: float,
    *,
    shallow: bool = False,
) -> Grade:
    """The grade of passages read together; below `least` where they speak of something else.

    They are read `shallow`, as `Reading` has it, and not at all where they are of another month.
    """
    if all(are_of_others(asked.month, passage) for passage in passages):
        lacks, _ = asked.missing("\n".join(map(as_known, passages)))
        return Grade(0.0, lacks=lacks, of_else=True)
    reading = Reading(language, tuple(passages), is_shallow=shallow)
    grade = grader.relevance(asked.question, reading)
    if grade.unread:
        return grade
    lacks, _ = asked.missing("\n".join(map(as_known, passages)))
    asks = lacks and grader.reads_logits and not grader.is_probed
    if not asks or grade.value < least:
        return replace(grade, lacks=lacks)
    share = mentioned(grader, lacks, reading) / MENTIONED
    if share >= 1:
        return replace(grade, lacks=lacks)
    return replace(
        grade,
        value=grade.value * share * least,
        probability=None if grade.probability is None else grade.probability * share,
        lacks=lacks,
        of_else=True,
    )


def mentioned(grader: Grader, words: Sequence[str], reading: Reading) -> float:
    """How far passages speak of words that they lack: the mean grade of the first; 1 for none."""
    return fmean([grader.mentions(word, reading) for word in words[:MOST_WORDS]] or [1.0])


def is_tied(passages: Sequence[ScoredChunk], number: int) -> bool:
    """Whether the search ranks a passage, by its number from 1, no higher than the next."""
    return number < len(passages) and passages[number - 1].score == passages[number].score


def is_close(
    asked: Asked, passages: Sequence[ScoredChunk], embedder: Embedder, *, by_meaning: bool
) -> bool:
    """Whether a passage may hold what is asked, as far as that is seen without a language model.

    One has most words of the question, numbers aside; or, `by_meaning`, is similar to it.
    """
    texts = [passage_text(passage.chunk) for passage in passages]
    words = [word for word in asked.words if word.kind != "number"]
    had = (sum(map(Text(text, asked.tokenize).has, words)) for text in texts)
    if any(2 * count > len(words) for count in had):
        return True
    if not (by_meaning and texts):
        return False
    vector = embedder.embed_queries([asked.question])[0]
    return float((embedder.embed_documents(texts) @ vector).max()) >= _SIMILAR
