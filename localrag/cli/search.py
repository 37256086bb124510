"""`localrag search`: passages, without a language model unless --expand asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.filtering import expand_option, filter_options
from localrag.cli.output import (
    RERANKERS,
    emit_json,
    json_option,
    library_option,
    note,
    note_rebuilding,
    question_argument,
    say,
    stdout_console,
)
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.catalogue.filters import Filter
    from localrag.types import Step


@click.command(
    help=tr("Find passages; no language model is used unless --expand or --rerank asks.")
)
@question_argument
@click.option(
    "-k", metavar=tr("NUMBER"), type=click.IntRange(1, 1000), help=tr("How many passages.")
)
@click.option(
    "--mode", type=click.Choice(["hybrid", "dense", "keyword"]), help=tr("How to search.")
)
@click.option(
    "--rerank", type=click.Choice(RERANKERS), help=tr("How to reorder the search results.")
)
@expand_option
@filter_options
@click.option("--explain", is_flag=True, help=tr("Show the rank in each of the two searches."))
@library_option
@json_option
def search(
    question: str,
    k: int | None,
    mode: str | None,
    rerank: str | None,
    expand: str | None,
    wanted: Filter,
    explain: bool,
    library: Path,
    as_json: bool,
) -> None:
    """Search and print."""
    from localrag.api import LocalRAG
    from localrag.cli.render import print_hits
    from localrag.config.settings import load_settings
    from localrag.presentation.records import plain
    from localrag.presentation.steps import step_line

    overrides: dict[str, object] = {"retrieval.mode": mode} if mode else {}
    steps: list[Step] = []
    settings = load_settings(overrides)
    with LocalRAG.open(
        library, settings=settings, create=False, on_note=note, on_damage=note_rebuilding
    ) as rag:
        hits = rag.search(
            question,
            k=k,
            filter=wanted,
            expand=expand or False,
            rerank=rerank,
            on_step=steps.append,
        )
    if as_json:
        emit_json({"question": question, "hits": plain(hits), "trace": plain(steps)})
        return
    for step in steps:
        if step.kind != "rerank":  # what it has to say was said when it happened
            note(step_line(step))
    if hits:
        print_hits(stdout_console(), hits, explain=explain)
    else:
        say(tr("Nothing found."))
