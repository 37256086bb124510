"""`localrag share`: a library for a group, on purpose."""

from __future__ import annotations

from pathlib import Path

import click

from localrag.cli.output import library_option, say
from localrag.errors import UsageError
from localrag.messages import tr


@click.command(
    help=tr(
        "Open a library to a group of this machine: its members may read and change it, and "
        "nobody else. Each of them runs `localrag share --accept` once, to trust the indexes that "
        "the others make."
    )
)
@click.argument("group", required=False, metavar=tr("GROUP"))
@click.option("--accept", is_flag=True, help=tr("Trust what the members of its group make."))
@click.option("--off", is_flag=True, help=tr("Close it to everybody but yourself again."))
@library_option
def share(group: str | None, accept: bool, off: bool, library: Path) -> None:
    """Open, accept, or close."""
    from localrag.library.folder import sharing

    if sum((group is not None, accept, off)) != 1:
        raise UsageError(
            "Name a group, or --accept, or --off.", hint="See `localrag share --help`."
        )
    if group is not None:
        sharing.share(library, group)
        text = tr(
            "The library is open to the group {group}, as far as its members can reach the "
            "folder. Each of them runs `localrag share --accept` once.",
            group=group,
        )
    elif accept:
        sharing.accept(library)
        text = tr("What the members of its group make of this library is trusted from now on.")
    else:
        sharing.unshare(library)
        text = tr("The library is closed to everybody but you.")
    say(text)
