"""`localrag table`: every document is asked the same questions; rows are documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.filtering import types_option
from localrag.cli.output import (
    common_options,
    emit_json,
    interruptible,
    note,
    note_tr,
    open_library,
    say,
    stdout_console,
    table_option,
    write_report,
)
from localrag.cli.output import table as grid
from localrag.library.catalogue.filters import Filter
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.library.location import Location
    from localrag.tables.records import Column, Event, Table


def _columns(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[Column, ...]:
    """Each with the kind of its answers, or the answers, where they are named before it."""
    from localrag.tables.records import column_of

    return tuple(map(column_of, texts))


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
        "money, date, yes/no), cells of another kind are doubtful: 'date: When does it end?' With "
        "answers before it, one of them is chosen: 'monthly | yearly: How often is it paid?'"
    ),
)
@click.option(
    "--words",
    default="",
    metavar=tr("WORDS"),
    help=tr("Only documents that hold at least one of these words."),
)
@types_option
@click.option(
    "--save",
    default="",
    metavar=tr("NAME"),
    help=tr("Keep the table under this name: `localrag tables show` asks what is new."),
)
@table_option
@common_options
def table(
    patterns: tuple[str, ...],
    columns: tuple[Column, ...],
    words: str,
    types: tuple[str, ...],
    save: str,
    output: Path | None,
    library: Location,
    as_json: bool,
) -> None:
    """Ask and print."""
    chosen = Filter(types=types) if types else None

    def make(rag: LocalRAG, **heard: Any) -> Table:
        return rag.table(patterns, columns, words=words, save=save, filter=chosen, **heard)

    ask_and_print(library, lambda _: columns, make, output, as_json=as_json)


def ask_and_print(
    library: Location,
    columns_of: Callable[[LocalRAG], Sequence[Column]],
    make: Callable[..., Table],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Show the table that `make` asks for; `on_event` and `stopped` are for `LocalRAG.table`."""
    from localrag.presentation.tables import check_suffix, exported, table_json

    if output is not None:
        check_suffix(output)  # before hours of work
    with open_library(library) as rag, interruptible() as stopped:
        result = make(rag, on_event=_event_printer(columns_of(rag)), stopped=stopped)
    if output is not None:
        write_report(output, exported(result, output))
        note_tr("Saved: {path}", path=output)
    if as_json:
        emit_json(table_json(result))
    else:
        print_table(result)


def _event_printer(columns: Sequence[Column]) -> Callable[[Event], None]:
    """Says how much there is to do, and each cell as it is read."""
    from localrag.library.records import NotKept
    from localrag.presentation.tables import begun_text, cell_text
    from localrag.printable import as_name
    from localrag.tables.records import Begun, CellDone

    is_reported = False

    def hear(event: Event) -> None:
        nonlocal is_reported
        if isinstance(event, Begun):
            note(begun_text(event))
        elif isinstance(event, CellDone) and not event.kept and event.cell.state != "not read":
            name = event.source.replace("\\", "/").rpartition("/")[2]
            value = as_name(cell_text(event.cell, columns[event.column]))[:80]
            note_tr("{count} left. {name}: {value}", count=event.left, name=name, value=value)
        elif isinstance(event, NotKept) and not is_reported:
            is_reported = True
            reason = spoken(event.error)
            note_tr("Cells are not kept for the next time: {reason}", reason=reason)

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
