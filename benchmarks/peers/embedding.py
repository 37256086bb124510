"""localrag's starter embedding for the peers: the same weights, the same code, the same threads.

Universal Sentence Encoder multilingual v3 takes strings and has no pooling or tokeniser that any of
the libraries knows, so each gets it by its interface for an embedding of one's own. localrag's own
encoder stands behind that, with its prepared copy of the model that opens at once: what the
embedding costs is then no difference between the libraries. It needs NumPy, ONNX Runtime and
msgspec, and never imports torch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from worker import Task

ROOT = Path(__file__).resolve().parents[2]


class Encoder:
    """Texts and questions -> (n, 512) float32, L2-normalised."""

    def __init__(self, task: Task) -> None:
        sys.path.append(str(ROOT))
        from localrag.models.embeddings.use import UniversalSentenceEncoder

        self._encoder = UniversalSentenceEncoder(
            Path(task.embedding),
            threads=task.threads,
            cache_dir=Path(task.cache),
            weights_sha256=None,
        )
        self.dimension = self._encoder.dimension

    def documents(self, texts: list[str]) -> NDArray[np.float32]:
        return self._encoder.embed_documents(texts)

    def queries(self, texts: list[str]) -> NDArray[np.float32]:
        return self._encoder.embed_queries(texts)
