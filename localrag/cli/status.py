"""`localrag status`: what is in the library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import Item, emit_json, json_option, library_option, stdout_console
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.table import Table

    from localrag.library.records import LibraryStatus


_LISTED = ("id", "title", "sources", "pages", "chunks", "language", "added_at", "metadata")


@click.command(help=tr("Show what is in the library."))
@click.option("--documents", is_flag=True, help=tr("List every document."))
@library_option
@json_option
def status(documents: bool, library: Path, as_json: bool) -> None:
    """Print counts, sizes and models; no model is loaded."""
    from localrag.api import LocalRAG
    from localrag.cli import at_rest

    with LocalRAG.open(library, create=False) as rag:
        found = rag.status()
        records = rag.library.documents() if documents or as_json else []
    encryption = at_rest.protections(library, ask=sys.platform != "linux")
    if as_json:
        from localrag.presentation.records import picked

        emit_json(
            {
                "library": str(found.directory),
                "documents": found.counts.documents,
                "sources": found.counts.sources,
                "pages": found.counts.pages,
                "chunks": found.counts.chunks,
                "bytes": found.counts.size,
                "bytes_on_disk": found.size_on_disk,
                "embedding": {
                    "model": found.embedding.name,
                    "dimension": found.embedding.dimension,
                },
                "generation": found.generation,
                "indexes": [picked(one, "name", "present", "behind") for one in found.derived],
                "writer": found.writer,
                "shared": found.shared,
                "without_modes": found.without_modes,
                "encryption": at_rest.as_json(encryption),
                "list": [picked(record, *_LISTED) for record in records],
            }
        )
        return
    console = stdout_console()
    console.print(_overview(found, at_rest.sentence(encryption)))
    if documents:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in (tr("Document"), tr("Pages"), tr("Passages"), tr("Language"), tr("Added")):
            table.add_column(heading, overflow="fold")
        for record in records:
            table.add_row(
                Group(*(Item(Text(as_name(source))) for source in record.sources)),
                str(record.pages),
                str(record.chunks),
                as_name(record.language),
                as_name(record.added_at[:16]).replace("T", " "),
            )
        console.print()
        console.print(table)


def _overview(found: LibraryStatus, encryption: str) -> Table:
    from rich.filesize import decimal
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row(tr("Library"), as_name(found.directory))
    table.add_row(tr("Documents"), str(found.counts.documents))
    table.add_row(tr("Files"), str(found.counts.sources))
    table.add_row(tr("Pages"), str(found.counts.pages))
    table.add_row(tr("Passages"), str(found.counts.chunks))
    table.add_row(tr("Size on disk"), decimal(found.size_on_disk))
    table.add_row(
        tr("Embedding model"),
        tr(
            "{model} ({dimension} dimensions)",
            model=found.embedding.name,
            dimension=found.embedding.dimension,
        ),
    )
    for index in found.derived:
        state = tr("up to date") if index.present and not index.behind else tr("will catch up")
        name = {"vectors.faiss": tr("vectors"), "keywords": tr("keywords")}.get(
            index.name, index.name
        )
        table.add_row(tr("Index {name}", name=name), state)
    if found.without_modes:
        table.add_row(
            tr("Open to"), tr("anyone who can read the drive ({kind})", kind=found.without_modes)
        )
    elif found.shared:
        table.add_row(tr("Open to"), tr("its group, whose key you have accepted"))
    table.add_row(tr("Encryption at rest"), encryption)
    if found.writer:
        table.add_row(tr("In use by"), as_name(found.writer))
    return table
