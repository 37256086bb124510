"""Two embedding models side by side: one of many languages, and one that reads English better.

On questions in spoken English about documents in written English, whose words they hardly share,
the starter embedding alone has the answer among the first ten passages for 16 of 26 and the two
together for 22; across languages and in Chinese the first decides as before
(`benchmarks/log/2026-11.md`, 2026-11-26, "two models in one vector").
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

import numpy as np

from localrag.languages.en import ENGLISH
from localrag.models.embeddings.base import Embedder, Progress, Vectors
from localrag.text.language import detect

WEIGHT = 4.0
"""What the English model's cosine counts beside the other's; from 1.5 on it finds the same."""


class JoinedEmbedder:
    """Both models' vectors in one: the inner product is the weighted mean of their cosines.

    A text in another language has no English part of its own: a passage has that of an empty text
    there, which is about as close to any question as a passage that has nothing to do with it, and
    a question has none, so that the first model alone decides.
    """

    def __init__(self, name: str, general: Embedder, english: Embedder) -> None:
        self.general = general
        self._english = english
        self._neutral = english.embed_documents([""])[0]
        self.dimension = general.dimension + english.dimension
        parts = json.dumps([general.fingerprint, english.fingerprint, WEIGHT])
        self.fingerprint = f"{name} {hashlib.sha256(parts.encode()).hexdigest()[:16]}"

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens of the first model, that is embedded well."""
        return self.general.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, as the first model cuts it."""
        return self.general.count_tokens(texts)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Passages -> (n, dimension) float32, L2-normalised, in the order given."""
        english = np.tile(self._neutral, (len(texts), 1))
        rows = _in_english(texts)
        if progress is not None and len(rows) < len(texts):
            progress(len(texts) - len(rows))
        if rows:
            own = self._english.embed_documents([texts[row] for row in rows], progress)
            english[rows] = own
        return _joined(self.general.embed_documents(texts), english)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions -> (n, dimension) float32, L2-normalised, in the order given."""
        english = np.zeros((len(texts), self._english.dimension), dtype=np.float32)
        if rows := _in_english(texts):
            english[rows] = self._english.embed_queries([texts[row] for row in rows])
        return _joined(self.general.embed_queries(texts), english)


def general(embedder: Embedder) -> Embedder:
    """The model that compares sentences of any language, quickly and on one scale."""
    return embedder.general if isinstance(embedder, JoinedEmbedder) else embedder


def _in_english(texts: Sequence[str]) -> list[int]:
    return [row for row, text in enumerate(texts) if detect(text) in (ENGLISH.code, "mixed")]


def _joined(first: Vectors, second: Vectors) -> Vectors:
    """Rows (n, a) and (n, b), the second of length 1 or 0 -> (n, a + b), L2-normalised."""
    weighted = second * np.float32(math.sqrt(WEIGHT))
    lengths = np.sqrt(1 + WEIGHT * np.square(second).sum(axis=1, keepdims=True))
    vectors: Vectors = np.hstack([first, weighted]) / lengths
    return vectors.astype(np.float32, copy=False)
