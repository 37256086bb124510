"""`localrag ask`: an answer with checked citations, written as it comes."""

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
    stdout_console,
)
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.stores.filters import Filter
    from localrag.types import Answer


@click.command(help=tr("Answer a question from your documents, with citations."))
@click.argument("question", metavar=tr("QUESTION"))
@click.option(
    "-k",
    metavar=tr("NUMBER"),
    type=click.IntRange(1, 50),
    help=tr("How many passages the model reads."),
)
@click.option("--rerank", type=click.Choice(RERANKERS), help=tr("How to reorder what was found."))
@expand_option
@filter_options
@click.option("--explain", is_flag=True, help=tr("Show every step, its decision and its time."))
@library_option
@json_option
def ask(
    question: str,
    k: int | None,
    rerank: str | None,
    expand: str | None,
    wanted: Filter,
    explain: bool,
    library: Path,
    as_json: bool,
) -> None:
    """Ask and print."""
    from localrag.api import LocalRAG
    from localrag.cli.render import answer_json
    from localrag.config import load_settings, with_reranker

    overrides: dict[str, object] = {"answer.k": k} if k else {}
    if expand:
        overrides["retrieval.expansion"] = expand
    settings = with_reranker(load_settings(overrides), rerank)
    with LocalRAG.open(library, settings=settings, create=False, on_note=note) as rag:
        if as_json:
            emit_json(answer_json(rag.ask(question, filter=wanted)))
        else:
            print_answer(rag, question, explain=explain, wanted=wanted)


def print_answer(
    rag: LocalRAG, question: str, *, explain: bool, wanted: Filter | None = None
) -> Answer:
    """Stream an answer to the terminal, then its evidence; returns it."""
    from localrag.cli.output import printable
    from localrag.cli.render import print_evidence, print_trace
    from localrag.types import Answer

    note(tr("Reading …"))
    answer: Answer | None = None
    for piece in rag.stream(question, filter=wanted):
        if isinstance(piece, Answer):
            answer = piece
        else:
            click.echo(printable(piece), nl=False)
    click.echo()
    assert answer is not None, "a stream ends with its answer"  # noqa: S101
    console = stdout_console()
    print_evidence(console, answer)
    if explain:
        print_trace(console, answer)
    return answer
