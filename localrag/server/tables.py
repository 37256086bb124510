"""Tables of documents for the page: `localrag table` as events, and tables that were saved.

`GET /api/tables` takes `library` and gives what there is to choose from: `folders` and `types` with
the number of their documents, and the saved tables. `POST /api/tables` asks (`TableRequest`);
events are waiting, begun, cells, note, table, error. What was read is kept in the library: a table
that was stopped goes on where it was, and with `kept_only` nothing is read. The finished table can
be had as a file, until something is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from localrag.documents.formats import table as formats
from localrag.engine import AskOptions
from localrag.errors import LibraryNotFoundError, RemovedError
from localrag.library.catalogue.filters import Filter
from localrag.library.catalogue.saved_tables import normalised
from localrag.library.records import NotKept
from localrag.messages import spoken, spoken_to, tr
from localrag.presentation.records import plain
from localrag.presentation.tables import (
    begun_text,
    cell_text,
    check_suffix,
    exported,
    reason_text,
    saved_json,
    total_lines,
)
from localrag.server.asker import linked_language
from localrag.server.bounds import Question, expect_few_cells
from localrag.server.evaluating import ALONE
from localrag.server.jobs import BackgroundJob, WorkRoutes
from localrag.server.naming import named_table, without_paths
from localrag.server.replies import decoded, reply
from localrag.server.results import Results
from localrag.server.routing import route
from localrag.tables.documents import check_columns
from localrag.tables.records import (
    Begun,
    Cell,
    CellDone,
    Column,
    Event,
    Row,
    SavedTable,
    Table,
)
from localrag.tables.saved import forget_table, save_table, saved_table, saved_tables

_AT_ONCE = 200
"""Cells of one event."""
_MEDIA = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

Patterns = Annotated[list[Annotated[str, Meta(max_length=1000)]], Meta(max_length=100)]


class Chosen(msgspec.Struct, forbid_unknown_fields=True):
    """Which documents: of all, those in `patterns` (folders, names), of `types`, with `words`."""

    library: str = ""
    patterns: Patterns = []
    types: list[str] = []
    words: Question = ""


class ToSave(Chosen, forbid_unknown_fields=True):
    """What is kept under a name."""

    columns: list[Column] = []

    def under(self, name: str) -> SavedTable:
        """The table of that name."""
        chosen, columns = tuple(self.patterns), tuple(self.columns)
        return SavedTable(name, chosen, columns, self.words, tuple(self.types))


class TableRequest(ToSave, forbid_unknown_fields=True):
    """What is asked of them; or the name of a table that was `saved`, which says all of that.

    With `kept_only`, what was read before is shown and nothing is read.
    """

    saved: Annotated[str, Meta(max_length=1000)] = ""
    kept_only: bool = False


@dataclass(frozen=True, slots=True)
class Tables(WorkRoutes):
    """The routes below /api/tables."""

    results: Results

    @route("/api/tables")
    async def choices(self, request: Request) -> Response:
        """Folders, kinds and saved tables."""
        name = request.query_params.get("library", "")
        engine = self.libraries.engine(name)
        await self.libraries.listed(name)

        def gathered() -> dict[str, Any]:
            folders, types = Counter[str](), Counter[str]()
            for path in engine.library.paths():
                parts = engine.located(path).split("/")[:-1]
                folders.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
                types[(formats.format_of(path) or formats.TEXT).name] += 1
            return {
                "folders": [{"name": name, "count": folders[name]} for name in sorted(folders)],
                "types": [
                    {"name": name, "count": types[name]} for name in formats.names() if types[name]
                ],
                "saved": [_saved_record(saved) for saved in saved_tables(engine.library)],
            }

        return reply(await anyio.to_thread.run_sync(gathered))

    @route("/api/tables/documents", "POST")
    async def documents(self, request: Request) -> Response:
        """How many documents are chosen, of how many, and the names of the first."""
        body = await decoded(request, Chosen)
        library, engine = await self.libraries.open_recorded(body.library, "search", body.words)
        naming = self.libraries.naming(library)

        def chosen() -> dict[str, Any]:
            selection = engine.selection(body.patterns, body.words, _options(body))
            names = [naming.of(record.sources[0]) for record in selection.documents[:_AT_ONCE]]
            return {"count": len(selection.documents), "total": selection.total, "names": names}

        async with self.queue.processors.turn():
            return reply(await anyio.to_thread.run_sync(chosen))

    @route("/api/tables", "POST")
    async def ask(self, request: Request) -> Response:
        """Ask each document, or show what is kept."""
        body = await decoded(request, TableRequest)
        stored = self.libraries.engine(body.library).library
        definition = body.under("")
        if body.saved:
            definition = await anyio.to_thread.run_sync(saved_table, stored, body.saved)
        check_columns(definition.columns)
        options, kept_only = _options(definition), body.kept_only

        def work(job: BackgroundJob) -> None:
            job.say_loading()
            before = job.engine.library.removals()
            telling = _TableEvents(job, definition.columns)
            events = job.engine.table(
                definition.patterns,
                definition.columns,
                definition.words,
                replace(options, stopped=job.stopped),
                lenient=bool(body.saved),
            )
            try:
                for event in events:
                    telling.hear(event, lambda table: self.results.keep(table, job.library, before))
            except RemovedError:
                self.results.forget(job.library)
                raise

        words = "\n".join(column.question for column in definition.columns)
        return await self.stream(request, body.library, "ask", words, work, kept_only=kept_only)

    @route("/api/tables/saved/{name}", "POST")
    async def save(self, request: Request) -> Response:
        """Keep under a name what is asked of which documents."""
        body = await decoded(request, ToSave)
        saved = body.under(request.path_params["name"])
        _, engine = await self.libraries.open_recorded(body.library, "add", saved.name)

        def keep() -> None:
            engine.selection(saved.patterns, options=_options(body))  # by names, never by paths
            save_table(engine.library, saved)

        await anyio.to_thread.run_sync(keep)
        return reply({"saved": saved.name})

    @route("/api/tables/saved/{name}", "DELETE")
    async def forget(self, request: Request) -> Response:
        """Forget a saved table."""
        name, library_name = request.path_params["name"], request.query_params.get("library", "")
        library, engine = await self.libraries.open_recorded(library_name, "remove", name)
        await anyio.to_thread.run_sync(forget_table, engine.library, name)
        self.results.forget(library)
        return reply({"removed": name})

    @route("/api/tables/{name}")
    async def file(self, request: Request) -> Response:
        """A table as a file: `.xlsx`, `.csv`, `.html`, `.md` or `.json`."""
        path = Path(request.path_params["name"])
        check_suffix(path)
        gone = LibraryNotFoundError(
            "This table is not here any more.", hint="Ask again: what was read is kept."
        )
        table = await self.results.exported(path.stem, Table, self.libraries, gone)
        language = linked_language(request)

        def made() -> str | bytes:
            with spoken_to(language):
                return exported(table, path)

        content = await anyio.to_thread.run_sync(made)
        headers = ALONE if path.suffix == ".html" else {}
        return Response(content, media_type=_MEDIA[path.suffix.lower()], headers=headers)


class _TableEvents:
    """Tells a table's events as the page hears them: files by their names, cells in words."""

    def __init__(self, job: BackgroundJob, columns: Sequence[Column]) -> None:
        self._job = job
        self._columns = columns
        self._rows: tuple[Row, ...] = ()
        self._cells: list[dict[str, Any]] = []
        self._left = 0

    def hear(self, event: Event, keep: Callable[[Table], str]) -> None:
        """Tell it, and let others go first where a cell was read."""
        match event:
            case Begun():
                self._begin(event)
            case CellDone():
                self._left = event.left
                row, column = self._rows[event.row], self._columns[event.column]
                self._add(event.row, event.column, row, event.cell, column)
                if not event.kept or len(self._cells) >= _AT_ONCE:
                    self._flush()
                if not event.kept:
                    self._job.give_way()
            case NotKept():
                reason = spoken(without_paths(event.error))
                self._job.note(tr("Cells are not kept for the next time: {reason}", reason=reason))
            case Table():
                self._end(event, keep)

    def _begin(self, event: Begun) -> None:
        expect_few_cells(event.documents * event.columns)
        self._rows, self._left = event.rows, event.to_read
        self._job.say(
            "begun",
            text=begun_text(event),
            cells=event.documents * event.columns,
            kept=event.kept,
            left=event.to_read,
            seconds=round(event.seconds, 1),
            rows=[{"document": row.document_id, "source": self._name(row)} for row in event.rows],
            columns=[column.question for column in self._columns],
        )

    def _end(self, table: Table, keep: Callable[[Table], str]) -> None:
        self._flush()
        for place, column in enumerate(table.columns):
            if column.kind == (self._columns[place].kind or "text"):
                continue
            for number, row in enumerate(table.rows):  # which have got their kind by now
                self._add(number, place, row, row.cells[place], column)
                if len(self._cells) >= _AT_ONCE:
                    self._flush()
            self._flush()
        named = named_table(table, self._name)
        self._job.say(
            "table",
            name=keep(named),
            columns=[
                {
                    "question": column.question,
                    "kind": column.kind,
                    "totals": total_lines(column, total),
                }
                for column, total in zip(named.columns, named.totals, strict=True)
            ],
            final=all(total.completeness.final for total in named.totals),
            left=sum(total.completeness.not_read for total in named.totals),
            seconds=round(table.seconds, 1),
        )

    def _add(self, number: int, place: int, row: Row, cell: Cell, column: Column) -> None:
        record = {
            "row": number,
            "column": place,
            "state": cell.state,
            "text": cell_text(cell, column),
            "value": plain(cell.value) if column.kind not in (None, "text") else None,
            "why": reason_text(cell),
            "citations": [
                self._job.citation(citation, row.document_id, row.source)
                for citation in cell.citations
            ],
        }
        self._cells.append(record)

    def _flush(self) -> None:
        if self._cells:
            self._job.say("cells", cells=self._cells, left=self._left)
            self._cells = []

    def _name(self, row: Row) -> str:
        return self._job.naming.of(row.source)


def _options(chosen: Chosen | SavedTable) -> AskOptions:
    paths = isinstance(chosen, SavedTable) and chosen.paths  # saved on a command line
    return AskOptions(filter=Filter(types=tuple(chosen.types)), paths=paths)


def _saved_record(saved: SavedTable) -> dict[str, Any]:
    """A saved table without paths, which one of a command line may name."""
    if saved.paths:
        ends = (normalised(pattern).rpartition("/")[2] for pattern in saved.patterns)
        saved = replace(saved, patterns=tuple(map("…/{}".format, ends)))
    return saved_json(saved)
