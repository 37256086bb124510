"""`localrag compare`: questions through every reranker, or in two modes, side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    MODES,
    ListItem,
    common_options,
    emit_json,
    file_option,
    k_option,
    named_output,
    note_tr,
    open_library,
    page_option,
    stdout_console,
    table,
    write_report,
)
from localrag.documents.tables import shown_text
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.console import Console

    from localrag.api import LocalRAG
    from localrag.evaluation.comparisons.base import Compared, ComparedQuestion, Output, Stage
    from localrag.evaluation.comparisons.pairs import Verdict
    from localrag.library.location import Location
    from localrag.presentation.comparisons import Shown


def _modes(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, str] | None:
    """`standard,self-rag`, in either order."""
    if value is None:
        return None
    first, *rest = (part.strip() for part in value.split(","))
    second = rest[0] if len(rest) == 1 else ""
    if sorted((first, second)) != sorted(MODES):
        raise click.BadParameter(
            tr("two modes look like standard,self-rag, not {value}", value=value)
        )
    return first, second


@click.command(
    help=tr(
        "Compare rerankers on one question: passages, answers and times. With --modes, compare "
        "the ways to answer, on one question or many."
    )
)
@click.argument("question", metavar=tr("[QUESTION]"), required=False)
@click.option(
    "--modes",
    metavar="standard,self-rag",
    callback=_modes,
    help=tr("Answer in both ways; the language model judges which answer is better, and why."),
)
@file_option(
    "--questions",
    "file",
    text=tr("With --modes: a file of questions (JSON, JSONL, CSV, or text with one per line)."),
)
@click.option(
    "--reference",
    metavar=tr("TEXT"),
    default="",
    help=tr("The right answer; the language model then judges the answers by it."),
)
@k_option(50)
@page_option
@common_options
def compare(
    question: str | None,
    modes: tuple[str, str] | None,
    file: Path | None,
    reference: str,
    k: int | None,
    page: Path | None,
    library: Location,
    as_json: bool,
) -> None:
    """Compare and print."""
    if (question is None) == (file is None):
        raise click.UsageError(tr("Give a question, or --questions with a file of questions."))
    if file and (reference or not modes):
        raise click.UsageError(
            tr("--questions needs --modes, and the reference answers go into the file.")
        )
    from localrag.system.files import check_output

    if page:  # before a long run and not after it
        with named_output(page):
            check_output(page)
    from localrag.evaluation.comparisons.base import Comparison, asked_with, read_questions
    from localrag.presentation.comparisons import of_modes, of_rerankers, render_page

    questions = read_questions(file) if file else [asked_with(question or "", reference)]
    stopped: BaseException | None = None
    with open_library(library) as rag:
        if modes:
            done, stopped = _in_modes(rag, questions, modes, k)
            display = of_modes(Comparison(modes, rag.model.llm.name, len(questions), tuple(done)))
        else:
            compared = rag.compare(
                question or "",
                reference=reference.strip(),
                k=k,
                progress=lambda name: note_tr("Reranking: {name} …", name=name),
            )
            display = of_rerankers(compared)
    if page:
        write_report(page, render_page(display))
        note_tr("The page is in {path}.", path=page)
    if as_json:
        emit_json(display.record())
    elif not page:
        _print(stdout_console(), display)
    if stopped is not None:
        raise stopped


def _in_modes(
    rag: LocalRAG, questions: Sequence[ComparedQuestion], modes: tuple[str, str], k: int | None
) -> tuple[list[Compared[Verdict]], BaseException | None]:
    """What was done, and what stopped or failed the run where something was done before that."""
    from localrag.errors import LocalragError
    from localrag.evaluation.comparisons.base import JUDGE
    from localrag.presentation.comparisons import name_of
    from localrag.presentation.durations import duration

    def say_stage(stage: Stage) -> None:
        name = tr("judging") if stage.name == JUDGE else name_of(stage.name)
        note_tr(
            "question {number} of {all}: {name} …",
            number=stage.number,
            all=len(questions),
            name=name,
        )

    note_tr("Reading …")
    done: list[Compared[Verdict]] = []
    try:
        with closing(rag.compare_modes(questions, modes, say_stage, k=k)) as comparing:
            started = time.monotonic()
            for compared in comparing:
                done.append(compared)
                if len(done) < len(questions):
                    remaining = (
                        (time.monotonic() - started) / len(done) * (len(questions) - len(done))
                    )
                    note_tr(
                        "{done} of {asked} questions, {time} left",
                        done=len(done),
                        asked=len(questions),
                        time=duration(remaining),
                    )
    except (KeyboardInterrupt, LocalragError) as error:
        if not done:
            raise
        return done, error
    return done, None


def _print(console: Console, display: Shown) -> None:
    from rich.text import Text

    from localrag.presentation.comparisons import verdicts

    for number, question in enumerate(display.comparison.questions, start=1):
        console.print()
        console.print(Text(f"{number}. {as_name(question.asked.question)}", style="bold"))
        if question.asked.reference:
            label = tr("Reference answer")
            console.print(Text(f"{label}: {as_name(question.asked.reference)}", style="dim"))
        for way in question.ways:
            _print_way(console, way)
        if not question.candidates:
            heads, *rows = verdicts(question)
            console.print(table(heads, rows))
    console.print()
    for section in display.sections:
        console.print(Text(section.heading, style="bold"))
        for line in section.lines:
            console.print(Text("  " + line))


def _print_way(console: Console, way: Output) -> None:
    from rich.text import Text

    from localrag.presentation import comparisons as words
    from localrag.presentation.answers import marked_text
    from localrag.presentation.places import cited_as

    answer = way.answer
    title = Text(words.title(way.name), style="bold cyan")
    about = f"  {words.times(way)} · {words.outcome(way.outcome)}"
    console.print(title.append(about, style="dim"))
    console.print(Text(marked_text(answer) if answer.citations or answer.support else answer.text))
    if way.passages:
        rows = []
        for rank, placed in enumerate(way.passages, start=1):
            chunk = placed.context.chunk
            passage = f"{cited_as(placed.context)}: {words.excerpt(shown_text(chunk), 120)}"
            rows.append((str(rank), str(placed.before), f"{placed.context.score:.3f}", passage))
        heads = tr("Rank"), tr("Before"), tr("Score"), tr("Passage")
        console.print(table(heads, rows, no_wrap=True, overflow="ellipsis"))
    else:
        for citation in answer.citations:
            line = f"[{citation.marker}] {cited_as(citation)}"
            console.print(ListItem(Text(line, style="cyan")))
    if line := words.remark(way):
        console.print(Text(line, style="dim"))
