"""`localrag compare`: questions through every reranker, or in two modes, side by side."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    MODES,
    emit_json,
    json_option,
    library_option,
    note,
    note_rebuilding,
    stdout_console,
)
from localrag.messages import tr
from localrag.presentation.steps import decision
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.console import Console

    from localrag.evaluation.comparisons.rerankers import Comparison, Way


def _modes(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, str] | None:
    """`standard,self-rag`, in either order."""
    if value is None:
        return None
    first, *others = (part.strip() for part in value.split(","))
    second = others[0] if len(others) == 1 else ""
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
@click.option(
    "--questions",
    "file",
    metavar=tr("FILE"),
    type=click.Path(dir_okay=False, path_type=Path),
    help=tr("With --modes: a file of questions, JSON, JSONL, CSV, or text with one a line."),
)
@click.option(
    "--reference",
    metavar=tr("TEXT"),
    default="",
    help=tr("The right answer; the language model then judges the answers by it."),
)
@click.option(
    "-k",
    metavar=tr("NUMBER"),
    type=click.IntRange(1, 50),
    help=tr("How many passages the model reads."),
)
@click.option(
    "--html",
    "page",
    metavar=tr("FILE"),
    type=click.Path(dir_okay=False, path_type=Path),
    help=tr("Write a page to look at in a browser."),
)
@library_option
@json_option
def compare(
    question: str | None,
    modes: tuple[str, str] | None,
    file: Path | None,
    reference: str,
    k: int | None,
    page: Path | None,
    library: Path,
    as_json: bool,
) -> None:
    """Compare and print."""
    if (question is None) == (file is None):
        raise click.UsageError(tr("Give a question, or --questions with a file of questions."))
    if file and (reference or not modes):
        raise click.UsageError(
            tr("--questions needs --modes, and the reference answers stand in the file.")
        )
    if page:
        check_page(page)
    if modes:
        from localrag.cli.compare_modes import run
        from localrag.evaluation.comparisons.modes import asked_with, read_questions

        questions = read_questions(file) if file else [asked_with(question or "", reference)]
        run(library, questions, modes, k=k, page=page, as_json=as_json)
        return
    from localrag.api import LocalRAG

    assert question is not None  # noqa: S101 - checked above
    with LocalRAG.open(library, create=False, on_note=note, on_damage=note_rebuilding) as rag:
        comparison = rag.compare(
            question,
            reference=reference.strip(),
            k=k,
            progress=lambda name: note(tr("Reranking: {name} …", name=name)),
        )
    if page:
        from localrag.evaluation.comparisons.rerankers_page import render_page

        write_page(page, render_page(comparison))
    if as_json:
        emit_json(comparison_json(comparison))
    elif not page:
        _print(stdout_console(), comparison)


def check_page(path: Path) -> None:
    """Raise `UsageError` where no page can be written, before a long run and not after it."""
    from localrag.errors import UsageError
    from localrag.system.files import check_output

    try:
        check_output(path)
    except OSError as error:
        raise UsageError(
            "The page cannot be written to {path}: {reason}.",
            hint="Give the path of a file in a folder that exists.",
            path=path,
            reason=error.strerror,
        ) from error


def write_page(path: Path, html: str) -> None:
    """Write a page and say where it is."""
    from localrag.system.files import write_output

    write_output(path, html)
    note(tr("The page is in {path}.", path=path))


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    from localrag.cli.render import hit_json

    return {
        "question": comparison.question,
        "language": comparison.language,
        "reference": comparison.reference,
        "search_seconds": round(comparison.search_seconds, 3),
        "candidates": [hit_json(candidate) for candidate in comparison.candidates],
        "ways": [_way_json(way) for way in comparison.ways],
        "grades": [asdict(one) for one in comparison.grades],
        "verdict": comparison.verdict,
        "verdict_seconds": round(comparison.verdict_seconds, 3),
    }


def _way_json(way: Way) -> dict[str, Any]:
    from localrag.cli.render import answer_json, hit_json

    return {
        "name": way.name,
        "passages": [
            {"rank": rank, "rank_before": placed.before} | hit_json(placed.context)
            for rank, placed in enumerate(way.passages, start=1)
        ],
        "answer": answer_json(way.answer),
        "rerank_seconds": round(way.rerank_seconds, 3),
        "answer_seconds": round(way.answer_seconds, 3),
        "remark": decision(way.rerank, "en") if way.rerank else "",
        "same_answer_as": way.same_answer_as,
    }


def _print(console: Console, comparison: Comparison) -> None:
    from pathlib import PurePath

    from rich.table import Table
    from rich.text import Text

    for way in comparison.ways:
        times = tr(
            "reranking {rerank:.1f} s, answer {answer:.1f} s",
            rerank=way.rerank_seconds,
            answer=way.answer_seconds,
        )
        if way.same_answer_as:
            times = tr(
                "reranking {rerank:.1f} s; same passages in the same order as “{other}”, so the "
                "same answer",
                rerank=way.rerank_seconds,
                other=way.same_answer_as,
            )
        console.print()
        console.print(Text(way.name, style="bold cyan").append(f"  {times}", style="dim"))
        console.print(Text(way.answer.text))
        table = Table(box=None, header_style="dim", pad_edge=False, show_edge=False)
        for heading in (tr("Rank"), tr("Before"), tr("Score"), tr("Passage")):
            table.add_column(heading, no_wrap=True, overflow="ellipsis")
        for rank, placed in enumerate(way.passages, start=1):
            context = placed.context
            name = tr(
                "{name}, p. {page}",
                name=PurePath(context.source).name,
                page=context.chunk.first_page,
            )
            excerpt = " ".join(context.chunk.text.split())[:120]
            row = (str(rank), str(placed.before), f"{context.score:.3f}", f"{name}: {excerpt}")
            table.add_row(*(Text(as_name(cell)) for cell in row))
        console.print(table)
    if comparison.verdict:
        console.print()
        console.print(Text(tr("Compared with the reference answer"), style="bold"))
        console.print(Text(comparison.verdict))
