"""`localrag add`: files into the library, with an honest bar and every failure named."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    emit_json,
    json_option,
    library_option,
    no_empty_path,
    note,
    note_rebuilding,
    say,
)
from localrag.errors import UnsupportedFileError
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.indexing.events import AddReport

INCOMPLETE = {
    "pages_without_text": (
        "{name}: these pages are images or blank and cannot be searched: {pages}. Text "
        "recognition (OCR) would make them searchable."
    ),
    "hidden_text_pages": (
        "{name}: these pages contain text that readers cannot see (invisible, white or "
        "tiny); it was left out: {pages}."
    ),
    "damaged_pages": "{name}: these pages are damaged and were left out: {pages}.",
}
"""What the metadata of a document say of pages that it lacks."""

SHOWN = 5
"""Files of other kinds that are named; of more, only the number is said."""


@click.command(help=tr("Add files and folders; unchanged files are skipped."))
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar=tr("PATH..."),
    type=click.Path(),
    callback=no_empty_path,
)
@click.option(
    "--prune", is_flag=True, help=tr("Also remove files that no longer exist in these folders.")
)
@library_option
@json_option
def add(paths: tuple[str, ...], prune: bool, library: Path, as_json: bool) -> None:
    """Add and report."""
    from localrag.api import LocalRAG
    from localrag.cli.progress import Bars, say_waiting
    from localrag.documents.files import walk
    from localrag.library.folder.filesystem import network_drive
    from localrag.presentation.check import paragraph
    from localrag.types import Finding

    # A mistyped path is said before anything is made.
    walk([Path(path).expanduser() for path in paths], [])
    if kind := network_drive(library):
        note(paragraph(Finding("files", "network-drive", {"kind": kind})))
    started = time.monotonic()
    with LocalRAG.open(library, on_damage=note_rebuilding) as rag, Bars() as bars:
        report = rag.add(paths, bars.tell, prune=prune, on_wait=say_waiting)
        incomplete = _incomplete(rag, report)
    seconds = time.monotonic() - started
    if as_json:
        emit_json(report_json(report, seconds) | {"incomplete": incomplete})
    else:
        _print(report, seconds)
        for one in incomplete:
            for lacking in INCOMPLETE:
                if pages := one.get(lacking):
                    note(tr(INCOMPLETE[lacking], name=one["source"], pages=pages))
    # Nothing could be read: that is a failure of the command, not only of a file.
    if report.failed and not (report.committed or report.linked or report.unchanged):
        raise click.exceptions.Exit(1)


def report_json(report: AddReport, seconds: float) -> dict[str, Any]:
    """The report as JSON."""
    from localrag.presentation.records import picked

    return {
        "added": [picked(one, "source", "chunks", "replaced") for one in report.committed],
        "linked": [one.source for one in report.linked],
        "unchanged": list(report.unchanged),
        "failed": [{"source": one.source, "reason": spoken(one.error)} for one in report.failed],
        "skipped": [spoken(error) for error in report.skipped],
        "vanished": list(report.vanished),
        "removed": list(report.removed),
        "seconds": round(seconds, 3),
        "phases": {name: round(value, 3) for name, value in report.seconds.items()},
    }


def _print(report: AddReport, seconds: float) -> None:
    say(
        tr(
            "{added} added ({chunks} passages), {unchanged} unchanged, {linked} under another "
            "name, {failed} not readable; {seconds:.1f} s.",
            added=len(report.committed),
            chunks=report.chunks,
            unchanged=len(report.unchanged),
            linked=len(report.linked),
            failed=len(report.failed),
            seconds=seconds,
        )
    )
    if not report.removed:
        _list(
            tr("These files are gone from their folder but still in the library (see --prune):"),
            report.vanished,
        )
    _list(tr("Removed, because the files are gone:"), report.removed)
    others = [one for one in report.skipped if isinstance(one, UnsupportedFileError)]
    named = [error.values.get("source", "") for error in others[:SHOWN]]
    _list(
        tr("{count} files of other types were skipped:", count=len(others)),
        [*named, "…"] if len(others) > SHOWN else named,
    )
    _list(tr("Skipped:"), [spoken(one) for one in report.skipped if one not in others])
    _list(tr("Not readable:"), [spoken(one.error) for one in report.failed])


def _list(heading: str, lines: Sequence[object]) -> None:
    """Lines below their heading; nothing where there are none."""
    for line in (heading, *(f"  {line}" for line in lines)) if lines else ():
        note(line)


def _incomplete(rag: LocalRAG, report: AddReport) -> list[dict[str, str]]:
    """Documents that were added without some of their pages."""
    found = []
    for one in report.committed:
        record = rag.library.document_record(one.document_id)
        metadata = record.metadata if record else {}
        lacking = {name: metadata[name] for name in INCOMPLETE if name in metadata}
        if lacking:
            found.append({"source": one.source} | lacking)
    return found
