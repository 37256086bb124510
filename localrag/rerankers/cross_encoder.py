"""Any local cross-encoder folder (bge-reranker among them), run by sentence-transformers.

PyTorch is imported when a model is opened, not with this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models.embeddings.sentence_transformers import need_pytorch, open_model
from localrag.rerankers.base import beginning
from localrag.rerankers.maxp import CrossEncoderReranker

_BATCH = 8
LONGEST_WINDOW = 1024
"""Tokens; bge-reranker-v2-m3 could read 8,192, at a cost that grows with their square."""


class SentenceTransformersCrossEncoder(CrossEncoderReranker):
    """A folder with a model for sequence classification with one label; nothing is downloaded.

    Code that comes with a model is never run, and pickled weights are read as data alone.
    Raises `ModelError` where the folder holds no such model.
    """

    def __init__(self, path: Path) -> None:
        if not (path / "config.json").is_file():
            raise ModelError(
                "{path} is not a cross-encoder folder: it lacks {missing}.",
                hint="Name the folder that contains config.json and the weights "
                "(model.safetensors or pytorch_model.bin), or model.onnx with "
                "tokenizer.json.",
                path=str(path),
                missing="config.json",
            )
        need_pytorch()
        from sentence_transformers import CrossEncoder

        self._model = open_model(CrossEncoder, path)
        labels = self._model.num_labels
        if labels != 1:
            raise ModelError(
                "{path} is not a reranker: it predicts {labels} classes instead of one score.",
                hint="Choose a cross-encoder that was trained for ranking, such as bge-reranker.",
                path=str(path),
                labels=labels,
            )
        self._tokenizer: Any = self._model.tokenizer
        # Version 5 of sentence-transformers has it only in the tokenizer.
        limit = getattr(self._model, "max_seq_length", None) or self._tokenizer.model_max_length
        self._window = min(int(limit), LONGEST_WINDOW)

    def _logits(self, query: str, windows: Sequence[str]) -> NDArray[np.float32]:
        import torch

        # In batches of like length, so that little is spent on padding.
        result = np.empty(len(windows), dtype=np.float32)
        question = beginning(query, self._window // 2, self._count)
        room = self._window - self._tokenizer.num_special_tokens_to_add(pair=True)
        room -= self._count(question)
        pairs = [(question, beginning(window, room, self._count)) for window in windows]
        order = sorted(range(len(pairs)), key=lambda index: -len(pairs[index][1]))
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            result[batch] = self._model.predict(
                [pairs[index] for index in batch],
                batch_size=_BATCH,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return result

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, as the model cuts it."""
        return [self._count(text) for text in texts]

    def _count(self, text: str) -> int:
        # verbose=False: a text longer than the window is what is to be found out.
        encoded = self._tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
        return len(encoded["input_ids"])
