"""The process that `localrag prove-offline` watches: every stage, on samples of its own.

    main() of this module, with REPORT.json, a nonce, a folder and perhaps a SERVER as arguments,
    by `localrag.system.processes`

Takes its network away first, where the system allows it; nothing else of localrag or of any
library has been loaded by then. With SERVER, the address of a language model on this machine,
it keeps its network, because that server would be cut off.
"""

from __future__ import annotations

import io
import json
import os
import re
import socket
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrag.cli import namespace
from localrag.egress import network
from localrag.errors import NetworkBlockedError
from localrag.system import files, processes

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.config.settings import Settings

QUESTIONS = (
    "When was the lamp of Greyholm changed to electric light?",
    "云溪茶园的春茶什么时候采摘？",
)

SCANNED = "The harbour office of Greyholm\nis open on Tuesdays and Fridays."
"""On pictures only: what recognition reads, nothing else can have."""

MAX_TOKENS = 48
"""Of an answer: whether anything connects does not hang on its length."""

STAGES = (
    *("guard", "settings", "add", "search", "ask", "self-rag", "eval", "check", "doctor"),
    *("database", "remove", "server", "afterwards"),
)
"""All that a proof must have in it, each run through."""

NOWHERE = ("192.0.2.1", 9)
"""Reserved for documents (RFC 5737): nobody is there."""

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


@dataclass(frozen=True, slots=True)
class Local:
    """Connections to a server on this machine that were let through; `own`: one of localrag's."""

    stage: str
    address: str
    caller: str
    count: int
    own: bool


@dataclass(slots=True)
class ProofStage:
    """What happened in a stage; `problem`, in the reader's language, says why it did not end."""

    name: str
    seconds: float = 0.0
    problem: str = ""


@dataclass(slots=True)
class Proof:
    """Everything that the watched process reports; `isolation` is "" or why there is none.

    `nonce` is what the process was given; `unseen` are processes that nobody watched.
    """

    nonce: str
    isolation: str = ""
    stages: list[ProofStage] = field(default_factory=list)
    attempts: list[Seen] = field(default_factory=list)
    loopback: list[Local] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


class AttemptCounter:
    """Counts what every stage tried; the processes that it starts report to `folder`."""

    def __init__(self, nonce: str, folder: Path, server: str = "") -> None:
        from localrag.messages import tr

        self.proof = Proof(nonce)
        if server:
            self.proof.isolation = tr(
                "it would cut off the language model at {server}", server=server
            )
        else:
            try:
                namespace.enter()
            except OSError as error:
                self.proof.isolation = error.strerror or str(error)
        self._packets = self._lost_packets()
        if not self.proof.isolation:
            with socket.socket(type=socket.SOCK_DGRAM) as probe:
                probe.connect_ex(NOWHERE)
        network.close_doors()
        self._folder = folder
        os.environ[network.WATCHED] = str(folder)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: network.check_in(["os.fork"]))
        self._started: list[tuple[str, str]] = []
        self._children: dict[int, tuple[str, set[int]]] = {}
        self._reported: set[network.Attempt] = set()
        sys.addaudithook(self._note_process)
        self._blocked = 0
        self._passed: Counter[network.Attempt] = Counter()

    def guard(self) -> None:
        """What watches must itself be seen to work: both probes, this one and the one before."""
        try:
            socket.create_connection(NOWHERE, timeout=1)
        except NetworkBlockedError:
            self._blocked += 1
        if [attempt.host for attempt in network.attempts()] != [NOWHERE[0]]:
            raise RuntimeError("the guard did not stop a connection")
        packets = self._lost_packets()
        if not self.proof.isolation and packets == self._packets:
            raise RuntimeError("the kernel did not count a packet")
        self._packets = packets

    def run(self, name: str, action: Callable[[], object]) -> bool:
        """Run a stage; False where it could not end."""
        from localrag.errors import LocalragError
        from localrag.messages import spoken

        stage = ProofStage(name)
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
        new = passed - self._passed
        outside = [connection for connection in new.elements() if not connection.local]
        theirs = self._from_children(set(blocked))
        for attempt in (*blocked[self._blocked :], *outside, *theirs):
            host = attempt.address if attempt.local else attempt.host
            self.proof.attempts.append(
                Seen(stage, host, attempt.caller, attempt.event, attempt.origin)
            )
        self.proof.loopback += [
            Local(stage, connection.address, connection.caller, count, connection.own)
            for connection, count in new.items()
            if connection.local
        ]
        packets = self._lost_packets()
        # What Python let through has come to the kernel as well.
        if packets - self._packets > len(outside):
            self.proof.attempts.append(
                Seen(stage, "", "", "kernel", ", ".join(self.proof.processes))
            )
        self._blocked, self._passed, self._packets = len(blocked), passed, packets

    def _from_children(self, known: set[network.Attempt]) -> list[network.Attempt]:
        """What processes that were started have tried, and which of them nobody watched.

        In a network of its own the kernel watches them all.
        """
        import psutil

        answered: list[list[str]] = []
        pids: set[int] = set()
        tried: list[network.Attempt] = []
        for file in self._folder.glob("*.jsonl"):
            pids.add(int(file.stem))
            for line in file.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if "command" in entry:
                    answered.append(entry["command"])
                else:
                    tried.append(network.Attempt(**entry))
        new = [connection for connection in tried if connection not in known | self._reported]
        self._reported.update(new)
        with suppress(psutil.Error):
            for child in psutil.Process().children(recursive=True):
                # A virtual environment's python.exe on Windows only starts another one.
                below = child.children(recursive=True) if sys.platform == "win32" else []
                same = self._children.setdefault(child.pid, (child.name(), {child.pid}))[1]
                same.update(process.pid for process in below)
        if self.proof.isolation:
            unmatched = Counter(map(_key, answered))
            names = []
            for key, name in self._started:
                if unmatched[key] > 0:
                    unmatched[key] -= 1
                else:
                    names.append(name)
            names += [name for name, same in self._children.values() if not same & pids]
            self.proof.unseen = names
        return new

    def _lost_packets(self) -> int:
        return 0 if self.proof.isolation else namespace.lost_packets()

    def _note_process(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _STARTS:
            return
        self.proof.processes.append(str(args[0]) if args else event)
        name = " ".join([event, *map(str, args[:2])])
        self._started.append((_key(args[1]) if event == "subprocess.Popen" else event, name))


_STARTS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"}
    | {"os.forkpty", "os.startfile", "pty.spawn", "_winapi.CreateProcess"}
)


