"""`localrag export`: a library as one file."""

from __future__ import annotations

import time
from pathlib import Path

import click

from localrag.cli.output import emit_json, json_option, library_option, say
from localrag.errors import UsageError
from localrag.messages import tr


def named(_context: click.Context, _parameter: click.Parameter, text: str) -> Path:
    """The path that was given; an empty one, from a variable that is not set, is refused."""
    if not text:
        raise UsageError("The name of the file is empty.", hint="Name a file.")
    return Path(text)


@click.command(
    "export",
    help=tr(
        "Save a library, with all its text and vectors, to one new file. `localrag import` "
        "recreates it on another machine without embedding anything again."
    ),
)
@click.argument("archive", metavar=tr("FILE"), type=click.Path(), callback=named)
@library_option
@json_option
def export_library(archive: Path, library: Path, as_json: bool) -> None:
    """Export and report."""
    from localrag import __version__
    from localrag.library.transfer import export_library as export

    started = time.monotonic()
    manifest = export(library, archive, __version__)
    seconds, size = time.monotonic() - started, archive.stat().st_size
    if as_json:
        emit_json(
            {
                "file": str(archive),
                "bytes": size,
                "documents": manifest.documents,
                "chunks": manifest.chunks,
                "embedding": manifest.embedding_name,
                "seconds": round(seconds, 3),
            }
        )
        return
    say(
        tr(
            "{documents} documents, {chunks} passages: {size:.1f} MB in {path}; {seconds:.1f} s.",
            documents=manifest.documents,
            chunks=manifest.chunks,
            size=size / 1e6,
            path=archive,
            seconds=seconds,
        )
    )
    say(
        tr(
            "To ask it there you need the embedding model {name}.",
            name=manifest.embedding_name,
        )
    )
