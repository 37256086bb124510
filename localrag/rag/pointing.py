"""The sentence of a passage that answers a question, by where the model looks as it reads it.

Some attention heads of a model pay to what it will copy (retrieval heads: Wu et al. 2024, arXiv
2404.15574), and those of a small model know it better than what it writes. Of 133 questions of
others about a section that answers, the sentence that is paid most says the answer for .87, that
which is closest by words and embedding for .69. Where it has .8 of the probability, as for .77 of
them, it does for .96; of the others for .58, the closest for .39
(`benchmarks/log/2026-11.md`, 2026-11-29, "where the model looks").
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial

from localrag.languages import LanguageCode
from localrag.rag.base import timed
from localrag.rag.citations import Attributor, may_be_told, without_markers
from localrag.rag.grading import Grader, Reading
from localrag.rag.refusals import refuses
from localrag.text.sentences import split_sentences
from localrag.types import Citation, ScoredChunk, Step

SURE = 0.8
"""The probability from which on a sentence says the answer, whatever the model writes."""
FEWEST = 3
"""Sentences of a passage of which one is pointed to, as of those that it was fitted on."""
LONGEST = 600
"""Code points of a sentence that may stand for an answer."""


States = Callable[[str, str], bool]
"""Whether a text says what a statement does."""


@dataclass(frozen=True, slots=True)
class PointedSentence:
    """The sentence of a passage that answers, as it is told."""

    text: str
    citation: Citation
    probability: float

    @property
    def is_sure(self) -> bool:
        """Whether it says the answer; else it is likelier than any other."""
        return self.probability >= SURE

    @property
    def answer(self) -> str:
        """With its marker."""
        return f"{self.text} [{self.citation.marker}]"


def pointed(
    question: str,
    number: int,
    passage: ScoredChunk,
    attributor: Attributor,
    grader: Grader,
    language: LanguageCode,
) -> Generator[Step, None, PointedSentence | None]:
    """The likeliest sentence of a passage, by its number from 1 for the attributor.

    None where nobody knows, or where it cannot be told. Raises `BackendError` from the model.
    """
    sentences = attributor.sentences(number)
    if len(sentences) < FEWEST or not may_be_told(passage.chunk.text, question):
        return None
    reading, texts = Reading(language, (passage,)), [sentence.standing for sentence in sentences]
    shares, seconds = timed(partial(grader.points, question, reading, texts))
    if shares is None:
        return None
    best = max(range(len(shares)), key=shares.__getitem__)
    yield Step("point", {"passage": number, "sure": shares[best] >= SURE}, shares[best], seconds)
    sentence = sentences[best]
    can_be_told = len(sentence.told) <= LONGEST and may_be_told(sentence.told, question)
    if not sentence.is_whole or not can_be_told:
        return None
    return PointedSentence(sentence.told, sentence.citation, shares[best])


def as_pointed(
    pieces: Iterator[str], pointed: PointedSentence, question: str, states: States
) -> Iterator[str]:
    """What is written, as it comes; the sentence for another that it does not state.

    What the question says, an answer may repeat. One of several sentences stays, and so does a
    refusal. Of 59 answers to questions of others about a section that answers, three wrong ones
    become right so and no right one wrong; end to end on two folders that nobody had looked at, one
    and one.
    """
    written = ""
    for piece in pieces:
        written += piece
        if len(split_sentences(written)) > 1:
            break
    else:
        statement = without_markers(written).strip()
        known = f"{pointed.text}\n{question}"
        if statement and not refuses(statement) and not states(known, statement):
            written = pointed.answer
    if written:
        yield written
    yield from pieces
