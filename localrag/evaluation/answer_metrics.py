"""Metrics of an answer that need no judge: exact match, F1, refusals, pages found."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from localrag.evaluation.dataset import Context
from localrag.text.language import detect

_TOKEN = re.compile(
    r"[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af]"
    r"|[^\W_\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af]+"
)
_ARTICLES = frozenset(("a", "an", "the"))
MARKER = re.compile(r" ?\[(\d{1,3})\]")
"""A citation in an answer."""


def tokens(text: str) -> list[str]:
    """What EM and F1 compare: Chinese characters and lower-case words, nothing of punctuation.

    NFKC first, so that full-width digits and letters equal the common ones; citation markers and
    English articles are left out.
    """
    folded = unicodedata.normalize("NFKC", MARKER.sub("", text)).lower()
    return [token for token in _TOKEN.findall(folded) if token not in _ARTICLES]


def exact_match(answer: str, reference: str) -> float:
    """1.0 where both have the same tokens in the same order, else 0.0.

    Rajpurkar et al., "SQuAD", EMNLP 2016; Chinese as in Cui et al., "A Span-Extraction Dataset
    for Chinese Machine Reading Comprehension" (CMRC 2018), EMNLP 2019.
    """
    return float(tokens(answer) == tokens(reference))


def f1(answer: str, reference: str) -> float:
    """Harmonic mean of precision and recall over tokens: 2PR / (P + R).

    English by words (SQuAD). Chinese by character and by the longest common run, as CMRC 2018
    has it: P and R are its length over the answer's and the reference's.
    """
    given, wanted = tokens(answer), tokens(reference)
    if not given or not wanted:
        return float(given == wanted)
    if detect(reference) == "en":
        common = sum((Counter(given) & Counter(wanted)).values())
    else:
        common = _longest_common_run(given, wanted)
    return 2 * common / (len(given) + len(wanted))


def page_reciprocal_rank(
    contexts: Sequence[Context], source: str, page: int | None
) -> float | None:
    """1 / rank of the first context from the page that holds the answer, 0 where none is.

    Files are compared by name. With `page` None any page of the file will do. None where the
    contexts do not say where they come from.
    """
    if not source or not any(context.source for context in contexts):
        return None
    for rank, context in enumerate(contexts, start=1):
        same = _name(context.source) == _name(source)
        if same and (page is None or context.first_page <= page <= context.last_page):
            return 1.0 / rank
    return 0.0


def _name(source: str) -> str:
    return PurePath(source.replace("\\", "/")).name


def _longest_common_run(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest contiguous run that both sequences have."""
    best = 0
    before = [0] * (len(other) + 1)
    for left in one:
        row = [0] * (len(other) + 1)
        for place, right in enumerate(other, start=1):
            if left == right:
                row[place] = before[place - 1] + 1
                best = max(best, row[place])
        before = row
    return best