def _key(command: Any) -> str:
    """A command as it can be compared with `sys.orig_argv` of the process that it started.

    Windows knows it as one text with quotes, so these and all spaces are left out.
    """
    text = command if isinstance(command, str) else "".join(map(os.fsdecode, command))
    return re.sub(r'[\s"\\]', "", text) if sys.platform == "win32" else text


def prove(watch: AttemptCounter) -> None:
    """Every stage, in order; those that need what an earlier one could not make are left out."""
    import msgspec

    from localrag.config.settings import load_settings

    settings: Settings | None = None

    def start() -> None:
        nonlocal settings
        loaded = load_settings()
        short = msgspec.structs.replace(loaded.answer, max_tokens=MAX_TOKENS)
        settings = msgspec.structs.replace(loaded, answer=short)

    watch.run("guard", watch.guard)
    if not watch.run("settings", start) or settings is None:
        return
    with ExitStack() as stack:
        folder = stack.enter_context(files.scratch_folder())
        for name, action in _stages(settings, folder, stack):
            if not watch.run(name, action) and name == "add":
                break
    watch.run("afterwards", lambda: time.sleep(LINGER))


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
        for failure in report.failed:
            raise failure.error
        # A proof without recognition in it would say nothing of it.
        for scan in samples.glob("scan.*"):
            text = rag.show(scan).document.text
            if "Tuesdays" not in text:
                raise RuntimeError(f"{scan.name} was read as {text!r}")

    yield "add", add
    yield "search", lambda: [rag.search(question) for question in QUESTIONS]
    yield "ask", lambda: [rag.ask(question) for question in QUESTIONS]

    def self_rag() -> None:
        for question in QUESTIONS:
            rag.ask(question, mode="self-rag")

    yield "self-rag", self_rag
    yield "eval", lambda: _evaluate(rag, folder / "evaluation")
    yield "check", lambda: _check(folder / "library", settings)
    yield "doctor", lambda: _doctor(folder / "library")
    yield "database", _database
    yield "remove", lambda: rag.remove([folder / "samples"])

    def server() -> None:
        from localrag.cli.proving_server import serve_and_ask

        file = folder / "samples" / "lighthouse.pdf"
        serve_and_ask(rag.engine, folder / "library", file, QUESTIONS[0])

    yield "server", server


def _evaluate(rag: LocalRAG, folder: Path) -> None:
    """Answers, a judge's verdicts on them, and the report."""
    from localrag.evaluation.dataset import Sample
    from localrag.presentation.reports import render_page, report_json

    samples = [Sample(str(number), question) for number, question in enumerate(QUESTIONS, 1)]
    report = rag.evaluate(samples, metrics=["faithfulness"], reasons=False, cache=folder)
    report_json(report)
    render_page(report)


