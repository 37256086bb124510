"""LlamaIndex: `VectorStoreIndex` over FAISS and `BM25Retriever` in a `QueryFusionRetriever`, a
streaming response synthesizer, `LlamaCPP`.

As in its guides for reciprocal rerank fusion and for llama.cpp. Choices: `num_queries=1` (no
rewriting by the language model), each leg gives 2k nodes; English with its stemmer and stop words;
Chinese has no tokeniser in its BM25 retriever (the `tokenizer` argument is deprecated and ignored),
so single characters by `token_pattern`: its default pattern makes one term of everything between
two punctuation marks. `LlamaCPP` knows no chat template of the GGUF: ChatML is given by the
two functions that it asks for. `n_batch` is 512, llama.cpp's own default. The response mode is
`compact`, its default: one call with all passages, which it joins without numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import bm25s
import faiss
from embedding import Encoder
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.prompts import ChatPromptTemplate, MessageRole
from llama_index.core.response_synthesizers import BaseSynthesizer, get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.llms.llama_cpp import LlamaCPP
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.faiss import FaissVectorStore
from pydantic import PrivateAttr
from worker import Passage, Task, read_passages, run

CHARACTERS = r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+"


class StarterEmbedding(BaseEmbedding):
    _encoder: Encoder = PrivateAttr()

    def __init__(self, task: Task, **about: Any) -> None:
        super().__init__(embed_batch_size=64, **about)
        self._encoder = Encoder(task)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._encoder.documents(texts).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._encoder.queries([query])[0].tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def chat(messages: Sequence[ChatMessage]) -> str:
    turns = "".join(f"<|im_start|>{m.role.value}\n{m.content}<|im_end|>\n" for m in messages)
    return f"{turns}<|im_start|>assistant\n"


def completion(prompt: str) -> str:
    return chat([ChatMessage(role=MessageRole.USER, content=prompt)])


class LlamaIndex:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._store = Path(task.store)
        chinese = task.language == "zh"
        self._terms: dict[str, Any] = (
            {"token_pattern": CHARACTERS, "skip_stemming": True} if chinese else {}
        )

    def ingest(self) -> int:
        nodes = [
            TextNode(
                id_=each["id"],
                text=each["text"],
                metadata={"document": each["document"]},
                excluded_embed_metadata_keys=["document"],
                excluded_llm_metadata_keys=["document"],
            )
            for each in read_passages(self._task)
        ]
        encoder = StarterEmbedding(self._task)
        vectors = FaissVectorStore(faiss_index=faiss.IndexFlatIP(512))
        storage = StorageContext.from_defaults(vector_store=vectors)
        index = VectorStoreIndex(nodes, storage_context=storage, embed_model=encoder)
        index.storage_context.persist(str(self._store))
        BM25Retriever.from_defaults(nodes=nodes, **self._terms).persist(str(self._store / "bm25"))
        return len(nodes)

    def open(self) -> None:
        encoder = StarterEmbedding(self._task)
        vectors = FaissVectorStore.from_persist_dir(str(self._store))
        storage = StorageContext.from_defaults(vector_store=vectors, persist_dir=str(self._store))
        index = load_index_from_storage(storage, embed_model=encoder)
        # `from_persist_dir` forgets how texts were cut into terms.
        keywords = BM25Retriever(
            existing_bm25=bm25s.BM25.load(str(self._store / "bm25"), load_corpus=True),
            similarity_top_k=2 * self._task.k,
            **self._terms,
        )
        self._retriever = QueryFusionRetriever(
            [index.as_retriever(similarity_top_k=2 * self._task.k), keywords],
            llm=MockLLM(),  # asked for other queries, of which there are none
            mode="reciprocal_rerank",
            similarity_top_k=self._task.k,
            num_queries=1,
            use_async=False,
        )

    def search(self, question: str) -> list[Passage]:
        found = self._retriever.retrieve(question)
        return [Passage(each.node.metadata["document"], each.node.text, each) for each in found]

    def answer(self, question: str, found: list[Passage]) -> Iterator[str]:
        nodes = [each.native for each in found]
        return iter(self._synthesizer.synthesize(question, nodes=nodes).response_gen)

    @cached_property
    def _synthesizer(self) -> BaseSynthesizer:
        task = self._task
        model = LlamaCPP(
            model_path=task.model,
            temperature=0.0,
            max_new_tokens=task.max_tokens,
            context_window=task.context_window,
            model_kwargs={
                "n_threads": task.threads,
                "n_threads_batch": task.threads,
                "n_batch": 512,
            },
            messages_to_prompt=chat,
            completion_to_prompt=completion,
            verbose=False,
        )
        asked = task.prompt.replace("{passages}", "{context_str}")
        template = ChatPromptTemplate(
            [
                ChatMessage(role=MessageRole.SYSTEM, content=task.system),
                ChatMessage(
                    role=MessageRole.USER, content=asked.replace("{question}", "{query_str}")
                ),
            ]
        )
        return get_response_synthesizer(llm=model, text_qa_template=template, streaming=True)


if __name__ == "__main__":
    run(LlamaIndex, "llama-index-core", "llama-index-llms-llama-cpp", "llama-cpp-python")
