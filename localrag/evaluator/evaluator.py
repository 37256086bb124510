"""Evaluating libraries and settings: answers, the judge's verdicts on them, and what they come to.

What a model was asked is kept in one file of a folder, so that a run that was stopped goes on
where it was and nothing is paid for twice. Knows nothing about how a report is shown.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from localrag import factory
from localrag.config.settings import LLMReranking, Settings, load_settings
from localrag.engine import Engine, open_engine
from localrag.errors import LibraryNotFoundError, UsageError
from localrag.evaluation import events
from localrag.evaluation.call_cache import CachedModel, CallCache, key_of
from localrag.evaluation.dataset import Sample
from localrag.evaluation.estimate import JudgeSpeed, estimate_seconds, measure_speed
from localrag.evaluation.judging import calibration
from localrag.evaluation.judging.drafting import Draft, draft
from localrag.evaluation.judging.gold_set import gold_items
from localrag.evaluation.judging.judge import Judge
from localrag.evaluation.metric import Response
from localrag.evaluation.results import EvaluatedRun, Report
from localrag.evaluation.runner import OnProgress, TimeLeft, given, produce_answers, score_answers
from localrag.evaluation.scoring import METRICS, Scorer
from localrag.evaluator.pipeline import EvaluatedEngine, model_fingerprint
from localrag.hosted import calls_at_once, private_sources
from localrag.library.computed import computed_file, computed_key, computed_with
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.models.embeddings.joined import general
from localrag.types import Note

if TYPE_CHECKING:
    from localrag.models.embeddings.base import Embedder

Configuration = tuple[str, Settings]
"""A name for the report, and what is evaluated."""

CALLS_FILE = "calls.sqlite"
"""In a folder that the caller names; what it holds is the caller's to delete."""
MODELS_FILE = "models.sqlite"
"""What needs no library, such as a model's verdicts on labelled examples."""


