"""One library with its models, for any number of questions, one after the other or side by side.

What a question asks for comes with it (`AskOptions`); nothing that differs between two callers
is kept here. Models are loaded when they are first needed, and kept. Knows nothing about adding
documents, nor about how anything is shown.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec
import numpy as np

from localrag import factory, hosted
from localrag.config.settings import EmbeddingSettings, LLMReranking, Settings, with_reranker
from localrag.documents.cards import HEAD, card_of
from localrag.errors import LibraryNotFoundError, RemovedError, StoppedError, UsageError
from localrag.languages import LANGUAGES, is_code
from localrag.library.acting import acting_as_server
from localrag.library.catalogue.filters import Filter
from localrag.library.derived import SOON
from localrag.library.indexes.base import Legs, are_allowed
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.records import ChunkIds, DocumentRecord
from localrag.models.embeddings.joined import general
from localrag.models.llms.base import check_stopped
from localrag.rag.base import (
    OnStep,
    Parts,
    Piece,
    answer_of,
    check_question,
    finished,
    source_documents,
    unheard,
)
from localrag.rag.citations import Attributor
from localrag.rag.conversation import Turn, standalone
from localrag.rag.pipeline import Trace, recorded
from localrag.rag.stages.explain import NotFoundExplainer
from localrag.rag.statements import own_sentence
from localrag.rag.verdicts import asks_whether
from localrag.rag.wordings import SearchTools
from localrag.retrieval.sections import Outline, PassageSpan, sections, widened
from localrag.system import memory
from localrag.text.instructions import may_steer
from localrag.text.language import answer_language
from localrag.text.normalize import fold
from localrag.types import Answer, Card, Chunk, Citation, Hit, Place, ScoredChunk, Statement, Step

if TYPE_CHECKING:
    from localrag.egress.consent import Consent
    from localrag.models.embeddings.base import Embedder
    from localrag.models.llms.base import AheadReader
    from localrag.prompts.own import Wording
    from localrag.rag.base import Retrieve
    from localrag.rag.pipeline import AnswerStage, Pipeline
    from localrag.rerankers.base import Reranking
    from localrag.summaries.documents import Pages, Write
    from localrag.summaries.records import Event as SummaryEvent
    from localrag.summaries.records import Written
    from localrag.tables.answering import LibraryAccess
    from localrag.tables.documents import Selection
    from localrag.tables.formulation import Computed
    from localrag.tables.records import Column, Patience, Reply, Table
    from localrag.tables.records import Event as TableEvent
    from localrag.tables.sheets import Dataset, RawTable
    from localrag.text.sentences import Span
    from localrag.text.tokenize import Tokenizer

_MOST_TABLES = 6
"""Tables that are judged for a question, those with the rarest of its words."""
_MOST_PASSAGES = 1000
"""Hits of the words that choose the documents of a table."""

_LEAST_SECONDS = 0.1
"""Of a time budget that is spent: 0 would be none."""

MOST_PARTIES = 4
"""Parties of its document with which a section is read."""

S = TypeVar("S", bound=msgspec.Struct)
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What comes with one question; None takes what the settings say.

    `k` passages are listed by a search, or read for an answer. `mode` is "standard" or
    "self-rag"; with `strict` only what the documents bear out is shown; `budget` (seconds) is
    Self-RAG's. With `tables` a question about all is computed. `rerank`, `expand` and
    `retrieval` (the mode of the search) name kinds of the
    settings. `history` holds earlier turns, oldest
    first: a follow-up is rewritten in the light of the last one. Once `stopped` is set, from any
    thread, the language model lets go and the call raises `StoppedError`; `consent` is
    asked before something goes to another machine, in place of that of the process. With
    `paths`, sources are whole paths whatever the engine calls them: for the user of this machine.
    `on_found` hears the passages of an answer as soon as they are found, before a model has read
    them. `parts` are those that are known of questions: who asks several documents the same, or
    one thing after another, has none proposed again, and none of it put in other words.
    """

    k: int | None = None
    mode: str | None = None
    strict: bool | None = None
    budget: float | None = None
    tables: bool | None = None
    rerank: str | None = None
    expand: str | None = None
    retrieval: str | None = None
    filter: Filter | None = None
    history: Sequence[Turn] = ()
    stopped: threading.Event | None = None
    consent: Consent | None = None
    paths: bool = False
    on_found: Callable[[Sequence[ScoredChunk]], object] = lambda _: None
    parts: MutableMapping[str, Parts] | None = None


@dataclass(eq=False)
class ActiveAnswer:
    """An answer or table under way that can be stopped, and the ids of what it has read.

    Those of chunks, and of documents of which a table has cells.
    """

    stopped: threading.Event
    chunks: set[int] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)
    removed: bool = False
    ahead: bool = False
    """Whether it is read ahead: nobody waits for it."""
    began: float = field(default_factory=time.perf_counter)

    def outdated(self, library: Library) -> bool:
        """Whether some of that has been removed."""
        read = list(self.chunks)
        return len(library.chunks(read)) < len(read) or not all(
            map(library.has_document, list(self.documents))
        )

    def stop(self) -> None:
        """End it, because some of that has been removed."""
        self.removed = True
        self.stopped.set()


