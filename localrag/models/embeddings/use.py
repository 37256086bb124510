"""The starter embedding: Universal Sentence Encoder multilingual v3 in ONNX form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models.embeddings import runtime, use_conversion
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.conventions import Convention
from localrag.models.embeddings.fingerprint import file_key, fingerprint, weights_sha256
from localrag.models.embeddings.unigram import UnigramTokenizer

if TYPE_CHECKING:
    import onnxruntime  # type: ignore[import-untyped]

_DIMENSION = 512
_BEGIN, _END = 1, 2
_CONVENTION = Convention("mean")

MAX_TOKENS = 512
"""A bound of quality, not of the model, which reads texts of any length whole: it averages
over n-grams, and passages of more than about 400 tokens are found worse."""


class UniversalSentenceEncoder:
    """16 languages in one space, Chinese and English among them (Yang et al. 2020).

    `path` is the folder with the ONNX file. `threads` texts run at a time (default: one a
    core). `cache_dir` keeps the model in a form that opens at once, and the hash of the
    weights, which is computed only where `weights_sha256` is not given. Raises ModelError
    where the folder holds no such model.
    """

    def __init__(
        self,
        path: Path,
        *,
        threads: int | None = None,
        cache_dir: Path | None = None,
        weights_sha256: str | None = None,
    ) -> None:
        file = use_conversion.find_model_file(path)
        if file is None:
            raise ModelError(
                "{path} is not a Universal Sentence Encoder in ONNX form: no .onnx file in it"
                " begins with a SentencePiece operator.",
                hint="Pull the model again, or name another embedding model.",
                path=str(path),
            )
        self._file = file
        self._threads = threads
        self._cache_dir = cache_dir
        self._sha256 = weights_sha256
        kept = cache_dir / f"{file_key(file)}.use.npz" if cache_dir else None
        parts = use_conversion.converted(file, kept)
        self._inputs = parts["inputs"].tolist()
        self._light_tokenizer = UnigramTokenizer(parts) if "pieces" in parts else None
        # The graph gains nothing from ONNX Runtime's optimiser, which takes 20 ms.
        self._session = runtime.open_session(
            parts["encoder"].tobytes(), optimise=False, weights_folder=file.parent
        )

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return _DIMENSION

    @cached_property
    def fingerprint(self) -> str:
        """Name of the folder and digest of the weights."""
        sha256 = self._sha256 or weights_sha256([self._file], self._cache_dir)
        return fingerprint(self._file.parent.name, sha256, _CONVENTION)

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens of this model, that is embedded well."""
        return MAX_TOKENS

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without the marks of begin and end."""
        return [len(ids) - 2 for ids in self._tokenise(texts)]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Passages -> (n, 512) float32, L2-normalised, in the order given."""
        return self._embed(self._tokenise(texts), progress)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions -> (n, 512) float32, L2-normalised, in the order given."""
        tokenizer = self._light_tokenizer
        if tokenizer is None:
            return self._embed(self._tokenise(texts), None)
        rows = [[_BEGIN, *tokenizer.encode(_without_nul(text)), _END] for text in texts]
        return self._embed([np.array(row, dtype=np.int32) for row in rows], None)

    def _embed(self, rows: list[NDArray[np.int32]], progress: Progress | None) -> Vectors:
        return runtime.run_each(self._run, rows, _DIMENSION, self._threads, progress)

    def _run(self, ids: NDArray[np.int32]) -> NDArray[Any]:
        """Token ids (tokens,) -> (512,) float32."""
        ids_name, starts_name = self._inputs
        feed = {ids_name: ids, starts_name: np.array([0, len(ids)], dtype=np.int64)}
        vector: NDArray[Any] = self._session.run(None, feed)[0][0]
        return vector

    def _tokenise(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Token ids of each text, marks of begin and end included."""
        if not texts:
            return []
        strings = np.array([_without_nul(text) for text in texts], dtype=object)
        session = self._tokenizer_session
        ids, starts = session.run(None, {session.get_inputs()[0].name: strings})
        return [ids[start:end] for start, end in pairwise(starts)]

    @cached_property
    def _tokenizer_session(self) -> onnxruntime.InferenceSession:
        return runtime.open_session(
            use_conversion.tokenizer(self._file), operators=runtime.extension_operators()
        )


def _without_nul(text: str) -> str:
    """`text` as the operator can take it: a NUL would end it, a lone surrogate has no UTF-8."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
