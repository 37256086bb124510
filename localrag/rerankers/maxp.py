"""Cross-encoders over long passages, which they read in windows: they learnt from short ones.

A passage is worth as much as its best window (MaxP: Dai and Callan, "Deeper Text
Understanding for IR with Contextual Neural Language Modeling", SIGIR 2019).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.documents.chunking import passage_text
from localrag.rerankers.base import ScoringReranker
from localrag.text.sentences import Span, split_sentences
from localrag.types import ScoredChunk

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


class CrossEncoderReranker(ScoringReranker):
    """A cross-encoder that scores each window of a passage with the question."""

    def _rate(self, query: str, chunks: Sequence[ScoredChunk]) -> list[float]:
        scores = self.scores(query, [passage_text(chunk.chunk) for chunk in chunks])
        return list(map(float, scores))

    def scores(self, query: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """The logit of each passage's best window, shape (len(passages),) float32.

        Where question and window together are longer than the model reads, the end of the
        window is cut.
        """
        if not passages:
            return np.empty(0, dtype=np.float32)
        pieces = [windows(passage, self.count_tokens) for passage in passages]
        logits = self._logits(
            query, [window for passage_windows in pieces for window in passage_windows]
        )
        starts = np.cumsum([0, *map(len, pieces[:-1])])
        highest: NDArray[np.float32] = np.maximum.reduceat(logits, starts)
        return highest

    @abstractmethod
    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, as the model cuts it."""

    @abstractmethod
    def _logits(self, query: str, windows: Sequence[str]) -> NDArray[np.float32]:
        """One logit for each window, which is cut where it does not fit."""


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
