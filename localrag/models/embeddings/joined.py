"""Two embedding models side by side: one of many languages, and one that knows one of them better.

On questions in spoken English about documents in written English, whose words they hardly share,
the starter embedding alone has the answer among the first three sections for 12 of 26 and the two
together for 17 (`benchmarks/log/2026-11.md`, 2026-11-26, "two models in one vector"). Passages of
several languages are compared as `localrag.retrieval.languages` says.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from localrag.models.embeddings.base import Embedder, Progress, Vectors
from localrag.text.language import detect

WEIGHT = 4.0
"""What the second model's cosine counts beside the first's: 2 to 8 find about the same."""


class JoinedEmbedder:
    """Both models' vectors in one: the inner product is the weighted mean of their cosines.

    The second serves its `languages` alone, and all where nobody says which. To a passage in
    another it gives the part of an empty text, which is about as close to any question as a passage
    that has nothing to do with it, and to a question none, so that the first model alone decides.
    """

    def __init__(
        self, name: str, general: Embedder, special: Embedder, *, languages: Collection[str]
    ) -> None:
        self.general = general
        self._special = special
        self._languages = {*languages, "mixed"} if languages else frozenset()
        self.dimension = general.dimension + special.dimension
        parts = json.dumps([general.fingerprint, special.fingerprint, WEIGHT])
        self.fingerprint = f"{name} {hashlib.sha256(parts.encode()).hexdigest()[:16]}"

    @cached_property
    def _neutral(self) -> Vectors:
        """The second model's part for a passage that it does not serve, shape (its dimension,)."""
        vector: Vectors = self._special.embed_documents([""])[0]
        return vector

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens of the first model, that is embedded well."""
        return self.general.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, as the first model cuts it."""
        return self.general.count_tokens(texts)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Passages -> (n, dimension) float32, L2-normalised, in the order given."""
        special = np.empty((len(texts), self._special.dimension), dtype=np.float32)
        rows = self._served_rows(texts)
        if len(rows) < len(texts):
            special[:] = self._neutral
            if progress is not None:
                progress(len(texts) - len(rows))
        if rows:
            special[rows] = self._special.embed_documents([texts[row] for row in rows], progress)
        return _joined_vectors(self.general.embed_documents(texts), special)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions -> (n, dimension) float32, L2-normalised, in the order given."""
        special = np.zeros((len(texts), self._special.dimension), dtype=np.float32)
        if rows := self._served_rows(texts):
            special[rows] = self._special.embed_queries([texts[row] for row in rows])
        return _joined_vectors(self.general.embed_queries(texts), special)

    def general_part(self, query: Vectors) -> Vectors | None:
        """A question's vector, shape (dimension,), as if the second model did not serve it.

        None where it does not.
        """
        size = self.general.dimension
        if not query[size:].any():
            return None
        alone = np.zeros_like(query)
        alone[:size] = query[:size] / np.linalg.norm(query[:size])
        return alone

    def serves(self, text: str) -> bool:
        """Whether the second model embeds a text, too."""
        return not self._languages or detect(text) in self._languages

    def _served_rows(self, texts: Sequence[str]) -> list[int]:
        return [row for row, text in enumerate(texts) if self.serves(text)]


def general(embedder: Embedder) -> Embedder:
    """The model that compares sentences of any language, quickly and on one scale."""
    return embedder.general if isinstance(embedder, JoinedEmbedder) else embedder


def _joined_vectors(first: Vectors, second: Vectors) -> Vectors:
    """Rows (n, a) and (n, b), the second of length 1 or 0 -> (n, a + b), L2-normalised."""
    weighted = second * np.float32(math.sqrt(WEIGHT))
    lengths = np.sqrt(1 + WEIGHT * np.square(second).sum(axis=1, keepdims=True))
    vectors: Vectors = np.hstack([first, weighted]) / lengths
    return vectors.astype(np.float32, copy=False)