def _check(library: Path, settings: Settings) -> None:
    from localrag import factory
    from localrag.library.check import check_library
    from localrag.presentation.check import finding_text

    inspection = check_library(library, factory.make_indexes(settings))
    if not inspection.ok:
        raise RuntimeError("; ".join(map(finding_text, inspection.findings)))


def _database() -> None:
    """A database elsewhere stays closed: to PostgreSQL's client, too, which is C code."""
    from importlib.util import find_spec

    from localrag.egress.databases import door, read_url
    from localrag.library.backends.opening import open_backend

    elsewhere = read_url("postgresql://192.0.2.1/documents#library")
    try:
        if find_spec("psycopg") is None:
            with door(elsewhere):
                pass
        else:
            open_backend(elsewhere)
    except NetworkBlockedError:
        return
    raise RuntimeError("a database elsewhere could be reached")


def _doctor(library: Path) -> None:
    """All that `localrag doctor` looks at; what it finds fault with is not this proof's affair."""
    from localrag.cli.doctor import examine

    for _ in examine(library, quick=True):
        continue


def _samples(folder: Path) -> Path:
    """Documents of each kind that can be read, in both languages."""
    import pymupdf

    mupdf: Any = pymupdf  # its functions carry no types
    files.make_folder(folder)
    for file in sorted((Path(__file__).parent / "samples").iterdir()):
        files.copy_file(file, folder / file.name)
    text = (folder / "lighthouse.en.md").read_text(encoding="utf-8")
    files.write_output(folder / "lighthouse.txt", "A note.\n" + text)
    files.write_output(folder / "lighthouse.docx", _docx(text))
    pdf, picture, scan = (mupdf.open() for _ in range(3))
    pdf.new_page().insert_text((72, 72), text, fontsize=9)
    files.write_output(folder / "lighthouse.pdf", pdf.tobytes())
    page = picture.new_page(width=400, height=150)
    page.insert_text((40, 60), SCANNED, fontsize=18)
    pixels = page.get_pixmap(dpi=150).tobytes("png")
    files.write_output(folder / "scan.png", pixels)
    scan.new_page(width=400, height=150).insert_image((0, 0, 400, 150), stream=pixels)
    files.write_output(folder / "scan.pdf", scan.tobytes(deflate=True))
    return folder


def _docx(text: str) -> bytes:
    """A document of Word, with a template and a picture that lie on servers."""
    office = "http://schemas.openxmlformats.org/officeDocument/2006"
    package = "http://schemas.openxmlformats.org/package/2006"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    lines = "".join(f"<w:p><w:r><w:t>{line}</w:t></w:r></w:p>" for line in text.splitlines())
    picture = f'<w:p><w:r><w:drawing><a:blip xmlns:a="{drawing}" r:link="rId1"/></w:drawing></w:r>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Override PartName="/word/document.xml" ContentType="{kind}"/>'
        '<Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/></Types>',
        "_rels/.rels": _links(
            package, f'Type="{office}/relationships/officeDocument" Target="word/document.xml"'
        ),
        "word/document.xml": f'<w:document xmlns:w="{word}" xmlns:r="{office}/relationships">'
        f"<w:body>{lines}{picture}</w:p></w:body></w:document>",
        "word/_rels/document.xml.rels": _links(
            package,
            f'Type="{office}/relationships/image" TargetMode="External" '
            'Target="https://picture.invalid/chart.png"',
        ),
        "word/settings.xml": f'<w:settings xmlns:w="{word}" xmlns:r="{office}/relationships">'
        '<w:attachedTemplate r:id="rId1"/></w:settings>',
        "word/_rels/settings.xml.rels": _links(
            package,
            f'Type="{office}/relationships/attachedTemplate" TargetMode="External" '
            'Target="https://template.invalid/letter.dotm"',
        ),
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return stream.getvalue()


def _links(package: str, link: str) -> str:
    return (
        f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="rId1" {link}/></Relationships>'
    )


def main() -> None:
    """Write the report, whatever happens."""
    report, nonce, folder, *server = sys.argv[1:]
    watch = AttemptCounter(nonce, Path(report).parent, *server)
    processes.end_with_parent()
    os.chdir(folder)  # relative paths in the settings mean what they mean to the user
    try:
        prove(watch)
    finally:
        files.write_output(Path(report), json.dumps(asdict(watch.proof)))
