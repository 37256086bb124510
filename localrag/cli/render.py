"""How passages and answers look to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from localrag.cli.output import ListItem, table
from localrag.documents.formats.table import shown_name
from localrag.documents.tables import shown_text
from localrag.messages import tr
from localrag.presentation.answers import doubtful
from localrag.presentation.computed import basis_lines
from localrag.presentation.not_found import looked_for_text, reason_text, suggestion_text
from localrag.presentation.places import cited_as, passage_place
from localrag.presentation.steps import decision, step_name
from localrag.printable import as_name
from localrag.types import Answer, Citation, LeftOut, NotFound, ScoredChunk

if TYPE_CHECKING:
    from rich.console import Console

EXCERPT = 220
"""Characters of a passage shown in a list."""
MOST_LEFT_OUT = 3
"""Sentences told before an answer; `--json` has them all."""


def print_hits(console: Console, hits: Sequence[ScoredChunk], *, explain: bool) -> None:
    """A numbered list: file, page, heading, the beginning of the passage."""
    from rich.text import Text

    for number, hit in enumerate(hits, start=1):
        title = Text(f"{number:>2}. ", style="bold")
        title.append(as_name(shown_name(hit.source)), style="bold cyan")
        if where := passage_place(hit, heading=False):
            title.append(f"  {as_name(where)}", style="cyan")
        title.append(f"  {hit.score:.3f}", style="dim")
        if hit.chunk.heading:
            title.append(f"  {as_name(hit.chunk.heading)}", style="dim")
        console.print(ListItem(title))
        console.print(ListItem(Text("    " + as_name(_excerpt(shown_text(hit.chunk))))))
        if explain:
            legs = [
                tr("{leg} #{rank} ({score:.3f})", leg=_leg(r.leg), rank=r.rank, score=r.score)
                for r in hit.ranks
            ]
            console.print(Text("    " + tr(", ").join(legs), style="dim"))


def _excerpt(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"


def print_left_out(console: Console, left_out: Sequence[LeftOut]) -> None:
    """Before an answer: what of the documents it was written without."""
    from rich.text import Text

    for passage in left_out[:MOST_LEFT_OUT]:
        line = tr(
            "{where}, told the model what to answer; this was left out: “{text}”",
            where=cited_as(passage),
            text=_excerpt(passage.text),
        )
        console.print(ListItem(Text(line, style="yellow")))
    if len(left_out) > MOST_LEFT_OUT:
        more = tr("and {count} more (see --json)", count=len(left_out) - MOST_LEFT_OUT)
        console.print(Text(more, style="yellow"))


def print_citation(console: Console, citation: Citation) -> None:
    """A marker, where it points to, and the quotation."""
    from rich.text import Text

    line = Text(f"[{citation.marker}] ", style="bold")
    line.append(as_name(cited_as(citation)), style="cyan")
    quote = " ".join(citation.quote.split())
    line.append(tr(": “{quote}”", quote=quote), style="dim")
    console.print(ListItem(line))


def print_evidence(console: Console, answer: Answer, waited: float = 0.0) -> None:
    """Under an answer: its citations, or what there is instead; `waited` in seconds for all."""
    from rich.text import Text

    console.print()
    if not answer.metrics:
        _print_unsupported(console, answer)
    if answer.citations:
        for citation in answer.citations:
            print_citation(console, citation)
    elif any(step.values.get("skipped") == "answer" for step in answer.trace):
        console.print(Text(tr("Allow more time with --budget."), style="yellow"))
    elif answer.contexts and not answer.not_found and not answer.metrics and not answer.basis:
        warning = tr("No passage supports this; it is not grounded in your documents.")
        console.print(Text(warning, style="yellow"))
    elif (
        not answer.contexts
        and not answer.metrics
        and not answer.basis
        and all(step.kind != "filter" for step in answer.trace)
    ):  # else the answer itself says it
        console.print(Text(tr("Nothing in the library matches the question."), style="yellow"))
    for not_found in answer.not_found:
        _print_not_found(console, answer, not_found)
    if answer.basis:
        for line in basis_lines(answer.basis):
            console.print(ListItem(Text(line, style="dim")))
    if answer.citations and answer.left_out and not answer.grounded:
        warning = tr(
            "What was left out is next to a quotation and concerns the question: read it in "
            "the document."
        )
        console.print(Text(warning, style="yellow"))
    took = tr("{seconds:.1f} s", seconds=answer.seconds)
    if waited > answer.seconds + 1:
        took = tr(
            "{seconds:.1f} s ({waited:.1f} s with loading the model and waiting for it)",
            seconds=answer.seconds,
            waited=waited,
        )
    console.print(Text(took, style="dim"))


def _print_not_found(console: Console, answer: Answer, not_found: NotFound) -> None:
    """What was looked for, how near the documents come, and what else could be asked."""
    from rich.text import Text

    if not_found.question != answer.question:  # a part of it
        part = tr("On “{question}”:", question=not_found.question)
        console.print()
        console.print(ListItem(Text(part, style="bold")))
    console.print(ListItem(Text(looked_for_text(not_found), style="dim")))
    if not_found.closest is not None:
        closest = tr(
            "Closest sentence ({where}): “{quote}”",
            where=cited_as(not_found.closest),
            quote=_excerpt(not_found.closest.quote),
        )
        console.print(ListItem(Text(closest)))
    console.print(ListItem(Text(reason_text(not_found), style="yellow")))
    if not_found.suggestions:
        console.print(Text(tr("You could ask instead:")))
    for suggestion in not_found.suggestions:
        line = Text(f"  {as_name(suggestion.question)}", style="bold")
        console.print(
            ListItem(line.append(tr("  ({text})", text=suggestion_text(suggestion)), style="dim"))
        )


def _print_unsupported(console: Console, answer: Answer) -> None:
    """The sentences of an answer that its passages do not bear out, or that were not checked."""
    from rich.text import Text

    ratings = {statement.rating for statement in answer.statements} - {None, "fully supported"}
    if answer.citations and not answer.grounded and ratings:
        warning = tr("No sentence of this answer is supported by the passages it cites.")
        console.print(Text(warning, style="yellow"))
        return
    for text, mark in doubtful(answer):
        line = Text(mark, style="yellow")
        line.append(tr(": “{quote}”", quote=as_name(" ".join(text.split()))), style="dim")
        console.print(ListItem(line))


def print_trace(console: Console, answer: Answer) -> None:
    """Every step with its decision, score and time."""
    heads = tr("Step"), tr("Decision"), tr("Score"), tr("Seconds")
    rows = (
        (
            step_name(step.kind),
            decision(step),
            "" if step.score is None else f"{step.score:.3f}",
            f"{step.seconds:.2f}",
        )
        for step in answer.trace
    )
    console.print(table(heads, rows))


def _leg(name: str) -> str:
    """A leg of the search in the reader's language; one that is not known here as it is."""
    kind, _, number = name.partition(" ")
    if kind == "rewriting":
        return tr("rewriting {number}", number=number)
    return {"dense": tr("dense"), "keyword": tr("keyword")}.get(name, name)