class Evaluator:
    """Evaluates over the library in a folder, or one that is open, whose models it then uses.

    With `documents` each configuration gets a library of its own, made of these files, so that
    those that cut or embed them differently can be compared. `cache` keeps what was computed,
    and its folder what else there is to keep; `tell` hears how the work goes on.
    """

    def __init__(
        self,
        library: Location | Engine,
        cache: CallCache,
        *,
        documents: Sequence[Path] = (),
        tell: events.Tell = events.unheard,
    ) -> None:
        self._library = library
        self._cache = cache
        self._documents = [path.expanduser() for path in documents]
        self._tell = tell

    def evaluate(
        self,
        name: str,
        samples: Sequence[Sample],
        configurations: Sequence[Configuration],
        judge: Settings | None,
        metrics: Sequence[str] = (),
        *,
        reasons: bool = True,
    ) -> Report:
        """Answer what the samples do not bring, then let one judge score it all.

        `judge` holds the judging model, which is loaded only where a metric needs it; without one
        such metrics are left out. With `reasons` it says why it found against a statement. No
        `metrics` means all. Raises `UsageError` for a metric that does not exist, where none is
        left, and for configurations that cannot share the library.
        """
        metric_names = chosen_metrics(metrics, judged=judge is not None)
        if not any("judge" in METRICS[metric].needs for metric in metric_names):
            judge = None
        complete = all(map(given, samples))
        if not complete:
            self._check_library(configurations)
        if (judge is not None or not complete) and self._tell is not events.unheard:
            self._estimate(samples, configurations, judge, metric_names, reasons)
        answered = [(setup, self._answers(samples, setup, its)) for setup, its in configurations]

        def scored(scorer: Scorer, workers: int = 1) -> tuple[EvaluatedRun, ...]:
            return tuple(
                score_answers(
                    setup,
                    samples,
                    responses,
                    scorer,
                    self._progress("scores", setup),
                    workers=workers,
                )
                for setup, responses in answered
            )

        if judge is None:
            return Report(name, "", None, scored(Scorer(None, None, metric_names)))
        embedder = self._embedder(judge)
        withheld = self._withheld_from(judge)
        count = sum(
            withheld(*pair)
            for _, responses in answered
            for pair in zip(samples, responses, strict=True)
        )
        if count:
            self._tell(Note("not judged", {"count": count}))
        written = any(sample.answer is None for sample in samples)
        with self.open_judge(judge) as model:
            key = calibration.trust_key(model.fingerprint, embedder.fingerprint)
            trust = calibration.load_trust(key, self._cache.folder)
            asking = Judge(model, model.chooser, reasons=reasons)
            return Report(
                dataset=name,
                judge=model.name,
                trust=trust,
                runs=scored(Scorer(asking, embedder, metric_names, withheld), calls_at_once(judge)),
                own_work=tuple(
                    setup
                    for setup, settings in configurations
                    if written and model_fingerprint(settings) == model.fingerprint
                ),
                judge_seconds=model.seconds,
            )

    def calibrate(self, judge: Settings) -> tuple[calibration.Trust, Path]:
        """Let the model of `judge` grade the labelled set; how far to trust it, and where kept."""
        embedder = self._embedder(judge)
        items = gold_items()
        with self.open_judge(judge) as model:
            trust = calibration.calibrate(
                model.name,
                calibration.trust_key(model.fingerprint, embedder.fingerprint),
                Judge(model, model.chooser, reasons=False),
                embedder,
                items,
                TimeLeft(len(items), self._progress("calibration")).done,
            )
        return trust, calibration.save_trust(trust, self._cache.folder)

    def draft(self, settings: Settings, *, answerable: int, unanswerable: int) -> Iterator[Draft]:
        """Questions about the documents, each as soon as it stands; see `judging.drafting`."""
        with self._pipeline(settings) as pipeline, self.open_judge(settings) as model:
            steps = TimeLeft(answerable + unanswerable, self._progress("drafts"))
            for sample in draft(
                pipeline.passages(),
                model,
                Judge(model, model.chooser, reasons=False),
                lambda question: [context.text for context in pipeline.contexts(question)],
                answerable=answerable,
                unanswerable=unanswerable,
            ):
                yield sample
                steps.done()

    @contextmanager
    def open_judge(self, settings: Settings) -> Iterator[CachedModel]:
        """The settings' language model as judge, its outcomes kept."""
        fingerprint = model_fingerprint(settings)
        with self._model(settings) as model:
            yield CachedModel(model.llm, model.scorer, fingerprint, self._cache)

    def _answers(self, samples: Sequence[Sample], name: str, settings: Settings) -> list[Response]:
        """One configuration's; one model is in memory at a time."""
        brought = [response for sample in samples if (response := given(sample))]
        if len(brought) == len(samples):
            return brought
        progress = self._progress("answers", name)
        with self._pipeline(settings) as pipeline:
            identity = pipeline.identity()
            return produce_answers(samples, pipeline.produce, self._cache, identity, progress)

    def _progress(self, work: events.Work, name: str = "") -> OnProgress:
        def tell(done: int, total: int, left: float | None) -> None:
            self._tell(events.Progressed(work, name, done, total, left))

        return tell

    def _estimate(
        self,
        samples: Sequence[Sample],
        configurations: Sequence[Configuration],
        judge: Settings | None,
        metrics: Sequence[str],
        reasons: bool,
    ) -> None:
        """Tell how long it will take, by the model's speed on this machine, measured once."""
        measured = judge or configurations[0][1]
        key = key_of("speed", model_fingerprint(measured))
        if (known := self._cache.get(key)) is None:
            with self._model(measured) as model:
                speed = measure_speed(model.llm)
            self._cache.put(key, [speed.reading, speed.writing], 0.0)
        else:
            speed = JudgeSpeed(*known[0])
        seconds = sum(
            estimate_seconds(
                samples,
                speed,
                passages=settings.answer.k,
                graded=graded_passages(settings),
                metrics=metrics,
                reasons=reasons,
            )
            for _, settings in configurations
        )
        self._tell(events.Estimated(len(samples), len(configurations), seconds))

    def _check_library(self, configurations: Sequence[Configuration]) -> None:
        """Raises `UsageError` where the library cannot be what the configurations ask for.

        Before anything is computed: that there is one, and that they differ in nothing that it
        was built with.
        """
        if self._documents:
            return
        differ = UsageError(
            "The configurations differ in chunking or embedding model, but a library has "
            "only one of each.",
            hint="Name the documents with --documents: each configuration gets a library of "
            "its own.",
        )
        fingerprint, *others = {
            factory.chunking_fingerprint(settings) for _, settings in configurations
        }
        if others:
            raise differ
        with self._engine(configurations[0][1]) as engine:
            library = engine.library
            if len({factory.as_built(s, library).embedding.name for _, s in configurations}) > 1:
                raise differ
            if any(record.chunking != fingerprint for record in library.documents()):
                self._tell(Note("cut otherwise"))

    def _withheld_from(self, judge: Settings) -> Callable[[Sample, Response], bool]:
        """Whether the judge may not see an answer: of a private document, or unknown origin.

        The library, where there is one, knows where its documents lay. Without private documents,
        and for a judge on this machine, every answer may.
        """
        private, names = private_sources(judge), frozenset[str]()
        if private:
            with suppress(LibraryNotFoundError), self._engine(judge) as engine:
                names = private.names(engine.library)

        def withheld(sample: Sample, response: Response) -> bool:
            sources = [context.source for context in response.contexts or ()]
            unknown = not all(sources)
            sources.append(sample.source)
            return unknown or not names.isdisjoint(sources) or any(map(private.holds, sources))

        return withheld if private else lambda *_: False

    def _open_own(self, settings: Settings) -> Engine | None:
        """The engine that was given, where it has these settings."""
        own = self._library
        return own if isinstance(own, Engine) and own.settings == settings else None

    @contextmanager
    def _engine(self, settings: Settings) -> Iterator[Engine]:
        """The library under these settings."""
        if own := self._open_own(settings):
            yield own
            return
        known = self._library
        folder = known.library.location if isinstance(known, Engine) else known
        with closing(self._open(folder, settings, create=False)) as engine:
            yield engine

    def _open(self, folder: Location, settings: Settings, *, create: bool) -> Engine:
        return open_engine(
            folder,
            settings,
            create=create,
            on_damage=lambda path: self._tell(Note("index damaged", {"name": path.name})),
        )

    @contextmanager
    def _pipeline(self, settings: Settings) -> Iterator[EvaluatedEngine]:
        """The library as the pipeline under test, or one of the documents, built where needed."""
        if not self._documents:
            with self._engine(settings) as engine:
                yield EvaluatedEngine(engine, self._cache, self._tell)
            return
        settings = factory.for_new_library(settings, factory.make_models())
        paths = sorted(str(path.resolve()) for path in self._documents)
        cut = factory.chunking_fingerprint(settings)
        key = key_of(
            paths, settings.embedding.name, cut, *msgspec.structs.astuple(settings.parsing)
        )
        folder = self._cache.folder / "libraries" / key[:16]
        with closing(self._open(folder, settings, create=True)) as engine:
            indexer = factory.make_indexer(settings, engine.library, engine.embedder)
            for failed in indexer.add(self._documents, prune=True).failed:
                self._tell(Note("not read", {"path": failed.source}))
            yield EvaluatedEngine(engine, self._cache, self._tell)

    @contextmanager
    def _model(self, settings: Settings) -> Iterator[factory.Model]:
        if own := self._open_own(settings):
            yield own.model
            return
        with closing(factory.make_model(settings, factory.make_models())) as model:
            yield model

    def _embedder(self, settings: Settings) -> Embedder:
        """What compares sentences, on the scale that verdicts of people are on."""
        if own := self._open_own(settings):
            return general(own.embedder)
        return general(factory.make_embedder(settings, factory.make_models()))


