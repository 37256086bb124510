"""localrag beside LangChain, LlamaIndex, txtai and RAGLite: one task, the same weights, one driver.

    python benchmarks/peers/environments.py ENVIRONMENTS [--wheels DIR]
    python benchmarks/peers/compare.py run DATA WORK ENVIRONMENTS [--runs 5]
    python benchmarks/peers/compare.py table WORK

DATA holds cmrc2018 and xquad_en, WORK is a folder for indexes and `results.jsonl`. A round is one
library in one language: ingest, a cold search and warm ones, and answers, each in a process of its
own. The order of the libraries is reversed from run to run, and turned. A round is
a line of the results as soon as it is done; a run that was stopped goes on where it was.
README.md has the choices.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from environments import PEERS, python_of
from measuring import Worker, WorkerFailedError
from worker import Task

HERE = Path(__file__).resolve().parent
SETS = {"zh": "cmrc2018", "en": "xquad_en"}
LIBRARIES = ("localrag", *PEERS)


@dataclass(frozen=True)
class Question:
    id: str
    text: str
    answers: tuple[str, ...]
    document: str
    """That holds the answer."""


@dataclass(frozen=True)
class Round:
    """One library in one language in one run."""

    run: int
    library: str
    language: str


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="what", required=True)
    run = commands.add_parser("run")
    run.add_argument("data", type=Path)
    run.add_argument("work", type=Path)
    run.add_argument("environments", type=Path)
    run.add_argument("--runs", type=int, default=5)
    run.add_argument("--libraries", nargs="*", default=list(LIBRARIES), choices=LIBRARIES)
    run.add_argument("--languages", nargs="*", default=list(SETS), choices=list(SETS))
    run.add_argument("--documents", type=int, default=1000, help="passages of a set, at most")
    run.add_argument("--questions", type=int, default=6, help="answered, in each language")
    run.add_argument("--searches", type=int, default=50, help="searched, in each language")
    run.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    run.add_argument("--max-tokens", type=int, default=0, help="of an answer; 0: localrag's own")
    run.add_argument("--model", default="qwen2.5-coder-1.5b-instruct-q4")
    run.add_argument("--embedding", default="use-multilingual-v3")
    table = commands.add_parser("table")
    table.add_argument("work", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "run":
        _run(arguments)
    for line in table_of(read_results(arguments.work / "results.jsonl")):
        print(line)


def _run(arguments: argparse.Namespace) -> None:
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    tasks = {}
    for language in arguments.languages:
        folder = work / f"{language}-{arguments.documents}"
        if not (folder / "passages.jsonl").exists():
            print(f"cutting {SETS[language]} into passages ...", flush=True)
            prepare(arguments.data / SETS[language], folder, arguments)
        tasks[language] = (task_of(language, folder, work, arguments), folder)
    commands = {
        library: [
            sys.executable
            if library == "localrag"
            else str(python_of(arguments.environments / library)),
            str(HERE / f"with_{library}.py"),
        ]
        for library in arguments.libraries
    }
    touch([tasks[language][0].model for language in tasks])
    asked = {
        language: (
            read_questions(folder, arguments.questions),
            read_questions(folder, arguments.searches),
        )
        for language, (_, folder) in tasks.items()
    }
    from localrag import __version__

    about = {
        "localrag": __version__,
        "documents": arguments.documents,
        "questions": arguments.questions,
        "searches": arguments.searches,
    }
    measure(
        {language: task for language, (task, _) in tasks.items()},
        asked,
        commands,
        arguments.runs,
        work / "results.jsonl",
        about,
    )


def measure(
    tasks: Mapping[str, Task],
    asked: Mapping[str, tuple[Sequence[Question], Sequence[Question]]],
    commands: Mapping[str, Sequence[str]],
    runs: int,
    results: Path,
    about: Mapping[str, Any],
) -> None:
    """Every round that `results` does not hold yet; `asked` are questions to answer, to search.

    A round that fails is a line with its error, and is tried again the next time.
    """
    done = {
        Round(each["run"], each["library"], each["language"])
        for each in read_results(results)
        if "error" not in each
    }
    versions: dict[str, dict[str, str]] = {}
    for each in rounds(runs, list(commands), list(tasks)):
        if each in done:
            continue
        print(f"run {each.run}, {each.language}: {each.library} ...", end=" ", flush=True)
        began = time.perf_counter()
        line: dict[str, Any] = {
            **asdict(each),
            **about,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": round(os.getloadavg()[0], 2),
            "threads": tasks[each.language].threads,
            "model": tasks[each.language].model_name,
        }
        try:
            runner = Runner(commands[each.library], tasks[each.language], results.parent)
            if each.library not in versions:
                versions[each.library] = runner.versions()
            line["versions"] = versions[each.library]
            line |= runner.round(*asked[each.language], each.run)
            said = "done"
        except WorkerFailedError as error:
            line["error"] = str(error)
            said = "FAILED: " + (str(error).splitlines() or [""])[-1]
        append(results, line)
        print(f"{said} ({time.perf_counter() - began:.0f} s)", flush=True)


def rounds(runs: int, libraries: Sequence[str], languages: Sequence[str]) -> Iterator[Round]:
    """Every second run is the reverse of the one before, so that each library stands as often
    before another as behind it; each pair of runs begins two further on."""
    for run in range(runs):
        turn = run // 2 * 2 % len(libraries)
        order = [*libraries[turn:], *libraries[:turn]]
        for language in languages:
            for library in order if run % 2 == 0 else reversed(order):
                yield Round(run, library, language)


class Runner:
    """The stages of a round."""

    def __init__(self, command: Sequence[str], task: Task, work: Path) -> None:
        self._command, self._task, self._work = command, task, work
        self._file = work / "task.json"
        self._environment = offline(work, task.threads)

    def versions(self) -> dict[str, str]:
        """Also imports everything once: compiling Python and reading its files is no one's time."""
        with self._start("check") as worker:
            event, _ = worker.next()
        return dict(event["versions"])

    def round(
        self, answered: Sequence[Question], searched: Sequence[Question], turn: int
    ) -> dict[str, Any]:
        turn %= max(len(answered), 1)
        turned = [*answered[turn:], *answered[:turn]]
        network: list[str] = []
        stages = {
            "ingest": self._ingest(network),
            "search": self._search(searched, network),
            "answer": self._answer(turned, network),
        }
        return {**stages, "network": sorted(set(network))}

    def _ingest(self, network: list[str]) -> dict[str, Any]:
        store = Path(self._task.store)
        if store.exists():
            shutil.rmtree(store)
        store.mkdir(parents=True)
        with self._start("ingest") as worker:
            event, _ = worker.next()
        seconds = time.perf_counter() - worker.started
        network += worker.network
        size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        return {
            "seconds": seconds,
            "passages": event["passages"],
            "disk_mb": size / 1e6,
            "peak_mb": worker.peak_mb,
        }

    def _search(self, questions: Sequence[Question], network: list[str]) -> dict[str, Any]:
        times, hits = [], []
        with self._start("serve") as worker:
            worker.next()  # open
            for question in questions:
                sent = worker.ask(question=question.text, answer=False)
                event, at = worker.next()
                times.append(at - (sent if times else worker.started))
                hits.append(is_hit(question, event["passages"]))
                worker.next()  # done
        network += worker.network
        return {"cold": times[0], "warm": times[1:], "hits": hits, "peak_mb": worker.peak_mb}

    def _answer(self, questions: Sequence[Question], network: list[str]) -> dict[str, Any]:
        answers = []
        with self._start("serve") as worker:
            worker.next()  # open
            for question in questions:
                sent = worker.ask(question=question.text, answer=True)
                since = sent if answers else worker.started
                event, at = worker.next()
                passages, found = event["passages"], at - since
                text, first, cold = "", None, not answers
                while (event := (came := worker.next())[0])["event"] == "text":
                    text += event["text"]
                    first = came[1] - since if first is None and text.strip() else first
                answers.append(
                    {
                        "question": question.id,
                        "cold": cold,
                        "found": found,
                        "first": first,
                        "full": came[1] - since,
                        "text": text.strip(),
                        "passages": passages,
                        "hit": is_hit(question, passages),
                        **scores(text, question),
                    }
                )
        network += worker.network
        return {"answers": answers, "peak_mb": worker.peak_mb}

    def _start(self, stage: str) -> Worker:
        self._file.write_text(json.dumps(asdict(self._task)), encoding="utf-8")
        command = [*self._command, stage, str(self._file)]
        return Worker(command, self._environment, self._work / "stderr.txt")


