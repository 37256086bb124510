"""LangChain: FAISS and BM25 in an `EnsembleRetriever`, `ChatLlamaCpp`, a chain of its expression
language.

As in its guides for hybrid search and for llama.cpp. Choices: both legs have the same weight and
give 2k documents, of which the fused list's first k are read; Chinese is cut by jieba, English into
lower-case words (the default, `str.split`, would leave Chinese sentences whole and full stops on
words). The BM25 retriever has no way to be saved: it is pickled, as its users do, since building it
anew would cost seconds at every start. `n_batch` is 512, llama.cpp's own default, instead of
LangChain's 8. No repeat penalty (its default of 1.1 harms short factual answers).
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from embedding import Encoder
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.chat_models import ChatLlamaCpp
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_community.vectorstores.utils import DistanceStrategy
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable
from worker import Passage, Task, numbered, read_passages, run


def english_terms(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def chinese_terms(text: str) -> list[str]:
    import jieba

    return [term for term in jieba.lcut(text.lower()) if term.strip()]


class StarterEmbeddings(Embeddings):
    def __init__(self, task: Task) -> None:
        self._encoder = Encoder(task)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._encoder.documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self._encoder.queries([text])[0].tolist()


class LangChain:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._store = Path(task.store)

    def ingest(self) -> int:
        documents = [
            Document(page_content=each["text"], metadata={"document": each["document"]})
            for each in read_passages(self._task)
        ]
        FAISS.from_documents(
            documents,
            StarterEmbeddings(self._task),
            distance_strategy=DistanceStrategy.MAX_INNER_PRODUCT,
        ).save_local(str(self._store))
        keywords = BM25Retriever.from_documents(
            documents,
            preprocess_func=chinese_terms if self._task.language == "zh" else english_terms,
            k=2 * self._task.k,
        )
        (self._store / "bm25.pickle").write_bytes(pickle.dumps(keywords))
        return len(documents)

    def open(self) -> None:
        vectors = FAISS.load_local(
            str(self._store),
            StarterEmbeddings(self._task),
            distance_strategy=DistanceStrategy.MAX_INNER_PRODUCT,
            allow_dangerous_deserialization=True,  # made by `ingest`
        )
        keywords = pickle.loads((self._store / "bm25.pickle").read_bytes())
        dense = vectors.as_retriever(search_kwargs={"k": 2 * self._task.k})
        self._retriever = EnsembleRetriever(retrievers=[keywords, dense], weights=[0.5, 0.5])

    def search(self, question: str) -> list[Passage]:
        found = self._retriever.invoke(question)[: self._task.k]
        return [Passage(each.metadata["document"], each.page_content, each) for each in found]

    def answer(self, question: str, found: list[Passage]) -> Iterator[str]:
        return self._chain.stream({"passages": numbered(found), "question": question})

    @cached_property
    def _chain(self) -> Runnable[dict[str, str], str]:
        task = self._task
        prompt = ChatPromptTemplate.from_messages([("system", task.system), ("user", task.prompt)])
        model = ChatLlamaCpp(
            model_path=task.model,
            n_ctx=task.context_window,
            n_threads=task.threads,
            model_kwargs={"n_threads_batch": task.threads},
            n_batch=512,
            max_tokens=task.max_tokens,
            temperature=0.0,
            repeat_penalty=1.0,
            verbose=False,
        )
        return prompt | model | StrOutputParser()


if __name__ == "__main__":
    run(LangChain, "langchain-core", "langchain-community", "langchain-classic", "llama-cpp-python")
