"""The process that `localrag prove-offline` watches: every stage, on samples of its own.

    main() of this module, with REPORT.json and a folder as arguments, by `localrag.processes`

Takes its network away first, where the system allows it; nothing else of localrag or of any
library has been loaded by then.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrag import network, processes
from localrag.cli import namespace

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.config import Settings

QUESTIONS = (
    "When was the lamp of Greyholm changed to electric light?",
    "云溪茶园的春茶什么时候采摘？",
)

MAX_TOKENS = 48
"""Of an answer: whether anything connects does not hang on its length."""

LINGER = 12.0
"""Seconds for what libraries do in threads of their own: ONNX Runtime's reports, which localrag
switches off, go out nine seconds after a model is opened."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One attempt to leave the machine, and the stage in which it was made."""

    stage: str
    host: str
    caller: str
    event: str
    origin: str


@dataclass(slots=True)
class Stage:
    """What happened in a stage; `problem`, in the reader's language, says why it did not end."""

    name: str
    seconds: float = 0.0
    problem: str = ""


@dataclass(slots=True)
class Proof:
    """Everything that the watched process reports; `isolation` is "" or why there is none."""

    isolation: str = ""
    stages: list[Stage] = field(default_factory=list)
    attempts: list[Seen] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)


class Watch:
    """Counts what every stage tried."""

    def __init__(self) -> None:
        self.proof = Proof()
        try:
            namespace.enter()
        except OSError as error:
            self.proof.isolation = error.strerror or str(error)
        network.close_doors()
        sys.addaudithook(self._note_process)
        self._blocked = self._passed = 0
        self._packets = self._lost_packets()

    def run(self, name: str, action: Callable[[], object]) -> bool:
        """Run a stage; False where it could not end."""
        from localrag.errors import LocalragError
        from localrag.messages import spoken

        stage = Stage(name)
        self.proof.stages.append(stage)
        started = time.monotonic()
        try:
            action()
        except LocalragError as error:
            stage.problem = spoken(error)
        except Exception as error:
            stage.problem = f"{type(error).__name__}: {error}"
        stage.seconds = round(time.monotonic() - started, 3)
        self.gather(name)
        return not stage.problem

    def gather(self, stage: str) -> None:
        """Put what was tried since the last time down to this stage."""
        blocked, passed = network.attempts(), network.let_through()
        for one in (*blocked[self._blocked :], *passed[self._passed :]):
            self.proof.attempts.append(Seen(stage, one.host, one.caller, one.event, one.origin))
        packets = self._lost_packets()
        # What Python let through has come to the kernel as well.
        if packets - self._packets > len(passed) - self._passed:
            self.proof.attempts.append(
                Seen(stage, "", "", "kernel", ", ".join(self.proof.processes))
            )
        self._blocked, self._passed, self._packets = len(blocked), len(passed), packets

    def _lost_packets(self) -> int:
        return 0 if self.proof.isolation else namespace.lost_packets()

    def _note_process(self, event: str, args: tuple[object, ...]) -> None:
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"):
            self.proof.processes.append(str(args[0]))


def prove(watch: Watch) -> None:
    """Every stage, in order; those that need what an earlier one could not make are left out."""
    import msgspec

    from localrag.config import load_settings

    settings: Settings | None = None

    def start() -> None:
        nonlocal settings
        loaded = load_settings()
        short = msgspec.structs.replace(loaded.answer, max_tokens=MAX_TOKENS)
        settings = msgspec.structs.replace(loaded, answer=short)

    if not watch.run("settings", start) or settings is None:
        return
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="localrag-", ignore_cleanup_errors=True)
            )
        )
        for name, action in _stages(settings, folder, stack):
            if not watch.run(name, action) and name == "add":
                break
    time.sleep(LINGER)
    watch.gather("afterwards")


