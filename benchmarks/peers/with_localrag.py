"""localrag as its API is used: `add` a folder of files, `search`, `stream`.

Everything is as it comes, but for the models, threads and window of the comparison. Files are read
and cut here, while the peers are given passages that are cut already. It searches twice for an
answer (`search` shows passages, `stream` searches for itself), as a program that shows them does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from worker import Passage, Task, run

from localrag import LocalRAG
from localrag.config.settings import (
    AnswerSettings,
    EmbeddingSettings,
    LlamaCppSettings,
    Settings,
)


class Localrag:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._settings = Settings(
            llm=LlamaCppSettings(
                model=task.model_name, threads=task.threads, context_window=task.context_window
            ),
            embedding=EmbeddingSettings(model=task.embedding_name, threads=task.threads),
            answer=AnswerSettings(k=task.k, max_tokens=task.max_tokens),
        )

    def ingest(self) -> int:
        with LocalRAG.open(self._task.store, settings=self._settings) as rag:
            report = rag.add([self._task.files])
            assert not report.failed, report.failed
            return rag.status().counts.chunks

    def open(self) -> None:
        self._rag = LocalRAG.open(self._task.store, settings=self._settings, create=False)

    def search(self, question: str) -> list[Passage]:
        found = self._rag.search(question, k=self._task.k)
        return [Passage(Path(each.source).stem, each.chunk.text) for each in found]

    def answer(self, question: str, found: list[Passage]) -> Iterator[str]:  # noqa: ARG002
        for piece in self._rag.stream(question):
            if isinstance(piece, str):
                yield piece


if __name__ == "__main__":
    run(Localrag, "llama-cpp-python")
