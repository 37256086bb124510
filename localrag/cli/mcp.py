"""`localrag mcp`: libraries for assistants that speak the Model Context Protocol, on pipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from localrag.cli.output import any_library_option, no_empty_path, note_rebuilding
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(
    help=tr("Offer libraries to an assistant that starts this command (Model Context Protocol).")
)
@click.argument("folders", nargs=-1, metavar=tr("[DIR...]"), callback=no_empty_path)
@click.option(
    "--allow-add", is_flag=True, help=tr("Let the assistant add files of yours to the libraries.")
)
@any_library_option
def mcp(folders: tuple[str, ...], allow_add: bool, library: Location) -> None:
    """Serve until standard input ends."""
    from contextlib import ExitStack

    from localrag.config.settings import load_settings
    from localrag.engine import open_engine
    from localrag.library.location import location_of
    from localrag.server.following import Follower
    from localrag.server.libraries import Libraries
    from localrag.server.mcp import Protocol, serve_on_pipes
    from localrag.server.pages import Pages
    from localrag.server.queue import ModelQueue
    from localrag.server.tools import Tools

    settings = load_settings()
    libraries = Libraries(
        [library, *map(location_of, folders)],
        lambda folder: open_engine(folder, settings, create=False, on_damage=note_rebuilding),
    )
    with ExitStack() as stack:
        stack.callback(libraries.close)
        for name in libraries.names:
            libraries.engine(name)  # a folder that is no library is said now
        pages = Pages()
        stack.callback(pages.forget)
        stack.enter_context(Follower(libraries, lambda name, _: pages.forget(name)))
        tools = Tools(libraries, ModelQueue(), pages, allow_add=allow_add)
        serve_on_pipes(Protocol(tools).server)
