"""`localrag search`: passages, without a language model unless --expand asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from localrag.cli.filtering import expand_option, filter_options
from localrag.cli.output import (
    any_library_option,
    emit_json,
    json_option,
    k_option,
    note,
    note_tr,
    question_argument,
    rerank_option,
    say_tr,
    server_option,
    stdout_console,
)
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.location import Location
    from localrag.types import Step


@click.command(
    help=tr("Find passages; no language model is used unless --expand or --rerank asks.")
)
@question_argument
@k_option(1000, tr("How many passages."))
@click.option(
    "--mode", type=click.Choice(["hybrid", "dense", "keyword"]), help=tr("How to search.")
)
@rerank_option
@expand_option
@filter_options
@click.option("--explain", is_flag=True, help=tr("Show the rank in each of the two searches."))
@any_library_option
@server_option
@json_option
def search(
    question: str, explain: bool, library: Location, as_json: bool, server: bool, **options: Any
) -> None:
    """Search and print."""
    from localrag.cli.render import print_hits
    from localrag.cli.served import ServedLibrary, answering
    from localrag.presentation.records import plain
    from localrag.presentation.steps import step_line

    steps: list[Step] = []
    with answering(library, server=server) as rag:
        hits = rag.search(question, on_step=steps.append, **options)
        empty = not hits and not isinstance(rag, ServedLibrary) and rag.library.is_empty()
    if as_json:
        emit_json({"question": question, "hits": plain(hits), "trace": plain(steps)})
        return
    for step in steps:
        if step.kind != "rerank":  # what it has to say was said when it happened
            note(step_line(step))
    if hits:
        print_hits(stdout_console(), hits, explain=explain)
    else:
        say_tr("Nothing found.")
    if empty:
        note_tr("The library is empty. Add documents first: localrag add PATH")
