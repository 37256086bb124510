"""Transformer embedding models in ONNX form, run by ONNX Runtime without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models.embeddings import runtime
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.conventions import convention
from localrag.models.embeddings.folder import FolderEmbedder, onnx_file


class OnnxEmbedder(FolderEmbedder):
    """A folder with an ONNX model and `tokenizer.json`; `threads` texts run at a time.

    Pooling and prefixes come from the folder, else from the model's family (bge, e5).
    """

    def _open(self) -> None:
        self._convention = convention(self._path)
        model = onnx_file(self._path)
        # Weights over 2 GB lie in a file beside it, such as model.onnx_data.
        self._weights = sorted(model.parent.glob(f"{model.name}*"))
        self._model = runtime.OnnxTransformer(self._path, model)
        shape = self._model.shape
        if (
            not self._model.is_transformer
            or len(shape) not in (2, 3)
            or not isinstance(shape[-1], int)
            or shape[-1] < 2
        ):
            raise ModelError(
                "{path} is an ONNX model, but not an embedding model: its inputs are "
                "{inputs}, and its output has the shape {shape}.",
                hint=(
                    "An embedding model takes input_ids and returns one vector per token or "
                    "per text."
                ),
                path=str(model),
                inputs=", ".join(self._model.inputs),
                shape=str(shape),
            )
        self.dimension = int(shape[-1])

    @cached_property
    def max_tokens(self) -> int:
        """The model's window less its special tokens and the longer prefix."""
        prefixes = (self._convention.query_prefix, self._convention.passage_prefix)
        encode = self._model.tokenizer.encode
        return self._model.window - max(len(encode(prefix).ids) for prefix in prefixes)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens or prefix."""
        encodings = self._model.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def _embed(self, texts: Sequence[str], prefix: str, progress: Progress | None) -> Vectors:
        marked = [prefix + text for text in texts]
        return runtime.run_each(self._run, marked, self.dimension, self._threads, progress)

    def _run(self, text: str) -> NDArray[Any]:
        """One text -> (dimension,) float32, not normalised."""
        ids = self._model.tokenizer.encode(text).ids
        if len(ids) > self._model.window:
            # The last special token ends the sequence, as in training.
            ids = [*ids[: self._model.window - 1], ids[-1]]
        output = self._model.run(ids, [0] * len(ids))
        if output.ndim == 1:
            return output
        vector: NDArray[Any] = output[0] if self._convention.pooling == "cls" else output.mean(0)
        return vector
