"""`localrag share`: a library for a group, on purpose."""

from __future__ import annotations

from pathlib import Path

import click

from localrag.cli.output import library_option, say
from localrag.errors import UsageError
from localrag.messages import tr


@click.command(
    help=tr(
        "Share a library with a group on this machine: its members, and nobody else, may "
        "read and change it. Each member runs `localrag share --accept` once, to trust the "
        "indexes that the others build."
    )
)
@click.argument("group", required=False, metavar=tr("GROUP"))
@click.option("--accept", is_flag=True, help=tr("Trust what the members of its group build."))
@click.option("--off", is_flag=True, help=tr("Stop sharing: the library is yours alone again."))
@library_option
def share(group: str | None, accept: bool, off: bool, library: Path) -> None:
    """Open, accept, or close."""
    from localrag.library.folder import sharing

    if sum((group is not None, accept, off)) != 1:
        raise UsageError("Give a group, --accept or --off.", hint="See `localrag share --help`.")
    if group is not None:
        sharing.share(library, group)
        text = tr(
            "The library is now shared with the group {group}, provided that its members can "
            "reach the folder. Each member runs `localrag share --accept` once.",
            group=group,
        )
    elif accept:
        sharing.accept(library)
        text = tr("What the members of its group build for this library is trusted from now on.")
    else:
        sharing.unshare(library)
        text = tr("The library is no longer shared: it is yours alone.")
    say(text)
