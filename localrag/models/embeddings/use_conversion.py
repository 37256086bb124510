"""What is taken out of the Universal Sentence Encoder's ONNX file so that it opens quickly.

The file's graph takes strings: a SentencePiece operator, then the encoder. Building that
operator takes longer than everything else, and its tokens are wanted alone, so the graph is
cut behind it. The encoder's large weights are named by their place in the file, from where
ONNX Runtime maps them into memory. Reading the 72 MB takes a third of a second, so the
result is kept.
"""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.models.embeddings import unigram
from localrag.system.files import replace_content

Arrays = dict[str, NDArray[Any]]
"""`encoder`: the bytes of an ONNX model, ids int32 (tokens,), row starts int64 (n + 1,) ->
(n, 512), whose large weights lie in the file it was cut from; `inputs`: the names of the
two; and what `unigram.tables` makes, where the vocabulary allows it."""

_OPERATOR = "SentencepieceTokenizer"
_HEAD = 4096
"""The operator's name stands in so many bytes: everything depends on it, so it comes first."""
_EXTERNAL_FROM = 65_536
"""Bytes from which a weight stays in the file. All of those are of one-byte types,
so that their place in the file need not be aligned."""
_ONE_BYTE_TYPES = (2, 3)
_EXTERNAL = 1
_INT32, _INT64 = 6, 7

_SCHEMA = """
Model: graph 7 Graph
Graph: node 1 Node*, initializer 5 Tensor*, input 11 Value*, output 12 Value*
Node: input 1 string*, output 2 string*, op_type 4 string, attribute 5 Attribute*
Attribute: name 1 string, s 4 bytes
Tensor: data_type 2 int32, name 8 string, raw_data 9 bytes
Tensor: external_data 13 Entry*, data_location 14 int32
Entry: key 1 string, value 2 string
Value: name 1 string, type 2 Type
Type: tensor_type 1 TensorType
TensorType: elem_type 1 int32

SentencePiece: pieces 1 Piece*, trainer_spec 2 Trainer, normalizer_spec 3 Normalizer
Piece: piece 1 string, score 2 float, type 3 int32=1
Trainer: model_type 3 int32=1, treat_whitespace_as_suffix 24 bool
Normalizer: precompiled_charsmap 2 bytes, add_dummy_prefix 3 bool=true
Normalizer: remove_extra_whitespaces 4 bool=true, escape_whitespaces 5 bool=true
"""
"""The fields of onnx.proto and sentencepiece_model.proto that are used: name, number and type;
`*` is a repeated one, `=` a default. protobuf carries all others through."""


def find_model_file(folder: Path) -> Path | None:
    """The ONNX file in `folder` that begins with a SentencePiece operator, if there is one."""
    for path in sorted(folder.glob("*.onnx")):
        with path.open("rb") as file:
            if _OPERATOR.encode() in file.read(_HEAD):
                return path
    return None


def converted(path: Path, kept: Path | None) -> Arrays:
    """The parts of the model file, from `kept` where they stand there, else put there.

    Raises ModelError where the file is not such a model.
    """
    if kept is not None:
        with (
            contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile),
            kept.open("rb") as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            return dict(archive)
    arrays = _convert(path)
    if kept is not None:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        # A cache in a read-only place costs time at the next start, nothing else.
        with contextlib.suppress(OSError):
            replace_content(kept, buffer.getvalue())
    return arrays


def tokenizer(path: Path) -> bytes:
    """A serialised ONNX model: strings (n,) -> ids int32 (tokens,), row starts int64 (n + 1,).

    Raises ModelError where the file is not such a model.
    """
    with _reading(path):
        model = _messages()["Model"].FromString(path.read_bytes())
        graph = model.graph
        operator = graph.node[0]
        for parts in (graph.initializer, graph.input):
            for index in reversed(range(len(parts))):
                if parts[index].name not in operator.input:
                    del parts[index]
        del graph.node[1:], graph.output[:]
        graph.output.extend(_token_tensors(graph, operator))
        return bytes(model.SerializeToString())


def _convert(path: Path) -> Arrays:
    with _reading(path):
        data = path.read_bytes()
        model = _messages()["Model"].FromString(data)
        graph = model.graph
        operator = graph.node[0]
        vocabulary = next(a.s for a in operator.attribute if a.name == "model")
        tables = unigram.tables(_messages()["SentencePiece"].FromString(vocabulary))
        inputs = _token_tensors(graph, operator)
        del graph.node[0], graph.input[:]
        graph.input.extend(inputs)
        at = 0
        for tensor in graph.initializer:
            weights = tensor.raw_data
            if len(weights) >= _EXTERNAL_FROM and tensor.data_type in _ONE_BYTE_TYPES:
                at = data.index(weights, at)
                place = {"location": path.name, "offset": str(at), "length": str(len(weights))}
                for key, value in place.items():
                    tensor.external_data.add(key=key, value=value)
                tensor.data_location = _EXTERNAL
                tensor.ClearField("raw_data")
    return {
        "encoder": np.frombuffer(model.SerializeToString(), np.uint8),
        "inputs": np.array([tensor.name for tensor in inputs]),
        **tables,
    }


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        yield
    except (DecodeError, ValueError, IndexError, StopIteration) as error:
        raise ModelError(
            "{path} is not a Universal Sentence Encoder in ONNX form: {reason}.",
            hint="Pull the model again, or name another embedding model.",
            path=str(path),
            reason=str(error),
        ) from error


def _token_tensors(graph: Any, operator: Any) -> list[Any]:
    """The operator's token ids and row starts: like its texts, of any length."""
    tensors = []
    for name, kind in zip(operator.output, (_INT32, _INT64), strict=True):
        tensor = _messages()["Value"]()
        tensor.CopyFrom(
            next(tensor_in for tensor_in in graph.input if tensor_in.name == operator.input[0])
        )
        tensor.name, tensor.type.tensor_type.elem_type = name, kind
        tensors.append(tensor)
    return tensors


@cache
def _messages() -> dict[str, Any]:
    """The classes of the messages of `_SCHEMA`."""
    from google.protobuf import (  # type: ignore[import-untyped]
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    kinds = descriptor_pb2.FieldDescriptorProto
    lines = [line.partition(": ")[::2] for line in _SCHEMA.splitlines() if line]
    file = descriptor_pb2.FileDescriptorProto(name="localrag.proto", package="localrag")
    messages = {name: file.message_type.add(name=name) for name in dict(lines)}
    for message, declared in lines:
        for declaration in declared.split(", "):
            name, number, kind = declaration.split()
            field = messages[message].field.add(name=name, number=int(number))
            field.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind, _, default = kind.removesuffix("*").partition("=")
            if default:
                field.default_value = default
            if kind in messages:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f"localrag.{kind}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptors = {name: pool.FindMessageTypeByName(f"localrag.{name}") for name in messages}
    return {name: message_factory.GetMessageClass(message) for name, message in descriptors.items()}
