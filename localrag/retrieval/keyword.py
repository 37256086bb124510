"""Keyword retrieval: BM25 over the question's terms."""

from __future__ import annotations

from collections.abc import Callable

from localrag.library.indexes.base import KeywordSearch
from localrag.types import Hit


class KeywordRetriever:
    """Cuts the question as passages were cut and asks the keyword index."""

    def __init__(self, tokenize: Callable[[str], list[str]], index: KeywordSearch) -> None:
        self._tokenize = tokenize
        self._index = index

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits by BM25; none when the question shares no term with any passage."""
        terms = self._tokenize(query)
        return self._index.search(terms, k) if terms else []
