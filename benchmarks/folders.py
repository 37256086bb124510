"""Folders such as people keep, and their questions: localrag beside a plain RAG.

    python benchmarks/folders.py search FOLDER...        files among the first passages, no model
    python benchmarks/folders.py answers FOLDER... [--out OUT.jsonl] [--kinds fact,context]
    python benchmarks/folders.py references RAGEVAL [--all] [--lang zh] [--read]

FOLDER is what a generator of `../shared/data/folders` made: `docs/` and `questions.jsonl`.
`answers` puts each question to both systems in turn, earlier questions of the same talk first,
and judges as the README there says. With `--out` a line is written as soon as a question is
answered, and a run that was stopped goes on where it was. RAGEVAL is `rageval_finance`, all of
whose reports go into one library; with `--read` the language model answers, and what it was given
to read counts, too. Each folder gets a library of its own with the default settings, new for
each run but with `--reuse` (and `--work`, where it is kept).

The plain way, `PlainRAG`, has the same texts and weights: windows of 1,000 characters that share
200, the five nearest of the same embedding, one prompt. Results are in retrieval.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar
from unittest.mock import patch

import msgspec
import numpy as np

from localrag import LocalRAG, factory
from localrag.config.settings import EmbeddingSettings, Settings
from localrag.documents.tables import shown_text
from localrag.models.llms.base import Options
from localrag.rag.conversation import Turn
from localrag.rag.refusals import refuses
from localrag.types import Message

ABOUT_ONE = ("fact", "context", "table", "latest", "compare", "follow", "cross", "yesno")
"""Kinds of questions whose answer stands in one place, or in two."""
VERDICTS = ("right", "part", "wrong", "refused")
SYSTEMS = ("localrag", "plain")
DEPTHS = (5, 10)
S = TypeVar("S", bound=msgspec.Struct)


class Question(msgspec.Struct):
    """A line of a folder's `questions.jsonl`; see the README of the data."""

    id: str
    kind: str
    lang: str
    question: str
    answer: str
    must: list[list[str]]
    no: list[str]
    files: list[str]
    history: list[str]
    refuse: bool


class Referenced(msgspec.Struct):
    """A question of RAGEval, with the sentences that its answer rests on and their files."""

    id: str
    kind: str
    lang: str
    question: str
    references: list[str]
    docs: list[str]


@dataclass(frozen=True)
class Reply:
    """An answer to a question as it was searched for."""

    searched: str
    text: str
    refused: bool
    files: tuple[str, ...]
    steps: tuple[str, ...] = ()
    grounded: bool | None = None


# -- The two systems ----------------------------------------------------------------


class Localrag:
    """localrag as its users have it."""

    def __init__(self, rag: LocalRAG) -> None:
        self._rag = rag

    def search(self, question: str, k: int) -> list[tuple[str, str]]:
        """File and text of the k best passages."""
        hits = self._rag.search(question, k=k)
        return [(Path(hit.source).name, shown_text(hit.chunk)) for hit in hits]

    def ask(self, question: str, language: str, history: Sequence[Turn]) -> Reply:  # noqa: ARG002
        """As `localrag chat` asks."""
        answer = self._rag.ask(question, history=history)
        files = tuple(dict.fromkeys(Path(quote.source).name for quote in answer.citations))
        steps = tuple(step.kind for step in answer.trace)
        refused = not answer.grounded or refuses(answer.text)
        return Reply(answer.question, answer.text, refused, files, steps, answer.grounded)


PROMPTS = {
    "en": "Answer the question from the passages only. If they do not hold the answer, say: {}\n\n"
    "Passages:\n\n{}\n\nQuestion: {}",
    "zh": "只根据下面的资料回答问题。如果资料中没有答案，就说：{}\n\n资料：\n\n{}\n\n问题：{}",
}
REFUSALS = {"en": "The documents do not say.", "zh": "文档中没有说明。"}


