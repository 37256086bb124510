"""The two halves of the Universal Sentence Encoder's ONNX file: tokenizer and encoder.

The file's graph takes strings: a SentencePiece operator, then the encoder. Building
that operator takes longer than everything else, and its tokens are wanted alone
(`count_tokens`), so the graph is cut behind it. The encoder's tables are not read but
named by their place in the file, and ONNX Runtime maps them into memory.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from localrag.errors import ModelError
from localrag.messages import tr
from localrag.models.embeddings.wire import Buffer, Field, field_bytes, field_integer, fields

_Part = TypeVar("_Part")

_OPERATOR = b"SentencepieceTokenizer"
_EXTERNAL_FROM = 65_536
"""Bytes from which a weight stays in the file. All of those are of one-byte types,
so that their place in the file need not be aligned."""

# Field numbers of onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_BYTES = 1, 4
_VALUE_NAME = 1
_TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 2, 8, 9, 13, 14
_ONE_BYTE_TYPES = (2, 3)
_INT32, _INT64 = 6, 7


@dataclass(frozen=True, slots=True)
class Encoder:
    """A serialised ONNX model: ids int32 (tokens,), row starts int64 (n + 1,) -> (n, 512).

    `inputs` are the names of ids and row starts. Its large weights lie in the file it was
    cut from, so a session needs that file's folder.
    """

    model: bytes
    inputs: tuple[str, str]


def find_model_file(folder: Path) -> Path | None:
    """The ONNX file in `folder` that begins with a SentencePiece operator, if there is one."""
    for path in sorted(folder.glob("*.onnx")):
        try:
            with _mapped(path) as data:
                if _operator(data, _only(data, _MODEL_GRAPH)) is not None:
                    return path
        except (ValueError, IndexError):
            continue
    return None


def encoder(path: Path) -> Encoder:
    """Everything behind the SentencePiece operator.

    Raises ModelError where the file is not such a model.
    """
    return _read(path, _encoder)


def tokenizer(path: Path) -> bytes:
    """A serialised ONNX model: strings (n,) -> ids int32 (tokens,), row starts int64 (n + 1,).

    Raises ModelError where the file is not such a model.
    """
    return _read(path, _tokenizer)


def sentencepiece_model(path: Path) -> bytes:
    """The serialised SentencePiece model that the operator holds.

    Raises ModelError where the file is not such a model.
    """
    return _read(path, _sentencepiece)


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _read(path: Path, part: Callable[[Buffer, str], _Part]) -> _Part:
    try:
        with _mapped(path) as data:
            return part(data, path.name)
    except (ValueError, IndexError) as error:
        raise ModelError(
            "{path} is not a Universal Sentence Encoder in ONNX form: {reason}.",
            hint="Pull the model again, or name another embedding model.",
            path=str(path),
            reason=str(error),
        ) from error


def _only(data: Buffer, number: int) -> Field:
    for field in fields(data, 0, len(data)):
        if field.number == number:
            return field
    raise ValueError(tr("the file holds no graph"))


def _operator(data: Buffer, graph: Field) -> Field | None:
    for node in fields(data, graph.start, graph.end):
        if node.number == _GRAPH_NODE:
            for part in fields(data, node.start, node.end):
                if part.number == _NODE_OPERATOR and data[part.start : part.end] == _OPERATOR:
                    return node
            # The operator comes first, because everything depends on it.
            return None
    return None


def _require_operator(data: Buffer, graph: Field) -> Field:
    operator = _operator(data, graph)
    if operator is None:
        raise ValueError(tr("its first operator is not {name}", name=_OPERATOR.decode()))
    return operator


def _names(data: Buffer, operator: Field, number: int) -> list[bytes]:
    parts = fields(data, operator.start, operator.end)
    return [data[part.start : part.end] for part in parts if part.number == number]


def _with_graph(data: Buffer, graph: Field, parts: list[bytes]) -> bytes:
    head = data[: graph.record_start] + data[graph.end : len(data)]
    return head + field_bytes(_MODEL_GRAPH, b"".join(parts))


def _encoder(data: Buffer, file_name: str) -> Encoder:
    graph = _only(data, _MODEL_GRAPH)
    operator = _require_operator(data, graph)
    ids, starts = _names(data, operator, _NODE_OUTPUT)
    parts = [field_bytes(_GRAPH_INPUT, value) for value in _values(ids, starts)]
    for field in fields(data, graph.start, graph.end):
        if field.number == _GRAPH_INITIALIZER:
            parts.append(field_bytes(_GRAPH_INITIALIZER, _initializer(data, field, file_name)))
        elif field.number != _GRAPH_INPUT and field != operator:
            parts.append(data[field.record_start : field.end])
    return Encoder(_with_graph(data, graph, parts), (ids.decode(), starts.decode()))


def _tokenizer(data: Buffer, file_name: str) -> bytes:  # noqa: ARG001 - nothing stays in the file
    graph = _only(data, _MODEL_GRAPH)
    operator = _require_operator(data, graph)
    wanted = set(_names(data, operator, _NODE_INPUT))
    ids, starts = _names(data, operator, _NODE_OUTPUT)
    parts = [field_bytes(_GRAPH_OUTPUT, value) for value in _values(ids, starts)]
    for field in fields(data, graph.start, graph.end):
        if (
            (field.number == _GRAPH_NODE and field == operator)
            or (field.number == _GRAPH_INITIALIZER and _text(data, field, _TENSOR_NAME) in wanted)
            or (field.number == _GRAPH_INPUT and _text(data, field, _VALUE_NAME) in wanted)
            or field.number == _GRAPH_NAME
        ):
            parts.append(data[field.record_start : field.end])
    return _with_graph(data, graph, parts)


def _sentencepiece(data: Buffer, file_name: str) -> bytes:  # noqa: ARG001 - as above
    operator = _require_operator(data, _only(data, _MODEL_GRAPH))
    for part in fields(data, operator.start, operator.end):
        if part.number == _NODE_ATTRIBUTE and _text(data, part, _ATTRIBUTE_NAME) == b"model":
            return _text(data, part, _ATTRIBUTE_BYTES)
    raise ValueError(tr("its tokenizer holds no SentencePiece model"))


def _text(data: Buffer, message: Field, number: int) -> bytes:
    for field in fields(data, message.start, message.end):
        if field.number == number:
            return data[field.start : field.end]
    return b""


def _values(ids: bytes, starts: bytes) -> tuple[bytes, bytes]:
    """ValueInfoProtos of the token ids and the row starts: tensors of one dimension."""

    def value(name: bytes, element_type: int) -> bytes:
        # The empty message in the shape is a dimension of any length.
        tensor = field_integer(1, element_type) + field_bytes(2, field_bytes(1, b""))
        return field_bytes(_VALUE_NAME, name) + field_bytes(2, field_bytes(1, tensor))

    return value(ids, _INT32), value(starts, _INT64)


def _initializer(data: Buffer, tensor: Field, file_name: str) -> bytes:
    """The TensorProto, its weights replaced by their place in the file if they are large."""
    parts = list(fields(data, tensor.start, tensor.end))
    raw = next((part for part in parts if part.number == _TENSOR_RAW), None)
    kind = next((part.integer for part in parts if part.number == _TENSOR_TYPE), 0)
    if raw is None or raw.end - raw.start < _EXTERNAL_FROM or kind not in _ONE_BYTE_TYPES:
        return data[tensor.start : tensor.end]
    entries = {"location": file_name, "offset": str(raw.start), "length": str(raw.end - raw.start)}
    kept = [data[part.record_start : part.end] for part in parts if part is not raw]
    for key, value in entries.items():
        entry = field_bytes(1, key.encode()) + field_bytes(2, value.encode())
        kept.append(field_bytes(_TENSOR_EXTERNAL, entry))
    kept.append(field_integer(_TENSOR_LOCATION, 1))
    return b"".join(kept)
