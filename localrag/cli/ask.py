"""`localrag ask`: an answer with checked citations, written as it comes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import emit_json, json_option, library_option, note, stdout_console
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.types import Answer


@click.command(help=tr("Answer a question from your documents, with citations."))
@click.argument("question", metavar=tr("QUESTION"))
@click.option("-k", type=click.IntRange(1, 50), help=tr("How many passages the model reads."))
@click.option("--explain", is_flag=True, help=tr("Show every step, its decision and its time."))
@library_option
@json_option
def ask(question: str, k: int | None, explain: bool, library: Path, as_json: bool) -> None:
    """Ask and print."""
    from localrag.api import LocalRAG
    from localrag.cli.render import answer_json
    from localrag.config import load_settings

    overrides = {"answer.k": k} if k else {}
    with LocalRAG.open(library, settings=load_settings(overrides), create=False) as rag:
        if as_json:
            emit_json(answer_json(rag.ask(question)))
        else:
            print_answer(rag, question, explain=explain)


def print_answer(rag: LocalRAG, question: str, *, explain: bool) -> Answer:
    """Stream an answer to the terminal, then its evidence; returns it."""
    from localrag.cli.output import printable
    from localrag.cli.render import print_evidence, print_trace
    from localrag.types import Answer

    note(tr("Reading …"))
    answer: Answer | None = None
    for piece in rag.stream(question):
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
