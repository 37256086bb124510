"""`localrag table`: every document is asked the same questions; rows are documents."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    any_library_option,
    emit_json,
    file_option,
    json_option,
    note,
    open_library,
    say,
    stdout_console,
    write_report,
)
from localrag.cli.output import table as grid
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.library.location import Location
    from localrag.tables.records import Column, ColumnKind, Event, Table


def _columns(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    """`date: When does it end?` as a question and the kind of its answers, where one is named."""
    kinds = {"text", "number", "money", "date", "yes/no"}
    columns: list[tuple[str, str | None]] = []
    for column in given:
        kind, colon, question = column.partition(":")
        named = bool(colon) and kind.strip().lower() in kinds
        columns.append((question.strip(), kind.strip().lower()) if named else (column, None))
    return tuple(columns)


@click.command(
    help=tr(
        "Ask each of several documents the same questions. Rows are documents, columns are "
        "questions; every cell has its citation, totals are computed, and what was not stated or "
        "not read is counted."
    )
)
@click.argument("patterns", metavar=tr("[PATTERN]..."), nargs=-1)
@click.option(
    "-c",
    "--column",
    "columns",
    multiple=True,
    required=True,
    metavar=tr("QUESTION"),
    callback=_columns,
    help=tr(
        "A question for each document; may be repeated. With a kind before it (text, number, "
        "money, date, yes/no), cells of another kind are doubtful: 'date: When does it end?'"
    ),
)
@click.option(
    "--words",
    default="",
    metavar=tr("WORDS"),
    help=tr("Only documents that hold at least one of these words."),
)
@file_option(
    "-o", "--output", text=tr("Save the table with its citations, as .xlsx, .csv, .html or .md.")
)
@any_library_option
@json_option
def table(
    patterns: tuple[str, ...],
    columns: tuple[tuple[str, ColumnKind | None], ...],
    words: str,
    output: Path | None,
    library: Location,
    as_json: bool,
) -> None:
    """Ask and print."""
    from localrag.presentation.tables import check_suffix, exported, table_json
    from localrag.tables.records import Column

    if output is not None:
        check_suffix(output)  # before hours of work
    stopped = threading.Event()
    wanted = [Column(question, kind) for question, kind in columns]
    with open_library(library) as rag, _stops(stopped):
        made = rag.table(patterns, wanted, words=words, on_event=_teller(wanted), stopped=stopped)
    if output is not None:
        write_report(output, exported(made, output))
        note(tr("Saved: {path}", path=output))
    if as_json:
        emit_json(table_json(made))
    else:
        print_table(made)


def _stops(stopped: threading.Event) -> _Interrupts:
    return _Interrupts(stopped)


class _Interrupts:
    """The first Ctrl-C ends the reading and shows what there is; the second ends the command."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped = stopped

    def __enter__(self) -> None:
        import signal

        self._before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._stop)

    def _stop(self, *_: object) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        self._stopped.set()
        note(tr("Stopping; what was read is kept. Press Ctrl-C again to end at once."))

    def __exit__(self, *_: object) -> None:
        import signal

        signal.signal(signal.SIGINT, self._before)


def _teller(columns: list[Column]) -> Callable[[Event], None]:
    """Says how much there is to do, and each cell as it is read."""
    from localrag.errors import LocalragError
    from localrag.presentation.tables import begun_text, cell_text
    from localrag.printable import as_name
    from localrag.tables.records import Begun, CellDone, NotKept

    told = False

    def hear(event: Event) -> None:
        nonlocal told
        if isinstance(event, Begun):
            note(begun_text(event))
        elif isinstance(event, CellDone) and not event.kept and event.cell.state != "not read":
            name = event.source.replace("\\", "/").rpartition("/")[2]
            shown = as_name(cell_text(event.cell, columns[event.column]))[:80]
            note(tr("{left} left. {name}: {value}", left=event.left, name=name, value=shown))
        elif isinstance(event, NotKept) and not told:
            told = True
            error = event.error
            reason = spoken(error) if isinstance(error, LocalragError) else str(error)
            note(tr("Cells are not kept for the next time: {reason}", reason=reason))

    return hear


def print_table(made: Table) -> None:
    """The grid, the quotations below it, and what follows from each column."""
    from localrag.documents.formats.table import shown_name
    from localrag.presentation.tables import cell_text, evidence_text, total_lines

    heads = [tr("File"), *(column.question for column in made.columns)]
    rows = [
        [
            shown_name(row.source),
            *(
                cell_text(cell, column)
                for cell, column in zip(row.cells, made.columns, strict=True)
            ),
        ]
        for row in made.rows
    ]
    stdout_console().print(grid(heads, rows, overflow="fold"))
    say("")
    for place, column in enumerate(made.columns):
        say(column.question)
        for row in made.rows:
            if evidence := evidence_text(row.cells[place]):
                say(f"  {evidence}")
        for line in total_lines(column, made.totals[place]):
            say(f"  {line}")
