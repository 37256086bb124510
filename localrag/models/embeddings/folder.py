"""Folders with an embedding model: of which kind it is, what identifies it, what all share."""

from __future__ import annotations

import contextlib
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from localrag.errors import ModelError, ModelNotFoundError
from localrag.models.embeddings import use_conversion
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.conventions import Convention
from localrag.system.files import replace_content

Kind = Literal["onnx", "use", "sentence-transformers"]


class FolderEmbedder(ABC):
    """An embedding model in a folder.

    `threads` is how many texts or threads run at a time (default: one a core); `cache_dir` keeps
    the hash of the weights, which is computed only where `weights_sha256` is not given.
    Raises ModelError where the folder does not hold such a model.
    """

    dimension: int
    _convention: Convention
    _weights: Sequence[Path]

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
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Open the model; sets `dimension`, `_convention` and `_weights`. Raises ModelError."""

    @abstractmethod
    def _embed(self, texts: Sequence[str], prefix: str, progress: Progress | None) -> Vectors:
        """The vectors of the texts, each with the prefix before it."""

    @cached_property
    def fingerprint(self) -> str:
        """Name of the folder and digest of weights, pooling and prefixes."""
        sha256 = self._sha256 or weights_sha256(self._weights, self._cache_dir)
        return fingerprint(self._path.name, sha256, self._convention)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Passages -> (n, dimension) float32, L2-normalised, in the order given.

        What reaches over the model's window is cut.
        """
        return self._embed(texts, self._convention.passage_prefix, progress)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions -> (n, dimension) float32, L2-normalised, in the order given."""
        return self._embed(texts, self._convention.query_prefix, None)


def kind_of(path: Path) -> Kind:
    """Look into the folder; where it holds both, ONNX (quick to start) comes before PyTorch.

    Raises ModelNotFoundError where there is no such folder, ModelError where it holds no
    embedding model that localrag can run.
    """
    if path.suffix == ".gguf" and path.is_file():
        raise ModelError(
            "{path} is a GGUF file; localrag does not run embedding models in that form.",
            hint="Take the same model as a sentence-transformers or ONNX folder.",
            path=str(path),
        )
    if not path.is_dir():
        raise ModelNotFoundError(
            "There is no embedding model folder {path}.",
            hint="Check the path, or see `localrag models list` for what can be pulled.",
            path=str(path),
        )
    if (path / "model.onnx").is_file() and (path / "tokenizer.json").is_file():
        return "onnx"
    if use_conversion.find_model_file(path) is not None:
        return "use"
    if (path / "config.json").is_file() and weight_files(path):
        return "sentence-transformers"
    if onnx_file(path).is_file() and (path / "tokenizer.json").is_file():
        return "onnx"
    raise ModelError(
        "{path} contains no embedding model that localrag can run.",
        hint="localrag needs a sentence-transformers folder (config.json with "
        "model.safetensors or pytorch_model.bin) or an ONNX folder (model.onnx with "
        "tokenizer.json).",
        path=str(path),
    )


def onnx_file(path: Path) -> Path:
    """Where a folder has its ONNX model; in `onnx/`, as hubs have it, if not beside the rest."""
    for name in ("model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"):
        if (path / name).is_file():
            return path / name
    return path / "model.onnx"


def weight_files(path: Path) -> list[Path]:
    """The PyTorch weights of a folder, safetensors first, shards in order; empty if it has none."""
    for pattern in ("model*.safetensors", "pytorch_model*.bin", "0_Transformer/*.safetensors"):
        if weights := sorted(path.glob(pattern)):
            return weights
    return []


def fingerprint(name: str, weights_sha256: str, convention: Convention) -> str:
    """`name` and a digest of weights, pooling and prefixes: "bge-small-en-v1.5 3f0c...".

    Two embedders with the same fingerprint give the same vectors for the same text.
    """
    parts = [
        weights_sha256.lower(),
        convention.pooling,
        convention.query_prefix,
        convention.passage_prefix,
    ]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{name} {digest[:16]}"


def weights_sha256(files: Sequence[Path], cache_dir: Path | None) -> str:
    """SHA-256 (hex) of the file, or of the hashes of several files in the order given.

    Reading a large file takes a second, so its hash is kept in `cache_dir` under the
    file's path, size and modification time. A folder that cannot be written is no error.
    """
    hashes = [_file_sha256(path, cache_dir) for path in files]
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def file_key(path: Path) -> str:
    """A name for what is derived from the file: of its path, size and modification time."""
    status = path.stat()
    identity = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _file_sha256(path: Path, cache_dir: Path | None) -> str:
    cache_file = cache_dir / f"{file_key(path)}.sha256" if cache_dir else None
    if cache_file is not None and cache_file.is_file():
        digest = cache_file.read_text(encoding="ascii", errors="replace")
        if len(digest) == 64:
            return digest
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if cache_file is not None:
        # A cache in a read-only place costs time at the next start, nothing else.
        with contextlib.suppress(OSError):
            replace_content(cache_file, digest)
    return digest
