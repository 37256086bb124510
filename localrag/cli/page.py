"""`localrag page`: a page of a document with words marked, as its image or its text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    INDENT,
    ListItem,
    any_library_option,
    file_option,
    no_empty_path,
    note,
    note_tr,
    open_library,
    say_origin,
    stdout_console,
    write_report,
)
from localrag.errors import UsageError
from localrag.messages import tr
from localrag.presentation.viewing import BEFORE, BEHIND, marking, no_image
from localrag.printable import as_name

if TYPE_CHECKING:
    from localrag.indexing.viewing import PageView
    from localrag.library.location import Location


@click.command(
    help=tr(
        "Show a page of a document in the library with words marked on it: its image in a file, "
        "or else its text."
    )
)
@click.argument("source", metavar=tr("FILE"), callback=lambda c, p, v: no_empty_path(c, p, (v,))[0])
@click.argument("number", metavar=tr("PAGE"), type=click.IntRange(1))
@click.option("--highlight", metavar=tr("WORDS"), help=tr("Words of the page to mark."))
@file_option("-o", "--output", text=tr("Save the page as a PNG image."))
@any_library_option
@click.pass_context
def page(
    context: click.Context,
    source: str,
    number: int,
    highlight: str | None,
    output: Path | None,
    library: Location,
) -> None:
    """Exit with code 1 where an image was asked for and there is none."""
    with open_library(library) as rag:
        view = rag.page(source, number, highlight=highlight, image=output is not None)
    if highlight is not None:
        for line in marking(view):
            note(line)
    if output is not None and view.image is not None:
        _save(output, view.paths, view.image)
        return
    say_origin(view.paths[0], view.state)
    _print(view)
    if output is not None:
        note(no_image(view))
        context.exit(1)


def _save(output: Path, originals: Sequence[str], image: bytes) -> None:
    if os.path.realpath(output) in map(os.path.realpath, originals):
        raise UsageError(
            "{path} is the document itself.",
            hint="Give the image a name of its own.",
            path=output,
        )
    write_report(output, image)
    note_tr("The image is in {path}.", path=output)


def _print(view: PageView) -> None:
    """The text, with signs around what is marked."""
    from rich.text import Text

    from localrag.presentation.places import place_text

    console = stdout_console()
    console.print(ListItem(Text(view.paths[0], style="dim")))
    console.print(ListItem(Text(f"— {as_name(place_text(view.place))}", style="bold cyan")))
    text = Text()
    done = 0
    for start, end in view.spans:
        text.append(view.text[done:start])
        text.append(f"{BEFORE}{view.text[start:end]}{BEHIND}", style="black on yellow")
        done = end
    text.append(view.text[done:])
    for line in text.split("\n", allow_blank=True):
        console.print(ListItem(Text(" " * INDENT).append_text(line)))
