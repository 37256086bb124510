"""ONNX Runtime as the embedders use it: one text a run, several runs at a time.

Texts are not batched. The models on hand quantise activations by the range of the whole
batch, so in a batch of 16 a vector moves by up to 0.005 of cosine with its neighbours,
and a library would differ after each rebuild. One text a run needs no padding and is as
fast as any batch (`benchmarks/embedding_start.py`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.egress import network
from localrag.errors import ModelError
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.conventions import read_json, unreadable

if TYPE_CHECKING:
    import onnxruntime  # type: ignore[import-untyped]
    from tokenizers import Tokenizer

_Item = TypeVar("_Item")

_ERRORS_ONLY = 3
_DEFAULT_WINDOW = 512
_UNSET_WINDOW = 1_000_000
"""Tokenizer settings write an endless window as a number larger than this."""


def open_session(
    model: Path | bytes,
    *,
    optimise: bool = True,
    weights_folder: Path | None = None,
    operators: Path | None = None,
) -> onnxruntime.InferenceSession:
    """A single-threaded session on the CPU.

    `weights_folder` holds the weights that a model given as bytes only names;
    `operators` is a library of custom operators. Raises ModelError where ONNX Runtime
    refuses the model.
    """
    network.quieten()  # a program that uses the Python API may not have closed the doors
    import onnxruntime
    from onnxruntime.capi import (  # type: ignore[import-untyped]
        onnxruntime_pybind11_state as native,
    )

    onnxruntime.disable_telemetry_events()  # Windows does not know the switch
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if weights_folder is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights_folder)
        )
    if operators is not None:
        options.register_custom_ops_library(str(operators))
    source = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except (
        native.Fail,
        native.InvalidArgument,
        native.InvalidGraph,
        native.InvalidProtobuf,
        native.NoModel,
        native.NoSuchFile,
        native.NotImplemented,
        native.RuntimeException,
    ) as error:
        path = model if isinstance(model, Path) else weights_folder
        raise unreadable(path or Path(), error, "ONNX Runtime") from error


class OnnxTransformer:
    """A folder with `tokenizer.json` and an ONNX model: `shape` is that of its first output.

    `window` counts the tokens that it reads, special tokens included. Raises ModelError.
    """

    _KNOWN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

    def __init__(self, folder: Path, model: Path | None = None) -> None:
        self.tokenizer = _open_tokenizer(folder / "tokenizer.json")
        self._session = open_session(model or folder / "model.onnx")
        self.inputs = [node.name for node in self._session.get_inputs()]
        self.shape = self._session.get_outputs()[0].shape
        self.window = longest_input(folder)
        self.is_transformer = {*self.inputs} <= {*self._KNOWN_INPUTS}

    def run(self, ids: Sequence[int], types: Sequence[int]) -> NDArray[Any]:
        """The first output for one text, or pair, of these tokens."""
        columns = (ids, [1] * len(ids), types)
        feed = {
            name: np.array([values], dtype=np.int64)
            for name, values in zip(self._KNOWN_INPUTS, columns, strict=True)
            if name in self.inputs
        }
        output: NDArray[Any] = self._session.run(None, feed)[0][0]
        return output


def _open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, which neither pads nor cuts. Raises ModelError."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    # tokenizers raises bare Exception for a missing file and for damaged JSON alike.
    except Exception as error:
        raise unreadable(path, error) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def longest_input(folder: Path) -> int:
    """Tokens that the model of a folder reads, special tokens included."""
    values = (
        read_json(folder / "sentence_bert_config.json").get("max_seq_length"),
        read_json(folder / "tokenizer_config.json").get("model_max_length"),
        read_json(folder / "config.json").get("max_position_embeddings"),
    )
    numbers = [value for value in values if isinstance(value, int | float)]
    limits = [int(value) for value in numbers if 0 < value < _UNSET_WINDOW]
    return min(limits, default=_DEFAULT_WINDOW)


def extension_operators() -> Path:
    """The operator library of onnxruntime-extensions, found without importing the package.

    Its import pulls in torch and transformers, which takes seconds.
    Raises ModelError where the package is not installed.
    """
    spec = importlib.util.find_spec("onnxruntime_extensions")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("_extensions_pydll*")):
            if path.suffix in (".so", ".pyd"):
                return path
    raise ModelError(
        "The starter embedding model needs the package onnxruntime-extensions, which is not "
        "installed.",
        hint="Install it: pip install onnxruntime-extensions",
    )


def run_each(
    run: Callable[[_Item], NDArray[Any]],
    items: Sequence[_Item],
    dimension: int,
    threads: int | None,
    progress: Progress | None,
) -> Vectors:
    """`run` of each item -> (len(items), dimension) float32, L2-normalised, in order."""
    vectors = np.empty((len(items), dimension), dtype=np.float32)

    def fill(rows: Any) -> None:
        for index, row in enumerate(rows):
            vectors[index] = row
            if progress is not None:
                progress(1)

    workers = min(threads or os.cpu_count() or 1, len(items))
    if workers < 2:
        fill(map(run, items))
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers, thread_name_prefix="embed") as pool:
            fill(pool.map(run, items))
    return normalise(vectors)


def normalise(vectors: Vectors) -> Vectors:
    """Each row divided by its length; a row of zeros stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    return unit
