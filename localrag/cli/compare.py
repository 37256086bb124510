"""`localrag compare`: one question through every reranker, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    emit_json,
    json_option,
    library_option,
    note,
    printable,
    stdout_console,
)
from localrag.messages import tr

if TYPE_CHECKING:
    from rich.console import Console

    from localrag.evaluation.comparison import Comparison, Way


@click.command(help=tr("Compare rerankers on one question: passages, answers and times."))
@click.argument("question", metavar=tr("QUESTION"))
@click.option(
    "--reference",
    metavar=tr("TEXT"),
    default="",
    help=tr("The right answer; the language model then compares the answers with it."),
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
    question: str, reference: str, k: int | None, page: Path | None, library: Path, as_json: bool
) -> None:
    """Compare and print."""
    from localrag.api import LocalRAG

    with LocalRAG.open(library, create=False, on_note=note) as rag:
        comparison = rag.compare(
            question,
            reference=reference.strip(),
            k=k,
            progress=lambda name: note(tr("Reranking: {name} …", name=name)),
        )
    if page:
        from localrag.evaluation.comparison_page import render_page

        page.write_text(render_page(comparison), encoding="utf-8")
        note(tr("The page is in {path}.", path=page))
    if as_json:
        emit_json(comparison_json(comparison))
    elif not page:
        _print(stdout_console(), comparison)


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
        "remark": way.remark,
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
        console.print(Text(printable(way.answer.text)))
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
            table.add_row(*(Text(printable(cell)) for cell in row))
        console.print(table)
    if comparison.verdict:
        console.print()
        console.print(Text(tr("The language model's comparison"), style="bold"))
        console.print(Text(printable(comparison.verdict)))
