"""The contract of a retriever."""

from __future__ import annotations

from typing import Protocol

from localrag.types import Hit


class Retriever(Protocol):
    """Finds chunks for a question."""

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; ties by chunk id."""
