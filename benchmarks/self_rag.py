"""Self-RAG against the plain way of doing it: same model file, passages and questions.

    python benchmarks/self_rag.py DOCUMENT.pdf [--json OUT.json]

The plain algorithm asks in sequential chat calls, with the passage behind the instructions,
reads its grades from the text of the replies and uses nothing again. localrag is run cold, then
for a second question about the same passages: warm in memory, and warm from disk with the model
loaded anew. Each with and without early stopping. Last, the relevance of ten passages.
Tokens do not depend on the machine; seconds are comparable within one run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from localrag import LocalRAG, factory
from localrag.config.settings import Settings, load_settings
from localrag.documents.chunking import passage_text
from localrag.models.llms.base import Options
from localrag.models.llms.choices import LogitChooser
from localrag.models.llms.llama_cpp.model import LlamaCppModel, StatesOnDisk
from localrag.rag.grading import Grader, Reading
from localrag.types import Answer, Message, Place, ScoredChunk

FIRST = "人工智能开发的主要伦理问题是什么？"
SECOND = "为什么人工智能系统需要透明度和问责制？"
K = 3
CHUNKING = {"chunking": {"strategy": "windows", "size": 1000, "overlap": 200}}


@dataclass
class Cost:
    """What a run cost."""

    seconds: float = 0.0
    tokens_read: int = 0
    tokens_written: int = 0
    notes: list[str] = field(default_factory=list)


@contextmanager
def counting(model: LlamaCppModel, cost: Cost) -> Iterator[None]:
    """Count what the engine reads and writes, and the seconds."""
    engine = model._context
    read, append = engine.read, engine.append

    def counted_read(tokens: Any, *, keep: int = 0) -> int:
        count = read(tokens, keep=keep)
        cost.tokens_read += count
        return count

    def counted_append(token: int) -> None:
        cost.tokens_written += 1
        append(token)

    engine.read, engine.append = counted_read, counted_append  # type: ignore[method-assign]
    started = time.perf_counter()
    try:
        yield
    finally:
        cost.seconds = time.perf_counter() - started
        engine.read, engine.append = read, append  # type: ignore[method-assign]


# -- the plain algorithm ---------------------------------------------------------------


class Plain:
    """Self-RAG as it is usually written: a chat call a decision, replies read as text."""

    def __init__(self, model: LlamaCppModel, max_tokens: int) -> None:
        self.model = model
        self.max_tokens = max_tokens
        """Of an answer."""
        self.unread = 0

    def ask(self, system: str, user: str, max_tokens: int) -> str:
        """One chat call; nothing of the call before it is used."""
        self.model._context.reset()
        messages = [Message("system", system), Message("user", user)]
        return self.model.complete(messages, Options(max_tokens=max_tokens)).text.strip()

    def needs_documents(self, question: str) -> bool:
        """Yes for facts, no for opinions and creative requests."""
        reply = self.ask(
            "判断回答用户的问题是否需要检索资料。询问事实、具体信息、事件、人物或概念时回答“是”；"
            "询问看法、假设、常识或要求创作时回答“否”。只回答“是”或“否”。",
            f"问题：{question}\n\n需要检索吗？",
            8,
        )
        return self.read(reply, "是", "否") == "是"

    def relevant(self, question: str, passage: str) -> bool:
        """Whether a passage is relevant."""
        reply = self.ask(
            "判断资料是否与问题相关、是否含有有助于回答问题的信息。只回答“相关”或“不相关”。",
            f"问题：{question}\n\n资料：\n{passage}\n\n这段资料相关吗？",
            8,
        )
        return self.read(reply, "不相关", "相关") == "相关"

    def answer(self, question: str, passage: str) -> str:
        """An answer from one passage."""
        return self.ask(
            "你根据给出的资料回答问题。",
            f"资料：\n{passage}\n\n问题：{question}\n\n请完整而简洁地回答。",
            self.max_tokens,
        )

    def support(self, answer: str, passage: str) -> str:
        """How far the passage bears the answer out."""
        reply = self.ask(
            "判断回答是否有资料支持：全部内容有依据为“完全支持”，部分有依据为“部分支持”，"
            "没有依据为“不支持”。只回答这三者之一。",
            f"资料：\n{passage}\n\n回答：\n{answer}\n\n支持程度：",
            8,
        )
        return self.read(reply, "不支持", "部分支持", "完全支持")

    def utility(self, question: str, answer: str) -> str:
        """Usefulness from 1 to 5."""
        reply = self.ask(
            "给回答的有用程度打分，从 1（没有用）到 5（非常有用）。只回答一个数字。",
            f"问题：{question}\n\n回答：\n{answer}\n\n分数：",
            8,
        )
        return self.read(reply, *"12345")

    def read(self, reply: str, *choices: str) -> str:
        """The first of the choices that stands in the reply."""
        found = next((choice for choice in choices if choice in reply), "")
        self.unread += not found
        return found

    def run(self, question: str, passages: list[str]) -> str:
        """The whole algorithm: the answer of the best score."""
        best, best_score = "", 0
        if self.needs_documents(question):
            for passage in [each for each in passages if self.relevant(question, each)]:
                answer = self.answer(question, passage)
                points = {"完全支持": 3, "部分支持": 1}.get(self.support(answer, passage), 0)
                score = points * 5 + int(self.utility(question, answer) or 3)
                if score > best_score:
                    best, best_score = answer, score
        return best or self.ask("你是一个有用的助手。", question, self.max_tokens)


# -- the runs ---------------------------------------------------------------------------


def main() -> None:
    """Run everything, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("document", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs = measure(arguments.document, Path(folder))
    show(costs)
    if arguments.json:
        arguments.json.write_text(json.dumps(msgspec.to_builtins(costs), indent=1), "utf-8")


def measure(document: Path, folder: Path) -> dict[str, Cost]:
    """All runs by name."""
    settings = msgspec.structs.replace(
        load_settings(), chunking=msgspec.convert(CHUNKING, Settings).chunking
    )
    with LocalRAG.open(folder / "library", settings=settings) as rag:
        rag.add([document])
        ten = rag.engine.retrieve(FIRST, 10)
        embedder = rag.embedder
    three = ten[:K]
    texts = [passage_text(each.chunk) for each in ten]
    costs: dict[str, Cost] = {}

    def cost(name: str) -> Cost:
        print(f"… {name}", flush=True)
        return costs.setdefault(name, Cost())

    model = load(settings, None)
    for name, question in (("first", FIRST), ("second", SECOND)):
        plain = Plain(model, settings.answer.max_tokens)
        with counting(model, counted := cost(f"{name}, plain")):
            counted.notes.append(plain.run(question, texts[:K]))
        counted.notes.append(f"{plain.unread} replies not understood")
    with counting(model, cost("relevance of 10, plain")):
        for text in texts:
            plain.relevant(FIRST, text)
    model.close()
    for early_stop in (True, False):
        way = "early stop" if early_stop else "all answers"
        disk = folder / way
        model = load(settings, disk)
        ask = Asker(settings, embedder, three, early_stop=early_stop)
        with counting(model, counted := cost(f"first, cold, {way}")):
            counted.notes += ask(model, FIRST)
        with counting(model, counted := cost(f"second, warm in memory, {way}")):
            counted.notes += ask(model, SECOND)
        model.close()
        model = load(settings, disk)
        with counting(model, counted := cost(f"second, warm from disk, {way}")):
            counted.notes += ask(model, SECOND)
        model.close()
    model = load(settings, None)
    for name, question in (("cold", FIRST), ("warm", SECOND)):
        with counting(model, cost(f"relevance of 10, {name}")):
            for each in ten:
                Grader(LogitChooser(model)).relevance(question, Reading("zh", (each,)))
    model.close()
    return costs


def load(settings: Settings, folder: Path | None) -> LlamaCppModel:
    """The model of the settings, with its states in `folder`."""
    models = factory.make_models()
    disk = StatesOnDisk(folder, 10**9, "benchmark") if folder else None
    path = models.path(settings.llm.model)
    model = LlamaCppModel(path, context_window=8192, disk=disk)
    model.speed()  # the first pass pays for reading the weights
    return model


class Asker:
    """Self-RAG over given passages."""

    def __init__(
        self, settings: Settings, embedder: Any, passages: list[ScoredChunk], *, early_stop: bool
    ) -> None:
        answer = msgspec.structs.replace(settings.answer, mode="self-rag", k=K)
        self_rag = msgspec.structs.replace(settings.self_rag, early_stop=early_stop)
        self.settings = msgspec.structs.replace(settings, answer=answer, self_rag=self_rag)
        self.embedder = embedder
        self.passages = passages

    def __call__(self, model: LlamaCppModel, question: str) -> list[str]:
        """The answer, and what was decided."""
        pipeline = factory.make_pipeline(
            self.settings,
            factory.Model(model, model, model.close),
            self.embedder,
            lambda _, k: self.passages[:k],
            lambda chunk, _: Place(0, number=chunk.first_page),
            factory.make_tokenizer(self.settings),
            factory.make_wording(self.settings),
        )
        *_, answer = pipeline.stream(question)
        assert isinstance(answer, Answer)
        return [answer.text, str(answer.metrics)]


def show(costs: dict[str, Cost]) -> None:
    """A table with ratios against the plain run of the same question."""
    for name, cost in costs.items():
        base = costs[f"{name.split(',')[0]}, plain"]
        print(
            f"{name:40} {cost.seconds:7.1f} s  1/{base.seconds / cost.seconds:5.2f}"
            f"  read {cost.tokens_read:6} (1/{base.tokens_read / max(cost.tokens_read, 1):.2f})"
            f"  written {cost.tokens_written:4}"
        )
        for note in cost.notes:
            print(f"      {note}")


if __name__ == "__main__":
    main()
