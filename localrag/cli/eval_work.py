"""What the `eval` commands share: the judge, the pipelines under test, and progress."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path, PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Self

from localrag.cli.output import note, note_rebuilding, say, start, stderr_console
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.config.settings import Settings
    from localrag.evaluation.dataset import Context, Sample
    from localrag.evaluation.judging.drafting import Passage
    from localrag.evaluation.remembered import CallStore, RememberedModel
    from localrag.evaluation.scoring import Response
    from localrag.factory import Model
    from localrag.types import ScoredChunk

CALLS_FILE = "calls.sqlite"
PLAIN_EVERY = 10.0
"""Seconds between two progress lines where the output is not a terminal."""

_SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OpenJudge:
    """A judging model at work; `workers` calls may be under way at once."""

    model: RememberedModel
    fingerprint: str
    workers: int


def cache_folder() -> Path:
    """Where verdicts and calibrations are kept; it can be deleted, and is paid for again."""
    from localrag import factory

    return factory.cache_folder() / "evaluation"


def settings_of(file: Path | None) -> Settings:
    """The settings of a file, or those that localrag would use now.

    What those keep private or redact holds for the file's too.
    """
    import os

    import msgspec

    from localrag.config.settings import load_settings
    from localrag.errors import UsageError

    own = load_settings()
    if file is None:
        return own
    if not file.is_file():
        raise UsageError(
            "There is no settings file {path}.",
            hint="`localrag config path` says where yours is: copy it and change the copy.",
            path=file,
        )
    chosen = load_settings(environment={**os.environ, "LOCALRAG_CONFIG": str(file)})
    hosted = msgspec.structs.replace(
        chosen.hosted,
        private=tuple(dict.fromkeys([*own.hosted.private, *chosen.hosted.private])),
        redact=tuple(dict.fromkeys([*own.hosted.redact, *chosen.hosted.redact])),
    )
    return msgspec.structs.replace(chosen, hosted=hosted)


def named_settings(files: Sequence[Path]) -> list[tuple[str, Settings]]:
    """Each configuration with its name: the file's, or its path where two have the same."""
    if not files:
        return [("default", settings_of(None))]
    stems = [file.stem for file in files]
    names = [
        stem if stems.count(stem) == 1 else str(file)
        for stem, file in zip(stems, files, strict=True)
    ]
    return [(name, settings_of(file)) for name, file in zip(names, files, strict=True)]


@contextmanager
def open_judge(settings: Settings, store: CallStore) -> Iterator[OpenJudge]:
    """The settings' language model as judge, its outcomes kept in `store`."""
    from localrag import factory
    from localrag.evaluation.remembered import RememberedModel

    fingerprint = model_fingerprint(settings)
    model = factory.make_model(settings, factory.make_models())
    try:
        remembered = RememberedModel(model.llm, model.scorer, fingerprint, store)
        yield OpenJudge(remembered, fingerprint, _workers(settings))
    finally:
        model.close()


def _workers(settings: Settings) -> int:
    """Calls at once: one for a model in this process, which has one lock."""
    from localrag.config.settings import OpenAISettings
    from localrag.models.llms.openai.served import calls_at_once

    llm = settings.llm
    return calls_at_once(llm.base_url) if isinstance(llm, OpenAISettings) else 1


def withheld_from(judging: Settings, directory: Path) -> Callable[[Sample, Response], bool]:
    """Whether an answer may not be shown to the judge: of a private document, or unknown origin.

    The library in `directory`, where there is one, knows where its documents lay. Without private
    documents, and for a judge on this machine, every answer may.
    """
    from localrag.api import LocalRAG
    from localrag.errors import LibraryNotFoundError
    from localrag.hosted import private_sources

    private, names = private_sources(judging), frozenset[str]()
    if private:
        with (
            suppress(LibraryNotFoundError),
            LocalRAG.open(directory, settings=judging, create=False) as rag,
        ):
            names = private.names(rag.library)

    def withheld(sample: Sample, response: Response) -> bool:
        sources = [context.source for context in response.contexts or ()]
        unknown = not all(sources)
        sources.append(sample.source)
        return unknown or not names.isdisjoint(sources) or any(map(private.holds, sources))

    return withheld if private else lambda *_: False


