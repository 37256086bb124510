"""Passage vectors kept on disk, so that a set is embedded once for each embedding model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from localrag.models.embeddings.base import Embedder, Progress, Vectors
from localrag.system.files import make_folder, replace_file


def document_vectors(
    embedder: Embedder, texts: Sequence[str], folder: Path, progress: Progress | None = None
) -> Vectors:
    """The vectors of `texts`, shape (n, dimension) float32, from `folder` if they are there.

    A file is named after the digest of the model's fingerprint and of all texts in their order:
    another text, order or model is another file. The folder may be deleted at any time.
    """
    digest = hashlib.sha256(embedder.fingerprint.encode())
    for text in texts:
        digest.update(json.dumps(text).encode())
    path = folder / f"{digest.hexdigest()[:32]}.npy"
    try:
        vectors: Vectors = np.load(path, allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        vectors = np.empty((0, 0), dtype=np.float32)
    if vectors.shape == (len(texts), embedder.dimension) and vectors.dtype == np.float32:
        if progress is not None:
            progress(len(texts))
        return vectors
    vectors = embedder.embed_documents(texts, progress)
    make_folder(folder)
    replace_file(path, lambda file: np.save(file, vectors, allow_pickle=False))
    return vectors
