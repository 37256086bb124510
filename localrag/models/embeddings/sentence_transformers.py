"""Any local sentence-transformers folder, run by PyTorch.

PyTorch is imported when a model is opened, not with this module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from localrag.errors import ModelError
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.conventions import convention, unreadable
from localrag.models.embeddings.folder import FolderEmbedder, weight_files
from localrag.models.embeddings.foreign_code import refuse_foreign_code

_Model = TypeVar("_Model")

_PACKAGES = ("torch", "sentence_transformers")
_BATCH = 16
_DEFAULT_WINDOW = 512


class SentenceTransformerEmbedder(FolderEmbedder):
    """A folder that sentence-transformers or transformers saved; nothing is downloaded.

    Prefixes come from the folder's prompts, else from the model's family (bge, e5); pooling
    is what the folder says, the mean where it says nothing. `threads` is PyTorch's, for the
    whole process, which computes on the best device there is. Code that comes with a model is
    never run, and pickled weights are read as data alone.
    """

    def _open(self) -> None:
        self._convention = convention(self._path)
        self._weights = weight_files(self._path)
        if not (self._path / "config.json").is_file() or not self._weights:
            raise ModelError(
                "{path} is not a sentence-transformers folder: it lacks {missing}.",
                hint="Name the folder that contains config.json and the weights "
                "(model.safetensors or pytorch_model.bin).",
                path=str(self._path),
                missing="model.safetensors" if not self._weights else "config.json",
            )
        need_pytorch()
        from sentence_transformers import SentenceTransformer

        self._model = open_model(SentenceTransformer, self._path, self._threads).eval()
        self.dimension = int(self._encode([""], "").shape[1])

    @cached_property
    def max_tokens(self) -> int:
        """The model's window less its special tokens and the longer prefix."""
        window = int(self._model.max_seq_length or _DEFAULT_WINDOW)
        prefixes = (self._convention.query_prefix, self._convention.passage_prefix)
        tokenizer: Any = self._model.tokenizer
        return window - max(len(tokenizer(prefix)["input_ids"]) for prefix in prefixes)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens or prefix."""
        if not texts:
            return []
        tokenizer: Any = self._model.tokenizer
        # verbose=False: a text longer than the window is what the caller wants to find out.
        encoded = tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)
        return [len(ids) for ids in encoded["input_ids"]]

    def _embed(self, texts: Sequence[str], prefix: str, progress: Progress | None) -> Vectors:
        """In batches of like length, so that little is spent on padding."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            vectors[batch] = self._encode([texts[index] for index in batch], prefix)
            if progress is not None:
                progress(len(batch))
        return vectors

    def _encode(self, texts: list[str], prefix: str) -> Vectors:
        vectors: Vectors = self._model.encode(
            texts,
            prompt=prefix or None,
            batch_size=_BATCH,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return vectors.astype(np.float32, copy=False)


def need_pytorch() -> None:
    """Raise `ModelError` where it is not installed: an installation may leave it out."""
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise ModelError(
            "This model needs PyTorch, which is not installed (missing: {names}).",
            hint="Install it: pip install torch sentence-transformers. Or choose a model in ONNX, "
            "such as the starter embedding, which needs neither.",
            names=", ".join(missing),
        )


def open_model(kind: Callable[..., _Model], path: Path, threads: int | None = None) -> _Model:
    """A class of sentence-transformers over a local folder; code in it is not run.

    `threads` is PyTorch's, for the whole process. Raises ModelError.
    """
    import torch

    refuse_foreign_code(path)
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with _quiet_loading():
            return kind(
                str(path),
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"weights_only": True},  # ours goes before the folder's own
            )
    # What a damaged folder raises depends on which of five libraries meets it first.
    except Exception as error:
        raise unreadable(path, error, "sentence-transformers") from error


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """No progress bar for loading weights, no notes of the library on standard error."""
    from transformers.utils import logging as transformers_logging

    logger = logging.getLogger("sentence_transformers")
    level = logger.level
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if bar:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
