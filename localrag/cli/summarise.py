"""`localrag summarise`: a long document on about a page, with citations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from localrag.cli.filtering import pages_option
from localrag.cli.output import (
    common_options,
    emit_json,
    interruptible,
    note,
    note_tr,
    open_library,
    read_seconds,
    say,
    say_text,
    stdout_console,
)
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.library.location import Location
    from localrag.summaries.records import DocumentSummary, Event, Summary

SECONDS = 120.0
"""For writing, where nobody says otherwise: what ten sections take on two cores."""


@click.command(
    help=tr(
        "Sum up a document on about a page. Sentences are chosen from all of it, the language "
        "model writes about each section from them, and each sentence is checked and cited. Of "
        "several documents, each is told in a sentence."
    )
)
@click.argument("patterns", metavar=tr("FILE|FOLDER..."), nargs=-1, required=True)
@click.option("--about", default="", metavar=tr("TOPIC"), help=tr("Only what is said on this."))
@pages_option
@click.option(
    "--budget",
    metavar=tr("TIME"),
    callback=read_seconds,
    help=tr(
        "The longest time for writing, such as 30s or 2m (2m by itself). What is left stays in "
        "the document's own words; the next run goes on there."
    ),
)
@common_options
def summarise(
    patterns: tuple[str, ...],
    about: str,
    pages: tuple[int, int | None] | None,
    budget: float | None,
    library: Location,
    as_json: bool,
) -> None:
    """Write and print."""
    from localrag.presentation.summaries import summary_json

    with open_library(library) as rag, interruptible() as stopped:
        summary = rag.summarise(
            patterns,
            about=about,
            pages=pages,
            seconds=budget or SECONDS,
            on_event=_event_printer(),
            stopped=stopped,
        )
    if as_json:
        emit_json(summary_json(summary))
    else:
        _print(summary)


def _event_printer() -> Callable[[Event], None]:
    """Says what the document has, how much there is to write, and each section as it is done."""
    from localrag.library.records import NotKept
    from localrag.presentation.summaries import begun_text, section_title
    from localrag.printable import as_name
    from localrag.summaries.records import SectionDone, SummaryBegun

    titles: list[str] = []
    is_reported = False

    def hear(event: Event) -> None:
        nonlocal is_reported
        if isinstance(event, SummaryBegun):
            if len(event.summary.documents) == 1:
                (document,) = event.summary.documents
                titles.extend(
                    as_name(section_title(document, number))
                    for number in range(len(document.sections))
                )
                for title in filter(None, titles):
                    note(f"  {title}")
            note(begun_text(event))
        elif isinstance(event, SectionDone) and not event.kept and not event.section.reason:
            note_tr("{count} left. {name}", count=event.left, name=titles[event.number][:80])
        elif isinstance(event, NotKept) and not is_reported:
            is_reported = True
            reason = spoken(event.error)
            note_tr("What was written is not kept for the next time: {reason}", reason=reason)

    return hear


def _print(summary: Summary) -> None:
    from localrag.presentation.summaries import numbered, total_line

    for document in map(numbered, summary.documents):
        if summary.total == 1:
            _print_one(document, summary.about)
        else:
            _print_line(document)
    if line := total_line(summary):
        say("")
        say(line)


def _print_one(document: DocumentSummary, about: str) -> None:
    from localrag.cli.render import print_citation
    from localrag.presentation.reading import card_texts
    from localrag.presentation.summaries import (
        coverage_lines,
        quotations,
        section_text,
        section_title,
        state_text,
    )

    say(document.title or document.source)
    for line in card_texts(document.card):
        say(f"  {line}")
    for number, section in enumerate(document.sections):
        say("")
        if title := section_title(document, number):
            say(title)
        say_text(section_text(section))
        if state := state_text(section):
            say(f"  ({state})")
    say("")
    console = stdout_console()
    for citation in quotations(document):
        print_citation(console, citation)
    say("")
    for line in coverage_lines(document, about):
        say(line)


def _print_line(document: DocumentSummary) -> None:
    from localrag.documents.formats.table import shown_name
    from localrag.presentation.reading import card_texts
    from localrag.presentation.summaries import section_text

    card = "; ".join(card_texts(document.card))
    name = shown_name(document.source)
    title = document.title if document.title != name else ""
    say(" – ".join(filter(None, (name, title, card))))
    for section in document.sections:
        if text := section_text(section):
            say_text(f"  {text}")
