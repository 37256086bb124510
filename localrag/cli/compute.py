"""`localrag compute`: a question over the rows of sheets, computed and not guessed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    common_options,
    emit_json,
    no_empty_path,
    open_library,
    question_argument,
    say,
)
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(
    help=tr(
        "Answer a question over the rows of sheets and tables: lists, counts, sums, averages, "
        "largest and smallest. The number is computed by a database; where two readings of the "
        "question disagree, both are shown."
    )
)
@question_argument
@click.option(
    "--in",
    "files",
    multiple=True,
    metavar=tr("FILE"),
    callback=no_empty_path,
    help=tr(
        "A sheet or a document with tables: a file, or in the library the end of its path, a "
        "folder or a pattern; may be repeated. Without it, all of the library."
    ),
)
@common_options
def compute(question: str, files: tuple[str, ...], library: Location, as_json: bool) -> None:
    """Compute and print."""
    from localrag.api import LocalRAG
    from localrag.errors import LibraryNotFoundError
    from localrag.presentation.computed import computed_json, computed_lines

    own = bool(files) and all(Path(file).expanduser().is_file() for file in files)
    try:
        rag = open_library(library)
    except LibraryNotFoundError:
        if not own:
            raise
        dataset, computed = LocalRAG.compute_files(question, files)
    else:
        with rag:
            dataset, computed = rag.compute(question, files)
    if as_json:
        emit_json(computed_json(dataset, computed))
        return
    for line in computed_lines(dataset, computed):
        say(line)
