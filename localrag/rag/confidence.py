"""How sure it is that a passage holds the answer that was written from it.

A logistic regression on what is known by then, each of which another can outweigh: the passage's
relevance, how far it bears the draft out, and whether it has the figures that the question names,
without which it is about another year or model. Fitted on the labelled questions of `models
calibrate`, tried on other sets (`benchmarks/self_rag.md`).
"""

from __future__ import annotations

import math
import re
import unicodedata

from localrag.types import ScoredChunk

_INTERCEPT = -1.05
_RELEVANCE = 2.32
_SUPPORT = 0.8
_OTHER_FIGURES = -3.6
"""Weights of the log odds of the grades, and of a figure of the question that is not there."""

_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_FAR = 1e-4


def confidence(question: str, found: ScoredChunk, relevance: float, support: float) -> float:
    """The probability that the passage holds the answer; the grades as the starter gives them."""
    log_odds = _INTERCEPT + _RELEVANCE * _log_odds(relevance) + _SUPPORT * _log_odds(support)
    if lacks_figures(question, found):
        log_odds += _OTHER_FIGURES
    return 1.0 / (1.0 + math.exp(-log_odds))


def lacks_figures(question: str, found: ScoredChunk) -> bool:
    """Whether the question names a figure that stands neither in the passage nor above it."""
    chunk = found.chunk
    return bool(_figures(question) - _figures(f"{found.source} {chunk.heading} {chunk.text}"))


def _figures(text: str) -> set[str]:
    return {
        figure.replace(",", "") for figure in _FIGURE.findall(unicodedata.normalize("NFKC", text))
    }


def _log_odds(probability: float) -> float:
    probability = min(max(probability, _FAR), 1 - _FAR)
    return math.log(probability / (1.0 - probability))
