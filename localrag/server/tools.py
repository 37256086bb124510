"""What other people's assistants may ask of the libraries, and what they are told.

Knows no protocol. Most assistants are models on somebody else's machine: what `hosted.private`
names never goes to them, what `hosted.redact` matches is replaced, and sentences that could steer
a model are left out and counted.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import anyio
from msgspec import UNSET, Struct, UnsetType

from localrag import __version__
from localrag.api import LocalRAG
from localrag.documents.formats.table import shown_name
from localrag.documents.tables import shown_text
from localrag.egress import network
from localrag.egress.redaction import Redactor
from localrag.engine import AskOptions, Engine
from localrag.errors import LibraryNotFoundError, UsageError
from localrag.indexing.events import Committed, Failed, Linked
from localrag.indexing.viewing import occurrences
from localrag.languages import CODES, is_code
from localrag.library.acting import Action
from localrag.library.catalogue.filters import Filter
from localrag.library.private import PrivateSources
from localrag.library.records import DocumentRecord, PageSpan
from localrag.messages import spoken, tr
from localrag.presentation.computed import answer_text, computed_lines
from localrag.presentation.markdown import Change, changed, inert, moved
from localrag.presentation.not_found import reason_text
from localrag.presentation.places import cited_as, place_text
from localrag.presentation.reading import card_texts
from localrag.presentation.steps import step_name
from localrag.presentation.summaries import begun_text as summary_begun_text
from localrag.presentation.summaries import (
    coverage_lines,
    numbered,
    section_text,
    section_title,
)
from localrag.presentation.tables import begun_text, cell_text, total_lines
from localrag.presentation.viewing import BEFORE, BEHIND, marking, no_image, not_found
from localrag.printable import as_text
from localrag.rag.both_sides import file_of, otherwise
from localrag.rag.statements import without_quotation
from localrag.rag.untrusted import Screen
from localrag.server.asker import recorded
from localrag.server.bounds import expect_few_cells
from localrag.server.jobs import taking_turns
from localrag.server.libraries import Libraries
from localrag.server.naming import Naming, named_table, without_paths
from localrag.server.pages import Pages
from localrag.server.queue import ModelQueue, OnWait
from localrag.server.running import asking
from localrag.server.summaries import pages_of
from localrag.server.tool_records import (
    SHORT_ID,
    Added,
    Answered,
    AskFor,
    ComputedText,
    ComputeFor,
    Documents,
    DocumentsIn,
    DocumentText,
    FilesToAdd,
    Found,
    Listed,
    Missing,
    Nothing,
    NotRead,
    PageOf,
    PageText,
    Passage,
    Quotation,
    SearchFor,
    SectionText,
    Served,
    State,
    SummariseFor,
    SummaryText,
    TableCell,
    TableFor,
    TableRow,
    TableText,
)
from localrag.server.views import View, quoted, view_of
from localrag.summaries.records import DocumentSummary, SectionDone, Summary, SummaryBegun
from localrag.tables.documents import check_columns
from localrag.tables.formulation import Computed
from localrag.tables.records import Begun, CellDone, Column, Row, Table, column_of
from localrag.tables.sheets import Dataset
from localrag.types import (
    Answer,
    Citation,
    NotFound,
    Place,
    ScoredChunk,
    Statement,
    Step,
    citations_of,
)

SCHEME = "localrag://"
LONGEST = 20_000
"""Code points of a page that are given at once."""
MOST_LISTED = 100
_SECONDS = 120.0
"""For writing a summary."""
_BEAT = 10.0
"""Seconds after which a client hears again that work goes on: many give up after a minute."""

Tell = Callable[[str], Awaitable[object]]
"""Hears what is being done."""
Cited = TypeVar("Cited", Citation, ScoredChunk)
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `call` takes arguments of the record `asks`, and gives a reply of `replies`."""

    name: str
    title: str
    description: str
    asks: type[Struct]
    replies: type[Struct]
    call: Callable[[Any, Tell], Awaitable[Any]]
    adds: bool = False