def offline(work: Path, threads: int) -> dict[str, str]:
    """Variables that tell each library to stay at home, and how many threads there are."""
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HOME": str(work / "hub"),
        "LANGSMITH_TRACING": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUTF8": "1",
    }


def is_hit(question: Question, passages: Iterable[Sequence[str]]) -> bool:
    """Whether a passage of the right document holds one of the answers."""
    return any(
        document == question.document and any(answer in text for answer in question.answers)
        for document, text in passages
    )


def scores(text: str, question: Question) -> dict[str, Any]:
    """localrag's own metrics: EM and F1 as SQuAD and CMRC 2018 have them, the best reference."""
    from localrag.evaluation.answer_metrics import exact_match, f1
    from localrag.prompts import render

    refusals = [render("refusal", language).strip(" \n。.") for language in ("en", "zh")]
    return {
        "exact_match": max(exact_match(text, each) for each in question.answers),
        "f1": max(f1(text, each) for each in question.answers),
        "holds": float(any(each.lower() in text.lower() for each in question.answers)),
        "refused": any(text.strip().startswith(each) for each in refusals),
    }


# What is asked


def prepare(source: Path, folder: Path, arguments: argparse.Namespace) -> None:
    """The documents as text files, the questions on them, and the passages that localrag makes."""
    from localrag import LocalRAG
    from localrag.config.settings import EmbeddingSettings, Settings
    from localrag.evaluation.retrieval.beir import read_retrieval_set

    found = read_retrieval_set(source)
    documents = dict(list(found.corpus.items())[: arguments.documents])
    files = folder / "files"
    if folder.exists():
        shutil.rmtree(folder)
    files.mkdir(parents=True)
    for name, text in documents.items():
        (files / f"{name}.txt").write_text(text, encoding="utf-8")
    answers = {
        row["id"]: row["answers"] for row in _rows(source / "queries.jsonl") if row.get("answers")
    }
    questions = [
        {"id": each, "text": found.queries[each], "answers": answers[each], "document": document}
        for each, judged in found.qrels.items()
        for document in list(judged)[:1]
        if each in answers and document in documents
    ]
    _write(folder / "questions.jsonl", questions)
    settings = Settings(embedding=EmbeddingSettings(model=arguments.embedding))
    with LocalRAG.open(folder / "library", settings=settings) as rag:
        report = rag.add([files])
        if report.failed:
            sys.exit(f"not read: {report.failed}")
        passages = [
            {"id": f"{name}#{chunk.position}", "document": name, "text": chunk.text}
            for source_record in rag.library.sources()
            for name in [Path(source_record.state.path).stem]
            for chunk in rag.library.document_chunks(source_record.document_id)
        ]
    shutil.rmtree(folder / "library")
    _write(folder / "passages.jsonl", passages)