def model_fingerprint(settings: Settings) -> str:
    """Identifies the language model: the published hash, or size and both ends of the file.

    With the way its state is stored, where that changes outcomes. Of a server: its address, the
    model's name, and what a local one tells of its weights.
    """
    from localrag import factory
    from localrag.config.settings import OpenAISettings
    from localrag.models.llms.openai.served import served

    llm = settings.llm
    if isinstance(llm, OpenAISettings):
        return f"{llm.base_url} {llm.model} {served(llm.base_url, llm.model)}".rstrip()
    stored = "" if llm.kv_type == "f16" else f" {llm.kv_type}"
    models = factory.make_models()
    spec = models.catalogue.find(llm.model)
    known = max(spec.files, key=lambda file: file.size or 0).sha256 if spec else None
    if known:
        return known + stored
    path = models.path(llm.model)
    digest = hashlib.sha256(str(path.stat().st_size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_SAMPLE_BYTES))
        file.seek(max(0, path.stat().st_size - _SAMPLE_BYTES))
        digest.update(file.read())
    return digest.hexdigest() + stored


class LibraryPipeline:
    """A library and its settings as the pipeline under test.

    `passages` and `find` leave out what the settings' language model may not read. `model` is
    what remembers the language model's outcomes.
    """

    def __init__(self, rag: LocalRAG, model: PipelineModel) -> None:
        self._rag = rag
        self._model = model

    def passages(self) -> list[Passage]:
        """All passages of the library, document by document, with file name and page."""
        from localrag.evaluation.judging.drafting import Passage
        from localrag.hosted import private_sources

        library = self._rag.library
        private = private_sources(self._rag.settings).documents(library)
        return [
            Passage(chunk.text, PurePath(record.sources[0]).name, chunk.first_page)
            for record in library.documents()
            if record.id not in private
            for chunk in library.document_chunks(record.id)
        ]

    def ask(self, question: str) -> Response:
        """The answer, the contexts that it was written from, and the seconds it took.

        What an earlier answer has asked the model word for word counts as long as it took then.
        """
        from localrag.evaluation.scoring import Response

        before = self._model.saved
        answer = self._rag.ask(question)
        contexts = tuple(_context(context) for context in answer.contexts)
        return Response(answer.text, contexts, answer.seconds + self._model.saved - before)

    def find(self, question: str) -> list[Context]:
        """The contexts that an answer would be written from."""
        from localrag.hosted import sendable

        allowed = sendable(self._rag.settings, self._rag.library)
        found = self._rag.search(question, k=self._rag.settings.answer.k, filter=allowed)
        return [_context(context) for context in found]

    def identity(self) -> str:
        """Stands for settings, prompts, weights and documents.

        The weights of a reranker in a folder of one's own are known by its path alone.
        """
        from localrag import __version__, factory
        from localrag.config.settings import settings_table
        from localrag.evaluation.remembered import key_of
        from localrag.prompts import all_prompts

        library = self._rag.library
        wording = factory.make_wording(self._rag.settings)
        dictionary = self._rag.settings.keywords.user_dictionary
        words = Path(dictionary).expanduser().read_bytes() if dictionary else b""
        documents = sorted(
            (record.id, record.chunking, list(record.sources)) for record in library.documents()
        )
        return key_of(
            __version__,
            settings_table(self._rag.settings),
            sorted([*key, text] for key, text in wording.own.items()),
            all_prompts(),
            hashlib.sha256(words).hexdigest(),
            model_fingerprint(self._rag.settings),
            library.embedding.fingerprint,
            documents,
        )


def check_library(
    library: Path, documents: Sequence[Path], named: Sequence[tuple[str, Settings]]
) -> None:
    """Raises `UsageError` where the library cannot be what the configurations ask for.

    Before anything is computed: that there is one, and that they differ in nothing that it was
    built with.
    """
    from localrag import factory
    from localrag.api import LocalRAG
    from localrag.errors import UsageError

    if documents:
        return
    built = {(s.embedding.model, factory.chunking_fingerprint(s)) for _, s in named}
    if len(built) > 1:
        raise UsageError(
            "The configurations differ in chunking or embedding model, and a library has one "
            "of each.",
            hint="Name the documents with --documents: each configuration gets a library of its "
            "own.",
        )
    settings = named[0][1]
    with LocalRAG.open(
        library, settings=settings, create=False, on_note=note, on_damage=note_rebuilding
    ) as rag:
        wanted = factory.chunking_fingerprint(settings)
        if any(record.chunking != wanted for record in rag.library.documents()):
            note(
                tr(
                    "The library was cut with other settings of [chunking]: it is evaluated as it "
                    "is. `localrag rebuild` cuts it anew."
                )
            )


