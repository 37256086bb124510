"""The sentences of a passage that answer a question, by where the model looks as it reads it.

Some attention heads of a model pay to what it will copy (retrieval heads: Wu et al. 2024, arXiv
2404.15574), and those of a small model know it better than what it writes. Of 133 questions of
others about a section that answers, the sentence that is paid most says the answer for .84, that
which is closest by words and embedding for .69; where it has .9 of the probability, as for .59 of
them, for .98 (`benchmarks/log/2026-11.md`, 2026-11-30, "where the model looks").
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from localrag.languages import LanguageCode
from localrag.rag.base import timed
from localrag.rag.citations import Attributor, may_be_told, without_markers
from localrag.rag.grading import Grader, Reading
from localrag.text.sentences import split_sentences
from localrag.types import Citation, ScoredChunk, Step

MOST, ENOUGH = 2, 0.9
"""Sentences in which an answer may stand, unless the first has that probability alone."""
SURE = 0.8
"""The probability from which on the first says the answer, whatever the model writes."""
LONGEST = 600
"""Code points of a sentence that may stand for an answer."""


@dataclass(frozen=True, slots=True)
class PointedSentences:
    """Up to `MOST` sentences, the likeliest first, and the probability of that."""

    sentences: tuple[tuple[str, Citation], ...]
    probability: float

    @property
    def are_sure(self) -> bool:
        """Whether they say the answer."""
        return self.probability >= SURE

    @property
    def text(self) -> str:
        """The first as an answer, with its marker."""
        told, citation = self.sentences[0]
        return f"{told} [{citation.marker}]"


def pointed(
    question: str,
    number: int,
    passages: Sequence[ScoredChunk],
    attributor: Attributor,
    grader: Grader,
    language: LanguageCode,
) -> Generator[Step, None, PointedSentences | None]:
    """The sentences of a passage, by its number from 1; None where nobody knows.

    And where one of them cannot be told. Raises `BackendError` from the model.
    """
    sentences = attributor.sentences(number)
    reading = Reading(language, (passages[number - 1],))
    look = partial(grader.points, question, reading, [standing for standing, _, _ in sentences])
    shares, seconds = timed(look)
    if shares is None:
        return None
    order = sorted(range(len(shares)), key=lambda place: -shares[place])
    best = shares[order[0]]
    yield Step("point", {"passage": number}, best, seconds)
    likely = order[: 1 if best >= ENOUGH else MOST]
    told = tuple(sentences[place][1:] for place in likely)
    if any(len(text) > LONGEST or not may_be_told(text, question) for text, _ in told):
        return None
    return PointedSentences(told, best)


def as_pointed(
    pieces: Iterator[str], pointed: PointedSentences, states: Callable[[str, str], bool]
) -> Iterator[str]:
    """What is written, as it comes; the first sentence where none of them `states` its first.

    The model is stopped then.
    """
    opening = ""
    for piece in pieces:
        opening += piece
        if len(split_sentences(opening)) > 1:
            break
    start, end = next(iter(split_sentences(opening)), (0, 0))
    first = without_markers(opening[start:end])
    if opening and not any(states(told, first) for told, _ in pointed.sentences):
        if isinstance(pieces, Generator):
            pieces.close()  # what would be written else is not waited for
        yield pointed.text
        return
    if opening:
        yield opening
    yield from pieces