@dataclass(frozen=True, slots=True)
class Pictured:
    """A reply that has an image, too: a PNG."""

    reply: Struct
    png: bytes


class Tools:
    """What the libraries can be asked. For one event loop."""

    def __init__(
        self,
        libraries: Libraries,
        queue: ModelQueue,
        pages: Pages,
        address: Callable[[View], str] | None = None,
        *,
        allow_add: bool = False,
    ) -> None:
        """`address` gives links to places, where there is a server that can show them."""
        self._libraries = libraries
        self._queue = queue
        self._pages = pages
        self._address = address
        self._allow_add = allow_add

    def offered(self) -> tuple[Tool, ...]:
        """All of them."""
        tools = (
            Tool(
                "search",
                tr("Search documents"),
                "Find passages in the user's own documents, with file and page of each. Fast; "
                "use it to read for yourself.",
                SearchFor,
                Found,
                self.search,
            ),
            Tool(
                "ask",
                tr("Ask documents"),
                "Let the language model of this machine answer from the user's own documents, "
                "with checked quotations. Takes seconds to minutes.",
                AskFor,
                Answered,
                self.ask,
            ),
            Tool(
                "table",
                tr("Ask each document"),
                "Put the same questions to each of many documents and get a table: lists, counts, "
                "sums, latest, comparisons over all of them, with a quotation for each cell and a "
                "statement of completeness. Takes seconds for each cell that was not read before; "
                "what was read is kept, so that a call that was broken off goes on.",
                TableFor,
                TableText,
                self.table,
            ),
            Tool(
                "summarise",
                tr("Sum up documents"),
                "A long document on about a page, section by section, with checked quotations and "
                "what it does not cover; or what each of several documents is, in a sentence. "
                "Takes a minute or two for what was not written before; what was written is kept, "
                "so that a call that was broken off goes on.",
                SummariseFor,
                SummaryText,
                self.summarise,
            ),
            Tool(
                "compute",
                tr("Compute over sheets"),
                "Count, add up and compare the rows of sheets, CSV files and tables in documents. "
                "A database computes; where two readings of the question disagree, both are given.",
                ComputeFor,
                ComputedText,
                self.compute,
            ),
            Tool(
                "get_page",
                tr("Read a page"),
                "One page of a document: its text, and its image where it has one.",
                PageOf,
                PageText,
                self.page,
            ),
            Tool(
                "list_documents",
                tr("List documents"),
                "Names, ids and page counts of the documents.",
                DocumentsIn,
                Documents,
                self.documents,
            ),
            Tool(
                "status",
                tr("Libraries and their state"),
                "Which libraries there are, and how much they hold.",
                Nothing,
                State,
                self.status,
            ),
        )
        if not self._allow_add:
            return tools
        add = Tool(
            "add",
            tr("Add files"),
            "Add files and folders of this machine to a library; unchanged files are skipped.",
            FilesToAdd,
            Added,
            self.add,
            adds=True,
        )
        return (*tools, add)

    async def search(self, asked: SearchFor, _: Tell) -> Found:
        """The best passages; never waits for the language model but where it reranks."""
        library = await self._record(asked.library, "search", asked.query)

        def find() -> Found:
            screen = self._library(library, asked.query)
            options = AskOptions(k=asked.k or None, filter=screen.allowed)
            hits = screen.engine.search(asked.query, options)
            return Found(
                library,
                [screen.passage(number, hit) for number, hit in enumerate(hits, 1)],
                screen.left_out,
                disarmed=screen.disarmed,
            )

        async with self._queue.processors.turn():
            return await anyio.to_thread.run_sync(find)

    async def ask(self, asked: AskFor, tell: Tell) -> Answered:
        """The answer; `tell` hears how long it waits, and what is done."""
        library = await self._record(asked.library, "ask", asked.question)
        screen = await anyio.to_thread.run_sync(self._library, library, asked.question)
        options = AskOptions(mode=asked.mode or None, filter=screen.allowed)
        answer = None
        async with (
            _beating(tell),
            self._queue.turn(_waiting(tell)),
            asking(screen.engine, asked.question, options) as pieces,
        ):
            async for piece in pieces:
                if isinstance(piece, Answer):
                    answer = piece
                elif text := _progress_text(piece):
                    await tell(text)
        assert answer is not None, "a stream ends with its answer"  # noqa: S101
        return Answered(
            library,
            screen.answer(answer),
            answer.grounded,
            [screen.quotation(answer, citation) for citation in answer.citations],
            len(answer.left_out) + screen.left_out,
            round(answer.seconds, 3),
            [screen.missing(answer, missing) for missing in answer.not_found],
            _is_unsupported(answer),
            screen.disarmed,  # once all of it has been shown
        )

    async def table(self, asked: TableFor, tell: Tell) -> TableText:
        """Each document's answer to each question; `tell` hears how far it is."""
        columns = tuple(map(column_of, asked.columns))
        check_columns(columns)
        questions = "\n".join(column.question for column in columns)
        library = await self._record(asked.library, "ask", questions)
        screen = await anyio.to_thread.run_sync(self._library, library, questions)
        events = partial(screen.engine.table, asked.documents, columns, asked.words)
        table = await self._last_event(screen, events, tell)
        assert isinstance(table, Table), "a table ends its events"  # noqa: S101
        return screen.table(table, asked.start)

    async def summarise(self, asked: SummariseFor, tell: Tell) -> SummaryText:
        """A document section by section, or several in a sentence each; `tell` hears how far."""
        library = await self._record(asked.library, "ask", asked.about)
        screen = await anyio.to_thread.run_sync(self._library, library, asked.about)
        pages = pages_of(asked.first_page, asked.last_page)
        summarise = partial(screen.engine.summarise, pages=pages, seconds=_SECONDS)
        events = partial(summarise, asked.documents, asked.about)
        summary = await self._last_event(screen, events, tell)
        assert isinstance(summary, Summary), "a summary ends its events"  # noqa: S101
        return screen.summary(summary)

    async def compute(self, asked: ComputeFor, tell: Tell) -> ComputedText:
        """What a database computes over rows, with the rows that were counted."""
        library = await self._record(asked.library, "ask", asked.question)
        screen = await anyio.to_thread.run_sync(self._library, library, asked.question)

        def results(options: AskOptions) -> Iterator[tuple[Dataset, Computed]]:
            sheets = screen.engine.sheets(asked.documents, options)
            yield screen.engine.compute(asked.question, sheets, options)

        return screen.computed(*await self._last_event(screen, results, tell))

    async def _last_event(
        self, screen: _LibraryScreen, events: Callable[[AskOptions], Iterator[E]], tell: Tell
    ) -> E:
        """What work ends with; others go first after each part of it that is not kept."""

        def work(
            say: Callable[[E], None], stopped: threading.Event, give_way: Callable[[], None]
        ) -> None:
            for event in events(AskOptions(filter=screen.allowed, stopped=stopped)):
                if isinstance(event, Begun):
                    expect_few_cells(event.documents * event.columns)
                say(event)
                if isinstance(event, CellDone | SectionDone) and not event.kept:
                    give_way()

        async with _beating(tell), taking_turns(self._queue, _waiting(tell), work) as stream:
            async for event in stream:
                if text := _progress_text(event):
                    await tell(text)
        return event

    async def page(self, asked: PageOf, _: Tell) -> PageText | Pictured:
        """A page, or as much of its text as is given at once."""
        library = await self._record(asked.library, "page", asked.document)

        def read() -> tuple[PageText, Engine, View | None]:
            screen = self._library(library, asked.question)
            record = screen.document(asked.document)
            span = screen.engine.library.page(record.id, number=asked.page)
            if span is None:
                raise UsageError(
                    "{name} has no page {page}.",
                    hint="It has {pages} pages in all.",
                    name=screen.name(record),
                    page=asked.page,
                    pages=record.pages,
                )
            page = screen.page(record, span, asked.start, asked.mark)
            return (
                page,
                screen.engine,
                screen.view(record, span, asked.mark) if asked.image else None,
            )

        page, engine, target = await anyio.to_thread.run_sync(read)
        if not asked.image:
            return page
        if target is None:
            page.notes.append(
                tr("There is no image: it would show what is left out of the text or replaced.")
            )
            return page
        view = await self._pages.small(engine.library, target)
        if view is None or view.image is None:
            if view is not None and view.fault is not None:
                view = replace(view, fault=without_paths(view.fault))
            page.notes += [no_image(view)] if view else []
            return page
        if view.spans:
            page.notes += marking(view)
        page.image = True
        return Pictured(page, view.image)

    async def documents(self, asked: DocumentsIn, _: Tell) -> Documents:
        """The documents in the order they were added."""
        library = self._libraries.named(asked.library)
        await anyio.to_thread.run_sync(self._libraries.engine, library)
        await self._libraries.listed(library)

        def listed() -> Documents:
            screen = self._library(library, "")
            fragment = asked.containing.casefold()
            records = [
                record
                for record in screen.documents()
                if not fragment or any(fragment in name.casefold() for name in screen.names(record))
            ]
            some = records[asked.start : asked.start + MOST_LISTED]
            after = asked.start + len(some)
            return Documents(
                library,
                len(records),
                [screen.listed(record) for record in some],
                after if after < len(records) else UNSET,
            )

        return await anyio.to_thread.run_sync(listed)

    async def status(self, _: Nothing, __: Tell) -> State:
        """The libraries, and what the network guard has seen since the start."""

        def counted() -> State:
            served = []
            for name in self._libraries.names:
                counts = self._libraries.engine(name).library.counts()
                served.append(Served(name, counts.documents, counts.pages, counts.chunks))
            outside = sum(network.let_through().values())
            waiting, blocked = self._queue.waiting, len(network.attempts())
            return State(__version__, served, waiting, outside, blocked)

        return await anyio.to_thread.run_sync(counted)

    async def add(self, asked: FilesToAdd, _: Tell) -> Added:
        """Add files of this machine."""
        for path in asked.paths:
            if not Path(path).expanduser().is_absolute():
                raise UsageError(
                    "{path} is not an absolute path.",
                    hint="The server does not know in which folder you are.",
                    path=path,
                )

        def added() -> Added:
            name = self._libraries.named(asked.library)
            report = LocalRAG(self._libraries.engine(name)).add(asked.paths)
            screen = self._library(name, "")  # of what there is by now
            new: list[Committed | Linked] = [*report.committed, *report.linked]
            files = map(screen.added, new)
            not_read = [screen.not_read(failure) for failure in report.failed]
            return Added(
                name,
                [file for file in files if file],
                len(report.unchanged),
                [failure for failure in not_read if failure],
            )

        return await anyio.to_thread.run_sync(added)

    async def resource(self, uri: str) -> PageText:
        """The page that a URI names; the first one where it names none."""
        library, document, page = _parts(uri)
        arguments = PageOf(document=document, page=page, library=library, image=False)
        page_text = await self.page(arguments, _tell_nobody)
        assert isinstance(page_text, PageText), "no image was asked for"  # noqa: S101
        return page_text

    async def resources(self, start: int) -> tuple[list[Listed], int | None]:
        """Documents of all libraries, and where to go on."""
        for name in self._libraries.names:
            await self._libraries.listed(name)

        def listed() -> tuple[list[Listed], int | None]:
            entries = [
                (screen, record)
                for name in self._libraries.names
                for screen in [self._library(name, "")]
                for record in screen.documents()
            ]
            after = start + MOST_LISTED
            some = [screen.listed(record) for screen, record in entries[start:after]]
            return some, after if after < len(entries) else None

        return await anyio.to_thread.run_sync(listed)

    async def _record(self, name: str, what: Action, words: str) -> str:
        """The library of that name, once it is written down what is done there."""
        name = self._libraries.named(name)
        await anyio.to_thread.run_sync(self._libraries.engine, name)
        await recorded(name, what, words)
        return name

    def _library(self, name: str, question: str) -> _LibraryScreen:
        engine, naming = self._libraries.engine(name), self._libraries.naming(name)
        return _LibraryScreen(name, engine, naming, question, self._address)