class PlainRAG:
    """Windows, the nearest five of the same embedding, one prompt to the same model."""

    def __init__(self, rag: LocalRAG) -> None:
        self._rag = rag
        self._windows: list[tuple[str, str]] = []
        for record in rag.library.documents():
            document = rag.library.document(record.id)
            assert document is not None
            for start in range(0, max(len(document.text) - 200, 1), 800):
                window = document.text[start : start + 1000]
                self._windows.append((Path(document.source).name, window))
        self._vectors = rag.embedder.embed_documents([text for _, text in self._windows])

    def ask(self, question: str, language: str, history: Sequence[Turn]) -> Reply:
        """One prompt; what was said before stands above it, and helps the search."""
        searched = f"{history[-1].question} {question}" if history else question
        nearest = self.search(searched, 5)
        passages = "\n\n".join(text for _, text in nearest)
        messages = []
        for turn in history:
            messages += [Message("user", turn.question), Message("assistant", turn.answer)]
        prompt = PROMPTS[language].format(REFUSALS[language], passages, question)
        options = Options(max_tokens=self._rag.settings.answer.max_tokens, temperature=0.0)
        written = self._rag.model.llm.complete([*messages, Message("user", prompt)], options).text
        refused = written.strip().startswith(REFUSALS[language][:-1]) or refuses(written)
        files = tuple(dict.fromkeys(file for file, _ in nearest))
        return Reply(searched, written.strip(), refused, files)

    def search(self, question: str, k: int) -> list[tuple[str, str]]:
        """File and text of the k nearest windows."""
        scores = self._vectors @ self._rag.embedder.embed_queries([question])[0]
        return [self._windows[place] for place in np.argsort(-scores, kind="stable")[:k]]


@contextmanager
def opened(arguments: argparse.Namespace, name: str, documents: Path) -> Iterator[LocalRAG]:
    """A library of these documents, the one of an earlier run if wanted."""
    place = arguments.work / f"{name}.library"
    if place.exists() and not arguments.reuse:
        shutil.rmtree(place)
    with LocalRAG.open(
        place, settings=Settings(embedding=EmbeddingSettings(arguments.embedding))
    ) as rag:
        if not rag.library.counts().documents:
            report = rag.add([documents])
            for failure in report.failed:
                print(f"not read: {failure}", file=sys.stderr)
        print(f"{name}: {rag.library.counts()}", file=sys.stderr)
        yield rag


# -- answers ------------------------------------------------------------------------


def answers(arguments: argparse.Namespace) -> None:
    """Put the questions to the systems, and print how they fare."""
    out: Path | None = arguments.out
    lines = out.read_text("utf-8").splitlines() if out and out.exists() else []
    done = {(row["folder"], row["id"], row["system"]): row for row in map(json.loads, lines)}
    everything: list[dict[str, Any]] = []
    for folder in arguments.folders:
        rows = []
        with (
            opened(arguments, folder.name, folder / "docs") as rag,
            ExitStack() as stack,
        ):
            file = stack.enter_context(out.open("a", encoding="utf-8")) if out else None
            systems = {name: system_of(name, rag) for name in arguments.systems}
            rag.model.llm.complete([Message("user", "warm")], Options(max_tokens=1))
            for number, question in enumerate(chosen(folder, arguments)):
                names = list(systems) if number % 2 == 0 else list(systems)[::-1]
                for name in names:
                    row = done.get((folder.name, question.id, name))
                    if row is None:
                        row = answered(folder.name, question, name, systems[name])
                        told = f"{row['verdict']:8} {row['seconds']:5.1f} s"
                        print(f"{question.id:12} {name:9} {told}", file=sys.stderr, flush=True)
                        if file:
                            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
                    rows.append(row)
        print_answers(folder.name, rows, arguments.systems)
        everything += rows
    if len(arguments.folders) > 1:
        print_answers("all folders", everything, arguments.systems)


def system_of(name: str, rag: LocalRAG) -> Localrag | PlainRAG:
    """One of `SYSTEMS`."""
    return Localrag(rag) if name == "localrag" else PlainRAG(rag)


def chosen(folder: Path, arguments: argparse.Namespace) -> list[Question]:
    """The questions of a folder that are wanted."""
    questions = [
        question
        for question in read(folder / "questions.jsonl", Question)
        if (not arguments.ids or question.id in arguments.ids)
        and (not arguments.kinds or question.kind in arguments.kinds)
    ]
    return questions[: arguments.limit]


def answered(
    folder: str, question: Question, name: str, system: Localrag | PlainRAG
) -> dict[str, Any]:
    """A question put to a system and judged; the time is that of the last question alone."""
    history: tuple[Turn, ...] = ()
    for earlier in question.history:
        reply = system.ask(earlier, question.lang, history)
        history = (*history, Turn(reply.searched if name == "localrag" else earlier, reply.text))
    began = time.perf_counter()
    reply = system.ask(question.question, question.lang, history)
    seconds = round(time.perf_counter() - began, 2)
    asked = {"question": question.question, "answer": question.answer}
    row = {"folder": folder, "id": question.id, "system": name, "kind": question.kind, **asked}
    verdict = judged(question, reply.text, refused=reply.refused)
    return {**row, "verdict": verdict, "seconds": seconds, **msgspec.to_builtins(reply)}


