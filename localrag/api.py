"""The Python API: one class for one library.

    from localrag import LocalRAG

    with LocalRAG.open("mylibrary") as rag:
        rag.add(["papers/"])
        answer = rag.ask("How long is the notice period?")

Models are loaded when they are first needed, and kept.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypedDict, TypeVar, Unpack

from localrag import factory, hosted
from localrag.config.settings import RERANKERS, Settings, load_settings
from localrag.egress.databases import Database
from localrag.engine import AskOptions, Engine, compute_in, open_engine
from localrag.errors import LocalragError, ModelNotFoundError, UsageError
from localrag.library.catalogue.filters import Filter
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.library import Library
from localrag.library.location import location_of
from localrag.library.records import LibraryStatus, Problem, Removal
from localrag.messages import spoken, tr
from localrag.presentation.steps import NotesOnce
from localrag.rag.base import OnStep, answer_of, unheard
from localrag.rag.conversation import Turn
from localrag.types import Answer, ScoredChunk, Step

if TYPE_CHECKING:
    from localrag.ahead import AheadReport
    from localrag.ahead import Event as AheadEvent
    from localrag.evaluation.comparisons.base import Compared, ComparedQuestion, Comparison, OnStage
    from localrag.evaluation.comparisons.pairs import Verdict
    from localrag.evaluation.comparisons.rerankers import Graded
    from localrag.evaluation.dataset import Sample
    from localrag.evaluation.events import Event as EvaluationEvent
    from localrag.evaluation.results import Report
    from localrag.indexing.events import AddReport, IndexingEvent
    from localrag.indexing.indexer import Indexer
    from localrag.indexing.reading import DocumentReading
    from localrag.indexing.viewing import PageView
    from localrag.models.embeddings.base import Embedder
    from localrag.models.registry.advice import Advice
    from localrag.rag.conversation import Conversation
    from localrag.summaries.records import Event as SummaryEvent
    from localrag.summaries.records import Summary
    from localrag.tables.formulation import Computed
    from localrag.tables.records import Column, SavedTable, Table
    from localrag.tables.records import Event as TableEvent
    from localrag.tables.sheets import Dataset

_log = logging.getLogger(__name__)

AnyPath = str | os.PathLike[str]
E = TypeVar("E")
T = TypeVar("T")


def _nothing(_: object) -> None:
    """Tell nobody."""


class Asking(TypedDict, total=False):
    """What may come with a question; see `AskOptions`."""

    k: int | None
    mode: str | None
    strict: bool | None
    budget: float | None
    rerank: str | None
    expand: str | None
    filter: Filter | None
    history: Sequence[Turn]


class LocalRAG:
    """A library of documents, and everything that can be asked of it.

    Open it with `LocalRAG.open` and close it, or use it in a `with` block.
    """

    def __init__(self, engine: Engine, on_note: Callable[[str], None] = _nothing) -> None:
        """Callers use `LocalRAG.open`."""
        self.engine = engine
        self._on_note = on_note
        self._telling = NotesOnce(on_note).hearing

    @classmethod
    def open(
        cls,
        directory: AnyPath | Database,
        *,
        settings: Settings | None = None,
        create: bool = True,
        on_damage: Callable[[Path], None] = _nothing,
        on_note: Callable[[str], None] = _nothing,
    ) -> Self:
        """Open the library in `directory`; with `create`, make it on the first `add`.

        A database is given as a URL, `postgresql://host/database#library`.

        `settings` None reads the settings file and the environment. `on_damage` is told
        which derived index was damaged and is being built anew, `on_note` what is not done
        as the settings ask, such as a reranker that does not serve the question's language.
        Raises `LibraryNotFoundError` without `create`, `LibraryDamagedError`, `ConfigError`.
        """
        engine = open_engine(
            location_of(directory), settings or load_settings(), create=create, on_damage=on_damage
        )
        return cls(engine, on_note)

    def close(self) -> None:
        """Close the library and free the models."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def library(self) -> Library:
        """The documents and their indexes."""
        return self.engine.library

    @property
    def settings(self) -> Settings:
        """What was set when it was opened; what a question asks for comes with the question."""
        return self.engine.settings

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded on first use."""
        return self.engine.embedder

    @property
    def model(self) -> factory.Model:
        """The language model, loaded on first use."""
        return self.engine.model

    def add(
        self,
        paths: Sequence[AnyPath],
        progress: Callable[[IndexingEvent], None] = _nothing,
        *,
        prune: bool = False,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> AddReport:
        """Bring the library up to the files at and below `paths`; unchanged ones are skipped.

        Files that cannot be read are in the report's `failed` and stop nothing. With
        `prune`, files of an added folder that are gone are removed from the library.
        Raises `LibraryMismatchError` when the library was built with another embedding
        model, `LibraryLockedError` when another process keeps writing for `timeout`
        seconds, `UsageError` for a path that does not exist.

        >>> report = rag.add(["data/"])
        >>> report.failed
        ()
        """
        return self._indexer.add(
            [Path(path).expanduser() for path in paths],
            progress,
            prune=prune,
            timeout=timeout,
            on_wait=on_wait,
        )

    def watch(
        self,
        paths: Sequence[AnyPath],
        progress: Callable[[IndexingEvent], None] = _nothing,
        *,
        once: bool = False,
        interval: float | None = None,
        prune: bool = False,
        ahead: bool = False,
        stop: threading.Event | None = None,
    ) -> bool:
        """Keep the library true to the files at and below `paths` until `stop` is set.

        What is new or changed is added, what is gone is removed; unless more than half of a
        folder's files are gone at once (`prune` removes these, too) or the folder itself is: then
        it waits for it. With `once` it does that one time. The folders are looked through every
        `interval` seconds, and when the system tells of a change. Models are loaded only when
        there is something to embed. With `ahead`, sections are read ahead between two looks, within
        the bounds of the settings (`read_ahead`). Returns False where a folder was not there or
        files were kept though they are gone. Raises as `add` does, but waits as long as another
        writes.

        >>> rag.watch(["data/"], once=True)
        True
        """
        import time

        from localrag.ahead import IdleReader, expect_possible
        from localrag.indexing.watching import Watch

        if ahead:
            expect_possible(self.engine)
        stop = stop or threading.Event()
        reader = IdleReader(stop)

        def release() -> None:
            self.__dict__.pop("_indexer", None)
            self.engine.release_embedder()

        def idle() -> None:
            if not ahead:
                return
            try:
                read = reader.step(self.engine)
            except LocalragError as error:  # the folders are watched all the same
                _log.warning("Nothing is read ahead for now: %s", error)
                read = None
            if read is None:
                self.engine.release_model()

        watch = Watch(
            self.library,
            [Path(path).expanduser() for path in paths],
            progress,
            make=lambda: self._indexer,
            release=release,
            clock=time,
            interval=interval,
            prune=prune,
            stop=stop,
            idle=idle,
        )
        return watch.run(once=once)

    def read_ahead(
        self,
        *,
        seconds: float | None = None,
        on_event: Callable[[AheadEvent], None] = _nothing,
        stopped: threading.Event | None = None,
    ) -> AheadReport:
        """Let the language model read the sections that will likely be asked about.

        What it made of them is kept in the library, at most `ahead.megabytes` of it, so that a
        first question about one is answered as soon as a second. `seconds` None takes as long as
        it takes. Never on battery. `on_event` hears each section as it is kept; once `stopped` is
        set, nothing more is read. Raises `UsageError` where nothing can be kept: for a model
        behind a server, or with `llm.kv_disk_mb` 0.
        """
        from localrag.ahead import AheadBounds, AheadReport, expect_possible, read_ahead

        expect_possible(self.engine)
        bounds = AheadBounds(
            self.settings.ahead.megabytes, float("inf") if seconds is None else seconds
        )
        events = read_ahead(self.engine, bounds, stopped or threading.Event())
        return _last_of(AheadReport, events, on_event)

    def search(
        self,
        question: str,
        *,
        k: int | None = None,
        filter: Filter | None = None,  # noqa: A002
        expand: bool | str = False,
        rerank: str | None = None,
        mode: str | None = None,
        on_step: OnStep = unheard,
    ) -> list[ScoredChunk]:
        """The k best passages, best first, each with the rank that each leg gave it.

        The k best of those that `filter` allows. Reranked as `rerank` or the settings say; with
        `expand` the language model helps, as it says or as `retrieval.expansion` does. Otherwise
        none is used. `mode` is "hybrid", "dense" or "keyword". `on_step` hears each step as it is
        done.

        >>> hits = rag.search("who invented the perceptron", k=3)
        >>> len(hits)
        3
        """
        kind = self.settings.retrieval.expansion if expand is True else expand or None
        options = AskOptions(k=k, filter=filter, expand=kind, rerank=rerank, retrieval=mode)
        return self.engine.search(question, options, self._telling(on_step))

    def stream(
        self, question: str, *, on_step: OnStep = unheard, **asked: Unpack[Asking]
    ) -> Iterator[str | Answer]:
        """Pieces of the answer as they are written, and last of all the finished `Answer`.

        `k`, `mode`, `strict`, `budget`, `rerank`, `expand`, `filter` and `history` come with the
        question (`AskOptions`); what is left out is as the settings say. Where the filter allows
        nothing, the answer says so and no model is loaded. `on_step` hears each decision as it
        is made. Closing the iterator stops the model.

        >>> *pieces, answer = rag.stream("Who invented the perceptron?")
        >>> "".join(pieces).strip() == answer.text
        True
        """
        hear = self._telling(on_step)
        with closing(self.engine.stream(question, AskOptions(**asked))) as pieces:  # type: ignore[type-var]
            for piece in pieces:
                if isinstance(piece, Step):
                    hear(piece)
                else:
                    yield piece if isinstance(piece, Answer) else piece.written

    def ask(self, question: str, *, on_step: OnStep = unheard, **asked: Unpack[Asking]) -> Answer:
        """The whole answer at once, with citations, contexts and the trace of every step.

        See `stream` for what can be asked for.

        >>> answer = rag.ask("Who invented the perceptron?")
        >>> answer.grounded
        True
        """
        return answer_of(self.engine.stream(question, AskOptions(**asked)), self._telling(on_step))

    def table(
        self,
        patterns: Sequence[str],
        columns: Sequence[str | Column],
        *,
        words: str = "",
        save: str = "",
        on_event: Callable[[TableEvent], None] = _nothing,
        stopped: threading.Event | None = None,
        **asked: Unpack[Asking],
    ) -> Table:
        """Documents as rows: each column is a question that is put to each document by itself.

        `patterns` choose documents by path, folder or pattern, none chooses all; of those, `words`
        leaves the ones that hold them, and `filter` the ones it allows. What was read is kept in
        the library and not read again. With `save`, what is asked of which documents is kept under
        that name (see `saved_table`); of a filter its types alone are. `on_event` hears how much
        there is to do, and each cell as it is read; once `stopped` is set, what is left is not
        read. Raises `UsageError` where nothing is chosen or asked.

        >>> table = rag.table(["ai-overview.en.pdf"], ["Who invented the perceptron?"])
        >>> table.rows[0].cells[0].state
        'found'
        """
        from localrag.tables.records import Begun, Column, SavedTable, Table
        from localrag.tables.saved import save_table

        full_columns = tuple(
            Column(column) if isinstance(column, str) else column for column in columns
        )
        options = AskOptions(stopped=stopped or threading.Event(), **asked)
        types = options.filter.types if options.filter else ()

        def hear(event: TableEvent) -> None:
            if save and isinstance(event, Begun):  # there are documents to be asked
                saved = SavedTable(save, tuple(patterns), full_columns, words, types, paths=True)
                save_table(self.library, saved)
            on_event(event)

        return _last_of(Table, self.engine.table(patterns, full_columns, words, options), hear)

    def saved_table(
        self,
        name: str,
        *,
        on_event: Callable[[TableEvent], None] = _nothing,
        stopped: threading.Event | None = None,
    ) -> Table:
        """The table that was saved under that name, as the documents are by now.

        What has come or changed since the last time is asked, and nothing else. Raises
        `UsageError` where there is none, or none of its documents is left.
        """
        from localrag.tables.records import Table
        from localrag.tables.saved import saved_table

        saved = saved_table(self.library, name)
        options = AskOptions(
            stopped=stopped or threading.Event(),
            filter=Filter(types=saved.types),
            paths=saved.paths,
        )
        events = self.engine.table(
            saved.patterns, saved.columns, saved.words, options, lenient=True
        )
        return _last_of(Table, events, on_event)

    def saved_tables(self) -> list[SavedTable]:
        """What was saved by `table`, by name."""
        from localrag.tables.saved import saved_tables

        return saved_tables(self.library)

    def forget_table(self, name: str) -> None:
        """Forget a saved table; its cells stay with their documents. Raises `UsageError`."""
        from localrag.tables.saved import forget_table

        forget_table(self.library, name)

    def summarise(
        self,
        patterns: Sequence[str],
        *,
        about: str = "",
        pages: tuple[int, int | None] | None = None,
        seconds: float = 0.0,
        on_event: Callable[[SummaryEvent], None] = _nothing,
        stopped: threading.Event | None = None,
    ) -> Summary:
        """A document on about a page: sentences chosen from all of it, written about, checked.

        `patterns` choose documents as for `table`. A single one is told section by section, each of
        several in the sentence that tells most of it. With `about`, what they say on that topic;
        with `pages`, first and last (None: to the end), no more than these of a single document.
        Sentences are chosen without the language model; it then writes about each section, for
        `seconds` (0: as long as it takes). Sections that were not written stay in the document's
        own words, and `skipped` names pages that no sentence is from. What was written is kept in
        the library. `on_event` hears the document in its own words first, then each section; once
        `stopped` is set, nothing more is written, and of several documents those are told that were
        read by then. Raises `UsageError` where nothing is chosen, `RemovedError` where a document
        is removed meanwhile, and `StoppedError` once it is stopped before it is known which of
        several documents say something on a topic.

        >>> summary = rag.summarise(["ai-overview.en.pdf"], seconds=1)  # a section at least
        >>> summary.documents[0].sections[0].state
        'written'
        """
        from localrag.summaries.records import Summary

        options = AskOptions(stopped=stopped or threading.Event())
        events = self.engine.summarise(patterns, about, options, pages=pages, seconds=seconds)
        return _last_of(Summary, events, on_event)

    def compute(
        self,
        question: str,
        files: Sequence[AnyPath] = (),
        *,
        stopped: threading.Event | None = None,
    ) -> tuple[Dataset, Computed]:
        """The answer to a question over the rows of sheets: computed, with the rows it counted.

        `files` are sheets or documents with tables, by their path, or in the library by the end of
        it, a folder or a pattern; none: all of the library. Two queries are formulated without each
        other; where they do not give the same, `Computed.sure` is false. Raises `UsageError` where
        there is no table.
        """
        names = [os.fspath(file) for file in files]
        there = [name for name in names if Path(name).expanduser().is_file()]
        stored = [name for name in names if name not in there]
        options = AskOptions(stopped=stopped)
        sheets = _sheets_of(there, self.settings, stopped)
        if stored or not names:
            sheets += self.engine.sheets(stored, options)
        return self.engine.compute(question, sheets, options)

    @classmethod
    def compute_files(
        cls, question: str, files: Sequence[AnyPath], *, settings: Settings | None = None
    ) -> tuple[Dataset, Computed]:
        """The same over files that lie here, without any library."""
        chosen = settings or load_settings()
        sheets = _sheets_of([os.fspath(file) for file in files], chosen)
        model = factory.make_model(chosen, factory.make_models())
        try:
            return compute_in(question, sheets, model, factory.make_tokenizer(chosen))
        finally:
            model.close()

    def compare(
        self,
        question: str,
        *,
        reference: str = "",
        k: int | None = None,
        progress: Callable[[str], None] = _nothing,
        stopped: threading.Event | None = None,
    ) -> Comparison[Graded]:
        """The same question through every reranker: passages, ranks, answers, times.

        With a `reference` answer the language model grades passages and answers by it.
        `progress` hears the name of each reranker as its turn comes. A cross-encoder is
        left out, with a note to `on_note`, where none has been pulled. Once `stopped` is set,
        it raises `StoppedError`.
        """
        from localrag.evaluation.comparisons.base import (
            JUDGE,
            ComparedQuestion,
            Comparison,
            compare,
        )
        from localrag.evaluation.comparisons.rerankers import ReferenceJudge, reranked

        engine, tell, options = self.engine, self._telling(unheard), AskOptions(stopped=stopped)
        depth = k = k or self.settings.answer.k

        def write(text: str, contexts: Sequence[ScoredChunk]) -> Answer:
            return engine.answer_from(text, lambda *_: list(contexts), options, rerank=False)

        allowed = hosted.sendable(self.settings, self.library)
        variants = []
        for kind in RERANKERS:
            try:
                reranking = engine.reranking(kind, options)
            except ModelNotFoundError as error:
                self._on_note(spoken(error))
                continue
            depth = max(depth, reranking.candidates if reranking else 0)
            variants.append(reranked(kind, reranking, write, k, tell))
        model = engine.model_for(options)
        compared = compare(
            [ComparedQuestion(question, reference)],
            variants,
            ReferenceJudge(model.llm, model.chooser),
            search=lambda text: engine.retrieve(text, depth, allowed),
            on_stage=lambda stage: None if stage.name == JUDGE else progress(stage.name),
        )
        return Comparison(
            tuple(variant.name for variant in variants), model.llm.name, 1, tuple(compared)
        )

    def compare_modes(
        self,
        questions: Sequence[ComparedQuestion],
        modes: tuple[str, str],
        on_stage: OnStage = _nothing,
        *,
        k: int | None = None,
        stopped: threading.Event | None = None,
    ) -> Generator[Compared[Verdict], None, None]:
        """Each question answered in both modes and judged; each comes as soon as it is done.

        Once `stopped` is set, it raises `StoppedError`.
        """
        from localrag.evaluation.comparisons.base import compare
        from localrag.evaluation.comparisons.modes import in_mode
        from localrag.evaluation.comparisons.pairs import PairJudge

        engine, hear = self.engine, self._telling(unheard)
        only = hosted.sendable(self.settings, self.library)

        def find(question: str, k: int) -> list[ScoredChunk]:
            return engine.retrieve(question, k, only)

        def write(mode: str, question: str) -> Answer:
            return engine.answer_from(
                question, find, AskOptions(k=k, mode=mode, stopped=stopped), hear
            )

        engine.retrieve(questions[0].question, 1)  # what is loaded now is no answer's time
        model = engine.model_for(AskOptions(stopped=stopped))
        judge = PairJudge(model.llm, model.chooser)
        return compare(
            questions, [in_mode(mode, write) for mode in modes], judge, on_stage=on_stage
        )

    def evaluate(
        self,
        samples: Sequence[Sample] | AnyPath,
        *,
        configurations: Mapping[str, Settings] | None = None,
        judge: Settings | None = None,
        judged: bool = True,
        metrics: Sequence[str] = (),
        reasons: bool = True,
        documents: Sequence[AnyPath] = (),
        cache: AnyPath | None = None,
        tell: Callable[[EvaluationEvent], None] | None = None,
    ) -> Report:
        """How good the answers to the samples are: scores, and what the configurations differ in.

        `samples`, or a data set's file, may bring answers and contexts; what they lack is asked
        of the library, as each of the `configurations` has it, or else as it is opened. `judge`
        holds the language model that judges, otherwise that of this library; not `judged`, only
        metrics that need none are computed. `metrics` of `evaluation.scoring.METRICS` are
        computed, all where none is named. `documents` are evaluated in a library of their own for
        each configuration. What was paid for is kept in `cache`, so that a run that was stopped
        goes on; `tell` hears how it goes on. Raises `UsageError` for what cannot be evaluated.

        >>> from localrag.evaluation.dataset import Sample
        >>> asked = [Sample("1", "Who invented the perceptron?", references=("Frank Rosenblatt",))]
        >>> report = rag.evaluate(asked, judged=False, metrics=["f1"])
        >>> [summary.name for summary in report.runs[0].summaries()]
        ['f1']
        """
        from localrag.evaluation.dataset import read_dataset
        from localrag.evaluation.events import unheard as untold
        from localrag.evaluator.evaluator import Evaluator, open_cache

        name = "samples"
        if isinstance(samples, str | os.PathLike):
            path = Path(samples).expanduser()
            name, samples = path.name, read_dataset(path)
        own = {"default": self.settings}
        folder = Path(cache).expanduser() if cache is not None else None
        with open_cache(folder, self.engine.library) as call_cache:
            paths = [Path(path) for path in documents]
            evaluator = Evaluator(self.engine, call_cache, documents=paths, tell=tell or untold)
            return evaluator.evaluate(
                name,
                samples,
                list((configurations or own).items()),
                (judge or self.settings) if judged else None,
                metrics,
                reasons=reasons,
            )

    def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """A follow-up as it is searched for: understood in the light of the last turn."""
        return self.engine.standalone(question, history)

    def conversation(self) -> Conversation:
        """Deprecated, goes with 0.3: pass `history` to `ask`."""
        from localrag.rag.conversation import Conversation

        warnings.warn("pass history to LocalRAG.ask", DeprecationWarning, stacklevel=2)
        return Conversation(self.model.llm, self.engine.tokenizer)

    def show(self, source: AnyPath) -> DocumentReading:
        """What is read of a file, page by page, with the passages that it is cut into.

        As the library holds it, where it is in it: also when the file is gone, and by the end of
        its path where that is enough. Otherwise it is read as by `LocalRAG.read`. Raises
        `ParsingError` for what cannot be read, `UsageError` for a path that is nowhere.

        >>> rag.show("ai-overview.en.pdf").document.pages[0].how
        'text'
        """
        from localrag.indexing.reading import from_library

        reading = from_library(self.library, os.fspath(source))
        return reading or self._read(source, self.settings, lambda: self.embedder, self._on_note)

    def page(
        self, source: AnyPath, number: int, *, highlight: str | None = None, image: bool = True
    ) -> PageView:
        """A page of a file in the library, with the words to highlight marked on it.

        `PageView.image` is a PNG where the file still is what was read and its format has pages;
        `PageView.text` is there always, with the `spans` that are marked. Raises `UsageError`
        for a file or a page that the library does not hold.

        >>> rag.page("ai-overview.en.pdf", 1, highlight="intelligence").marked
        True
        """
        from localrag.indexing.viewing import view_words, with_image

        view = view_words(self.library, os.fspath(source), number, highlight)
        if not image:
            return view
        with closing(factory.make_parse(self.settings)) as drawing:
            return with_image(self.library, view, drawing)

    @classmethod
    def read(
        cls,
        path: AnyPath,
        *,
        settings: Settings | None = None,
        on_note: Callable[[str], None] = _nothing,
    ) -> DocumentReading:
        """What an `add` would read of a file, without any library.

        Without the embedding model, which counts the tokens of a passage, there are no passages,
        and `on_note` is told why. Raises as `show` does.
        """
        chosen = settings or load_settings()

        def embedder() -> Embedder:
            return factory.make_embedder(chosen, factory.make_models())

        return cls._read(path, chosen, embedder, on_note)

    @staticmethod
    def _read(
        path: AnyPath,
        settings: Settings,
        embedder: Callable[[], Embedder],
        on_note: Callable[[str], None],
    ) -> DocumentReading:
        from localrag.indexing.reading import from_file
        from localrag.text.language import detect

        chunker = None
        try:
            chunker = factory.make_chunker(settings, embedder())
        except ModelNotFoundError as error:
            on_note(tr("Passages are not shown. {reason}", reason=error))
        with closing(factory.make_parse(settings)) as parse:
            return from_file(Path(path).expanduser(), parse, chunker, detect)

    def problems(self) -> list[Problem]:
        """Files that were not read and pages that were not read well, by path.

        Opens no index and loads no model; `localrag.presentation.reading` says them in words.
        """
        return self.library.problems()

    def remove(
        self,
        sources: Sequence[AnyPath],
        *,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> Removal:
        """Take files out of the library; a folder takes out all that was added below it.

        Raises `UsageError` for a path that the library does not hold, and removes nothing then.

        >>> rag.remove(["data/ai-overview.en.pdf"]).documents != ()
        True
        """
        from localrag.system.files import storable_path

        unread = [file.state.path for file in self.library.unread()]
        source_paths: list[str] = []
        forgotten: list[str] = []

        def below(path: str, paths: Iterable[str]) -> list[str]:
            return [known for known in paths if known == path or Path(path) in Path(known).parents]

        for source in sources:
            path = storable_path(Path(source).expanduser())
            matches = [record.state.path for record in self.library.sources([path])]
            failed = below(path, unread)
            if not matches and not failed:  # as a person may write it who does not mind capitals
                matches = below(path, (record.state.path for record in self.library.sources()))
            forgotten += failed
            source_paths += matches or ([] if failed else [path])
        return self.library.remove(
            sources=dict.fromkeys(source_paths),
            unread=dict.fromkeys(forgotten),
            timeout=timeout,
            on_wait=on_wait,
        )

    def rebuild(
        self,
        progress: Callable[[IndexingEvent], None] = _nothing,
        *,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> AddReport:
        """Make the library what adding all its documents now, with these settings, would give.

        Only the derived indexes where nothing else has changed; after a change of embedding
        model or chunking, every document is cut and embedded anew, from its stored text.
        """
        return self._indexer.rebuild(progress, timeout=timeout, on_wait=on_wait)

    def status(self) -> LibraryStatus:
        """Counts, sizes and models of the library; opens no index and loads no model."""
        return self.library.status()

    def embedding_advice(self) -> Advice | None:
        """The embedding model that would serve the documents better, if one would.

        Judged by the languages of a few hundred passages from all over the library.
        """
        return factory.embedding_advice(self.settings, self.library, factory.make_models())

    @cached_property
    def _indexer(self) -> Indexer:
        return factory.make_indexer(self.settings, self.library, self.embedder)


def _last_of(kind: type[T], events: Iterator[E], on_event: Callable[[E], None]) -> T:
    """The record of this kind, with which the events end."""
    for event in events:
        on_event(event)
        if isinstance(event, kind):
            return event
    raise AssertionError("events end with what they come to")


def _sheets_of(
    files: Sequence[str], settings: Settings, stopped: threading.Event | None = None
) -> list[Dataset]:
    """The tables of files that lie here, typed; those alike as one."""
    from localrag.indexing.reading import from_file
    from localrag.tables.sheets import datasets, raw_tables
    from localrag.text.language import detect

    if not files:
        return []
    private = hosted.private_sources(settings)
    for file in files:
        if private.holds(str(Path(file).expanduser().absolute())):
            raise UsageError(
                "{path} is private: a language model on another machine may not read it.",
                hint="Choose a model on this machine, or take the file out of hosted.private.",
                path=file,
            )
    with closing(factory.make_parse(settings)) as parse:
        documents = [from_file(Path(file).expanduser(), parse, None, detect) for file in files]
    tables = [raw_tables(reading.document, stopped=stopped) for reading in documents]
    return datasets(chain.from_iterable(tables), stopped)
