"""`localrag search`: passages, without a language model."""

from __future__ import annotations

from pathlib import Path

import click

from localrag.cli.output import emit_json, json_option, library_option, stdout_console
from localrag.messages import tr


@click.command(help=tr("Find passages; no language model is used."))
@click.argument("question", metavar=tr("QUESTION"))
@click.option("-k", type=click.IntRange(1, 1000), help=tr("How many passages."))
@click.option(
    "--mode", type=click.Choice(["hybrid", "dense", "keyword"]), help=tr("How to search.")
)
@click.option("--explain", is_flag=True, help=tr("Show the rank that each half gave."))
@library_option
@json_option
def search(
    question: str, k: int | None, mode: str | None, explain: bool, library: Path, as_json: bool
) -> None:
    """Search and print."""
    from localrag.api import LocalRAG
    from localrag.cli.render import hit_json, print_hits
    from localrag.config import load_settings

    overrides = {"retrieval.mode": mode} if mode else {}
    with LocalRAG.open(library, settings=load_settings(overrides), create=False) as rag:
        hits = rag.search(question, k=k)
    if as_json:
        emit_json({"question": question, "hits": [hit_json(hit) for hit in hits]})
    elif hits:
        print_hits(stdout_console(), hits, explain=explain)
    else:
        click.echo(tr("Nothing found."))
