"""Transformer embedding models in ONNX form, run by ONNX Runtime without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models.embeddings import runtime
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.conventions import convention
from localrag.models.embeddings.fingerprint import fingerprint, weights_sha256


class OnnxEmbedder:
    """A folder with `model.onnx` and `tokenizer.json`.

    Pooling and prefixes come from the folder, else from the model's family (bge, e5).
    `threads` texts run at a time (default: one a core); `cache_dir` keeps the hash of the
    weights, which is computed only where `weights_sha256` is not given.
    Raises ModelError where the folder does not hold such a model.
    """

    def __init__(
        self,
        path: Path,
        *,
        threads: int | None = None,
        cache_dir: Path | None = None,
        weights_sha256: str | None = None,
    ) -> None:
        self._path = path
        self._threads = threads
        self._cache_dir = cache_dir
        self._sha256 = weights_sha256
        self._convention = convention(path)
        self._tokenizer = runtime.open_tokenizer(path / "tokenizer.json")
        self._session = runtime.open_session(path / "model.onnx")
        self._inputs = [node.name for node in self._session.get_inputs()]
        output = self._session.get_outputs()[0]
        if (
            not {"input_ids", "attention_mask"}.issuperset(set(self._inputs) - {"token_type_ids"})
            or len(output.shape) not in (2, 3)
            or not isinstance(output.shape[-1], int)
            or output.shape[-1] < 2
        ):
            raise ModelError(
                "{path} is an ONNX model, but not an embedding model: its inputs are "
                "{inputs}, and its output has the shape {shape}.",
                hint=(
                    "An embedding model takes input_ids and returns one vector per token or "
                    "per text."
                ),
                path=str(path / "model.onnx"),
                inputs=", ".join(self._inputs),
                shape=str(output.shape),
            )
        self._dimension = int(output.shape[-1])
        self._window = runtime.longest_input(path)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @cached_property
    def fingerprint(self) -> str:
        """Name of the folder and digest of weights, pooling and prefixes."""
        files = sorted(self._path.glob("model.onnx*"))
        sha256 = self._sha256 or weights_sha256(files, self._cache_dir)
        return fingerprint(self._path.name, sha256, self._convention)

    @cached_property
    def max_tokens(self) -> int:
        """The model's window less its special tokens and the longer prefix."""
        prefixes = (self._convention.query_prefix, self._convention.passage_prefix)
        return self._window - max(len(self._tokenizer.encode(prefix).ids) for prefix in prefixes)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens or prefix."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Passages -> (n, dimension) float32, L2-normalised, in the order given.

        What reaches over the model's window is cut.
        """
        return self._embed([self._convention.passage_prefix + text for text in texts], progress)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions -> (n, dimension) float32, L2-normalised, in the order given."""
        return self._embed([self._convention.query_prefix + text for text in texts], None)

    def _embed(self, texts: list[str], progress: Progress | None) -> Vectors:
        return runtime.run_each(self._run, texts, self._dimension, self._threads, progress)

    def _run(self, text: str) -> NDArray[Any]:
        """One text -> (dimension,) float32, not normalised."""
        ids = self._tokenizer.encode(text).ids
        if len(ids) > self._window:
            # The last special token ends the sequence, as in training.
            ids = [*ids[: self._window - 1], ids[-1]]
        tokens = np.array([ids], dtype=np.int64)
        feed = {"input_ids": tokens}
        if "attention_mask" in self._inputs:
            feed["attention_mask"] = np.ones_like(tokens)
        if "token_type_ids" in self._inputs:
            feed["token_type_ids"] = np.zeros_like(tokens)
        output: NDArray[Any] = self._session.run(None, feed)[0][0]
        if output.ndim == 1:
            return output
        vector: NDArray[Any] = output[0] if self._convention.pooling == "cls" else output.mean(0)
        return vector
