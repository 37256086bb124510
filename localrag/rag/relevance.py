"""How relevant a passage is, by the model's grade and by the figures that the question names.

A small model takes what is said of another year or model for the answer. A passage without a
figure of the question, neither in its text nor above it, is about another one as a rule: of 640
questions of cmrc2018 and xquad_en that name a figure, 4% lack it in the passage that answers
them; of the irrelevant passages of RGB that go with such questions, about half do
(`benchmarks/self_rag.md`).
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import replace

from localrag.rag.grading import Grade, Grader, Reading
from localrag.types import ScoredChunk

_OTHER_FIGURES = 1.3
"""Log odds that such a passage loses."""

_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


def graded(grader: Grader, question: str, reading: Reading) -> Grade:
    """The grade of the passages read, lowered where none has the question's figures."""
    grade = grader.relevance(question, reading)
    if grade.unread or not all(lacks_figures(question, found) for found in reading.chunks):
        return grade
    probability = grade.probability
    return replace(
        grade,
        value=_lowered(grade.value),
        probability=None if probability is None else _lowered(probability),
        other_figures=True,
    )


def lacks_figures(question: str, found: ScoredChunk) -> bool:
    """Whether the question names a figure that stands neither in the passage nor above it."""
    chunk = found.chunk
    return bool(_figures(question) - _figures(f"{found.source} {chunk.heading} {chunk.text}"))


def _figures(text: str) -> set[str]:
    text = unicodedata.normalize("NFKC", text)
    return {figure.replace(",", "") for figure in _FIGURE.findall(text)}


def _lowered(grade: float) -> float:
    if not 0.0 < grade < 1.0:
        return grade
    return 1.0 / (1.0 + math.exp(_OTHER_FIGURES - math.log(grade / (1.0 - grade))))
