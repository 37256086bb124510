"""Grades of Self-RAG: needed, relevant, supported, useful.

A grade is made of what the model chooses (`llms.choices`). Where its reply cannot be read there
is a fallback, and the grade says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from localrag.documents.cards import date_words, own_date
from localrag.documents.chunking import whole_text
from localrag.documents.formats.table import shown_name
from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.choices import Choice, Chooser, choose_by_examples
from localrag.models.llms.probes import Pointer
from localrag.prompts import REQUEST_KINDS, SUPPORT, UNSTATED, YES_NO, render
from localrag.rag.calibration import PROBE_CURVE, Graded, Scale
from localrag.rag.citations import hide_labels, hide_markers
from localrag.text.figures import with_digits
from localrag.text.language import detect
from localrag.types import Message, Plain, ScoredChunk

UTILITIES = ("1", "2", "3", "4", "5")
UNREAD_UTILITY = 3.0
"""Taken where no number can be found in what a model wrote."""

WRITTEN_PARTIAL_SUPPORT = 0.45
"""The share of a "partially supported" that a model wrote: between the thresholds of the
settings, which were measured on probabilities, for there it leaves no doubt."""

Similarity = Callable[[str, ScoredChunk], float]
"""How close question and passage are; taken for relevance where a reply cannot be read."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A value on the scale of its question; `unread` where no reply gave it.

    `probability` is what it means, where the model is calibrated; `value`, which thresholds are
    for, is on the starter model's scale then. A passage `lacks` words of the question: both are
    lower where it mentions them in no other words: then it is `of_else`. A `pointer` tells where
    the model looked for the answer.
    """

    value: float
    unread: bool = False
    probability: float | None = None
    lacks: tuple[str, ...] = ()
    of_else: bool = False
    pointer: Pointer | None = field(default=None, compare=False, repr=False)

    def told(self) -> dict[str, Plain]:
        """For a step: whether the grade is calibrated, and the probability then."""
        if self.unread:
            return {"unread": True}
        lacks: dict[str, Plain] = {"lacks": self.lacks} if self.lacks else {}
        if self.probability is None:
            return {"calibrated": False, **lacks}
        return {"calibrated": True, "probability": round(self.probability, 4), **lacks}


@dataclass(frozen=True, slots=True)
class Reading:
    """Passages that prompts begin with: the first is kept as a state, the others follow it.

    `is_shallow`: read no deeper than a grade needs, for answers are not written from most of them.
    """

    language: LanguageCode
    chunks: tuple[ScoredChunk, ...]
    is_shallow: bool = False

    def messages(self, task: str) -> list[Message]:
        """The passages, then the task."""
        first, *others = (as_read(hit, self.language) for hit in self.chunks)
        if others:
            together = "\n\n".join(others)
            more = render("more_passages", self.language, passages=together)
            task = f"{more}\n\n{task}"
        return [
            Message("system", render("relevance_system", self.language, passage=first)),
            Message("user", task),
        ]


def as_read(found: ScoredChunk, language: LanguageCode | None = None) -> str:
    """A passage as a prompt shows it: the name of its file, title and headings, its text.

    Nothing in it passes for a marker or a label of the prompt. For a question in another
    `language`, large numbers stand in digits, too.
    """
    name = " ".join(shown_name(found.source).split())
    text = whole_text(found.chunk)
    return _as_shown(f"{name}\n{text}" if name else text, text, language)


def _as_shown(part: str, text: str, language: LanguageCode | None) -> str:
    """A part of a passage's text as `as_read` has it."""
    if language and detect(text) not in (language, "mixed"):
        part = with_digits(part)
    return hide_labels(hide_markers(part))


def as_known(found: ScoredChunk) -> str:
    """The same with the words of its document's date: what a question may say of it."""
    return f"{as_read(found)}\n{date_words(own_date(found.chunk.title, found.source))}"


