"""`localrag show`: what localrag has read of a file, page by page."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    INDENT,
    ListItem,
    common_options,
    emit_json,
    no_empty_path,
    note,
    open_library,
    say_origin,
    stdout_console,
)
from localrag.errors import LibraryNotFoundError, UsageError
from localrag.messages import tr
from localrag.printable import as_name
from localrag.types import Place

if TYPE_CHECKING:
    from rich.console import Console

    from localrag.indexing.reading import DocumentReading
    from localrag.library.location import Location
    from localrag.types import Chunk, Page

MARK = "▶"
"""Stands before the number of a passage where it begins."""

Ranges = tuple[tuple[int, int], ...]


def _pages(_: click.Context, __: click.Parameter, value: str | None) -> Ranges:
    """`1-3,7` as pairs of first and last; none for all pages."""
    if value is None:
        return ()
    matches = [
        re.fullmatch(r"\s*([0-9]{1,9})\s*(?:[-–—~]\s*([0-9]{1,9}))?\s*", part)
        for part in re.split("[,，、]", value)
    ]
    ranges = tuple((int(match[1]), int(match[2] or match[1])) for match in matches if match)
    if len(ranges) < len(matches) or any(first > last for first, last in ranges):
        raise UsageError(
            "--pages cannot be read: {value}.",
            hint="Write page numbers and ranges, such as 1-3,7.",
            value=value,
        )
    return ranges


@click.command(
    help=tr(
        "Show what localrag has read of a file, page by page: its text, how it was read, what "
        "was left out, and where passages begin. The file need not be in the library."
    )
)
@click.argument("source", metavar=tr("FILE"), callback=lambda c, p, v: no_empty_path(c, p, (v,))[0])
@click.option(
    "--pages",
    metavar=tr("PAGES"),
    callback=_pages,
    help=tr("Only these pages, such as 1-3,7."),
)
@common_options
def show(source: str, pages: Ranges, library: Location, as_json: bool) -> None:
    """Print pages; changes nothing."""
    from localrag.api import LocalRAG
    from localrag.presentation.reading import reading_json, with_starts

    try:
        with open_library(library) as rag:
            reading = rag.show(source)
    except LibraryNotFoundError:
        reading = LocalRAG.read(source, on_note=note)
    say_origin(reading.document.source, reading.origin)
    page_starts = [
        (page, start)
        for page, start in with_starts(reading.document)
        if not pages or any(first <= page.number <= last for first, last in pages)
    ]
    if not page_starts:
        raise UsageError(
            "{source} has no such page; it has {count} pages.",
            hint="Leave out --pages to see them all.",
            source=reading.document.source,
            count=len(reading.document.pages),
        )
    chunks = list(_chunks_on(reading, page_starts))
    if as_json:
        emit_json(reading_json(reading, page_starts, chunks))
    else:
        _print(stdout_console(), reading, page_starts)


def _chunks_on(reading: DocumentReading, pages: Sequence[tuple[Page, int]]) -> Iterator[Chunk]:
    """The passages of which something stands on these pages."""
    ends = [start + len(page.text) for page, start in pages]
    starts = [start for _, start in pages]
    for chunk in reading.chunks or ():
        place = bisect_left(ends, chunk.start)
        if place < len(pages) and starts[place] < chunk.end:
            yield chunk


def _print(console: Console, reading: DocumentReading, pages: Sequence[tuple[Page, int]]) -> None:
    """Each page under a line that says how it was read, and its notes."""
    from rich.text import Text

    from localrag.presentation.places import place_text
    from localrag.presentation.reading import card_texts, how_text, note_text

    document = reading.document
    parts = [
        tr("language: {language}", language=reading.language),
        tr("pages: {count}", count=len(document.pages)),
    ]
    if reading.chunks is not None:
        parts.append(tr("passages: {count}", count=len(reading.chunks)))
    console.print(ListItem(Text(document.title, style="bold")))
    console.print(ListItem(Text(document.source, style="dim")))
    console.print(Text(tr(", ").join(parts), style="dim"))
    for line in card_texts(reading.card):
        console.print(ListItem(Text(line, style="dim")))
    chunks = reading.chunks or ()
    begins = [chunk.start for chunk in chunks]
    for page, start in pages:
        place = as_name(place_text(Place(start, document.unit, page.number, page.label)))
        head = Text(f"— {place}  " if place else "— ", style="bold cyan")
        head.append(how_text(page, document.unit), style="dim")
        tables = sum(start <= table.start < start + len(page.text) for table in document.tables)
        if tables:
            head.append(tr(", ") + tr("tables: {count}", count=tables), style="dim")
        console.print()
        console.print(ListItem(head))
        for page_note in page.notes:
            style = "yellow" if page_note.problem else "dim"
            text = tr("{text}.", text=note_text(page_note))
            if place:
                text = tr("{place}: {text}.", place=place, text=note_text(page_note))
            console.print(ListItem(Text(text, style=style)))
        end = start + len(page.text)
        here = chunks[bisect_left(begins, start) : bisect_left(begins, end)]
        text = _mark_passages(page.text, [(line.start - start, line.position + 1) for line in here])
        for line in text.split("\n"):  # indented, so that none looks like a line of ours
            console.print(ListItem(Text(" " * INDENT + line)))


def _mark_passages(text: str, begins: Sequence[tuple[int, int]]) -> str:
    """The text with a mark where each passage begins; `begins` are offsets and numbers."""
    parts, done = [], 0
    for offset, number in begins:
        parts += [text[done:offset], f"{MARK}{number} "]
        done = offset
    return "".join([*parts, text[done:]])
