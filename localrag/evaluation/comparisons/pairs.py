"""Which of two answers is better: a language model as judge, with its favourite place cancelled.

A judge prefers an answer for where it stands. So each pair is judged in both orders, and the
two are joined by the geometric mean: what the place adds to the log-odds of an answer, it takes
in the other order (Wang et al., "Large Language Models are not Fair Evaluators", ACL 2024;
Zheng et al., "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena", NeurIPS 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from localrag.evaluation.comparisons.base import ComparedQuestion, Output
from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.base import LLM
from localrag.models.llms.choices import Choice, Chooser
from localrag.models.llms.structured import fits
from localrag.prompts import render
from localrag.rag.citations import without_markers
from localrag.rag.refusals import refuses
from localrag.types import Message

Criterion = Literal["relevance", "accuracy", "completeness", "concision"]
CRITERIA: tuple[Criterion, ...] = ("relevance", "accuracy", "completeness", "concision")

Basis = Literal["judge", "same answer", "known", "too long", "unreadable"]
"""Where a verdict comes from: the model; two answers that say the same; what the reference says
about refusing; or nowhere, as the prompt does not fit the window or no reply could be read."""

CLEAR = 0.6
"""A smaller probability that one answer is better is no verdict for it."""

REPLY_TOKENS = 24
_SMALLEST = 1e-6


@dataclass(frozen=True, slots=True)
class Verdict:
    """One criterion; `probability` that the first answer is better, None where it is not judged."""

    criterion: Criterion
    probability: float | None
    basis: Basis

    @property
    def better(self) -> int | None:
        """The better answer, 0 or 1; None where neither clearly is."""
        if self.probability is None or max(self.probability, 1 - self.probability) < CLEAR:
            return None
        return 0 if self.probability > 0.5 else 1


class PairJudge:
    """Asks a language model which of two answers is better.

    Of what a model without logits writes, only two orders that agree make a verdict.
    """

    def __init__(self, llm: LLM, chooser: Chooser) -> None:
        self._llm = llm
        self._chooser = chooser

    def __call__(
        self, asked: ComparedQuestion, language: LanguageCode, ways: Sequence[Output]
    ) -> tuple[Verdict, ...]:
        """A verdict on two variants for each criterion. Raises `BackendError`."""
        # Markers count passages of two different lists: they say nothing about the answers.
        first, second = (without_markers(way.answer.text).strip() for way in ways)
        refused = refuses(first), refuses(second)
        if first == second or all(refused):
            return tuple(Verdict(criterion, 0.5, "same answer") for criterion in CRITERIA)
        verdicts = _verdicts_without_judge(asked.answerable, refused)
        unknown = [criterion for criterion in CRITERIA if criterion not in verdicts]
        verdicts |= self._verdicts(unknown, asked, (first, second), language)
        return tuple(verdicts[criterion] for criterion in CRITERIA)

    def _verdicts(
        self,
        criteria: Sequence[Criterion],
        question: ComparedQuestion,
        answers: tuple[str, str],
        language: LanguageCode,
    ) -> dict[Criterion, Verdict]:
        prompts = [
            {name: _messages(name, question, order, language) for name in criteria}
            for order in (answers, answers[::-1])
        ]
        for messages in (messages for order in prompts for messages in order.values()):
            if not fits(self._llm, messages, REPLY_TOKENS):
                return {criterion: Verdict(criterion, None, "too long") for criterion in criteria}
        # One order after the other: what the prompts of an order share is read once. It is not
        # worth a place among the kept states, which are for passages that come back.
        chances = [
            {
                name: self._chooser.choose(messages, LANGUAGES[language].words.better_answer)
                for name, messages in order.items()
            }
            for order in prompts
        ]
        return {name: _joint_verdict(name, chances[0][name], chances[1][name]) for name in criteria}


def _joint_verdict(criterion: Criterion, as_given: Choice, swapped: Choice) -> Verdict:
    if not (as_given.read and swapped.read):
        return Verdict(criterion, None, "unreadable")
    first, second = as_given.probabilities, swapped.probabilities[::-1]
    logs = np.log(np.maximum(first, _SMALLEST)) + np.log(np.maximum(second, _SMALLEST))
    odds = (logs[0] - logs[1]) / 2
    return Verdict(criterion, float(1 / (1 + np.exp(-odds))), "judge")


def _verdicts_without_judge(
    answerable: bool | None, refused: tuple[bool, bool]
) -> dict[Criterion, Verdict]:
    """What needs no judge, where one answer refuses and it is known whether it should."""
    if answerable is None or refused[0] == refused[1]:
        return {}
    first = float(refused[0] != answerable)
    criteria: tuple[Criterion, ...] = ("relevance", "completeness")
    if not answerable:
        criteria = ("relevance", "accuracy", "completeness")
    return {criterion: Verdict(criterion, first, "known") for criterion in criteria}


def _messages(
    criterion: Criterion, question: ComparedQuestion, answers: Sequence[str], language: LanguageCode
) -> list[Message]:
    """The answers first: they are read once for all criteria."""
    right = ""
    if question.reference:
        right = render("compare_reference", language, reference=question.reference) + "\n"
    first, second = answers
    fields = {"question": question.question, "reference": right, "first": first, "second": second}
    system = render("compare_pair", language, **fields)
    name = f"compare_{criterion}"
    if question.reference and criterion in ("accuracy", "completeness"):
        name += "_known"
    return [Message("system", system), Message("user", render(name, language))]
