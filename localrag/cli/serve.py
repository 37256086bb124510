"""`localrag serve`: libraries for a page and for other people's clients."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import any_library_option, no_empty_path, note, note_rebuilding, say
from localrag.messages import tr

PORT = 8765
HOST = "127.0.0.1"

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(
    help=tr("Serve libraries on this machine, with an OpenAI-compatible interface for clients.")
)
@click.argument("folders", nargs=-1, metavar=tr("[DIR...]"), callback=no_empty_path)
@click.option(
    "--host",
    default=HOST,
    metavar=tr("ADDRESS"),
    help=tr(
        "Address to listen at; {host} unless said otherwise. Beyond this machine only with "
        "--tls-cert and --tls-key.",
        host=HOST,
    ),
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=PORT,
    metavar=tr("PORT"),
    help=tr("Port to listen on; {port} unless said otherwise.", port=PORT),
)
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path),
    metavar=tr("FILE"),
    help=tr("Certificate (PEM) by whose names the server is called, for TLS."),
)
@click.option(
    "--tls-key",
    type=click.Path(path_type=Path),
    metavar=tr("FILE"),
    help=tr("Key of the certificate (PEM)."),
)
@click.option(
    "--behind-proxy",
    metavar="URL",
    help=tr("Address of a reverse proxy on this machine that speaks TLS: https://NAME[:PORT]."),
)
@click.option("--open", "opens", is_flag=True, help=tr("Open the page in the browser."))
@any_library_option
def serve(
    folders: tuple[str, ...],
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: str | None,
    opens: bool,
    library: Location,
) -> None:
    """Serve until interrupted."""
    from localrag.system.memory import wipe_what_is_freed

    wipe_what_is_freed()
    from localrag.cli import browser
    from localrag.config.settings import load_settings
    from localrag.engine import Engine, open_engine
    from localrag.errors import LibraryNotFoundError
    from localrag.library.location import location_of
    from localrag.server import endpoint
    from localrag.server.access import Access
    from localrag.server.app import make_app
    from localrag.server.commands import command_app
    from localrag.server.libraries import Libraries
    from localrag.server.listening import bind, run
    from localrag.server.queue import ModelQueue
    from localrag.server.reach import reach
    from localrag.server.token import TOKEN_VARIABLE, own_token, server_folder

    reached = reach(host, tls_cert, tls_key, behind_proxy)
    settings = load_settings()

    begun = False

    def opened(folder: Location) -> Engine:
        try:
            return open_engine(folder, settings, create=False, on_damage=note_rebuilding)
        except LibraryNotFoundError:
            if begun or folder != library:  # it was deleted, or its name mistyped
                raise
            return open_engine(folder, settings, create=True)

    place = server_folder() / "token"
    libraries = Libraries([library, *map(location_of, folders)], opened)
    empty = [
        name
        for name in reversed(libraries.names)  # what is no library is said before one is made
        if libraries.engine(name).library.is_empty()
    ]
    begun = True
    token = own_token(place)
    access = Access(
        token, port, names=reached.names, tls=reached.tls is not None, proxy=reached.proxy
    )
    listening = bind(reached.host, port)

    def ready() -> None:
        say(tr("Serving {names} at {url}", names=", ".join(libraries.names), url=url))
        for name in empty:
            note(
                tr(
                    "The library {name} is empty: drop files on the page, or add them with "
                    "`localrag add`.",
                    name=name,
                )
            )
        held_in = TOKEN_VARIABLE if TOKEN_VARIABLE in os.environ else place
        note(tr("Clients need the token in {place}. Ctrl-C ends it.", place=held_in))
        if opens and not held.enter_context(browser.opened(url)):
            note(tr("No browser was found; open the address above in one."))

    url = f"{access.origins[0]}/#token={token}"
    queue = ModelQueue()
    with listening, endpoint.listening(place.parent) as way, ExitStack() as held:
        commands = (command_app(libraries, queue, way[0], token), way[1]) if way else None
        run(make_app(libraries, access, queue, note), listening, ready, commands, reached.tls)
