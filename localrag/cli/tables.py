"""`localrag tables`: tables that were saved by a name, and what they ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    any_library_option,
    common_options,
    emit_json,
    note_tr,
    open_library,
    say,
    say_tr,
    table_option,
)
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.group(
    subcommand_metavar=tr("[COMMAND] [ARGS]..."),
    help=tr("List, show and remove tables that were saved with `localrag table --save`."),
)
def tables() -> None:
    """The group."""


@tables.command("list", help=tr("List the saved tables with their documents and questions."))
@common_options
def list_tables(library: Location, as_json: bool) -> None:
    """List them."""
    from localrag.presentation.tables import saved_json, saved_lines

    with open_library(library) as rag:
        saved_tables = rag.saved_tables()
    if as_json:
        emit_json({"tables": [saved_json(saved) for saved in saved_tables]})
        return
    for saved in saved_tables:
        for line in saved_lines(saved):
            say(line)
    if not saved_tables:
        note_tr("No table is saved.")


@tables.command(
    help=tr("Show a saved table: documents that have come or changed since are asked, no others.")
)
@click.argument("name", metavar=tr("NAME"))
@table_option
@common_options
def show(name: str, output: Path | None, library: Location, as_json: bool) -> None:
    """Ask what is new, and print."""
    from localrag.cli.table import ask_and_print
    from localrag.tables.saved import saved_table

    ask_and_print(
        library,
        lambda rag: saved_table(rag.library, name).columns,
        lambda rag, **heard: rag.saved_table(name, **heard),
        output,
        as_json=as_json,
    )


@tables.command(help=tr("Remove a saved table; what was read stays with the documents."))
@click.argument("name", metavar=tr("NAME"))
@any_library_option
def remove(name: str, library: Location) -> None:
    """Remove one."""
    with open_library(library) as rag:
        rag.forget_table(name)
    say_tr("Removed: {name}", name=name)
