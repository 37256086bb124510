"""The contract of a way to answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from localrag.types import Answer


class Pipeline(Protocol):
    """Answers a question from the library."""

    def stream(self, question: str) -> Iterator[str | Answer]:
        """Pieces of the answer as they come, and last of all the finished `Answer`.

        The pieces joined are `Answer.text`. Closing the iterator stops the model.
        """
        ...
