"""`localrag remove`: documents out of the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import any_library_option, emit_json, json_option, no_empty_path, note, say
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(help=tr("Remove files, or all files in a folder, from the library."))
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar=tr("PATH..."),
    type=click.Path(),
    callback=no_empty_path,
)
@any_library_option
@json_option
def remove(sources: tuple[str, ...], library: Location, as_json: bool) -> None:
    """Remove and say what went."""
    from localrag.api import LocalRAG
    from localrag.cli.progress import say_waiting
    from localrag.library.folder.gate import uploads

    with LocalRAG.open(library, create=False) as rag:
        folder = rag.library.directory
        copies = {path.name for path in uploads(folder)}
        removal = rag.remove(sources, on_wait=say_waiting)
    copies &= {Path(source).name for source in removal.sources}
    copies -= {path.name for path in uploads(folder)}
    if as_json:
        from localrag.presentation.records import picked

        told = picked(removal, "sources", "documents", "chunks", "purged")
        emit_json(told | {"reason": spoken(removal.fault) if removal.fault else ""})
        return
    say(
        tr(
            "Removed files: {sources}, documents: {documents}, passages: {chunks}. "
            "The copies that the library kept of files added in the browser are deleted, too; "
            "other files were not touched."
            if copies
            else "Removed files: {sources}, documents: {documents}, passages: {chunks}. "
            "The files themselves were not touched.",
            sources=len(removal.sources),
            documents=len(removal.documents),
            chunks=removal.chunks,
        )
    )
    if not isinstance(library, Path):
        note(
            tr(
                "The database no longer shows it to anyone. When its bytes leave the server's "
                "tables, logs and backups is up to the server."
            )
        )
    if removal.unread:
        say(
            tr(
                "Also forgotten, of files that could not be read: {count}.",
                count=len(removal.unread),
            )
        )
    if removal.fault:
        note(spoken(removal.fault))
        note(
            tr(
                "What was removed can no longer be found, but some of its text stays in the "
                "library's files until the next command that opens the library finishes the "
                "removal."
            )
        )
    elif not removal.purged:
        note(
            tr(
                "Another process is reading the library: some removed text stays in the log "
                "until the first change after that process ends."
            )
        )
