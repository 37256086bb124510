"""`localrag watch`: the library follows folders, in the foreground, for a terminal or a service."""

from __future__ import annotations

import signal
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    UNREAD,
    any_library_option,
    emit_json_line,
    note_rebuilding,
    note_tr,
    paths_argument,
    say,
)
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.indexing.events import IndexingEvent
    from localrag.library.location import Location

CHANGES = {
    "added": "added: {source} (passages: {chunks})",
    "updated": "updated: {source} (passages: {chunks})",
    "linked": "another name of the same content: {source}",
    "removed": "removed, it is gone: {source}",
    "back": "{source} is there again.",
    "withheld": "{gone} of {files} files from {source} are gone at once; they stay in the "
    "library. If you deleted them: localrag add --prune {source}",
    "restless": "{source} is still being written; the next run takes it.",
    "waiting": "Waiting: the library is in use by {holder}.",
}
AWAY = {
    "missing": "{source} is not there. Its documents stay in the library until it is back.",
    "empty": (
        "{source} is empty, though documents were added from it; they stay in the library. If its "
        "drive is not connected, connect it; if you emptied the folder: localrag remove {source}"
    ),
    "unreadable": (
        "{source} cannot be opened: {reason}. Its documents stay in the library until it can."
    ),
}
POLLED = {
    "network-drive": (
        "{source} is on a network drive, where changes go unnoticed; it is looked through every "
        "{seconds:g} s."
    ),
    "limit": (
        "There are more folders than the system allows to be watched ({reason}); they are looked "
        "through every {seconds:g} s. On Linux, raise fs.inotify.max_user_watches."
    ),
    "events": (
        "The system does not report changes ({reason}); the folders are looked through every "
        "{seconds:g} s."
    ),
}


@click.command(
    help=tr(
        "Keep the library true to folders: add what is new or changed, remove what is gone. "
        "Runs until Ctrl-C."
    )
)
@paths_argument
@click.option(
    "--once",
    is_flag=True,
    help=tr("Do it one time and exit, for example from cron; with code 3 if files were not read."),
)
@click.option(
    "--interval",
    type=click.FloatRange(min=1),
    metavar=tr("SECONDS"),
    help=tr(
        "Time between two looks at the folders if the system reports no change "
        "(default: 300; 60 on network drives)."
    ),
)
@click.option(
    "--prune",
    is_flag=True,
    help=tr("Also remove files when more than half of a folder is gone at once."),
)
@click.option(
    "--ahead",
    is_flag=True,
    help=tr(
        "Meanwhile let the language model read sections that will likely be asked about, within "
        "the bounds of the settings (ahead)."
    ),
)
@any_library_option
@click.option(
    "--json", "as_json", is_flag=True, help=tr("Print one JSON object per line instead of text.")
)
def watch(
    paths: tuple[str, ...],
    once: bool,
    interval: float | None,
    prune: bool,
    ahead: bool,
    library: Location,
    as_json: bool,
) -> None:
    """Watch and say each change."""
    from localrag.api import LocalRAG
    from localrag.documents.files import walk
    from localrag.errors import UsageError
    from localrag.indexing import unread
    from localrag.library.folder.filesystem import catalogue_of

    if once and ahead:
        raise UsageError(
            "--ahead reads while --once would have ended.",
            hint="Leave one out, or run `localrag ahead` afterwards.",
        )
    places = [Path(path).expanduser() for path in paths]
    # A mistyped path is said before anything is made.
    if isinstance(library, Path) and not catalogue_of(library).exists():
        walk(places, [])

    def tell(event: IndexingEvent) -> None:
        line = _line(event)
        if line is None:
            return
        name, values, text = line
        now = datetime.now().astimezone()
        if as_json:
            emit_json_line({"time": now.isoformat(timespec="seconds"), "event": name} | values)
        else:
            say(f"{now:%Y-%m-%d %H:%M:%S}  {text}")

    terminated = False

    def terminate(_: int, __: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        with LocalRAG.open(library, on_damage=note_rebuilding) as rag:
            complete = rag.watch(
                places, tell, once=once, interval=interval, prune=prune, ahead=ahead
            )
            files = unread.below(places, rag.library.unread()) if once else []
    except KeyboardInterrupt:
        if not terminated:
            raise
        note_tr("Stopped. Everything reported as done is kept.")  # a service is stopped so
        return
    finally:
        signal.signal(signal.SIGTERM, previous)
    # Also of files that were named before: a run that lacks them is not one that has all.
    if lacking := sum(map(unread.is_lacking, files)):
        note_tr(
            "Files here that could not be read: {count} (localrag status --problems)",
            count=lacking,
        )
    if lacking or not complete:
        raise click.exceptions.Exit(UNREAD if complete else 1)


def _line(event: IndexingEvent) -> tuple[str, dict[str, Any], str] | None:
    """An event's name, its values and what a person reads; None for what is no change."""
    from localrag.indexing import events
    from localrag.presentation.records import picked

    match event:
        case events.Failed(source, error):
            reason = spoken(error)
            return "failed", {"source": source, "reason": reason}, reason
        case events.Watching(folders, files):
            values = {"folders": list(folders), "files": files}
            names = ", ".join(folders)
            return "watching", values, tr("{files} files in {folders}", files=files, folders=names)
        case events.Polled(why=why):
            values = picked(event, "source", "why", "seconds", "reason")
            return "polled", values, tr(POLLED[why], **values)
        case events.Away(why=why):
            values = picked(event, "source", "why", "reason")
            return "away", values, tr(AWAY[why], **values)
        case events.Committed(replaced=replaced):
            name, values = "updated" if replaced else "added", picked(event, "source", "chunks")
        case events.Withheld():
            name, values = "withheld", picked(event, "source", "gone", "files")
        case events.Waiting(holder):
            name, values = "waiting", {"holder": holder}
        case events.Linked():
            name, values = "linked", picked(event, "source")
        case events.Removed():
            name, values = "removed", picked(event, "source")
        case events.Back():
            name, values = "back", picked(event, "source")
        case events.Restless():
            name, values = "restless", picked(event, "source")
        case _:
            return None
    return name, values, tr(CHANGES[name], **values)
