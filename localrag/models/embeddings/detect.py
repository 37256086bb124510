"""Which kind of embedding model a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from localrag.errors import ModelError, ModelNotFoundError
from localrag.models.embeddings import use_conversion

Kind = Literal["onnx", "use", "sentence-transformers"]


def kind_of(path: Path) -> Kind:
    """Look into the folder; where it holds both, ONNX (quick to start) comes before PyTorch.

    Raises ModelNotFoundError where there is no such folder, ModelError where it holds no
    embedding model that localrag can run.
    """
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
    raise ModelError(
        "{path} contains no embedding model that localrag can run.",
        hint="localrag needs a sentence-transformers folder (config.json with "
        "model.safetensors or pytorch_model.bin) or an ONNX folder (model.onnx with "
        "tokenizer.json).",
        path=str(path),
    )


def weight_files(path: Path) -> list[Path]:
    """The PyTorch weights of a folder, safetensors first, shards in order; empty if it has none."""
    for pattern in ("model*.safetensors", "pytorch_model*.bin", "0_Transformer/*.safetensors"):
        if found := sorted(path.glob(pattern)):
            return found
    return []