class Engine:
    """Searches a library and answers from it. May be used from several threads; close it.

    The language model does one thing at a time: calls to it wait for each other.
    """

    def __init__(
        self,
        library: Library,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self.library = library
        self.settings = settings
        self.display_name: Callable[[str], str] = str
        """What a source is called in all that is found, and what a filter knows it by; its path
        where nobody says otherwise."""
        self.located: Callable[[str], str] = str
        """What a source is chosen by for a table: its name below folders that may be told."""
        self.is_new = False
        """Whether its library was made with it."""
        self._embedder = embedder
        self._embedding: EmbeddingSettings | None = None
        self._model: factory.Model | None = None
        self._rerankings: dict[object, Reranking | None] = {}
        self._loading = threading.RLock()
        self._reading: set[ActiveAnswer] = set()
        self._closed = False

    def close(self) -> None:
        """Free the models and close the library."""
        with self._loading:
            self._closed = True
            for reading in self._reading.copy():
                if reading.ahead:
                    reading.stopped.set()
            self._close_model()
            self._embedder = None
            self._rerankings.clear()
        self.library.close()

    def forget(self) -> None:
        """Keep nothing of the library's texts in memory; models stay."""
        self.library.forget()
        if self._model is not None:
            self._model.forget()
        memory.forget()

    def outdated(self) -> list[ActiveAnswer]:
        """The answers under way that have read what is in the library no more."""
        return [reading for reading in self._reading.copy() if reading.outdated(self.library)]

    def release_embedder(self) -> None:
        """Free the embedding model until it is needed again."""
        with self._loading:
            self._embedder = None

    def release_model(self) -> None:
        """Free the language model until it is needed again; not while somebody is answered."""
        with self._loading:
            if not self._reading:
                self._close_model()
                self._rerankings.clear()

    def _close_model(self) -> None:
        if self._model is not None:
            self._model.close()
        self._model = None

    @property
    def is_ready(self) -> bool:
        """Whether both models are in memory: an answer need not wait for them."""
        return self._embedder is not None and self._model is not None

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded on first use, and when a rebuild has put another in place."""
        with self._loading:
            settings = factory.as_built(self.settings, self.library)
            embedder = self._embedder_at_hand(settings.embedding)
            if embedder is None:
                self._embedder = embedder = factory.make_embedder(settings, factory.make_models())
                self._embedding = settings.embedding
            return embedder

    def _embedder_at_hand(self, settings: EmbeddingSettings) -> Embedder | None:
        """That model, if it is in memory and nobody is loading one."""
        if not self._loading.acquire(timeout=SOON):
            return None
        try:
            if self._embedder is None or settings != (self._embedding or settings):
                return None
            self._embedding = settings
            return self._embedder
        finally:
            self._loading.release()

    @property
    def model(self) -> factory.Model:
        """The language model, loaded on first use."""
        with self._loading:
            if self._model is None:
                models = factory.make_models()
                self._model = factory.make_model(self.settings, models, self.library)
            return self._model

    @contextmanager
    def reading_ahead(
        self, document: str, stopped: threading.Event
    ) -> Iterator[AheadReader | None]:
        """The model for a block that reads this document, while nobody asks; None for a closed one.

        It lets go once `stopped` is set, also by whoever closes this or removes the document.
        """
        reading = ActiveAnswer(stopped, documents={document}, ahead=True)
        with self._loading:
            model = None if self._closed else self.model.for_call(stopped, None)
            self._reading.add(reading)
        try:
            yield model.ahead if model else None
        finally:
            self._reading.discard(reading)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """How texts are cut into terms."""
        return factory.make_tokenizer(self.settings)

    @cached_property
    def may_steer(self) -> Callable[[str], tuple[Span, ...]]:
        """What `text.instructions.may_steer` finds, kept for texts that come back."""
        return memory.kept(512)(may_steer)

    @cached_property
    def _wording(self) -> Wording:
        return factory.make_wording(self.settings)

    def applied(self, options: AskOptions) -> Settings:
        """The settings as they count for one question. Raises `UsageError`."""
        settings = _checked(with_reranker, self.settings, options.rerank)
        answer = _changed(
            settings.answer,
            k=options.k,
            mode=options.mode,
            strict=options.strict,
            tables=options.tables,
        )
        if options.budget and answer.mode != "self-rag":
            raise UsageError(
                "--budget needs --mode self-rag.", hint="Choose that mode, or leave it out."
            )
        return msgspec.structs.replace(
            settings,
            answer=answer,
            retrieval=_changed(
                settings.retrieval,
                k=options.k,
                expansion=options.expand,
                mode=options.retrieval,
            ),
            self_rag=_changed(settings.self_rag, budget_seconds=options.budget),
        )

    def search(
        self, question: str, options: AskOptions = AskOptions(), on_step: OnStep = unheard
    ) -> list[ScoredChunk]:
        """The k best passages, best first, each with the rank that each leg gave it.

        Reranked where options or settings say so; expanded by the language model where the
        options say so. `on_step` hears each step as it is done.
        """
        settings = self.applied(options)
        k, reranking = settings.retrieval.k, self._reranking(settings, options)
        if not options.expand:
            settings = _unexpanded(settings)
        depth = max(k, reranking.candidates) if reranking else k
        hits = self._retrieve(question, depth, settings, options, on_step)
        if reranking is None:
            return hits
        ranked, step = reranking.apply(question, hits, k)
        on_step(step)
        return ranked

    def retrieve(self, question: str, k: int, wanted: Filter | None = None) -> list[ScoredChunk]:
        """The k best passages as the retrievers rank them, never reranked or expanded."""
        options = AskOptions(filter=wanted)
        return self._retrieve(question, k, _unexpanded(self.settings), options, unheard)

    def stream(self, question: str, options: AskOptions = AskOptions()) -> Iterator[Piece]:
        """Statements as they grow, steps as they are done, and last the finished `Answer`.

        Only what the filter allows is read; where it allows nothing, the answer says so and no
        model is loaded. Closing the iterator stops the model. Raises `UsageError` for an empty
        question.
        """
        return recorded(question, partial(self._pieces, question, options))

    def _pieces(self, question: str, options: AskOptions, trace: Trace) -> Iterator[Piece]:
        reading = ActiveAnswer(options.stopped or threading.Event())
        if options.stopped is not None:
            self._reading.add(reading)
        try:
            for piece in self._answered(question, options, reading, trace):
                check_stopped(reading.stopped)
                yield piece
        except StoppedError:
            if not reading.removed:
                raise
            raise _removed() from None
        finally:
            self._reading.discard(reading)

    def _answered(
        self, question: str, options: AskOptions, reading: ActiveAnswer, trace: Trace
    ) -> Iterator[Piece]:
        settings = self.applied(options)
        embedder = None
        with self.library.one_state():
            # How many passages there are is known with the settings, and usually says it all.
            empty = not self.library.chunk_set().size and self.library.is_empty()
            if not empty:
                built = factory.as_built(settings, self.library)
                embedder = self._embedder_at_hand(built.embedding)
            about_all = settings.answer.tables and not empty and self.library.has_rows()
        if empty:
            yield from _notice("empty_library", question)
            return
        question = self.standalone(question, options.history, options)
        parts: MutableMapping[str, Parts] = {} if options.parts is None else options.parts
        answer = partial(self._part, replace(options, parts=parts), settings, reading)
        options = self._meant(options)
        steps: list[Step] = []
        restriction = hosted.sendable(settings, self.library, options.filter, steps.append)
        allowed = self._allowed(restriction, steps.append)
        yield from steps
        steps.clear()
        if allowed is not None and not len(allowed):
            yield from _notice("nothing_allowed", question)
            return

        incomplete, model = False, self.model_for(options)
        trace.meter = model.meter
        last_resort: Callable[[], Generator[Piece, None, bool | None]] | None = None
        # Without logits each look is a request, and goes without passages.
        about_all = about_all and model.chooser.reads_logits
        if about_all and (restriction is None or restriction.pages is None):
            from localrag.tables.answering import answered, answered_after_all

            restricted_options = replace(options, filter=restriction)
            access = self._library_access(
                settings, restricted_options, allowed, reading, model, parts, answer
            )
            tools = (access, model.chooser, model.llm, self.tokenizer)
            computed = yield from answered(question, *tools)
            if computed:
                return
            incomplete = computed is False
            # In the other mode a time budget bounds what may follow.
            if computed is None and settings.answer.mode == "standard":
                last_resort = partial(answered_after_all, question, *tools)

        def retrieve(text: str, k: int) -> list[ScoredChunk]:
            passages = self._ranked_hits(
                text,
                2 * k,
                settings,
                replace(options, filter=restriction),
                lambda: allowed,
                steps.append,
            )
            if text == question:  # and not a part of it, or other words
                options.on_found(passages[: settings.answer.k])
            passages = self._widened(passages, k, allowed)
            reading.chunks.update(hit.chunk.id for hit in passages)
            return passages

        def look(text: str, k: int) -> list[ScoredChunk]:
            look_options = replace(options, filter=restriction)
            passages = self._ranked_hits(
                text, k, _unexpanded(settings), look_options, lambda: allowed, unheard
            )
            reading.chunks.update(hit.chunk.id for hit in passages)
            return passages

        def alike(term: str, edits: int, k: int) -> list[ScoredChunk]:
            hits = self.library.keywords.alike(term, edits, k, allowed)
            passages = self._chunks(hits, replace(options, filter=restriction), self.library.chunks)
            reading.chunks.update(hit.chunk.id for hit in passages)
            return passages

        reranking = self._reranking(settings, options)
        embedder = embedder or self.embedder

        around = SearchTools(
            self.tokenizer,
            self._attributor,
            look,
            alike,
            lambda terms: self.library.keywords.frequencies(terms),  # opened only if it is needed
        )
        after = [NotFoundExplainer(around, incomplete)]
        pipeline = self._pipeline(
            settings,
            retrieve,
            reranking,
            model,
            embedder,
            after,
            parts,
            many=options.parts is not None,
            stopped=reading.stopped,
        )
        for piece in pipeline.pieces(question, trace):
            if isinstance(piece, Step) and steps:  # done on the way to the passages
                within = sum(step.seconds for step in steps)
                piece = replace(piece, seconds=max(0.0, piece.seconds - within))
                yield from steps
                steps.clear()
            if last_resort and isinstance(piece, Statement):
                if piece.kind == "refusal" and (yield from last_resort()):
                    return
                last_resort = None
            yield piece

    def _library_access(
        self,
        settings: Settings,
        options: AskOptions,
        allowed: ChunkIds | None,
        reading: ActiveAnswer,
        model: factory.Model,
        parts: MutableMapping[str, Parts],
        answer: Callable[[str], Generator[Step, None, Answer]],
    ) -> LibraryAccess:
        """What questions about all need, see `tables.answering`.

        `parts` are those that are known of questions, and `answer` answers one.
        """
        from localrag.rag.grading import Grade
        from localrag.rag.grading import Reading as GradedReading
        from localrag.tables import documents, membership
        from localrag.tables.answering import LibraryAccess, Reference
        from localrag.tables.records import Patience

        library, paths = self.library, replace(options, paths=True)
        longest = settings.answer.table_seconds or math.inf

        def hits(text: str, k: int) -> list[str]:
            plain = _unexpanded(settings)
            return [
                hit.source
                for hit in self._ranked_hits(text, k, plain, paths, lambda: allowed, unheard)
            ]

        def records() -> list[DocumentRecord]:
            every = library.documents()
            if options.filter in (None, Filter()):
                return every
            sources = library.sources_of([record.id for record in every], options.filter)
            return [
                replace(record, sources=(sources[record.id],))
                for record in every
                if record.id in sources
            ]

        def fill(
            documents: Sequence[DocumentRecord], columns: Sequence[Column], *, whole: bool
        ) -> Iterator[TableEvent]:
            return self._filled(documents, columns, settings, options, Patience(longest, whole))

        def cite(
            references: Sequence[Reference],
        ) -> tuple[list[ScoredChunk], dict[Reference, Citation]]:
            return self._cited(references, options, reading)

        def stated(text: str) -> Grade:
            hits = self._ranked_hits(
                text, 2, _unexpanded(settings), options, lambda: allowed, unheard
            )
            section = self._widened(hits, 1, allowed)
            reading.chunks.update(hit.chunk.id for hit in section)
            grader = factory.make_grader(model, self.embedder)
            if not section or section[0].chunk.columns:  # some rows tell nothing of all of them
                return Grade(0.0)
            return grader.relevance(text, GradedReading(answer_language(text), tuple(section)))

        def ask(text: str, source: str) -> Reply:
            narrowed = replace(_of_document(options, source), parts=parts)
            answer = answer_of(self.stream(text, narrowed))
            reading.chunks.update(hit.chunk.id for hit in answer.contexts)
            claims = tuple(claim for claim in answer.statements if claim.kind == "claim")
            answer = replace(answer, statements=claims)
            sources = tuple(sorted(source_documents(answer)))
            return replace(documents.reply_of(answer), documents=sources)

        def belonging(
            text: str, selected: Sequence[DocumentRecord]
        ) -> Generator[Step, None, Table | None]:
            def sections(query: str, source: str) -> list[ScoredChunk]:
                hits = self.sections_in(query, source, membership.SECTIONS, settings, options)
                reading.chunks.update(hit.chunk.id for hit in hits)
                return hits

            def quote(passages: Sequence[ScoredChunk], query: str) -> Citation | None:
                return self._attributor(passages).nearest(query)

            return (
                yield from membership.table(
                    text, selected, sections, model.chooser, quote, name, longest
                )
            )

        name: Callable[[str], str] = str if options.paths else self.display_name

        return LibraryAccess(
            hits,
            records,
            partial(self._sheets, stopped=reading.stopped),
            fill,
            cite,
            name,
            stated,
            ask,
            answer,
            belonging,
            settings.answer.enough,
            settings.answer.strict,
            parts,
        )

    def _part(
        self, options: AskOptions, settings: Settings, reading: ActiveAnswer, question: str
    ) -> Generator[Step, None, Answer]:
        """The answer to a part of a question, in what is left of the time for all of them."""
        budget = settings.self_rag.budget_seconds if settings.answer.mode == "self-rag" else 0.0
        left = max(_LEAST_SECONDS, budget - (time.perf_counter() - reading.began))
        narrowed = replace(
            options,
            tables=False,
            history=(),
            budget=left if budget else options.budget,
            on_found=lambda _: None,
        )
        for piece in self.stream(question, narrowed):
            if isinstance(piece, Answer):
                reading.chunks.update(hit.chunk.id for hit in piece.contexts)
                return piece
            if isinstance(piece, Step) and piece.kind != "cost":
                yield piece
        raise AssertionError("a stream ends with its answer")

    def _cited(
        self, references: Sequence[tuple[str, int]], options: AskOptions, reading: ActiveAnswer
    ) -> tuple[list[ScoredChunk], dict[tuple[str, int], Citation]]:
        """The passages that hold code points of documents, and a citation of each one's line.

        None of what was removed meanwhile.
        """
        chunk_ids: list[int] = []
        for document, start in references:
            _, passages = self.library.outline(document)
            chunk = next((row[0] for row in passages if row[3] <= start < row[4]), 0)
            chunk_ids.append(chunk)
        chunks = self._chunks(
            [Hit(chunk, 0.0) for chunk in dict.fromkeys(filter(None, chunk_ids))],
            options,
            self.library.chunks,
        )
        reading.chunks.update(hit.chunk.id for hit in chunks)
        markers = {hit.chunk.id: marker for marker, hit in enumerate(chunks, 1)}
        citations = {}
        for (document, start), chunk in zip(references, chunk_ids, strict=True):
            if chunk not in markers:
                continue
            hit = chunks[markers[chunk] - 1]
            line = self.library.text(document, start, hit.chunk.end).split("\n", 1)[0]
            place = self._place_of(hit.chunk, start - hit.chunk.start)
            citations[document, start] = Citation(
                markers[chunk], chunk, hit.source, place.number, line, place
            )
        return chunks, citations

    def selection(
        self,
        patterns: Sequence[str],
        words: str = "",
        options: AskOptions = AskOptions(),
        *,
        lenient: bool = False,
    ) -> Selection:
        """The documents at paths that match, that the filter allows and that hold the words.

        Those that it is `without` are as if they were not there. Raises UsageError where a pattern
        matches nothing; where they are `lenient`, only if none does.
        """
        from localrag.tables.documents import select

        among = self._holding(words) if words.strip() else None
        without = frozenset[str]()
        if options.filter is not None:
            without = options.filter.without
            restriction = self._meant(options).filter
            records = self.library.documents()
            allowed = set(self.library.sources_of([record.id for record in records], restriction))
            among = allowed if among is None else among & allowed
        name_of = str if options.paths else self.located
        return select(self.library, patterns, among, name_of, lenient=lenient, without=without)

    def table(
        self,
        patterns: Sequence[str],
        columns: Sequence[Column],
        words: str = "",
        options: AskOptions = AskOptions(),
        *,
        lenient: bool = False,
    ) -> Iterator[TableEvent]:
        """Each document's answer to each column's question, as they come, and last the table.

        The filter of the options leaves documents, as `patterns` and `words` do; of all others,
        nothing is read. Raises as `LocalRAG.table`, and as `selection`.
        """
        from localrag.tables import documents

        documents.check_columns(columns)
        selection = self.selection(patterns, words, options, lenient=lenient)
        if not selection.documents:
            raise UsageError(
                "None of {count} documents is left for the table.",
                hint="Choose by other words, or by a pattern such as 'contracts/*'.",
                count=selection.total,
            )
        settings = self.applied(options)
        yield from self._filled(selection.documents, columns, settings, options)

    def _filled(
        self,
        selected: Sequence[DocumentRecord],
        columns: Sequence[Column],
        settings: Settings,
        options: AskOptions,
        patience: Patience | None = None,
    ) -> Iterator[TableEvent]:
        """The cells of these documents as they are read, and last the table."""
        from localrag.tables import documents
        from localrag.tables.records import PATIENT, CellDone, Table

        how = msgspec.to_builtins(settings.answer)
        how.pop("tables")  # a cell is about one document
        how.pop("table_seconds")
        key = json.dumps([how, sorted(self._wording.own.items())], default=str)
        model = settings.llm.model  # which need not be loaded where all cells are kept
        keys = tuple(
            documents.cell_key(column.question, column.kind, model, key, column.choices)
            for column in columns
        )
        private = hosted.private_sources(settings).documents(self.library)
        work = documents.Work(tuple(selected), tuple(columns), keys, private)
        stopped = options.stopped or threading.Event()
        parts: dict[str, Parts] = {}

        def ask(column: Column, source: str) -> Reply:
            narrowed = replace(_of_document(options, source), parts=parts)
            if column.kind in ("yes/no", "one of") or (
                column.kind is None and asks_whether(column.question)
            ):
                return self._chosen(column, narrowed)
            return documents.reply_of(answer_of(self.stream(column.question, narrowed)))

        reading = ActiveAnswer(stopped)
        self._reading.add(reading)
        try:
            for event in documents.fill(
                self.library, work, ask, stopped.is_set, patience or PATIENT
            ):
                if isinstance(event, CellDone):
                    reading.documents.add(selected[event.row].id)
                elif isinstance(event, Table) and reading.outdated(self.library):
                    raise _removed()
                yield event
            if reading.removed:  # while the table was being taken
                raise _removed()
        finally:
            self._reading.discard(reading)

    def summarise(
        self,
        patterns: Sequence[str],
        about: str = "",
        options: AskOptions = AskOptions(),
        *,
        pages: Pages | None = None,
        seconds: float = 0.0,
    ) -> Iterator[SummaryEvent]:
        """The documents in their own words, sections as they are written, and last the summary.

        Raises as `LocalRAG.summarise`, and as `selection`.
        """
        from localrag.summaries import documents
        from localrag.summaries.records import Summary

        about = " ".join(about.split())
        if about:
            check_question(about)
        if pages is not None:
            Filter(pages=pages)  # which refuses a first page behind the last
        selected = self.selection(patterns, options=options).documents
        if not selected:
            raise UsageError(
                "There is no document to sum up.", hint="Add files with `localrag add`."
            )
        if pages is not None and len(selected) > 1:
            raise UsageError(
                "--pages needs a single document, and {count} are chosen.",
                hint="Name one file.",
                count=len(selected),
            )

        def search(
            topic: str, paths: Sequence[str], on: Pages | None, k: int
        ) -> Sequence[ScoredChunk]:
            within = Filter(within=frozenset(paths), pages=on)
            narrowed = replace(options, filter=within, paths=True)
            return self._retrieve(topic, k, _unexpanded(self.settings), narrowed, unheard)

        tools = documents.Tools(
            self.library, self.embedder, self.tokenizer, self.may_steer, search, self._attributor
        )
        stopped = options.stopped or threading.Event()
        drafts = (
            [documents.draft_one(selected[0], about, pages, tools)]
            if len(selected) == 1
            else documents.draft_several(selected, about, tools, stopped)
        )
        work = documents.Work(
            drafts,
            about,
            len(selected),
            self.settings.llm.model,  # which need not be loaded where all is kept
            private=hosted.private_sources(self.settings).documents(self.library),
            seconds=seconds,
        )
        reading = ActiveAnswer(stopped)
        reading.documents.update(draft.summary.document_id for draft in drafts)
        self._reading.add(reading)
        try:
            events = documents.summarise(self.library, work, self._writer(options), stopped.is_set)
            for event in events:
                if isinstance(event, Summary) and reading.outdated(self.library):
                    raise _removed()
                yield event
            if reading.removed:  # while the summary was being taken
                raise _removed()
        finally:
            self._reading.discard(reading)

    def _writer(self, options: AskOptions) -> Write:
        """What writes about sections; the model is loaded for the first."""
        from localrag.rag.grading import Grader
        from localrag.summaries.writing import Writer

        def write(sentences: Sequence[ScoredChunk], about: str) -> Written:
            model = self.model_for(options)
            grader = Grader(model.chooser, scale=model.scale)

            def sendable(passages: Sequence[ScoredChunk]) -> Sequence[ScoredChunk]:
                return model.sendable(lambda *_: list(passages))("", len(passages))

            writer = Writer(model.llm, grader, self._attributor, self.tokenizer, sendable)
            return writer.write(sentences, about)

        return write

    def sheets(
        self, patterns: Sequence[str] = (), options: AskOptions = AskOptions()
    ) -> list[Dataset]:
        """The sheets and tables of the documents that match, typed; those alike as one.

        Without those that the language model may not read. Raises UsageError where a pattern
        matches nothing, StoppedError once `options.stopped` is set.
        """
        private = hosted.private_sources(self.settings).documents(self.library)
        records = self.selection(patterns, options=options).documents
        public_records = [record for record in records if record.id not in private]
        return self._sheets(public_records, options.stopped)

    def _sheets(
        self, records: Sequence[DocumentRecord], stopped: threading.Event | None
    ) -> list[Dataset]:
        from localrag.tables.sheets import datasets, raw_tables

        there = self.library.with_tables()
        tables: list[RawTable] = []
        for record in records:
            document = self.library.document(record.id) if record.id in there else None
            if document is not None:
                tables += raw_tables(document, record.id, stopped)
        return datasets(tables, stopped)

    def compute(
        self, question: str, datasets: Sequence[Dataset], options: AskOptions = AskOptions()
    ) -> tuple[Dataset, Computed]:
        """The answer to a question over the rows of that dataset whose columns fit it.

        Raises UsageError where there is none.
        """
        return compute_in(question, datasets, self.model_for(options), self.tokenizer)

    def _chosen(self, column: Column, options: AskOptions) -> Reply:
        """Yes or no, or a choice of the column, as the documents that the filter allows have it."""
        from localrag.tables.whether import PASSAGES, decided

        question = column.question
        restriction = hosted.sendable(self.settings, self.library, options.filter, unheard)
        restricted_options = replace(options, filter=restriction)
        hits = self._retrieve(
            question, PASSAGES, _unexpanded(self.settings), restricted_options, unheard
        )
        if column.choices:  # what kind of thing it is may stand apart from what happened
            hits = self._widened(hits, PASSAGES, None)
        chooser = self.model_for(options).chooser
        return decided(question, hits, chooser, self._attributor, column.choices)

    def _holding(self, words: str) -> set[str]:
        """The ids of the documents with one of the words, or more, whatever their number."""
        settings = msgspec.structs.replace(
            _unexpanded(self.settings),
            retrieval=_changed(_unexpanded(self.settings).retrieval, mode="keyword"),
        )
        documents = set[str]()
        while True:
            options = AskOptions(filter=Filter(without=frozenset(documents)))
            hits = self._retrieve(words, _MOST_PASSAGES, settings, options, unheard)
            documents.update(hit.chunk.document_id for hit in hits)
            if len(hits) < _MOST_PASSAGES:
                return documents

    def answer_from(
        self,
        question: str,
        retrieve: Retrieve,
        options: AskOptions = AskOptions(),
        on_step: OnStep = unheard,
        *,
        rerank: bool = True,
    ) -> Answer:
        """The answer from what `retrieve` brings in place of the search."""
        settings = self.applied(options)
        reranking = self._reranking(settings, options) if rerank else None
        pipeline = self._pipeline(
            settings,
            retrieve,
            reranking,
            self.model_for(options),
            self.embedder,
            stopped=options.stopped,
        )
        return answer_of(pipeline.stream(question), on_step)

    def standalone(
        self, question: str, history: Sequence[Turn], options: AskOptions = AskOptions()
    ) -> str:
        """The question as it can be searched for by itself; unchanged without a history."""
        if not history:
            return question
        return standalone(question, history[-1], self.model_for(options).llm, self.tokenizer)

    def reranking(self, kind: str, options: AskOptions = AskOptions()) -> Reranking | None:
        """What reorders passages in that way. Raises `ModelNotFoundError` where none is pulled."""
        return self._reranking(with_reranker(self.settings, kind), options)

    def model_for(self, options: AskOptions) -> factory.Model:
        """The language model as it serves one call."""
        return self.model.for_call(options.stopped, options.consent)

    def _retrieve(
        self, question: str, k: int, settings: Settings, options: AskOptions, on_step: OnStep
    ) -> list[ScoredChunk]:
        check_question(question)
        options = self._meant(options)
        allowed = partial(self._allowed, options.filter, on_step)
        return self._ranked_hits(question, k, settings, options, allowed, on_step)

    def _meant(self, options: AskOptions) -> AskOptions:
        """The options with a filter of paths: whoever is told names asks by names, too."""
        restriction = options.filter
        if restriction is None or options.paths or self.display_name is str:
            return options
        by_file = restriction.sources or restriction.path
        names = {path: self.display_name(path) for path in self.library.paths()} if by_file else {}
        return replace(options, filter=restriction.by_names(names))

    def _allowed(self, restriction: Filter | None, on_step: OnStep) -> ChunkIds | None:
        """The chunks that a filter leaves; None: all, and looking them up costs nothing."""
        if restriction is None or restriction == Filter():
            return None
        started = time.perf_counter()
        allowed, total = self.library.chunk_ids(restriction), self.library.chunk_set().size
        seconds = time.perf_counter() - started
        on_step(Step("filter", {"allowed": len(allowed), "total": total}, None, seconds))
        return allowed

    def _ranked_hits(
        self,
        question: str,
        k: int,
        settings: Settings,
        options: AskOptions,
        allowed: Callable[[], ChunkIds | None],
        on_step: OnStep,
    ) -> list[ScoredChunk]:
        library = self.library
        known: dict[int, Chunk] = {}

        def chunks(ids: Sequence[int]) -> dict[int, Chunk]:
            """Those of this search, each read once."""
            known.update(library.chunks([id_ for id_ in ids if id_ not in known]))
            return {id_: known[id_] for id_ in ids if id_ in known}

        def found(embedder: Embedder, legs: Legs) -> list[ScoredChunk]:
            retriever = factory.make_retriever(
                settings,
                legs,
                chunks,
                embedder,
                self.tokenizer,
                allowed=allowed(),
                model=lambda: self.model_for(options),
                on_step=on_step,
                chunks_of=library.chunk_ids_of,
            )
            return self._chunks(retriever.retrieve(question, k), options, chunks)

        with library.one_state():
            settings = factory.as_built(settings, library)
            ready = self._embedder_at_hand(settings.embedding)
            if ready is not None and settings.retrieval.expansion == "none":
                library.expect(factory.identity_of(ready, settings))
                legs = library.legs_at_hand()
                if legs is not None:
                    hits = found(ready, legs)
                    # Unless another search has brought an index to a later state meanwhile.
                    if library.legs_at_hand() is not None:
                        return hits
        # A model is to be loaded, an index to be brought up, or a language model writes first:
        # no transaction is to last for so long.
        embedder = self.embedder
        library.expect(factory.identity_of(embedder, settings))
        return found(embedder, Legs(library.vectors, library.keywords))

    def _chunks(
        self, hits: Sequence[Hit], options: AskOptions, chunks_of: factory.Chunks
    ) -> list[ScoredChunk]:
        """What was found, with its texts and under the names that the caller sees."""
        with self.library.one_state():
            chunks = chunks_of([hit.chunk_id for hit in hits])
            documents = {chunk.document_id for chunk in chunks.values()}
            paths = self.library.sources_of(documents, options.filter)
            positions = self.library.places(
                [(chunk.document_id, chunk.start) for chunk in chunks.values()]
            )
        display_name = str if options.paths else self.display_name
        sources = {document: display_name(path) for document, path in paths.items()}
        places = dict(zip(chunks, positions, strict=True))
        return [
            ScoredChunk(
                chunk,
                hit.score,
                sources[chunk.document_id],
                hit.ranks,
                places[chunk.id] or Place(chunk.start, number=chunk.first_page),
            )
            for hit in hits
            # A document may have been removed by another process since it was found.
            if (chunk := chunks.get(hit.chunk_id)) and chunk.document_id in sources
        ]

    def _widened(
        self, hits: Sequence[ScoredChunk], k: int, allowed: ChunkIds | None
    ) -> list[ScoredChunk]:
        """The first k sections that hold hits, as they are read."""
        library = self.library

        def may(chunk: int) -> bool:
            return allowed is None or bool(are_allowed(np.array([chunk]), allowed)[0])

        with library.one_state():
            read = widened(hits, k, self._outline_of, library.chunks_between, library.text, may)
            return [self._with_parties(hit) for hit in read]

    def _outline_of(self, document: str) -> Outline:
        language, passages = self.library.outline(document)
        width = LANGUAGES[language].density if is_code(language) else 1.0
        return Outline([PassageSpan(*span) for span in passages], width)

    def sections_of(self, document: str) -> list[list[int]]:
        """The ids of the chunks of each section of a document, in order."""
        outline = self._outline_of(document)
        return [[outline.passages[at].id for at in part] for part in sections(outline)]

    def sections_in(
        self,
        question: str,
        source: str,
        k: int,
        settings: Settings,
        options: AskOptions = AskOptions(),
    ) -> list[ScoredChunk]:
        """The k sections of the document at a path that a search brings; none of a private one."""
        only = _of_document(options, source)
        restriction = hosted.sendable(settings, self.library, only.filter, unheard)
        only = replace(only, filter=restriction)
        return self._widened(
            self._retrieve(question, k, _unexpanded(settings), only, unheard), k, None
        )

    def section(self, chunk: int) -> ScoredChunk | None:
        """The section that holds a chunk, just as an answer reads it; None if it was removed."""
        with self.library.one_state():
            hits = self._chunks([Hit(chunk, 0.0)], AskOptions(), self.library.chunks)
            return next(iter(self._widened(hits, 1, None)), None)

    def _with_parties(self, hit: ScoredChunk) -> ScoredChunk:
        """A section whose title names the parties of its document, as its beginning does."""
        title = hit.chunk.title
        parties = [
            p for p in self._card_of(hit).parties[:MOST_PARTIES] if fold(p) not in fold(title)
        ]
        return replace(hit, chunk=replace(hit.chunk, title="; ".join([title, *parties])))

    def _pipeline(
        self,
        settings: Settings,
        retrieve: Retrieve,
        reranking: Reranking | None,
        model: factory.Model,
        embedder: Embedder,
        after: Sequence[AnswerStage] = (),
        parts: MutableMapping[str, Parts] | None = None,
        *,
        many: bool = False,
        stopped: threading.Event | None = None,
    ) -> Pipeline:
        return factory.make_pipeline(
            settings,
            model,
            embedder,
            retrieve,
            self._place_of,
            self.tokenizer,
            self._wording,
            reranking,
            self._card_of,
            after,
            parts,
            many=many,
            stopped=stopped,
        )

    def _reranking(self, settings: Settings, options: AskOptions) -> Reranking | None:
        def make() -> Reranking | None:
            models = factory.make_models()
            return factory.make_reranking(settings, models, lambda: self.model_for(options))

        if isinstance(settings.reranker, LLMReranking):  # it holds no weights but the model
            return make()
        with self._loading:
            if settings.reranker not in self._rerankings:
                self._rerankings[settings.reranker] = make()
            return self._rerankings[settings.reranker]

    def _attributor(self, chunks: Sequence[ScoredChunk]) -> Attributor:
        return Attributor(chunks, self.tokenizer, self._place_of, general(self.embedder))

    def _card_of(self, hit: ScoredChunk) -> Card:
        """What the document of a passage is, dated by its file where it gives no date."""
        chunk, library = hit.chunk, self.library
        head = library.text(chunk.document_id, 0, HEAD)
        card = card_of(chunk.title, hit.source, head)
        return card if card.date else replace(card, date=self._changed(chunk.document_id))

    def _changed(self, document_id: str) -> str:
        record = self.library.document_record(document_id)
        sources = map(self.library.source, record.sources if record else ())
        changed = max((source.state.mtime_ns for source in sources if source), default=0)
        return datetime.fromtimestamp(changed / 1e9, UTC).date().isoformat() if changed > 0 else ""

    def _place_of(self, chunk: Chunk, offset: int) -> Place:
        """Where a code point of a chunk stands; its document may have gone meanwhile."""
        position = chunk.start + offset
        place = self.library.place(chunk.document_id, position)
        return place or Place(position, number=chunk.first_page)


def _of_document(options: AskOptions, source: str) -> AskOptions:
    """How a question is put to the document at a path, or to all that may be read for ""."""
    restriction = Filter(within=frozenset((source,))) if source else options.filter
    return replace(
        options,
        filter=restriction,
        paths=True,
        tables=False,
        history=(),
        on_found=lambda _: None,
    )


def _removed() -> RemovedError:
    return RemovedError(
        "A document that this answer had read was removed meanwhile.", hint="Ask again."
    )


def _notice(name: str, question: str) -> Iterator[Piece]:
    """An answer that says no more than why there is none."""
    statement = own_sentence(name, answer_language(question))
    yield statement
    yield finished(question, [statement])


def compute_in(
    question: str, datasets: Sequence[Dataset], model: factory.Model, tokenizer: Tokenizer
) -> tuple[Dataset, Computed]:
    """The answer to a question over the rows of that dataset whose columns fit it.

    Raises UsageError where there is none.
    """
    from localrag.tables.formulation import compute
    from localrag.tables.linking import of_named_files
    from localrag.tables.plan import Fit, fitting, meaning, ranked
    from localrag.tables.sheets import expect_few_rows

    check_question(question)
    if not datasets:
        raise UsageError(
            "There is no table with columns and rows.",
            hint="Name a sheet (xlsx, ods, csv) or a document with a table.",
        )
    if len(datasets) > 1:
        likely = ranked(question, datasets, tokenizer)[:_MOST_TABLES]
        judged = fitting(question, [(some, 1.0) for some in likely], model.chooser)
    else:
        judged = [Fit(datasets[0], 1.0)]
    if not judged:
        unread = {file: n for some in datasets for file, n in some.unread_tables.items()}
        raise UsageError(
            "None of {count} tables fits the question.",
            hint="{unread} more were not read, of files with very many: save those that are meant "
            "as files of their own."
            if unread
            else "Name the file whose rows are meant.",
            count=len(datasets),
            unread=sum(unread.values()),
        )
    fit = judged[0]
    expect_few_rows(fit.rows)
    dataset = of_named_files(question, fit.rows)
    meant = meaning(question, dataset, tokenizer, model.chooser, fit.looked_at)
    return dataset, compute(question, dataset, model.llm, meaning=meant)


def open_engine(
    location: Location,
    settings: Settings,
    *,
    create: bool,
    on_damage: Callable[[Path], None] = lambda _: None,
    serving: bool = False,
) -> Engine:
    """The engine over the library at `location`; with `create` it is made where there is none.

    `serving`: for people whom a server tells apart, see `library.acting`.
    `on_damage` is told which derived index was damaged and is being built anew. Raises
    `LibraryNotFoundError` without `create`, `LibraryDamagedError`.
    """
    opened = partial(
        Library.open,
        hosted.reachable(location, settings),
        indexes=factory.make_indexes(settings),
        note=on_damage,
        serving=serving,
    )
    try:
        library, embedder = opened(create=False, embedding=None), None
    except LibraryNotFoundError:
        if not create:
            raise
        models = factory.make_models()
        fresh = factory.for_new_library(settings, models)
        embedder = factory.make_embedder(fresh, models)
        library = opened(create=True, embedding=factory.identity_of(embedder, fresh))
    engine = Engine(library, settings, embedder=embedder)
    engine.is_new = embedder is not None
    if create:
        try:
            # Documents are to come: what is wrong with the model is said before they are read.
            with acting_as_server():
                built = factory.as_built(settings, library)
                library.expect(factory.identity_of(engine.embedder, built))
        except BaseException:
            engine.close()
            raise
    return engine


def _changed(section: S, **values: object) -> S:
    """A section of the settings with those values that are given, checked as in the file."""
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        return section
    return _checked(msgspec.convert, msgspec.to_builtins(section) | changes, type(section))


def _checked(make: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What `make` gives. Raises `UsageError` for values that the settings do not allow."""
    try:
        return make(*arguments, **named)
    except msgspec.ValidationError as error:
        raise UsageError(
            "This request is not possible: {reason}.",
            hint="See `localrag config` for what is allowed.",
            reason=error,
        ) from error


def _unexpanded(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings, retrieval=msgspec.structs.replace(settings.retrieval, expansion="none")
    )