class _LibraryScreen:
    """What of one library is shown in answer to one question."""

    def __init__(
        self,
        library: str,
        engine: Engine,
        naming: Naming,
        question: str,
        address: Callable[[View], str] | None,
    ) -> None:
        self.engine = engine
        self._naming = naming
        self._name = library
        self._screen = Screen(question, engine.tokenizer, engine.may_steer)
        self._redactor = Redactor(engine.settings.hosted.redact)
        self._address = address
        self.disarmed = 0
        """Words that would have been links, pictures or HTML where Markdown is rendered."""
        self._private_sources = PrivateSources(engine.settings.hosted.private)
        self._private = self._private_sources.documents(engine.library)

    @property
    def allowed(self) -> Filter | None:
        """What a search may find."""
        return Filter(without=self._private) if self._private else None

    @property
    def left_out(self) -> int:
        """How many sentences were left out."""
        return self._screen.left_out

    def documents(self) -> list[DocumentRecord]:
        """All that may be shown."""
        return [
            document
            for document in self.engine.library.documents()
            if document.id not in self._private
        ]

    def added(self, event: Committed | Linked) -> str:
        """What a file that was added is called; "" for one of a private document."""
        if event.document_id in self._private:
            return ""
        return self._file(self._naming.of(event.source), event.document_id)

    def not_read(self, failure: Failed) -> NotRead | None:
        """Which file could not be read, and why; None for a private one."""
        if self._private_sources.holds(failure.source):
            return None
        reason = spoken(without_paths(failure.error))
        return NotRead(self.own(shown_name(failure.source)), self.own(reason))

    def document(self, reference: str) -> DocumentRecord:
        """The document of that id, its beginning, URI or name. Raises `UsageError`."""
        if reference.startswith(SCHEME):
            reference = _parts(reference)[1]
        record = self.engine.library.document_record(reference)
        if record is not None and record.id not in self._private:
            return record
        documents = self.documents()
        # Of names in which something is replaced, the numbers are those of another reply.
        names = {
            document.id: set(self._sources(document)).intersection(self.names(document))
            for document in documents
        }
        matches = [document for document in documents if reference in names[document.id]] or [
            document
            for document in documents
            if any(name.endswith(f"/{reference}") for name in names[document.id])
            or (len(reference) >= SHORT_ID and document.id.startswith(reference))
        ]
        if not matches:
            raise LibraryNotFoundError(
                "There is no document {name}.", hint="See list_documents.", name=reference
            )
        if len(matches) > 1:
            raise UsageError(
                "{count} documents have the name {name}: {ids}.",
                hint="Give the id of one of them.",
                count=len(matches),
                name=reference,
                ids=", ".join(document.id[:SHORT_ID] for document in matches),
            )
        return matches[0]

    def passage(self, number: int, hit: ScoredChunk) -> Passage:
        """A passage that was found."""
        chunk = hit.chunk
        hit = self._screen_place(hit, chunk.document_id)
        return Passage(
            number,
            chunk.document_id,
            hit.source,
            cited_as(hit),
            chunk.first_page,
            self._text(shown_text(chunk)),
            round(hit.score, 6),
            _uri(self._name, chunk.document_id, chunk.first_page),
            self._link(chunk.document_id, chunk.start, chunk.end),
        )

    def quotation(self, answer: Answer, citation: Citation) -> Quotation:
        """A quotation of an answer."""
        view = quoted(self._name, answer, citation)
        return self._quote(citation, view.document, view)

    def table(self, table: Table, start: int) -> TableText:
        """A table: as many rows as are given at once, totals of all."""

        def name(row: Row) -> str:
            display_name = self._naming.of(row.source)
            return display_name if self._steers_nobody(display_name) else row.document_id[:SHORT_ID]

        named = named_table(table, name)
        some = named.rows[start : start + MOST_LISTED]
        after = start + len(some)
        return TableText(
            self._name,
            [column.question for column in named.columns],
            len(named.rows),
            [self._row(row, named.columns) for row in some],
            [
                [self.own(line) for line in total_lines(column, total)]
                for column, total in zip(named.columns, named.totals, strict=True)
            ],
            all(total.completeness.final for total in named.totals),
            round(named.seconds, 3),
            self.left_out,
            after if after < len(named.rows) else UNSET,
            self.disarmed,  # once all of it has been shown
        )

    def _row(self, row: Row, columns: Sequence[Column]) -> TableRow:
        cells = []
        for column, cell in zip(columns, row.cells, strict=True):
            table_cell = TableCell(cell.state, self.own(cell_text(cell, column)))
            for citation in cell.citations[:1]:
                cited = self._screen_place(citation, row.document_id)
                table_cell.where, table_cell.quote = cited_as(cited), self._text(citation.quote)
                if (view := view_of(self._name, row.document_id, citation)) is not None:
                    table_cell.link = self._link(row.document_id, view.start, view.end)
            cells.append(table_cell)
        resource = _uri(self._name, row.document_id)
        return TableRow(row.document_id, self.own(row.source), cells, resource)

    def summary(self, summary: Summary) -> SummaryText:
        """A summary, with quotations for each section."""
        return SummaryText(
            self._name,
            [self._document(numbered(document), summary.about) for document in summary.documents],
            summary.total,
            summary.final,
            round(summary.seconds, 3),
            self.left_out + sum(document.left_out for document in summary.documents),
            self.disarmed,  # once all of it has been shown
        )

    def _document(self, document: DocumentSummary, about: str) -> DocumentText:
        named = replace(
            document,
            sections=tuple(
                replace(section, heading=self._safe(section.heading))
                for section in document.sections
            ),
        )
        lines = map(self._safe, card_texts(document.card))
        return DocumentText(
            document.document_id,
            self._file(self._naming.of(document.source), document.document_id),
            [line for line in lines if line],
            [
                SectionText(
                    section_title(named, number),
                    self._text(section_text(section)),
                    section.state,
                    [
                        self._quotation(citation, document.document_id)
                        for citation in citations_of(section.statements)
                    ],
                )
                for number, section in enumerate(named.sections)
            ],
            coverage_lines(document, about),
            _uri(self._name, document.document_id),
        )

    def _quotation(self, citation: Citation, document: str) -> Quotation:
        named = replace(citation, source=self._naming.of(citation.source))
        return self._quote(named, document, view_of(self._name, document, citation))

    def _quote(self, citation: Citation, document: str, view: View | None) -> Quotation:
        cited = self._screen_place(citation, document)
        return Quotation(
            citation.marker,
            document,
            cited.source,
            cited_as(cited),
            citation.page,
            self._text(citation.quote),
            _uri(self._name, document, citation.page),
            UNSET if view is None else self._link(document, view.start, view.end),
        )

    def computed(self, dataset: Dataset, computed: Computed) -> ComputedText:
        """What was computed over the rows of sheets."""
        lines = [self._text(line) for line in computed_lines(dataset, computed)]
        answer = self._text(answer_text(dataset, computed)) if computed.sure else ""
        return ComputedText(
            self._name, answer, computed.sure, lines, self.left_out, disarmed=self.disarmed
        )

    def missing(self, answer: Answer, missing: NotFound) -> Missing:
        """What the documents do not answer; wordings of theirs that could steer a model go."""
        closest = missing.closest
        suggestions = (self._safe(suggestion.question) for suggestion in missing.suggestions)
        return Missing(
            self.own(missing.question),
            [self.own(word) for word in missing.looked_for],
            self.own(reason_text(missing)),
            self.quotation(answer, closest) if closest is not None else None,
            [question for question in suggestions if question],
        )

    def page(self, record: DocumentRecord, span: PageSpan, start: int, mark: str) -> PageText:
        """A page from there on, with signs around words that are to be marked."""
        library = self.engine.library
        text = library.text(record.id, span.start, span.end)
        end = min(len(text), start + LONGEST)
        place = library.place(record.id, span.start) or Place(span.start, number=span.number)
        place = replace(place, heading="", paragraph=None, row=None, label=self._safe(place.label))
        name, at = self.name(record), place_text(place)
        content = self._screen_text(text, start, end)
        spans = occurrences(content, mark) if mark else ()
        for a, b in reversed(spans):
            content = f"{content[:a]}{BEFORE}{content[a:b]}{BEHIND}{content[b:]}"
        content = self._disarm(content)
        return PageText(
            self._name,
            record.id,
            name,
            tr("{name}, {place}", name=name, place=at) if at else name,
            span.number,
            record.pages,
            content,
            self.left_out,
            _uri(self._name, record.id, span.number),
            notes=[not_found()] if mark and not spans else [],
            next_start=end if end < len(text) else UNSET,
            disarmed=self.disarmed,
            link=self._link(record.id, span.start + min(start, end), span.start + end),
        )

    def view(self, record: DocumentRecord, span: PageSpan, mark: str) -> View | None:
        """What to draw of a page; None where its image would show what its text does not."""
        text = self.engine.library.text(record.id, span.start, span.end)
        if self._screen.shown(text) != text or self._redactor.redact(text)[1]:
            return None
        matches = occurrences(text, mark) if mark else ()
        start, end = matches[0] if matches else (0, 0)
        return View(self._name, record.id, span.start + start, span.start + end)

    def listed(self, record: DocumentRecord) -> Listed:
        """A document in a list."""
        uri = _uri(self._name, record.id)
        return Listed(record.id, self.name(record), record.pages, record.language, uri)

    def name(self, record: DocumentRecord) -> str:
        """What a document is called."""
        return self._file(next(iter(self._sources(record)), record.title), record.id)

    def names(self, record: DocumentRecord) -> tuple[str, ...]:
        """What its files are called, as far as that may be known: by this they are looked up."""
        return tuple(map(self._redact, self._sources(record)))

    def _sources(self, record: DocumentRecord) -> tuple[str, ...]:
        return self._naming.document(record).sources

    def answer(self, answer: Answer) -> str:
        """An answer, with the numbers of passages for names that could steer a model."""
        language = answer.language if is_code(answer.language) else CODES[0]

        def named(statement: Statement) -> Statement:
            if statement.kind != "otherwise":
                return statement
            (cited,) = statement.citations
            if self._steers_nobody(file_of(cited.citation.source)):
                return statement
            text = otherwise(f"[{cited.citation.marker}]", statement.part, language)
            behind = statement.text[cited.at :]
            mark, copied = replace(cited, at=len(text)), (statement.part,)
            return replace(statement, text=f"{text}{behind}", citations=(mark,), copied=copied)

        statements = tuple(self._screen_copied(named(part)) for part in answer.statements)
        return self.own(replace(answer, statements=statements).text)

    def _screen_copied(self, statement: Statement) -> Statement:
        """A statement whose words that no model wrote steer nobody; its markers stay."""
        text, marks, copied = statement.text, statement.citations, statement.copied
        if copied is None or not all(words in text for words in copied):
            copied = (text,)
        for words in sorted({*copied}, key=len, reverse=True):  # a name may be within another
            screened = self._screen_text(words)
            if screened == self._redact(words):
                continue
            matches = re.finditer(re.escape(words), text)
            changes = [Change(*match.span(), screened) for match in matches]
            text = changed(text, changes)
            marks = tuple(replace(mark, at=moved(mark.at, changes)) for mark in marks)
        return replace(statement, text=text, citations=marks)

    def own(self, text: str) -> str:
        """Words of the language model of this machine, which have been checked."""
        return self._disarm(self._redact(text))

    def _text(self, text: str) -> str:
        return self._disarm(self._screen_text(text))

    def _safe(self, text: str) -> str:
        """A text that is given whole or not at all."""
        return self.own(text) if self._steers_nobody(text) else ""

    def _steers_nobody(self, text: str) -> bool:
        return bool(text) and self._screen.shown(text) == text

    def _screen_text(self, text: str, start: int = 0, end: int | None = None) -> str:
        # Of the whole: what is cut out of a text may be no match any more.
        changes = [Change(*replaced) for replaced in self._redactor.placeholders(text)]
        end = len(text) if end is None else end
        whole = changed(text, changes)
        return as_text(self._screen.shown(whole, moved(start, changes), moved(end, changes)))

    def _redact(self, text: str) -> str:
        return as_text(self._redactor.redact(text)[0])

    def _disarm(self, text: str) -> str:
        inert_text = inert(text)
        self.disarmed += inert_text.changed
        return inert_text.text

    def _file(self, name: str, document: str) -> str:
        return self._safe(name) or document[:SHORT_ID]

    def _screen_place(self, cited: Cited, document: str) -> Cited:
        place = cited.place
        if place is not None:
            heading, label = self._safe(place.heading), self._safe(place.label)
            place = replace(place, heading=heading, label=label)
        return replace(cited, source=self._file(cited.source, document), place=place)

    def _link(self, document: str, start: int, end: int) -> str | UnsetType:
        if self._address is None:
            return UNSET
        return self._address(View(self._name, document, start, end))


