"""The labelled questions (`questions.toml`), as cases to grade: which passages hold which answer.

Written for this project, apart from every set that it is measured on. A case has one passage, as
Self-RAG reads it, or five of several topics, as standard RAG does. About half of the cases of each
kind hold the answer, so that a fitted probability is that of a passage as likely as not to.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import msgspec

from localrag.languages import LanguageCode
from localrag.rag.calibration import Graded
from localrag.text.language import answer_language

Kind = Literal[
    "holds",
    "part",  # one of the two facts that are asked for
    "other",  # the answer is in the other passage of the topic
    "missing",  # no passage has it
    "elsewhere",  # the passage is about something else
]
"""What passages have of an answer."""

PASSAGES_TOGETHER = 14
"""Cases of each set of passages that are read together: reading them is most of what one costs."""


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two passages about the same kind of thing.

    `questions` are (question, passages that hold the answer: "1", "2", "1+2" for both together or
    "-").
    """

    passages: tuple[str, str]
    questions: tuple[tuple[str, Literal["1", "2", "1+2", "-"]], ...]


class _CaseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class GradingCase:
    """A question, what is read for it, and what that holds; `topic` is the place of its topic."""

    graded: Graded
    topic: int
    question: str
    passages: tuple[str, ...]
    kind: Kind

    @property
    def language(self) -> LanguageCode:
        """That of the question, in which the model is asked."""
        return answer_language(self.question)

    @property
    def holds(self) -> bool:
        """Whether the whole answer can be had from the passages."""
        return self.kind == "holds"


def topics() -> tuple[Topic, ...]:
    """All of them, English and Chinese in turn."""
    text = files(__package__).joinpath("questions.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _CaseFile).topic


def cases() -> list[GradingCase]:
    """All cases; those with the same passages stand together, to be read once."""
    everything = topics()
    return [
        case
        for number in range(len(everything))
        for case in (*_single(everything, number), *_together(everything, number))
    ]


def _single(everything: Sequence[Topic], number: int) -> Iterator[GradingCase]:
    """Each passage of a topic alone; of its questions without the answer every other one."""
    topic = everything[number]
    far = everything[(number + 2) % len(everything)]
    for place, text in enumerate(topic.passages, start=1):
        passages = (text.strip(),)
        for at, (question, where) in enumerate(topic.questions):
            kind = _kind(where, {place})
            turn = place - 1 if kind in ("part", "missing") else 0
            if kind == "holds" or (at + number) % 2 == turn:
                yield GradingCase("relevance", number, question, passages, kind)
        yield GradingCase("relevance", number, far.questions[3 * place][0], passages, "elsewhere")


def _together(everything: Sequence[Topic], number: int) -> Iterator[GradingCase]:
    """Five passages of four topics: both of the first, the first of the next, and two others."""
    if number % 2:
        return
    count = len(everything)
    first, second, third, fourth = ((number + step) % count for step in range(4))
    if number // 2 % 2:
        first, second = second, first
    read = [(first, 1), (first, 2), (second, 1), (third, 2), (fourth, 1)]
    # Without a rule for where the answer stands; the same in every run.
    random.Random(number).shuffle(read)  # noqa: S311
    passages = tuple(everything[topic].passages[place - 1].strip() for topic, place in read)
    candidates = []
    for topic in (first, second, third):
        places = {place for of, place in read if of == topic}
        for at, (question, where) in enumerate(everything[topic].questions):
            # Of the first topic nearly all is held, of the third hardly anything.
            if topic == first and where != "-" and at % 2:
                continue
            if topic == third and at % 2 == 0:
                continue
            kind = _kind(where, places)
            candidates.append(GradingCase("answerable", topic, question, passages, kind))
    random.Random(f"a{number}").shuffle(candidates)  # noqa: S311
    yield from candidates[:PASSAGES_TOGETHER]


def _kind(where: str, places: set[int]) -> Kind:
    """What the passages at those places of a topic have of an answer."""
    if where == "-":
        return "missing"
    needed = {int(place) for place in where.split("+")}
    if needed <= places:
        return "holds"
    return "part" if needed & places else "other"
