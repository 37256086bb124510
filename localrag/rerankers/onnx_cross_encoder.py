"""Cross-encoders in ONNX form, run by ONNX Runtime without PyTorch.

Pairs are not batched. The models on hand quantise activations by the range of the whole
batch, so a score would depend on its neighbours: over 8 questions with 20 passages each it
moved by up to 0.58, changing the order in every third place. One pair a run with a thread a
core was also three times as fast as one padded batch (`benchmarks/reranking.md`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models.embeddings.runtime import OnnxTransformer
from localrag.rerankers.maxp import CrossEncoderReranker

if TYPE_CHECKING:
    from tokenizers import Encoding


class OnnxCrossEncoder(CrossEncoderReranker):
    """A folder with `model.onnx` (one logit a pair) and `tokenizer.json`.

    One pair a core runs at a time. Raises `ModelError` where the folder holds no such model.
    """

    def __init__(self, path: Path) -> None:
        self._model = OnnxTransformer(path)
        self._tokenizer = self._model.tokenizer
        shape = self._model.shape
        if not self._model.is_transformer or len(shape) != 2 or shape[1] != 1:
            raise ModelError(
                "{path} is an ONNX model, but not a cross-encoder: its inputs are {inputs}, "
                "and its output has the shape {shape}.",
                hint="A cross-encoder takes the input_ids of a question with a passage and "
                "returns one number.",
                path=str(path / "model.onnx"),
                inputs=", ".join(self._model.inputs),
                shape=str(shape),
            )

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, as the model cuts it."""
        return [len(encoding) for encoding in self._encoded(texts)]

    def _encoded(self, texts: Sequence[str]) -> list[Encoding]:
        encoded: list[Encoding] = self._tokenizer.encode_batch(
            list(texts), add_special_tokens=False
        )
        return encoded

    def _logits(self, query: str, windows: Sequence[str]) -> NDArray[np.float32]:
        question = self._tokenizer.encode(query, add_special_tokens=False)
        encoded = self._encoded(windows)
        result = np.empty(len(windows), dtype=np.float32)
        # The longest first, so that no thread begins it when the others are done.
        order = sorted(range(len(windows)), key=lambda index: -len(encoded[index]))
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="rerank") as pool:
            logits = pool.map(lambda index: self._run(question, encoded[index]), order)
            for index, logit in zip(order, logits, strict=True):
                result[index] = logit
        return result

    def _run(self, question: Encoding, passage: Encoding) -> float:
        pair = self._pair(question, passage)
        return float(self._model.run(pair.ids, pair.type_ids)[0])

    def _pair(self, question: Encoding, passage: Encoding) -> Encoding:
        """[CLS] question [SEP] passage [SEP], or what this model has in their stead."""
        room = self._model.window - self._tokenizer.num_special_tokens_to_add(is_pair=True)
        # A question that fills the window would leave nothing to compare it with.
        if len(question) > room // 2:
            question = self._shortened(question, room // 2)
        if len(question) + len(passage) > room:
            passage = self._shortened(passage, room - len(question))
        return self._tokenizer.post_process(question, passage)

    @staticmethod
    def _shortened(encoding: Encoding, length: int) -> Encoding:
        from tokenizers import Encoding as Copy

        copy = Copy.merge([encoding])  # an encoding is shared between threads and calls
        copy.truncate(length)
        return copy
