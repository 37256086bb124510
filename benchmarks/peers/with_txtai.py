"""txtai: a hybrid `Embeddings` index with content, `RAG` over it with an `LLM` from the GGUF.

As in its examples. Choices: `hybrid=True` with its defaults (BM25 and vectors, scores added after
normalising, half and half; terms by Unicode's rules for words, which make a term of every Chinese
character). The embedding is its "external" method with a function of one's own. `RAG` searches by
itself and says what it found only together with the answer: it is given a search that was done
before, so that passages are seen at once. The default `n_batch` of 512 stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from embedding import Encoder
from numpy.typing import NDArray
from txtai import LLM, RAG, Embeddings
from worker import Passage, Task, read_passages, run


class Txtai:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._shown: list[dict[str, object]] = []

    def _embeddings(self) -> Embeddings:
        encoder = Encoder(self._task)

        def transform(texts: list[str]) -> NDArray[np.float32]:
            return encoder.documents(texts)

        return Embeddings(
            method="external",
            transform=transform,
            content=True,
            hybrid=True,
        )

    def ingest(self) -> int:
        embeddings = self._embeddings()
        passages = read_passages(self._task)
        embeddings.index((each["id"], each["text"]) for each in passages)
        embeddings.save(self._task.store)
        return int(embeddings.count())

    def open(self) -> None:
        fresh = self._embeddings()  # what is saved of a function is its name only
        fresh.load(self._task.store, config={"transform": fresh.config["transform"]})
        self._index = fresh

    def search(self, question: str) -> list[Passage]:
        found = self._index.search(question, self._task.k)
        return [Passage(each["id"].rpartition("#")[0], each["text"], each) for each in found]

    def answer(self, question: str, found: list[Passage]) -> Iterator[str]:
        self._shown = [
            {**each.native, "text": f"[{number}]\n{each.text}"}
            for number, each in enumerate(found, 1)
        ]
        return iter(
            self._rag(question, stream=True, maxlength=self._task.max_tokens, temperature=0.0)
        )

    @cached_property
    def _rag(self) -> RAG:
        task = self._task
        model = LLM(
            task.model,
            n_ctx=task.context_window,
            n_threads=task.threads,
            n_threads_batch=task.threads,
        )
        return RAG(
            lambda _queries, _limit: [self._shown],
            model,
            system=task.system,
            template=task.prompt.replace("{passages}", "{context}"),
            context=task.k,
            separator="\n\n",
        )


if __name__ == "__main__":
    run(Txtai, "txtai", "torch", "transformers", "llama-cpp-python")
