"""The contracts of a language model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.errors import StoppedError
from localrag.types import Message


@dataclass(frozen=True, slots=True)
class Options:
    """How to generate. `max_tokens` 0 means: as many as the window leaves."""

    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    schema: Mapping[str, object] | None = None
    """A JSON schema that the output is held to."""
    keep: int = 0
    """The first so many messages (a passage with its rules) will come back with other
    questions: a backend that can does not read them again. The text is the same."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer and what it cost."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: Literal["stop", "length"]
    cached_prompt_tokens: int = 0
    """Tokens of the prompt that were still in the cache and were not read again."""


class LLM(Protocol):
    """Writes text for a chat."""

    @property
    def name(self) -> str:
        """What a person calls this model."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that prompt and answer may take together."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a plain text, never read as control tokens."""
        ...

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the whole prompt, with what the chat template puts around the messages."""
        ...

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        """Generate a whole answer. Raises `ContextOverflowError` or `BackendError`."""
        ...

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        """Generate piece by piece; closing the iterator stops the model."""
        ...


class ChoiceScorer(Protocol):
    """Reads a decision from the model's logits: nothing to parse, nothing to fail."""

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        """Probability of each choice as the whole reply, shape (len(choices),), summing to 1.

        The first `keep` messages will come back with other questions: what the model made
        of them is kept, within bounds, and not computed again. The result is the same.
        """
        ...


LAST = -1
"""The number of what follows the last layer: its state after the norm, of the last token alone."""


@dataclass(frozen=True)
class Attention:
    """What the tokens of a prompt pay on average to each token of its kept messages.

    Token i of `text`, the kept part as bytes, ends at `ends[i]`, shape (tokens,) int64. The shares
    are computed when they are first wanted.
    """

    compute: Callable[[], NDArray[np.float32]]
    ends: NDArray[np.int64]
    text: bytes

    @cached_property
    def shares(self) -> NDArray[np.float32]:
        """Of 1, shape (layers, heads, tokens)."""
        return self.compute()

    def to(self, part: str) -> NDArray[np.float32] | None:
        """What a part of the text gets, where it stands last, shape (layers, heads); None: nowhere.

        A token that is only half of it counts.
        """
        sought = part.encode("utf-8", "replace")
        start = self.text.rfind(sought) if sought else -1
        if start < 0:
            return None
        first = int(np.searchsorted(self.ends, start, "right"))
        last = int(np.searchsorted(self.ends, start + len(sought), "left"))
        paid: NDArray[np.float32] = self.shares[..., first : last + 1].sum(-1)
        return paid


@dataclass(frozen=True, slots=True)
class Activations:
    """What a model makes of the tokens of a task, on average.

    `state`, shape (width,) float32, and where they look, if that was wanted and is shown.
    """

    state: NDArray[np.float32]
    attention: Attention | None = None


class StateReader(Protocol):
    """Shows what a model made of a prompt before it chooses a word."""

    def activations(
        self,
        messages: Sequence[Message],
        layer: int,
        *,
        keep: int = 0,
        attending: range = range(0),
        shallow: bool = False,
    ) -> Activations:
        """The mean hidden state behind a layer, by its number from 0 or `LAST`.

        Over all tokens behind the first `keep` messages, which come back as in `ChoiceScorer`, but
        behind `LAST` of the last token alone; with where all of these look in them, in layers
        `attending` up to it. `shallow`, nothing of the kept messages is computed behind the layer,
        unless it was before: what is then written behind them reads them anew.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenUse:
    """What calls of a model took: tokens and seconds.

    Of prompts, `read` tokens were read in `reading` seconds, and `kept` need not be, as what the
    model made of them was there before; `written` tokens of replies took `writing` seconds.
    """

    read: int = 0
    kept: int = 0
    written: int = 0
    reading: float = 0.0
    writing: float = 0.0

    def __add__(self, other: TokenUse) -> TokenUse:
        return TokenUse(
            self.read + other.read,
            self.kept + other.kept,
            self.written + other.written,
            self.reading + other.reading,
            self.writing + other.writing,
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """Tokens per second when reading (prefill) and writing (decode), and tokens of a usual reply.

    As calls on this machine have shown it.
    """

    prefill: float
    decode: float
    reply: float


class CostMeter(Protocol):
    """Tells what the calls of one caller have taken, and what a prompt would take."""

    @property
    def use(self) -> TokenUse:
        """What they have taken so far."""
        ...

    @property
    def pace(self) -> Pace | None:
        """How fast the model is here; None while that has not been measured."""
        ...

    def prompt_use(self, messages: Sequence[Message], *, keep: int = 0) -> TokenUse:
        """Tokens that would be read of this prompt now, and those that are kept; no seconds.

        `keep` as in `ChoiceScorer`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """What became of a prefix that nobody has asked about yet: tokens read, bytes kept.

    It is "there" already, there is no room ("full"), or its text must not be kept ("gone").
    """

    outcome: Literal["kept", "there", "full", "gone"]
    tokens: int = 0
    size: int = 0


class AheadReader(Protocol):
    """Keeps what it made of a prefix for questions that are still to come."""

    def read_ahead(
        self,
        messages: Sequence[Message],
        *,
        keep: int,
        limit: int,
        tier: int | None,
        still: Callable[[], bool],
    ) -> ReadAhead:
        """Read the first `keep` messages, and keep their state for calls with the same `keep`.

        What questions have kept stays; what is read ahead takes at most `limit` bytes, in which
        tier 0 goes before 1; with None it is kept as what a question has read. `still` says,
        before and after it is kept, whether it may be.
        Raises `StoppedError`, `ContextOverflowError`, `BackendError`, OSError for a full disk.
        """
        ...


def check_stopped(stopped: threading.Event) -> None:
    """Raise `StoppedError` where somebody has asked for it."""
    if stopped.is_set():
        raise StoppedError("The language model was stopped.")
