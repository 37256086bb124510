"""`localrag add`: files into the library, with an honest bar and every failure named."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import emit_json, json_option, library_option, note
from localrag.messages import tr, translate

if TYPE_CHECKING:
    from localrag.errors import LocalragError
    from localrag.indexing.events import AddReport


@click.command(help=tr("Add files and folders; unchanged files are skipped."))
@click.argument("paths", nargs=-1, required=True, metavar=tr("PATH..."), type=click.Path())
@click.option("--prune", is_flag=True, help=tr("Remove files of these folders that are gone."))
@library_option
@json_option
def add(paths: tuple[str, ...], prune: bool, library: Path, as_json: bool) -> None:
    """Add and report."""
    from localrag.api import LocalRAG
    from localrag.cli.progress import Bars, say_waiting

    started = time.monotonic()
    with LocalRAG.open(library, on_damage=_say_damaged) as rag, Bars() as bars:
        report = rag.add(paths, bars.tell, prune=prune, on_wait=say_waiting)
    seconds = time.monotonic() - started
    if as_json:
        emit_json(report_json(report, seconds))
    else:
        _print(report, seconds)
    # Nothing could be read: that is a failure of the command, not only of a file.
    if report.failed and not (report.committed or report.linked or report.unchanged):
        raise click.exceptions.Exit(1)


def report_json(report: AddReport, seconds: float) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "added": [
            {"source": one.source, "chunks": one.chunks, "replaced": one.replaced}
            for one in report.committed
        ],
        "linked": [one.source for one in report.linked],
        "unchanged": list(report.unchanged),
        "failed": [{"source": one.source, "reason": said(one.error)} for one in report.failed],
        "skipped": [said(error) for error in report.skipped],
        "vanished": list(report.vanished),
        "removed": list(report.removed),
        "seconds": round(seconds, 3),
        "phases": {name: round(value, 3) for name, value in report.seconds.items()},
    }


def said(error: LocalragError) -> str:
    """An error in the reader's language, on one line."""
    text = translate(error.message).format(**error.values)
    if error.hint:
        text += " " + translate(error.hint).format(**error.values)
    return text


def _print(report: AddReport, seconds: float) -> None:
    click.echo(
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
    if report.vanished and not report.removed:
        note(tr("These files are gone from their folder but still in the library (see --prune):"))
        for source in report.vanished:
            note(f"  {source}")
    if report.removed:
        note(tr("Removed, because the files are gone:"))
        for source in report.removed:
            note(f"  {source}")
    if report.skipped:
        note(tr("{count} files of other kinds were passed over.", count=len(report.skipped)))
    if report.failed:
        note(tr("Not readable:"))
        for one in report.failed:
            note(f"  {said(one.error)}")


def _say_damaged(path: Path) -> None:
    note(tr("{name} was damaged; it is being built anew from the catalogue.", name=path.name))
