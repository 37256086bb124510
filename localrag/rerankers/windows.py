"""Long passages in pieces, for cross-encoders, which learnt from short ones.

A passage is worth as much as its best piece (MaxP: Dai and Callan, "Deeper Text
Understanding for IR with Contextual Neural Language Modeling", SIGIR 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.text.sentences import Span, split_sentences

WINDOW_TOKENS = 96
"""About a passage of MS MARCO, from which rerankers learn."""

MOST_WINDOWS = 6
"""A passage's share of the time that a person waits; about what a model of 512 tokens reads."""

_WHOLE = 1.5
"""A text of up to so many windows stays whole."""

_HEADING = 1 / 3
"""A first line longer than this share of a window is no heading and is not repeated."""

CountTokens = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, as the model cuts it."""


def best_window_scores(
    passages: Sequence[str],
    count_tokens: CountTokens,
    score: Callable[[Sequence[str]], NDArray[np.float32]],
) -> NDArray[np.float32]:
    """The highest score among each passage's windows, shape (len(passages),) float32.

    `score` gives one score for each of the texts that it is given.
    """
    if not passages:
        return np.empty(0, dtype=np.float32)
    pieces = [windows(passage, count_tokens) for passage in passages]
    scores = score([window for each in pieces for window in each])
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    best: NDArray[np.float32] = np.maximum.reduceat(scores, starts)
    return best


def windows(text: str, count_tokens: CountTokens) -> list[str]:
    """At least one and at most `MOST_WINDOWS` pieces of whole sentences, from the beginning.

    Each has about `WINDOW_TOKENS`, neighbours share a sentence, and a heading in the first
    line stands in front of each. A longer sentence is a piece of its own.
    """
    if count_tokens([text])[0] <= _WHOLE * WINDOW_TOKENS:
        return [text]
    heading, line_break, body = text.partition("\n")
    if not body.strip() or count_tokens([heading])[0] > _HEADING * WINDOW_TOKENS:
        heading, line_break, body = "", "", text
    spans = split_sentences(body) or [Span(0, len(body))]
    lengths = count_tokens([body[start:end] for start, end in spans])
    pieces: list[str] = []
    first = 0
    while len(pieces) < MOST_WINDOWS:
        after, tokens = first + 1, lengths[first]
        while after < len(spans) and tokens + lengths[after] <= WINDOW_TOKENS:
            tokens += lengths[after]
            after += 1
        pieces.append(heading + line_break + body[spans[first].start : spans[after - 1].end])
        if after == len(spans):
            break
        first = max(after - 1, first + 1)
    return pieces