def judged(question: Question, text: str, *, refused: bool) -> str:
    """One of `VERDICTS`, by the rules in the README of the data."""
    if question.refuse or refused:
        return ("right" if refused else "wrong") if question.refuse else "refused"
    met = [tells(text, forms) for forms in question.must]
    if all(met) and not tells(text, question.no):
        return "right"
    return "part" if any(met) else "wrong"


def tells(text: str, forms: Sequence[str]) -> bool:
    """Whether one of the forms stands in a text."""
    folded = f" {' '.join(text.split())} ".casefold()
    return any(form.casefold() in folded for form in forms)


def print_answers(title: str, rows: Sequence[dict[str, Any]], systems: Sequence[str]) -> None:
    """Verdicts and median seconds by kind, the systems side by side."""
    print(f"\n{title}: right / part / wrong / refused, median seconds\n")
    print(f"| kind | n |{''.join(f' {name} | s |' for name in systems)}")
    print(f"|---|---|{'---|---|' * len(systems)}")
    for label, part in by_kind(rows, lambda row: str(row["kind"])):
        cells = []
        for name in systems:
            own = [row for row in part if row["system"] == name]
            counts = [sum(row["verdict"] == verdict for row in own) for verdict in VERDICTS]
            seconds = f"{median(row['seconds'] for row in own):.1f}" if own else "-"
            cells += [" / ".join(map(str, counts)), seconds]
        count = len({(row["folder"], row["id"]) for row in part})
        print(f"| {label} | {count} | {' | '.join(cells)} |", flush=True)


R = TypeVar("R")


def by_kind(rows: Iterable[R], kind_of: Callable[[R], str]) -> Iterator[tuple[str, list[R]]]:
    """The rows of each kind; those of the kinds `ABOUT_ONE` together, what refuses, and all."""
    kinds: dict[str, list[R]] = defaultdict(list)
    for row in rows:
        kinds[kind_of(row)].append(row)
    first = [kind for kind in ABOUT_ONE if kind in kinds]
    rest = sorted(kind for kind in kinds if kind not in (*ABOUT_ONE, "refuse"))
    yield from ((kind, kinds[kind]) for kind in first)
    if first:
        yield "**these**", [row for kind in first for row in kinds[kind]]
    yield from ((kind, kinds[kind]) for kind in [*rest, *(["refuse"] if "refuse" in kinds else [])])
    yield "**all**", [row for part in kinds.values() for row in part]


# -- search -------------------------------------------------------------------------


def search(arguments: argparse.Namespace) -> None:
    """Whether the files that a question needs are among those of the first passages."""
    everything: list[tuple[str, list[bool]]] = []
    for folder in arguments.folders:
        rows: list[tuple[str, list[bool]]] = []
        with opened(arguments, folder.name, folder / "docs") as rag:
            systems = [system_of(name, rag) for name in arguments.systems]
            for question in chosen(folder, arguments):
                if question.files:
                    asked = " ".join([*question.history[-1:], question.question])
                    hits = [system.search(asked, max(DEPTHS)) for system in systems]
                    marks = [mark for found in hits for mark in marks_of(found, question)]
                    rows.append((question.kind, marks))
                    if arguments.each:
                        missing = [sorted({*question.files} - {*dict(found)}) for found in hits]
                        print(f"{question.id:12} {asked}\n{'':13}missing {missing}")
        print_search(folder.name, rows, arguments.systems)
        everything += rows
    if len(arguments.folders) > 1:
        print_search("all folders", everything, arguments.systems)


def marks_of(hits: Sequence[tuple[str, str]], question: Question) -> list[bool]:
    """Whether the first file is needed, all are in the first 5, 10, and these 5 tell `must`."""
    files = [file for file, _ in hits]
    text = "\n".join(text for _, text in hits[: DEPTHS[0]])
    everywhere = [set(question.files) <= {*files[:k]} for k in DEPTHS]
    return [
        files[0] in question.files,
        *everywhere,
        all(tells(text, forms) for forms in question.must),
    ]


def print_search(
    title: str, rows: Sequence[tuple[str, list[bool]]], systems: Sequence[str]
) -> None:
    """Shares by kind."""
    print(f"\n{title}: share of questions; follow-ups are searched with the question before them\n")
    heads = "".join(f" {name}: first | all in 5 | all in 10 | told in 5 |" for name in systems)
    print(f"| kind | n |{heads}\n|---|---|{'---|' * 4 * len(systems)}")
    for label, part in by_kind(rows, lambda row: row[0]):
        shares = " | ".join(f"{share:.2f}" for share in np.mean([met for _, met in part], axis=0))
        print(f"| {label} | {len(part)} | {shares} |")


