"""How relevant a passage is: the grade of the model, the figures of the question, the search.

A small model takes what is said of another year or model for the answer. A passage without a
figure of the question, neither in its text nor above it, is about another one as a rule: of 640
questions of cmrc2018 and xquad_en that name a figure, 4% lack it in the passage that answers
them; of the irrelevant passages of RGB that go with such questions, about half do
(`benchmarks/LOG.md`, 2026-11-22, "one passage at a time"). The first hit of the search has half
again the score of the second, or more, for about half of the questions that the documents answer,
and seldom for others.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from localrag.prompts import PromptLanguage
from localrag.rag.grading import Grade, Grader, Reading, shifted
from localrag.text.figures import figures_not_in
from localrag.types import ScoredChunk

_OTHER_FIGURES = 1.3
"""Log odds that a passage without them loses."""
_STANDS_OUT = 1.2
"""Log odds that a first hit gains which stands out."""
STANDING_OUT = 1.5
"""How many times the score of the second it then has."""


def graded(
    grader: Grader,
    question: str,
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
    grade = grader.relevance(question, Reading(language, (passage,)))
    if grade.unread:
        return grade
    lacking = lacks_figures(question, passage)
    by = _STANDS_OUT * (searched and number == 1 and stands_out(found)) - _OTHER_FIGURES * lacking
    probability = grade.probability
    return replace(
        grade,
        value=shifted(grade.value, by),
        probability=None if probability is None else shifted(probability, by),
        other_figures=lacking,
    )


def stands_out(found: Sequence[ScoredChunk]) -> bool:
    """Whether the first hit of a search is far ahead of the second."""
    return len(found) > 1 and found[0].score >= STANDING_OUT * found[1].score > 0


def lacks_figures(question: str, found: ScoredChunk) -> bool:
    """Whether the question names a figure that stands neither in the passage nor above it."""
    chunk = found.chunk
    passage = f"{found.source} {chunk.heading} {chunk.text}"
    asked, passage = (unicodedata.normalize("NFKC", text) for text in (question, passage))
    return bool(figures_not_in(asked, [passage]))
