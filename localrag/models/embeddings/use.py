"""The starter embedding: Universal Sentence Encoder multilingual v3 in ONNX form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models.embeddings import runtime, use_conversion
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.conventions import Convention
from localrag.models.embeddings.folder import FolderEmbedder, file_key
from localrag.models.embeddings.unigram import UnigramTokenizer

if TYPE_CHECKING:
    import onnxruntime  # type: ignore[import-untyped]

_BEGIN, _END = 1, 2

MAX_TOKENS = 512
"""A bound of quality, not of the model, which reads texts of any length whole: it averages
over n-grams, and passages of more than about 400 tokens are found worse."""


class UniversalSentenceEncoder(FolderEmbedder):
    """16 languages in one space, Chinese and English among them (Yang et al. 2020).

    The folder holds the ONNX file; `threads` texts run at a time. `cache_dir` also keeps the model
    in a form that opens at once.
    """

    dimension = 512
    _convention = Convention("mean")

    def _open(self) -> None:
        file = use_conversion.find_model_file(self._path)
        if file is None:
            raise ModelError(
                "{path} is not a Universal Sentence Encoder in ONNX form: no .onnx file in it"
                " begins with a SentencePiece operator.",
                hint="Pull the model again, or name another embedding model.",
                path=str(self._path),
            )
        self._file = file
        self._weights = [file]
        cache_file = self._cache_dir / f"{file_key(file)}.use.npz" if self._cache_dir else None
        parts = use_conversion.converted(file, cache_file)
        self._inputs = parts["inputs"].tolist()
        self._light_tokenizer = UnigramTokenizer(parts) if "pieces" in parts else None
        # The graph gains nothing from ONNX Runtime's optimiser, which takes 20 ms.
        self._session = runtime.open_session(
            parts["encoder"].tobytes(), optimise=False, weights_folder=file.parent
        )

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens of this model, that is embedded well."""
        return MAX_TOKENS

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without the marks of begin and end."""
        return [len(ids) - 2 for ids in self._tokenise(texts)]

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions -> (n, 512) float32, L2-normalised, in the order given."""
        tokenizer = self._light_tokenizer
        if tokenizer is None:
            return super().embed_queries(texts)
        rows = [[_BEGIN, *tokenizer.encode(_without_nul(text)), _END] for text in texts]
        return self._of_tokens([np.array(row, dtype=np.int32) for row in rows], None)

    def _embed(
        self,
        texts: Sequence[str],
        prefix: str,  # noqa: ARG002 - it has none
        progress: Progress | None,
    ) -> Vectors:
        return self._of_tokens(self._tokenise(texts), progress)

    def _of_tokens(self, rows: list[NDArray[np.int32]], progress: Progress | None) -> Vectors:
        return runtime.run_each(self._run, rows, self.dimension, self._threads, progress)

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
