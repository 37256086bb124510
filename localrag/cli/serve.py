"""`localrag serve`: libraries for a page and for other people's clients, on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from localrag.cli.output import library_option, no_empty_path, note, note_rebuilding, say
from localrag.messages import tr

PORT = 8765


@click.command(
    help=tr("Serve libraries on this machine, with an OpenAI-compatible interface for clients.")
)
@click.argument("folders", nargs=-1, metavar=tr("[DIR...]"), callback=no_empty_path)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=PORT,
    metavar=tr("NUMBER"),
    help=tr("Port to listen on; {port} unless said otherwise.", port=PORT),
)
@library_option
def serve(folders: tuple[str, ...], port: int, library: Path) -> None:
    """Serve until interrupted."""
    from localrag.config.settings import load_settings
    from localrag.engine import Engine, open_engine
    from localrag.errors import LibraryNotFoundError
    from localrag.server import endpoint
    from localrag.server.access import Access
    from localrag.server.app import make_app
    from localrag.server.commands import command_app
    from localrag.server.libraries import Libraries
    from localrag.server.listening import bind, run
    from localrag.server.queue import ModelQueue
    from localrag.server.token import own_token, server_folder

    settings = load_settings()

    def opened(folder: Path) -> Engine:
        try:
            return open_engine(folder, settings, create=False, on_damage=note_rebuilding)
        except LibraryNotFoundError:
            if folder != library:  # a name that was mistyped, rather
                raise
            return open_engine(folder, settings, create=True)

    place = server_folder() / "token"
    libraries = Libraries([library, *(Path(folder).expanduser() for folder in folders)], opened)
    empty = [
        name
        for name in libraries.names  # a folder that is no library is said now
        if not libraries.engine(name).library.counts().documents
    ]
    token = own_token(place)
    access = Access(token, port)
    listening = bind("127.0.0.1", port)

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
        note(tr("Clients need the token in {place}. Ctrl-C ends it.", place=place))

    url = f"http://127.0.0.1:{port}/#token={token}"
    queue = ModelQueue()
    with listening, endpoint.listening(place.parent) as way:
        commands = (command_app(libraries, queue, way[0], token), way[1]) if way else None
        run(make_app(libraries, access, queue), listening, ready, commands)
