"""What the ways to answer have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from localrag.types import Answer, ScoredChunk, Step

Retrieve = Callable[[str, int], list[ScoredChunk]]
"""Question and k -> the k best passages, best first."""

OnStep = Callable[[Step], None]
"""Hears each step of a run as soon as it is done."""


def unheard(_: Step) -> None:
    """Tell nobody."""


class Pipeline(Protocol):
    """Answers a question from the library."""

    def stream(self, question: str, on_step: OnStep = unheard) -> Iterator[str | Answer]:
        """Pieces of the answer as they come, and last of all the finished `Answer`.

        The pieces joined are `Answer.text`. Closing the iterator stops the model.
        """
        ...


T = TypeVar("T")


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """A call's result and its seconds."""
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started
