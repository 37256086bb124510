"""How much text a request may have computed, whichever route it takes; a test walks all of them.

A text of n code points is hardly more than n tokens of any model, and is counted without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta

from localrag.errors import UsageError

LONGEST_QUESTION: Final = 8_000
"""Code points of a question, of words to search for, or of a name that is looked up."""
LONGEST_CONVERSATION: Final = 200_000
"""Code points of a question and all turns before it."""
MOST_CELLS: Final = 50_000
"""Of a table: hours of the language model, which others get in turn."""
MOST_TOKENS: Final = 100_000
"""Tokens of all texts that are embedded for a request, by the embedding model's own count."""

Question = Annotated[str, Meta(max_length=LONGEST_QUESTION)]


def expect_few_cells(count: int) -> None:
    """Raises `UsageError` for a table with too many."""
    if count > MOST_CELLS:
        raise UsageError(
            "The table would have {count} cells; the limit is {most}.",
            hint="Choose fewer documents, by folder, kind or words.",
            count=count,
            most=MOST_CELLS,
        )


def expect_short(question: str, before: Iterable[str] = ()) -> None:
    """Raises `UsageError` for a question that is too long, or with too much said `before` it."""
    if len(question) > LONGEST_QUESTION:
        raise UsageError(
            "The question has {count} characters; the limit is {most}.",
            hint="Ask for what matters, or add the text to the library.",
            count=len(question),
            most=LONGEST_QUESTION,
        )
    count = len(question) + sum(map(len, before))
    if count > LONGEST_CONVERSATION:
        raise UsageError(
            "The conversation has {count} characters; the limit is {most}.",
            hint="Leave out the oldest messages.",
            count=count,
            most=LONGEST_CONVERSATION,
        )
