"""Model folders that name code of their own: refused before any library opens them.

sentence-transformers and transformers load classes by the names that a folder's JSON files give.
They are told not to run code of the folder; which names they take nevertheless depends on their
version, so that it is not left to them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localrag.errors import ModelError
from localrag.models.embeddings.conventions import read_json, unreadable

OURS = ("sentence_transformers.", "torch.nn.")
"""Where classes may come from: those of the libraries that compute a model."""

LARGEST = 16 * 2**20
"""Bytes of a JSON file that describes a model."""

_DATA = frozenset({"tokenizer.json", "vocab.json"})
"""Vocabularies, which name no classes."""

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w+)+")
_CLASS_KEYS = frozenset(
    {
        "type",
        "types",
        "activation_fn",
        "activation_function",
        "sbert_ce_default_activation_function",
        "tokenizer_class",
    }
)


def refuse_foreign_code(folder: Path) -> None:
    """Raises `ModelError` where a JSON file of the folder names code that is not the libraries'."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() != ".json" or path.name in _DATA or not path.is_file():
            continue
        if path.stat().st_size > LARGEST:
            raise ModelError(
                "{path} is larger than any file describing a model should be.",
                hint="Download the model from where it was published.",
                path=path,
            )
        try:
            names = list(_code_names(read_json(path, Any)))
        except RecursionError as error:  # which JSON's reader may still take
            raise unreadable(path, error) from error
        for name in names:
            raise ModelError(
                "{path} asks to run code that comes with the model or from elsewhere: {name}.",
                hint="localrag never runs a model's code. Choose a model that needs none.",
                path=path,
                name=name,
            )


def _code_names(value: Any, key: str = "") -> Iterator[str]:
    """Names of code, wherever they stand."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "auto_map":
                yield json.dumps(inner, ensure_ascii=False)[:200]
            yield from _code_names(inner, key if key == "types" else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _code_names(inner, key)
    elif (
        isinstance(value, str)
        and key in _CLASS_KEYS
        and _DOTTED.fullmatch(value)
        and not value.startswith(OURS)
    ):
        yield value
