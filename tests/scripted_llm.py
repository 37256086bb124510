"""A language model that says what it was told to say, for tests of everything above it."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ContextOverflowError
from localrag.models.llms.base import Completion, Options, Pace, TokenUse
from localrag.rag.grading import SUPPORT
from localrag.tables.plan import OPERATIONS
from localrag.types import Message

_MENTIONS = re.compile(r"“(?P<word>[^”]+)”(?:, in this or in other words\?|，或意思相同的说法？)")


def asks_for_parts(messages: Sequence[Message]) -> bool:
    """Whether a model is to propose the parts of a question."""
    return messages[0].content.startswith(("Split a question", "把问题拆成"))


def asks_for_wordings(messages: Sequence[Message]) -> bool:
    """Whether a model is to put a question in other words."""
    return messages[-1].content.startswith(("You write three queries", "你为检索写出三种查询"))


class ScriptedLLM:
    """An `LLM` and `ChoiceScorer`: replies and probabilities come off two queues.

    A reply may be an exception, which is raised. `history` holds the messages and
    options of every call, `scored` the messages and choices,
    `kept` how many leading messages were to be kept. Four characters are a token.
    A sentence whose support is next in no script is supported, a word that a passage lacks is
    mentioned in other words unless it is `unmentioned`, and a question of which no score tells
    otherwise is about one thing; none of these is noted. It puts no question in other
    words unless it `rewords`.
    """

    name = "scripted"

    def __init__(
        self,
        replies: Iterable[str | Exception] = (),
        scores: Iterable[Mapping[str, float]] = (),
        *,
        context_window: int = 4096,
        unmentioned: Collection[str] = (),
        rewords: bool = False,
    ) -> None:
        self.rewords = rewords
        self.unmentioned = unmentioned
        self.replies = deque(replies)
        self.scores = deque(scores)
        self.history: list[tuple[tuple[Message, ...], Options]] = []
        self.scored: list[tuple[tuple[Message, ...], tuple[str, ...]]] = []
        self.kept: list[int] = []
        self._context_window = context_window

    @property
    def context_window(self) -> int:
        return self._context_window

    def count_tokens(self, text: str) -> int:
        return math.ceil(len(text) / 4)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        return sum(4 + self.count_tokens(message.content) for message in messages)

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        if asks_for_parts(messages) and not (
            self.replies and str(self.replies[0]).startswith('{"questions')
        ):
            return Completion('{"questions": []}', 0, 0, "stop")  # it asks for one thing
        if asks_for_wordings(messages) and not self.rewords:
            return Completion("{}", 0, 0, "stop")
        text = self._next(messages, options)
        return Completion(text, self.count_prompt_tokens(messages), self.count_tokens(text), "stop")

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        text = self._next(messages, options)
        return (text[start : start + 3] for start in range(0, len(text), 3))

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        own = tuple(choices) in SUPPORT.values()
        if own and not (self.scores and self.scores[0].keys() & set(choices)):
            return np.array([1.0, 0.0, 0.0])
        if tuple(choices) == OPERATIONS and not (
            self.scores and self.scores[0].keys() & set(choices)
        ):
            return np.eye(len(choices))[0]
        if word := _MENTIONS.search(messages[-1].content):
            return np.array([0.1, 0.9] if word["word"] in self.unmentioned else [0.9, 0.1])
        self.kept.append(keep)
        self.scored.append((tuple(messages), tuple(choices)))
        assert self.scores, "the script has no scores left"
        scores = self.scores.popleft()
        weights = np.array([scores.get(choice, 0.0) for choice in choices], dtype=np.float64)
        return weights / weights.sum()

    def _next(self, messages: Sequence[Message], options: Options) -> str:
        self.history.append((tuple(messages), options))
        if self.count_prompt_tokens(messages) > self.context_window:
            raise ContextOverflowError("The script's window is too small.")
        assert self.replies, "the script has no replies left"
        reply = self.replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        return reply


class MeteredLLM(ScriptedLLM):
    """The same as a `CostMeter`: reads 100 tokens a second and writes 10, 20 for a reply.

    The messages that are to be kept are not read again. Its speed is known once it is `measured`.
    """

    measured = True

    def __init__(
        self, replies: Iterable[str | Exception] = (), scores: Iterable[Mapping[str, float]] = ()
    ) -> None:
        super().__init__(replies, scores)
        self.states: set[tuple[Message, ...]] = set()
        self.begin()

    def begin(self) -> None:
        """From now on it serves another caller."""
        self.use = TokenUse()
        self._met: set[tuple[Message, ...]] = set()

    @property
    def pace(self) -> Pace | None:
        return Pace(100.0, 10.0, 20.0) if self.measured else None

    def prompt_use(self, messages: Sequence[Message], *, keep: int = 0) -> TokenUse:
        prefix = tuple(messages[:keep])
        reuse = self.count_prompt_tokens(prefix) if prefix in self.states else 0
        return TokenUse(read=self.count_prompt_tokens(messages) - reuse, kept=reuse)

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        self._read(messages, keep)
        return super().score_choices(messages, choices, keep=keep)

    def _next(self, messages: Sequence[Message], options: Options) -> str:
        self._read(messages, options.keep)
        text = super()._next(messages, options)
        count = self.count_tokens(text)
        self.use += TokenUse(written=count, writing=count / 10)
        return text

    def _read(self, messages: Sequence[Message], keep: int) -> None:
        use = self.prompt_use(messages, keep=keep)
        prefix = tuple(messages[:keep])
        reuse = 0 if prefix in self._met else use.kept
        self.use += TokenUse(read=use.read, kept=reuse, reading=use.read / 100)
        self._met.add(prefix)
        self.states.add(prefix)
