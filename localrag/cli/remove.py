"""`localrag remove`: documents out of the library."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import common_options, emit_json, no_empty_path, note, note_tr, say_tr
from localrag.errors import UsageError
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(help=tr("Remove files, or all files in a folder, from the library."))
@click.argument(
    "sources",
    nargs=-1,
    metavar=tr("PATH..."),
    type=click.Path(),
    callback=no_empty_path,
)
@click.option(
    "--everything",
    is_flag=True,
    help=tr("Delete the whole library, from its folder or its database; asks for its name first."),
)
@click.option("--yes", is_flag=True, help=tr("With --everything: do not ask."))
@common_options
def remove(
    sources: tuple[str, ...], everything: bool, yes: bool, library: Location, as_json: bool
) -> None:
    """Remove and say what went."""
    if everything == bool(sources):
        raise UsageError(
            "Give the files to remove, or --everything.", hint="See `localrag remove --help`."
        )
    if everything:
        _delete(library, yes=yes, as_json=as_json)
        return
    from localrag.api import LocalRAG
    from localrag.cli.progress import say_waiting
    from localrag.library.folder.gate import uploads

    with LocalRAG.open(library, create=False) as rag:
        folder = rag.library.directory
        copies = {path.name for path in uploads(folder)}
        removal = rag.remove(sources, on_wait=say_waiting)
        erases = rag.library.backend.erases
    copies &= {Path(source).name for source in removal.sources}
    copies -= {path.name for path in uploads(folder)}
    if as_json:
        from localrag.presentation.records import picked

        fields = picked(removal, "sources", "documents", "chunks", "purged")
        emit_json(fields | {"reason": spoken(removal.fault) if removal.fault else ""})
        return
    say_tr(
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
    if not erases:
        note_tr(
            "The database no longer shows it to anyone. When its bytes leave the server's "
            "tables, logs and backups is up to the server."
        )
    if removal.unread:
        say_tr(
            "Also forgotten, of files that could not be read: {count}.",
            count=len(removal.unread),
        )
    if removal.fault:
        note(spoken(removal.fault))
        note_tr(
            "What was removed can no longer be found, but some of its text stays in the "
            "library's files until the next command that opens the library finishes the "
            "removal."
        )
    elif not removal.purged:
        note_tr(
            "Another process is reading the library: some removed text stays in the log "
            "until the first change after that process ends."
        )


def _delete(library: Location, *, yes: bool, as_json: bool) -> None:
    from localrag import hosted
    from localrag.cli.progress import say_waiting
    from localrag.config.settings import load_settings
    from localrag.library.backends.opening import open_backend
    from localrag.library.library import delete_library
    from localrag.library.location import name_of

    library = hosted.reachable(library, load_settings())
    with closing(open_backend(library)) as backend:  # that it is there is said first
        erases = backend.erases
    if not yes:
        _confirm(str(library), name_of(library))
    remnant = delete_library(library, on_wait=say_waiting)
    if as_json:
        emit_json({"library": str(library), "deleted": True, "left": remnant})
        return
    say_tr("The library {directory} is deleted.", directory=str(library))
    if remnant == "others":
        note_tr("Its folder stays, as it holds files that are not localrag's.")
    if remnant == "cache":
        note_tr("Some of its indexes are in use and stay in the cache of this computer.")
    if not erases:
        note_tr(
            "A running server on another computer deletes its indexes within ten seconds; "
            "otherwise they stay in that computer's cache for up to 90 days. When the bytes "
            "leave the server's tables, logs and backups is up to the server."
        )


def _confirm(library: str, name: str) -> None:
    """Raise UsageError unless somebody types the name."""
    if not _interactive():
        raise UsageError(
            "Deleting the library {library} needs a yes.",
            hint="Type its name in a terminal, or give --yes.",
            library=library,
        )
    question = tr(
        "This deletes {library} with all that it holds. Type {name} to go on",
        library=library,
        name=name,
    )
    typed = click.prompt(question, err=True, default="", show_default=False)
    if typed.strip() != name:
        raise UsageError(
            "{typed} is not its name; nothing was deleted.",
            hint="Run the command again and type {name}.",
            typed=repr(typed),
            name=name,
        )


def _interactive() -> bool:
    return sys.stdin.isatty()
