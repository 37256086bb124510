"""RAGLite on DuckDB: `insert_documents`, `hybrid_search`, `retrieve_context`, `add_context`, `rag`.

As in its README. Choices: each passage is a document (so its `neighbors` add no text and the budget
is that of the others); no reranker (its default, FlashRank, comes from a model hub). Four things
cannot be had offline or from its settings, and are replaced here:

- sentences are found by a model from a hub (wtpsplit's SaT): here by punctuation. Its chunklets,
  one vector each, and chunks stand as they are;
- `llama-cpp-python/...` names a repository of a hub: `Llama.from_pretrained` opens a file instead;
- it passes neither threads, temperature nor a limit of the answer to llama.cpp: they are set on the
  model that it opened (by itself it would decode on half of the cores, at a temperature of 0.2);
- DuckDB downloads its extensions `fts` and `vss` at the first start: they are installed from
  packages beforehand (`check`).

The embedding is a provider of LiteLLM's, which RAGLite takes by its name. DuckDB's keyword index
knows the letters a to z only, and RAGLite does not say otherwise: for Chinese its hybrid search is
the dense one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import litellm
import llama_cpp
import numpy as np
import raglite._insert
from duckdb_extensions import import_extension
from embedding import Encoder
from litellm.utils import custom_llm_setup
from raglite import (
    Document,
    RAGLiteConfig,
    add_context,
    hybrid_search,
    insert_documents,
    rag,
    retrieve_context,
)
from worker import Passage, Task, read_passages, run

SENTENCE = re.compile(r".+?(?:[。！？!?]+[”」』）)]*|[.]+(?=\s|$)|\n|$)\s*", re.DOTALL)
EMBEDDER = "starter/use-multilingual-v3"


class StarterProvider(litellm.CustomLLM):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self._encoder = Encoder(task)
        self._encoder.documents(["opened before threads ask for it"])

    def embedding(self, model: str, input: list[str], model_response: Any, **_: Any) -> Any:  # noqa: A002
        texts = [input] if isinstance(input, str) else input
        vectors = self._encoder.documents(texts)
        model_response.model = model
        model_response.data = [
            {"object": "embedding", "index": index, "embedding": vector.astype(np.float64)}
            for index, vector in enumerate(vectors)
        ]
        return model_response


def sentences(text: str, **_: Any) -> list[str]:
    return SENTENCE.findall(text) or [text]


class RAGLite:
    def __init__(self, task: Task) -> None:
        self._task = task
        for extension in ("fts", "vss"):
            import_extension(extension)
        litellm.custom_provider_map.append(
            {"provider": "starter", "custom_handler": StarterProvider(task)}
        )
        custom_llm_setup()
        litellm.register_model(
            {
                EMBEDDER: {
                    "litellm_provider": "starter",
                    "mode": "embedding",
                    "output_vector_size": 512,
                    "max_tokens": 512,
                }
            }
        )
        raglite._insert.split_sentences = sentences
        llama_cpp.Llama.from_pretrained = partial(opened, task)
        self._config = RAGLiteConfig(
            db_url=f"duckdb:///{Path(task.store, 'raglite.db').as_posix()}",
            llm=f"llama-cpp-python/here/{Path(task.model).name}@{task.context_window}",
            embedder=EMBEDDER,
            reranker=None,
            search_method=hybrid_search,
        )

    def ingest(self) -> int:
        documents = [
            Document.from_text(each["text"], id=each["id"], filename=each["document"])
            for each in read_passages(self._task)
        ]
        insert_documents(documents, config=self._config)
        return len(documents)

    def open(self) -> None:
        retrieve_context("?", num_chunks=1, config=self._config)

    def search(self, question: str) -> list[Passage]:
        found = retrieve_context(question, num_chunks=self._task.k, config=self._config)
        return [
            Passage(
                each.document.filename,
                "".join(chunk.body for chunk in each.chunks).strip(),
                each,
            )
            for each in found
        ]

    def answer(self, question: str, found: list[Passage]) -> Iterator[str]:
        template = self._task.prompt.replace("{passages}", "{context}")
        asked = add_context(
            question,
            [each.native for each in found],
            self._config,
            rag_instruction_template=template.replace("{question}", "{user_prompt}"),
        )
        system = {"role": "system", "content": self._task.system}
        return rag([system, asked], config=self._config)


def opened(task: Task, repo_id: str, filename: str, **options: Any) -> llama_cpp.Llama:  # noqa: ARG001
    """What RAGLite asks a hub for, opened here."""
    options |= {"n_threads": task.threads, "n_threads_batch": task.threads}
    model = llama_cpp.Llama(task.model, **options)
    complete = model.create_chat_completion

    def limited(**asked: Any) -> Any:
        return complete(**(asked | {"temperature": 0.0, "max_tokens": task.max_tokens}))

    model.create_chat_completion = limited
    return model


if __name__ == "__main__":
    run(RAGLite, "raglite", "duckdb", "litellm", "llama-cpp-python")
