"""Which of a few answers a model chooses: from its logits, else as it writes it.

The one place that knows both ways. What a choice means is its caller's affair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from localrag.languages import LanguageCode
from localrag.models.llms.base import LLM, ChoiceScorer
from localrag.models.llms.probes import Pointer, Probes
from localrag.models.llms.structured import object_schema, options_of_attempt
from localrag.prompts import with_examples
from localrag.types import Message

ATTEMPTS = 3
"""How often a model without logits is asked before its reply counts as unreadable."""

_REPLY_TOKENS = 1024
"""For the thoughts of a model that thinks aloud; the reply itself is short."""

_SHORTEST_REPLY = 32

_ASKING = re.compile("是否|能否|可否|是不是|能不能")
"""Words that name both answers and give none."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`probabilities` of the choices, shape (len(choices),) float64, summing to 1.

    Written, one of them has all of it; unread, each has the same.
    """

    probabilities: NDArray[np.float64]
    source: Literal["logits", "written", "unread"]

    @property
    def read(self) -> bool:
        """Whether the model has chosen at all."""
        return self.source != "unread"

    def __getitem__(self, place: int) -> float:
        return float(self.probabilities[place])


class LogitChooser:
    """Choices by the model's own probabilities: nothing to parse, nothing to fail."""

    reads_logits = True
    """Whether probabilities are the model's own, and not all or nothing."""

    def __init__(self, scorer: ChoiceScorer, probes: Probes | None = None) -> None:
        self._scorer = scorer
        self._probes = probes
        self.is_probed = probes is not None

    def probe(
        self, decisions: Sequence[str], messages: Sequence[Message], *, keep: int = 0
    ) -> list[float] | None:
        """Probability of a yes to each, read from the model's state; None where that is not known.

        Raises as `choose`.
        """
        if self._probes is None:
            return None
        return self._probes.probabilities(decisions, messages, keep=keep)

    def look(
        self, decision: str, messages: Sequence[Message], *, keep: int, shallow: bool = False
    ) -> tuple[float, Pointer | None] | None:
        """The probability of one decision, and where the model looks, as `Probes.look`."""
        if self._probes is None:
            return None
        return self._probes.look(decision, messages, keep=keep, shallow=shallow)

    def choose(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> Choice:
        """What the model chooses as its whole reply; the first `keep` messages come back.

        Raises `ContextOverflowError` or `BackendError`.
        """
        return Choice(self._scorer.score_choices(messages, choices, keep=keep), "logits")


class WrittenChooser:
    """Choices as the model writes them, held to a JSON schema where its server knows how."""

    reads_logits = is_probed = False

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def probe(
        self, decisions: Sequence[str], messages: Sequence[Message], *, keep: int = 0
    ) -> None:
        """None: a server does not show the states of its model."""

    def look(
        self, decision: str, messages: Sequence[Message], *, keep: int, shallow: bool = False
    ) -> None:
        """None: nor where it looks."""

    def choose(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> Choice:
        """As `LogitChooser`."""
        schema = object_schema(answer={"type": "string", "enum": list(choices)})
        room = self._llm.context_window - self._llm.count_prompt_tokens(messages)
        limit = max(_SHORTEST_REPLY, min(_REPLY_TOKENS, room))
        for attempt in range(ATTEMPTS):
            options = options_of_attempt(attempt, limit, schema, keep)
            index = choice_in(self._llm.complete(messages, options).text, choices)
            if index is not None:
                return Choice(np.eye(len(choices))[index], "written")
        return Choice(np.full(len(choices), 1 / len(choices)), "unread")


Chooser = LogitChooser | WrittenChooser
"""Lets a model choose."""


def make_chooser(llm: LLM, scorer: ChoiceScorer | None, probes: Probes | None = None) -> Chooser:
    """The best that a backend allows; `scorer` None where it shows no logits."""
    return LogitChooser(scorer, probes) if scorer is not None else WrittenChooser(llm)


def choose_by_examples(
    task: str, language: LanguageCode, question: str, choices: Sequence[str], chooser: Chooser
) -> Choice:
    """What the model chooses for a question, after examples that come back."""
    messages = with_examples(task, language, question)
    return chooser.choose(messages, choices, keep=len(messages) - 1)


def choice_in(reply: str, choices: Sequence[str]) -> int | None:
    """Which choice a reply makes: as JSON, else the one that it names first; None if it names none.

    Of choices that begin at the same place the longest one counts.
    """
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        value = reply
    if isinstance(value, dict):
        value = next(iter(value.values()), None)
    if isinstance(value, bool) and len(choices) == 2:
        return 0 if value else 1
    text = _ASKING.sub("", str(value))
    found = [
        (match.start(), -len(choice), index)
        for index, choice in enumerate(choices)
        if (match := re.search(_alone(choice), text, re.IGNORECASE | re.ASCII))
    ]
    return min(found)[2] if found else None


def _alone(choice: str) -> str:
    """The choice as a word of its own, not negated: no "no" in "not", no "是" in "不是"."""
    name = re.escape(choice)
    if choice.isdecimal():
        return rf"(?<![\w.,/-]){name}(?![\w]|[.,]\d)"
    if choice.isascii():
        return rf"(?<!\w)(?<!not ){name}(?!\w)"
    return rf"(?<![不非未])(?<!不能)(?<!没有){name}"