# -- references ---------------------------------------------------------------------


class Overheard:
    """A language model, or a scorer, that notes what it is given to read."""

    def __init__(self, inner: Any, heard: list[str]) -> None:
        self._inner, self._heard = inner, heard

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in ("complete", "stream", "score_choices"):
            return value

        def noting(messages: Sequence[Message], *given: Any, **named: Any) -> Any:
            self._heard.extend(message.content for message in messages)
            return value(messages, *given, **named)

        return noting


def references(arguments: argparse.Namespace) -> None:
    """The share of reference sentences that the first passages hold, or that are read."""
    folder: Path = arguments.folders[0]
    heard: list[str] = []
    file = folder / ("questions.jsonl" if arguments.all else "sample.jsonl")
    questions = [
        question
        for question in read(file, Referenced)
        if question.references and arguments.lang in (None, question.lang)
    ][: arguments.limit]
    make = factory.make_model

    def overheard(*given: Any) -> factory.Model:
        model = make(*given)
        scorer = Overheard(model.scorer, heard) if model.scorer else None
        return replace(model, llm=Overheard(model.llm, heard), scorer=scorer, view=None)

    rows: list[tuple[str, str, list[float], bool | None]] = []
    with (
        patch.object(factory, "make_model", overheard),
        opened(arguments, "references", folder / "docs") as rag,
    ):
        for question in questions:
            hits = rag.search(question.question, k=max(DEPTHS))
            texts = ["".join(shown_text(hit.chunk) for hit in hits[:k]) for k in DEPTHS]
            if arguments.read:
                heard.clear()
                rag.ask(question.question)
                texts.append("\n".join(heard))
            shares = [fmean(held(text, question.references)) for text in texts]
            several = len(question.docs) > 1
            both = {*question.docs} <= {Path(hit.source).name for hit in hits} if several else None
            rows.append((question.lang, question.kind, shares, both))
    print("\nshare of reference sentences in the first passages; both files in the first ten\n")
    print(f"| language | kind | n | in 5 | in 10 |{' read |' * arguments.read} both files |")
    print(f"|---|---|---|---|---|{'---|' * arguments.read}---|")
    for language in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == language]
        for label, part in by_kind(own, lambda row: row[1]):
            means = np.mean([row[2] for row in part], axis=0)
            cells = " | ".join(f"{share:.3f}" for share in means)
            pairs = [row[3] for row in part if row[3] is not None]
            both_files = f"{fmean(pairs):.2f}" if pairs else ""
            print(f"| {language} | {label} | {len(part)} | {cells} | {both_files} |")


def held(text: str, sentences: Sequence[str]) -> list[bool]:
    """Whether a text holds each of the sentences, white space aside."""
    squeezed = "".join(text.split())
    return ["".join(sentence.split()) in squeezed for sentence in sentences]


def read(file: Path, kind: type[S]) -> list[S]:
    """Lines of JSON."""
    return msgspec.json.Decoder(kind).decode_lines(file.read_bytes())


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["answers", "search", "references"])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--work", type=Path, help="where libraries are kept")
    parser.add_argument("--reuse", action="store_true", help="take the libraries that are there")
    parser.add_argument("--embedding", default="", help="a model or preset, default: starter's")
    parser.add_argument("--systems", type=listed, default=list(SYSTEMS))
    parser.add_argument("--ids", type=listed, default=[])
    parser.add_argument("--kinds", type=listed, default=[])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path, help="answers, a line of JSON each")
    parser.add_argument("--each", action="store_true", help="tell which files a search missed")
    parser.add_argument("--sample", action="store_true", help="references: the sample, as is usual")
    parser.add_argument("--all", action="store_true", help="references: all questions")
    parser.add_argument("--lang", choices=["en", "zh"], help="references: of one language")
    parser.add_argument("--read", action="store_true", help="references: what the model reads, too")
    arguments = parser.parse_args()
    arguments.folders = [folder.resolve() for folder in arguments.folders]
    if len({folder.name for folder in arguments.folders}) < len(arguments.folders):
        parser.error("the folders must have different names: their libraries are named by them")
    with tempfile.TemporaryDirectory() as folder:
        arguments.work = arguments.work or Path(folder)
        {"answers": answers, "search": search, "references": references}[arguments.what](arguments)


def listed(text: str) -> list[str]:
    """Names between commas."""
    return text.split(",")


if __name__ == "__main__":
    main()