def _is_unsupported(answer: Answer) -> bool:
    """Whether an answer claims to be from passages, of which none bears it out."""
    own = citations_of(without_quotation(answer.statements))
    accounted = answer.grounded or own or answer.not_found or not answer.contexts
    return not (accounted or answer.refuses or answer.statements[0].kind == "notice")


def _uri(library: str, document: str, page: int | None = None) -> str:
    uri = f"{SCHEME}{quote(library, safe='')}/{document}"
    return uri if page is None else f"{uri}/{page}"


def _parts(uri: str) -> tuple[str, str, int]:
    """Library, document and page. Raises `UsageError`."""
    library, _, rest = uri.removeprefix(SCHEME).partition("/")
    document, _, page = rest.partition("/")
    number = page or "1"
    if not (uri.startswith(SCHEME) and document and number.isascii() and number.isdigit()):
        raise UsageError(
            "{uri} is not a page of a library.",
            hint="They look like localrag://LIBRARY/DOCUMENT/PAGE.",
            uri=uri,
        )
    return unquote(library), document, int(number[:9])


def _progress_text(event: object) -> str:
    """What is told of an event; "" for nothing."""
    match event:
        case Begun():
            return begun_text(event)
        case SummaryBegun():
            return summary_begun_text(event)
        case CellDone(kept=False):
            return tr("{count} cells left", count=event.left)
        case SectionDone(kept=False):
            return tr("{count} sections left", count=event.left)
        case Step(kind="cell"):
            return tr("{count} cells left", count=event.values["left"])
        case Step():  # its values hold words of documents, and names of files
            return step_name(event.kind)
    return ""


def _waiting(tell: Tell) -> OnWait:
    """Tells how many are before this one."""

    async def wait(position: int, seconds: float) -> None:
        await tell(
            tr("{count} before this one; about {seconds:.0f} s", count=position, seconds=seconds)
        )

    return wait


@asynccontextmanager
async def _beating(tell: Tell) -> AsyncIterator[None]:
    """Tell from time to time how long it has taken so far."""

    async def beat() -> None:
        started = time.monotonic()
        while True:
            await asyncio.sleep(_BEAT)
            await tell(tr("{seconds:.0f} s so far", seconds=time.monotonic() - started))

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        beats.cancel()


async def _tell_nobody(_: str) -> None:
    """Tell nobody."""
