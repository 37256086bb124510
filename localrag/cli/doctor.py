"""`localrag doctor`: what is installed, what is missing, how fast this machine is."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from localrag import __version__
from localrag.cli.output import common_options, emit_json, note_tr, rebuilding, say
from localrag.errors import LibraryError, LibraryNotFoundError, LocalragError, UsageError
from localrag.messages import spoken, tr
from localrag.system import processes

if TYPE_CHECKING:
    from localrag.config.settings import Settings
    from localrag.library.location import Location
    from localrag.models.registry.store import ModelStore

PACKAGES = (
    "llama-cpp-python",
    "sentence-transformers",
    "torch",
    "faiss-cpu",
    "onnxruntime",
    "onnxruntime-extensions",
    "pymupdf",
    "rank-bm25",
    "rapidocr",
    "jieba",
    "rjieba",
    "numpy",
)

OPTIONAL = ("rapidocr", "sentence-transformers", "torch")
"""Packages that an installation may leave out."""

State = Literal["ok", "warning", "problem"]
SIGNS: dict[State, str] = {"ok": "✓", "warning": "!", "problem": "✗"}

ROOM = 1.3
"""Memory that a model takes, as a multiple of its file: weights, KV cache and buffers."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the report."""

    part: str
    state: State
    text: str


