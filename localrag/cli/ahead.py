"""`localrag ahead`: sections read before anybody asks about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    common_options,
    emit_json,
    interruptible,
    note_tr,
    open_library,
    say_tr,
)
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from localrag.ahead import Event
    from localrag.library.location import Location

ENDINGS = {
    "all": "All sections have been read.",
    "time": "The time is up; the next run goes on there.",
    "full": "There is room for no more (ahead.megabytes, llm.kv_disk_mb).",
    "disk": "The disk takes no more: {reason}",
    "battery": "This computer runs on its battery: nothing is read ahead until it is plugged in.",
    "stopped": "Stopped; the next run goes on there.",
}


@click.command(
    help=tr(
        "Let the language model read the sections that will likely be asked about, so that first "
        "questions about them are answered sooner. Ctrl-C keeps what was read."
    )
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar=tr("SECONDS"),
    help=tr("The longest time; otherwise until all is read or there is no more room."),
)
@common_options
def ahead(seconds: float | None, library: Location, as_json: bool) -> None:
    """Read and say how far it is."""
    from localrag.ahead import kept_ahead
    from localrag.presentation.ahead import kept_json, kept_text
    from localrag.presentation.records import picked

    with open_library(library) as rag, interruptible() as stopped:
        note_tr(
            "Documents: {count}. Read are first the beginnings of new ones, at most "
            "{megabytes} MB in all.",
            count=rag.library.counts().documents,
            megabytes=rag.settings.ahead.megabytes,
        )
        report = rag.read_ahead(seconds=seconds, on_event=_tell, stopped=stopped)
        states = kept_ahead(rag.library)
    if as_json:
        fields = picked(report, "sections", "there", "tokens", "seconds", "ending", "reason")
        emit_json(fields | {"bytes": report.size, "kept": kept_json(states)})
        return
    say_tr(
        "Sections read: {sections}, in {seconds:.0f} s ({tokens} tokens, {megabytes:.0f} MB); "
        "already kept: {there}.",
        megabytes=report.size / 1e6,
        **picked(report, "sections", "seconds", "tokens", "there"),
    )
    say_tr(ENDINGS[report.ending], reason=report.reason)
    say_tr("Read ahead and not used yet: {text}", text=kept_text(states))


def _tell(event: Event) -> None:
    from localrag.ahead import SectionRead
    from localrag.documents.formats.table import shown_name

    if isinstance(event, SectionRead):
        note_tr(
            "{name} ({tokens} tokens, {seconds:.1f} s, {megabytes:.1f} MB)",
            name=as_name(" – ".join(filter(None, (shown_name(event.source), event.heading))))
            or tr("Examples of questions"),
            tokens=event.tokens,
            seconds=event.seconds,
            megabytes=event.size / 1e6,
        )
