"""`localrag add`: files into the library, with an honest bar and every failure named."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.embedding import embedding_option
from localrag.cli.jobs import expect_queue, put, queue_options
from localrag.cli.output import (
    UNREAD,
    common_options,
    emit_json,
    note,
    note_list,
    note_rebuilding,
    note_tr,
    paths_argument,
    say,
    say_tr,
    stderr_console,
)
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.indexing.events import AddReport
    from localrag.library.library import Library
    from localrag.library.location import Location
    from localrag.library.records import PageReading, Problem, UnreadFile

INCOMPLETE = {
    "no text": "pages_without_text",
    "damaged": "damaged_pages",
    "hidden text": "hidden_text_pages",
}
"""Kinds of notes that `--json` has under names of their own, besides `problems`."""

MOST = 20
"""Problems that are shown; `localrag status --problems` shows all."""


@click.command(
    help=tr(
        "Add files and folders: PDF, scans, Office files, mail, web pages, text. Unchanged files "
        "are skipped; what was not read, or not read well, is listed at the end. Exit code 3 if "
        "some could not be read."
    )
)
@paths_argument
@click.option(
    "--prune", is_flag=True, help=tr("Also remove files that no longer exist in these folders.")
)
@embedding_option(tr("Embedding model of a new library: its name or a preset (english)."))
@click.option(
    "--vault",
    "as_vault",
    is_flag=True,
    help=tr("Create the new library as a vault: encrypted, and opened with a passphrase."),
)
@queue_options(
    tr("Let a server of this library in a database do it, which sees the files under this path.")
)
@common_options
def add(
    paths: tuple[str, ...],
    prune: bool,
    embedding: str | None,
    as_vault: bool,
    queue: bool,
    user: str,
    library: Location,
    as_json: bool,
) -> None:
    """Add and report."""
    if queue:
        put(library, "add", paths, user=user, prune=prune, embedding=embedding, as_json=as_json)
        return
    expect_queue(user)
    from localrag.api import LocalRAG
    from localrag.cli.embedding import settings_with
    from localrag.cli.progress import Bars, say_waiting
    from localrag.documents.files import walk
    from localrag.indexing import unread
    from localrag.library.folder.filesystem import network_drive
    from localrag.library.location import name_of
    from localrag.presentation.advice import advice_text
    from localrag.presentation.check import paragraph
    from localrag.types import Finding

    # A mistyped path is said before anything is made.
    places = [Path(path).expanduser() for path in paths]
    walk(places, [])
    if as_vault:
        _begin_vault(library)
    if isinstance(library, Path) and (kind := network_drive(library)):
        note(paragraph(Finding("files", "network-drive", {"kind": kind})))
    started = time.monotonic()
    settings = settings_with(embedding)
    with (
        LocalRAG.open(library, settings=settings, on_damage=note_rebuilding) as rag,
        Bars() as bars,
    ):
        # Or its name is mistyped, and everybody finds it there.
        if rag.engine.is_new and rag.library.backend.has_nodes:
            note_tr("The library {name} is new in this database.", name=name_of(library))
        before = rag.embedding_advice()
        report = rag.add(places, bars.tell, prune=prune, on_wait=say_waiting)
        added = {document.document_id for document in report.committed}
        added |= {link.document_id for link in report.linked}
        files = unread.below(places, rag.library.unread())
        new = _problems(rag.library, added, files)
        earlier = len(rag.problems()) - len(new) if new else 0
        readings = rag.library.readings(added)
        advice = rag.embedding_advice()
    seconds = time.monotonic() - started
    if as_json:
        from localrag.presentation.reading import problems_json

        problem_fields = {"incomplete": _incomplete(report, new), "problems": problems_json(new)}
        emit_json(report_json(report, seconds) | problem_fields)
    else:
        _print(report, seconds)
        if not (files or report.committed or report.linked or report.unchanged):
            note_tr("There is no file in {folder} that localrag reads.", folder=tuple(paths))
        _print_problems(report, new, earlier, readings)
        # Said when these documents are why; `doctor` says it every time.
        if advice and (before is None or before.kind != advice.kind):
            note(advice_text(advice))
    if any(map(unread.is_lacking, files)):
        # Nothing could be read: that is a failure of the command, not only of a file.
        is_partial = report.committed or report.linked or report.unchanged
        raise click.exceptions.Exit(UNREAD if is_partial else 1)


def _begin_vault(library: Location) -> None:
    """Make a library that is not there yet a vault; of one that is there, see that it is one."""
    from localrag.cli import vault
    from localrag.errors import UsageError
    from localrag.library.folder import vaults
    from localrag.library.folder.filesystem import CATALOGUE

    if not isinstance(library, Path):
        raise UsageError(
            "A vault is a library in a folder, and {library} is in a database.",
            hint="Encryption of a database is up to its server and its disks: see the guide.",
            library=str(library),
        )
    if (library / CATALOGUE).is_file():
        raise UsageError(
            "There is already a library in {directory}, and it is not a vault.",
            hint="Encrypt it with: localrag vault create",
            directory=library,
        )
    if not vaults.is_vault(library):
        vault.make(library, yes=False)


def report_json(report: AddReport, seconds: float) -> dict[str, Any]:
    """The report as JSON."""
    from localrag.presentation.records import picked

    return {
        "added": [
            picked(document, "source", "chunks", "replaced") for document in report.committed
        ],
        "linked": [link.source for link in report.linked],
        "unchanged": list(report.unchanged),
        "failed": [
            {"source": failure.source, "reason": spoken(failure.error)} for failure in report.failed
        ],
        "skipped": [spoken(error) for error in report.skipped],
        **picked(report, "vanished", "removed"),
        "seconds": round(seconds, 3),
        "phases": {name: round(value, 3) for name, value in report.seconds.items()},
    }


def _print(report: AddReport, seconds: float) -> None:
    say_tr(
        "{added} added (passages: {chunks}), {unchanged} unchanged, {linked} under another "
        "name, {failed} not readable; {seconds:.1f} s.",
        added=len(report.committed),
        chunks=report.chunks,
        unchanged=len(report.unchanged),
        linked=len(report.linked),
        failed=len(report.failed),
        seconds=seconds,
    )
    if not report.removed:
        note_list(
            tr("These files are gone from their folder but still in the library (see --prune):"),
            report.vanished,
        )
    note_list(tr("Removed, because the files are gone:"), report.removed)


def _problems(
    library: Library, added: Collection[str], files: Sequence[UnreadFile]
) -> list[Problem]:
    """Those of what was read now, or was to be."""
    from localrag.library.records import Problem

    unread = (Problem(file.state.path, error=file.error) for file in files)
    problems = [*library.problems(added), *unread]
    return sorted(problems, key=lambda problem: (problem.source, problem.pages))


def _print_problems(
    report: AddReport, problems: Sequence[Problem], earlier: int, readings: Sequence[PageReading]
) -> None:
    from localrag.cli.problems import print_problems
    from localrag.presentation.reading import recognised_text

    added = {document.document_id for document in report.committed}
    if text := recognised_text([reading for reading in readings if reading.document_id in added]):
        say(text)
    remaining = print_problems(stderr_console(), problems, MOST)
    if remaining:
        note_tr("and {count} more: localrag status --problems", count=remaining)
    if known := sum(not failure.tried for failure in report.failed):
        note_tr(
            "Not tried again, because they have not changed since: {count} "
            "(`localrag add FILE` tries one again).",
            count=known,
        )
    if earlier and problems:
        note_tr(
            "Problems of files added earlier: {count} (localrag status --problems)",
            count=earlier,
        )


def _incomplete(report: AddReport, problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Documents that were added without some of their pages."""
    names = {document.document_id: document.source for document in report.committed}
    incomplete: dict[str, dict[str, str]] = {}
    for problem in problems:
        if problem.document_id in names and problem.note and problem.note.kind in INCOMPLETE:
            lacking = incomplete.setdefault(
                problem.document_id, {"source": names[problem.document_id]}
            )
            lacking[INCOMPLETE[problem.note.kind]] = ", ".join(map(str, problem.pages))
    return list(incomplete.values())