@click.command(help=tr("Check this machine, the models and the library, and measure speed."))
@click.option("--quick", is_flag=True, help=tr("Do not load the language model to measure it."))
@click.option(
    "--gpu",
    is_flag=True,
    help=tr("Time the processor against the graphics chip, and keep what is faster."),
)
@common_options
def doctor(quick: bool, gpu: bool, library: Location, as_json: bool) -> None:
    """Print every finding; exit code 1 if something is a problem."""
    if quick and gpu:
        raise UsageError("--gpu measures the language model, and --quick forbids it.")
    findings: list[Diagnosis] = []
    for finding in examine(library, quick=quick, gpu=gpu):
        findings.append(finding)
        if not as_json:
            line = tr("{part}: {text}", part=finding.part, text=finding.text)
            say(f"{SIGNS[finding.state]} {line}")
    problems = sum(finding.state == "problem" for finding in findings)
    if as_json:
        emit_json(
            {
                "ok": not problems,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    elif problems:
        note_tr(
            "{count} problem; above it says what to do."
            if problems == 1
            else "{count} problems; each says above what to do.",
            count=problems,
        )
    if problems:
        raise click.exceptions.Exit(1)


def examine(library: Location, *, quick: bool, gpu: bool = False) -> Iterator[Diagnosis]:
    """Every finding, as soon as it stands; `quick` does not load the language model.

    `gpu` times it on the graphics chip too, and changes `llm.gpu_layers` to what is faster.
    """
    from localrag.config.settings import load_settings, settings_path
    from localrag.documents.formats.table import suffixes
    from localrag.factory import make_models

    settings = load_settings()
    versions = f"{__version__}, Python {platform.python_version()} ({sys.executable})"
    yield Diagnosis("localrag", "ok", versions)
    yield _packages()
    yield _machine()
    yield Diagnosis(tr("settings"), "ok", str(settings_path()))
    network = tr("closed")
    if settings.allow_network:
        network = tr("open for the hosted model")
        if hosts := settings.database.hosts:
            network = tr(
                "open for the hosted model and databases on {hosts}", hosts=", ".join(hosts)
            )
    yield Diagnosis(tr("network"), "warning" if settings.allow_network else "ok", network)
    yield Diagnosis(tr("formats"), "ok", " ".join(suffixes()))
    yield _reading()
    yield from _or_problem(tr("text recognition"), lambda: _recognition(settings))
    models = make_models()
    yield _disk(models.folder)
    yield _encryption(library)
    yield from _database(library, settings)
    yield from _or_problem(tr("embedding"), lambda: _embedding(library, settings, models))
    yield from _or_problem(tr("library"), lambda: _library(library, settings))
    yield from _or_problem(
        tr("language model"), lambda: _language_model(settings, models, quick, gpu)
    )
    yield from _or_problem(tr("hosted model"), lambda: _hosted(settings, library))


def _or_problem(part: str, examine: Callable[[], Iterator[Diagnosis]]) -> Iterator[Diagnosis]:
    """What a part says of itself, or its error as a problem: one fault must not hide the rest."""
    try:
        yield from examine()
    except LocalragError as error:
        yield Diagnosis(part, "problem", spoken(error))


def _packages() -> Diagnosis:
    installed, missing = [], []
    for name in PACKAGES:
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if needed := [name for name in missing if name not in OPTIONAL]:
        text = tr("missing: {names}; install localrag again.", names=", ".join(needed))
        return Diagnosis(tr("packages"), "problem", text)
    if missing:
        text = tr("left out: {names}. To add them: pip install {names}", names=" ".join(missing))
        if missing != ["rapidocr"]:  # text recognition has a line of its own
            text += tr(" Until then, models must be in ONNX.")
        return Diagnosis(tr("packages"), "warning", text)
    return Diagnosis(tr("packages"), "ok", ", ".join(installed))


def _machine() -> Diagnosis:
    import psutil

    memory = psutil.virtual_memory()
    text = tr(
        "{system}, {physical} cores ({logical} threads), {free:.1f} of {total:.1f} GB memory free",
        system=f"{platform.system()} {platform.machine()}{_processor()}",
        physical=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        logical=psutil.cpu_count() or 1,
        free=memory.available / 1e9,
        total=memory.total / 1e9,
    )
    return Diagnosis(tr("machine"), "ok", text)


def _processor() -> str:
    """The processor's own name in parentheses, or "" where no file says it.

    `platform.processor` would start a program.
    """
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8", "replace").splitlines() if cpuinfo.is_file() else []
    name = next((line.partition(":")[2] for line in lines if line.startswith("model name")), "")
    return f" ({name.strip()})" if name.strip() else ""


def _reading() -> Diagnosis:
    """Whether the process that reads documents can do no more than that."""
    from localrag.system import confinement

    restrictions = confinement.in_force()
    state: State = "warning" if sys.platform == "linux" else "ok"
    if restrictions == {"files", "system calls"}:
        text, state = (
            tr("documents are read without network access and without access to other files"),
            "ok",
        )
    elif sys.platform != "linux":
        text = tr(
            "documents are read with all of your own permissions: only Linux can restrict them"
        )
    elif "files" in restrictions:
        text = tr(
            "documents are read without access to other files, but system calls are not restricted"
        )
    elif restrictions:
        text = tr(
            "documents are read without network access, but with access to your files: the "
            "kernel has no Landlock (5.13 or newer), or it is disabled"
        )
    else:
        text = tr(
            "documents are read with all of your own permissions: the kernel has neither "
            "Landlock nor seccomp, or they are disabled"
        )
    return Diagnosis(tr("reading"), state, text)


def _recognition(settings: Settings) -> Iterator[Diagnosis]:
    """Whether scans are read, and the model for it is the one that was tried."""
    from localrag.documents import ocr, recognition

    if not recognition.is_installed():
        text = tr("not installed: scans and pictures are not read")
        yield Diagnosis(tr("text recognition"), "warning", text)
        return
    if not settings.parsing.ocr:
        text = tr("switched off: scans and pictures are not read")
        yield Diagnosis(tr("text recognition"), "warning", text)
        return
    size = sum(path.stat().st_size for path in ocr.weights()) / 1e6
    text = tr("{model}, {size:.0f} MB, unchanged (SHA-256)", model=ocr.MODEL, size=size)
    yield Diagnosis(tr("text recognition"), "ok", text)


def _disk(folder: Path) -> Diagnosis:
    import shutil

    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free / 1e9
    text = tr("{free:.1f} GB free at {folder}", free=free, folder=folder)
    return Diagnosis(tr("disk"), "ok" if free > 2 else "warning", text)


def _encryption(library: Location) -> Diagnosis:
    import psutil

    from localrag.library.folder.vaults import is_vault

    part = tr("encryption at rest")
    if not (isinstance(library, Path) and is_vault(library)):
        text = tr(
            "localrag does not encrypt this library: keep it on an encrypted disk, or make it a "
            "vault (`localrag vault create`)"
        )
        return Diagnosis(part, "ok", text)
    if psutil.swap_memory().total:
        text = tr(
            "the library is a vault; this computer has swap, which may hold texts of an opened "
            "vault unless it is encrypted or turned off"
        )
        return Diagnosis(part, "warning", text)
    return Diagnosis(part, "ok", tr("the library is a vault"))


def _database(library: Location, settings: Settings) -> Iterator[Diagnosis]:
    """Where the library is, if it is in a database, and whether that may be reached."""
    from localrag.egress.addresses import normalise

    if isinstance(library, Path):
        return
    state: State = "ok"
    if library.is_local:
        text = tr("{host}: on this machine", host=library.host)
    elif settings.allow_network and normalise(library.host) in map(
        normalise, settings.database.hosts
    ):
        text = tr("{host}: another machine, over TLS, its certificate checked", host=library.host)
        state = "warning"
    else:
        text = tr("{host}: another machine, closed (see database.hosts)", host=library.host)
        state = "problem"
    yield Diagnosis(tr("database"), state, text)


def _embedding(directory: Location, settings: Settings, models: ModelStore) -> Iterator[Diagnosis]:
    import time

    from localrag.api import LocalRAG
    from localrag.factory import as_built, for_new_library, make_embedder

    with (
        suppress(LibraryError),  # said of the library
        LocalRAG.open(directory, settings=settings, create=False) as rag,
    ):
        settings = as_built(settings, rag.library)
    settings = for_new_library(settings, models)
    started = time.perf_counter()
    embedder = make_embedder(settings, models)
    embedder.embed_queries(["warm"])
    opened = time.perf_counter() - started
    passages = [_SAMPLE] * 32
    started = time.perf_counter()
    embedder.embed_documents(passages)
    rate = len(passages) / (time.perf_counter() - started)
    text = tr(
        "{model}: {dimension}-d, ready in {seconds:.2f} s, {rate:.0f} passages a second",
        model=settings.embedding.name,
        dimension=embedder.dimension,
        seconds=opened,
        rate=rate,
    )
    yield Diagnosis(tr("embedding"), "ok", text)


def _library(directory: Location, settings: Settings) -> Iterator[Diagnosis]:
    from localrag.api import LocalRAG
    from localrag.library.folder.filesystem import without_modes
    from localrag.presentation.advice import advice_text
    from localrag.presentation.check import paragraph
    from localrag.types import Finding

    damaged: list[Path] = []
    try:
        with LocalRAG.open(
            directory, settings=settings, create=False, on_damage=damaged.append
        ) as rag:
            status, advice = rag.status(), rag.embedding_advice()
            if status.counts.chunks:
                rag.search(_SAMPLE, k=1)
    except LibraryNotFoundError:
        text = tr("none yet at {folder}; `localrag add PATH` creates one", folder=str(directory))
        yield Diagnosis(tr("library"), "ok", text)
        return
    text = tr(
        "{folder}: {documents} documents, {chunks} passages, built with {model}",
        folder=str(directory),
        documents=status.counts.documents,
        chunks=status.counts.chunks,
        model=status.embedding.name,
    )
    yield Diagnosis(tr("library"), "ok", text)
    if advice is not None:
        state: State = "warning" if advice.kind == "unserved" else "ok"
        yield Diagnosis(tr("library"), state, advice_text(advice))
    for path in damaged:
        yield Diagnosis(tr("library"), "warning", rebuilding(path))
    if isinstance(directory, Path) and (kind := without_modes(directory)):
        text = paragraph(Finding("files", "no-modes", {"kind": kind}))
        yield Diagnosis(tr("library"), "warning", text)


def _language_model(
    settings: Settings, models: ModelStore, quick: bool, gpu: bool = False
) -> Iterator[Diagnosis]:
    from localrag.config.settings import OpenAISettings
    from localrag.factory import model_file, server_faults

    part = tr("language model")
    if isinstance(settings.llm, OpenAISettings):
        addresses = ", ".join(settings.llm.base_urls)
        text = tr("{model} at {address}", model=settings.llm.model, address=addresses)
        yield Diagnosis(part, "ok", text)
        if not quick:
            yield from _servers(part, server_faults(settings.llm, settings))
        if gpu:
            text = tr("--gpu times a model of this machine; the settings name a server.")
            yield Diagnosis(tr("GPU"), "warning", text)
        return

    path = model_file(settings.llm.model, models)
    yield _memory(part, path)
    yield _grades(settings, models)
    if quick:
        return
    note_tr("Measuring the language model …")
    from localrag.cli.gpu import compare, measure

    if gpu:
        for well, text in compare(settings.llm, models):
            yield Diagnosis(tr("GPU"), "ok" if well else "warning", text)
        yield _llama_build()
        return
    trial = measure(settings.llm, models)
    offload = trial.offload
    text = tr(
        "reads {prefill:.0f} and writes {decode:.0f} tokens a second: an answer from a new set of "
        "passages takes about {seconds:.0f} s",
        prefill=trial.prefill,
        decode=trial.decode,
        seconds=trial.seconds,
    )
    yield Diagnosis(part, "ok", text)
    yield _llama_build()
    if offload.gpu_build:
        text = tr(
            "{offloaded} of {layers} layers on the GPU",
            offloaded=offload.layers_offloaded,
            layers=offload.layers,
        )
        yield Diagnosis(tr("GPU"), "ok" if offload.layers_offloaded else "warning", text)
    elif processes.find("nvidia-smi") is not None:
        text = tr(
            "there is an NVIDIA GPU, but llama.cpp was built without CUDA: 0 of {layers} layers on "
            'it. Build it anew: CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall '
            "--no-deps --no-cache-dir llama-cpp-python",
            layers=offload.layers,
        )
        yield Diagnosis(tr("GPU"), "warning", text)
    else:
        text = tr("none; all {layers} layers run on the processor", layers=offload.layers)
        yield Diagnosis(tr("GPU"), "ok", text)


def _llama_build() -> Diagnosis:
    """Which llama.cpp runs, and what of the processor it uses."""
    from localrag.models.llms.llama_cpp import native, prebuilt

    build = native.build()
    instructions = tr(", ").join(build.instructions) or "?"
    if build.package:
        text = tr(
            "version {version}, prebuilt ({package}); uses {instructions}",
            version=build.version,
            package=build.package,
            instructions=instructions,
        )
        if unused := prebuilt.unused_instructions():
            text += "\n" + tr(
                "This processor has {names} too: `LOCALRAG_COMPILE=1 python3 scripts/demo.py` in "
                "the checkout builds one that reads faster. It needs a C++ compiler and minutes to "
                "an hour. This one is removed first; `LOCALRAG_PREBUILT=1 python3 "
                "scripts/demo.py` brings it back. For a machine without a network: `localrag "
                "bundle create --compile`.",
                names=tr(", ").join(unused),
            )
    else:
        text = tr(
            "version {version}, of llama-cpp-python; uses {instructions}",
            version=build.version,
            instructions=instructions,
        )
    return Diagnosis("llama.cpp", "ok", text)


def _grades(settings: Settings, models: ModelStore) -> Diagnosis:
    """Whether it is known what the model's grades are worth."""
    from localrag.cli.calibration import grade_name
    from localrag.factory import find_calibration

    part = tr("grades")
    calibration = find_calibration(settings, models)
    if calibration is None:
        text = tr(
            "not calibrated: thresholds are the starter model's, and may mean something else for "
            "{model}. `localrag models calibrate` measures that.",
            model=settings.llm.model,
        )
        return Diagnosis(part, "warning", text)
    if not calibration.usable:
        text = tr(
            "{model} is not calibrated: its grades hardly tell passages that contain the answer "
            "from others.",
            model=settings.llm.model,
        )
        return Diagnosis(part, "warning", text)
    text = tr(
        "calibrated with {count} cases ({kinds})",
        count=sum(measurement.cases for measurement in calibration.measured),
        kinds=tr(", ").join(grade_name(kind) for kind in calibration.kinds),
    )
    return Diagnosis(part, "ok", text)


def _servers(part: str, faults: Mapping[str, LocalragError | None]) -> Iterator[Diagnosis]:
    """Which servers of the language model are there."""
    down: State = "warning" if None in faults.values() else "problem"
    for server, fault in faults.items():
        if fault is None:
            yield Diagnosis(part, "ok", tr("{server} is there", server=server))
        else:
            yield Diagnosis(part, down, spoken(fault))


def _hosted(settings: Settings, directory: Location) -> Iterator[Diagnosis]:
    """What goes to a model on another machine, and where that is logged; nothing for others."""
    from localrag.api import LocalRAG
    from localrag.hosted import audit_log, is_hosted, private_sources

    if not is_hosted(settings):
        return
    part = tr("hosted model")
    log = audit_log()
    log.check()
    yield Diagnosis(part, "ok", tr("each call is logged in {path}", path=log.path))
    private = private_sources(settings)
    count = unknown = 0
    if private:
        with (
            suppress(LibraryNotFoundError),
            LocalRAG.open(directory, settings=settings, create=False) as rag,
        ):
            count = len(private.documents(rag.library))
            unknown = private.unknown(rag.library)
    text = tr("{count} documents are private and never sent (hosted.private)", count=count)
    yield Diagnosis(part, "warning" if private and not count else "ok", text)
    if unknown:
        text = tr(
            "{count} documents of an older library count as private, because their files are gone "
            "and it is not known where they lay; add the files again, if you have them",
            count=unknown,
        )
        yield Diagnosis(part, "warning", text)


def _memory(part: str, path: Path) -> Diagnosis:
    import psutil

    size = path.stat().st_size
    needed, free = size * ROOM, psutil.virtual_memory().available
    text = tr(
        "{name}: {size:.1f} GB; with {free:.1f} GB of memory free, models up to about {most:.0f} "
        "GB run here",
        name=path.name,
        size=size / 1e9,
        free=free / 1e9,
        most=free / ROOM / 1e9,
    )
    return Diagnosis(part, "ok" if needed < free else "warning", text)


_SAMPLE = (
    "A library keeps the things that people have written down, so that others can find them "
    "again. 图书馆保存人们写下的东西，让后来的人能够找到它们。每一本书都有自己的位置。"
)
