"""Grades of Self-RAG: needed, relevant, supported, useful.

A grade is read from the probabilities of the allowed answers where the model gives them.
Where it does not, the model writes its choice, held to a JSON schema if its server knows
how, and what cannot be read has a fallback that the grade's `note` names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.chunking import passage_text
from localrag.llms.base import LLM, ChoiceScorer, Message, Options
from localrag.prompts import REQUEST_KINDS, SUPPORT, YES_NO, PromptLanguage, render
from localrag.rag.citations import hide_labels
from localrag.types import ScoredChunk

UTILITIES = ("1", "2", "3", "4", "5")
UNREAD_UTILITY = 3.0
"""Taken where no number can be found in what a model wrote."""

_REPLY_TOKENS = 1024
"""For the thoughts of a model that thinks aloud; the reply itself is short."""

_SUPPORT_SHIFT: dict[PromptLanguage, float] = {"en": 0.4, "zh": 0.0}
"""Added to the log odds of a share of support, so that one threshold serves both languages: for
English statements the starter model's shares are lower by this (`benchmarks/self_rag.md`)."""

WRITTEN_PARTIAL_SUPPORT = 0.45
"""The share of a "partially supported" that a model wrote: between the thresholds of the
settings, which were measured on probabilities, for there it leaves no doubt."""

Choose = Callable[[Sequence[Message], Sequence[str], int], NDArray[np.float64] | None]
"""Messages, choices, how many messages come back -> probabilities of the choices, shape
(len(choices),), summing to 1; None where the reply could not be read."""


Similarity = Callable[[str, ScoredChunk], float]
"""How close question and passage are; taken for relevance where a reply cannot be read."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A value on the scale of its question; `note` says if it was not read as it should be."""

    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """Passages that prompts begin with: the first is kept as a state, the others follow it."""

    language: PromptLanguage
    passages: tuple[ScoredChunk, ...]

    def messages(self, task: str) -> list[Message]:
        """The passages, then the task."""
        first, *others = (passage_text(passage.chunk) for passage in self.passages)
        if others:
            together = hide_labels("\n\n".join(others))
            more = render("more_passages", self.language, passages=together)
            task = f"{more}\n\n{task}"
        return [
            Message("system", render("relevance_system", self.language, passage=first)),
            Message("user", task),
        ]


class Grader:
    """Asks the questions of Self-RAG (Asai et al. 2023, https://arxiv.org/abs/2310.11511)."""

    def __init__(self, choose: Choose, similarity: Similarity | None = None) -> None:
        self._choose = choose
        self._similarity = similarity or _score_of

    def needs_documents(self, question: str, language: PromptLanguage) -> Grade:
        """Probability that the documents are needed to answer at all."""
        messages = [Message("system", render("request_kinds", language))]
        lines = iter(render("request_examples", language).splitlines())
        for request, kind in zip(lines, lines, strict=True):
            messages += [Message("user", request), Message("assistant", kind)]
        kept = len(messages)
        messages.append(Message("user", question.strip()))
        chances = self._choose(messages, REQUEST_KINDS[language], kept)
        if chances is None:
            return Grade(1.0, "the reply could not be read, the documents are searched")
        return Grade(float(chances[0]))

    def relevance(self, question: str, reading: Reading) -> Grade:
        """Probability that the exact answer can be had from the passages alone."""
        task = render("relevance", reading.language, question=question.strip())
        chances = self._choose(reading.messages(task), YES_NO[reading.language], 1)
        if chances is None:
            similarity = min(max(self._similarity(question, reading.passages[0]), 0.0), 1.0)
            return Grade(similarity, "the reply could not be read, the similarity was taken")
        return Grade(float(chances[0]))

    def support(self, question: str, statement: str, reading: Reading) -> Grade:
        """How far the passages bear the statement out: the expected share of the 3 points.

        Fully supported counts 3, partially 1, no support 0.
        """
        task = render(
            "support", reading.language, question=question.strip(), statement=statement.strip()
        )
        chances = self._choose(reading.messages(task), SUPPORT[reading.language], 1)
        if chances is None:
            return Grade(0.0, "the reply could not be read, it counts as not supported")
        if chances.max() == 1.0:
            return Grade(float(chances @ np.array([1.0, WRITTEN_PARTIAL_SUPPORT, 0.0])))
        share = float(chances @ np.array([1.0, 1 / 3, 0.0]))
        return Grade(_shifted(share, _SUPPORT_SHIFT[reading.language]))

    def utility(self, question: str, answer: str, reading: Reading) -> Grade:
        """Expected usefulness of the answer, from 1 to 5."""
        task = render("utility", reading.language, question=question.strip(), answer=answer.strip())
        chances = self._choose(reading.messages(task), UTILITIES, 1)
        if chances is None:
            return Grade(UNREAD_UTILITY, "the reply could not be read, 3 was taken")
        return Grade(float(chances @ np.arange(1, len(UTILITIES) + 1)))


def _score_of(_: str, passage: ScoredChunk) -> float:
    """The score that the search gave, where nothing better is known."""
    return passage.score


def _shifted(share: float, shift: float) -> float:
    """A share from 0 to 1 with its log odds moved."""
    if not 0.0 < share < 1.0:
        return share
    return 1.0 / (1.0 + math.exp(-math.log(share / (1.0 - share)) - shift))


def from_probabilities(scorer: ChoiceScorer) -> Choose:
    """Choices by the model's own probabilities: nothing to parse, nothing to fail."""

    def choose(
        messages: Sequence[Message], choices: Sequence[str], keep: int
    ) -> NDArray[np.float64] | None:
        return scorer.score_choices(messages, choices, keep=keep)

    return choose


def from_text(llm: LLM) -> Choose:
    """Choices as the model writes them: all or nothing."""

    def choose(
        messages: Sequence[Message], choices: Sequence[str], keep: int
    ) -> NDArray[np.float64] | None:
        schema = {
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": list(choices)}},
            "required": ["answer"],
            "additionalProperties": False,
        }
        options = Options(max_tokens=_REPLY_TOKENS, schema=schema, keep=keep)
        index = choice_in(llm.complete(messages, options).text, choices)
        if index is None:
            return None
        chances = np.zeros(len(choices))
        chances[index] = 1.0
        return chances

    return choose


def choice_in(reply: str, choices: Sequence[str]) -> int | None:
    """Which choice a reply makes: as JSON, else the one that it names first; None if it names none.

    Of choices that begin at the same place the longest one counts.
    """
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        value = reply
    if isinstance(value, dict):
        value = value.get("answer")
    text = _ASKING.sub("", str(value))
    found = [
        (match.start(), -len(choice), index)
        for index, choice in enumerate(choices)
        if (match := re.search(_alone(choice), text, re.IGNORECASE | re.ASCII))
    ]
    return min(found)[2] if found else None


_ASKING = re.compile("是否|能否|可否|是不是|能不能")
"""Words that name both answers and give none."""


def _alone(choice: str) -> str:
    """The choice as a word of its own, not negated: no "no" in "not", no "是" in "不是"."""
    name = re.escape(choice)
    if choice.isascii():
        return rf"(?<!\w)(?<!not ){name}(?!\w)"
    return rf"(?<![不非未])(?<!不能)(?<!没有){name}"