def _stages(
    settings: Settings, folder: Path, stack: ExitStack
) -> Iterator[tuple[str, Callable[[], object]]]:
    rag: LocalRAG

    def add() -> None:
        nonlocal rag
        from localrag.api import LocalRAG

        samples = _samples(folder / "samples")
        rag = stack.enter_context(LocalRAG.open(folder / "library", settings=settings))
        report = rag.add([samples])
        for one in report.failed:
            raise one.error

    yield "add", add
    yield "search", lambda: [rag.search(question) for question in QUESTIONS]
    yield "ask", lambda: [rag.ask(question) for question in QUESTIONS]
    if "mode" in settings.answer.__struct_fields__:

        def self_rag() -> None:
            import msgspec

            answer = msgspec.structs.replace(settings.answer, mode="self-rag")
            rag.settings = msgspec.structs.replace(settings, answer=answer)
            for question in QUESTIONS:
                rag.ask(question)

        yield "self-rag", self_rag
    yield "eval", lambda: _evaluate(rag, settings, folder)
    yield "check", lambda: _check(folder / "library", settings)
    yield "doctor", lambda: _doctor(folder / "library")
    yield "remove", lambda: rag.remove([folder / "samples"])


def _evaluate(rag: LocalRAG, settings: Settings, folder: Path) -> None:
    """Answers and a judge's verdicts on them, as `localrag eval run` makes them.

    By the model that is loaded already: a second one might not fit into the memory.
    """
    from localrag.cli.eval_work import LibraryPipeline, PipelineModel
    from localrag.evaluation.dataset import Sample
    from localrag.evaluation.judging.judge import Judge
    from localrag.evaluation.remembered import CallStore, RememberedModel
    from localrag.evaluation.reports.page import render_page
    from localrag.evaluation.reports.report import Report, report_json
    from localrag.evaluation.runs import answers, evaluate
    from localrag.evaluation.scoring import Scorer

    def unheard(done: int, total: int, left: float | None) -> None:
        """Nobody watches the progress."""

    rag.settings = settings
    samples = [Sample(str(number), question) for number, question in enumerate(QUESTIONS, 1)]
    with CallStore(folder / "calls.sqlite") as store:
        pipeline = LibraryPipeline(rag, PipelineModel(settings, store))
        given = answers(samples, pipeline, store, "samples", unheard)
        judging = RememberedModel(rag.model.llm, rag.model.scorer, "samples", store)
        scores = rag.model.scorer is not None
        judge = Judge(judging, judging if scores else None, reasons=False)
        scorer = Scorer(judge, rag.embedder, ["faithfulness"])
        run = evaluate("samples", samples, given, scorer, unheard)
    report = Report("samples", judging.name, None, (run,))
    report_json(report)
    render_page(report)


def _check(library: Path, settings: Settings) -> None:
    from localrag import factory
    from localrag.chunking import passage_text
    from localrag.stores.checking import check_library

    inspection = check_library(
        library,
        tokenize=factory.make_tokenizer(settings),
        passage_text=passage_text,
        keyword_engine=settings.keywords.engine,
    )
    if not inspection.ok:
        raise RuntimeError("; ".join(finding.text for finding in inspection.findings))


def _doctor(library: Path) -> None:
    """All that `localrag doctor` looks at; what it finds fault with is not this proof's affair."""
    from localrag.cli.doctor import examine

    for _ in examine(library, quick=True):
        continue


def _samples(folder: Path) -> Path:
    """Documents of each kind that can be read, in both languages."""
    import pymupdf

    mupdf: Any = pymupdf  # its functions carry no types
    folder.mkdir()
    for file in sorted((Path(__file__).parent / "samples").iterdir()):
        (folder / file.name).write_bytes(file.read_bytes())
    text = (folder / "lighthouse.en.md").read_text(encoding="utf-8")
    (folder / "lighthouse.txt").write_text("A note.\n" + text, encoding="utf-8")
    pdf = mupdf.open()
    pdf.new_page().insert_text((72, 72), text, fontsize=9)
    pdf.save(folder / "lighthouse.pdf")
    return folder


def main() -> None:
    """Write the report, whatever happens."""
    report, folder = sys.argv[1:3]
    watch = Watch()
    processes.end_with_parent()
    os.chdir(folder)  # relative paths in the settings mean what they mean to the user
    try:
        prove(watch)
    finally:
        Path(report).write_text(json.dumps(asdict(watch.proof)), encoding="utf-8")
