"""`localrag rebuild`: derived files anew, or everything after a change of settings."""

from __future__ import annotations

import time
from pathlib import Path

import click

from localrag.cli.output import emit_json, json_option, library_option, say
from localrag.messages import tr


@click.command(
    help=tr(
        "Rebuild the search indexes; after a change of embedding model or chunking, split "
        "and embed every document again from the text in the library."
    )
)
@library_option
@json_option
def rebuild(library: Path, as_json: bool) -> None:
    """Rebuild and report."""
    from localrag.api import LocalRAG
    from localrag.cli.progress import Bars, say_waiting

    started = time.monotonic()
    with LocalRAG.open(library, create=False) as rag, Bars() as bars:
        report = rag.rebuild(bars.tell, on_wait=say_waiting)
        status = rag.status()
    told = {
        "documents": len(report.committed),
        "chunks": status.counts.chunks,
        "seconds": round(time.monotonic() - started, 3),
    }
    if as_json:
        emit_json(told)
    elif report.committed:
        say(
            tr(
                "{documents} documents split and embedded again, {chunks} passages; "
                "{seconds:.1f} s.",
                **told,
            )
        )
    else:
        say(tr("Indexes rebuilt over {chunks} passages; {seconds:.1f} s.", **told))
