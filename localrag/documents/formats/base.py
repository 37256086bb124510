"""The contract of a parser: bytes of one file -> Document."""

from __future__ import annotations

from typing import Protocol

from localrag.types import Document


class Parser(Protocol):
    """Turns the bytes of one kind of file into a Document."""

    def parse(self, data: bytes, source: str) -> Document:
        """Parse `data`, read from `source` (a path, used for the title and messages only).

        Raises a `ParsingError` that says what is wrong with the file and what to do.
        """
        ...
