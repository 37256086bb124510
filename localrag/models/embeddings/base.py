"""The contract of an embedding model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Shape (n, dimension), float32, each row L2-normalised."""

Progress = Callable[[int], None]
"""Called with the number of texts done since the last call."""


class Embedder(Protocol):
    """A bi-encoder. Queries and documents differ: bge and e5 prefix their queries."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Identifies the vector space: name, weights, pooling and prefixes."""

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens of this model, that is embedded whole (prefix not included)."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, as this model cuts it, without special tokens or prefix."""

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Passages -> (n, dimension) float32, L2-normalised, in the order given."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions -> (n, dimension) float32, L2-normalised, in the order given."""