class Grader:
    """Asks the questions of Self-RAG (Asai et al. 2023, https://arxiv.org/abs/2310.11511)."""

    def __init__(
        self, chooser: Chooser, similarity: Similarity | None = None, scale: Scale | None = None
    ) -> None:
        self._chooser = chooser
        self._similarity = similarity or _score_of
        self._scale = scale

    @property
    def reads_logits(self) -> bool:
        """Whether grades are the model's own probabilities, and not all or nothing."""
        return self._chooser.reads_logits

    @property
    def is_probed(self) -> bool:
        """Whether the relevance of a passage is read from the model's state."""
        return self._chooser.is_probed

    def needs_documents(self, question: str, language: LanguageCode) -> Grade:
        """Probability that the documents are needed to answer at all."""
        task, kinds = "request_kinds", REQUEST_KINDS[language]
        choice = choose_by_examples(task, language, question, kinds, self._chooser)
        return Grade(choice[0]) if choice.read else Grade(1.0, unread=True)

    def relevance(self, question: str, reading: Reading) -> Grade:
        """Probability that the exact answer can be had from the passages alone.

        Of a single one it is read from the model's state, where that was probed.
        """
        if len(reading.chunks) == 1:
            messages = self.relevance_messages(question, reading)
            shallow = reading.is_shallow
            if seen := self._chooser.look("relevance", messages, keep=1, shallow=shallow):
                probability, pointer = seen
                value = PROBE_CURVE.grade(probability)
                return Grade(value, probability=probability, pointer=pointer)
        return self.own_relevance(question, reading)

    def relevance_messages(self, question: str, reading: Reading) -> list[Message]:
        """What passages are graded by: the question alone where the model's state is read."""
        is_read = self.is_probed and len(reading.chunks) == 1
        return (question_prompt if is_read else relevance_prompt)(question, reading)

    def own_relevance(self, question: str, reading: Reading) -> Grade:
        """The same as the model itself says."""
        messages = relevance_prompt(question, reading)
        choice = self._chooser.choose(messages, YES_NO[reading.language], keep=1)
        if not choice.read:
            similarity = min(max(self._similarity(question, reading.chunks[0]), 0.0), 1.0)
            return Grade(similarity, unread=True)
        return self._scaled("relevance", reading.language, choice[0])

    def mentions(self, word: str, reading: Reading) -> float:
        """Probability that the passages mention a word, in whatever words."""
        task = render("mentions", reading.language, word=word)
        choice = self._chooser.choose(reading.messages(task), YES_NO[reading.language], keep=1)
        return float(choice[0]) if choice.read else 1.0

    def decides(self, question: str, reading: Reading) -> float:
        """Probability that the passages say yes or no to a question, and not nothing."""
        language = reading.language
        task = render("whether", language, question=question.strip())
        options = (*YES_NO[language], UNSTATED[language])
        choice = self._chooser.choose(reading.messages(task), options, keep=1)
        return 1.0 - float(choice[2]) if choice.read else 0.0

    def says(self, question: str, answer: str, reading: Reading) -> float:
        """How far the passages say what is asked, as an answer that was written from them has it.

        The mean of two log odds, as a share: of a yes to "does it say what the question wants to
        know", and of the answer against "it does not say that".
        """
        language, text = reading.language, question.strip()
        tasks = (
            (render("says", language, question=text), YES_NO[language]),
            (render("says_or_not", language, question=text, answer=answer), ("A", "B")),
        )
        choices = [
            self._chooser.choose(reading.messages(task), options, keep=1) for task, options in tasks
        ]
        if not all(choice.read for choice in choices):
            return 0.0
        return shifted(0.5, fmean(log_odds(choice[0]) for choice in choices))

    def answerable(self, messages: Sequence[Message], language: LanguageCode) -> Grade:
        """Probability that the passages of a prompt, read together, hold the answer.

        Where the reply cannot be read, they may: the model's own refusal is all there is.
        """
        choice = self._chooser.choose(messages, YES_NO[language])
        if not choice.read:
            return Grade(1.0, unread=True)
        return self._scaled("answerable", language, choice[0])

    def support(self, question: str, statement: str, reading: Reading) -> Grade:
        """How far the passages bear the statement out: the expected share of the 3 points.

        Fully supported counts 3, partially 1, no support 0.
        """
        task = render(
            "support", reading.language, question=question.strip(), statement=statement.strip()
        )
        choice = self._chooser.choose(reading.messages(task), SUPPORT[reading.language], keep=1)
        if not choice.read:
            return Grade(0.0, unread=True)
        return _supported(choice, reading.language)

    def borne_out(self, messages: Sequence[Message], language: LanguageCode) -> Grade:
        """As `support`, of the passages of a prompt that ends with the task `borne_out`."""
        choice = self._chooser.choose(messages, SUPPORT[language])
        if not choice.read:
            return Grade(0.0, unread=True)
        return _supported(choice, language)

    def utility(self, question: str, answer: str, reading: Reading) -> Grade:
        """Expected usefulness of the answer, from 1 to 5."""
        task = render("utility", reading.language, question=question.strip(), answer=answer.strip())
        choice = self._chooser.choose(reading.messages(task), UTILITIES, keep=1)
        if not choice.read:
            return Grade(UNREAD_UTILITY, unread=True)
        return Grade(float(choice.probabilities @ np.arange(1, len(UTILITIES) + 1)))

    def _scaled(self, graded: Graded, language: LanguageCode, value: float) -> Grade:
        if self._scale is None:
            return Grade(value)
        value, probability = self._scale.read(graded, language, value)
        return Grade(value, probability=probability)


def likelihoods(
    pointer: Pointer, passage: ScoredChunk, language: LanguageCode, sentences: Sequence[str]
) -> list[float]:
    """How likely sentences of a graded passage answer a question, as `Pointer.shares`."""
    text = whole_text(passage.chunk)
    return pointer.shares([_as_shown(sentence, text, language) for sentence in sentences])


def relevance_prompt(question: str, reading: Reading) -> list[Message]:
    """What asks whether passages hold the answer; the first message is kept."""
    return reading.messages(render("relevance", reading.language, question=question.strip()))


def question_prompt(question: str, reading: Reading) -> list[Message]:
    """The question alone behind passages: nothing need be asked of a model whose state is read.

    With what it is to reply behind it three times as many tokens tell less: an area of .906, and
    .916 without, of 369 sections of made-up folders (`benchmarks/log/2026-11.md`, 2026-11-30).
    """
    return reading.messages(render("question", reading.language, question=question.strip()))


def _supported(choice: Choice, language: LanguageCode) -> Grade:
    if choice.source == "written":
        return Grade(float(choice.probabilities @ [1.0, WRITTEN_PARTIAL_SUPPORT, 0.0]))
    share = float(choice.probabilities @ [1.0, 1 / 3, 0.0])
    return Grade(shifted(share, LANGUAGES[language].support_shift))


def _score_of(_: str, hit: ScoredChunk) -> float:
    """The score that the search gave, where nothing better is known."""
    return hit.score


def log_odds(share: float) -> float:
    """Of a share from 0 to 1, none further from 0 than 13.8."""
    share = min(max(share, 1e-6), 1 - 1e-6)
    return math.log(share / (1.0 - share))


def shifted(share: float, shift: float) -> float:
    """A share from 0 to 1 with its log odds moved; without a shift as it is, bit for bit."""
    if not shift or not 0.0 < share < 1.0:
        return share
    return 1.0 / (1.0 + math.exp(-math.log(share / (1.0 - share)) - shift))