class PipelineModel:
    """The language model of a pipeline, its outcomes kept in `store`.

    Configurations that ask it the same, such as one passage graded for relevance by a reranker
    and by Self-RAG, pay for that once, and so does a run that was killed amid an answer.
    """

    def __init__(self, settings: Settings, store: CallStore) -> None:
        self._settings = settings
        self._store = store
        self._remembered: RememberedModel | None = None

    def wrap(self, model: Model) -> Model:
        """The model with its memory around it."""
        from dataclasses import replace

        from localrag.evaluation.remembered import RememberedModel

        if self._settings.answer.mode == "self-rag" and self._settings.self_rag.budget_seconds:
            return model  # what fits into a budget would be more, were some of it remembered
        fingerprint = model_fingerprint(self._settings)
        remembered = RememberedModel(model.llm, model.scorer, fingerprint, self._store)
        self._remembered = remembered
        return replace(model, llm=remembered, scorer=remembered if model.scorer else None)

    @property
    def saved(self) -> float:
        """Seconds that the outcomes taken from the store once cost."""
        return self._remembered.saved if self._remembered else 0.0


@contextmanager
def open_pipeline(
    settings: Settings, library: Path, documents: Sequence[Path], cache: Path, store: CallStore
) -> Iterator[LibraryPipeline]:
    """The library under these settings, or one of its own for `documents`, built where needed.

    With documents, configurations that cut or embed them differently can be compared.
    """
    from localrag.api import LocalRAG
    from localrag.engine import open_engine

    model = PipelineModel(settings, store)

    def opened(folder: Path, *, create: bool) -> LocalRAG:
        return LocalRAG(open_engine(folder, settings, create=create, wrap_model=model.wrap), note)

    if not documents:
        with opened(library, create=False) as rag:
            yield LibraryPipeline(rag, model)
        return
    from localrag import factory
    from localrag.evaluation.remembered import key_of

    wanted = sorted(str(path.expanduser().resolve()) for path in documents)
    cut = factory.chunking_fingerprint(settings)
    key = key_of(wanted, settings.embedding.model, cut, settings.parsing.hidden_text)
    with opened(cache / "libraries" / key[:16], create=True) as rag:
        report = rag.add(documents, prune=True)
        for failed in report.failed:
            note(tr("Not read: {path}", path=failed.source))
        yield LibraryPipeline(rag, model)


@contextmanager
def writing(path: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes one line to the file, or to standard output without one."""
    from localrag.errors import UsageError
    from localrag.system.files import create_file

    if path is None:
        yield say
        return
    try:
        created = create_file(path)
    except OSError as error:
        raise UsageError(
            "The questions cannot be written to {path}: {reason}.",
            hint="Give the path of a new file in a folder that exists.",
            path=path,
            reason=error.strerror,
        ) from error
    with TextIOWrapper(created, encoding="utf-8", newline="\n") as file:

        def write(line: str) -> None:
            file.write(line + "\n")
            file.flush()

        yield write


def _context(found: ScoredChunk) -> Context:
    from localrag.documents.chunking import passage_text
    from localrag.evaluation.dataset import Context

    chunk = found.chunk
    return Context(passage_text(chunk), found.source, chunk.first_page, chunk.last_page)


def duration(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 90:
        return tr("{count} s", count=round(seconds))
    if seconds < 5400:
        return tr("{count} min", count=round(seconds / 60))
    return tr("{count:.1f} h", count=seconds / 3600)


class Progress:
    """One bar in a terminal, a line now and then elsewhere; both with the time left."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._terminal = sys.stderr.isatty()
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal:
            from rich import progress

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[left]}", markup=False),
                console=stderr_console(),
                transient=True,
            )
            start(self._bar)
            self._task = self._bar.add_task(self._title, total=None, left="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._terminal:
            self._bar.stop()

    def steady(self, done: int, total: int) -> None:
        """Show where it stands, with the time left if the rest goes as fast as so far."""
        elapsed = time.monotonic() - self._began
        self(done, total, elapsed / done * (total - done) if done else None)

    def __call__(self, done: int, total: int, left: float | None) -> None:
        """Show where it stands."""
        remaining = "" if left is None else tr("{time} left", time=duration(left))
        if self._terminal:
            self._bar.update(self._task, completed=done, total=total, left=remaining)
        elif time.monotonic() - self._said > PLAIN_EVERY:
            self._said = time.monotonic()
            note(f"{self._title}: {done}/{total}" + (f", {remaining}" if remaining else ""))
