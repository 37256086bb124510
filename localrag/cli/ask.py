"""`localrag ask`: an answer with checked citations, written as it comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Unpack

import click

from localrag.cli.filtering import expand_option, filter_options
from localrag.cli.output import (
    MODES,
    any_library_option,
    emit_json,
    json_option,
    k_option,
    note,
    note_tr,
    question_argument,
    read_seconds,
    rerank_option,
    say_text,
    server_option,
    stdout_console,
)
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.api import Asking
    from localrag.cli.served import Answering
    from localrag.library.location import Location
    from localrag.types import Answer, LeftOut, Step


@click.command(help=tr("Answer a question from your documents, with citations."))
@question_argument
@k_option(50)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help=tr("Read until a passage holds the answer, or grade each and check it all (Self-RAG)."),
)
@click.option(
    "--strict",
    is_flag=True,
    default=None,
    help=tr("Show only what the documents bear out; say so where they lack the answer."),
)
@click.option(
    "--budget",
    metavar=tr("TIME"),
    callback=read_seconds,
    help=tr("Self-RAG: the longest time for the answer, such as 30s or 2m."),
)
@rerank_option
@expand_option
@filter_options
@click.option("--explain", is_flag=True, help=tr("Show every step, its decision and its time."))
@any_library_option
@server_option
@json_option
def ask(
    question: str,
    explain: bool,
    library: Location,
    as_json: bool,
    server: bool,
    **options: Unpack[Asking],
) -> None:
    """Ask and print."""
    from localrag.cli.served import answering
    from localrag.config.settings import load_settings
    from localrag.presentation.records import plain

    settings = load_settings()
    graded = (options["mode"] or settings.answer.mode) == "self-rag"
    if options["budget"] and not graded:
        raise click.UsageError(tr("--budget needs --mode self-rag."))
    with answering(library, settings, server=server) as rag:
        if as_json:
            emit_json(plain(rag.ask(question, **options)))
        else:
            print_answer(rag, question, options, explain=explain)


def print_answer(rag: Answering, question: str, asked: Asking, *, explain: bool) -> Answer:
    """Stream an answer to the terminal, then its evidence; returns it."""
    from localrag.cli.decisions import Decisions
    from localrag.cli.render import print_evidence, print_left_out, print_trace
    from localrag.presentation.answers import marked_text
    from localrag.presentation.steps import note_text, step_line
    from localrag.types import Answer, Note

    began = time.monotonic()
    answer: Answer | None = None
    pending = ""
    left_out: list[LeftOut] = []
    with Decisions() as decisions:
        graded = (asked.get("mode") or rag.settings.answer.mode) == "self-rag"

        def heard(step: Step) -> None:
            left_out.extend(step.left_out)
            if graded:
                decisions.heard(step)
            elif "most" in step.values:
                note(step_line(step))

        note_tr("Reading …")
        for piece in rag.stream(question, on_step=heard, **asked):
            decisions.close()
            if left_out:
                print_left_out(stdout_console(), left_out)
                left_out.clear()
            if isinstance(piece, Answer):
                answer = piece
                # What was shown as it was written has its marks below, in the evidence.
                pending = marked_text(answer) if answer.metrics and answer.citations else pending
            say_text(pending, nl=False)
            pending = piece if isinstance(piece, str) else ""
    say_text()
    assert answer is not None, "a stream ends with its answer"  # noqa: S101
    console = stdout_console()
    print_evidence(console, answer, time.monotonic() - began)
    for step in answer.trace:
        if step.kind == "private":
            note(note_text(Note("private left out", step.values)))
    if explain:
        print_trace(console, answer)
    return answer
