"""Models that cost nothing, in every Python that a benchmark starts.

Python imports a module of this name before all else; `test_benchmarks.py` puts its folder first on
the path. What opens a model file by itself (`LlamaCppModel`, `OnnxCrossEncoder`) gets the real one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from fakes import HashEmbedder
from numpy.typing import NDArray

from localrag import factory
from localrag.models.llms.base import Completion, Options
from localrag.types import Message

DIMENSION = 512
"""As the starter's, which some benchmarks count on."""


class Forgetful(HashEmbedder):
    """Keeps no list of what it embedded, which grows with a library."""

    def embed_documents(self, texts: Sequence[str], progress: Any = None) -> NDArray[np.float32]:
        return self.embed_queries(texts)


class Fast:
    """A language model that writes one sentence, and mostly takes the first choice."""

    name = "fast"
    context_window = 8192

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        return sum(self.count_tokens(message.content) for message in messages)

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        text = "The bridge was opened in 1854 [1]."
        if options.schema:
            text = json.dumps(least(options.schema))
        return Completion(text, self.count_prompt_tokens(messages), self.count_tokens(text), "stop")

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        yield self.complete(messages, options).text

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        text = "".join(message.content for message in messages)
        share = hashlib.sha256(text.encode()).digest()[0] / 256  # so that cases differ
        scores = np.full(len(choices), (1 - share) / len(choices) + 0.01)
        scores[0] += share
        return scores / scores.sum()


def least(schema: Mapping[str, Any]) -> object:
    """The smallest value that a JSON schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: least(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [least(schema["items"])] * int(schema.get("minItems", 0))
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return "The bridge was opened in 1854."


def model(*_: object) -> factory.Model:
    embedder = Fast()
    return factory.Model(embedder, embedder, lambda: None, view=model)


factory.make_embedder = lambda *_: Forgetful(DIMENSION)
factory.make_model = model