def task_of(language: str, folder: Path, work: Path, arguments: argparse.Namespace) -> Task:
    """What every library is asked to do, in the words that localrag uses itself."""
    from localrag import factory
    from localrag.config.settings import AnswerSettings, LlamaCppSettings
    from localrag.prompts import render

    models = factory.make_models()
    # Through markers: what renders the prompt wants values, and the libraries have their own.
    body = render("passages", language, passages="\0passages\0", question="\0question\0")
    prompt = f"{body}\n\n{render('answer', language)}"
    return Task(
        language=language,
        passages=str(folder / "passages.jsonl"),
        files=str(folder / "files"),
        store=str(work / "store"),
        cache=str(work / "cache"),
        model=str(factory.model_file(arguments.model, models)),
        model_name=arguments.model,
        embedding=str(models.path(arguments.embedding)),
        embedding_name=arguments.embedding,
        threads=arguments.threads,
        k=AnswerSettings().k,
        context_window=LlamaCppSettings().context_window,
        max_tokens=arguments.max_tokens or AnswerSettings().max_tokens,
        system=render("system", language),
        prompt=prompt.replace("\0passages\0", "{passages}").replace("\0question\0", "{question}"),
    )


def read_questions(folder: Path, count: int) -> list[Question]:
    """Taken evenly from first to last."""
    rows = list(_rows(folder / "questions.jsonl"))
    count = min(count, len(rows))
    chosen = [rows[index * len(rows) // count] for index in range(count)]
    return [
        Question(row["id"], row["text"], tuple(row["answers"]), row["document"]) for row in chosen
    ]


def touch(files: Iterable[str]) -> None:
    """Read the model once, so that no library waits for the disk."""
    for file in set(files):
        with Path(file).open("rb") as stream:
            while stream.read(1 << 24):
                pass


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text("utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _write(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    file.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )


# What came of it


def read_results(file: Path) -> list[dict[str, Any]]:
    """The lines that are there; a last one that was cut off is none."""
    if not file.exists():
        return []
    found = []
    for line in file.read_text("utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def append(file: Path, line: Mapping[str, Any]) -> None:
    """A further line, on one of its own even where the last was cut off."""
    whole = not file.exists() or file.read_bytes().endswith(b"\n")
    with file.open("a", encoding="utf-8") as stream:
        stream.write(("" if whole else "\n") + json.dumps(line, ensure_ascii=False) + "\n")


Line = Mapping[str, Any]
Values = Callable[[Line], Iterable[float | None]]


def _answers(name: str, *, cold: bool | None = None) -> Values:
    return lambda line: [
        each[name] for each in line["answer"]["answers"] if cold is None or each["cold"] == cold
    ]


ROWS: Sequence[tuple[str, str, Values]] = (
    ("ingest, s", "time", lambda line: [line["ingest"]["seconds"]]),
    ("memory of ingest, MB", "size", lambda line: [line["ingest"]["peak_mb"]]),
    ("index on disk, MB", "size", lambda line: [line["ingest"]["disk_mb"]]),
    ("process to first search, s", "time", lambda line: [line["search"]["cold"]]),
    ("search, warm, ms", "size", lambda line: [1000 * each for each in line["search"]["warm"]]),
    ("memory of search, MB", "size", lambda line: [line["search"]["peak_mb"]]),
    ("first passage shown, cold, s", "time", _answers("found", cold=True)),
    ("first token, cold, s", "time", _answers("first", cold=True)),
    ("full answer, cold, s", "time", _answers("full", cold=True)),
    ("first passage shown, warm, s", "time", _answers("found", cold=False)),
    ("first token, warm, s", "time", _answers("first", cold=False)),
    ("full answer, warm, s", "time", _answers("full", cold=False)),
    ("memory of answers, MB", "size", lambda line: [line["answer"]["peak_mb"]]),
    ("hit@5", "mean", lambda line: [float(each) for each in line["search"]["hits"]]),
    ("exact match", "mean", _answers("exact_match")),
    ("F1", "mean", _answers("f1")),
    ("holds the reference", "mean", _answers("holds")),
    ("refused", "mean", _answers("refused")),
    (
        "characters of an answer",
        "size",
        lambda line: [float(len(each["text"])) for each in line["answer"]["answers"]],
    ),
    ("load of the machine before", "time", lambda line: [line["load"]]),
)


def table_of(results: Sequence[Line]) -> Iterator[str]:
    """Markdown: medians over runs and questions with the smallest and the largest, or means."""
    good = [each for each in results if "error" not in each]
    for language in dict.fromkeys(each["language"] for each in good):
        lines = [each for each in good if each["language"] == language]
        libraries = list(dict.fromkeys((*LIBRARIES, *(e["library"] for e in lines))))
        libraries = [name for name in libraries if any(e["library"] == name for e in lines)]
        counts = {name: sum(each["library"] == name for each in lines) for name in libraries}
        yield f"### {language}: {lines[0]['documents']} documents, {lines[0]['model']}, " + (
            f"{lines[0]['threads']} threads"
        )
        yield ""
        yield f"| | {' | '.join(libraries)} |"
        yield f"|---|{'---|' * len(libraries)}"
        yield f"| runs | {' | '.join(str(counts[name]) for name in libraries)} |"
        for title, kind, values in ROWS:
            cells = [
                _cell(kind, [v for e in lines if e["library"] == name for v in values(e)])
                for name in libraries
            ]
            yield f"| {title} | {' | '.join(cells)} |"
        yield ""
    for each in results:
        if each.get("network"):
            yield f"- {each['library']} tried to reach {', '.join(each['network'])}"
        if "error" in each:
            last = (each["error"].splitlines() or [""])[-1]
            yield f"- run {each['run']}, {each['language']}, {each['library']} failed: {last}"


def _cell(kind: str, values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    if kind == "mean":
        return f"{statistics.fmean(known):.2f}"
    form = "{:.2f}" if kind == "time" else "{:.0f}"
    middle, low, high = (form.format(f(known)) for f in (statistics.median, min, max))
    return middle if len(known) == 1 else f"{middle} ({low} to {high})"


if __name__ == "__main__":
    main()