def chosen_metrics(names: Sequence[str], *, judged: bool) -> list[str]:
    """Those of that name, all where none is named, and without a judge those that need none.

    Raises `UsageError` for a name that does not exist, and where nothing is left.
    """
    renamed = {metric.formerly: name for name, metric in METRICS.items() if metric.formerly}
    for old in set(names) & set(renamed):
        text = f"the metric {old} is called {renamed[old]}; its old name goes with 0.3"
        warnings.warn(text, DeprecationWarning, stacklevel=4)
    chosen = [renamed.get(name, name) for name in names or METRICS]
    if unknown := [name for name in chosen if name not in METRICS]:
        raise UsageError(
            "There is no metric {name}.",
            hint="Available: {names}.",
            name=unknown[0],
            names=", ".join(METRICS),
        )
    left = [name for name in chosen if judged or "judge" not in METRICS[name].needs]
    if not left:
        raise UsageError(
            "There is nothing to measure: {metrics} need a judge.",
            hint="Omit --no-judge, or choose other metrics.",
            metrics=", ".join(chosen),
        )
    return left


def open_cache(folder: Path | None, library: Library | Location | None = None) -> CallCache:
    """What keeps answers and verdicts in that folder, or in localrag's own; see `CallCache`.

    In localrag's own they are kept by `library`, where there is one, and go with what is removed
    from it. They can be deleted, and are paid for again.
    """
    if folder is not None:
        return CallCache(folder / CALLS_FILE)
    own = factory.cache_folder() / "evaluation"
    if isinstance(library, Library):
        key = computed_key(library.backend)
        return CallCache(computed_file(library.removals()), own, key=key)
    if library is not None:
        with suppress(LibraryNotFoundError):  # a data set may bring all that is scored
            file, key = computed_with(library)
            return CallCache(file, own, key=key)
    return CallCache(own / MODELS_FILE)


def settings_of(file: Path | None) -> Settings:
    """The settings of a file, or those that localrag would use now.

    What those keep private or redact holds for the file's too.
    """
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


def named_settings(files: Sequence[Path]) -> list[Configuration]:
    """Each configuration with its name: the file's, or its path where two have the same."""
    stems = [file.stem for file in files]
    return [
        (stem if stems.count(stem) == 1 else str(file), settings_of(file))
        for stem, file in zip(stems, files, strict=True)
    ] or [("default", settings_of(None))]


def graded_passages(settings: Settings) -> int:
    """Passages of a question that the language model grades: to rerank them, or in Self-RAG."""
    reranked = settings.reranker.candidates if isinstance(settings.reranker, LLMReranking) else 0
    # What both grade is read once.
    return max(reranked, settings.answer.k if settings.answer.mode == "self-rag" else 0)
