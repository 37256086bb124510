"""`localrag check`: what is damaged in a library, and how to repair it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from localrag.cli.output import common_options, emit_json, say, say_tr
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(
    help=tr(
        "Check the catalogue, the vectors and the keywords for damage, each on its own and "
        "against each other. Exit code 1 if anything is damaged."
    )
)
@common_options
def check(library: Location, as_json: bool) -> None:
    """Check and report; changes nothing."""
    from localrag import factory, hosted
    from localrag.config.settings import load_settings
    from localrag.library.check import check_library
    from localrag.presentation.check import finding_text, repair_text
    from localrag.presentation.records import picked

    started = time.monotonic()
    settings = load_settings()
    where = hosted.reachable(library, settings)
    inspection = check_library(where, factory.make_indexes(settings))
    seconds = time.monotonic() - started
    counts = inspection.counts
    if as_json:
        emit_json(
            {
                "ok": inspection.ok,
                "library": str(library),
                "documents": counts.documents if counts else None,
                "chunks": counts.chunks if counts else None,
                "findings": [
                    picked(finding, "part", "code", "damage")
                    | {"text": finding_text(finding), "repair": repair_text(finding)}
                    for finding in inspection.findings
                ],
                "seconds": round(seconds, 3),
            }
        )
    else:
        for finding in inspection.findings:
            mark = tr("Damaged:") if finding.damage else tr("Note:")
            say(f"{mark} {finding_text(finding)}")
            say(f"  {repair_text(finding)}")
        if inspection.ok and counts is not None:
            say_tr(
                "All is in order: {documents} documents, {chunks} passages; {seconds:.1f} s.",
                documents=counts.documents,
                chunks=counts.chunks,
                seconds=seconds,
            )
    if not inspection.ok:
        raise click.exceptions.Exit(1)
