"""`localrag status`: what is in the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import ListItem, common_options, emit_json, say_tr, stdout_console, table
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.table import Table

    from localrag.library.location import Location
    from localrag.library.records import Lacking, LibraryStatus, PageReading, Problem


_LISTED = ("id", "title", "sources", "pages", "chunks", "language", "added_at", "metadata")


@click.command(help=tr("Show what is in the library."))
@click.option("--documents", is_flag=True, help=tr("List every document."))
@click.option(
    "--problems",
    "only_problems",
    is_flag=True,
    help=tr("List the files that were not read and the pages that were not read well."),
)
@common_options
def status(documents: bool, only_problems: bool, library: Location, as_json: bool) -> None:
    """Print counts, sizes and models; no model is loaded."""
    from localrag.ahead import kept_ahead
    from localrag.api import LocalRAG
    from localrag.cli.served import reason_text, running
    from localrag.presentation.ahead import kept_json, kept_text

    with LocalRAG.open(library, create=False) as rag:
        problems = rag.problems()
        if only_problems:
            _print_problems(problems, as_json=as_json)
            return
        library_status, readings = rag.status(), rag.library.readings()
        records = rag.library.documents() if documents or as_json else []
        server, why = running(library, rag.settings)
        ahead = kept_ahead(rag.library)
        is_vault = rag.library.backend.vault is not None
    if as_json:
        from localrag.presentation.reading import pages_read
        from localrag.presentation.records import picked

        emit_json(
            {
                "library": str(library_status.location),
                **picked(library_status.counts, "documents", "sources", "pages", "chunks"),
                "pages_read": pages_read(library_status.counts.pages, readings),
                "problems": len(problems),
                "outdated": library_status.outdated,
                "bytes": library_status.counts.size,
                "bytes_on_disk": library_status.size_on_disk,
                "embedding": {
                    "model": library_status.embedding.name,
                    "dimension": library_status.embedding.dimension,
                },
                "generation": library_status.generation,
                "ahead": kept_json(ahead),
                "indexes": [
                    picked(index, "name", "present", "behind", "where", "lacking")
                    for index in library_status.derived
                ],
                **picked(library_status, "writer", "shared", "without_modes"),
                "server": {"used": server is not None, "reason": why} if server or why else None,
                # Of its disk nothing is known: what is no vault may be encrypted all the same.
                "encryption": {
                    "library": {"encrypted": is_vault or None, "by": "vault" * is_vault}
                },
                "list": [picked(record, *_LISTED) for record in records],
            }
        )
        return
    console = stdout_console()
    more = {tr("Read ahead"): kept_text(ahead)} if ahead else {}
    more |= {tr("Encryption at rest"): tr("vault") if is_vault else tr("not by localrag")}
    if not isinstance(library, Path) and not library.is_local:
        more[tr("Database")] = tr("on another machine, over TLS, its certificate checked")
    if server is not None:
        more[tr("Server")] = tr("running; search, ask and chat use it")
    elif why is not None:
        more[tr("Server")] = tr("running, but not used: {reason}", reason=reason_text(why))
    console.print(_overview(library_status, readings, more))
    if problems:
        say_tr("Problems: {count} (localrag status --problems)", count=len(problems))
    if documents:
        from rich.console import Group
        from rich.text import Text

        heads = tr("Document"), tr("Pages"), tr("Passages"), tr("Language"), tr("Added")
        rows = (
            (
                Group(*(ListItem(Text(as_name(source))) for source in record.sources)),
                *(str(record.pages), str(record.chunks), record.language),
                record.added_at[:16].replace("T", " "),
            )
            for record in records
        )
        console.print()
        console.print(table(heads, rows, overflow="fold"))


def _print_problems(problems: Sequence[Problem], *, as_json: bool) -> None:
    from localrag.cli.problems import print_problems
    from localrag.presentation.reading import problems_json

    if as_json:
        emit_json({"problems": problems_json(problems)})
    elif problems:
        print_problems(stdout_console(), problems)
    else:
        say_tr("Every file was read, and every page of them well.")


def _lacking(what: Lacking) -> str:
    if what == "index":
        return tr("pgvector takes over with the next change of the library")
    return tr(
        "searched on this computer, as the database has no pgvector 0.8 or newer: have its "
        "administrator run CREATE EXTENSION vector there"
    )


def _overview(
    library_status: LibraryStatus, readings: Sequence[PageReading], more: Mapping[str, str]
) -> Table:
    from rich.filesize import decimal

    from localrag.presentation.reading import recognised_text

    counts = library_status.counts
    rows = {
        tr("Library"): str(library_status.location),
        tr("Documents"): str(counts.documents),
        tr("Files"): str(counts.sources),
        tr("Pages"): str(counts.pages),
        tr("OCR"): recognised_text(readings) or tr("none"),
        tr("Passages"): str(counts.chunks),
    }
    if library_status.outdated:
        rows[tr("Read by an older version")] = tr(
            "{count} documents; `localrag rebuild` reads them again, if their files are there",
            count=library_status.outdated,
        )
    rows[tr("Size on disk")] = decimal(library_status.size_on_disk)
    rows[tr("Embedding model")] = tr(
        "{model} ({dimension} dimensions)",
        model=library_status.embedding.name,
        dimension=library_status.embedding.dimension,
    )
    names = {"vectors": tr("vectors"), "keywords": tr("keywords")}
    for index in library_status.derived:
        state = tr("up to date") if index.present and not index.behind else tr("will catch up")
        if index.where == "database":
            state = tr("in the database, by pgvector")
        elif index.lacking:
            state = f"{state}; {_lacking(index.lacking)}"
        rows[tr("Index {name}", name=names.get(index.name, index.name))] = state
    if kind := library_status.without_modes:
        rows[tr("Open to")] = tr("anyone who can read the drive ({kind})", kind=kind)
    elif library_status.shared:
        rows[tr("Open to")] = tr("its group, whose key you have accepted")
    rows |= more
    if library_status.writer:
        rows[tr("In use by")] = library_status.writer
    grid = table(("", ""), rows.items())
    grid.show_header = False
    return grid
