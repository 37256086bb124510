"""Answers as overlap metrics compare them: as tokens, without citations."""

from __future__ import annotations

import re
import unicodedata

from localrag.rag.citations import without_markers

_TOKEN = re.compile(
    r"[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af]"
    r"|[^\W_\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af]+"
)
_ARTICLES = frozenset(("a", "an", "the"))


def tokens(text: str) -> list[str]:
    """What EM and F1 compare: Chinese characters and lower-case words, nothing of punctuation.

    NFKC first, so that full-width digits and letters equal the common ones; citation markers and
    English articles are left out.
    """
    folded = unicodedata.normalize("NFKC", without_markers(text)).lower()
    return [token for token in _TOKEN.findall(folded) if token not in _ARTICLES]
