"""Deterministic stand-ins that tests of any room may use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.llms.base import Pace, TokenUse
from localrag.types import Message

_TOKEN = re.compile(r"[a-z0-9]+|[^\W\da-z_]", re.IGNORECASE)


class HashEmbedder:
    """Bags of words and Chinese characters: texts that share tokens are similar.

    Each token has a unit vector seeded by its SHA-256, a text is the normalised sum of its
    tokens' vectors. `calls` holds the texts of each `embed_documents`, in order.
    """

    def __init__(self, dimension: int = 64, max_tokens: int = 256, name: str = "hash") -> None:
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.fingerprint = f"{name} {dimension}"
        self.calls: list[list[str]] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(_tokens(text)) for text in texts]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        self.calls.append(list(texts))
        vectors = self.embed_queries(texts)
        if progress is not None:
            progress(len(texts))
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            total = sum((self._token(token) for token in _tokens(text)), start=vectors[row])
            # A text without tokens still needs a direction of its own.
            length = float(np.linalg.norm(total))
            vectors[row] = total / length if length else self._token("")
        return vectors

    def _token(self, token: str) -> NDArray[np.float32]:
        seed = int.from_bytes(hashlib.sha256(token.encode()).digest()[:8], "big")
        return _unit(seed, self.dimension)


class ConstantMeter:
    """A `CostMeter`: reading a prompt takes 10 s (100 tokens; 50 are kept), a reply 30 s."""

    use = TokenUse(read=30, kept=50, written=10, reading=3.0, writing=1.0)
    pace = Pace(10.0, 10.0, 300.0)

    def prompt_use(self, messages: Sequence[Message], *, keep: int = 0) -> TokenUse:
        return TokenUse(read=100, kept=50)


@lru_cache(2**14)  # of seeds: nothing here keeps words of a document that was removed
def _unit(seed: int, dimension: int) -> NDArray[np.float32]:
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
    unit.flags.writeable = False
    return unit


def _tokens(text: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(text)]
