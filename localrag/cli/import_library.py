"""`localrag import`: a library from one file."""

from __future__ import annotations

import time
from pathlib import Path

import click

from localrag.cli.export_library import named
from localrag.cli.output import emit_json, json_option, library_option, note, say
from localrag.messages import tr


@click.command(
    "import",
    help=tr(
        "Recreate a library from a file that `localrag export` wrote, in a folder that has "
        "none. Nothing is embedded again."
    ),
)
@click.argument("archive", metavar=tr("FILE"), type=click.Path(), callback=named)
@library_option
@json_option
def import_library(archive: Path, library: Path, as_json: bool) -> None:
    """Import and report; says which embedding model the library needs, if it is not here."""
    from localrag import factory
    from localrag.cli.progress import say_waiting
    from localrag.config.settings import load_settings
    from localrag.library.transfer import ImportStage
    from localrag.library.transfer import import_library as bring
    from localrag.presentation.check import finding_text

    def tell(stage: ImportStage) -> None:
        if as_json:
            return
        if stage == "checking":
            note(tr("Checking {name} ...", name=archive.name))
        else:
            note(tr("Building the search indexes ..."))

    settings = load_settings()
    started = time.monotonic()
    manifest = bring(
        archive,
        library,
        indexes=factory.make_indexes(settings),
        on_wait=say_waiting,
        tell=tell,
        describe=finding_text,
    )
    seconds = time.monotonic() - started
    wanted = manifest.embedding_name
    spec = factory.make_models().catalogue.find(wanted)
    missing = spec is not None and factory.make_models().status(spec).state in (
        "missing",
        "partial",
    )
    if as_json:
        emit_json(
            {
                "library": str(library),
                "documents": manifest.documents,
                "chunks": manifest.chunks,
                "embedding": wanted,
                "embedding_installed": spec is not None and not missing,
                "seconds": round(seconds, 3),
            }
        )
        return
    say(
        tr(
            "{documents} documents, {chunks} passages in {directory}; {seconds:.1f} s.",
            documents=manifest.documents,
            chunks=manifest.chunks,
            directory=library,
            seconds=seconds,
        )
    )
    if missing:
        note(tr("To ask it you need its embedding model: localrag models pull {name}", name=wanted))
    if wanted != settings.embedding.model:
        note(
            tr(
                "It was built with the embedding model {found}, and the settings name {expected}: "
                "set embedding.model to {found}.",
                found=wanted,
                expected=settings.embedding.model,
            )
        )
